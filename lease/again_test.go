package lease

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// failing fails with an error until a time.
type failing struct {
	*memory
	err   error
	until time.Time
}

func (s *failing) Load(ctx context.Context) (Snapshot, error) {
	if time.Now().Before(s.until) {
		return Snapshot{}, s.err
	}
	return s.memory.Load(ctx)
}

func TestAcquireTriesAgainWhileTheStoreIsAway(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, err := range []error{refused, io.EOF, ErrAway} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			s := &failing{newMemory(), err, begun.Add(20 * time.Second)}
			limited := func(d time.Duration) error {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				l, err := Acquire(ctx, s, &Options{Layout: fleet, Clock: clockAt(0)})
				if err == nil {
					require.NoError(t, l.Release(t.Context()))
				}
				return err
			}
			got := limited(5 * time.Second)
			require.ErrorIs(t, got, context.DeadlineExceeded)
			require.ErrorIs(t, got, err)
			assert.Equal(t, 5*time.Second, time.Since(begun))
			require.NoError(t, limited(30*time.Second))
			assert.Less(t, time.Since(begun), 22*time.Second)

			begun = time.Now()
			s.until = begun.Add(time.Hour)
			_, got = acquire(t, s, fleet, clockAt(0))
			require.ErrorIs(t, got, err)
			assert.WithinRange(t, time.Now(), begun.Add(time.Minute), begun.Add(time.Minute+span))
		})
	}
}

func TestAcquireFailsAtOnceIfTryingAgainCannotHelp(t *testing.T) {
	for _, err := range []error{errDown, ErrBadRecord, ErrWiped, ErrLayout, &net.OpError{Op: "remote error", Err: errDown},
		&FileError{Path: "x", Err: syscall.EACCES}} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			_, got := acquire(t, &failing{newMemory(), err, begun.Add(time.Hour)}, fleet, clockAt(0))
			require.ErrorIs(t, got, err)
			assert.Zero(t, time.Since(begun))
		})
	}
}

// late returns an error for the first save, but makes the save later.
type late struct {
	*memory
	after time.Duration
}

func (s *late) Save(ctx context.Context, r Record) (Record, error) {
	if after := s.after; after > 0 {
		s.after = 0
		time.AfterFunc(after, func() { _, _ = s.memory.Save(context.Background(), r) })
		return r, errDown
	}
	return s.memory.Save(ctx, r)
}

func TestAcquireReleasesWorkerIDThatItTookInAnEarlierAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &late{newMemory(), span / 3}
		h := mustAcquire(t, s, fleet, clockAt(0))
		assert.Equal(t, 1, h.Worker())
		time.Sleep(span/3 + ms)
		assert.Equal(t, Held, s.record(0).State, "it has come")
		time.Sleep(span / 2)
		r := s.record(0)
		assert.Equal(t, Free, r.State)
		assert.Empty(t, r.Owner)
		h.next()
	})
}

func TestCancelledAcquireReleasesWorkerIDIfFileSystemIsSlow(t *testing.T) {
	for _, what := range []string{"rename", "sync directory"} {
		synctest.Test(t, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "leases")
			disk := new(stuckDisk)
			s := HookedFile(dir, disk.hook)
			require.NoError(t, mustAcquire(t, s, fleet, clockAt(0), named("b")).Release(t.Context())) // it makes the directory
			at := map[string]string{"rename": "worker-0.json", "sync directory": "leases"}[what]
			time.Sleep(ms)
			disk.begin(what, at)
			ctx, cancel := context.WithTimeout(t.Context(), span/10)
			defer cancel()
			begun := time.Now()
			_, err := Acquire(ctx, s, &Options{Layout: fleet, Owner: "a", Clock: clockAt(0)})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.LessOrEqual(t, time.Since(begun), span/10+farewell)
			time.Sleep(span / 3)
			disk.end()
			time.Sleep(span / 100)
			snap, err := s.LoadWorker(t.Context(), 0)
			require.NoError(t, err)
			r := snap.Records[0]
			assert.Equal(t, Free, r.State)
			assert.Equal(t, "b", r.Owner, "it is what it was")
		})
	}
}

func TestCancelledAcquireWithLocalCopyReleasesWorkerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Acquire(ctx, &losing{memory: m, after: cancel}, &Options{Layout: fleet, Owner: "a", Reuse: ReuseKeep, LocalCopy: dir})
		require.ErrorIs(t, err, context.Canceled)
		r := m.record(0)
		assert.Equal(t, Free, r.State)
		assert.Empty(t, r.Owner)
		assert.Equal(t, ReuseAny, r.Reuse)
		other := mustAcquire(t, m, fleet, clockAt(0), named("b"), reuse(ReuseKeep))
		assert.Equal(t, 0, other.Worker())
		other.next()
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		assert.Equal(t, 1, h.Worker())
		h.next()
	})
}

