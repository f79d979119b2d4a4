//go:build unix && go1.25

package servertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/netcut"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Server is a running server with a store for it.
type Server struct {
	*Process        // that serves
	Addr     string // what Open takes
	Dir      string // the directory that has its data, if a test removes or restores it

	// Open opens one more client with separate connections. Nil: Main's.
	Open Opener

	// Others are the server's processes besides Process. Their CPU time counts, too.
	Others []*Process

	// Wipes are the ways to remove all entries of a space, by name.
	Wipes map[string]func(t testing.TB, space string)

	// Garble makes an entry of a space unreadable. It is nil if the store can read any content.
	Garble func(t testing.TB, space, key string)

	// NoLeader is an error that the store's errors also match while a cluster has no leader, or
	// nil.
	NoLeader error

	// Env is added to the environment of a fleet's processes.
	Env []string

	// Window is the shortest window for the tests. 0 means 500 ms.
	Window time.Duration

	// Fleet is the window of the holders in Bench. 0 means 3 s.
	Fleet time.Duration
}

func (s *Server) window() time.Duration { return cmp.Or(s.Window, 500*time.Millisecond) }

// short returns the window for tests that allow late renewals, as on a busy machine.
func (s *Server) short() time.Duration {
	return cmp.Or(s.Window, depth.Of(300*time.Millisecond, s.window()))
}

// long is the window of holders that must not look dead, even on a slow machine.
const long = time.Minute

// patience is the longest wait for something that must happen, even on a slow machine.
const patience = 2 * time.Minute

// cpu returns the CPU time of the whole server.
func (s *Server) cpu() time.Duration {
	sum := s.CPU()
	for _, p := range s.Others {
		sum += p.CPU()
	}
	return sum
}

// open opens one more client, as Opener does.
func (s *Server) open(addr, space string) (store lease.Store, end func() error, err error) {
	if s.Open != nil {
		return s.Open(addr, space)
	}
	return opener(addr, space)
}

