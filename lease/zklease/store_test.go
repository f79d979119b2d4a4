//go:build unix

package zklease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

func TestStore(t *testing.T) {
	t.Parallel()
	s := shared(t)
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		o := newRoot()
		open(t, connect(t, s.addr), o)
		return leasetest.Storage{
			Open: func() lease.Store { return opened(t, connect(t, s.addr), o) },
			Wipe: func() { removeAll(t, connect(t, s.addr), o.Root) },
			Garble: func(worker int) {
				_, err := connect(t, s.addr).Set(recordPath(o, worker), []byte(`{"worker":`), -1)
				require.NoError(t, err)
			},
		}
	}, &leasetest.Options{Parallel: true})
}

// The tests of this store alone, on one server.
func TestZooKeeper(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *server)
	}{
		{"TreeIsThatOfTheArticle", treeIsThatOfTheArticle},
		{"RenewalIsOneRoundTrip", renewalIsOneRoundTrip},
		{"ClosedSessionFreesAtOnce", closedSessionFreesAtOnce},
		{"InstanceRemovedByHandFreesAtOnce", instanceRemovedByHandFreesAtOnce},
		{"HungHolderIsFreeAfterItsWindow", hungHolderIsFreeAfterItsWindow},
		{"ReleaseOfAnInstanceThatIsGone", releaseOfAnInstanceThatIsGone},
		{"ExpiredSessionComesBack", expiredSessionComesBack},
		{"RequestOfAnEarlierConnectionChangesNothing", requestOfAnEarlierConnectionChangesNothing},
		{"RecordEditedByHandIsGoneOnFrom", recordEditedByHandIsGoneOnFrom},
		{"ForeignZnodesAreRefused", foreignZnodesAreRefused},
		{"OneRecordIsReadAlone", oneRecordIsReadAlone},
		{"WrongCredentialsAreNamed", wrongCredentialsAreNamed},
		{"VersionsEndBeforeTheyWrap", versionsEndBeforeTheyWrap},
		{"RootMayBeTheTop", rootMayBeTheTop},
		{"HalfATreeIsCompleted", halfATreeIsCompleted},
		{"ClosedConnectionIsAnError", closedConnectionIsAnError},
		{"TimeIsTheServers", timeIsTheServers},
		{"NothingWasRenewedAfterNow", nothingWasRenewedAfterNow},
		{"SaveSaysThatTheServerIsAway", saveSaysThatTheServerIsAway},
		{"LoadSurvivesALostConnection", loadSurvivesALostConnection},
		{"CallsEndIfTheServerDoesNotAnswer", callsEndIfTheServerDoesNotAnswer},
		{"LoadsAtOnceHaveTheirOwnAnswers", loadsAtOnceHaveTheirOwnAnswers},
		{"ReleasedMeanwhileIsNotDead", releasedMeanwhileIsNotDead},
		{"RecordsThatVanishAreMissed", recordsThatVanishAreMissed},
		{"RecordThatIsGoneIsMissed", recordThatIsGoneIsMissed},
		{"StoreThatWasNeverCreatedIsRefused", storeThatWasNeverCreatedIsRefused},
		{"CreateRepairs", createRepairs},
		{"HistoryDropsExactlyWhatEndedBefore", historyDropsExactlyWhatEndedBefore},
		{"HistoryIsChangedWithTheRecordOnly", historyIsChangedWithTheRecordOnly},
		{"ChangeOfTheClockSequenceLeavesTheHolderAlive", changeOfTheClockSequenceLeavesTheHolderAlive},
		{"ThousandsAreDropped", thousandsAreDropped},
		{"HistoryThatCannotBeReadIsRefused", historyThatCannotBeReadIsRefused},
		{"HistoryHasABound", historyHasABound},
		{"HistoryIsWrittenAfterALostConnection", historyIsWrittenAfterALostConnection},
	} {
		t.Run(test.name, func(t *testing.T) {
			depth.Parallel(t)
			test.run(t, s)
		})
	}
}

func recordPath(o *zklease.Options, worker int) string {
	return fmt.Sprintf("%s/servers/%010d", strings.TrimSuffix(o.Root, "/"), worker)
}

