//go:build unix

package redislease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

const leasesKey = defaultPrefix + "leases"

// durable is a server that keeps what was saved.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func create(t testing.TB, client redis.UniversalClient, opts *Options) {
	t.Helper()
	if err := Create(t.Context(), client, opts, time.Nanosecond); err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	server := startRedis(t, durable...)
	var n int
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		n++
		opts := &Options{Prefix: fmt.Sprintf("test%d:", n)}
		admin := server.client(t)
		create(t, admin, opts)
		return leasetest.Storage{
			Open: func() lease.Store { return New(server.client(t), opts) },
			Garble: func(worker int) {
				key, field := opts.Prefix+"leases", strconv.Itoa(worker)
				text, err := admin.HGet(t.Context(), key, field).Result()
				if err == nil {
					err = admin.HSet(t.Context(), key, field, text[:len(text)-9]).Err()
				}
				if err != nil {
					t.Fatal(err)
				}
			},
		}
	}, nil)
}

// record is one that is held.
func record(worker int, version uint64) lease.Record {
	return lease.Record{
		Worker:  worker,
		Version: version,
		Token:   "token",
		State:   lease.Held,
		Layout:  snowflake.DefaultLayout(),
		Bounds:  []time.Time{time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)},
		Window:  time.Second,
	}
}

// acquire takes a worker ID, which the test's end gives up.
func acquire(t testing.TB, store lease.Store, opts *lease.Options) (*lease.Lease, *snowflake.Generator) {
	t.Helper()
	l, err := lease.Acquire(t.Context(), store, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { <-l.Done() }) // ctx is done before
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, g
}

// eventually waits for something that must come.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// refuses checks that Acquire fails soon, with an error that has the words.
func refuses(t *testing.T, store lease.Store, want error, words ...string) {
	t.Helper()
	begun := time.Now()
	_, err := lease.Acquire(t.Context(), store, nil)
	if err == nil {
		t.Fatal("Acquire succeeds")
	}
	if want != nil && !errors.Is(err, want) {
		t.Fatalf("the error is %v, not one that matches %q", err, want)
	}
	for _, word := range append(words, "redislease: ") {
		if !strings.Contains(err.Error(), word) {
			t.Fatalf("the error %q does not have %q", err, word)
		}
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Fatalf("%v took %v", err, took)
	}
}

func TestMissingStoreIsRefused(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := server.client(t)
	store := New(client, nil)
	refuses(t, store, ErrNoStore, leasesKey, server.addr, "call redislease.Create")
	if _, err := store.Save(t.Context(), record(1, 1)); !errors.Is(err, ErrNoStore) {
		t.Fatalf("Save: %v", err)
	}
	for _, last := range []int{1, math.MaxInt} {
		if _, err := store.Load(t.Context(), 1, last); !errors.Is(err, ErrNoStore) {
			t.Fatalf("Load of 1 to %d: %v", last, err)
		}
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Fatalf("there are %d keys", n)
	}
	for _, window := range []time.Duration{-1, -time.Second, math.MinInt64, math.MaxInt64, math.MaxInt64/2 + 1} {
		if err := Create(t.Context(), client, nil, window); !errors.Is(err, lease.ErrInvalidOptions) {
			t.Errorf("Create with a window of %v: %v", window, err)
		}
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Fatalf("Create with such windows made %d keys", n)
	}
	begun := time.Now()
	if err := Create(t.Context(), client, nil, 200*time.Millisecond); err != nil || time.Since(begun) < 400*time.Millisecond {
		t.Fatalf("Create with a window of 200 ms returns %v after %v", err, time.Since(begun))
	}
	created := client.HGetAll(t.Context(), leasesKey).Val()
	if err := Create(t.Context(), client, nil, time.Hour); err != nil {
		t.Fatalf("Create of what is there: %v", err)
	}
	if now := client.HGetAll(t.Context(), leasesKey).Val(); len(now) != 1 || now["created"] != created["created"] {
		t.Fatalf("Create changed %v to %v", created, now)
	}
	acquire(t, store, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, window := range []time.Duration{0, math.MaxInt64 / 2} {
		if err := Create(ctx, client, &Options{Prefix: "another:"}, window); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Create that is given up: %v", err)
		}
	}
}