// client opens one more client, and closes it when t ends.
func (s *Server) client(t testing.TB, addr, space string) lease.Store {
	t.Helper()
	store, end, err := s.open(addr, space)
	require.NoError(t, err)
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

// clients opens n clients, but at most 200, because servers limit their connections.
func (s *Server) clients(t testing.TB, n int, addr, space string) []lease.Store {
	stores := make([]lease.Store, min(n, 200))
	for i := range stores {
		stores[i] = s.client(t, addr, space)
	}
	return stores
}

// Run runs the tests that every store must pass with its server: Faults, and then Calm.
func Run(t *testing.T, s *Server) {
	Faults(t, s)
	Calm(t, s)
}

// Faults runs the tests that need the server alone: many clients arrive, and the server is killed,
// stopped and cut off.
func Faults(t *testing.T, s *Server) {
	t.Run("CrowdTakesEveryWorkerID", func(t *testing.T) { crowd(t, s) })
	t.Run("FleetOutlivesItsServerAndNetwork", func(t *testing.T) {
		proxy := NewProxy(t, s.Addr)
		Outage(t, s, proxy.Addr(),
			Passes("CallsEndInTimeIfTheServerHangs", func(t *testing.T, _ string) { hangs(t, s) }),
			Passes("EntriesSurviveAKillAndErrorsNameTheCause", func(t *testing.T, _ string) { survives(t, s) }),
			Passes("BadNetwork", func(*testing.T, string) { badNetwork(proxy, s.short()) }))
	})
}

// Calm runs the tests that do not disturb the server. They run in parallel, after t's function has
// returned.
func Calm(t *testing.T, s *Server) {
	tests := map[string]func(*testing.T, *Server){
		"RenewalIsOneRoundTrip":               oneTrip,
		"AcquireRetriesIfItsConnectionBreaks": breaks,
		"DelayedRequestDoesNotMoveTheBound":   delayedRequest,
	}
	for name, wipe := range s.Wipes {
		tests["WipedStoreHeals/"+name] = func(t *testing.T, s *Server) { wiped(t, s, wipe) }
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// join acquires a worker ID from a store that may have lost its entries.
func join(ctx context.Context, t testing.TB, store lease.Store, o lease.Options) (*netcut.Holder, error) {
	o.Layout = fleetLayout()
	return netcut.Join(ctx, t, store, o)
}

// acquire acquires a worker ID from a new store.
func acquire(t testing.TB, store lease.Store, o lease.Options) (*netcut.Holder, error) {
	o.NewStore = true
	return join(context.Background(), t, store, o)
}

func mustAcquire(t testing.TB, store lease.Store, o lease.Options) *netcut.Holder {
	t.Helper()
	return Must(acquire(t, store, o))(t)
}

// acquireAll lets n clients acquire concurrently, and returns the time that each took.
func acquireAll(t testing.TB, stores []lease.Store, n int, window time.Duration) ([]*netcut.Holder, []time.Duration) {
	t.Helper()
	holders, took := make([]*netcut.Holder, n), make([]time.Duration, n)
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
	Do(t, errs...)
	by := map[int]int{}
	for i, h := range holders {
		j, taken := by[h.Worker()]
		require.False(t, taken, "clients %d and %d have worker ID %d", i, j, h.Worker())
		by[h.Worker()] = i
	}
	return holders, took
}

// crowd: clients acquire all worker IDs of a layout concurrently. One more client is refused.
func crowd(t *testing.T, s *Server) {
	n := depth.Of(32, 1<<fleetLayout().WorkerBits)
	stores := Crowd(t, s, n)
	if n < 1<<fleetLayout().WorkerBits {
		return
	}
	var err error
	// Without a deadline the newcomer would wait for three minutes. On a busy machine it needs
	// longer to read all entries.
	for wait := 20 * time.Second; ; wait *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err = join(ctx, t, stores[0], lease.Options{Owner: "one more", Window: lease.MaxWindow, NewStore: true})
		cancel()
		if errors.Is(err, lease.ErrExhausted) || wait > 2*time.Minute {
			break
		}
	}
	var full *lease.ExhaustedError
	require.ErrorIs(t, err, lease.ErrExhausted)
	require.ErrorAs(t, err, &full)
	require.Len(t, full.Holders, n)
}

// Crowd lets n clients with separate connections acquire worker IDs concurrently, and checks that
// each gets a different one.
func Crowd(t *testing.T, s *Server, n int) []lease.Store {
	t.Helper()
	stores := s.clients(t, n, s.Addr, NewSpace())
	acquireAll(t, stores, n, lease.MaxWindow)
	return stores
}

// only returns options for worker ID 3 alone.
func (s *Server) only(owner string) lease.Options {
	return lease.Options{Owner: owner, First: 3, Count: 1, Window: s.window()}
}

// await acquires a worker ID that will become free.
func (s *Server) await(t *testing.T, store lease.Store, o lease.Options) (h *netcut.Holder) {
	t.Helper()
	Await(t, func() (err error) {
		h, err = acquire(t, store, o)
		return err
	})
	return h
}

// seen maps all IDs of a test to the names of the holders that issued them.
type seen map[snowflake.ID]string

// issue issues n IDs. If the lease expires earlier, it returns the error.
func (ids seen) issue(t *testing.T, h *netcut.Holder, n int) error {
	t.Helper()
	for range n {
		id, err := h.Gen.NextID()
		if err != nil {
			return err
		}
		if by, ok := ids[id]; ok {
			t.Fatalf("%s issues %d (%v), which %s issued before", h.Name, id, fleetLayout().Decode(id), by)
		}
		ids[id] = h.Name
	}
	return nil
}

// issueSoon issues n IDs. If the window has ended, because the server is away or a renewal is late,
// it tries again.
func (ids seen) issueSoon(t *testing.T, h *netcut.Holder, n int) {
	t.Helper()
	Await(t, func() error {
		err := ids.issue(t, h, n)
		if err != nil && !errors.Is(err, snowflake.ErrLeaseExpired) {
			t.Fatalf("%s does not issue IDs: %v, %+v", h.Name, err, h.Stats())
		}
		return err
	})
}

func delayedRequest(t *testing.T, s *Server) {
	space := NewSpace()
	proxy := NewProxy(t, s.Addr)
	a := s.await(t, s.client(t, proxy.Addr(), space), s.only("a"))
	proxy.Stall()
	Await(t, func() error {
		if a.Stats().Failures == 0 {
			return errors.New("a renews although its requests do not arrive")
		}
		return nil
	})
	direct := s.client(t, s.Addr, space)
	o := s.only("b")
	o.Window = lease.MaxWindow // so that b does not renew meanwhile, even on a busy machine
	b := s.await(t, direct, o)
	before := record(t, direct, 3)
	proxy.Heal() // now a's requests of a window ago arrive
	select {
	case <-a.Done():
	case <-time.After(patience):
		t.Fatalf("a is not told that its lease is lost: %+v", a.Stats())
	}
	time.Sleep(s.window() / 2)
	after := record(t, direct, 3)
	if after.Saves != before.Saves || after.Token != before.Token || !reflect.DeepEqual(after.Bounds, before.Bounds) {
		t.Fatalf("delayed requests of a made\n%+v of\n%+v", after, before)
	}
	Do(t, b.Err())
}

// saved has the fields of a record that a save changes.
type saved struct {
	Saves  uint64
	Token  string
	Bounds []time.Time
}

// record returns the record of a worker ID. If there is none, Saves is 0.
func record(t *testing.T, store lease.Store, worker int) (r saved) {
	t.Helper()
	Await(t, func() error { // on a busy machine the store may time out
		e, err := store.Get(t.Context(), fmt.Sprintf("worker/%d", worker))
		if r = (saved{}); err == nil && e.Version != "" {
			err = json.Unmarshal(e.Value, &r)
		}
		return err
	})
	return r
}

// recovers waits until the store answers, and checks that it has the entry.
func recovers(t *testing.T, store lease.Store, e lease.Entry) {
	t.Helper()
	Await(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		got, err := store.Get(ctx, e.Key)
		if err == nil {
			require.Equal(t, e.Version, got.Version, "there is %+v, not %+v", got, e)
		}
		return err
	})
}

// toTheEnd issues IDs until the holder's window has ended, because its server is away.
func (ids seen) toTheEnd(t *testing.T, h *netcut.Holder) {
	t.Helper()
	err := ids.issue(t, h, math.MaxInt)
	var expired *snowflake.LeaseExpiredError
	require.ErrorAs(t, err, &expired)
	end := h.Grant().To
	assert.True(t, expired.NotAfter.Equal(end) && !expired.Time.Before(end), "it stops before its window's end, %v: %v", end, err)
	for id := range ids {
		at := fleetLayout().Decode(id).Time
		require.True(t, at.Before(end), "an ID is of %v, where the window ends at %v", at, end)
	}
}

// hangs: while the server hangs, a holder issues IDs until its window ends, and calls end with
// their contexts, even if there are more calls than connections. When the server resumes, the
// holder does, too.
func hangs(t *testing.T, s *Server) {
	wait := s.short() * 5 / 4 // so that the windows end
	store, h, ids := s.client(t, s.Addr, NewSpace()), s.shortHolder(t), seen{}
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
				ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
				assert.True(t, ended || errors.Is(err, lease.ErrAway), "%s: %v", name, err)
				assert.Less(t, time.Since(begun), long/4, "%s: %v", name, err)
			})
		}
	}
	ids.toTheEnd(t, h)
	all.Wait()
	s.Resume()
	recovers(t, store, e)
	ids.issueSoon(t, h, 1000)
}

