//go:build unix

package zklease_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

// holding returns a holding that has ended.
func holding(worker, n int) lease.Holding {
	from := time.Date(2026, 11, 20, 12, n, 0, 0, time.UTC)
	return lease.Holding{Worker: worker, From: from, To: from.Add(time.Minute), Token: fmt.Sprint("token ", n), Owner: fmt.Sprint("owner ", n)}
}

// has checks the history of a worker ID.
func has(t *testing.T, s *zklease.Store, worker int, want ...lease.Holding) {
	t.Helper()
	got, err := s.History(t.Context(), worker)
	require.NoError(t, err)
	require.ElementsMatch(t, want, got)
}

// chain saves one version of a record after another.
type chain struct {
	t *testing.T
	s *zklease.Store
	r lease.Record
}

func begin(t *testing.T, s *zklease.Store, worker int) *chain {
	t.Helper()
	return &chain{t, s, mustSave(t, s, record(worker, 1, "a"))}
}

func (c *chain) ending(ended lease.Holding, forget time.Time) lease.Record {
	c.t.Helper()
	c.r.Version++
	c.r.Forgotten = forget
	c.r.Token = fmt.Sprint("token of version ", c.r.Version)
	r, err := c.s.SaveEnding(c.t.Context(), c.r, ended, forget)
	require.NoError(c.t, err)
	c.r = r
	return r
}

func historyDropsExactlyWhatEndedBefore(t *testing.T, s *server) {
	store := open(t, connect(t, s.addr), newRoot())
	at := func(minute int) time.Time { return time.Date(2026, 11, 20, 12, minute, 0, 0, time.UTC) }
	h := func(seq, from, to int) lease.Holding {
		return lease.Holding{Worker: 1, ClockSeq: seq, From: at(from), To: at(to), Token: "a/token-with 雪", Owner: "owner"}
	}
	first := lease.Holding{Worker: 1, To: at(1), Token: "token"} // From is zero
	fine := h(0, 1, 2)
	fine.From, fine.To = fine.From.Add(1), fine.To.Add(1)
	for i, test := range []struct {
		name   string
		before []lease.Holding
		ended  lease.Holding
		forget time.Time
		after  []lease.Holding
	}{
		{"nothing", nil, h(0, 1, 2), time.Time{}, []lease.Holding{h(0, 1, 2)}},
		{"all", []lease.Holding{h(0, 1, 2), h(0, 2, 3), h(0, 3, 4)}, h(0, 4, 5), at(5), []lease.Holding{h(0, 4, 5)}},
		{"what ended at forget stays", []lease.Holding{h(0, 1, 2), h(0, 2, 3)}, h(0, 4, 5), at(3), []lease.Holding{h(0, 2, 3), h(0, 4, 5)}},
		{"by the nanosecond", []lease.Holding{fine}, h(0, 4, 5), at(2).Add(2), []lease.Holding{h(0, 4, 5)}},
		{"not by the nanosecond", []lease.Holding{fine}, h(0, 4, 5), at(2).Add(1), []lease.Holding{fine, h(0, 4, 5)}},
		{"long ones between short ones", []lease.Holding{h(0, 1, 2), h(1, 1, 9), h(2, 1, 3), h(0, 2, 4), h(0, 4, 8)}, h(4, 5, 6), at(5),
			[]lease.Holding{h(1, 1, 9), h(0, 4, 8), h(4, 5, 6)}},
		{"the same one, longer", []lease.Holding{h(0, 1, 2), h(0, 2, 3), h(1, 2, 3)}, h(0, 2, 4), time.Time{}, []lease.Holding{h(0, 1, 2), h(0, 2, 4), h(1, 2, 3)}},
		{"the same one", []lease.Holding{h(0, 1, 2)}, h(0, 1, 2), time.Time{}, []lease.Holding{h(0, 1, 2)}},
		{"the same one, which had ended before", []lease.Holding{h(0, 2, 3)}, h(0, 2, 9), at(5), []lease.Holding{h(0, 2, 9)}},
		{"it has ended before itself", []lease.Holding{h(0, 1, 2), h(0, 2, 9)}, h(0, 2, 3), at(5), nil},
		{"from the beginning of time", []lease.Holding{first}, h(0, 1, 2), at(1), []lease.Holding{first, h(0, 1, 2)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := begin(t, store, i)
			for _, h := range test.before {
				c.ending(h, time.Time{})
			}
			has(t, store, i, test.before...)
			saved := c.ending(test.ended, test.forget)
			has(t, store, i, test.after...)
			require.True(t, saved.Forgotten.Equal(test.forget))
		})
	}
	has(t, store, 100)
}