func instancePath(o *zklease.Options, worker int) string {
	return fmt.Sprintf("%s/instances/%010d", strings.TrimSuffix(o.Root, "/"), worker)
}

// record returns a held record with a window of a minute.
func record(worker int, version uint64, token string) lease.Record {
	return lease.Record{
		Worker:  worker,
		Version: version,
		Token:   token,
		State:   lease.Held,
		Owner:   "owner of " + token,
		Layout:  snowflake.DefaultLayout(),
		Bounds:  []time.Time{time.Date(2026, 11, 21, 12, 0, int(version), 0, time.UTC)},
		Window:  time.Minute,
	}
}

func mustSave(t *testing.T, s lease.Store, r lease.Record) lease.Record {
	t.Helper()
	saved, err := s.Save(t.Context(), r)
	require.NoError(t, err)
	return saved
}

func mustLoad(t *testing.T, s lease.Store) lease.Snapshot {
	t.Helper()
	snap, err := s.Load(t.Context())
	require.NoError(t, err)
	return snap
}

// live reports whether the only record of a store is live. It asks in two ways, between which a session may
// end.
func live(t *testing.T, s lease.Store) bool {
	t.Helper()
	for try := 1; ; try++ {
		snap := mustLoad(t, s)
		require.Len(t, snap.Records, 1)
		one, err := s.LoadWorker(t.Context(), snap.Records[0].Worker)
		require.NoError(t, err)
		if try == 5 || assert.ObjectsAreEqual(snap.Records, one.Records) {
			require.Equal(t, snap.Records, one.Records)
			return snap.Records[0].Live(snap.Now)
		}
	}
}

func treeIsThatOfTheArticle(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	l, err := lease.Acquire(t.Context(), open(t, conn, o), &lease.Options{Owner: "web-7"})
	require.NoError(t, err)
	require.Equal(t, 0, l.Worker())

	data, stat, err := conn.Get(recordPath(o, 0))
	require.NoError(t, err)
	assert.Zero(t, stat.EphemeralOwner)
	var stored map[string]any
	require.NoError(t, json.Unmarshal(data, &stored))
	assert.Equal(t, "web-7", stored["owner"])
	assert.Equal(t, 0.0, stored["worker"])
	assert.Len(t, stored["bounds"], 1)
	assert.NotContains(t, stored, "version")
	assert.NotContains(t, stored, "renewed")

	data, stat, err = conn.Get(instancePath(o, 0))
	require.NoError(t, err)
	assert.Equal(t, conn.SessionID(), stat.EphemeralOwner)
	assert.Contains(t, string(data), `"owner":"web-7"`)

	require.NoError(t, l.Release(t.Context()))
	alive, _, err := conn.Exists(instancePath(o, 0))
	require.NoError(t, err)
	assert.False(t, alive)
}

func renewalIsOneRoundTrip(t *testing.T, s *server) {
	proxy := servertest.NewProxy(t, s.addr)
	store := open(t, connectFor(t, proxy.Addr(), time.Minute), newRoot())
	mustSave(t, store, record(3, 1, "a"))
	before := proxy.Turns()
	for version := uint64(2); version < 12; version++ {
		mustSave(t, store, record(3, version, "a"))
	}
	assert.Equal(t, 10, proxy.Turns()-before)
}

func closedSessionFreesAtOnce(t *testing.T, s *server) {
	o := newRoot()
	a, b := connect(t, s.addr), open(t, connect(t, s.addr), o)
	mustSave(t, open(t, a, o), record(3, 1, "a"))
	require.True(t, live(t, b))
	a.Close()
	for end := time.Now().Add(10 * time.Second); live(t, b); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end))
	}
}

func instanceRemovedByHandFreesAtOnce(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store := open(t, conn, o)
	mustSave(t, store, record(3, 1, "a"))
	require.NoError(t, conn.Delete(instancePath(o, 3), -1))
	require.False(t, live(t, store))
}

