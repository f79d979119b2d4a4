//go:build unix

package servertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/link"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Server is a running server with a store for it.
type Server struct {
	Addr string // what Open takes

	// Open opens one more client with separate connections, and closes it when t ends. A
	// space is a name of letters and digits, for a separate table or prefix. If the space
	// does not exist, Open makes it.
	Open func(t testing.TB, addr, space string) lease.Store

	Kill, Restart, Pause, Resume func()
	CPU                          func() time.Duration

	// Env is added to the environment of a fleet's processes.
	Env []string

	// Window is the shortest that the tests may use. 0: 500 ms.
	Window time.Duration

	// Shared is how many clients the server can have at once. If there are more holders, they
	// share the clients. 0: 200.
	Shared int
}

func (s *Server) window() time.Duration { return cmp.Or(s.Window, 500*time.Millisecond) }

// short is the window in tests to which it does no harm if a busy machine renews late.
func (s *Server) short() time.Duration {
	return cmp.Or(s.Window, depth.Of(300*time.Millisecond, s.window()))
}

var spaces atomic.Int64

// space returns the name of a new space. The name is that of the test, so that a person finds the space.
func (s *Server) space(t testing.TB) string {
	name := strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' {
			return c
		}
		return -1
	}, strings.ToLower(t.Name()[strings.LastIndex(t.Name(), "/")+1:]))
	return fmt.Sprintf("%.24s%d", name, spaces.Add(1))
}

// clients opens n clients, or fewer if the server cannot have so many.
func (s *Server) clients(t testing.TB, n int, addr, space string) []lease.Store {
	if s.Shared > 0 {
		n = min(n, s.Shared)
	}
	stores := make([]lease.Store, n)
	for i := range stores {
		stores[i] = s.Open(t, addr, space)
	}
	return stores
}

// Run runs the tests that every store has to pass with its server. Tests that do not disturb the server
// run in parallel, when t's function has returned.
func Run(t *testing.T, s *Server) {
	for _, test := range []struct {
		name  string
		run   func(*testing.T, *Server)
		alone bool
	}{
		{"CrowdTakesEveryWorkerID", crowd, true},
		{"HolderGoesOnToItsWindowsEnd", windowsEnd, true},
		{"FleetOutlivesItsServerAndNetwork", outages, true},
		{"ClientsClocksDoNotDecideWhoIsAlive", wrongClocks, false},
		{"DelayedRequestDoesNotMoveTheBound", delayedRequest, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.alone {
				t.Parallel()
			}
			test.run(t, s)
		})
	}
}

// holder is a lease with its generator, as a process would have it.
type holder struct {
	*lease.Lease
	gen   *snowflake.Generator
	crash func() // leaves the record as it is from now on
}

// patience is how long a test waits for something that must happen, even if the machine is slow.
const patience = 2 * time.Minute

// long is the window of holders that must not look dead, even if the machine is slow.
const long = time.Minute

// Acquire takes a worker ID. When the test ends or crash is called, the lease stops renewing and its
// record is not changed any more.
func Acquire(t testing.TB, store lease.Store, o lease.Options) (l *lease.Lease, crash func(), err error) {
	network, store := link.To(store)
	o.Logger = slog.New(slog.DiscardHandler)
	l, err = lease.Acquire(context.Background(), store, &o)
	if err != nil {
		return nil, nil, err
	}
	crash = func() { network.Cut(true) }
	t.Cleanup(func() {
		crash()
		_ = l.Release(context.Background()) // it ends, and cannot tell the store
	})
	return l, crash, nil
}

func acquire(t testing.TB, store lease.Store, o lease.Options) (*holder, error) {
	o.Layout, o.MaxLeap, o.OnLoss = fleetLayout(), 24*time.Hour, lease.Stop
	l, crash, err := Acquire(t, store, o)
	if err != nil {
		return nil, err
	}
	g, err := snowflake.NewLeased(l, nil)
	return &holder{l, g, crash}, err
}