func TestForeignDataIsRefused(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := server.client(t)
	store := New(client, nil)
	good, err := encode(record(7, 3))
	if err != nil {
		t.Fatal(err)
	}
	for field, values := range map[string][]string{
		"7": {
			"", "x", "3", `{"worker":7}`, "3 1763731635.123456", "3 1763731635.123456 ", "3 1763731635.123456 {}",
			"4 1763731635.123456 " + good, "3 1763731635 " + good, "3 1763731635.12345 " + good, "03 1763731635.123456 " + good,
			"3 x.123456 " + good, "3 1763731635.123456 " + good + "x", "3 1763731635.123456 " + strings.Replace(good, "token", "", 2),
		},
		"8": {"3 1763731635.123456 " + good},
		"x": {"3 1763731635.123456 " + good},
	} {
		for _, value := range values {
			client.Del(t.Context(), leasesKey)
			create(t, client, nil)
			client.HSet(t.Context(), leasesKey, field, value)
			refuses(t, store, lease.ErrBadRecord, leasesKey, strconv.Quote(field), server.addr)
			if worker, err := strconv.Atoi(field); err == nil {
				if _, err := store.Save(t.Context(), record(worker, 1)); err == nil {
					t.Fatalf("Save of version 1 over %q succeeds", value)
				}
			}
		}
	}
	client.Del(t.Context(), leasesKey)
	create(t, client, nil)
	client.HSet(t.Context(), leasesKey, "7", "3 1763731635.123456 "+good)
	if snap, err := store.Load(t.Context(), 0, math.MaxInt); err != nil || len(snap.Records) != 1 {
		t.Fatalf("the test itself is wrong: %v, %v", snap, err)
	}

	client.Set(t.Context(), leasesKey, "a text", 0)
	refuses(t, store, lease.ErrBadRecord, leasesKey, "WRONGTYPE")
	if err := Create(t.Context(), client, nil, time.Nanosecond); !errors.Is(err, lease.ErrBadRecord) {
		t.Fatalf("Create over a text: %v", err)
	}
	client.Del(t.Context(), leasesKey)
	create(t, client, nil)
	acquire(t, store, nil)
	if _, err := lease.Acquire(t.Context(), store, &lease.Options{Layout: snowflake.TwitterLayout()}); !errors.Is(err, lease.ErrLayout) ||
		!strings.Contains(err.Error(), leasesKey) {
		t.Fatalf("with another layout: %v", err)
	}
}

func TestLoadReadsOnlyItsRange(t *testing.T) {
	t.Parallel()
	client := startRedis(t).client(t)
	create(t, client, nil)
	store := New(client, nil)
	for _, worker := range []int{0, 1, 2, 9, 10, 11, 100} {
		if _, err := store.Save(t.Context(), record(worker, 1)); err != nil {
			t.Fatal(err)
		}
	}
	client.HSet(t.Context(), leasesKey, "5", "garbled")
	for _, test := range []struct {
		first, last int
		want        []int
	}{{0, 2, []int{0, 1, 2}}, {9, 11, []int{9, 10, 11}}, {10, 10, []int{10}}, {3, 3, nil}, {12, 99, nil}, {6, math.MaxInt, []int{9, 10, 11, 100}}} {
		snap, err := store.Load(t.Context(), test.first, test.last)
		var got []int
		for _, r := range snap.Records {
			got = append(got, r.Worker)
		}
		if slices.Sort(got); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%d to %d: %v, %v", test.first, test.last, got, err)
		}
	}
	if _, err := store.Load(t.Context(), 5, 5); !errors.Is(err, lease.ErrBadRecord) {
		t.Errorf("the garbled one: %v", err)
	}
}

