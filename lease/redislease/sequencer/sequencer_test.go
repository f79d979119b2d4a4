//go:build unix && go1.25

package sequencer

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
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/conn"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/redistest"
)

// The sequencer is not a store, so no suite tests it. This file is longer than the code, because
// Redis may lose keys, restore old ones, fail over and set its clock back, in any order, and each
// has a test on real servers.

const sequenceKey = conn.DefaultPrefix + "sequence:0"

func TestMain(m *testing.M) {
	servertest.Parallel = 16 // the tests mostly wait
	os.Exit(servertest.Main(m, nil))
}

func newSequencer(t testing.TB, client redis.UniversalClient, opts *Options) *Sequencer {
	t.Helper()
	return servertest.Must(New(client, opts))(t)
}

// unique collects all IDs of a test, and checks at its end that they are different.
type unique struct {
	testing.TB
	ids []snowflake.ID
}

func newUnique(t testing.TB) *unique {
	u := &unique{TB: t}
	t.Cleanup(func() {
		slices.Sort(u.ids)
		for i := range max(0, len(u.ids)-1) {
			assert.NotEqual(t, u.ids[i], u.ids[i+1], "%v was issued twice", layouts.Redis().Decode(u.ids[i]))
		}
	})
	return u
}

// take takes n IDs, and checks that they increase, have the shard, and have times from Redis' clock
// to MaxAhead after it.
func (u *unique) take(s *Sequencer, n int) []snowflake.ID {
	u.Helper()
	ids, begun := make([]snowflake.ID, n), serverTime(u, s.key.Client)
	got, err := s.Fill(context.Background(), ids)
	require.NoError(u, err)
	require.Equal(u, n, got)
	for i := 1; i < n; i++ {
		if ids[i] <= ids[i-1] {
			u.Fatalf("%d does not increase: %d after %d", i, ids[i], ids[i-1])
		}
	}
	for _, id := range []snowflake.ID{ids[0], ids[n-1]} {
		p := layouts.Redis().Decode(id)
		require.Equal(u, s.shard, p.Worker)
		require.WithinRange(u, p.Time, begun.Truncate(time.Millisecond), serverTime(u, s.key.Client).Add(MaxAhead))
	}
	u.ids = append(u.ids, ids...)
	return ids
}

// setState writes the key of a server whose clock reads next.
func setState(t testing.TB, client *redis.Client, next time.Time) {
	t.Helper()
	servertest.Do(t, client.Set(t.Context(), sequenceKey, fmt.Sprint(writer(t, client), " ", next.UnixMilli(), " 0"), 0).Err())
}

// writer returns the server that wrote the key last.
func writer(t testing.TB, client *redis.Client) string {
	t.Helper()
	name, _, _ := strings.Cut(servertest.Must(client.Get(t.Context(), sequenceKey).Result())(t), " ")
	return name
}

func serverTime(t testing.TB, client redis.UniversalClient) time.Time {
	t.Helper()
	return servertest.Must(client.Time(t.Context()).Result())(t)
}

func TestSequencerIDsHaveTimeShardAndSequence(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	s, u := newSequencer(t, client, &Options{Shard: 4095}), newUnique(t)
	var last snowflake.ID
	for range 100 {
		id := u.take(s, 1)[0]
		require.Greater(t, id, last)
		last = id
	}
	id := servertest.Must(s.NextIDContext(t.Context()))(t)
	require.Greater(t, id, last)
	for _, n := range []int{1, 1023, 1024, 1025, 10_000, 100_000} {
		ids := u.take(s, n)
		for i := 1; i < n; i++ {
			if ids[i]&1023 != 0 && ids[i] != ids[i-1]+1 {
				t.Fatalf("of %d IDs, %d follows %d", n, ids[i], ids[i-1])
			}
		}
	}
	begun := serverTime(t, client)
	u.take(s, 1500*1024) // it waits, because it may be ahead by only 1,000 ms
	require.GreaterOrEqual(t, serverTime(t, client).Sub(begun), 400*time.Millisecond)

	n, err := s.Fill(t.Context(), nil)
	require.Zero(t, n)
	require.NoError(t, err)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ids := range [][]snowflake.ID{nil, make([]snowflake.ID, 5)} {
		n, err = s.Fill(done, ids)
		require.Zero(t, n)
		require.ErrorIs(t, err, context.Canceled)
	}
}

