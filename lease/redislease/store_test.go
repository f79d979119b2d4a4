//go:build unix && go1.25

package redislease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/conn"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/redistest"
)

const leasesKey = conn.DefaultPrefix + "leases"

// opened returns a store with these options.
func opened(t testing.TB, client redis.UniversalClient, opts *Options) *Store {
	t.Helper()
	return servertest.Must(New(client, opts))(t)
}

// put stores a value, and returns its version.
func put(t testing.TB, s lease.Store, key, old, value string) string {
	t.Helper()
	e, err := s.Put(t.Context(), key, old, []byte(value))
	for errors.Is(err, ErrReplicas) { // on a busy machine a replica is late
		e, err = s.Get(t.Context(), key)
	}
	servertest.Do(t, err)
	return e.Version
}

// acquire acquires a worker ID, which is released when the test ends.
func acquire(t testing.TB, store lease.Store, opts *lease.Options) (*lease.Lease, *snowflake.Generator) {
	t.Helper()
	o := lease.Options{}
	if opts != nil {
		o = *opts
	}
	o.NewStore, o.Logger = true, slog.New(slog.DiscardHandler)
	l, err := lease.Acquire(t.Context(), store, &o)
	for errors.Is(err, ErrReplicas) { // on a busy machine a replica is late
		l, err = lease.Acquire(t.Context(), store, &o)
	}
	servertest.Do(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.Release(ctx) // fails if the server has stopped
	})
	g := servertest.Must(snowflake.NewLeased(l, nil))(t)
	return l, g
}

// refuses checks that Acquire soon returns an error that matches want and contains the words.
func refuses(t *testing.T, store lease.Store, want error, words ...string) {
	t.Helper()
	servertest.Await(t, func() error { // on a busy machine the server's answer may be late
		begun := time.Now()
		// If the store is away, Acquire retries.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := lease.Acquire(ctx, store, &lease.Options{NewStore: true, Logger: slog.New(slog.DiscardHandler)})
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(begun), 10*time.Second)
		for _, word := range append(words, "redislease: ") {
			if !strings.Contains(err.Error(), word) {
				return fmt.Errorf("it does not say %q: %w", word, err)
			}
		}
		if want != nil && !errors.Is(err, want) {
			return fmt.Errorf("it does not match %q: %w", want, err)
		}
		return nil
	})
}

func TestForeignDataIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	store := opened(t, client, nil)
	for _, member := range []string{"worker/7", "worker/7 ", "worker/7 v", "worker/7 v 1",
		"worker/7 v x value", "worker/7 v 1.5 value", "worker/7  1 value",
		"worker/7 v -1 value", "worker/7 v +1 value", "worker/7 v\t1 1 value", "worker/7 v\v1 1 value",
		"worker/7 v 99999999999999999999 value"} {
		client.Del(t.Context(), leasesKey)
		client.ZAdd(t.Context(), leasesKey, redis.Z{Member: member})
		all, err := store.List(t.Context(), "worker/")
		require.NoError(t, err, member)
		is, err := store.Get(t.Context(), "worker/7")
		require.ErrorIs(t, err, lease.ErrBadRecord, member)
		require.ErrorContains(t, err, leasesKey)
		require.ErrorContains(t, err, "worker/7")
		require.NotEmpty(t, is.Version)
		require.Equal(t, []lease.Entry{{Key: "worker/7", Version: is.Version}}, all, member)
		for _, old := range []string{"", "v", is.Version + "0"} {
			_, err := store.Put(t.Context(), "worker/7", old, nil)
			require.ErrorIs(t, err, lease.ErrConflict, "Put over %q in place of version %q", member, old)
		}
		e := servertest.Put(t, store, "worker/7", is.Version, "value")
		all = servertest.Must(store.List(t.Context(), ""))(t)
		require.Equal(t, []lease.Entry{e}, all)
	}
	client.Del(t.Context(), leasesKey)
	client.ZAdd(t.Context(), leasesKey, redis.Z{Member: "worker/7 v 1 a"}, redis.Z{Member: "worker/7 w 1 b"})
	_, err := store.Put(t.Context(), "worker/7", "v", nil)
	assert.ErrorIs(t, err, lease.ErrConflict)
	e, err := store.Get(t.Context(), "worker/7")
	require.ErrorIs(t, err, lease.ErrBadRecord, "Get of two entries of one key: %v, %v", e, err)
	require.NoError(t, store.Delete(t.Context(), "worker/7", e.Version))
	require.Zero(t, client.Exists(t.Context(), leasesKey).Val())
	client.Del(t.Context(), leasesKey)
	client.Set(t.Context(), leasesKey, "a text", 0)
	refuses(t, store, lease.ErrBadRecord, leasesKey, "WRONGTYPE")
}

