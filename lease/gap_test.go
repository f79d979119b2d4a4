package lease

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