// Versions are exact where Lua's numbers are not.
func TestVersionsOver53Bits(t *testing.T) {
	t.Parallel()
	client := startRedis(t).client(t)
	create(t, client, nil)
	store := New(client, nil)
	for _, version := range []uint64{1<<53 + 1, math.MaxUint64 - 3} {
		text, err := encode(record(1, version))
		if err != nil {
			t.Fatal(err)
		}
		client.HSet(t.Context(), leasesKey, "1", fmt.Sprint(version, " 1763731635.123456 ", text))
		for _, wrong := range []uint64{version - 1, version, version + 2} {
			if _, err := store.Save(t.Context(), record(1, wrong)); !errors.Is(err, lease.ErrConflict) {
				t.Errorf("version %d after %d: %v", wrong, version, err)
			}
		}
		if _, err := store.Save(t.Context(), record(1, version+1)); err != nil {
			t.Errorf("version %d after %d: %v", version+1, version, err)
		}
		if snap, err := store.Load(t.Context(), 1, 1); err != nil || snap.Records[0].Version != version+1 {
			t.Errorf("%v, %v", snap, err)
		}
	}
}

func TestUnfitClientsAreRefused(t *testing.T) {
	t.Parallel()
	addr := startRedis(t).addr
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addr}, ContextTimeoutEnabled: true})
	defer ring.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	defer cluster.Close()
	for _, none := range []redis.UniversalClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		refuses(t, New(none, nil), lease.ErrInvalidOptions, "nil")
		if err := Create(t.Context(), none, nil, 1); !errors.Is(err, lease.ErrInvalidOptions) {
			t.Errorf("Create: %v", err)
		}
		newStore(none, nil).Locate(1) // does not panic
	}
	refuses(t, New(struct{ redis.UniversalClient }{ring}, nil), lease.ErrInvalidOptions, "*redis.Client")
	refuses(t, New(ring, nil), lease.ErrInvalidOptions, "Ring")
	refuses(t, New(cluster, nil), lease.ErrInvalidOptions, "ContextTimeoutEnabled")
	refuses(t, New(newClient(t, &redis.Options{Addr: addr}), nil), lease.ErrInvalidOptions, "ContextTimeoutEnabled")
	fit := newClient(t, &redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	refuses(t, New(fit, &Options{Replicas: -1}), lease.ErrInvalidOptions, "Replicas")
	if err := Create(t.Context(), ring, nil, 1); !errors.Is(err, lease.ErrInvalidOptions) {
		t.Errorf("Create: %v", err)
	}
}

func TestMissingRightsAreRefused(t *testing.T) {
	t.Parallel()
	server := startRedis(t, "--requirepass", "right")
	opts := server.options()
	refuses(t, New(newClient(t, opts), nil), nil, "NOAUTH", server.addr)
	opts.Password = "wrong"
	refuses(t, New(newClient(t, opts), nil), nil, "WRONGPASS", server.addr)
	opts.Password = "right"
	admin := newClient(t, opts)
	create(t, admin, nil)
	acquire(t, New(admin, nil), nil)

	user := func(name string, rules ...string) *redis.Client {
		rules = append([]string{"reset", "on", ">pass"}, rules...)
		if err := admin.ACLSetUser(t.Context(), name, rules...).Err(); err != nil {
			t.Fatal(err)
		}
		opts := server.options()
		opts.Username, opts.Password = name, "pass"
		return newClient(t, opts)
	}
	refuses(t, New(user("noscripts", "~*", "+@all", "-@scripting"), nil), nil, "NOPERM", "evalsha")
	refuses(t, New(user("nokeys", "~other:*", "+@all"), nil), nil, "NOPERM")
	refuses(t, New(user("nowrite", "%R~*", "+@all"), nil), nil, "NOPERM")
	refuses(t, New(user("nohset", "~*", "+@all", "-hset"), nil), nil, "can't run this command")

	// What the README says is enough.
	enough := user("enough", "~snowflake:*", "+eval", "+evalsha", "+time", "+hmget", "+hgetall", "+hset", "+hsetnx", "+get", "+set", "+info")
	admin.FlushAll(t.Context())
	create(t, enough, nil)
	acquire(t, New(enough, nil), nil)
	newUnique(t).take(newSequencer(t, enough, nil), 1)
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	server.Kill()
	refuses(t, New(server.client(t), nil), nil, server.addr, "refused")
}

