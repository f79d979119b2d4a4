package hostlease_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/vmclock/vmclocktest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/hostlease"
)

// newMachine returns the path of a device that tells the generation of a machine.
func newMachine(t *testing.T, generation uint64) (path string) {
	path = filepath.Join(t.TempDir(), "vmclock0")
	vmclocktest.Write(t, path, generation)
	return path
}

// If the hypervisor tells of clones, a generator stamps the block, too.
func TestGuardedProcessesStampTheBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := lease.File(t.TempDir())
		workers := map[int]bool{}
		for range 2 {
			h := newHost(t, store)
			h.vmclock = newMachine(t, 7)
			defer h.keep(t, 0)()
			l, g := h.process(t, 1)
			defer l.Release(context.Background())
			assert.True(t, l.Stats().Guarded)
			id, err := g.NextID()
			require.NoError(t, err)
			assert.Equal(t, l.Worker(), g.Decode(id).Worker)
			workers[l.Worker()] = true
		}
		assert.Len(t, workers, 2)
	})
}

// A machine is cloned with its directory. Processes that start in the copies do not use the block from before the snapshot, and
// the keeper takes another one at once.
func TestCopiesOfAMachineDoNotShareABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, lease.File(t.TempDir()))
		h.vmclock = newMachine(t, 7)
		defer h.keep(t, 0)()
		l, g := h.process(t, 1)
		before := g.Worker()
		twin := newHost(t, h) // the keeper of the copy is not running
		twin.vmclock = newMachine(t, 8)
		require.NoError(t, os.CopyFS(filepath.Join(twin.dir, "run"), os.DirFS(h.dir)))
		twin.dir = filepath.Join(twin.dir, "run")
		vmclocktest.Write(t, h.vmclock, 9)
		_, err := g.NextID()
		require.ErrorIs(t, err, lease.ErrLost)
		<-l.Done()

		begun := time.Now()
		l, g = h.process(t, 0)
		defer l.Release(context.Background())
		assert.Less(t, time.Since(begun), time.Second)
		assert.NotEqual(t, before>>2, g.Worker()>>2)
		_, err = g.NextID()
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), window)
		defer cancel()
		_, err = fleet.Acquire(ctx, twin.dir, &lease.Options{Window: window / 2, Clock: clock{twin}, Logger: quiet, VMClock: twin.vmclock})
		require.ErrorIs(t, err, hostlease.ErrNoBlock)
	})
}

// The fleet's store was cloned, too, so the keeper's lease ends. New processes do not use its block, whether or not the hypervisor tells them.
func TestKeeperOfACopyTakesItsBlockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		vmclock := newMachine(t, 7)
		kept := make(chan error, 1)
		go func() {
			kept <- fleet.Keep(t.Context(), lease.File(t.TempDir()), h.dir, &lease.Options{Window: window, NewStore: true, Logger: quiet, VMClock: vmclock})
		}()
		l, _ := h.process(t, 0)
		require.NoError(t, l.Release(t.Context()))
		vmclocktest.Write(t, vmclock, 8)
		require.ErrorIs(t, <-kept, lease.ErrLost)
		l, g := h.process(t, 0)
		defer l.Release(context.Background())
		_, err := g.NextID()
		require.ErrorIs(t, err, hostlease.ErrNoBlock)
	})
}
