package tenure

import (
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// Horizon is a lease's knowledge of the clock. It keeps a clock that leaps forward from burning the
// future.
type Horizon struct {
	EngineClock bool // the store has its own clock, which decides

	bound time.Time // the highest bound that was saved,
	saved time.Time // and when its save began

	Read time.Time // the last reading of the clock,
	at   time.Time // and its monotonic time

	right time.Time // after a leap: the clock's reading without it

	leapt  time.Time // the clock has leapt, and has run steadily since then; zero if it has not
	Behind time.Time // after a step back: the reading before it, until the clock has caught up
}

func (h *Horizon) Reached(bound, begun time.Time) {
	if bound.After(h.bound) {
		h.bound, h.saved = bound, begun
	}
}

// Observe takes a reading of the clock. If the clock has not advanced by as much as the monotonic
// time since the last reading, the time that a leap has lasted starts again. If the clock reads
// less than it would without the leap, it has stepped back.
func (h *Horizon) Observe(now, at time.Time) {
	passed := at.Sub(h.at)
	if step := now.Sub(h.Read.Add(passed)); step.Abs() <= slack(passed) {
		h.right = h.right.Add(now.Sub(h.Read))
	} else {
		h.right = h.right.Add(passed)
		if !h.leapt.IsZero() {
			h.leapt = at
		}
	}
	if !h.at.IsZero() && h.Behind.IsZero() && h.right.Sub(now) > slack(passed) {
		h.Behind = h.right
	}
	if !now.Before(h.Behind) {
		h.Behind = time.Time{}
	}
	h.Read, h.at = now, at
}

// Mends says what ends the refusals of Leap.
func (h *Horizon) Mends(maxLeap time.Duration) string {
	if h.EngineClock {
		return "IDs are issued again when this clock agrees with the store's, or after AcceptLeap"
	}
	left := maxLeap
	if !h.leapt.IsZero() {
		left = max(0, left-machine.Since(h.leapt))
	}
	return fmt.Sprintf("the leap is accepted in %v if the clock runs steadily, or by AcceptLeap", left.Round(time.Second))
}

// slack is the largest difference of a steady clock from the monotonic clock after some time: slew
// and, because a clock may be slewed, an eighth of the time.
func slack(passed time.Duration) time.Duration { return passed/8 + slew }

const slew = 50 * time.Millisecond

// Leap refuses a bound, one window ahead of the clock at begun, that is too far ahead of the
// engine's time then. If this time is zero, because the store shares our clock, Leap compares with
// the monotonic time since the highest bound was saved. At the first acquisition there is nothing
// to compare with. If accepted is set, nothing is too far.
func (h *Horizon) Leap(r Rules, worker int, bound, engine, begun time.Time, accepted bool) error {
	expected := h.bound.Add(begun.Sub(h.saved))
	if !engine.IsZero() {
		expected = engine.Add(r.WindowLength)
	}
	first := engine.IsZero() && h.bound.IsZero()
	if first || bound.Sub(expected) <= r.MaxLeap {
		h.right, h.leapt = h.Read, time.Time{} // the last reading is right
		return nil
	}
	if h.leapt.IsZero() {
		h.leapt = begun
	}
	if !h.EngineClock && begun.Sub(h.leapt) >= r.MaxLeap || accepted {
		return nil
	}
	return &LeapError{Worker: worker, Bound: bound, Expected: expected, MaxLeap: r.MaxLeap}
}

// LeapError is lease.ClockLeapError.
type LeapError struct {
	Worker   int
	Bound    time.Time
	Expected time.Time
	MaxLeap  time.Duration
}

func (e *LeapError) Error() string { return "lease: the clock leapt forward" }
