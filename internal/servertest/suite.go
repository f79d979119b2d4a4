//go:build unix

package servertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
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
	*Process        // that serves
	Addr     string // what Open takes

	// Open opens one more client with separate connections. Nil: Main's.
	Open Opener

	// Others are what the server consists of besides Process. Their CPU time counts, too.
	Others []*Process

	// Wipes are the ways to remove all entries of a space, by name.
	Wipes map[string]func(t testing.TB, space string)

	// Garble makes an entry of a space unreadable. Nil: each content is an entry.
	Garble func(t testing.TB, space, key string)

	// LosesDisk lets the server lose all that it has stored. It is nil if no such server is tested.
	LosesDisk func(t testing.TB)

	// NoLeader is what errors also match while a cluster has no leader. Nil: only lease.ErrAway.
	NoLeader error

	// Env is added to the environment of a fleet's processes.
	Env []string

	// Window is the shortest that the tests may use. 0: 500 ms.
	Window time.Duration

	// Fleet is the window of the holders in Bench. 0: 3 s.
	Fleet time.Duration

	// Shared is how many clients the server can have at once. If there are more holders, they
	// share the clients. 0: 200.
	Shared int
}

func (s *Server) window() time.Duration { return cmp.Or(s.Window, 500*time.Millisecond) }

// cpu returns the CPU time of the whole server.
func (s *Server) cpu() time.Duration {
	sum := s.CPU()
	for _, p := range s.Others {
		sum += p.CPU()
	}
	return sum
}

// client opens one more client, and closes it when t ends.
func (s *Server) client(t testing.TB, addr, space string) lease.Store {
	t.Helper()
	open := s.Open
	if open == nil {
		open = opener
	}
	store, end, err := open(addr, space)
	if err != nil {
		t.Fatal(err)
	}
	if end != nil {
		t.Cleanup(func() { _ = end() })
	}
	return store
}

// Client opens a client with Main's Opener, and closes it when t ends.
func Client(t testing.TB, addr, space string) lease.Store {
	t.Helper()
	return new(Server).client(t, addr, space)
}

// short is the window in tests to which it does no harm if a busy machine renews late.
func (s *Server) short() time.Duration {
	return cmp.Or(s.Window, depth.Of(300*time.Millisecond, s.window()))
}

