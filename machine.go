package snowflake

import (
	"math/rand/v2"
	"time"
)

// This file is all that the package knows of the computer's clocks, timers and dice.
// The simulator builds the package with another file in its place.

// started is a fixed instant of the monotonic clock.
var started = time.Now()

// machine reads the clocks of the computer.
type machine struct{}

// clocks reads both clocks together: the wall clock, and the time since started.
func (machine) clocks() (now time.Time, mono time.Duration) {
	now = time.Now()
	return now, now.Sub(started)
}

// elapsed reads the monotonic clock: the time since started.
func (machine) elapsed() time.Duration { return time.Since(started) }

// early is elapsed for a caller that does not have the generator's lock yet.
func (machine) early() time.Duration { return time.Since(started) }

// newTimer returns a timer that fires after d.
func newTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

// randomN returns a random number from 0 to n-1.
func randomN(n int64) int64 { return rand.Int64N(n) }
