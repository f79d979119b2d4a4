package leasetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/link"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// long is the window of holders that must not look dead, even if the machine is slow.
const long = time.Minute

// coarse has long ticks, so that two holders with overlapping windows stamp the same ticks. The
// worker is in the lowest bits.
func coarse() snowflake.Layout {
	l := snowflake.SonyflakeLayout()
	l.Unit = 20 * time.Millisecond
	return l
}

// options returns the options of a holder that takes a worker ID from first to last.
func (s *suite) options(owner string, first, last int) lease.Options {
	return lease.Options{
		Layout:  coarse(),
		Owner:   owner,
		Window:  long,
		First:   first,
		Count:   last - first + 1,
		MaxLeap: 24 * time.Hour, // the engine's clock need not be right
		OnLoss:  lease.Stop,
		Logger:  slog.New(slog.DiscardHandler),
	}
}

// holder is a lease with its generator, as a process would have it.
type holder struct {
	*lease.Lease
	*snowflake.Generator
	s     *suite
	crash func() // from now on the record is not changed
}

// Worker returns the worker ID, which lease and generator share.
func (h *holder) Worker() int { return h.Lease.Worker() }

// acquire takes a worker ID as a new process would. When the test ends, the lease ends too, and its
// record is not changed.
func (s *suite) acquire(store lease.Store, o lease.Options) (*holder, error) {
	network, store := link.To(store)
	l, err := lease.Acquire(s.ctx, store, &o)
	if err != nil {
		return nil, err
	}
	crash := func() { network.Cut(true) }
	s.Cleanup(func() {
		crash()
		_ = l.Release(context.Background()) // it ends, and cannot tell the store
	})
	g, err := snowflake.NewLeased(l, &snowflake.Options{Layout: o.Layout, Clock: o.Clock, OnBackward: policy(o.Layout)})
	if err != nil {
		return nil, errors.Join(err, l.Release(s.ctx))
	}
	return &holder{l, g, s, crash}, nil
}

// policy uses the clock sequences, if there are any.
func policy(l snowflake.Layout) snowflake.BackwardPolicy {
	if l.ClockSeqBits > 0 {
		return snowflake.ClockSeqPolicy()
	}
	return snowflake.FailPolicy()
}

func (s *suite) mustAcquire(store lease.Store, o lease.Options) *holder {
	s.Helper()
	h, err := s.acquire(store, o)
	if err != nil {
		s.Fatalf("%s acquires: %v", o.Owner, err)
	}
	return h
}

// await acquires a worker ID that has to come free.
func (s *suite) await(store lease.Store, o lease.Options) *holder {
	s.Helper()
	for {
		h, err := s.acquire(store, o)
		if err == nil {
			return h
		}
		s.wants(err, lease.ErrExhausted, "%s acquires", o.Owner)
		time.Sleep(s.window / 20)
	}
}

// issued has all IDs of a test, and the name of the holder that issued each of them.
type issued struct {
	sync.Mutex
	by map[snowflake.ID]string
}

func newIssued() *issued { return &issued{by: map[snowflake.ID]string{}} }

// next issues one ID, and fails the test if the ID was issued before.
func (h *holder) next(seen *issued, name string) (snowflake.ID, error) {
	id, err := h.NextIDContext(h.s.ctx)
	if err != nil {
		return id, err
	}
	if w := h.Decode(id).Worker; w != h.Worker() {
		h.s.Errorf("%s has worker ID %d and issues IDs of %d", name, h.Worker(), w)
	}
	seen.Lock()
	defer seen.Unlock()
	if by, ok := seen.by[id]; ok {
		h.s.Errorf("%s issues %d (%v), which %s issued before", name, id, h.Decode(id), by)
	}
	seen.by[id] = name
	return id, nil
}

// issue issues n IDs and returns the last one. It fails the test if it cannot.
func (h *holder) issue(seen *issued, name string, n int) (last snowflake.ID) {
	h.s.Helper()
	for range n {
		id, err := h.next(seen, name)
		if err != nil {
			h.s.Fatalf("%s: %v", name, err)
		}
		last = id
	}
	return last
}

// exhaust issues IDs until the lease expires. It may run in a goroutine, because it does not end the
// test.
func (h *holder) exhaust(seen *issued, name string) (*snowflake.LeaseExpiredError, error) {
	for {
		if _, err := h.next(seen, name); err != nil {
			var expired *snowflake.LeaseExpiredError
			errors.As(err, &expired)
			return expired, err
		}
	}
}

// release releases h. If the store does not answer in time, as on a busy machine, it
// asks again.
func (s *suite) release(h *holder) {
	s.Helper()
	err := h.Release(s.ctx)
	for range 20 {
		if !errors.Is(err, context.DeadlineExceeded) || s.ctx.Err() != nil {
			break
		}
		err = h.Release(s.ctx)
	}
	if err != nil {
		s.Fatalf("releasing worker %d: %v", h.Worker(), err)
	}
}