// clients opens n clients, or fewer if the server cannot have so many.
func (s *Server) clients(t testing.TB, n int, addr, space string) []lease.Store {
	stores := make([]lease.Store, min(n, cmp.Or(s.Shared, 200)))
	for i := range stores {
		stores[i] = s.client(t, addr, space)
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
		{"CallsEndInTimeIfTheServerHangs", hangs, true},
		{"EntriesSurviveAKillAndErrorsNameTheCause", survives, true},
		{"ServerThatLosesItsDisk", losesDisk, true},
		{"RenewalIsOneRoundTrip", oneTrip, false},
		{"AcquireGoesOnIfItsConnectionBreaks", breaks, false},
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
	for name, wipe := range s.Wipes {
		t.Run("WipedStoreHeals/"+name, func(t *testing.T) {
			t.Parallel()
			wiped(t, s, wipe)
		})
	}
}

func losesDisk(t *testing.T, s *Server) {
	if s.LosesDisk != nil {
		wiped(t, s, func(t testing.TB, _ string) { s.LosesDisk(t) })
	}
}

// holder is a lease with its generator, as a process would have it.
type holder struct {
	*lease.Lease
	gen   *snowflake.Generator
	name  string
	crash func() // leaves the record as it is from now on
}

// patience is how long a test waits for something that must happen, even if the machine is slow.
const patience = 2 * time.Minute

// long is the window of holders that must not look dead, even if the machine is slow.
const long = time.Minute

// Acquire takes a worker ID. When the test ends or crash is called, the lease stops renewing and its
// record is not changed any more.
func Acquire(ctx context.Context, t testing.TB, store lease.Store, o lease.Options) (l *lease.Lease, crash func(), err error) {
	network := link.To(store)
	o.Logger = slog.New(slog.DiscardHandler)
	l, err = lease.Acquire(ctx, network, &o)
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

// acquire takes a worker ID of a new store.
func acquire(t testing.TB, store lease.Store, o lease.Options) (*holder, error) {
	o.NewStore = true
	return join(context.Background(), t, store, o)
}

// join takes a worker ID of a store that may have lost its entries.
func join(ctx context.Context, t testing.TB, store lease.Store, o lease.Options) (*holder, error) {
	o.Layout, o.MaxLeap, o.OnLoss = fleetLayout(), 24*time.Hour, lease.Stop
	l, crash, err := Acquire(ctx, t, store, o)
	if err != nil {
		return nil, err
	}
	g, err := snowflake.NewLeased(l, nil)
	return &holder{l, g, o.Owner, crash}, err
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

// crowd: clients take all worker IDs of a layout at once. One more client is refused.
func crowd(t *testing.T, s *Server) {
	n := depth.Of(64, 1<<fleetLayout().WorkerBits)
	stores := Crowd(t, s, n)
	if n < 1<<fleetLayout().WorkerBits {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // it would wait for three minutes
	defer cancel()
	_, err := join(ctx, t, stores[0], lease.Options{Owner: "one more", Window: lease.MaxWindow, NewStore: true})
	var full *lease.ExhaustedError
	if !errors.Is(err, lease.ErrExhausted) || !errors.As(err, &full) || len(full.Records) != n {
		t.Fatalf("one more than %d: %v", n, err)
	}
}

// Crowd lets n clients with separate connections take worker IDs at once. Each gets a different worker ID.
func Crowd(t *testing.T, s *Server, n int) []lease.Store {
	t.Helper()
	stores := s.clients(t, n, s.Addr, NewSpace())
	acquireAll(t, stores, n, lease.MaxWindow)
	return stores
}

// only are the options for worker ID 3 alone.
func (s *Server) only(owner string) lease.Options {
	return lease.Options{Owner: owner, First: 3, Count: 1, Window: s.window()}
}

// await acquires a worker ID that has to come free.
func (s *Server) await(t *testing.T, store lease.Store, o lease.Options) *holder {
	t.Helper()
	var h *holder
	Await(t, func() (err error) {
		if h, err = acquire(t, store, o); err != nil {
			err = fmt.Errorf("%s: %w", o.Owner, err)
		}
		return err
	})
	return h
}

// wrongClocks: a holder keeps its worker ID if it renews, and loses it if it does not, whatever the
// clocks of the clients read.
func wrongClocks(t *testing.T, s *Server) {
	space := NewSpace()
	store := s.client(t, s.Addr, space)
	o := s.only("a")
	o.Window = long
	a := s.await(t, store, o)
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		o := s.only(fmt.Sprint("clock off by ", off))
		o.Clock = snowflake.ClockFunc(func() time.Time { return time.Now().Add(off) })
		o.NewStore = true
		Await(t, func() error { // the context may end during a request, which says nothing of holders
			ctx, cancel := context.WithTimeout(t.Context(), 10*s.window()) // without the engine's clock it would wait for three minutes
			defer cancel()
			_, err := join(ctx, t, s.client(t, s.Addr, space), o)
			if err == nil {
				t.Fatalf("%s takes the worker ID of a live holder", o.Owner)
			}
			if !errors.Is(err, lease.ErrExhausted) {
				return fmt.Errorf("%s, with a live holder: %w", o.Owner, err)
			}
			return nil
		})
	}
	if err := errors.Join(a.Err(), a.Release(t.Context())); err != nil && !errors.Is(err, lease.ErrReleased) {
		t.Fatal(err)
	}

	s.await(t, store, s.only("one that crashes")).crash()
	o = s.only("b")
	o.Clock = snowflake.ClockFunc(func() time.Time { return time.Now().Add(time.Hour) })
	s.await(t, s.client(t, s.Addr, space), o)
}

// seen has all IDs of a test, and the name of the holder that issued each of them.
type seen map[snowflake.ID]string

// issue issues up to n IDs. If the lease expires before, it returns the error.
func (ids seen) issue(t *testing.T, h *holder, n int) error {
	t.Helper()
	for range n {
		id, err := h.gen.NextID()
		if err != nil {
			return err
		}
		if by, ok := ids[id]; ok {
			t.Fatalf("%s issues %d (%v), which %s issued before", h.name, id, fleetLayout().Decode(id), by)
		}
		ids[id] = h.name
	}
	return nil
}

// issueSoon issues n IDs. While the window has ended, it tries again: the server may be away, or on a
// busy machine a renewal may be late.
func (ids seen) issueSoon(t *testing.T, h *holder, n int) {
	t.Helper()
	Await(t, func() error {
		err := ids.issue(t, h, n)
		if err != nil && !errors.Is(err, snowflake.ErrLeaseExpired) {
			t.Fatalf("%s does not issue IDs: %v, %+v", h.name, err, h.Stats())
		}
		return err
	})
}

func delayedRequest(t *testing.T, s *Server) {
	space := NewSpace()
	proxy := NewProxy(t, s.Addr)
	a := s.await(t, s.client(t, proxy.Addr(), space), s.only("a"))
	proxy.Hold()
	Await(t, func() error {
		if a.Stats().Failures == 0 {
			return errors.New("a renews although its requests do not arrive")
		}
		return nil
	})
	direct := s.client(t, s.Addr, space)
	o := s.only("b")
	o.Window = long
	b := s.await(t, direct, o)
	before := record(t, direct, 3)
	proxy.Heal() // the requests that a made a window ago arrive
	select {
	case <-a.Done():
	case <-time.After(patience):
		t.Fatalf("a is not told that its lease is lost: %+v", a.Stats())
	}
	time.Sleep(s.window() / 2)
	after := record(t, direct, 3)
	if after.Saves != before.Saves || after.Token != before.Token || !after.Bound().Equal(before.Bound()) {
		t.Fatalf("delayed requests of a made\n%+v of\n%+v", after, before)
	}
	Do(t, b.Err())
}

// record returns the record of a worker ID. If there is none, its Saves is 0.
func record(t *testing.T, store lease.Store, worker int) lease.Record {
	t.Helper()
	var all []lease.Record
	Await(t, func() (err error) { // on a busy machine the store may be away
		all, err = lease.Holders(t.Context(), store)
		return err
	})
	i := slices.IndexFunc(all, func(r lease.Record) bool { return r.Worker == worker })
	if i < 0 {
		return lease.Record{}
	}
	return all[i]
}

// windowsEnd: while the server does not answer, a holder issues IDs until its window ends. When the
// server answers again, the holder issues IDs again by itself.
func windowsEnd(t *testing.T, s *Server) {
	ids := seen{}
	o := s.only("a")
	o.Window = s.short()
	h := s.await(t, s.client(t, s.Addr, NewSpace()), o) // on a busy machine the first try may lose its answer
	for _, fault := range []struct {
		name       string
		begin, end func()
	}{{"stopped", s.Pause, s.Resume}, {"killed", s.Kill, s.Restart}} {
		fault.begin()
		err := ids.issue(t, h, math.MaxInt)
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
		ids.issueSoon(t, h, 1000)
	}
}

// recovers waits until the store answers, and checks that it has the entry.
func recovers(t *testing.T, store lease.Store, e lease.Entry) {
	t.Helper()
	Await(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		got, err := store.Get(ctx, e.Key)
		if err == nil && got.Version != e.Version {
			t.Fatalf("there is %+v, not %+v", got, e)
		}
		return err
	})
}

// hangs: while the server hangs, calls end with their contexts, also if they are more than a client has
// connections.
func hangs(t *testing.T, s *Server) {
	const wait = 300 * time.Millisecond
	store := s.client(t, s.Addr, NewSpace())
	e := Put(t, store, "key/0", "", "value")
	s.Pause()
	var all sync.WaitGroup
	for i := range 10 {
		for name, call := range Calls(store, "key/0") {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				if i%2 == 0 {
					ctx, cancel = context.WithCancel(t.Context())
					time.AfterFunc(wait, cancel)
				}
				defer cancel()
				begun := time.Now()
				err := call(ctx)
				if !errors.Is(err, ctx.Err()) && !errors.Is(err, lease.ErrAway) || err == nil {
					t.Errorf("%s: %v", name, err)
				}
				if took := time.Since(begun); took > long/4 {
					t.Errorf("%s returned after %v", name, took)
				}
			})
		}
	}
	all.Wait()
	s.Resume()
	recovers(t, store, e)
}

