//go:build unix

package servertest

import (
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
	"github.com/seed-5394e6b1/snowflake/internal/link"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Server is a running server with a store for it.
type Server struct {
	Addr string // what Open takes

	// Open opens one more client of its own, with its own connections, and
	// closes it when t ends. A space is a table or a prefix of its own, of
	// letters and digits, made where it is not there.
	Open func(t testing.TB, addr, space string) lease.Store

	Kill, Restart, Pause, Resume func()
	CPU                          func() time.Duration

	// Window is the shortest that the tests may use. 0: 500 ms.
	Window time.Duration

	// Shared is how many clients the server can have at once. More holders share
	// them. 0: 200.
	Shared int
}

func (s *Server) window() time.Duration {
	if s.Window > 0 {
		return s.Window
	}
	return 500 * time.Millisecond
}

var spaces atomic.Int64

// space names a new one after the test, so that who looks finds it.
func (s *Server) space(t testing.TB) string {
	name := strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' {
			return c
		}
		return -1
	}, strings.ToLower(t.Name()[strings.LastIndex(t.Name(), "/")+1:]))
	return fmt.Sprintf("%.24s%d", name, spaces.Add(1))
}

// clients opens n clients, or as many as the server can have.
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

// Run runs the tests that every store has to pass with its server.
func Run(t *testing.T, s *Server) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *Server)
	}{
		{"ClientsAtOnceGetDifferentWorkerIDs", clientsAtOnce},
		{"FullLayoutRefusesOneMore", fullLayout},
		{"ClientsClocksDoNotDecideWhoIsAlive", wrongClocks},
		{"HolderThatWasCutOffGetsErrLeaseExpired", cutOff},
		{"DelayedRequestDoesNotMoveTheBound", delayedRequest},
		{"HolderGoesOnToItsWindowsEnd", windowsEnd},
		{"ServerKilledAndRestarted", func(t *testing.T, s *Server) {
			Outage(t, s, func() {
				s.Kill()
				time.Sleep(s.window() / 2)
				s.Restart()
			})
		}},
		{"ServerStoppedAndContinued", func(t *testing.T, s *Server) {
			Outage(t, s, func() {
				s.Pause()
				time.Sleep(2 * s.window())
				s.Resume()
			})
		}},
		{"NetworkDropsDelaysAndResets", badNetwork},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, s) })
	}
}

// holder is a lease with its generator, as a process would have it.
type holder struct {
	*lease.Lease
	gen   *snowflake.Generator
	crash func() // leaves the record as it is from now on
}

// patience is how long a test waits for what has to come, on however slow a
// machine.
const patience = 2 * time.Minute

// long is the window of holders that are not to be taken for dead, however slow
// the machine.
const long = time.Minute

// Acquire takes a worker ID and keeps it until the test ends, or crash is called:
// from then on its record stays what it is.
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
		_ = l.Release(context.Background()) // it ends, and cannot say so
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

func clientsAtOnce(t *testing.T, s *Server) {
	const n = 200
	acquireAll(t, s.clients(t, n, s.Addr, s.space(t)), n, long)
}

func fullLayout(t *testing.T, s *Server) {
	if testing.Short() {
		t.Skip("1,024 holders: this takes minutes with the race detector, which 200 serve as well")
	}
	n := 1 << fleetLayout().WorkerBits
	stores := s.clients(t, 16, s.Addr, s.space(t))
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

// wrongClocks: whatever the clock of a client reads, a holder that renews keeps
// its worker ID, and one that does not loses it.
func wrongClocks(t *testing.T, s *Server) {
	space := s.space(t)
	store := s.Open(t, s.Addr, space)
	a := mustAcquire(t, store, s.only("a"))
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
	a.crash()
	o := s.only("b")
	o.Clock = snowflake.ClockFunc(func() time.Time { return time.Now().Add(time.Hour) })
	s.await(t, s.Open(t, s.Addr, space), o)
}

// seen has the IDs of a test.
type seen map[snowflake.ID]string

// issue issues IDs until it is told to stop or the lease does not let it, and
// returns the error.
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

func cutOff(t *testing.T, s *Server) {
	space, ids := s.space(t), seen{}
	proxy := NewProxy(t, s.Addr)
	a := mustAcquire(t, s.Open(t, proxy.Addr(), space), s.only("a"))
	proxy.Drop()
	err := ids.issue(t, a, "a", all)
	if !errors.Is(err, snowflake.ErrLeaseExpired) {
		t.Fatalf("a, which was cut off: %v", err)
	}
	o := s.only("b")
	o.Window = long
	b := s.await(t, s.Open(t, s.Addr, space), o)
	if err := ids.issue(t, b, "b", 1000); err != nil {
		t.Fatal(err)
	}
	proxy.Heal()
	select {
	case <-a.Done():
	case <-time.After(patience):
		t.Fatalf("a is not told that its lease is lost: %+v", a.Stats())
	}
	if !errors.Is(a.Err(), lease.ErrLost) {
		t.Fatalf("a's lease: %v", a.Err())
	}
	if err := ids.issue(t, a, "a", 1); !errors.Is(err, snowflake.ErrLeaseExpired) {
		t.Fatalf("a, which lost its worker ID: %v", err)
	}
	if err := ids.issue(t, b, "b", 1000); err != nil {
		t.Fatal(err)
	}
}

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
	before := load(t, direct)
	proxy.Heal() // a's requests of a window ago arrive
	select {
	case <-a.Done():
	case <-time.After(patience):
		t.Fatalf("a is not told that its lease is lost: %+v", a.Stats())
	}
	time.Sleep(s.window() / 2)
	after := load(t, direct)
	if after.Version != before.Version || after.Token != before.Token || !after.Bound().Equal(before.Bound()) {
		t.Fatalf("delayed requests of a made\n%+v of\n%+v", after, before)
	}
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
}

// load returns the record of worker 3.
func load(t *testing.T, store lease.Store) lease.Record {
	t.Helper()
	snap, err := store.LoadWorker(t.Context(), 3)
	if err != nil || len(snap.Records) != 1 {
		t.Fatalf("%v, %v", snap.Records, err)
	}
	return snap.Records[0]
}

// windowsEnd: while the server does not answer, a holder issues IDs up to the end
// of its window; when the server answers again, it goes on by itself.
func windowsEnd(t *testing.T, s *Server) {
	ids := seen{}
	h := mustAcquire(t, s.Open(t, s.Addr, s.space(t)), s.only("a"))
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

func badNetwork(t *testing.T, s *Server) {
	proxy := NewProxy(t, s.Addr)
	outage(t, s, proxy.Addr(), func() {
		proxy.Delay(s.window() / 20)
		time.Sleep(s.window())
		proxy.Drop()
		time.Sleep(2 * s.window())
		proxy.Heal()
		time.Sleep(s.window() / 2)
		proxy.Reset()
		time.Sleep(s.window() / 2)
		proxy.Hold()
		time.Sleep(s.window() / 2)
		proxy.Heal()
	})
}