func (s *suite) stored(store lease.Store, worker int) lease.Record {
	s.Helper()
	records := s.load(store).Records
	i := slices.IndexFunc(records, func(r lease.Record) bool { return r.Worker == worker })
	if i < 0 {
		s.Fatalf("worker %d has no record", worker)
	}
	return records[i]
}

func (s *suite) manyAtOnce() {
	const clients = 50
	var stores []lease.Store
	for range clients {
		stores = append(stores, s.storage.Open())
	}
	var got [clients]*holder
	together(clients, func(i int) {
		h, err := s.acquire(stores[i], s.options(fmt.Sprint("client ", i), 0, clients-1))
		if err != nil {
			s.Errorf("client %d of %d for as many worker IDs: %v", i, clients, err)
		}
		got[i] = h
	})
	if s.Failed() {
		return
	}
	by := map[int]int{}
	for i, h := range got {
		if j, ok := by[h.Worker()]; ok {
			s.Errorf("clients %d and %d have worker ID %d", i, j, h.Worker())
		}
		by[h.Worker()] = i
		if r := s.stored(stores[0], h.Worker()); r.Owner != fmt.Sprint("client ", i) || r.State != lease.Held {
			s.Errorf("worker %d, which client %d has, is recorded as %v", h.Worker(), i, r)
		}
	}
}

func (s *suite) fullRange() {
	const first, last = 5, 8
	names := map[int]string{}
	for i := range last - first + 1 {
		name := fmt.Sprint("holder ", i)
		h := s.mustAcquire(s.storage.Open(), s.options(name, first, last))
		if h.Worker() < first || h.Worker() > last || names[h.Worker()] != "" {
			s.Fatalf("of %d to %d, of which %v are held, %s has %d", first, last, names, name, h.Worker())
		}
		names[h.Worker()] = name
	}
	store := s.storage.Open()
	o := s.options("one more", first, last)
	o.Window = s.window
	_, err := s.acquire(store, o)
	s.wants(err, lease.ErrExhausted, "one more than the range has")
	var full *lease.ExhaustedError
	if !errors.As(err, &full) || full.First != first || full.Last != last || len(full.Records) != len(names) {
		s.Fatalf("the error does not say what is held: %#v", err)
	}
	for _, r := range full.Records {
		if name := names[r.Worker]; r.Owner != name || r.State != lease.Held || !r.Bound().After(time.Now()) {
			s.Errorf("of worker %d, which %s holds, the error says %v", r.Worker, name, r)
		}
		if !strings.Contains(err.Error(), r.String()) {
			s.Errorf("the error's text does not say that %v: %v", r, err)
		}
	}
	s.mustAcquire(store, s.options("one beside it", last+1, last+1))
}

func (s *suite) releaseFrees() {
	const worker = 4
	store := s.storage.Open()
	seen := newIssued()
	a := s.mustAcquire(store, s.options("a", worker, worker))
	id := a.issue(seen, "a", 300)
	s.release(a)
	bound := a.Decode(id).Time.Add(coarse().Unit)
	if r := s.stored(store, worker); r.State != lease.Free || !r.Bound().Equal(bound) {
		s.Fatalf("after the last ID at %v, a release leaves %v, bound %v", a.Decode(id).Time, r, r.Bound())
	}
	if _, err := a.NextID(); !errors.Is(err, snowflake.ErrLeaseExpired) {
		s.Fatalf("after its release, a goes on: %v", err)
	}
	b := s.mustAcquire(s.storage.Open(), s.options("b", worker, worker)) // if a held it still, this would wait for longer than the test may take
	if from := b.Grant().From; !from.Equal(bound) {
		s.Errorf("b's window begins at %v, and a's last ID ended at %v", from, bound)
	}
	b.issue(seen, "b", 300)
	if _, err := a.NextID(); !errors.Is(err, snowflake.ErrLeaseExpired) {
		s.Fatalf("with b as the holder, a goes on: %v", err)
	}
}

func (s *suite) sticky() {
	names := []string{"a", "b", "c", "it's\n\"d\" 雪"}
	had := map[string]int{}
	var holders []*holder
	for _, name := range names {
		h := s.mustAcquire(s.storage.Open(), s.options(name, 0, 20))
		had[name] = h.Worker()
		holders = append(holders, h)
	}
	for _, h := range holders {
		s.release(h)
	}
	for _, name := range []string{names[3], "b", "c", "a"} {
		h := s.mustAcquire(s.storage.Open(), s.options(name, 0, 20))
		if h.Worker() != had[name] {
			s.Errorf("%q had worker ID %d, and has %d when it comes back", name, had[name], h.Worker())
		}
	}
}