// The client repeats a request if it lost the connection, and a repeated Put succeeds. But copies
// of a cloned machine may draw the same random version: only one of them stores its value.
func TestPutThatIsSentAgainSucceeds(t *testing.T) {
	t.Parallel()
	store, value := opened(t, redistest.Start(t).Client(t), nil), []byte("value\n\x00 of two lines")
	for range 2 {
		e := servertest.Must(store.put(t.Context(), "a", "", "version", value))(t)
		got := servertest.Must(store.Get(t.Context(), "a"))(t)
		assert.Equal(t, "version", got.Version)
		assert.True(t, got.Time.Equal(e.Time), "%v, not %v", got, e)
	}
	_, err := store.put(t.Context(), "a", "", "version", value[:5])
	assert.ErrorIs(t, err, lease.ErrConflict)
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	t.Parallel()
	fit := redistest.NewClient(t, &redis.Options{ContextTimeoutEnabled: true})
	for _, test := range []struct {
		client redis.UniversalClient
		opts   Options
		says   string
	}{
		{nil, Options{}, "nil"},
		{fit, Options{Replicas: -1}, "Replicas"},
	} {
		_, err := New(test.client, &test.opts)
		require.ErrorIs(t, err, lease.ErrInvalidOptions, "%+v", test.opts)
		assert.ErrorContains(t, err, test.says, "%+v", test.opts)
	}
}

func TestMissingRightsAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "right")
	opts := server.Options()
	refuses(t, opened(t, redistest.NewClient(t, opts), nil), nil, "NOAUTH", server.Addr)
	opts.Password = "wrong"
	refuses(t, opened(t, redistest.NewClient(t, opts), nil), nil, "WRONGPASS", server.Addr)
	opts.Password = "right"
	admin := redistest.NewClient(t, opts)
	acquire(t, opened(t, admin, nil), nil)

	refuses(t, opened(t, server.User(t, admin, "noscripts", "~*", "+@all", "-@scripting"), nil), nil, "NOPERM", "evalsha")
	refuses(t, opened(t, server.User(t, admin, "nokeys", "~other:*", "+@all"), nil), nil, "NOPERM")
	refuses(t, opened(t, server.User(t, admin, "nowrite", "%R~*", "+@all"), nil), nil, "NOPERM")
	refuses(t, opened(t, server.User(t, admin, "nozadd", "~*", "+@all", "-zadd"), nil), nil, "can't run this command")

	// The rights in the documentation are sufficient.
	enough := server.User(t, admin, "enough", "~snowflake:*", "+eval", "+evalsha", "+time", "+zrangebylex", "+zadd", "+zrem")
	admin.FlushAll(t.Context())
	for range 2 {
		l, _ := acquire(t, opened(t, enough, nil), &lease.Options{Count: 1})
		assert.NoError(t, l.Release(t.Context()))
	}
}

// The error has the reason why the server did not answer, even if the caller's context has ended.
func TestErrorSaysWhyServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := opened(t, server.Client(t), nil)
	server.Kill()
	refuses(t, store, syscall.ECONNREFUSED, server.Addr, "refused")
	for _, patience := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, time.Second} {
		servertest.Await(t, func() error { // on a busy machine the time may end before the first refusal
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := store.Get(ctx, "a")
			late := ctx.Err() != nil // perhaps only since Get has returned
			if !errors.Is(err, syscall.ECONNREFUSED) || late && !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("within %v: %w", patience, err)
			}
			return nil
		})
	}
}

// The client does not write to stderr if connections fail: the errors have the cause. The test runs
// itself in another process, whose stderr it reads.
func TestClientIsQuiet(t *testing.T) {
	t.Parallel()
	const child = "REDISLEASE_QUIET"
	if os.Getenv(child) != "" {
		store := opened(t, redistest.NewClient(t, &redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true}), nil)
		_, err := store.Get(t.Context(), "a")
		assert.Error(t, err, "there is a server at port 1")
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestClientIsQuiet$")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v, and it writes %s", err, out)
	assert.NotContains(t, string(out), "redis: ", "%v, and it writes %s", err, out)
}

func TestPutsAndReadsWaitForReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master, master.Addr)
	proxy := servertest.NewProxy(t, master.Addr)
	client := redistest.NewClient(t, &redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true})
	store := opened(t, client, &Options{Replicas: 1})
	client.ScriptFlush(t.Context())
	version := put(t, store, "a", "", "value") // EVALSHA fails, then EVAL succeeds
	require.EqualValues(t, 1, replica.Client(t).ZCard(t.Context(), leasesKey).Val(), "the replica has no entry")
	var before string
	servertest.Await(t, func() error { // if the replica is late, put sends more
		turns := proxy.Turns()
		before, version = version, put(t, store, "a", version, "value")
		if n := proxy.Turns() - turns; n != 1 {
			return fmt.Errorf("a Put with WAIT takes %d round trips, not 1", n)
		}
		return nil
	})

	// inTime calls a store's method, which must return before its context ends.
	inTime := func(call func(context.Context) error) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := call(ctx)
		assert.NoError(t, ctx.Err(), "it took longer than the caller had")
		return err
	}
	late := func(store *Store, old string) error {
		t.Helper()
		return inTime(func(ctx context.Context) error { _, err := store.Put(ctx, "a", old, []byte("late")); return err })
	}
	get := func(store *Store) error {
		t.Helper()
		return inTime(func(ctx context.Context) error { _, err := store.Get(ctx, "a"); return err })
	}
	replica.Pause()
	require.ErrorIs(t, late(store, version), ErrReplicas)
	require.ErrorIs(t, late(store, before), lease.ErrConflict)
	// The connection of this store has sent no writes.
	other := opened(t, master.Client(t), &Options{Replicas: 1})
	two := opened(t, client, &Options{Replicas: 2})
	var reads sync.WaitGroup
	reads.Go(func() { assert.ErrorIs(t, get(other), ErrReplicas, "an entry that no replica acknowledged is read") })
	reads.Go(func() {
		assert.ErrorIs(t, inTime(func(ctx context.Context) error { _, err := other.List(ctx, ""); return err }), ErrReplicas)
	})
	reads.Go(func() { assert.ErrorIs(t, get(two), ErrReplicas) })
	reads.Wait()
	replica.Resume()
	redistest.InStep(t, master, replica)
	client.ConfigResetStat(t.Context())
	e, err := store.Get(t.Context(), "a")
	require.NoError(t, err, "when the replica has caught up")
	require.Equal(t, "late", string(e.Value), "when the replica has caught up")
	assert.Contains(t, client.Info(t.Context(), "commandstats").Val(), "cmdstat_zrem:calls=1,")
	put(t, store, "a", e.Version, "value") // replaces the written value that too few acknowledged
	require.ErrorIs(t, late(two, ""), lease.ErrConflict)
}

// deadline is a context with a deadline that does not end it.
type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }

// waits records the time-outs of WAIT commands, and does not send them.
type waits struct{ timeouts []int64 }

var errNotSent = errors.New("not sent")

func (w *waits) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (w *waits) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (w *waits) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if cmd.Name() == "wait" {
				w.timeouts = append(w.timeouts, cmd.Args()[2].(int64))
			}
			cmd.SetErr(errNotSent)
		}
		return errNotSent
	}
}

// WAIT with a time-out of 0 waits forever. If a replica hung, the connection would be lost.
func TestWaitAlwaysHasATimeout(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	defer client.Close()
	sent := &waits{}
	client.AddHook(sent)
	store := opened(t, client, &Options{Replicas: 1})
	for _, test := range []struct{ left, most time.Duration }{
		{time.Hour, time.Second},
		{time.Second, time.Second / 2},
		{100 * time.Millisecond, 50 * time.Millisecond},
		{2 * time.Millisecond, time.Millisecond},
		{time.Millisecond, time.Millisecond},
		{time.Microsecond, time.Millisecond},
		{0, time.Millisecond},
		{-time.Hour, time.Millisecond},
	} {
		sent.timeouts = nil
		ctx := deadline{t.Context(), time.Now().Add(test.left)}
		_, err := store.Put(ctx, "a", "", nil)
		require.ErrorIs(t, err, errNotSent)
		if len(sent.timeouts) != 1 || sent.timeouts[0] < 1 || sent.timeouts[0] > test.most.Milliseconds() {
			t.Errorf("with %v left, WAIT has the time-outs %v, in ms, and not 1 to %d", test.left, sent.timeouts, test.most.Milliseconds())
		}
	}
	_, err := store.Put(t.Context(), "a", "", nil)
	require.ErrorIs(t, err, errNotSent, "without a deadline, WAIT has the time-out %v, in ms", sent.timeouts)
	assert.EqualValues(t, 1000, sent.timeouts[len(sent.timeouts)-1], "without a deadline, WAIT has the time-out %v, in ms", sent.timeouts)
}

