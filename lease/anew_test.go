package lease

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A directory is begun anew as the doc of File says, after a holder with a LocalCopy has issued no IDs
// for a window. The holder takes a worker ID of the new store, and repeats no ID.
func TestHolderWithLocalCopyRepeatsNoIDAfterDirectoryIsBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, dir := t.TempDir(), t.TempDir()
		leases := filepath.Join(root, "leases")
		h := mustAcquire(t, File(leases), fleet, clockAt(0), withCopy(dir))
		h.next()
		require.NoError(t, os.Remove(filepath.Join(leases, "worker-0.json")))
		time.Sleep(3 * span) // it issues no IDs for longer than a window
		h.refused(ErrWiped)
		require.NoError(t, os.RemoveAll(leases))
		require.NoError(t, os.Remove(filepath.Join(root, ".leases.identity")))
		n := mustAcquire(t, File(leases), fleet, clockAt(0), named("b"))
		assert.Equal(t, 0, n.Worker())
		n.also(h)
		for range 100 {
			n.next()
			h.also(n)
			id, err := h.g.NextID()
			if err == nil {
				require.False(t, h.seen[id], "twice: %v by worker %d, %v", id, h.Worker(), h.Stats())
				h.seen[id] = true
			}
			n.also(h)
			time.Sleep(span / 20)
		}
		h.next()
	})
}

// After a directory is begun anew, Acquire also works with a Store that was made before.
func TestAcquireWithAnOldStoreAfterDirectoryIsBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		leases := filepath.Join(root, "leases")
		s := File(leases)
		h := mustAcquire(t, s, fleet, clockAt(0), stops)
		h.next()
		require.NoError(t, os.RemoveAll(leases))
		require.NoError(t, os.Remove(filepath.Join(root, ".leases.identity")))
		time.Sleep(3 * span)
		mustAcquire(t, File(leases), fleet, clockAt(0), named("b"))
		time.Sleep(3 * span)
		<-h.Done()
		_, err := acquire(t, s, fleet, clockAt(0), named("a"))
		require.NoError(t, err)
	})
}

// If the record of a worker ID that a lease had before is lost, the lease takes another worker ID.
func TestReuseKeepTakesAnotherWorkerIDIfItsRecordIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := filepath.Join(t.TempDir(), "leases")
		h := mustAcquire(t, File(leases), fleet, clockAt(0), reuse(ReuseKeep))
		time.Sleep(span) // so that the versions are not equal by chance
		h.next()
		mustAcquire(t, File(leases), fleet, clockAt(0), named("z"), func(o *Options) { o.First = 9 })
		forget := func(worker string) {
			require.NoError(t, os.Remove(filepath.Join(leases, worker+".json")))
			require.NoError(t, os.Remove(filepath.Join(leases, worker+".lock")))
		}
		forget("worker-0")
		b := mustAcquire(t, File(leases), fleet, clockAt(0), named("b"), func(o *Options) { o.Count = 1 })
		time.Sleep(span)
		require.Equal(t, 1, h.Worker())
		h.next()
		stopRenewing(b.Lease)
		require.NoError(t, os.Remove(filepath.Join(leases, "worker-0.json")))
		forget("worker-1")
		time.Sleep(2 * span)
		h.next()
	})
}

// A directory is begun anew while a lease waits for a replacement. Then it gets one.
func TestReplacementAfterDirectoryIsBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		leases := filepath.Join(root, "leases")
		h := mustAcquire(t, File(leases), fleet, clockAt(0), func(o *Options) { o.Count = 1 })
		time.Sleep(span)
		h.next()
		mustAcquire(t, File(leases), fleet, clockAt(0), named("z"), func(o *Options) { o.First = 9 })
		require.NoError(t, os.Remove(filepath.Join(leases, "worker-0.json")))
		require.NoError(t, os.Remove(filepath.Join(leases, "worker-0.lock")))
		b := mustAcquire(t, File(leases), fleet, clockAt(0), named("b"), func(o *Options) { o.Count = 1 })
		time.Sleep(3 * span)
		h.refused(ErrExhausted)
		stopRenewing(b.Lease)
		require.NoError(t, os.RemoveAll(leases))
		require.NoError(t, os.Remove(filepath.Join(root, ".leases.identity")))
		time.Sleep(3 * span)
		mustAcquire(t, File(leases), fleet, clockAt(0), named("c"), func(o *Options) { o.First = 9 })
		time.Sleep(10 * span)
		h.next()
	})
}

// As the doc of File says, no IDs are issued for a window, then the directory is removed, and a second
// later the file beside it. Meanwhile the old holder issues no ID that the new one issues.
func TestHolderWithLocalCopyRepeatsNoIDWhileDirectoryIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, dir := t.TempDir(), t.TempDir()
		leases := filepath.Join(root, "leases")
		h := mustAcquire(t, File(leases), fleet, clockAt(0), withCopy(dir))
		h.next()
		require.NoError(t, os.Remove(filepath.Join(leases, "worker-0.json")))
		time.Sleep(3 * span)
		h.refused(ErrWiped)
		require.NoError(t, os.RemoveAll(leases))
		time.Sleep(span)
		require.NoError(t, os.Remove(filepath.Join(root, ".leases.identity")))
		n := mustAcquire(t, File(leases), fleet, clockAt(0), named("b"))
		for range 16 {
			n.next()
			id, err := h.g.NextID()
			if err == nil {
				require.False(t, n.seen[id], "twice: worker %d", h.Worker())
			}
			time.Sleep(span / 20)
		}
	})
}
