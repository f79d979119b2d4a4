package vmclock_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/vmclock"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock/vmclocktest"
)

func TestCounterFollowsTheDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vmclock0")
	vmclocktest.Write(t, path, 7)
	counter, err := vmclock.Open(path)
	require.NoError(t, err)
	assert.Equal(t, uint64(7), counter.Load())
	vmclocktest.Write(t, path, 1<<63)
	assert.Equal(t, uint64(1<<63), counter.Load())
}

func TestDeviceWithoutACounterIsRefused(t *testing.T) {
	for name, change := range map[string]func(page []byte) []byte{
		"does not begin with VCLK": func(p []byte) []byte { p[0]++; return p },
		"has version 2":            func(p []byte) []byte { p[8] = 2; return p },
		"does not set it":          func(p []byte) []byte { p[25] = 0; return p },
		"has 111 bytes, not 112":   func(p []byte) []byte { return p[:111] },
	} {
		path := filepath.Join(t.TempDir(), "vmclock0")
		require.NoError(t, os.WriteFile(path, change(vmclocktest.Page(1)), 0o644))
		_, err := vmclock.Open(path)
		assert.ErrorIs(t, err, vmclock.ErrNoCounter, name)
		assert.ErrorContains(t, err, name)
	}
	_, err := vmclock.Open(filepath.Join(t.TempDir(), "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
