//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package lease

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lock on a file that was removed keeps nobody out.
func TestLockOnARemovedFileIsNone(t *testing.T) {
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