// While Sequencers with separate clients issue IDs, the keys are deleted, the scripts are flushed,
// and the server is killed and restarted, with and without its data. The IDs of each caller
// increase.
func TestSequencersNeverRepeatAnID(t *testing.T) {
	t.Parallel()
	server, u := redistest.Start(t), newUnique(t)
	admin := server.Client(t)
	var mu sync.Mutex
	var counts [3]int
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer all.Wait()
	defer stop()
	for i := range counts {
		s := newSequencer(t, server.Client(t), nil)
		for range 4 {
			all.Go(func() {
				ids, last := make([]snowflake.ID, 300), snowflake.ID(0)
				for round := 0; ctx.Err() == nil; round++ {
					ctx, cancel := context.WithTimeout(ctx, time.Second)
					n, err := s.Fill(ctx, ids[:1+round%300])
					cancel()
					if err != nil { // the server is away
						time.Sleep(5 * time.Millisecond)
					}
					if n > 0 {
						assert.Greater(t, ids[0], last)
						last = ids[n-1]
					}
					mu.Lock()
					u.ids = append(u.ids, ids[:n]...)
					counts[i] += n
					mu.Unlock()
				}
			})
		}
	}
	progress := func() {
		t.Helper()
		mu.Lock()
		before := counts
		mu.Unlock()
		servertest.Await(t, func() error {
			mu.Lock()
			defer mu.Unlock()
			for i, n := range counts {
				if n <= before[i]+1000 {
					return fmt.Errorf("Sequencer %d gets no more IDs", i)
				}
			}
			return nil
		})
	}
	progress()
	for range depth.Of(2, 5) {
		admin.FlushAll(t.Context())
		progress()
	}
	admin.ScriptFlush(t.Context())
	progress()
	server.Kill()
	server.Restart() // without its data: the server saved nothing to disk
	progress()
	servertest.Do(t, admin.Save(t.Context()).Err()) // later restarts load this data
	progress()
	server.Kill()
	server.Restart()
	progress()
}