// A client that hangs returns when its context is done, and leaves nothing that
// keeps the others from going on when the server does.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	opts := server.options()
	opts.PoolSize = 4
	client := newClient(t, opts)
	create(t, client, nil)
	store := New(client, nil)
	if _, err := store.Load(t.Context(), 0, 9); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			want := context.DeadlineExceeded
			if i%2 == 0 {
				ctx, cancel = context.WithCancel(context.Background())
				time.AfterFunc(300*time.Millisecond, cancel)
				want = context.Canceled
			}
			defer cancel()
			begun := time.Now()
			if _, err := store.Save(ctx, record(i, 1)); !errors.Is(err, want) {
				t.Errorf("Save: %v", err)
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("Save returned after %v", took)
			}
		}()
	}
	wg.Wait()
	server.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // less than the ReadTimeout of 3 s
	defer cancel()
	if _, err := store.Save(ctx, record(50, 1)); err != nil {
		t.Fatal(err)
	}
}

// A connection may run out of its time just before the context does that it had it
// from.
func TestTimeoutIsTheContextsOwn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
	defer cancel()
	if _, err := call(ctx, func() (int, error) { return 0, os.ErrDeadlineExceeded }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("just before the deadline: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := call(ctx, func() (int, error) { return 0, os.ErrDeadlineExceeded }); err != os.ErrDeadlineExceeded {
		t.Errorf("long before the deadline: %v", err)
	}
}

func TestRecordsSurviveAKill(t *testing.T) {
	t.Parallel()
	server := startRedis(t, durable...)
	client := server.client(t)
	create(t, client, nil)
	store := New(client, nil)
	var saved []lease.Record
	for worker := range 50 {
		r, err := store.Save(t.Context(), record(worker, 1))
		if err != nil {
			t.Fatal(err)
		}
		saved = append(saved, r)
	}
	server.Kill()
	server.Restart()
	snap, err := store.Load(t.Context(), 0, math.MaxInt)
	if err != nil || len(snap.Records) != len(saved) {
		t.Fatalf("%d records, %v", len(snap.Records), err)
	}
	for _, r := range snap.Records {
		if want := saved[r.Worker]; r.Version != 1 || !r.Renewed.Equal(want.Renewed) {
			t.Errorf("%v, not %v", r, want)
		}
	}
}

// Holders go on to their windows' end, and nobody new begins before that.
func TestStoreThatIsLost(t *testing.T) {
	t.Parallel()
	const window = 500 * time.Millisecond
	client := startRedis(t).client(t)
	create(t, client, nil)
	store := New(client, nil)
	u := newUnique(t)
	issue := func(g *snowflake.Generator) error {
		id, err := g.NextID()
		if err == nil {
			u.add(id)
		}
		return err
	}
	l, g := acquire(t, store, &lease.Options{Window: window})
	if err := issue(g); err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	refuses(t, store, ErrNoStore)
	created := make(chan error, 1)
	go func() { created <- Create(context.Background(), client, nil, 3*window) }() // long enough for what is looked at meanwhile
	eventually(t, "the holder's window ends", func() bool { return errors.Is(issue(g), snowflake.ErrLeaseExpired) })
	if err := l.Stats().LastError; !errors.Is(err, ErrNoStore) {
		t.Errorf("the holder has met %v", err)
	}
	if err := l.Err(); err != nil {
		t.Errorf("the lease ended before there was a store again: %v", err)
	}
	if err := <-created; err != nil {
		t.Fatal(err)
	}
	_, next := acquire(t, store, &lease.Options{Window: window})
	for range 100 {
		if err := issue(next); err != nil {
			t.Fatal(err)
		}
	}
	<-l.Done()
	if err := l.Err(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("the holder ends with %v", err)
	}
}

