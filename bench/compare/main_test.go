//go:build unix

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestThisLibraryUnderFaults runs the two quickest faults, and holds docs/compare.md to
// what it says of this library.
func TestThisLibraryUnderFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the standard library anew")
	}
	for fault, want := range map[string]string{
		"in a process": "2000 IDs, 0 duplicates, 2000 refused (snowflake: clock went backward",
		"run out":      "2095-09-07: refused (snowflake: layout has run out of time",
	} {
		out, err := exec.Command("go", "run", ".", fault).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		found := 0
		for line := range strings.Lines(string(out)) {
			if name, said, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && strings.HasPrefix(name, "this library") {
				if found++; !strings.HasPrefix(strings.TrimSpace(said), want) {
					t.Errorf("%s: %s", fault, line)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: nothing of this library in\n%s", fault, out)
		}
	}
}
