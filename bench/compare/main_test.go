//go:build unix

package main

import (
	"math/rand"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

// TestULIDSeedsAreAsFewAsThePageSays checks the statement of docs/compare.md about ulid.Make, whose
// entropy has such a source.
func TestULIDSeedsAreAsFewAsThePageSays(t *testing.T) {
	seed := time.Now().UnixNano()
	a := ulid.Monotonic(rand.New(rand.NewSource(seed)), 0)
	b := ulid.Monotonic(rand.New(rand.NewSource(seed+1<<31-1)), 0)
	for ms := range uint64(3) {
		if x, y := ulid.MustNew(ms, a), ulid.MustNew(ms, b); x != y {
			t.Errorf("%v and %v", x, y)
		}
	}
}

// TestThisLibraryRepeatsNoIDUnderFaults runs the three quickest faults, and checks the statements
// of docs/compare.md about this library.
func TestThisLibraryRepeatsNoIDUnderFaults(t *testing.T) {
	depth.NeedFull(t, "it rebuilds the standard library")
	for fault, want := range map[string]string{
		"in a process":  "2000 IDs, 0 duplicates, 2000 refused (snowflake: clock went backward",
		"for each call": "100000 IDs, 0 duplicates",
		"run out":       "2095-09-07: refused (snowflake: layout has run out of time",
	} {
		out, err := exec.Command("go", "run", ".", fault).CombinedOutput()
		require.NoError(t, err, "%v\n%s", err, out)
		found := 0
		for line := range strings.Lines(string(out)) {
			if name, said, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && strings.HasPrefix(name, "this library") {
				if found++; !strings.HasPrefix(strings.TrimSpace(said), want) {
					t.Errorf("%s: %s", fault, line)
				}
			}
		}
		assert.NotZero(t, found, "%s: nothing of this library in\n%s", fault, out)
	}
}