// survives: entries survive if the server is killed. While it is down, a holder issues IDs until
// its window ends, errors name the cause, and Acquire waits.
func survives(t *testing.T, s *Server) {
	store, h, ids := s.client(t, s.Addr, NewSpace()), s.shortHolder(t), seen{}
	var entries []lease.Entry
	for i := range 20 {
		e := Put(t, store, fmt.Sprint("key/", i), "", "value")
		entries = append(entries, Put(t, store, e.Key, e.Version, "value"))
	}
	s.Kill()
	var all sync.WaitGroup
	for name, call := range Calls(store, "key/0") {
		all.Go(func() {
			wait := s.short()
			assert.EventuallyWithT(t, func(c *assert.CollectT) {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				wait *= 2
				assert.ErrorContains(c, call(ctx), "connection refused", "%s without a server", name)
			}, patience, 5*time.Millisecond)
		})
	}
	ids.toTheEnd(t, h)
	all.Wait()
	started := make(chan error)
	go func() {
		_, err := acquire(t, store, lease.Options{Owner: "newcomer", Window: long})
		started <- err
	}()
	time.Sleep(100 * time.Millisecond)
	s.Restart()
	assert.NoError(t, <-started, "Acquire does not wait for the server")
	for _, e := range entries {
		recovers(t, store, e)
	}
	ids.issueSoon(t, h, 1000)
}

// shortHolder acquires a worker ID, as the only client of a new space.
func (s *Server) shortHolder(t *testing.T) *netcut.Holder {
	t.Helper()
	o := s.only("a")
	o.Window = s.short()
	// On a busy machine the first try may time out.
	return s.await(t, s.client(t, s.Addr, NewSpace()), o)
}

// oneTrip: a renewal takes one round trip, and a Get at most three.
func oneTrip(t *testing.T, s *Server) {
	const times = 10
	proxy := NewProxy(t, s.Addr)
	store := s.client(t, proxy.Addr(), NewSpace())
	e := Put(t, store, "key/0", "", "value")
	e = Put(t, store, e.Key, e.Version, "value") // the client may prepare the request first
	least := math.MaxInt
	// Sometimes a client sends more, such as a heartbeat.
	for try := 0; try < 20 && least > times+times/2; try++ {
		before := proxy.Turns()
		for range times {
			e = Put(t, store, e.Key, e.Version, "value")
		}
		least = min(least, proxy.Turns()-before)
	}
	assert.LessOrEqual(t, least, times+times/2, "%d renewals take %d round trips", times, least)
	recovers(t, store, e)
	before := proxy.Turns()
	for range times {
		recovers(t, store, e)
	}
	assert.LessOrEqual(t, proxy.Turns()-before, 3*times, "of %d Gets", times)
}

