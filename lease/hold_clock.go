package lease

import (
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// horizon is what a lease knows about the clock, to keep a clock that leaps forward from
// burning the future.
type horizon struct {
	ownClock bool // the store has its own clock, which decides

	bound time.Time // the highest bound that was saved,
	saved time.Time // and when its save began

	read time.Time // the last reading of the clock,
	at   time.Time // and its monotonic time

	right time.Time // after a leap: what the clock would have read without it

	leapt  time.Time // the clock has leapt, and has run steadily since then; zero if it has not
	behind time.Time // after a step back: the reading before it, until the clock has caught up
}

func (h *horizon) reached(bound, begun time.Time) {
	if bound.After(h.bound) {
		h.bound, h.saved = bound, begun
	}
}

// observe takes a reading of the clock. If the clock has not advanced by as much as the monotonic
// time since the last reading, the time that a leap has lasted begins anew. If the clock reads less
// than it would without the leap, it has stepped back.
func (h *horizon) observe(now, at time.Time) {
	passed := at.Sub(h.at)
	if step := now.Sub(h.read.Add(passed)); step.Abs() <= slack(passed) {
		h.right = h.right.Add(now.Sub(h.read))
	} else {
		h.right = h.right.Add(passed)
		if !h.leapt.IsZero() {
			h.leapt = at
		}
	}
	if !h.at.IsZero() && h.behind.IsZero() && h.right.Sub(now) > slack(passed) {
		h.behind = h.right
	}
	if !now.Before(h.behind) {
		h.behind = time.Time{}
	}
	h.read, h.at = now, at
}

// mends says what ends the refusals of leap.
func (h *horizon) mends(maxLeap time.Duration) string {
	if h.ownClock {
		return "IDs are issued again when this clock agrees with the store's, or after AcceptLeap"
	}
	left := maxLeap
	if !h.leapt.IsZero() {
		left = max(0, left-machine.Since(h.leapt))
	}
	return fmt.Sprintf("the leap is accepted in %v if the clock runs steadily, or by AcceptLeap", left.Round(time.Second))
}

// slack is how far a steady clock may differ from the monotonic clock after some time: by
// slew and, because a clock may be slewed, by an eighth of the time.
func slack(passed time.Duration) time.Duration { return passed/8 + slew }

const slew = 50 * time.Millisecond

// leap refuses a bound, one window ahead of the clock at begun, that is too far ahead of the
// engine's time then. If this time is zero, because the store shares our clock, leap compares with
// the monotonic time since the highest bound was saved. At the first acquisition there is nothing
// to compare with. If accepted is set, nothing is too far.
func (h *horizon) leap(r rules, worker int, bound, engine, begun time.Time, accepted bool) error {
	expected := h.bound.Add(begun.Sub(h.saved))
	if !engine.IsZero() {
		expected = engine.Add(r.window)
	}
	first := engine.IsZero() && h.bound.IsZero()
	if first || bound.Sub(expected) <= r.maxLeap {
		h.right, h.leapt = h.read, time.Time{} // the last reading is right
		return nil
	}
	if h.leapt.IsZero() {
		h.leapt = begun
	}
	if !h.ownClock && begun.Sub(h.leapt) >= r.maxLeap || accepted {
		return nil
	}
	return &ClockLeapError{Worker: worker, Bound: bound, Expected: expected, MaxLeap: r.maxLeap}
}
