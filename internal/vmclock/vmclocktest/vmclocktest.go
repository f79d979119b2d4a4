// Package vmclocktest makes files that stand in for the device of package vmclock.
package vmclocktest

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Page returns the content of a device whose machine has the given generation.
func Page(generation uint64) []byte {
	page := make([]byte, 4096)
	copy(page, "VCLK")
	binary.LittleEndian.PutUint16(page[8:], 1)
	binary.LittleEndian.PutUint64(page[24:], 1<<8)
	binary.LittleEndian.PutUint64(page[104:], generation)
	return page
}

// Write makes the file, or changes it in place, as the hypervisor does after a snapshot was
// loaded.
func Write(t testing.TB, path string, generation uint64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.WriteAt(Page(generation), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
