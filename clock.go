package snowflake

import (
	"math"
	"sync"
	"time"
)

// Clock tells a Generator the time. Now is called with the generator's lock
// held, so it should be quick; it must not call the generator.
//
// A Clock may be wrong in any way, step back or stand still: the generator
// turns that into waiting or into an error, never into a duplicate. The clocks
// of github.com/jonboulle/clockwork are Clocks.
type Clock interface{ Now() time.Time }

// ClockFunc makes a Clock of a function.
type ClockFunc func() time.Time

// Now calls f.
func (f ClockFunc) Now() time.Time { return f() }

const (
	// anchorEvery is how long SystemClock trusts the monotonic clock before it
	// looks at the wall clock again.
	anchorEvery = 50 * time.Millisecond

	// maxSlew is the largest correction backward that SystemClock absorbs by
	// running slower, instead of stepping back. Within anchorEvery a clock that
	// is slewed moves by much less, chrony's fastest included (1/12: 4.2 ms),
	// and the time daemons that step do so by more (ntpd from 128 ms).
	maxSlew = 10 * time.Millisecond

	// maxLag is how far behind a built-in clock the timestamps may be of
	// callers that waited for a tick and woke up late. The Linux timers behind
	// time.Sleep are about a millisecond late, which is a whole tick.
	maxLag = 5 * time.Millisecond
)

// SystemClock returns a clock that follows the wall clock at half of the cost of
// time.Now. It reads the monotonic clock, and compares it with the wall clock
// when it is read and more than 50 ms have passed since the last time. So it
// sees a step of the wall clock in either direction, and the time that a
// machine slept, at most 100 ms late.
//
// Where the wall clock was set back by no more than 10 ms, as time daemons do
// when they slew, SystemClock does not step back: it runs at three quarters of
// its speed until the wall clock has caught up with it.
//
// The value may be shared by goroutines and by generators. Each Generator
// compares the clocks by itself, beginning when it is made, so that generators
// made in a [testing/synctest] bubble follow the bubble's time.
func SystemClock() Clock { return new(builtinClock) }

// MonotonicClock returns a clock that is set by the wall clock once, when it is
// first read (by a Generator: when that is made, or when its lease was acquired),
// and by the monotonic clock ever after. It never steps.
//
// HAZARD: it does not learn that the wall clock was corrected, nor, on most
// systems, that the machine slept. Timestamps are wrong by as much from then
// on, until the process is restarted; and where the wall clock was set back
// meanwhile, the restarted process can repeat the IDs of the one before it,
// unless Options.After or a lease prevents that. It is for machines whose wall
// clock is known to be right at start and not to be trusted later.
func MonotonicClock() Clock { return &builtinClock{wall: wall{steady: true}} }

// builtinClock is what SystemClock and MonotonicClock return. A Generator that
// is given one reads a wall of its own under its own lock.
type builtinClock struct {
	mu   sync.Mutex
	wall wall
}

// Now returns the clock's reading.
func (c *builtinClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall.now().Round(0)
}

// begin returns the wall that a generator begins with: that of its lease, so that
// the two agree, or one of its own.
func (c *builtinClock) begin(leased bool) wall {
	c.mu.Lock()
	defer c.mu.Unlock()
	if leased {
		return c.wall
	}
	return wall{steady: c.wall.steady}
}

// started is a fixed instant of the monotonic clock.
var started = time.Now()

// wall reads time as the monotonic time that has passed since its anchor, when
// both clocks were read together.
type wall struct {
	mono   time.Duration // from started to anchor
	anchor time.Time     // zero before the first reading
	passed time.Duration // from anchor to the last reading
	ahead  int32         // by how many nanoseconds readings were ahead of the wall clock at anchor; absorbed at a quarter of the time passed
	steady bool          // anchor once and for all
}

// now returns the reading, and takes a new anchor first if one is due.
func (w *wall) now() time.Time {
	if w.anchor.IsZero() {
		w.drop(time.Now())
	} else if w.passed = time.Since(w.anchor); !w.steady && uint64(w.passed) >= uint64(anchorEvery) {
		now := time.Now()
		w.reanchor(now, now.Sub(w.anchor))
	}
	return w.at(w.passed)
}

// at returns the reading when passed has passed since the anchor.
func (w *wall) at(passed time.Duration) time.Time {
	return w.anchor.Add(passed + max(0, time.Duration(w.ahead)-passed/4))
}

// reanchor makes now, a reading of both clocks when passed had passed since the
// last one, the anchor.
func (w *wall) reanchor(now time.Time, passed time.Duration) {
	ahead := w.at(passed).Round(0).Sub(now.Round(0))
	if ahead > maxSlew {
		ahead = 0 // a step
	}
	w.ahead = int32(max(0, ahead))
	w.drop(now)
}

// drop makes now, a reading of both clocks, the anchor.
func (w *wall) drop(now time.Time) {
	w.anchor, w.mono, w.passed = now, now.Sub(started), 0
}

// trusted returns for how long from now on the readings come without a look at
// the wall clock.
func (w *wall) trusted() time.Duration {
	if w.steady {
		return math.MaxInt64 - w.passed
	}
	return anchorEvery - w.passed
}
