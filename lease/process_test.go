package lease_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Tests of leases on a directory within one process. Tests with several processes are in
// process_unix_test.go.

func TestLeasesOfOneProcessGetDifferentWorkerIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := &lease.Options{First: 3, Count: 2, Window: time.Minute}
	var gens []*snowflake.Generator
	for range 2 {
		// Each lease has a separate Store, as in separate processes.
		l, err := lease.Acquire(t.Context(), lease.File(dir), opts)
		require.NoError(t, err)
		defer l.Release(context.Background())
		g, err := snowflake.NewLeased(l, nil)
		require.NoError(t, err)
		gens = append(gens, g)
	}
	assert.ElementsMatch(t, []int{3, 4}, []int{gens[0].Worker(), gens[1].Worker()})
	seen := map[snowflake.ID]bool{}
	for range 10_000 {
		for _, g := range gens {
			id, err := g.NextID()
			require.NoError(t, err)
			require.False(t, seen[id])
			seen[id] = true
		}
	}

	opts.Window = time.Second // bounds how long Acquire waits
	_, err := lease.Acquire(t.Context(), lease.File(dir), opts)
	var exhausted *lease.ExhaustedError
	require.ErrorAs(t, err, &exhausted)
	require.Len(t, exhausted.Records, 2)
	for i, r := range exhausted.Records {
		assert.Equal(t, 3+i, r.Worker)
		assert.Equal(t, lease.Held, r.State)
		assert.Equal(t, os.Getpid(), r.PID)
		assert.Contains(t, err.Error(), r.Bound().Format("15:04:05.000"))
	}
}

// outage moves a directory away, and puts something else into its place.
type outage struct{ dir, away string }

func newOutage(t *testing.T) outage {
	base := t.TempDir()
	return outage{filepath.Join(base, "leases"), filepath.Join(base, "away")}
}

func (o outage) begin(t *testing.T) {
	t.Helper()
	eventually(t, func() bool { return os.Rename(o.dir, o.away) == nil })
	require.NoError(t, os.WriteFile(o.dir, nil, 0o600))
}

func (o outage) end(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Remove(o.dir))
	require.NoError(t, os.Rename(o.away, o.dir))
}

// bound returns the bound that is stored in the directory that was moved away.
func (o outage) bound(t *testing.T) time.Time {
	t.Helper()
	snap, err := lease.File(o.away).Load(t.Context())
	require.NoError(t, err)
	require.Len(t, snap.Records, 1)
	return snap.Records[0].Bound()
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, time.Millisecond)
}

func waitDone(t *testing.T, l *lease.Lease) {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(20 * time.Second):
		require.FailNow(t, "the lease does not end")
	}
}

// The clock is set to the window's end by hand.
func TestHolderContinuesWhenRemovedDirectoryIsBack(t *testing.T) {
	store := newOutage(t)
	var now atomic.Pointer[time.Time]
	set := func(n time.Time) { now.Store(&n) }
	set(time.Now().Truncate(time.Millisecond))
	clock := snowflake.ClockFunc(func() time.Time { return *now.Load() })
	l, err := lease.Acquire(t.Context(), lease.File(store.dir), &lease.Options{Window: 300 * time.Millisecond, Clock: clock})
	require.NoError(t, err)
	defer l.Release(context.Background())
	g, err := snowflake.NewLeased(l, &snowflake.Options{Clock: clock})
	require.NoError(t, err)

	store.begin(t)
	before := l.Stats()
	bound := store.bound(t)
	require.Equal(t, bound, before.Bound)
	eventually(t, func() bool { return l.Stats().Failures >= before.Failures+2 })
	s := l.Stats()
	var file *lease.FileError
	require.ErrorAs(t, s.LastError, &file)
	assert.Contains(t, file.Path, store.dir)
	assert.Equal(t, bound, s.Bound)
	assert.Equal(t, before.Renewals, s.Renewals)

	tick := g.Layout().Unit
	set(bound.Add(-tick))
	id, err := g.NextID()
	require.NoError(t, err, "it goes on to the window's end")
	assert.Equal(t, bound.Add(-tick), g.Decode(id).Time)
	set(bound)
	for range 3 {
		_, err = g.NextID()
		var expired *snowflake.LeaseExpiredError
		require.ErrorAs(t, err, &expired, "and not one tick further")
		assert.Equal(t, []any{l.Worker(), bound, bound}, []any{expired.Worker, expired.NotAfter, expired.Time})
		require.ErrorAs(t, expired.Cause, &file)
	}
	require.NoError(t, l.Err())

	store.end(t)
	eventually(t, func() bool { return l.Stats().LastError == nil })
	id, err = g.NextID()
	require.NoError(t, err, "it recovers by itself")
	assert.Equal(t, bound, g.Decode(id).Time)
	require.NoError(t, l.Release(t.Context()))
}

