// Package depth selects the depth of the tests. The default run tests every promise, with few
// seeds, few processes and short windows. If the environment variable SNOWFLAKE_FULL is set and not
// "0", the full run adds many seeds, as many holders as a layout has worker IDs, hundreds of
// concurrent clients, and programs that are built for one test.
package depth

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

const variable = "SNOWFLAKE_FULL"

// Full reports whether this is the full run.
func Full() bool {
	value := os.Getenv(variable)
	return value != "" && value != "0"
}

// Of returns full in the full run, and quick in the default run.
func Of[T any](quick, full T) T {
	if Full() {
		return full
	}
	return quick
}

// Parallel calls t.Parallel, except in the full run. It is for tests that are too large there to
// run in parallel with others.
func Parallel(t *testing.T) {
	t.Helper()
	if !Full() {
		t.Parallel()
	}
}

// AtOnce sets the number of parallel tests, except in the full run, for tests that mainly wait. The
// flag -parallel overrides it. Call it in TestMain.
func AtOnce(n int) {
	if !Full() {
		_ = flag.Set("test.parallel", strconv.Itoa(n))
	}
}

// NeedFull skips the test, with the reason, except in the full run.
func NeedFull(t testing.TB, reason string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s; set %s=1 to run it", reason, variable)
	}
}