// startReplica starts a replica of a server, and waits until it is in step.
func startReplica(t testing.TB, master *redisServer) *redisServer {
	t.Helper()
	replica := startReplicaOf(t, master.addr)
	inStep(t, master, replica)
	return replica
}

func startReplicaOf(t testing.TB, addr string) *redisServer {
	_, port, _ := net.SplitHostPort(addr)
	return startRedis(t, "--replicaof", "127.0.0.1 "+port)
}

func inStep(t testing.TB, master, replica *redisServer) {
	t.Helper()
	from, to := master.client(t), replica.client(t)
	eventually(t, "the replica is in step", func() bool {
		mark := time.Now().String()
		from.Set(context.Background(), "mark", mark, 0)
		time.Sleep(5 * time.Millisecond)
		return to.Get(context.Background(), "mark").Val() == mark
	})
}

func TestReplicaIsNoStore(t *testing.T) {
	t.Parallel()
	master := startRedis(t)
	create(t, master.client(t), nil)
	replica := startReplica(t, master)
	refuses(t, New(replica.client(t), nil), nil, "READONLY", replica.addr)
}

func TestSaveWaitsForReplicas(t *testing.T) {
	t.Parallel()
	master := startRedis(t)
	replica := startReplica(t, master)
	proxy := servertest.NewProxy(t, master.addr)
	client := newClient(t, &redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true})
	create(t, client, nil)
	store := New(client, &Options{Replicas: 1})
	client.ScriptFlush(t.Context())
	if _, err := store.Save(t.Context(), record(9, 1)); err != nil { // EVALSHA in vain, then EVAL
		t.Fatal(err)
	}
	if n := replica.client(t).HExists(t.Context(), leasesKey, "9").Val(); !n {
		t.Fatal("the replica has no record")
	}
	turns := proxy.Turns()
	if _, err := store.Save(t.Context(), record(9, 2)); err != nil {
		t.Fatal(err)
	}
	if turns = proxy.Turns() - turns; turns != 1 {
		t.Errorf("a save with WAIT takes %d round trips", turns)
	}

	replica.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := store.Save(ctx, record(9, 3)); !errors.Is(err, ErrReplicas) {
		t.Fatalf("while the replica hangs: %v", err)
	}
	if ctx.Err() != nil {
		t.Fatal("it took longer than the caller had")
	}
	if _, err := store.Save(t.Context(), record(9, 2)); !errors.Is(err, lease.ErrConflict) {
		t.Fatalf("an old version while the replica hangs: %v", err)
	}
	refuses(t, store, ErrReplicas, leasesKey)
	replica.Resume()
	inStep(t, master, replica)
	if _, err := store.Save(t.Context(), record(9, 4)); err != nil {
		t.Fatalf("after what fewer acknowledged, which is written: %v", err)
	}
	if _, err := New(client, &Options{Replicas: 2}).Save(t.Context(), record(9, 5)); !errors.Is(err, ErrReplicas) {
		t.Fatalf("with one replica of two: %v", err)
	}
}

