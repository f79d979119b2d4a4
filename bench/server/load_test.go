//go:build unix

package serverbench

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLatencyCountsFromWhenACallShouldHaveBegun has a server that stops for 50 ms once. Calls that
// should have begun during the stop are late, too.
func TestLatencyCountsFromWhenACallShouldHaveBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		took, err := load(100, 200*time.Millisecond, []func(time.Duration){time.Sleep}, func() error {
			if n++; n == 6 {
				time.Sleep(45 * time.Millisecond)
			}
			time.Sleep(time.Millisecond)
			return nil
		})
		require.NoError(t, err)
		want := slices.Repeat([]time.Duration{time.Millisecond}, 20)
		copy(want[5:], []time.Duration{46 * time.Millisecond, 37 * time.Millisecond, 28 * time.Millisecond,
			19 * time.Millisecond, 10 * time.Millisecond})
		assert.Equal(t, want, took)
	})
}