// hungHolderIsFreeAfterItsWindow: another process can take the worker ID although the holder's session lives.
// The takeover deletes the holder's ephemeral znode.
func hungHolderIsFreeAfterItsWindow(t *testing.T, s *server) {
	o := newRoot()
	connA, connB := connect(t, s.addr), connect(t, s.addr)
	a, b := open(t, connA, o), open(t, connB, o)
	mustSave(t, a, record(3, 1, "a"))
	old := record(3, 2, "a")
	old.Window = time.Millisecond
	mustSave(t, a, old)
	time.Sleep(20 * time.Millisecond)
	require.False(t, live(t, b))

	mustSave(t, b, record(3, 3, "b"))
	require.True(t, live(t, b))
	data, stat, err := connA.Get(instancePath(o, 3))
	require.NoError(t, err)
	assert.Contains(t, string(data), `"token":"b"`)
	assert.Equal(t, connB.SessionID(), stat.EphemeralOwner)
	_, err = a.Save(t.Context(), record(3, 3, "a"))
	require.ErrorIs(t, err, lease.ErrConflict)

	connA.Close() // the worker ID does not depend on this session any more
	require.True(t, live(t, b))
}

func releaseOfAnInstanceThatIsGone(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store := open(t, conn, o)
	mustSave(t, store, record(3, 1, "a"))
	require.NoError(t, conn.Delete(instancePath(o, 3), -1))
	free := record(3, 2, "a")
	free.State = lease.Free
	mustSave(t, store, free)
	require.Equal(t, lease.Free, mustLoad(t, store).Records[0].State)
}

// expiredSessionComesBack: if a holder was cut off until its session expired, its next renewal makes it alive
// again.
func expiredSessionComesBack(t *testing.T, s *server) {
	proxy, o := servertest.NewProxy(t, s.addr), newRoot()
	conn := connectFor(t, proxy.Addr(), 2*time.Second)
	a, b := open(t, conn, o), open(t, connect(t, s.addr), o)
	mustSave(t, a, record(3, 1, "a"))
	session := conn.SessionID()
	end := time.Now().Add(90 * time.Second)
	proxy.Drop()
	for live(t, b) {
		require.True(t, time.Now().Before(end), "its session does not end")
		time.Sleep(20 * time.Millisecond)
	}
	proxy.Heal()
	// If the machine is busy, calls may fail, and the new session may expire too.
	renew := func() {
		r := mustLoad(t, b).Records[0]
		r.Version++
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := a.Save(ctx, r); err != nil {
			t.Log(err)
		}
	}
	for renew(); !live(t, b); renew() {
		require.True(t, time.Now().Before(end), "it does not come back")
		time.Sleep(20 * time.Millisecond)
	}
	require.NotEqual(t, session, conn.SessionID())
}

// requestOfAnEarlierConnectionChangesNothing: a holder's request arrives after the holder gave up and another
// holder took the worker ID.
func requestOfAnEarlierConnectionChangesNothing(t *testing.T, s *server) {
	proxy, o := servertest.NewProxy(t, s.addr), newRoot()
	connA := connectFor(t, proxy.Addr(), time.Minute)
	a, b := open(t, connA, o), open(t, connect(t, s.addr), o)
	mustSave(t, a, record(3, 1, "a"))
	proxy.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	late := record(3, 2, "a")
	late.Bounds[0] = late.Bounds[0].Add(time.Hour)
	_, err := a.Save(ctx, late)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	taken := mustSave(t, b, record(3, 2, "b"))
	proxy.Heal()
	// The holder's next request comes after that request.
	require.Eventually(t, func() bool {
		_, err := a.Save(t.Context(), record(4, 1, "a"))
		return err == nil || errors.Is(err, lease.ErrConflict)
	}, 20*time.Second, 20*time.Millisecond)
	_, err = a.Save(t.Context(), late)
	require.ErrorIs(t, err, lease.ErrConflict)
	snap, err := b.LoadWorker(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, []lease.Record{taken}, snap.Records)
}

func recordEditedByHandIsGoneOnFrom(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store := open(t, conn, o)
	mustSave(t, store, record(3, 1, "a"))
	data, _, err := conn.Get(recordPath(o, 3))
	require.NoError(t, err)
	_, err = conn.Set(recordPath(o, 3), data, -1)
	require.NoError(t, err)
	_, err = store.Save(t.Context(), record(3, 2, "a"))
	require.ErrorIs(t, err, lease.ErrConflict)
	require.EqualValues(t, 2, mustLoad(t, store).Records[0].Version)
	mustSave(t, store, record(3, 3, "a"))
}

