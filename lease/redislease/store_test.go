//go:build unix

package redislease

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/conn"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/redistest"
)

const leasesKey = conn.DefaultPrefix + "leases"

// durable are the arguments of a server that keeps its data after a crash.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// opened returns a store, which may not exist yet.
func opened(t testing.TB, client redis.UniversalClient, opts *Options) *Store {
	t.Helper()
	s, err := New(client, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// create makes a new store.
func create(t testing.TB, client redis.UniversalClient, opts *Options) *Store {
	t.Helper()
	s := opened(t, client, opts)
	if err := s.Create(t.Context(), time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	var n atomic.Int64
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		opts := &Options{Prefix: fmt.Sprintf("test%d:", n.Add(1))}
		admin := server.Client(t)
		create(t, admin, opts)
		return leasetest.Storage{
			Open: func() lease.Store { return opened(t, server.Client(t), opts) },
			Wipe: func() {
				if err := admin.Del(t.Context(), opts.Prefix+"leases").Err(); err != nil {
					t.Fatal(err)
				}
			},
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
	}, &leasetest.Options{Parallel: true})
}

// record returns a held record.
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

// acquire takes a worker ID, which is released when the test ends.
func acquire(t testing.TB, store lease.Store, opts *lease.Options) (*lease.Lease, *snowflake.Generator) {
	t.Helper()
	l, err := lease.Acquire(t.Context(), store, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.Release(ctx) // fails if the server has stopped
	})
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, g
}

// refuses checks that Acquire fails soon with an error that matches want and contains the words.
func refuses(t *testing.T, store lease.Store, want error, words ...string) {
	t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // the client tries a refused connection again
	defer cancel()
	_, err := lease.Acquire(ctx, store, nil)
	if err == nil {
		t.Fatal("Acquire succeeds")
	}
	if want != nil && !errors.Is(err, want) {
		t.Fatalf("the error is %v, not an error that matches %q", err, want)
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
	server := redistest.Start(t)
	client := server.Client(t)
	store := opened(t, client, nil)
	refuses(t, store, ErrNoStore, leasesKey, server.Addr, "Create makes it")
	if _, err := store.Save(t.Context(), record(1, 1)); !errors.Is(err, ErrNoStore) {
		t.Fatalf("Save: %v", err)
	}
	if _, err := store.LoadWorker(t.Context(), 1); !errors.Is(err, ErrNoStore) || !errors.Is(err, lease.ErrWiped) {
		t.Fatalf("LoadWorker: %v", err)
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Fatalf("there are %d keys", n)
	}
	for _, window := range []time.Duration{-1, -time.Second, math.MinInt64, math.MaxInt64, math.MaxInt64/2 + 1} {
		if err := store.Create(t.Context(), window); !errors.Is(err, lease.ErrInvalidOptions) {
			t.Errorf("Create with a window of %v: %v", window, err)
		}
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Fatalf("Create with such windows made %d keys", n)
	}
	for _, window := range []time.Duration{0, math.MaxInt64 / 2} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := store.Create(ctx, window); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Create with a window of %v does not wait: %v", window, err)
		}
		cancel()
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Fatalf("Create that was given up made %d keys", n)
	}
	create(t, client, nil)
	created := client.HGetAll(t.Context(), leasesKey).Val()
	if err := store.Create(t.Context(), time.Hour); err != nil {
		t.Fatalf("Create of what is there: %v", err)
	}
	if now := client.HGetAll(t.Context(), leasesKey).Val(); len(now) != 1 || now["created"] != created["created"] {
		t.Fatalf("Create changed %v to %v", created, now)
	}
	acquire(t, store, nil)
}

func TestForeignDataIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	store := opened(t, client, nil)
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
			refuses(t, store, lease.ErrBadRecord, leasesKey, strconv.Quote(field), server.Addr)
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
	if snap, err := store.Load(t.Context()); err != nil || len(snap.Records) != 1 {
		t.Fatalf("the test itself is wrong: %v, %v", snap, err)
	}

	client.Set(t.Context(), leasesKey, "a text", 0)
	refuses(t, store, lease.ErrBadRecord, leasesKey, "WRONGTYPE")
	if err := store.Create(t.Context(), time.Nanosecond); !errors.Is(err, lease.ErrBadRecord) {
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

// Lua's numbers are exact up to 53 bits only. Greater versions are exact too.
func TestVersionsOver53BitsAreExact(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	create(t, client, nil)
	store := opened(t, client, nil)
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
		if snap, err := store.LoadWorker(t.Context(), 1); err != nil || snap.Records[0].Version != version+1 {
			t.Errorf("%v, %v", snap, err)
		}
	}
}

func TestUnfitClientsAreRefused(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addr}, ContextTimeoutEnabled: true})
	defer ring.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	defer cluster.Close()
	plain := redistest.NewClient(t, &redis.Options{Addr: addr})
	fit := redistest.NewClient(t, &redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	for _, test := range []struct {
		client redis.UniversalClient
		opts   Options
		says   string
	}{
		{nil, Options{}, "nil"},
		{(*redis.Client)(nil), Options{}, "nil"},
		{(*redis.ClusterClient)(nil), Options{}, "nil"},
		{struct{ redis.UniversalClient }{ring}, Options{}, "*redis.Client"},
		{ring, Options{}, "Ring"},
		{cluster, Options{}, "ContextTimeoutEnabled"},
		{plain, Options{}, "ContextTimeoutEnabled"},
		{fit, Options{Replicas: -1}, "Replicas"},
		{fit, Options{Prefix: "{}"}, "Prefix"},
		{fit, Options{Prefix: "a{b:"}, "Prefix"},
		{fit, Options{Prefix: "a}b:"}, "Prefix"},
	} {
		if _, err := New(test.client, &test.opts); !errors.Is(err, lease.ErrInvalidOptions) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%T, %+v: %v", test.client, test.opts, err)
		}
	}
}

// All keys of a store are in one slot of a cluster.
func TestKeysShareASlot(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, "--cluster-enabled", "yes").Client(t)
	for _, prefix := range []string{"", "snowflake:7:", "{a}:", "x{a}y{b}", "a{b}c}"} {
		s := opened(t, client, &Options{Prefix: prefix})
		want := client.ClusterKeySlot(t.Context(), s.key.Name).Val()
		for _, key := range []string{s.used, s.historyOf(0), s.historyOf(1023)} {
			if got := client.ClusterKeySlot(t.Context(), key).Val(); got != want {
				t.Errorf("%q is in slot %d, %q in slot %d", s.key.Name, want, key, got)
			}
		}
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
	create(t, admin, nil)
	acquire(t, opened(t, admin, nil), nil)

	refuses(t, opened(t, server.User(t, admin, "noscripts", "~*", "+@all", "-@scripting"), nil), nil, "NOPERM", "evalsha")
	refuses(t, opened(t, server.User(t, admin, "nokeys", "~other:*", "+@all"), nil), nil, "NOPERM")
	refuses(t, opened(t, server.User(t, admin, "nowrite", "%R~*", "+@all"), nil), nil, "NOPERM")
	refuses(t, opened(t, server.User(t, admin, "nohset", "~*", "+@all", "-hset"), nil), nil, "can't run this command")

	// The rights that the README names are enough.
	enough := server.User(t, admin, "enough", "~snowflake:*", "+eval", "+evalsha", "+time", "+hmget", "+hgetall", "+hexists", "+hset",
		"+sismember", "+smembers", "+sadd", "+srem", "+zrange", "+zrangebylex", "+zadd", "+zrem")
	admin.FlushAll(t.Context())
	create(t, enough, nil)
	for range 2 {
		l, _ := acquire(t, opened(t, enough, nil), &lease.Options{Count: 1})
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// The error says why the server did not answer, even if the caller's context has ended.
func TestErrorSaysWhyServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	store := create(t, client, nil)
	server.Kill()
	refuses(t, store, syscall.ECONNREFUSED, server.Addr, "refused")
	for _, patience := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := store.Save(ctx, record(1, 1))
		if late := ctx.Err() == context.DeadlineExceeded; !errors.Is(err, syscall.ECONNREFUSED) || late && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("within %v: %v", patience, err)
		}
		cancel()
	}
}

