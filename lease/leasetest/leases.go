package leasetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/netcut"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// acquire acquires worker ID 0 or 1.
func (s *suite) acquire(owner string, window time.Duration) (*netcut.Holder, error) {
	return netcut.Join(s.ctx, s.T, s.storage.Open(), lease.Options{
		Layout: snowflake.ClockSeqLayout(), Owner: owner, Count: 2, Window: window, NewStore: true,
	})
}

func (s *suite) mustAcquire(owner string, window time.Duration) *netcut.Holder {
	s.Helper()
	h, err := s.acquire(owner, window)
	if err != nil {
		s.Fatalf("%s acquires: %v", owner, err)
	}
	return h
}

// issue returns a new ID, and fails the test if it is in seen.
func (s *suite) issue(seen map[snowflake.ID]string, h *netcut.Holder) snowflake.ID {
	s.Helper()
	id, err := h.Gen.NextIDContext(s.ctx)
	// On a busy machine a renewal may be late.
	for errors.Is(err, snowflake.ErrLeaseExpired) && h.Err() == nil && s.ctx.Err() == nil {
		time.Sleep(s.window / 20)
		id, err = h.Gen.NextIDContext(s.ctx)
	}
	if err != nil {
		s.Fatalf("%s: %v", h.Name, err)
	}
	if by, ok := seen[id]; ok {
		s.Fatalf("%s issues %d, which %s issued before", h.Name, id, by)
	}
	seen[id] = h.Name
	return id
}

// leases: two holders have different worker IDs, and a third gets one that was released. Whois
// names each ID's issuer, even after the worker ID has changed hands.
func (s *suite) leases() {
	seen := map[snowflake.ID]string{}
	a, b := s.mustAcquire("a", lease.MaxWindow), s.mustAcquire("b", lease.MaxWindow)
	ids := []snowflake.ID{s.issue(seen, a), s.issue(seen, b)}
	worker := a.Worker()
	if err := a.Release(s.ctx); err != nil {
		s.Fatalf("releasing: %v", err)
	}
	c := s.mustAcquire("c", lease.MaxWindow)
	if worker == b.Worker() || worker != c.Worker() {
		s.Fatalf("the worker IDs are %d, %d and, when the first was released, %d", worker, b.Worker(), c.Worker())
	}
	ids = append(ids, s.issue(seen, c))
	for i, owner := range []string{"a", "b", "c"} {
		if h, err := lease.Whois(s.ctx, s.storage.Open(), ids[i]); err != nil || h.Owner != owner {
			s.Errorf("Whois names %[2]q as the issuer of the ID of %[1]s: %[3]v", owner, h.Owner, err)
		}
	}
	records, err := lease.Holders(s.ctx, s.storage.Open())
	if err != nil || len(records) != 2 || records[worker].Owner != "c" || records[1-worker].Owner != "b" {
		s.Errorf("the holders are %v: %v", records, err)
	}
}

// crashed: after a holder is cut off, another one gets its worker ID, but only from the end of its
// window on. The old holder stops, and learns that it has lost the worker ID.
func (s *suite) crashed() {
	seen := map[snowflake.ID]string{}
	s.mustAcquire("another", lease.MaxWindow)
	a := s.mustAcquire("a", s.window)
	s.issue(seen, a)
	a.Network.Cut(true)
	bound := a.Grant().To
	b, err := s.acquire("b", s.window)
	for errors.Is(err, lease.ErrExhausted) {
		b, err = s.acquire("b", s.window)
	}
	if err != nil || b.Worker() != a.Worker() || b.Grant().From.Before(bound) {
		s.Fatalf("b acquires %+v: %v", b, err)
	}
	for range 100 {
		s.issue(seen, b)
	}
	if id, err := a.Gen.NextID(); !errors.Is(err, snowflake.ErrLeaseExpired) {
		s.Errorf("the holder that was cut off issues %d: %v", id, err)
	}
	a.Network.Cut(false)
	select {
	case <-a.Done():
	case <-s.ctx.Done():
		s.Errorf("the old holder does not learn that it lost its worker ID: %+v", a.Stats())
	}
}