func mustAcquire(t testing.TB, store lease.Store, o lease.Options) *holder {
	t.Helper()
	h, err := acquire(t, store, o)
	if err != nil {
		t.Fatalf("%s: %v", o.Owner, err)
	}
	return h
}

// acquireAll lets n clients acquire at once, and returns how long each took.
func acquireAll(t testing.TB, stores []lease.Store, n int, window time.Duration) ([]*holder, []time.Duration) {
	t.Helper()
	holders, took := make([]*holder, n), make([]time.Duration, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			begun := time.Now()
			holders[i], errs[i] = acquire(t, stores[i%len(stores)], lease.Options{Owner: fmt.Sprint("client ", i), Window: window})
			took[i] = time.Since(begun)
		})
	}
	close(start)
	all.Wait()
	by := map[int]int{}
	for i, err := range errs {
		if err != nil {
			t.Fatalf("client %d of %d: %v", i, n, err)
		}
		if j, ok := by[holders[i].Worker()]; ok {
			t.Fatalf("clients %d and %d have worker ID %d", i, j, holders[i].Worker())
		}
		by[holders[i].Worker()] = i
	}
	return holders, took
}

// crowd: clients with separate connections take all worker IDs of a layout at once. Each gets a
// different worker ID, and one more client is refused. Package leasetest tests smaller crowds.
func crowd(t *testing.T, s *Server) {
	depth.NeedFull(t, "1,024 holders on 200 clients")
	n := 1 << fleetLayout().WorkerBits
	stores := s.clients(t, 200, s.Addr, s.space(t))
	acquireAll(t, stores, n, 10*long)
	_, err := acquire(t, stores[0], lease.Options{Owner: "one more", Window: s.window()})
	var full *lease.ExhaustedError
	if !errors.Is(err, lease.ErrExhausted) || !errors.As(err, &full) || len(full.Records) != n {
		t.Fatalf("one more than %d: %v", n, err)
	}
}

// only are the options for worker ID 3 alone.
func (s *Server) only(owner string) lease.Options {
	return lease.Options{Owner: owner, First: 3, Count: 1, Window: s.window()}
}

// await acquires a worker ID that has to come free.
func (s *Server) await(t *testing.T, store lease.Store, o lease.Options) *holder {
	t.Helper()
	for begun := time.Now(); ; {
		h, err := acquire(t, store, o)
		if err == nil {
			return h
		}
		if time.Since(begun) > patience+10*s.window() {
			t.Fatalf("%s: %v", o.Owner, err)
		}
	}
}

// wrongClocks: a holder keeps its worker ID if it renews, and loses it if it does not, whatever the
// clocks of the clients read.
func wrongClocks(t *testing.T, s *Server) {
	space := s.space(t)
	store := s.Open(t, s.Addr, space)
	o := s.only("a")
	o.Window = long
	a := mustAcquire(t, store, o)
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		o := s.only(fmt.Sprint("clock off by ", off))
		o.Clock = snowflake.ClockFunc(func() time.Time { return time.Now().Add(off) })
		_, err := acquire(t, s.Open(t, s.Addr, space), o)
		if !errors.Is(err, lease.ErrExhausted) {
			t.Fatalf("%s, with a live holder: %v", o.Owner, err)
		}
	}
	if err := a.Err(); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(t.Context()); err != nil {
		t.Fatal(err)
	}

	mustAcquire(t, store, s.only("one that crashes")).crash()
	o = s.only("b")
	o.Clock = snowflake.ClockFunc(func() time.Time { return time.Now().Add(time.Hour) })
	s.await(t, s.Open(t, s.Addr, space), o)
}

// seen has all IDs of a test, and the name of the holder that issued each of them.
type seen map[snowflake.ID]string

// issue issues up to n IDs. If the lease expires before, it returns the error.
func (ids seen) issue(t *testing.T, h *holder, name string, n int) error {
	t.Helper()
	for range n {
		id, err := h.gen.NextID()
		if err != nil {
			return err
		}
		if by, ok := ids[id]; ok {
			t.Fatalf("%s issues %d (%v), which %s issued before", name, id, fleetLayout().Decode(id), by)
		}
		ids[id] = name
	}
	return nil
}