func foreignZnodesAreRefused(t *testing.T, s *server) {
	conn := connect(t, s.addr)
	good := func(worker int) []byte {
		data, err := json.Marshal(record(worker, 1, "a"))
		require.NoError(t, err)
		return data
	}
	for name, test := range map[string]struct {
		node string
		data []byte
	}{
		"text":               {"0000000003", []byte("10.0.0.7:8080")},
		"nothing":            {"0000000003", nil},
		"JSON of another":    {"0000000003", []byte(`{"worker":3,"state":"held"}`)},
		"a record and more":  {"0000000003", append(good(3), 'x')},
		"of another worker":  {"0000000003", good(4)},
		"an invalid name":    {"web-7", good(3)},
		"a name without pad": {"3", good(3)},
	} {
		t.Run(name, func(t *testing.T) {
			o := newRoot()
			store := open(t, conn, o)
			mustLoad(t, store) // it makes the tree
			foreign := o.Root + "/servers/" + test.node
			_, err := conn.Create(foreign, nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			_, err = conn.Set(foreign, test.data, -1)
			require.NoError(t, err)
			_, err = lease.Acquire(t.Context(), store, nil)
			require.ErrorIs(t, err, lease.ErrBadRecord)
			var which *zklease.Error
			require.ErrorAs(t, err, &which)
			require.Equal(t, foreign, which.Path)
			require.ErrorContains(t, err, foreign)
		})
	}
	t.Run("never set", func(t *testing.T) {
		o := newRoot()
		store := open(t, conn, o)
		mustLoad(t, store)
		_, err := conn.Create(recordPath(o, 3), good(3), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		_, err = lease.Acquire(t.Context(), store, nil)
		require.ErrorIs(t, err, lease.ErrBadRecord)
	})
}

func oneRecordIsReadAlone(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store := open(t, conn, o)
	saved := mustSave(t, store, record(3, 1, "a"))
	mustSave(t, store, record(4, 1, "b"))
	_, err := conn.Set(recordPath(o, 4), nil, -1)
	require.NoError(t, err)
	snap, err := store.LoadWorker(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, []lease.Record{saved}, snap.Records)
	snap, err = store.LoadWorker(t.Context(), 5)
	require.NoError(t, err)
	require.Empty(t, snap.Records)
	_, err = store.Load(t.Context())
	require.ErrorIs(t, err, lease.ErrBadRecord)
}

func wrongCredentialsAreNamed(t *testing.T, s *server) {
	o := newRoot()
	o.ACL = zk.DigestACL(zk.PermAll, "app", "secret")
	right := connect(t, s.addr)
	require.NoError(t, right.AddAuth("digest", []byte("app:secret")))
	l, err := lease.Acquire(t.Context(), open(t, right, o), nil)
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))

	for name, auth := range map[string]string{"wrong": "app:guess", "none": ""} {
		conn := connect(t, s.addr)
		if auth != "" {
			require.NoError(t, conn.AddAuth("digest", []byte(auth)))
		}
		_, err := lease.Acquire(t.Context(), opened(t, conn, o), nil)
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
		require.ErrorContains(t, err, o.Root, name)
		_, err = opened(t, conn, o).Save(t.Context(), record(0, 1, "a"))
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
		err = opened(t, conn, &zklease.Options{Root: o.Root + "/below"}).Create(t.Context(), 1)
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
		require.ErrorContains(t, err, o.Root+"/below", name)
	}
}

func versionsEndBeforeTheyWrap(t *testing.T, s *server) {
	store := open(t, connect(t, s.addr), newRoot())
	_, err := store.Save(t.Context(), record(3, math.MaxInt32+1, "a"))
	require.Error(t, err)
	require.NotErrorIs(t, err, lease.ErrConflict)
	for _, version := range []uint64{0, math.MaxInt32 + 2, math.MaxUint32 + 1, math.MaxUint64} {
		_, err := store.Save(t.Context(), record(3, version, "a"))
		require.ErrorIs(t, err, lease.ErrConflict)
	}
}