// lost: a holder whose record is removed puts it back at its next save and keeps its worker ID. A
// step back of its clock makes it save another clock sequence at once.
func (s *suite) lost() {
	store, seen := s.storage.Open(), map[snowflake.ID]string{}
	a := s.mustAcquire("a", lease.MaxWindow)
	s.issue(seen, a)
	key := fmt.Sprint("worker/", a.Worker())
	s.delete(store, key, s.get(store, key).Version)
	a.StepBack(time.Hour)
	s.issue(seen, a)
	if e := s.get(store, key); e.Version == "" {
		s.Fatalf("the record does not come back: %+v", a.Stats())
	}
	if err := a.Err(); err != nil {
		s.Errorf("the holder has lost its worker ID: %v", err)
	}
}

// unreadable: if an entry that all processes need cannot be read, it is replaced. If a record
// cannot be read, its holder loses its worker ID. Newcomers start, and the watermark rises. The
// test skips the waits of minutes.
func (s *suite) unreadable() {
	store, seen := s.storage.Open(), map[snowflake.ID]string{}
	a := s.mustAcquire("a", steady)
	s.issue(seen, a)
	mark := s.watermark(store)
	for _, key := range []string{"watermark", "store"} {
		s.garble(store, key)
		if next := s.watermark(store); next < mark {
			s.Fatalf("the watermark falls from %d to %d when %s cannot be read", mark, next, key)
		}
		s.isReadable(store, key)
		s.garble(store, key)
		b := s.starts(store, "b")
		s.isReadable(store, key)
		s.issue(seen, b)
		s.issue(seen, a)
		if err := b.Release(s.ctx); err != nil {
			s.Fatalf("releasing: %v", err)
		}
	}
	mark = s.watermark(store)

	s.garble(store, fmt.Sprint("worker/", a.Worker()))
	a.StepBack(time.Hour)
	for a.Err() == nil && s.ctx.Err() == nil {
		_, _ = a.Gen.NextIDContext(s.ctx)
	}
	if err := a.Err(); !errors.Is(err, lease.ErrLost) {
		s.Fatalf("a holder whose record cannot be read does not lose its worker ID: %v", err)
	}
	s.watermark(store) // starts the wait for the end of the unreadable record's window
	s.garble(store, "silence")
	s.watermark(store)
	s.isReadable(store, "silence")
	c := s.starts(store, "c")
	s.issue(seen, c)
	if c.Worker() == a.Worker() {
		s.Fatalf("worker ID %d is taken although its record cannot be read", c.Worker())
	}
	for s.watermark(store) <= mark { // on a busy machine, the reader may start the wait again
		time.Sleep(s.window / 20)
		if s.ctx.Err() != nil {
			s.Fatalf("the watermark does not rise from %d because of a record that cannot be read", mark)
		}
	}
}

// garble makes an entry unreadable for the store or, if the store can read any content, for package
// lease.
func (s *suite) garble(store lease.Store, key string) {
	s.Helper()
	if s.storage.Garble != nil {
		s.storage.Garble(key)
		return
	}
	s.put(store, key, s.get(store, key).Version, `{"worker": 1, "tok`)
}

func (s *suite) isReadable(store lease.Store, key string) {
	s.Helper()
	if e := s.get(store, key); !json.Valid(e.Value) {
		s.Fatalf("the entry was not replaced: %s", show(e))
	}
}

// steady is a window long enough for holders to renew in time on a busy machine. If the watermark
// was lost, a newcomer waits for a window.
const steady = 5 * time.Second

// starts acquires a worker ID from a store that may have lost entries.
func (s *suite) starts(store lease.Store, owner string) *netcut.Holder {
	s.Helper()
	client := s.storage.Open()
	for wait := s.window; ; wait *= 2 {
		netcut.PretendToHaveWaited(s.ctx, store)
		ctx, cancel := context.WithTimeout(s.ctx, wait)
		h, err := netcut.Join(ctx, s.T, client, lease.Options{Layout: snowflake.ClockSeqLayout(), Owner: owner, Count: 2, Window: steady})
		cancel()
		if err == nil {
			return h
		}
		if !errors.Is(err, lease.ErrWiped) && !errors.Is(err, context.DeadlineExceeded) || s.ctx.Err() != nil {
			s.Fatalf("%s acquires: %v", owner, err)
		}
	}
}

// watermark reads the watermark of a store that may have lost entries.
func (s *suite) watermark(store lease.Store) snowflake.ID {
	s.Helper()
	for {
		netcut.PretendToHaveWaited(s.ctx, store)
		m, err := lease.Watermark(s.ctx, store)
		if err == nil {
			return m.ID
		}
		if !errors.Is(err, lease.ErrWiped) || s.ctx.Err() != nil {
			s.Fatalf("reading the watermark: %v", err)
		}
	}
}