// breaks: if the connection breaks while Acquire waits for a reply, Acquire tries again.
func breaks(t *testing.T, s *Server) {
	proxy := NewProxy(t, s.Addr)
	store := s.client(t, proxy.Addr(), NewSpace())
	e := Put(t, store, "key/0", "", "value")
	for i := range depth.Of(2, 5) {
		recovers(t, store, e) // so that there is a connection
		proxy.Stall()
		done := make(chan error)
		go func() {
			_, err := acquire(t, store, lease.Options{Owner: fmt.Sprint("client ", i), Window: long})
			done <- err
		}()
		time.Sleep(50 * time.Millisecond) // until the proxy has the request
		proxy.Reset()
		proxy.Heal()
		assert.NoError(t, <-done)
	}
}

// HalfOpenPool makes the connections of a pool half-open, and checks that only the first request
// times out, not one for each connection. fill makes several idle connections; if it is nil,
// concurrent requests do. store uses the proxy.
func HalfOpenPool(t *testing.T, proxy *Proxy, store lease.Store, fill func()) {
	t.Helper()
	e := Put(t, store, "worker/1", "", "value")
	if fill == nil {
		fill = func() {
			var all sync.WaitGroup
			for range 64 {
				all.Go(func() { _, _ = store.Get(t.Context(), e.Key) })
			}
			all.Wait()
		}
	}
	fill()
	proxy.Swallow()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := store.Get(ctx, e.Key)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	Await(t, func() error { // for less time than a time-out for each connection
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := store.Get(ctx, e.Key)
		return err
	})
}

// badNetwork delays, drops, resets and stalls the clients' requests.
func badNetwork(proxy *Proxy, window time.Duration) {
	proxy.Delay(window / 20)
	time.Sleep(depth.Of(window/2, window))
	proxy.Drop()
	time.Sleep(depth.Of(window*5/4, 2*window))
	proxy.Heal()
	time.Sleep(window / 2)
	proxy.Reset()
	time.Sleep(window / 2)
	proxy.Stall()
	time.Sleep(window / 2)
	proxy.Heal()
}

// wiped calls wipe, which removes all entries of a space, while worker IDs are held. At their next
// save, which a step back of their clocks causes, the holders put their records back and continue.
// A newcomer waits until no window can be open, and then gets another worker ID. No ID is issued
// twice.
func wiped(t *testing.T, s *Server, wipe func(t testing.TB, space string)) {
	t.Helper()
	const holders = 3
	space, ids := NewSpace(), seen{}
	var all []*netcut.Holder
	for i := range holders {
		o := lease.Options{Owner: fmt.Sprint("holder ", i), First: i, Count: 1, Window: long}
		all = append(all, mustAcquire(t, s.client(t, s.Addr, space), o))
		ids.issueSoon(t, all[i], 1000)
	}
	wipe(t, space)
	store := s.client(t, s.Addr, space)
	newcomer := lease.Options{Owner: "newcomer", Count: holders + 1, Window: s.window()}
	comes := func(within time.Duration) (*netcut.Holder, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return join(ctx, t, store, newcomer)
	}
	Await(t, func() error { // on a busy machine the request may take longer than a window
		h, err := comes(s.window())
		require.Error(t, err, "a newcomer gets %v", h)
		if errors.Is(err, lease.ErrWiped) {
			return nil
		}
		return err
	})
	for i, h := range all {
		h.StepBack(time.Hour)
		behind := true
		Await(t, func() error {
			err := ids.issue(t, h, 10)
			there := record(t, store, i).Saves > 0
			if err == nil && there {
				return nil
			}
			// On a busy machine a renewal may have put the record back, and the watermark, below
			// which no other clock sequence begins.
			if errors.Is(err, snowflake.ErrClockBackward) && there && behind {
				h.StepBack(-time.Hour)
				behind = false
			}
			return fmt.Errorf("%s does not put its record back: %v, %+v", h.Name, err, h.Stats())
		})
	}
	Await(t, func() error {
		netcut.PretendToHaveWaited(t.Context(), store)
		h, err := comes(10 * time.Second)
		if err == nil {
			require.Equal(t, holders, h.Worker())
			all = append(all, h)
		}
		return err
	})
	for _, h := range all {
		ids.issueSoon(t, h, 1000)
		assert.NoError(t, h.Err(), h.Name)
	}
}