const all = math.MaxInt

func delayedRequest(t *testing.T, s *Server) {
	space := s.space(t)
	proxy := NewProxy(t, s.Addr)
	a := mustAcquire(t, s.Open(t, proxy.Addr(), space), s.only("a"))
	proxy.Hold()
	for begun := time.Now(); a.Stats().Failures == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatal("a renews although its requests do not arrive")
		}
	}
	direct := s.Open(t, s.Addr, space)
	o := s.only("b")
	o.Window = long
	b := s.await(t, direct, o)
	before := load(t, direct, 3)
	proxy.Heal() // the requests that a made a window ago arrive
	select {
	case <-a.Done():
	case <-time.After(patience):
		t.Fatalf("a is not told that its lease is lost: %+v", a.Stats())
	}
	time.Sleep(s.window() / 2)
	after := load(t, direct, 3)
	if after.Version != before.Version || after.Token != before.Token || !after.Bound().Equal(before.Bound()) {
		t.Fatalf("delayed requests of a made\n%+v of\n%+v", after, before)
	}
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
}

// load returns the record of a worker ID.
func load(t *testing.T, store lease.Store, worker int) lease.Record {
	t.Helper()
	snap, err := store.LoadWorker(t.Context(), worker)
	if err != nil || len(snap.Records) != 1 {
		t.Fatalf("%v, %v", snap.Records, err)
	}
	return snap.Records[0]
}

// windowsEnd: while the server does not answer, a holder issues IDs until its window ends. When the
// server answers again, the holder issues IDs again by itself.
func windowsEnd(t *testing.T, s *Server) {
	ids := seen{}
	o := s.only("a")
	o.Window = s.short()
	h := mustAcquire(t, s.Open(t, s.Addr, s.space(t)), o)
	for _, fault := range []struct {
		name       string
		begin, end func()
	}{{"stopped", s.Pause, s.Resume}, {"killed", s.Kill, s.Restart}} {
		fault.begin()
		err := ids.issue(t, h, "a", all)
		if !errors.Is(err, snowflake.ErrLeaseExpired) {
			t.Fatalf("the server is %s: %v", fault.name, err)
		}
		end := h.Grant().To
		var expired *snowflake.LeaseExpiredError
		if !errors.As(err, &expired) || !expired.NotAfter.Equal(end) || expired.Time.Before(end) {
			t.Errorf("the server is %s: it stops before its window's end, %v: %v", fault.name, end, err)
		}
		for id := range ids {
			if at := fleetLayout().Decode(id).Time; !at.Before(end) {
				t.Errorf("the server is %s: an ID is of %v, where the window ends at %v", fault.name, at, end)
			}
		}
		fault.end()
		for begun := time.Now(); errors.Is(err, snowflake.ErrLeaseExpired); err = ids.issue(t, h, "a", 1000) {
			if time.Since(begun) > patience {
				t.Fatalf("%v after the server was %s: %v, %+v", patience, fault.name, err, h.Stats())
			}
			time.Sleep(time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func outages(t *testing.T, s *Server) {
	proxy, window := NewProxy(t, s.Addr), s.short()
	Outage(t, s, proxy.Addr(),
		Fault{"server killed", func() {
			s.Kill()
			time.Sleep(window / 2)
			s.Restart()
		}},
		Fault{"server stopped", func() {
			s.Pause()
			time.Sleep(depth.Of(window*5/4, 2*window))
			s.Resume()
		}},
		Fault{"bad network", func() { badNetwork(proxy, window) }},
	)
}

// badNetwork delays, drops, resets and holds what the clients send.
func badNetwork(proxy *Proxy, window time.Duration) {
	proxy.Delay(window / 20)
	time.Sleep(depth.Of(window/2, window))
	proxy.Drop()
	time.Sleep(depth.Of(window*5/4, 2*window))
	proxy.Heal()
	time.Sleep(window / 2)
	proxy.Reset()
	time.Sleep(window / 2)
	proxy.Hold()
	time.Sleep(window / 2)
	proxy.Heal()
}