// survives: what was stored is there after the server was killed. Meanwhile errors name the cause, and Acquire waits.
func survives(t *testing.T, s *Server) {
	store := s.client(t, s.Addr, NewSpace())
	var entries []lease.Entry
	for i := range 20 {
		e := Put(t, store, fmt.Sprint("key/", i), "", "value")
		entries = append(entries, Put(t, store, e.Key, e.Version, "value"))
	}
	s.Kill()
	for name, call := range Calls(store, "key/0") {
		Await(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := call(ctx)
			if err == nil {
				t.Fatalf("%s succeeds without a server", name)
			}
			if !strings.Contains(err.Error(), "connection refused") {
				return fmt.Errorf("%s without a server: %w", name, err)
			}
			return nil
		})
	}
	started := make(chan error)
	go func() {
		_, err := acquire(t, store, lease.Options{Owner: "starts meanwhile", Window: long})
		started <- err
	}()
	time.Sleep(100 * time.Millisecond)
	s.Restart()
	if err := <-started; err != nil {
		t.Errorf("Acquire does not wait for the server: %v", err)
	}
	for _, e := range entries {
		recovers(t, store, e)
	}
}

// oneTrip: a renewal is one round trip, and a Get three at most.
func oneTrip(t *testing.T, s *Server) {
	const times = 10
	proxy := NewProxy(t, s.Addr)
	store := s.client(t, proxy.Addr(), NewSpace())
	e := Put(t, store, "key/0", "", "value")
	e = Put(t, store, e.Key, e.Version, "value") // the client may prepare the request
	least := math.MaxInt
	for try := 0; try < 20 && least > times+times/2; try++ { // now and then a client sends more, such as a heartbeat
		before := proxy.Turns()
		for range times {
			e = Put(t, store, e.Key, e.Version, "value")
		}
		least = min(least, proxy.Turns()-before)
	}
	if least > times+times/2 {
		t.Errorf("%d renewals take %d round trips", times, least)
	}
	recovers(t, store, e)
	before := proxy.Turns()
	for range times {
		recovers(t, store, e)
	}
	if n := proxy.Turns() - before; n > 3*times {
		t.Errorf("%d Gets take %d round trips", times, n)
	}
}