// A failover loses saves that the replica does not have: here a renewal of one holder, and the
// acquisition of another, whose worker ID a third one then acquires.
func TestFailoverMayRepeatIDsUntilTheBoundOnly(t *testing.T) {
	t.Parallel()
	window := depth.Of(2*time.Second, 4*time.Second)
	master := redistest.Start(t)
	link := servertest.NewProxy(t, master.Addr)
	replica := redistest.StartReplica(t, master, link.Addr())
	// The master's address that Sentinel would report to two clients.
	var now, late atomic.Value
	now.Store(master.Addr)
	late.Store(master.Addr)
	open := func(now *atomic.Value) lease.Store {
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, now.Load().(string))
		}
		return opened(t, redistest.NewClient(t, &redis.Options{ContextTimeoutEnabled: true, Dialer: dial}), nil)
	}
	// The first holder's record must be live until the next holder looks at it.
	first, firstIDs := acquire(t, open(&now), &lease.Options{Window: 2 * window, Owner: "first", Count: 1})
	redistest.InStep(t, master, replica)
	link.Drop()
	renewals := first.Stats().Renewals
	lost, lostIDs := acquire(t, open(&late), &lease.Options{Window: window, Owner: "lost", First: 1, Count: 1, OnLoss: lease.Stop})
	redistest.Eventually(t, "the first is renewed", func() bool { return first.Stats().Renewals > renewals })
	master.Kill()
	redistest.Eventually(t, "the lost one meets the outage", func() bool { return lost.Stats().LastError != nil })
	bound := lost.Grant().To
	servertest.Do(t, replica.Client(t).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	now.Store(replica.Addr)

	// The new master has the first holder's record, so that holder continues. It does not have the
	// other holder's record, so another process can acquire its worker ID.
	next, nextIDs := acquire(t, open(&now), &lease.Options{Window: window, Owner: "next", First: 1, Count: 1})
	left := time.Until(bound) // 0 or less on a busy machine
	require.NotEqual(t, next.Worker(), first.Worker())
	require.Equal(t, next.Worker(), lost.Worker())
	seen := map[snowflake.ID]bool{}
	twice := 0
	for end := false; !end; time.Sleep(100 * time.Microsecond) {
		id := servertest.Must(nextIDs.NextID())(t)
		twice += count(t, seen, id, bound)
		id, err := lostIDs.NextID()
		switch {
		case err == nil:
			twice += count(t, seen, id, bound)
		case errors.Is(err, snowflake.ErrLeaseExpired):
			end = true
		default:
			t.Fatal(err)
		}
		if twice > 0 || time.Now().After(bound) {
			late.Store(replica.Addr) // earlier, the lost one would put its record back, or be told
		}
	}
	if twice == 0 && left > window/10 {
		t.Error("the test itself is wrong: no ID was issued twice")
	}
	t.Logf("%d IDs were issued twice, all before %v, the bound that was lost", twice, bound)
	redistest.Eventually(t, "the lost one learns it", func() bool { return lost.Err() != nil })
	assert.ErrorIs(t, lost.Err(), lease.ErrLost)
	renewals = first.Stats().Renewals
	redistest.Eventually(t, "the first is renewed on the new master", func() bool { return first.Stats().Renewals > renewals })
	servertest.Must(firstIDs.NextID())(t)
	assert.NoError(t, first.Err())
}