// A failover loses what the replica had not: here a renewal of one holder and the
// whole acquisition of another, whose worker IDs then go to others.
func TestFailoverThatLosesRecords(t *testing.T) {
	t.Parallel()
	const window = 4 * time.Second
	master := startRedis(t)
	create(t, master.client(t), nil)
	link := servertest.NewProxy(t, master.addr)
	replica := startReplicaOf(t, link.Addr())
	inStep(t, master, replica)
	var now atomic.Value // the master's address, as Sentinel would tell
	now.Store(master.addr)
	open := func() lease.Store {
		return New(newClient(t, &redis.Options{ContextTimeoutEnabled: true, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, now.Load().(string))
		}}), nil)
	}
	// The first one's record is to outlast all until the next one looks at it.
	first, firstIDs := acquire(t, open(), &lease.Options{Window: 2 * window, Owner: "first"})
	inStep(t, master, replica)
	link.Drop()
	renewals := first.Stats().Renewals
	lost, lostIDs := acquire(t, open(), &lease.Options{Window: window, Owner: "lost"})
	eventually(t, "the first is renewed", func() bool { return first.Stats().Renewals > renewals })
	master.Kill()
	eventually(t, "the lost one meets the outage", func() bool { return lost.Stats().LastError != nil })
	_, bound := lost.Window()
	if err := replica.client(t).ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	now.Store(replica.addr)

	// The new master knows the first one, which goes on; it does not know the
	// other, whose worker ID it gives away.
	next, nextIDs := acquire(t, open(), &lease.Options{Window: window, Owner: "next"})
	if first.Worker() == next.Worker() || lost.Worker() != next.Worker() {
		t.Fatalf("the first has %d, the lost one %d, the next one %d", first.Worker(), lost.Worker(), next.Worker())
	}
	seen := map[snowflake.ID]bool{}
	twice := 0
	for end := false; !end; time.Sleep(100 * time.Microsecond) {
		id, err := nextIDs.NextID()
		if err != nil {
			t.Fatal(err)
		}
		twice += count(t, seen, id, bound)
		id, err = lostIDs.NextID()
		switch {
		case err == nil:
			twice += count(t, seen, id, bound)
		case errors.Is(err, snowflake.ErrLeaseExpired):
			end = true
		default:
			t.Fatal(err)
		}
	}
	if twice == 0 {
		t.Error("the test itself is wrong: no ID was issued twice")
	}
	t.Logf("%d IDs were issued twice, all before %v, the bound that was lost", twice, bound)
	if err := lost.Err(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("the lost one ended with %v", err)
	}
	renewals = first.Stats().Renewals
	eventually(t, "the first is renewed on the new master", func() bool { return first.Stats().Renewals > renewals })
	if _, err := firstIDs.NextID(); err != nil || first.Err() != nil {
		t.Errorf("the first: %v, %v", err, first.Err())
	}
}

// count returns 1 for an ID that was seen before, which must be of before bound.
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

// startCluster starts two masters, and a replica of the one that has the key.
func startCluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	var addrs []string
	var nodes []*redis.Client
	for range 3 {
		server := startRedis(t, "--cluster-enabled", "yes")
		addrs, nodes = append(addrs, server.addr), append(nodes, server.client(t))
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	do(nodes[0].ClusterAddSlotsRange(ctx, 0, 8191).Err())
	do(nodes[1].ClusterAddSlotsRange(ctx, 8192, 16383).Err())
	for _, addr := range addrs[1:] {
		host, port, _ := net.SplitHostPort(addr)
		do(nodes[0].ClusterMeet(ctx, host, port).Err())
	}
	slot, err := nodes[0].ClusterKeySlot(ctx, leasesKey).Result()
	do(err)
	master := nodes[slot/8192]
	id, err := master.ClusterMyID(ctx).Result()
	do(err)
	eventually(t, "the replica follows", func() bool { return nodes[2].ClusterReplicate(ctx, id).Err() == nil })
	eventually(t, "the cluster is ready", func() bool {
		ready := strings.Contains(master.Info(ctx, "replication").Val(), "state=online")
		for _, node := range nodes {
			info := node.ClusterInfo(ctx).Val()
			ready = ready && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		}
		return ready
	})
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestCluster(t *testing.T) {
	t.Parallel()
	client := startCluster(t)
	create(t, client, nil)
	for _, replicas := range []int{0, 1} {
		l, g := acquire(t, New(client, &Options{Replicas: replicas}), nil)
		if _, err := g.NextID(); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	one := New(client, &Options{Replicas: 1})
	for version := uint64(1); version < 20; version++ {
		if _, err := one.Save(t.Context(), record(9, version)); err != nil {
			t.Fatal(err)
		}
	}
	refuses(t, New(client, &Options{Replicas: 2}), ErrReplicas)
	newUnique(t).take(newSequencer(t, client, nil), 10)
}