// If the server hangs, a call returns when its context ends. When the server answers again, other clients
// work at once.
func TestCallsEndInTimeIfRedisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	opts := server.Options()
	opts.PoolSize = 4
	client := redistest.NewClient(t, opts)
	create(t, client, nil)
	store := opened(t, client, nil)
	if _, err := store.Load(t.Context()); err != nil {
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

func TestRecordsSurviveAKill(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	client := server.Client(t)
	create(t, client, nil)
	store := opened(t, client, nil)
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
	snap, err := store.Load(t.Context())
	if err != nil || len(snap.Records) != len(saved) {
		t.Fatalf("%d records, %v", len(snap.Records), err)
	}
	for _, r := range snap.Records {
		if want := saved[r.Worker]; r.Version != 1 || !r.Renewed.Equal(want.Renewed) {
			t.Errorf("%v, not %v", r, want)
		}
	}
}

// Whichever keys are deleted while worker IDs are held, nobody gets a worker ID until Create has waited for
// all windows to end. No ID is issued twice.
func TestStoreWithDeletedKeysIsNotNew(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		wipe func(ctx context.Context, client *redis.Client, s *Store) error
	}{
		{"the holders' records", func(ctx context.Context, client *redis.Client, s *Store) error {
			return client.HDel(ctx, s.key.Name, "0", "1", "2").Err()
		}},
		{"the hash", func(ctx context.Context, client *redis.Client, s *Store) error {
			return client.Del(ctx, s.key.Name).Err()
		}},
		{"the records and what was used", func(ctx context.Context, client *redis.Client, s *Store) error {
			return client.Del(ctx, s.key.Name, s.used).Err()
		}},
		{"everything", func(ctx context.Context, client *redis.Client, s *Store) error {
			return client.FlushAll(ctx).Err()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := fleetServer(t)
			server.Window = depth.Of(500*time.Millisecond, time.Second)
			client := redistest.NewClient(t, &redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
			in := func(space string) *Store { return opened(t, client, &Options{Prefix: space + ":"}) }
			servertest.Wiped(t, server, func(space string) {
				servertest.Gone(t, in(space), func() {
					if err := test.wipe(t.Context(), client, in(space)); err != nil {
						t.Fatal(err)
					}
				})
			}, func(space string) {
				if err := in(space).Create(t.Context(), server.Window); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// If a key has data that this package did not write, the store refuses it, and saves no part of a record.
func TestForeignHistoryIsRefused(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	store := create(t, client, nil)
	h := lease.Holding{Worker: 3, From: time.Unix(1e9, 1), To: time.Unix(1e9, 2), Token: "t"}
	r, err := store.SaveEnding(t.Context(), record(3, 1), h, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	key := store.historyOf(3)
	good := client.ZRange(t.Context(), key, 0, -1).Val()[0]
	for _, bad := range []string{"", "x", good[:beforeHolding], good[:len(good)-1], strings.Replace(good, `"worker":3`, `"worker":4`, 1)} {
		client.Del(t.Context(), key)
		client.ZAdd(t.Context(), key, redis.Z{Member: bad})
		if kept, err := store.History(t.Context(), 3); !errors.Is(err, lease.ErrBadRecord) || !strings.Contains(err.Error(), key) {
			t.Errorf("of %q History returns %v, %v", bad, kept, err)
		}
	}
	client.Del(t.Context(), key)
	client.Set(t.Context(), key, "a text", 0)
	r.Version++
	if _, err := store.SaveEnding(t.Context(), r, h, time.Time{}); !errors.Is(err, lease.ErrBadRecord) {
		t.Errorf("over a text SaveEnding returns %v", err)
	}
	if snap, err := store.LoadWorker(t.Context(), 3); err != nil || snap.Records[0].Version != 1 {
		t.Errorf("half of a save was made: %v, %v", snap.Records, err)
	}
	if _, err := store.Save(t.Context(), r); err != nil {
		t.Errorf("a renewal needs no history: %v", err)
	}
}

func TestReplicaIsRefused(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	create(t, master.Client(t), nil)
	replica := redistest.StartReplica(t, master)
	refuses(t, opened(t, replica.Client(t), nil), nil, "READONLY", replica.Addr)
}

func TestSavesAndLoadsWaitForReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	proxy := servertest.NewProxy(t, master.Addr)
	client := redistest.NewClient(t, &redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true})
	create(t, client, nil)
	store := opened(t, client, &Options{Replicas: 1})
	client.ScriptFlush(t.Context())
	if _, err := store.Save(t.Context(), record(9, 1)); err != nil { // EVALSHA fails, then EVAL succeeds
		t.Fatal(err)
	}
	if n := replica.Client(t).HExists(t.Context(), leasesKey, "9").Val(); !n {
		t.Fatal("the replica has no record")
	}
	turns := proxy.Turns()
	if _, err := store.Save(t.Context(), record(9, 2)); err != nil {
		t.Fatal(err)
	}
	if turns = proxy.Turns() - turns; turns != 1 {
		t.Errorf("a save with WAIT takes %d round trips", turns)
	}

	// inTime saves a record, and checks that the call returns before its context ends.
	inTime := func(store *Store, r lease.Record) error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := store.Save(ctx, r)
		if ctx.Err() != nil {
			t.Fatal("it took longer than the caller had")
		}
		return err
	}
	replica.Pause()
	if err := inTime(store, record(9, 3)); !errors.Is(err, ErrReplicas) {
		t.Fatalf("while the replica hangs: %v", err)
	}
	if err := inTime(store, record(9, 2)); !errors.Is(err, lease.ErrConflict) {
		t.Fatalf("an old version while the replica hangs: %v", err)
	}
	if _, err := store.LoadWorker(t.Context(), 9); !errors.Is(err, ErrReplicas) {
		t.Fatalf("a record that no replica acknowledged is loaded: %v", err)
	}
	refuses(t, store, ErrReplicas, leasesKey)
	replica.Resume()
	redistest.InStep(t, master, replica)
	client.ConfigResetStat(t.Context())
	if snap, err := store.LoadWorker(t.Context(), 9); err != nil || snap.Records[0].Version != 3 {
		t.Fatalf("when the replica has caught up: %v, %v", snap.Records, err)
	}
	if stat := client.Info(t.Context(), "commandstats").Val(); !strings.Contains(stat, "cmdstat_hset:calls=1,") {
		t.Errorf("a load writes nothing that WAIT would wait for: %s", stat)
	}
	if _, err := store.Save(t.Context(), record(9, 4)); err != nil {
		t.Fatalf("after what fewer acknowledged, which is written: %v", err)
	}
	if err := inTime(opened(t, client, &Options{Replicas: 2}), record(9, 5)); !errors.Is(err, ErrReplicas) {
		t.Fatalf("with one replica of two: %v", err)
	}
}

func TestHolderStopsWithoutReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	client := master.Client(t)
	create(t, client, nil)
	l, g := acquire(t, opened(t, client, &Options{Replicas: 1}), &lease.Options{Window: time.Second})
	redistest.Eventually(t, "the lease is renewed", func() bool { return l.Stats().Renewals > 0 })
	replica.Pause()
	redistest.Eventually(t, "a renewal fails", func() bool { return errors.Is(l.Stats().LastError, ErrReplicas) })
	renewals := l.Stats().Renewals
	redistest.Eventually(t, "the window ends", func() bool {
		_, err := g.NextID()
		return errors.Is(err, snowflake.ErrLeaseExpired)
	})
	if n := l.Stats().Renewals; n != renewals {
		t.Errorf("%d renewals that no replica acknowledged", n-renewals)
	}
	replica.Resume()
	redistest.Eventually(t, "IDs are issued again", func() bool {
		_, err := g.NextID()
		return err == nil
	})
}

// deadline is a context with a deadline. It is not done when the deadline passes.
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

// WAIT with a time-out of 0 waits for ever. If a replica hung, the connection could not be used again.
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
		if _, err := store.Save(ctx, record(1, 1)); !errors.Is(err, errNotSent) {
			t.Fatal(err)
		}
		if len(sent.timeouts) != 1 || sent.timeouts[0] < 1 || sent.timeouts[0] > test.most.Milliseconds() {
			t.Errorf("with %v left, WAIT has the time-outs %v, in ms, and not 1 to %d", test.left, sent.timeouts, test.most.Milliseconds())
		}
	}
	if _, err := store.Save(t.Context(), record(1, 1)); !errors.Is(err, errNotSent) || sent.timeouts[len(sent.timeouts)-1] != 1000 {
		t.Errorf("without a deadline, WAIT has the time-out %v, in ms", sent.timeouts)
	}
}

// A failover loses saves that the replica does not have: here a renewal of one holder, and the acquisition
// of another holder, whose worker ID then goes to a third one.
func TestFailoverMayRepeatIDsUntilTheBoundOnly(t *testing.T) {
	t.Parallel()
	window := depth.Of(2*time.Second, 4*time.Second)
	master := redistest.Start(t)
	create(t, master.Client(t), nil)
	link := servertest.NewProxy(t, master.Addr)
	replica := redistest.StartReplicaOf(t, link.Addr())
	redistest.InStep(t, master, replica)
	var now atomic.Value // the master's address, as Sentinel would report it
	now.Store(master.Addr)
	open := func() lease.Store {
		return opened(t, redistest.NewClient(t, &redis.Options{ContextTimeoutEnabled: true, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, now.Load().(string))
		}}), nil)
	}
	// The first holder's record must be live until the next holder looks at it.
	first, firstIDs := acquire(t, open(), &lease.Options{Window: 2 * window, Owner: "first"})
	redistest.InStep(t, master, replica)
	link.Drop()
	renewals := first.Stats().Renewals
	lost, lostIDs := acquire(t, open(), &lease.Options{Window: window, Owner: "lost", OnLoss: lease.Stop})
	redistest.Eventually(t, "the first is renewed", func() bool { return first.Stats().Renewals > renewals })
	master.Kill()
	redistest.Eventually(t, "the lost one meets the outage", func() bool { return lost.Stats().LastError != nil })
	bound := lost.Grant().To
	if err := replica.Client(t).ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	now.Store(replica.Addr)

	// The new master has the first holder's record, so that holder continues. It does not have the other
	// holder's record, and gives its worker ID away.
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
	redistest.Eventually(t, "the first is renewed on the new master", func() bool { return first.Stats().Renewals > renewals })
	if _, err := firstIDs.NextID(); err != nil || first.Err() != nil {
		t.Errorf("the first: %v, %v", err, first.Err())
	}
}

// count returns 1 if an ID was seen before. Such an ID must have a time before bound.
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
	client := redistest.StartCluster(t, leasesKey)
	create(t, client, nil)
	for _, replicas := range []int{0, 1} {
		l, g := acquire(t, opened(t, client, &Options{Replicas: replicas}), &lease.Options{Owner: "one", Reuse: lease.ReuseKeep})
		if _, err := g.NextID(); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	one := opened(t, client, &Options{Replicas: 1})
	for version := uint64(1); version < 20; version++ {
		if _, err := one.Save(t.Context(), record(9, version)); err != nil {
			t.Fatal(err)
		}
	}
	refuses(t, opened(t, client, &Options{Replicas: 2}), ErrReplicas)
	if kept, err := one.History(t.Context(), 0); err != nil || len(kept) == 0 {
		t.Errorf("the history of worker 0: %v, %v", kept, err)
	}
}