// Two processes of one owner use one local copy. If one has noted a wanted worker ID there, and the other
// takes it, only one of them holds it.
func TestProcessesWithOneLocalCopyHoldDifferentWorkerIDs(t *testing.T) {
	for _, kept := range []bool{false, true} { // if kept, the owner has a worker ID already, and the other process gives back the wanted one
		synctest.Test(t, func(t *testing.T) {
			m, dir := newMemory(), t.TempDir()
			o := func(first int) *Options {
				return &Options{Layout: fleet, Owner: "a", Reuse: ReuseKeep, LocalCopy: dir, First: first, Count: 1, Clock: clockAt(0)}
			}
			if kept {
				l, err := Acquire(t.Context(), m, o(7))
				require.NoError(t, err)
				defer stopRenewing(l)
			}
			var others []*Lease
			between := &losing{memory: m}
			between.after = func() { // the first process has saved in the store, but not in the local copy
				l, err := Acquire(t.Context(), m, o(map[bool]int{false: 0, true: 8}[kept]))
				if err == nil {
					others = append(others, l)
				} else {
					require.ErrorIs(t, err, ErrExhausted)
				}
				if kept {
					assert.Empty(t, m.record(0).Owner, "it was given back")
				}
			}
			l, err := Acquire(t.Context(), between, o(0))
			if err == nil {
				others = append(others, l)
			}
			held := map[int]bool{}
			for _, l := range others {
				assert.False(t, held[l.Worker()], "two hold worker %d", l.Worker())
				held[l.Worker()] = true
				r := m.record(l.Worker())
				assert.Equal(t, l.record.Load().Token, r.Token)
				assert.Equal(t, Held, r.State)
				assert.True(t, strings.HasPrefix(r.Owner, "a @"))
				stopRenewing(l)
			}
			assert.NotEmpty(t, others)
			time.Sleep(2 * span)
		})
	}
}

// As above, but the versions in the local copy and in the store happen to be equal.
func TestProcessesWithOneLocalCopyThatReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Acquire(ctx, &losing{memory: m, after: cancel}, &Options{Layout: plain, Owner: "b", Reuse: ReuseKeep})
		require.ErrorIs(t, err, context.Canceled)
		var h *holder
		between := &afterLoad{memory: m, after: func() { h = mustAcquire(t, m, plain, clockAt(0), withCopy(dir)) }}
		_, err = acquire(t, between, plain, clockAt(0), withCopy(dir))
		require.ErrorIs(t, err, ErrExhausted)
		h.next()
		require.NoError(t, h.Stats().LastError)
	})
}

// afterLoad calls after when its first Load has succeeded.
type afterLoad struct {
	*memory
	after func()
}

func (s *afterLoad) Load(ctx context.Context) (Snapshot, error) {
	snap, err := s.memory.Load(ctx)
	if after := s.after; after != nil {
		s.after = nil
		after()
	}
	return snap, err
}

// If an owner with a local copy takes another worker ID, it writes the history of its old worker ID to
// the store. Until it does, Whois does not return ErrNeverIssued for the old worker ID.
func TestLocalCopySavesHistoryOfAnEarlierWorkerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := newMemory(), t.TempDir()
		h := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir))
		h.next()
		m.setDown(true)
		time.Sleep(2 * span)
		id, err := h.g.NextID()
		require.NoError(t, err)
		stopRenewing(h.Lease)
		m.setDown(false)
		who, err := Whois(t.Context(), m, id)
		require.ErrorIs(t, err, ErrUntold)
		assert.Equal(t, h.o.Owner, who.Owner)
		assert.ErrorContains(t, err, h.o.Owner)

		kept := mustAcquire(t, m, fleet, clockAt(0), named("b"), reuse(ReuseKeep))
		never, err := fleet.Encode(snowflake.Parts{Time: time.Now().Add(time.Hour), Worker: kept.Worker()})
		require.NoError(t, err)
		_, err = Whois(t.Context(), m, never)
		require.ErrorIs(t, err, ErrNeverIssued, "a holder without a copy saves before it stamps")

		again := mustAcquire(t, m, fleet, clockAt(0), withCopy(dir), func(o *Options) { o.First = 9 })
		assert.Equal(t, 9, again.Worker())
		who, err = Whois(t.Context(), m, id)
		require.NoError(t, err)
		assert.Equal(t, h.record.Load().Token, who.Token)
	})
}

func TestLocalCopyStartsWithoutTheStoresDirectory(t *testing.T) {
	for _, marked := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			root, dir := t.TempDir(), t.TempDir()
			leases := filepath.Join(root, "leases")
			h := mustAcquire(t, File(leases), fleet, clockAt(0), withCopy(dir))
			h.next()
			require.NoError(t, h.Release(t.Context()))
			require.NoError(t, os.Rename(leases, leases+".away"))
			mark := filepath.Join(root, ".leases.identity")
			if !marked {
				require.NoError(t, os.Remove(mark))
			}
			time.Sleep(ms)
			again := mustAcquire(t, File(leases), fleet, clockAt(0), withCopy(dir)).also(h)
			assert.Equal(t, 0, again.Worker())
			again.next()
			require.ErrorIs(t, again.Stats().Away, ErrWiped)
			_, err := acquire(t, File(leases), fleet, clockAt(0), withCopy(dir), named("b"))
			if marked {
				require.ErrorIs(t, err, ErrWiped, "without a copy it does not")
			}
			if marked {
				require.NoError(t, os.Rename(leases+".away", leases))
				time.Sleep(span)
				again.next()
				require.NoError(t, again.Stats().Away)
			}
		})
	}
}

// If a store lost its records, Create may make it anew after two windows, and other holders get its worker
// IDs. So the old holder's window must have ended by then.
func TestHolderWithLocalCopyStopsIfStoreLosesItsRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, dir := t.TempDir(), t.TempDir()
		h := mustAcquire(t, File(leases), fleet, clockAt(0), withCopy(dir))
		h.next()
		require.NoError(t, os.Remove(filepath.Join(leases, "worker-0.json")))
		time.Sleep(2 * span)
		_, err := h.g.NextID()
		require.ErrorIs(t, err, snowflake.ErrLeaseExpired)
		require.ErrorIs(t, err, ErrWiped)
		stopRenewing(h.Lease)
		_, err = acquire(t, File(leases), fleet, clockAt(0), withCopy(dir))
		require.ErrorIs(t, err, ErrWiped)
	})
}