func historyIsChangedWithTheRecordOnly(t *testing.T, s *server) {
	store := open(t, connect(t, s.addr), newRoot())
	c := begin(t, store, 1)
	c.ending(holding(1, 1), time.Time{})
	for _, version := range []uint64{0, 1, 2, 4, 5} {
		_, err := store.SaveEnding(t.Context(), record(1, version, "b"), holding(1, 2), holding(1, 9).From)
		require.ErrorIs(t, err, lease.ErrConflict)
		has(t, store, 1, holding(1, 1))
	}
	_, err := store.SaveEnding(t.Context(), record(3, 1, "a"), holding(3, 1), time.Time{})
	require.NoError(t, err)
	has(t, store, 3, holding(3, 1))
}

// changeOfTheClockSequenceLeavesTheHolderAlive: when the clock sequence changes, the ephemeral znode stays.
func changeOfTheClockSequenceLeavesTheHolderAlive(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store := open(t, conn, o)
	mustSave(t, store, record(1, 1, "a"))
	_, err := store.SaveEnding(t.Context(), record(1, 2, "a"), holding(1, 1), time.Time{})
	require.NoError(t, err)
	require.True(t, live(t, store))
	mustSave(t, store, record(1, 3, "a"))
	require.NoError(t, conn.Delete(instancePath(o, 1), -1))
	_, err = store.SaveEnding(t.Context(), record(1, 4, "a"), holding(1, 2), time.Time{})
	require.NoError(t, err)
	require.True(t, live(t, store))
}

// thousandsAreDropped: the store drops them in several transactions, so that the server does not refuse their
// size.
func thousandsAreDropped(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store := open(t, conn, o)
	c := begin(t, store, 1)
	c.ending(holding(1, 0), time.Time{})
	dir := o.Root + "/history/0000000001/"
	for i := 1; i < zklease.MaxHistory; i += 500 {
		var ops []any
		for n := i; n < min(i+500, zklease.MaxHistory); n++ {
			from := time.Unix(int64(n), 0).UTC().Format("20060102T150405.000000000")
			ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("%s%s-0-%016x-%s", dir, from, n, from), Data: []byte(`{}`), Acl: zk.WorldACL(zk.PermAll)})
		}
		_, err := conn.Multi(ops...)
		require.NoError(t, err)
	}
	all, err := store.History(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, all, zklease.MaxHistory)
	last := holding(1, 1)
	for range zklease.MaxHistory/500 + 1 {
		c.ending(last, last.To)
	}
	has(t, store, 1, last)
}

func historyThatCannotBeReadIsRefused(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store := open(t, conn, o)
	c := begin(t, store, 1)
	c.ending(holding(1, 1), time.Time{})
	foreign := o.Root + "/history/0000000001/README"
	_, err := conn.Create(foreign, []byte("hello"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = store.History(t.Context(), 1)
	require.ErrorIs(t, err, lease.ErrBadRecord)
	require.ErrorContains(t, err, foreign)
	c.ending(holding(1, 2), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) // it can be saved, and is not dropped
	there, _, err := conn.Exists(foreign)
	require.NoError(t, err)
	require.True(t, there)
}

// historyHasABound: if a history is full, the oldest holdings are dropped, and Record.Forgotten says so.
func historyHasABound(t *testing.T, s *server) {
	store := open(t, connect(t, s.addr), newRoot())
	store.SetKeep(10)
	c := begin(t, store, 1)
	var all []lease.Holding
	add := func() {
		t.Helper()
		all = append(all, holding(1, len(all)))
		saved := c.ending(all[len(all)-1], time.Time{})
		snap, err := store.LoadWorker(t.Context(), 1)
		require.NoError(t, err)
		require.True(t, snap.Records[0].Forgotten.Equal(saved.Forgotten))
	}
	for range 10 {
		add()
		has(t, store, 1, all...)
	}
	require.Zero(t, c.r.Forgotten)
	for range 5 {
		add()
		left := all[len(all)-10:]
		has(t, store, 1, left...)
		require.Equal(t, left[0].From, c.r.Forgotten) // at that time the holding before ended
	}
	store.SetKeep(3)
	add()
	has(t, store, 1, slices.Clone(all[len(all)-3:])...)
}

// historyIsWrittenAfterALostConnection: the store may have the list of an earlier session, and the holder's
// ephemeral znode may exist already.
func historyIsWrittenAfterALostConnection(t *testing.T, s *server) {
	proxy, o := servertest.NewProxy(t, s.addr), newRoot()
	store := open(t, connectFor(t, proxy.Addr(), time.Minute), o)
	c := begin(t, store, 1)
	var want []lease.Holding
	for i := range depth.Of(2, 5) {
		want = append(want, holding(1, i))
		c.ending(want[i], time.Time{})
		proxy.Reset()
		proxy.Heal()
		require.Eventually(t, func() bool { _, err := store.LoadWorker(t.Context(), 1); return err == nil }, time.Minute, time.Millisecond)
	}
	has(t, open(t, connect(t, s.addr), o), 1, want...)
}