func TestSequencerWaitsOrRefusesIfRedisClockGoesBack(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	u := newUnique(t)
	s := newSequencer(t, client, nil)
	u.take(s, 10)

	// A sequencer waits for up to a second.
	for _, back := range []time.Duration{500 * time.Millisecond, 1300 * time.Millisecond} {
		was := serverTime(t, client).Add(back)
		setState(t, client, was)
		at := layouts.Redis().Decode(u.take(s, 10)[0]).Time
		require.False(t, at.Before(was.Truncate(time.Millisecond)), "after an ID of %v comes one of %v", was, at)
	}
	servertest.Await(t, func() error { // on a busy machine half a second may pass before the request
		setState(t, client, serverTime(t, client).Add(1900*time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := s.NextIDContext(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return fmt.Errorf("it was not refused at once: %v, %v", err, ctx.Err())
		}
		return nil
	})

	setState(t, client, serverTime(t, client).Add(time.Hour))
	refusedAnHour(t, s)
}

// refusedAnHour checks that the sequencer refuses, because Redis' clock went back by an hour.
func refusedAnHour(t *testing.T, s *Sequencer) {
	t.Helper()
	_, err := s.NextIDContext(t.Context())
	var e *snowflake.ClockBackwardError
	require.ErrorAs(t, err, &e)
	require.InDelta(t, time.Hour, e.By(), float64(2*time.Minute))
}

// Redis' clock went back and its keys were lost. A client whose clock did not go back refuses. The
// next IDs of a client that has issued one are greater.
func TestSequencerRefusesOrIncreasesIfRedisClockGoesBackAndKeysAreLost(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	s := newSequencer(t, client, nil)
	s.now = func() time.Time { return time.Now().Add(time.Hour) }
	refusedAnHour(t, s)
	require.Zero(t, client.Exists(t.Context(), sequenceKey).Val(), "it made a key")

	u := newUnique(t)
	s = newSequencer(t, client, nil)
	s.now = func() time.Time { return time.Now().Add(300 * time.Millisecond) }
	from := s.now().Add(MaxAhead).Truncate(time.Millisecond)
	at := layouts.Redis().Decode(u.take(s, 1)[0]).Time
	require.False(t, at.Before(from), "a client whose clock is 300 ms ahead begins at %v, before %v", at, from)

	s.now = time.Now
	for range 3 {
		ids := u.take(s, 1000)
		s.note(s.next.Load() + 500<<10) // as if its last ID had been half a second later
		client.FlushAll(t.Context())
		require.GreaterOrEqual(t, u.take(s, 1)[0], ids[0]+500<<22)
	}
	s.note(s.next.Load() + 3600_000<<10)
	client.FlushAll(t.Context())
	_, err := s.NextIDContext(t.Context())
	require.ErrorIs(t, err, snowflake.ErrClockBackward)
	u.take(newSequencer(t, client, nil), 10) // other sequencers work
}

func replicaOf(t testing.TB, client *redis.Client, addr string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	if addr == "" {
		host, port = "NO", "ONE"
	}
	servertest.Do(t, client.Do(t.Context(), "REPLICAOF", host, port).Err())
}

// A failover loses IDs. Later another failover returns to the first server, which has kept running
// with its old key.
func TestSequencerIncreasesAfterTwoFailovers(t *testing.T) {
	t.Parallel()
	const noServer = "127.0.0.1:1"
	server := redistest.Start(t)
	replica := redistest.StartReplica(t, server, server.Addr)
	a, b := server.Client(t), replica.Client(t)
	u := newUnique(t)
	for range depth.Of(1, 2) {
		s := newSequencer(t, a, nil)
		u.take(s, 1)
		redistest.InStep(t, server, replica)
		old := b.Get(t.Context(), sequenceKey).Val()
		replicaOf(t, b, noServer)
		u.take(s, 900_000) // the replica does not get them
		replicaOf(t, a, noServer)
		replicaOf(t, b, "")
		replicaOf(t, a, replica.Addr)
		redistest.Eventually(t, "the first server has the old key", func() bool { return a.Get(t.Context(), sequenceKey).Val() == old })
		replicaOf(t, b, noServer)
		replicaOf(t, a, "")
		from := serverTime(t, a).Add(MaxAhead).Truncate(time.Millisecond)
		at := layouts.Redis().Decode(u.take(newSequencer(t, a, nil), 1000)[0]).Time
		assert.False(t, at.Before(from), "IDs begin at %v, before %v: the old key counts as up to date", at, from)
		replicaOf(t, b, server.Addr)
		redistest.InStep(t, server, replica)
	}
}

// The key survives when replicas are added and removed.
func TestSequencerKeyOutlivesReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	replica := redistest.StartReplica(t, server, server.Addr)
	s := newSequencer(t, client, nil)
	u := newUnique(t)
	u.take(s, 1)
	was := writer(t, client)
	check := func(what string) {
		t.Helper()
		u.take(s, 1)
		assert.Equal(t, was, writer(t, client), what)
	}
	check("nothing")
	redistest.StartReplica(t, server, server.Addr)
	check("another replica")
	client.ClientKillByFilter(t.Context(), "TYPE", "replica")
	redistest.InStep(t, server, replica)
	check("a partial resync")
	replica.Kill()
	replica.Restart()
	redistest.InStep(t, server, replica)
	check("a full resync")
}

// at returns a function that runs the script with a server's clock that reads now.
func at(t testing.TB, client *redis.Client, now int64) func(n, after, clock int64) (status string, a, b int64) {
	t.Helper()
	const clock = "redis.call('TIME')"
	require.Equal(t, 1, strings.Count(sequenceSource, clock), "the script does not call %s once", clock)
	script := redis.NewScript(strings.Replace(sequenceSource, clock, fmt.Sprintf("{'%d', '%d'}", now/1000, now%1000*1000+999), 1))
	return func(n, after, clock int64) (status string, a, b int64) {
		t.Helper()
		reply := servertest.Must(script.Run(t.Context(), client, []string{sequenceKey}, n, after, clock).StringSlice())(t)
		reply = append(reply, "0", "0")
		a, err := strconv.ParseInt(reply[1], 10, 64)
		b, err2 := strconv.ParseInt(reply[2], 10, 64)
		require.NoError(t, err, reply)
		require.NoError(t, err2, reply)
		return reply[0], a, b
	}
}

const lastMillisecond = 1<<41 - 1

func TestSequencerChangesNothingWhenItRefuses(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	const now = 1_800_000_000_000
	at(t, client, now)(1, 0, 0)
	server := writer(t, client)
	stale, mine := "other:other 1700000000000 5", fmt.Sprint(server, " ", lastMillisecond, " 1023")
	for _, test := range []struct {
		what, key         string
		now, after, clock int64
		want              string
	}{
		{"the key is lost at the layout's end", "", lastMillisecond, 0, 0, "outside"},
		{"the key is lost a second before", "", lastMillisecond - 1000, 0, 0, "outside"},
		{"the key is stale at the layout's end", stale, lastMillisecond, 0, 0, "outside"},
		{"the key is stale a second before", stale, lastMillisecond - 1000, 0, 0, "outside"},
		{"the key is lost before the end, for a client that is ahead", "", lastMillisecond - 1500, 0, lastMillisecond - 1000, "outside"},
		{"the key is lost, after all IDs", "", now, (lastMillisecond + 1) << sequenceBits, 0, "outside"},
		{"after all IDs", server + " 1700000000000 5", now, (lastMillisecond + 1) << sequenceBits, 0, "outside"},
		{"the server's clock is past the end", server + " 1700000000000 5", lastMillisecond + 1, 0, 0, "outside"},
		{"the last ID is taken", fmt.Sprint(server, " ", lastMillisecond+1, " 0"), lastMillisecond, 0, 0, "outside"},
		{"the key is lost, for a client that is a second ahead", "", now, 0, now + 1000, "behind"},
		{"the key is stale, for a client that is a second ahead", stale, now, 0, now + 1000, "behind"},
		{"the key is lost, after an ID that is far ahead", "", now, (now + 2001) << sequenceBits, 0, "wait"},
		{"the key is stale and far ahead", fmt.Sprint("other:other ", now+2001, " 5"), now, 0, 0, "wait"},
		{"the key is far ahead", mine, now, 0, 0, "wait"},
		{"the key is foreign", "foreign", now, 0, 0, "unreadable"},
	} {
		client.Del(t.Context(), sequenceKey)
		if test.key != "" {
			client.Set(t.Context(), sequenceKey, test.key, 0)
		}
		for range 2 {
			status, a, b := at(t, client, test.now)(1, test.after, test.clock)
			assert.Equal(t, test.want, status, test.what)
			if status == "wait" {
				assert.Greater(t, time.Duration(a-b)*time.Millisecond, MaxAhead+maxWait, "%s: the client would wait", test.what)
			}
			assert.Equal(t, test.key, client.Get(t.Context(), sequenceKey).Val(), test.what)
		}
	}
}

// An ID has the millisecond of Redis' clock, even long after the last ID. If the clock goes back,
// IDs still increase.
func TestSequencerFollowsRedisClock(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	const now = 1_800_000_000_000
	at(t, client, now)(1, 0, 0) // it creates the key, for one second later
	var last int64
	for _, later := range []int64{1002, 1003, 5000, 3_600_000} {
		status, first, n := at(t, client, now+later)(1, 0, 0)
		assert.Equal(t, "issued", status, "%d ms later", later)
		assert.EqualValues(t, 1, n, "%d ms later", later)
		assert.Equal(t, (now+later)<<sequenceBits, first, "%d ms later", later)
		last = first
	}
	for i, back := range []int64{0, 1, 999, 1000} {
		status, first, _ := at(t, client, now+3_600_000-back)(1, 0, 0)
		require.Equal(t, "issued", status, "%d ms back", back)
		assert.Equal(t, last+1+int64(i), first, "%d ms back", back)
	}
	// It issues the last ID of the layout, and then refuses.
	status, first, n := at(t, client, lastMillisecond)(2000, 0, 0)
	assert.Equal(t, []any{"issued", int64(lastMillisecond << sequenceBits), int64(1024)}, []any{status, first, n})
	for range 2 {
		status, _, _ := at(t, client, lastMillisecond)(1, 0, 0)
		require.Equal(t, "outside", status)
	}
}

// A client whose clock is ahead creates the key only if it can wait until the key's time.
func TestSequencerMakesTheKeyOnlyIfItWaitsForItsTime(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	const now = 1_800_000_000_000
	for _, ahead := range []int64{-5000, 0, 1, 998, 999, 1000, 1001, 5000} {
		client.Del(t.Context(), sequenceKey)
		status, a, b := at(t, client, now)(1, 0, now+ahead)
		if ahead >= 1000 {
			require.Equal(t, "behind", status, "%d ms ahead", ahead)
			assert.Zero(t, client.Exists(t.Context(), sequenceKey).Val(), "%d ms ahead", ahead)
			continue
		}
		require.Equal(t, "wait", status, "%d ms ahead", ahead)
		last := time.UnixMilli(a).Add(-MaxAhead)
		// The error is nil if the millisecond has passed.
		if err := wait(done, last, time.UnixMilli(b)); err != nil {
			require.ErrorIs(t, err, context.Canceled, "%d ms ahead", ahead)
		}
		status, first, _ := at(t, client, last.UnixMilli())(1, 0, last.UnixMilli()+ahead)
		require.Equal(t, "issued", status, "%d ms ahead, after waiting", ahead)
		assert.Equal(t, now+max(ahead, 0)+1001, first>>sequenceBits, "%d ms ahead, after waiting", ahead)
	}
	client.Del(t.Context(), sequenceKey)
	status, _, _ := at(t, client, now)(1, (now+2000)<<sequenceBits, 0)
	if key := client.Get(t.Context(), sequenceKey).Val(); status != "wait" || !strings.HasSuffix(key, fmt.Sprint(" ", now+1001, " 0")) {
		t.Errorf("after an ID that is 2 s ahead, which others need not wait for: %s, the key is %q", status, key)
	}
}

func TestSequencerIssuesIDsGreaterThanAfter(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	layout := layouts.Redis()
	var wg sync.WaitGroup // for the tests that wait
	for _, worker := range []int{4, 5, 6} {
		for _, sequence := range []int{0, 1022, 1023} {
			after := servertest.Must(layout.Encode(snowflake.Parts{Time: serverTime(t,
				client).Add(1900 * time.Millisecond), Worker: worker, Sequence: sequence}))(t)
			s := newSequencer(t, client, &Options{Prefix: fmt.Sprint(worker, "-", sequence), Shard: 5, After: after})
			wg.Go(func() {
				id, err := s.NextIDContext(t.Context())
				p := layout.Decode(id)
				// On a busy machine the clock may have passed the next millisecond.
				if err != nil || id <= after || p.Worker != 5 || id-after > 2<<22 && p.Time.After(serverTime(t, client)) {
					t.Errorf("after %v comes %v, %v", layout.Decode(after), p, err)
				}
			})
		}
	}
	wg.Wait()
	_, err := newSequencer(t, client, &Options{After: math.MaxInt64}).NextIDContext(t.Context())
	require.ErrorIs(t, err, snowflake.ErrTimeExhausted)
	newUnique(t).take(newSequencer(t, client, nil), 1) // other sequencers work
}

func TestSequencerRefusesBadOptions(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	defer client.Close()
	for _, test := range []struct {
		client redis.UniversalClient
		opts   Options
		want   error
	}{
		{client, Options{Shard: -1}, snowflake.ErrWorkerRange},
		{client, Options{Shard: 4096}, snowflake.ErrWorkerRange},
		{client, Options{After: -1}, snowflake.ErrInvalidID},
		{client, Options{After: math.MaxInt64}, nil},
		{nil, Options{}, lease.ErrInvalidOptions},
	} {
		_, err := New(test.client, &test.opts)
		assert.ErrorIs(t, err, test.want, "%T, %+v", test.client, test.opts)
	}
}

func TestSequencerRefusesAForeignKey(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	s := newSequencer(t, client, nil)
	for _, value := range []string{
		"", "x", "17", "run 1 2 ", "run 1 1024", "run 2199023255553 0", "run -1 0",
		"run 99999999999999999999 0",
	} {
		client.Set(t.Context(), sequenceKey, value, 0)
		_, err := s.NextIDContext(t.Context())
		require.ErrorIs(t, err, lease.ErrBadRecord, value)
		assert.ErrorContains(t, err, sequenceKey, value)
	}
	client.Del(t.Context(), sequenceKey)
	client.LPush(t.Context(), sequenceKey, "x")
	_, err := s.NextIDContext(t.Context())
	assert.ErrorIs(t, err, lease.ErrBadRecord)
}

func TestSequencerContinuesAfterAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSequencer(t, server.Client(t), nil)
	u := newUnique(t)
	u.take(s, 5)
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.NextIDContext(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	server.Resume()
	u.take(s, 5)
	server.Kill()
	_, err = s.NextIDContext(t.Context())
	require.Error(t, err, "an ID from a server that is not there")
	server.Restart()
	u.take(s, 5)
}

func TestSequencerNamesMissingRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	_, err := newSequencer(t, server.User(t, admin, "nokeys", "~other:*", "+@all"), nil).NextIDContext(t.Context())
	require.ErrorContains(t, err, "NOPERM")
	// The rights in the documentation.
	enough := server.User(t, admin, "enough", "~snowflake:*", "+eval", "+evalsha", "+time", "+get", "+set", "+info")
	newUnique(t).take(newSequencer(t, enough, nil), 1)
}

func TestSequencerWorksInACluster(t *testing.T) {
	t.Parallel()
	newUnique(t).take(newSequencer(t, redistest.StartCluster(t, sequenceKey).ClusterClient, nil), 10)
}

func BenchmarkSequencer(b *testing.B) {
	s := newSequencer(b, redistest.Start(b).Client(b), nil)
	for _, batch := range []int{1, 100, 1000, 10_000} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			ids := make([]snowflake.ID, batch)
			for b.Loop() {
				servertest.Must(s.Fill(b.Context(), ids))(b)
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "IDs/s")
		})
	}
}
