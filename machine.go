package snowflake

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Only this file uses the computer's clocks, timers and random numbers. The simulator builds the
// package with another file in its place.

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

// monotonic reads the monotonic clock by which calls measure their waits.
func monotonic() time.Duration { return time.Since(started) }

// until returns the time from now to t.
func until(t time.Time) time.Duration { return time.Until(t) }

// Tests may replace these.
var (
	sleep    = time.Sleep
	newTimer = time.NewTimer
	randomN  = rand.Int64N // returns a random number from 0 to n-1
)

// lock locks a generator's mutex for its lease. The simulator replaces it: there, a call may read a
// slow clock with the mutex locked, and no time passes while a goroutine waits for a mutex.
func lock(mu *sync.Mutex) { mu.Lock() }