func rootMayBeTheTop(t *testing.T, s *server) {
	conn := connect(t, s.addr)
	store := open(t, conn, &zklease.Options{Root: "/"})
	mustSave(t, store, record(3, 1, "a"))
	require.True(t, live(t, store))
	there, _, err := conn.Exists("/servers/0000000003")
	require.NoError(t, err)
	require.True(t, there)
}

// halfATreeIsCompleted: if a process died while it made the tree, the next process completes it.
func halfATreeIsCompleted(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	parents := []string{"/test", o.Root, o.Root + "/servers", o.Root + "/instances", o.Root + "/used", o.Root + "/history"}
	for i, p := range parents {
		if there, _, err := conn.Exists(p); err == nil && there {
			continue
		}
		_, err := conn.Create(p, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		if i > 0 {
			_, err = opened(t, conn, o).Load(t.Context())
			require.ErrorIs(t, err, lease.ErrWiped)
		}
	}
	store := open(t, conn, o)
	mustSave(t, store, record(3, 1, "a"))
	require.True(t, live(t, store))
}

func closedConnectionIsAnError(t *testing.T, s *server) {
	conn := connect(t, s.addr)
	store := open(t, conn, newRoot())
	mustSave(t, store, record(3, 1, "a"))
	conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := store.Save(ctx, record(3, 2, "a"))
	require.Error(t, err)
	require.NotErrorIs(t, err, lease.ErrConflict)
}

// timeIsTheServers: the server's time was read before it sent the answer, which takes 100 ms here.
func timeIsTheServers(t *testing.T, s *server) {
	proxy, o := servertest.NewProxy(t, s.addr), newRoot()
	conn := connectFor(t, proxy.Addr(), time.Minute)
	store := open(t, conn, o)
	saved := mustSave(t, store, record(3, 1, "a"))
	_, stat, err := conn.Get(recordPath(o, 3))
	require.NoError(t, err)
	require.Equal(t, stat.Mtime, saved.Renewed.UnixMilli())
	mustLoad(t, store)
	proxy.Delay(100 * time.Millisecond)
	snap := mustLoad(t, store)
	require.True(t, snap.Now.Before(time.Now().Add(-80*time.Millisecond)))
	require.True(t, snap.OwnClock)
	_, stat, err = conn.Get(o.Root + "/clock")
	require.NoError(t, err)
	require.GreaterOrEqual(t, snap.Now.UnixMilli(), stat.Mtime+300) // this includes the time that reading took
}

// slow is a connection that can delay an answer.
type slow struct {
	net.Conn
	late *atomic.Int64
}

func (c slow) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(time.Duration(c.late.Swap(0)))
	return n, err
}

// nothingWasRenewedAfterNow: a record is renewed while the answer with the server's time is late.
func nothingWasRenewedAfterNow(t *testing.T, s *server) {
	var late atomic.Int64
	conn, _, err := zk.Connect([]string{s.addr}, time.Minute, zk.WithLogger(quiet{}), zk.WithDialer(
		func(network, address string, timeout time.Duration) (net.Conn, error) {
			c, err := net.DialTimeout(network, address, timeout)
			return slow{c, &late}, err
		}))
	require.NoError(t, err)
	defer conn.Close()
	o := newRoot()
	a, b := open(t, conn, o), open(t, connect(t, s.addr), o)
	mustSave(t, b, record(3, 1, "b"))
	mustLoad(t, a)
	late.Store(int64(500 * time.Millisecond))
	loaded := make(chan lease.Snapshot)
	go func() {
		snap, _ := a.LoadWorker(t.Context(), 3)
		loaded <- snap
	}()
	time.Sleep(250 * time.Millisecond)
	saved := mustSave(t, b, record(3, 2, "b"))
	snap := <-loaded
	require.Equal(t, []lease.Record{saved}, snap.Records)
	require.False(t, saved.Renewed.After(snap.Now), "%v was renewed after %v", saved.Renewed, snap.Now)
}

// saveSaysThatTheServerIsAway: if the connection breaks during a save, lease.Acquire may ask again.
func saveSaysThatTheServerIsAway(t *testing.T, s *server) {
	proxy := servertest.NewProxy(t, s.addr)
	store := open(t, connectFor(t, proxy.Addr(), time.Minute), newRoot())
	proxy.Hold()
	saved := make(chan error)
	go func() {
		_, err := store.Save(t.Context(), record(3, 1, "a"))
		saved <- err
	}()
	time.Sleep(20 * time.Millisecond) // most likely it has sent the request by then
	proxy.Reset()
	require.ErrorIs(t, <-saved, lease.ErrAway)
}

