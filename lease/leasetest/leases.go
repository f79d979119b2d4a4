package leasetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/link"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// holder is a lease with its generator, as a process would have it.
type holder struct {
	*lease.Lease
	*snowflake.Generator
	owner   string
	network *link.Link
	behind  *atomic.Int64 // by how many nanoseconds its clock is behind
}

// Worker returns the worker ID, which lease and generator share.
func (h *holder) Worker() int { return h.Lease.Worker() }

// acquire takes one of the worker IDs 0 and 1.
func (s *suite) acquire(owner string, window time.Duration) (*holder, error) {
	network, behind := link.To(s.storage.Open()), new(atomic.Int64)
	l, err := lease.Acquire(s.ctx, network, &lease.Options{
		Layout: snowflake.ClockSeqLayout(), Owner: owner, Count: 2, Window: window, NewStore: true, OnLoss: lease.Stop,
		Clock:   snowflake.ClockFunc(func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }),
		MaxLeap: 24 * time.Hour, // the engine's clock need not be right
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	s.Cleanup(func() {
		network.Cut(true)
		_ = l.Release(context.Background()) // it ends, and cannot tell the store
	})
	g, err := snowflake.NewLeased(l, &snowflake.Options{OnBackward: snowflake.ClockSeqPolicy()})
	return &holder{l, g, owner, network, behind}, err
}

func (s *suite) mustAcquire(owner string, window time.Duration) *holder {
	s.Helper()
	h, err := s.acquire(owner, window)
	if err != nil {
		s.Fatalf("%s acquires: %v", owner, err)
	}
	return h
}

// issue issues an ID that was not issued before.
func (s *suite) issue(seen map[snowflake.ID]string, h *holder) snowflake.ID {
	s.Helper()
	id, err := h.NextIDContext(s.ctx)
	for errors.Is(err, snowflake.ErrLeaseExpired) && h.Err() == nil && s.ctx.Err() == nil { // on a busy machine a renewal may be late
		time.Sleep(s.window / 20)
		id, err = h.NextIDContext(s.ctx)
	}
	if err != nil {
		s.Fatalf("%s: %v", h.owner, err)
	}
	if by, ok := seen[id]; ok {
		s.Fatalf("%s issues %d, which %s issued before", h.owner, id, by)
	}
	seen[id] = h.owner
	return id
}

// leases: two holders have two worker IDs, and a third gets one that was released. Each ID names its
// issuer, also when the worker ID has changed hands.
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
			s.Errorf("the ID of %s was issued by %q, says Whois: %v", owner, h.Owner, err)
		}
	}
	records, err := lease.Holders(s.ctx, s.storage.Open())
	if err != nil || len(records) != 2 || records[worker].Owner != "c" || records[1-worker].Owner != "b" {
		s.Errorf("the holders are %v: %v", records, err)
	}
}

// crashed: the worker ID of a holder that is cut off goes to another one, and only when its window has ended.
// The old holder stops, and learns that it has lost it.
func (s *suite) crashed() {
	seen := map[snowflake.ID]string{}
	s.mustAcquire("another", lease.MaxWindow)
	a := s.mustAcquire("a", s.window)
	s.issue(seen, a)
	a.network.Cut(true)
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
	if id, err := a.NextID(); !errors.Is(err, snowflake.ErrLeaseExpired) {
		s.Errorf("the holder that was cut off issues %d: %v", id, err)
	}
	a.network.Cut(false)
	select {
	case <-a.Done():
	case <-s.ctx.Done():
		s.Errorf("the old holder does not learn that it lost its worker ID: %+v", a.Lease.Stats())
	}
}

// lost: a holder whose record is removed puts it back when it saves the next time, and goes on. If its clock steps back, it saves
// another clock sequence at once.
func (s *suite) lost() {
	store, seen := s.storage.Open(), map[snowflake.ID]string{}
	a := s.mustAcquire("a", lease.MaxWindow)
	s.issue(seen, a)
	key := fmt.Sprint("worker/", a.Worker())
	s.delete(store, key, s.get(store, key).Version)
	a.behind.Store(int64(time.Hour))
	s.issue(seen, a)
	if e := s.get(store, key); e.Version == "" {
		s.Fatalf("the record does not come back: %+v", a.Lease.Stats())
	}
	if err := a.Err(); err != nil {
		s.Errorf("the holder has lost its worker ID: %v", err)
	}
}
