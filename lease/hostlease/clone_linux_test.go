package hostlease_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/vmclock/vmclocktest"
	"github.com/seed-5394e6b1/snowflake/lease"
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