// count returns 1 if an ID was seen before, and checks that its time is before bound.
func count(t *testing.T, seen map[snowflake.ID]bool, id snowflake.ID, bound time.Time) int {
	if !seen[id] {
		seen[id] = true
		return 0
	}
	if at := snowflake.Decode(id).Time; !at.Before(bound) {
		t.Fatalf("%d of %v was issued twice, after the bound %v that was lost", id, at, bound)
	}
	return 1
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, leasesKey)
	client := cluster.ClusterClient
	assert.Contains(t, servertest.Must(opened(t, client, nil).Settings(t.Context()))(t), "appendonly = no")
	var stores []*Store
	for replicas := range 2 {
		store := opened(t, client, &Options{Replicas: replicas})
		l, g := acquire(t, store, &lease.Options{Owner: "one", Reuse: lease.ReuseKeep})
		id := servertest.Must(g.NextID())(t)
		servertest.Do(t, l.Release(t.Context()))
		h := servertest.Must(lease.Whois(t.Context(), store, id))(t)
		assert.Equal(t, "one", h.Owner)
		stores = append(stores, store)
	}
	version := ""
	for range 20 {
		version = put(t, stores[1], "a", version, "value")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := opened(t, client, &Options{Replicas: 2}).Put(ctx, "a", version, nil)
	require.ErrorIs(t, err, ErrReplicas)

	// While the key's slot moves to another master, calls follow each step at once.
	e, err := stores[0].Get(t.Context(), "a") // the Put was stored
	require.NoError(t, err)
	version = e.Version
	for range 2 {
		cluster.Move(t, leasesKey, func() {
			for _, s := range stores {
				version = put(t, s, "a", version, "value")
				e := servertest.Must(s.Get(t.Context(), "a"))(t)
				assert.Equal(t, version, e.Version)
			}
		})
	}

	// While each master redirects to the other one, no call is answered.
	servertest.Do(t, client.Del(t.Context(), leasesKey).Err())
	cluster.RedirectInCircles(t)
	for _, s := range stores {
		_, err := s.Get(t.Context(), "a")
		assert.ErrorIs(t, err, lease.ErrAway)
		assert.ErrorContains(t, err, "MOVED")
	}
}

// If the open connections are half-open, and new ones work, the client drops all idle ones after
// the first call that times out.
func TestIdleConnectionsThatAreHalfOpenAreDropped(t *testing.T) {
	t.Parallel()
	const idle = 20
	server := redistest.Start(t)
	proxy := servertest.NewProxy(t, server.Addr)
	client := redistest.NewClient(t,
		&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true, PoolSize: idle, ReadTimeout: time.Minute})
	fill := func() {
		var conns []*redis.Conn
		for range idle {
			conns = append(conns, client.Conn())
			servertest.Do(t, conns[len(conns)-1].Ping(t.Context()).Err())
		}
		for _, c := range conns {
			servertest.Do(t, c.Close())
		}
		require.EqualValues(t, idle, client.PoolStats().IdleConns)
	}
	store := opened(t, client, nil)
	servertest.HalfOpenPool(t, proxy, store, fill)

	fill() // connections that answer are kept
	proxy.Delay(150 * time.Millisecond)
	turns := proxy.Turns()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := store.Get(ctx, "a")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	proxy.Heal()
	servertest.Await(t, func() error {
		if n, pings := client.PoolStats().IdleConns, proxy.Turns()-turns-1; n != idle-1 || pings < idle-1 {
			return fmt.Errorf("%d connections are idle after %d PINGs", n, pings)
		}
		return nil
	})
}

// A lease logs a warning about settings that let the server lose acknowledged writes.
func TestSettingsThatLoseEntriesAreLogged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, test := range []struct{ set, unsafe []string }{
		{[]string{"appendonly", "no", "maxmemory-policy", "allkeys-lru"}, []string{"appendonly = no", "maxmemory-policy = allkeys-lru"}},
		{[]string{"appendonly", "yes", "appendfsync", "everysec", "maxmemory-policy", "volatile-ttl"}, []string{"appendfsync = everysec"}},
		{[]string{"appendfsync", "always", "maxmemory-policy", "noeviction"}, nil},
	} {
		for i := 0; i < len(test.set); i += 2 {
			servertest.Do(t, admin.ConfigSet(t.Context(), test.set[i], test.set[i+1]).Err())
		}
		store := opened(t, admin, nil)
		require.Equal(t, test.unsafe, servertest.Must(store.Settings(t.Context()))(t))
		l, _ := acquire(t, store, nil)
		redistest.Eventually(t, "the lease shows them", func() bool { return slices.Equal(test.unsafe, l.Stats().Unsafe) })
	}
	_, err := opened(t, server.User(t, admin, "noconfig", "~*", "+@all", "-config"), nil).Settings(t.Context())
	assert.ErrorContains(t, err, "NOPERM")
}
