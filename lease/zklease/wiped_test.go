//go:build unix

package zklease_test

import (
	"context"
	"path"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

// removeAll removes a znode and all znodes under it, as deleteall in zkCli.sh does. It also removes what
// holders write meanwhile.
func removeAll(t *testing.T, conn *zk.Conn, p string) {
	t.Helper()
	for {
		names, _, err := conn.Children(p)
		if err == zk.ErrNoNode {
			return
		}
		require.NoError(t, err)
		for _, name := range names {
			removeAll(t, conn, path.Join(p, name))
		}
		if err := conn.Delete(p, -1); err != zk.ErrNotEmpty {
			require.Contains(t, []error{nil, zk.ErrNoNode}, err)
			return
		}
	}
}

func TestHoldersContinueAfterTheirRecordsAreWiped(t *testing.T) {
	t.Parallel()
	s := shared(t)
	conn := connect(t, s.addr)
	f := fleet(s, s.addr)
	f.Window = time.Second
	for name, parts := range map[string][]string{
		"Tree":           {""},
		"Servers":        {"/servers"},
		"ServersAndUsed": {"/servers", "/used"},
		"Clock":          {"/servers", "/clock"},
		"Znodes":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servertest.Wiped(t, f, func(space string) {
				for _, part := range parts {
					removeAll(t, conn, "/"+space+part)
				}
				if parts == nil { // the znodes that are left look like a new tree
					for _, w := range []string{"/0000000000", "/0000000001", "/0000000002"} {
						removeAll(t, conn, "/"+space+"/servers"+w)
						removeAll(t, conn, "/"+space+"/used"+w)
					}
				}
			}, func(space string) {
				store := opened(t, connect(t, s.addr), &zklease.Options{Root: "/" + space})
				if err := store.Create(t.Context(), f.Window); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// recordThatIsGoneIsMissed: each call that needs a removed record returns ErrWiped.
func recordThatIsGoneIsMissed(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store, other := open(t, conn, o), open(t, connect(t, s.addr), o)
	mustSave(t, store, record(3, 1, "a"))
	mustSave(t, store, record(4, 1, "b"))
	require.NoError(t, conn.Delete(recordPath(o, 3), -1))
	for _, store := range []*zklease.Store{store, other} { // the first store made the ephemeral znode
		for _, name := range []string{"Load", "LoadWorker", "Save", "SaveEnding"} {
			err := calls(store)[name](t.Context())
			require.ErrorIs(t, err, lease.ErrWiped, name)
			require.ErrorContains(t, err, recordPath(o, 3), name)
		}
		_, err := store.Save(t.Context(), record(3, 2, "a"))
		require.ErrorIs(t, err, lease.ErrWiped)
	}
	mustSave(t, store, record(4, 2, "b"))

	require.NoError(t, conn.Delete(o.Root+"/used/0000000003", -1))
	for _, name := range []string{"Load", "LoadWorker", "SaveEnding"} {
		require.ErrorIs(t, calls(store)[name](t.Context()), lease.ErrWiped, name)
	}
	require.NoError(t, store.Create(t.Context(), 1))
	require.Len(t, mustLoad(t, store).Records, 1)
	mustSave(t, store, record(3, 1, "a"))
}

// storeThatWasNeverCreatedIsRefused: only Create makes the tree.
func storeThatWasNeverCreatedIsRefused(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store := opened(t, conn, o)
	for name, call := range calls(store) {
		if name != "Create" {
			require.ErrorIs(t, call(t.Context()), lease.ErrWiped, name)
		}
	}
	there, _, err := conn.Exists(o.Root)
	require.NoError(t, err)
	require.False(t, there)

	// A missing part is not made either.
	for _, part := range []string{"/servers", "/instances", "/used", "/history", "/clock"} {
		o := newRoot()
		store := open(t, conn, o)
		require.NoError(t, conn.Delete(o.Root+part, -1))
		_, err := lease.Acquire(t.Context(), store, &lease.Options{First: 3, Count: 1})
		if part != "/history" { // only SaveEnding needs it
			require.ErrorIs(t, err, lease.ErrWiped, part)
			require.ErrorContains(t, err, o.Root+part)
		}
		_, err = store.SaveEnding(t.Context(), record(7, 1, "a"), holding(7, 1), time.Time{})
		if part != "/clock" { // only Load needs it
			require.ErrorIs(t, err, lease.ErrWiped, part)
			require.ErrorContains(t, err, o.Root+part)
		}
		require.NoError(t, store.Create(t.Context(), 1))
		_, err = store.SaveEnding(t.Context(), record(8, 1, "a"), holding(8, 1), time.Time{})
		require.NoError(t, err, part)
	}
}

// createRepairs: Create does not change what is left of a store.
func createRepairs(t *testing.T, s *server) {
	conn, o := connect(t, s.addr), newRoot()
	store := open(t, conn, o)
	for w := range 5 {
		mustSave(t, store, record(w, 1, "a"))
	}
	_, err := store.SaveEnding(t.Context(), record(1, 2, "b"), holding(1, 1), time.Time{})
	require.NoError(t, err)
	_, before, err := conn.Get(o.Root)
	require.NoError(t, err)
	require.NoError(t, store.Create(t.Context(), time.Hour)) // changes nothing, because the store is whole
	_, after, err := conn.Get(o.Root)
	require.NoError(t, err)
	require.Equal(t, before, after)

	for w := range 3 {
		require.NoError(t, conn.Delete(recordPath(o, w), -1))
	}
	hurried, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, store.Create(hurried, time.Hour), context.DeadlineExceeded)
	_, err = store.Load(t.Context())
	require.ErrorIs(t, err, lease.ErrWiped)
	require.NoError(t, store.Create(t.Context(), 1))
	require.Len(t, mustLoad(t, store).Records, 2)
	has(t, store, 1, holding(1, 1))
	for w := range 5 {
		version := uint64(1)
		if w >= 3 {
			version = 2
		}
		mustSave(t, store, record(w, version, "c"))
	}
}