func loadSurvivesALostConnection(t *testing.T, s *server) {
	proxy := servertest.NewProxy(t, s.addr)
	store := open(t, connectFor(t, proxy.Addr(), time.Minute), newRoot())
	saved := mustSave(t, store, record(3, 1, "a"))
	proxy.Drop()
	go func() {
		time.Sleep(100 * time.Millisecond)
		proxy.Reset()
		proxy.Heal()
	}()
	snap, err := store.LoadWorker(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, []lease.Record{saved}, snap.Records)
	require.Equal(t, []lease.Record{saved}, mustLoad(t, store).Records)
}

func loadsAtOnceHaveTheirOwnAnswers(t *testing.T, s *server) {
	store := open(t, connect(t, s.addr), newRoot())
	mustSave(t, store, record(3, 1, "a"))
	snaps := make([]lease.Snapshot, 20)
	var wg sync.WaitGroup
	for i := range snaps {
		wg.Go(func() {
			snaps[i], _ = store.Load(t.Context())
			for j := range snaps[i].Records {
				snaps[i].Records[j].PID = i
				snaps[i].Records[j].Bounds[0] = time.Unix(int64(i), 0)
			}
		})
	}
	wg.Wait()
	for i, snap := range snaps {
		require.Len(t, snap.Records, 1)
		require.Equal(t, i, snap.Records[0].PID)
		require.EqualValues(t, i, snap.Records[0].Bounds[0].Unix())
	}
}

// releasedMeanwhileIsNotDead: a record is held when Load reads it, but is released before Load looks for its
// ephemeral znode.
func releasedMeanwhileIsNotDead(t *testing.T, s *server) {
	o := newRoot()
	store, other := open(t, connect(t, s.addr), o), open(t, connect(t, s.addr), o)
	mustSave(t, other, record(3, 1, "b"))
	end := time.Now().Add(500 * time.Millisecond)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for version := uint64(2); time.Now().Before(end); version++ {
			r := record(3, version, "b")
			if version%2 == 0 {
				r.State = lease.Free
			}
			_, err := other.Save(t.Context(), r)
			assert.NoError(t, err)
		}
	})
	for time.Now().Before(end) {
		snap, err := store.LoadWorker(t.Context(), 3)
		require.NoError(t, err)
		require.Len(t, snap.Records, 1)
		r := snap.Records[0]
		require.True(t, r.State == lease.Free || r.Live(snap.Now), "%v is taken for dead", r)
	}
}

// recordsThatVanishAreMissed: records are removed by hand after Load has listed them.
func recordsThatVanishAreMissed(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store, other := open(t, connect(t, s.addr), o), open(t, conn, o)
	const n = 30
	for w := range n {
		mustSave(t, other, record(w, 1, "a"))
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for w := range n {
			assert.NoError(t, conn.Delete(recordPath(o, w), -1))
		}
	})
	for {
		snap, err := store.Load(t.Context())
		if errors.Is(err, lease.ErrWiped) {
			return
		}
		require.NoError(t, err)
		require.Len(t, snap.Records, n)
	}
}

// requests returns how many goroutines of this process make a request.
func requests(t *testing.T) (n int) {
	t.Helper()
	var all strings.Builder // a line with a count and a stack for each place at which goroutines are
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&all, 1))
	for _, place := range strings.Split(all.String(), "\n\n") {
		if strings.Contains(place, "zklease.call[") {
			var here int
			_, err := fmt.Sscan(place[strings.LastIndex(place[:strings.Index(place, " @")], "\n")+1:], &here)
			require.NoError(t, err)
			n += here
		}
	}
	return n
}