// The clock is the real one.
func TestHolderAtFullRateContinuesWhenRemovedDirectoryIsBack(t *testing.T) {
	store := newOutage(t)
	l, err := lease.Acquire(t.Context(), lease.File(store.dir), &lease.Options{Window: 300 * time.Millisecond})
	require.NoError(t, err)
	defer l.Release(context.Background())
	g, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	_, err = g.NextID()
	require.NoError(t, err)

	store.begin(t)
	bound := store.bound(t)
	var last snowflake.ID
	var called time.Time // for the last ID
	for {
		require.False(t, g.Decode(last).Time.After(bound.Add(10*time.Second)), "it does not stop")
		calls := time.Now()
		id, err := g.NextID()
		if err != nil {
			require.ErrorIs(t, err, snowflake.ErrLeaseExpired)
			// It stopped at the end, but for the time that two calls took, however busy
			// the machine is, and the 5 ms that timestamps may lag behind.
			early := bound.Sub(g.Decode(last).Time)
			assert.Greater(t, early, time.Duration(0), "the last ID is past the bound")
			assert.Less(t, early, time.Since(called)+10*time.Millisecond)
			break
		}
		last, called = id, calls
	}
	s := l.Stats()
	assert.NotZero(t, s.Failures)
	assert.Error(t, s.LastError)
	require.NoError(t, l.Err())

	store.end(t)
	eventually(t, func() bool {
		id, err := g.NextID()
		return err == nil && id > last
	})
	assert.NoError(t, l.Err())
}

// renewals returns the stacks of the goroutines that package lease started.
func renewals() map[string]bool {
	b := make([]byte, 1<<20)
	b = b[:runtime.Stack(b, true)]
	found := map[string]bool{}
	for s := range strings.SplitSeq(string(b), "\n\n") {
		if strings.Contains(s, "/snowflake/lease.") && strings.Contains(s, "created by") && !strings.Contains(s, "lease_test.") {
			name, _, _ := strings.Cut(s, " [")
			found[name] = true
		}
	}
	return found
}

// renewalsEnded reports whether all goroutines that were started after before have ended.
func renewalsEnded(before map[string]bool) bool {
	for name := range renewals() {
		if !before[name] {
			return false
		}
	}
	return true
}

// takeOver gives a worker ID to another owner.
func takeOver(t *testing.T, s lease.Store, worker int) error {
	snap, err := s.LoadWorker(t.Context(), worker)
	if err != nil {
		return err
	}
	r := snap.Records[0]
	r.Version++
	r.Token, r.Owner = "another", "another"
	_, err = s.Save(t.Context(), r)
	return err
}

func TestNoGoroutineOutlivesTheLease(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(t *testing.T, o outage, l *lease.Lease)
	}{
		{"release", func(t *testing.T, _ outage, l *lease.Lease) {
			require.NoError(t, l.Release(context.Background()))
			assert.ErrorIs(t, l.Err(), lease.ErrReleased)
		}},
		{"release that fails", func(t *testing.T, o outage, l *lease.Lease) {
			o.begin(t)
			require.Error(t, l.Release(context.Background()))
			assert.ErrorIs(t, l.Err(), lease.ErrReleased)
		}},
		{"loss", func(t *testing.T, o outage, l *lease.Lease) {
			eventually(t, func() bool { return takeOver(t, lease.File(o.dir), 0) == nil })
			waitDone(t, l)
			assert.ErrorIs(t, l.Err(), lease.ErrLost)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOutage(t)
			before := renewals()
			l, err := lease.Acquire(t.Context(), lease.File(o.dir), &lease.Options{
				Window: 100 * time.Millisecond, OnLoss: lease.Stop,
			})
			require.NoError(t, err)
			eventually(t, func() bool { return len(renewals()) == len(before)+1 }) // the renewal of this lease
			test.end(t, o, l)
			eventually(t, func() bool { return renewalsEnded(before) })
		})
	}

	t.Run("refusals", func(t *testing.T) {
		dir := t.TempDir()
		before := renewals()
		opts := lease.Options{First: 5, Count: 1, Window: 50 * time.Millisecond}
		long := opts
		long.Window = time.Minute // it does not look dead, even if the machine is slow
		l, err := lease.Acquire(t.Context(), lease.File(dir), &long)
		require.NoError(t, err)
		_, err = lease.Acquire(t.Context(), lease.File(dir), &opts)
		require.ErrorIs(t, err, lease.ErrExhausted)
		require.NoError(t, l.Release(t.Context()))
		opts.Clock = snowflake.ClockFunc(func() time.Time { return time.Now().Add(-time.Hour) })
		_, err = lease.Acquire(t.Context(), lease.File(dir), &opts)
		require.ErrorIs(t, err, snowflake.ErrClockBackward)
		eventually(t, func() bool { return renewalsEnded(before) }) // a goroutine may end just after its call returns
	})
}