func (s *suite) kept() {
	keep := func(name string) lease.Options {
		o := s.options(name, 2, 2)
		o.Reuse, o.Window = lease.ReuseKeep, s.window
		return o
	}
	s.release(s.mustAcquire(s.storage.Open(), keep("a")))
	_, err := s.acquire(s.storage.Open(), keep("b"))
	s.wants(err, lease.ErrExhausted, "b asks for the worker ID that a keeps")
	s.mustAcquire(s.storage.Open(), keep("a"))
}

func (s *suite) once() {
	o := s.options("a", 1, 3)
	o.Reuse, o.Window = lease.ReuseOnce, s.window
	store := s.storage.Open()
	used := map[int]bool{}
	for range 3 {
		h := s.mustAcquire(s.storage.Open(), o)
		if used[h.Worker()] {
			s.Fatalf("worker ID %d is used a second time", h.Worker())
		}
		used[h.Worker()] = true
		s.release(h)
		if r := s.stored(store, h.Worker()); r.State != lease.Spent {
			s.Fatalf("after its only use, it is recorded as %v", r)
		}
	}
	_, err := s.acquire(store, o)
	s.wants(err, lease.ErrExhausted, "when all are used up")
	o.Reuse = lease.ReuseAny
	_, err = s.acquire(store, o)
	s.wants(err, lease.ErrExhausted, "all worker IDs are used up, and one may be reused")
}

func (s *suite) anotherLayout() {
	store := s.storage.Open()
	a := s.mustAcquire(store, s.options("a", 1, 1))
	s.release(a)
	had := s.stored(store, 1)
	for name, change := range map[string]func(*snowflake.Layout){
		"epoch":       func(l *snowflake.Layout) { l.Epoch++ },
		"unit":        func(l *snowflake.Layout) { l.Unit++ },
		"bits":        func(l *snowflake.Layout) { l.TimeBits-- },
		"worker last": func(l *snowflake.Layout) { l.WorkerLast = false },
	} {
		o := s.options("b", 2, 9)
		change(&o.Layout)
		_, err := s.acquire(s.storage.Open(), o)
		s.wants(err, lease.ErrLayout, "another %s", name)
		var other *lease.LayoutError
		if !errors.As(err, &other) || other.Worker != 1 || other.Has != coarse() || other.Want != o.Layout {
			s.Errorf("another %s: the error does not say which: %v", name, err)
		}
		s.holds(store, had)
	}
}

// crashed: a holder renews no more, and issues IDs until its window ends. (A process that crashed
// would issue fewer.) The clock of its successor is behind, so that the bound keeps the two apart, not
// the clock.
func (s *suite) crashed() {
	const worker = 6
	seen := newIssued()
	o := s.options("a", worker, worker)
	o.Window = s.window
	a := s.mustAcquire(s.storage.Open(), o)
	ended := make(chan error)
	go func() {
		_, err := a.exhaust(seen, "a")
		ended <- err
	}()
	time.Sleep(s.window)
	a.crash()
	o.Owner, o.Clock = "b", clockOff(-s.window/2)
	b := s.await(s.storage.Open(), o)
	if from, bound := b.Grant().From, a.Lease.Stats().Bound; from.Before(bound) {
		s.Errorf("b's window begins at %v, and a's ends at %v", from, bound)
	}
	s.wants(<-ended, snowflake.ErrLeaseExpired, "a goes on to the end of its window")
	// On a busy machine b's window may be too short for 300 IDs. Fewer are fine.
	for range 300 {
		if _, err := b.next(seen, "b"); err != nil {
			s.wants(err, snowflake.ErrLeaseExpired, "b")
		}
	}
}

// cutOff: a process issues IDs while it cannot reach the store. When it reaches the store again,
// another process has its worker ID.
func (s *suite) cutOff() {
	const worker = 6
	seen := newIssued()
	network, cutOff := link.To(s.storage.Open())
	o := s.options("a", worker, worker)
	o.Window = s.window
	a := s.mustAcquire(cutOff, o)
	network.Cut(true)
	type end struct {
		*snowflake.LeaseExpiredError
		err error
	}
	ended := make(chan end)
	go func() {
		expired, err := a.exhaust(seen, "a")
		ended <- end{expired, err}
	}()
	store := s.storage.Open()
	b := s.await(store, s.options("b", worker, worker))
	b.issue(seen, "b", 300)
	e := <-ended
	if e.LeaseExpiredError == nil || e.Worker != worker {
		s.Fatalf("a, which is cut off, ends with %v", e.err)
	}
	if from := b.Grant().From; from.Before(e.NotAfter) {
		s.Errorf("b's window begins at %v, a's ends at %v", from, e.NotAfter)
	}
	if err := a.Err(); err != nil {
		s.Errorf("before it can reach the store, a says %v", err)
	}

	network.Cut(false)
	select {
	case <-a.Done():
	case <-s.ctx.Done():
		s.Fatal("a does not learn that its worker ID has gone to another")
	}
	s.wants(a.Err(), lease.ErrLost, "a, when it can reach the store again")
	if _, err := a.NextID(); !errors.Is(err, snowflake.ErrLeaseExpired) {
		s.Errorf("a goes on: %v", err)
	}
	if err := a.Release(s.ctx); err != nil {
		s.Errorf("a releases what it lost: %v", err)
	}
	if r := s.stored(store, worker); r.Owner != "b" || r.State != lease.Held {
		s.Errorf("after a's release, b's record is %v", r)
	}
	b.issue(seen, "b", 300)
}

