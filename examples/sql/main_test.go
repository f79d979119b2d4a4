package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// want is exact, because the program sets its clock. Of all items, only 2 and 3 were
// ordered on Tuesday, at midnight and at noon.
const want = `Tuesday is 55082955571200000 <= id < 55445343436800000
  55082955571204096  2026-06-02 00:00:00  item 2
  55264149504004096  2026-06-02 12:00:00  item 3, refunds 55082955571204096
`

func TestProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sql.exe") // Windows needs the ending
	build := exec.Command("go", "build", "-o", path, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	out, err := exec.Command(path).CombinedOutput()
	require.NoError(t, err, "%v, after it printed:\n%s", err, out)
	assert.Equal(t, want, string(out))
}
