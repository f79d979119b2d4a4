package snowflake

import (
	"math"
	"sync"
	"time"
)

// Clock tells a Generator the time. Now is called with the generator's lock held, so it must be
// quick, and must not call the generator.
type Clock interface{ Now() time.Time }

// ClockFunc is a function that serves as a Clock.
type ClockFunc func() time.Time

// Now calls f.
func (f ClockFunc) Now() time.Time { return f() }

const (
	// anchorEvery is SystemClock's interval between readings of the wall clock.
	anchorEvery = 50 * time.Millisecond

	// maxSlew is the largest backward correction that SystemClock absorbs by running slower,
	// instead of stepping back. A time daemon that slews the clock moves it by less within
	// anchorEvery: chrony at its fastest rate, 1/12, by 4.2 ms. A daemon that steps the clock moves
	// it by more: ntpd by at least 128 ms.
	maxSlew = 10 * time.Millisecond

	// maxLag bounds the lag of a timestamp behind a built-in clock's reading, if callers waited for
	// a tick and woke up late. On Linux, time.Sleep wakes about a millisecond late, which is a whole
	// tick of most layouts.
	maxLag = 5 * time.Millisecond
)

// SystemClock returns a clock that follows the wall clock at half the cost of time.Now. It reads
// the monotonic clock, and notices a step of the wall clock, or a sleep of the machine, at most 100
// ms late. If the wall clock was set back by no more than 10 ms, as by a time daemon that slews,
// SystemClock runs at three quarters of its speed until the wall clock has caught up. Goroutines
// and generators may share the value.
func SystemClock() Clock { return new(builtinClock) }

// MonotonicClock returns a clock that reads the wall clock once, when the Generator is made or its
// lease is acquired, and never steps. It suits machines whose wall clock is right at the start, and
// not trusted later.
//
// HAZARD: it notices no correction of the wall clock and, on most systems, no sleep of the machine.
// The package doc has the HAZARD of a restart.
func MonotonicClock() Clock { return &builtinClock{wall: wall{steady: true}} }

// builtinClock is what SystemClock and MonotonicClock return. A Generator does not call it, but
// reads a wall of its own under its own lock.
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

// wallOf returns the wall of a new generator: a copy of c's if a lease shares c, so that the two
// agree, and a wall without an anchor otherwise.
func (c *builtinClock) wallOf(leased bool) wall {
	c.mu.Lock()
	defer c.mu.Unlock()
	if leased {
		return c.wall
	}
	return wall{machine: c.wall.machine, steady: c.wall.steady}
}

// wall tells the time by the monotonic time that has passed since its anchor. The anchor is the
// last reading of both clocks together.
type wall struct {
	machine
	mono   time.Duration // the monotonic time of anchor, since started
	anchor time.Time     // zero before the first reading
	passed time.Duration // the time from anchor to the last reading
	ahead  int32         // nanoseconds of lead over the wall clock at anchor; a quarter of passed uses it up
	steady bool          // keep the first anchor
}

// now returns the reading, and takes a new anchor first if one is due.
func (w *wall) now() time.Time {
	if w.anchor.IsZero() {
		w.drop(w.clocks())
	} else if w.passed = w.elapsed() - w.mono; !w.steady && uint64(w.passed) >= uint64(anchorEvery) {
		w.reanchor(w.clocks())
	}
	return w.at(w.passed)
}

// at returns the reading at the given time after the anchor.
func (w *wall) at(passed time.Duration) time.Time {
	return w.anchor.Add(passed + max(0, time.Duration(w.ahead)-passed/4))
}

// reanchor replaces the anchor by a reading of both clocks.
func (w *wall) reanchor(now time.Time, mono time.Duration) {
	ahead := w.at(mono - w.mono).Round(0).Sub(now.Round(0))
	if ahead > maxSlew {
		ahead = 0 // a step
	}
	w.ahead = int32(max(0, ahead))
	w.drop(now, mono)
}

// drop makes a reading of both clocks the anchor.
func (w *wall) drop(now time.Time, mono time.Duration) {
	w.anchor, w.mono, w.passed = now, mono, 0
}

// trusted returns the time until the next anchor is due.
func (w *wall) trusted() time.Duration {
	if w.steady {
		return math.MaxInt64 - w.passed
	}
	return anchorEvery - w.passed
}
