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

// A directory that is begun anew as its docs say, after the holder with a LocalCopy has issued
// nothing for a window.
func TestLocalCopyOfADirectoryThatIsBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, dir := t.TempDir(), t.TempDir()
		leases := filepath.Join(root, "leases")
		h := mustAcquire(t, File(leases), fleet, clockAt(0), withCopy(dir))
		h.next()
		require.NoError(t, os.Remove(filepath.Join(leases, "worker-0.json")))
		time.Sleep(3 * span) // it issues nothing for longer than a window
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

// A Store from before serves Acquire after the directory was begun anew.
func TestAcquireFromADirectoryThatWasBegunAnew(t *testing.T) {
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

// A lost record of a worker ID that a lease had before is not tried again and again.
func TestKeepPassesByARecordThatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := filepath.Join(t.TempDir(), "leases")
		h := mustAcquire(t, File(leases), fleet, clockAt(0), reuse(ReuseKeep))
		time.Sleep(span) // so that the versions do not meet by chance
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

// A lease that is being replaced when its directory is begun anew.
func TestReplacementFromADirectoryThatIsBegunAnew(t *testing.T) {
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

// As the docs of File say: nothing was issued for a window; then the directory is removed,
// and a second later the file beside it.
func TestLocalCopyStaysEndedWhileADirectoryIsRemoved(t *testing.T) {
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
