// Package depth says how deep the tests go. The default run touches every promise: few
// seeds, small crowds, short windows. If the variable SNOWFLAKE_FULL is set and is not "0",
// the full run adds what only numbers can find: many seeds, as many holders as a layout has
// worker IDs, hundreds of clients at once, and programs that are built for one test.
package depth

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

const variable = "SNOWFLAKE_FULL"

// Full reports whether the tests are to run in full.
func Full() bool {
	value := os.Getenv(variable)
	return value != "" && value != "0"
}

// Of returns full if the tests are to run in full, and quick if not.
func Of[T any](quick, full T) T {
	if Full() {
		return full
	}
	return quick
}

// Parallel is t.Parallel if the tests are not to run in full. It is for a test with a crowd in the
// full run, beside which no other test keeps its time.
func Parallel(t *testing.T) {
	t.Helper()
	if !Full() {
		t.Parallel()
	}
}

// AtOnce lets n tests run at once if they are not to run in full: most wait more than they work.
// The flag -parallel overrides it. It is for TestMain.
func AtOnce(n int) {
	if !Full() {
		_ = flag.Set("test.parallel", strconv.Itoa(n))
	}
}

// NeedFull skips the test, with the reason, if the tests are not to run in full.
func NeedFull(t testing.TB, reason string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s; set %s=1 to run it", reason, variable)
	}
}
