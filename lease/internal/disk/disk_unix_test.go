//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If the lock's file was removed, another process can lock a new file of that name. So the lock
// does not count.
func TestLockOnARemovedFileDoesNotCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	assert.True(t, isAt(f, path))
	require.NoError(t, os.Remove(path))
	assert.False(t, isAt(f, path))
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	assert.False(t, isAt(f, path))
}