// callsEndIfTheServerDoesNotAnswer: calls end when their contexts end, and leave no goroutines.
func callsEndIfTheServerDoesNotAnswer(t *testing.T, s *server) {
	proxy := servertest.NewProxy(t, s.addr)
	store := open(t, connect(t, proxy.Addr()), newRoot())
	mustSave(t, store, record(3, 1, "a"))
	proxy.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	const others = 500 // in the tests beside this one there are fewer requests at once
	var wg sync.WaitGroup
	for w := range 5000 {
		wg.Go(func() {
			_, err := store.Save(ctx, record(w, 2, "a"))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	wg.Wait()
	waiting := requests(t)
	assert.Greater(t, waiting, others)
	assert.Less(t, waiting, 1024+others)
	_, err := store.LoadWorker(ctx, 3)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	proxy.Heal()

	require.Eventually(t, func() bool {
		snap, err := store.LoadWorker(t.Context(), 3)
		if err != nil || len(snap.Records) == 0 {
			return false
		}
		_, err = store.Save(t.Context(), record(3, snap.Records[0].Version+1, "a"))
		return err == nil
	}, 2*time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool { return requests(t) < others }, 2*time.Minute, 20*time.Millisecond)
}

// calls returns a call of each method of a store, by the method's name.
func calls(s *zklease.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Create":     func(ctx context.Context) error { return s.Create(ctx, 1) },
		"Load":       func(ctx context.Context) error { _, err := s.Load(ctx); return err },
		"LoadWorker": func(ctx context.Context) error { _, err := s.LoadWorker(ctx, 3); return err },
		"History":    func(ctx context.Context) error { _, err := s.History(ctx, 3); return err },
		"Save":       func(ctx context.Context) error { _, err := s.Save(ctx, record(3, 1, "a")); return err },
		"SaveEnding": func(ctx context.Context) error {
			_, err := s.SaveEnding(ctx, record(3, 2, "b"), holding(3, 1), time.Time{})
			return err
		},
	}
}

func TestErrorNamesMissingServer(t *testing.T) {
	t.Parallel()
	store := opened(t, connect(t, fmt.Sprint("127.0.0.1:", servertest.Port(t))), nil)
	for name, call := range calls(store) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := call(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.ErrorIs(t, err, zk.ErrNoServer, name)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, name)
		require.ErrorContains(t, err, "zklease: /snowflake/", name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := lease.Acquire(ctx, store, nil)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	_, err := zklease.New(nil, nil)
	require.ErrorIs(t, err, lease.ErrInvalidOptions)
	require.ErrorContains(t, err, "the conn is nil")
	conn := connect(t, fmt.Sprint("127.0.0.1:", servertest.Port(t)))
	for _, root := range []string{"snowflake", "//", "/a//b", "/a/../b", "/a/.", "/a\x00", "/a//", "a/"} {
		_, err := zklease.New(conn, &zklease.Options{Root: root})
		require.ErrorIs(t, err, lease.ErrInvalidOptions, root)
		require.ErrorIs(t, err, zk.ErrInvalidPath, root)
		require.ErrorContains(t, err, fmt.Sprintf("%q", root))
	}
	for _, root := range []string{"", "/", "/a", "/a/", "/a/b.c/..d"} {
		_, err := zklease.New(conn, &zklease.Options{Root: root})
		require.NoError(t, err, root)
	}
	_, err = zklease.New(conn, &zklease.Options{ACL: []zk.ACL{}})
	require.ErrorIs(t, err, lease.ErrInvalidOptions)
	store, err := zklease.New(conn, nil)
	require.NoError(t, err)
	require.ErrorIs(t, store.Create(t.Context(), -1), lease.ErrInvalidOptions)
}

func BenchmarkLoad(b *testing.B) {
	s := start(b)
	o := newRoot()
	writer := open(b, connect(b, s.addr), o)
	for w := range 1024 {
		_, err := writer.Save(b.Context(), record(w, 1, "a"))
		require.NoError(b, err)
	}
	store := open(b, connect(b, s.addr), o)
	b.Run("records=1", func(b *testing.B) {
		for b.Loop() {
			snap, err := store.LoadWorker(b.Context(), 0)
			require.NoError(b, err)
			require.Len(b, snap.Records, 1)
		}
	})
	b.Run("records=1024", func(b *testing.B) {
		for b.Loop() {
			snap, err := store.Load(b.Context())
			require.NoError(b, err)
			require.Len(b, snap.Records, 1024)
		}
	})
}