// breaks: if the connection breaks while Acquire waits for an answer, Acquire asks again.
func breaks(t *testing.T, s *Server) {
	proxy := NewProxy(t, s.Addr)
	store := s.client(t, proxy.Addr(), NewSpace())
	e := Put(t, store, "key/0", "", "value")
	for i := range 5 {
		recovers(t, store, e) // so that there is a connection
		proxy.Hold()
		done := make(chan error)
		go func() {
			_, err := acquire(t, store, lease.Options{Owner: fmt.Sprint("client ", i), Window: long})
			done <- err
		}()
		time.Sleep(50 * time.Millisecond) // the request is on its way
		proxy.Reset()
		proxy.Heal()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func outages(t *testing.T, s *Server) {
	proxy, window := NewProxy(t, s.Addr), s.short()
	Outage(t, s, proxy.Addr(),
		Fault{"server killed", func(string) {
			s.Kill()
			time.Sleep(window / 2)
			s.Restart()
		}},
		Fault{"server stopped", func(string) {
			s.Pause()
			time.Sleep(depth.Of(window*5/4, 2*window))
			s.Resume()
		}},
		Fault{"bad network", func(string) { badNetwork(proxy, window) }},
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

// wiped calls wipe, which removes all entries of a space, while worker IDs are held. The holders put their
// records back and go on. A newcomer waits until no window can be open any more, and then gets another worker ID. No ID is
// issued twice.
func wiped(t *testing.T, s *Server, wipe func(t testing.TB, space string)) {
	t.Helper()
	const holders = 3
	space, ids := NewSpace(), seen{}
	var all []*holder
	for i := range holders {
		o := lease.Options{Owner: fmt.Sprint("holder ", i), First: i, Count: 1, Window: max(10*time.Second, s.window())}
		all = append(all, mustAcquire(t, s.client(t, s.Addr, space), o))
		ids.issueSoon(t, all[i], 1000)
	}
	wipe(t, space)
	store := s.client(t, s.Addr, space)
	newcomer := lease.Options{Owner: "newcomer", Count: holders + 1, Window: s.window()}
	Await(t, func() error { // on a busy machine the store may need longer than a window
		ctx, cancel := context.WithTimeout(t.Context(), s.window())
		defer cancel()
		h, err := join(ctx, t, store, newcomer)
		if !errors.Is(err, lease.ErrWiped) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a newcomer gets %v, %v", h, err)
		}
		if errors.Is(err, lease.ErrWiped) {
			return nil
		}
		return err
	})
	for i, h := range all {
		Await(t, func() error {
			if ids.issueSoon(t, h, 10); record(t, store, i).Saves == 0 {
				return fmt.Errorf("%s does not put its record back: %+v", h.name, h.Stats())
			}
			return nil
		})
	}
	var over atomic.Bool
	var letIn sync.WaitGroup
	defer letIn.Wait()
	defer over.Store(true)
	letIn.Go(func() {
		for !over.Load() && !t.Failed() {
			pretendToHaveWaited(t, store)
			time.Sleep(10 * time.Millisecond)
		}
	})
	h, err := join(t.Context(), t, store, newcomer)
	if err != nil || h.Worker() != holders {
		t.Fatalf("a newcomer gets %v, %v", h, err)
	}
	for _, h := range append(all, h) {
		ids.issueSoon(t, h, 1000)
		if err := h.Err(); err != nil {
			t.Errorf("%s has lost its worker ID: %v", h.name, err)
		}
	}
}

// pretendToHaveWaited changes the entry in which newcomers write down for how long they have waited
// since the store lost its entries: a test has no minutes.
func pretendToHaveWaited(t *testing.T, store lease.Store) {
	e, err := store.Get(t.Context(), "store")
	if err != nil || e.Version == "" {
		return
	}
	var door map[string]json.RawMessage
	if err := json.Unmarshal(e.Value, &door); err != nil {
		t.Error(err)
		return
	}
	long := fmt.Appendf(nil, "%d", time.Hour)
	if string(door["open"]) == "true" || string(door["waited"]) == string(long) {
		return
	}
	door["waited"] = long
	value, err := json.Marshal(door)
	if err != nil {
		t.Error(err)
	}
	_, _ = store.Put(t.Context(), "store", e.Version, value) // somebody may have been quicker
}