func clockOff(by time.Duration) snowflake.Clock {
	return snowflake.ClockFunc(func() time.Time { return time.Now().Add(by) })
}

// successors take over from one another, with clocks that disagree.
func (s *suite) successors() {
	seen := newIssued()
	for i, off := range []time.Duration{0, 0, -50, 30, -20, -60, 40, 40, 0, -30} {
		name := fmt.Sprint("successor ", i)
		o := s.options(name, 3, 3)
		o.Clock = clockOff(off * time.Millisecond)
		h := s.mustAcquire(s.storage.Open(), o)
		h.issue(seen, name, 100+rand.IntN(400))
		s.release(h)
	}
}

// clockBehind: each successor's clock is further behind than a caller would wait for, and each
// successor issues IDs at once with another clock sequence, until all clock sequences are used.
func (s *suite) clockBehind() {
	layout := snowflake.ClockSeqLayout()
	layout.Epoch, layout.Unit = snowflake.TwitterEpoch, 20*time.Millisecond
	seen := newIssued()
	const step = 10 * time.Minute
	o := s.options("", 3, 3)
	o.Layout = layout
	for i := range 8 {
		o.Owner, o.Clock = fmt.Sprint("successor ", i), clockOff(-step*time.Duration(i))
		h := s.mustAcquire(s.storage.Open(), o)
		h.issue(seen, o.Owner, 100)
		s.release(h)
	}
	o.Clock = clockOff(-8 * step)
	_, err := s.acquire(s.storage.Open(), o)
	s.wants(err, snowflake.ErrClockBackward, "when every clock sequence is ahead")
	var back *snowflake.ClockBackwardError
	if !errors.As(err, &back) || back.By() < step-long || back.By() > step+long {
		s.Errorf("the clock is %v behind the earliest bound, and the error says %v", step, err)
	}

	o.Clock = clockOff(0)
	h := s.mustAcquire(s.storage.Open(), o)
	h.issue(seen, "the last", 100)
	if r := s.stored(s.storage.Open(), 3); len(r.Bounds) != 8 {
		s.Errorf("of 8 clock sequences %d are recorded", len(r.Bounds))
	}
}

// competitors want more worker IDs than there are. Some release them, some crash
// and go on to the end of their window.
func (s *suite) competitors() {
	const clients, workers = 5, 2
	var stores []lease.Store
	for range clients {
		stores = append(stores, s.storage.Open())
	}
	seen := newIssued()
	var turns atomic.Int64
	var late sync.WaitGroup
	end := time.Now().Add(depth.Of[time.Duration](2, 4) * s.window)
	together(clients, func(i int) {
		for time.Now().Before(end) && !s.Failed() {
			o := s.options(fmt.Sprint("competitor ", i), 1, workers)
			o.Window = s.window
			o.Clock = clockOff(time.Duration(rand.IntN(60)) * time.Millisecond)
			h, err := s.acquire(stores[i], o)
			if errors.Is(err, lease.ErrExhausted) {
				continue
			}
			if err != nil {
				s.Errorf("%s acquires: %v", o.Owner, err)
				return
			}
			name := fmt.Sprintf("%s, turn %d", o.Owner, turns.Add(1))
			for range rand.IntN(600) {
				// On a busy machine it may look dead.
				if _, err := h.next(seen, name); errors.Is(err, snowflake.ErrLeaseExpired) {
					break
				} else if err != nil {
					s.Errorf("%s: %v", name, err)
				}
			}
			if rand.IntN(4) > 0 {
				if err := h.Release(s.ctx); err != nil && !errors.Is(err, lease.ErrLost) {
					s.Errorf("%s releases: %v", name, err)
				}
				continue
			}
			h.crash()
			late.Add(1)
			go func() {
				defer late.Done()
				if expired, err := h.exhaust(seen, name); expired == nil {
					s.Errorf("%s, crashed: %v", name, err)
				}
			}()
		}
	})
	late.Wait()
	s.Logf("%d turns, %d IDs", turns.Load(), len(seen.by))
	if turns.Load() < workers {
		s.Errorf("there were %d turns", turns.Load())
	}
}
