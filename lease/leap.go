package lease

import "time"

// horizon is what a lease knows about the clock, to keep a clock that leaps forward from
// burning the future. Lease.op guards it.
type horizon struct {
	ownClock bool // the store has its own clock, which decides

	bound time.Time // the highest bound that was saved,
	saved time.Time // and when its save began

	read time.Time // the last reading of the clock,
	at   time.Time // and its monotonic time

	right time.Time // after a leap: what the clock would have read without it

	leapt  time.Time // the clock has leapt and runs steadily since then; zero if it has not leapt
	behind time.Time // after a step back: the reading before it, until the clock reads it again; else zero
}

func (h *horizon) reached(bound, begun time.Time) {
	if bound.After(h.bound) {
		h.bound, h.saved = bound, begun
	}
}

// observe takes a reading of the clock. If the clock did not pass by as much as the
// monotonic time since the last reading, the time that a leap has lasted begins anew. If
// the clock reads less than it would without the leap, it has stepped back.
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

// trust takes the last reading as right, so that there is no leap.
func (h *horizon) trust() { h.right, h.leapt = h.read, time.Time{} }

// slack is how far a steady clock may differ from the monotonic clock after some time: by
// slew and, because a clock may be slewed, by an eighth of the time.
func slack(passed time.Duration) time.Duration { return passed/8 + slew }

const slew = 50 * time.Millisecond

// judge reports whether the leap has lasted for max, at the monotonic time at. If the
// store's clock decides, it returns false.
func (h *horizon) judge(at time.Time, max time.Duration) (accepted bool) {
	if h.leapt.IsZero() {
		h.leapt = at
	}
	return !h.ownClock && at.Sub(h.leapt) >= max
}

// leap refuses a bound that is too far ahead of the store's clock or, if the store shares
// our clock, of the monotonic time since the highest bound was saved. op must be held.
func (l *Lease) leap(bound, begun time.Time) error {
	r := l.record.Load()
	expected := l.horizon.bound.Add(begun.Sub(l.horizon.saved))
	if l.horizon.ownClock && !r.Renewed.IsZero() {
		expected = r.Renewed.Add(begun.Sub(l.saved) + l.o.Window)
	}
	return l.refuse(r.Worker, bound, expected, begun)
}

// checkClock refuses to take a worker ID with a clock that has leapt. It compares with the
// store's clock or, if a lost worker ID is being replaced, with the monotonic time since
// the loss. Without either, at the first acquisition, there is nothing to compare with.
func (l *Lease) checkClock(engine time.Time, worker int, now, begun time.Time) error {
	l.horizon.observe(now, begun)
	expected := l.horizon.bound.Add(begun.Sub(l.horizon.saved))
	switch {
	case !engine.IsZero():
		expected = engine.Add(l.o.Window)
	case l.horizon.bound.IsZero():
		l.horizon.trust()
		return nil
	}
	return l.refuse(worker, now.Add(l.o.Window), expected, begun)
}

// refuse refuses a bound that is further ahead of expected than MaxLeap, unless the leap of
// the clock is accepted.
func (l *Lease) refuse(worker int, bound, expected, begun time.Time) error {
	if bound.Sub(expected) <= l.o.MaxLeap {
		l.horizon.trust()
		return nil
	}
	if l.horizon.judge(begun, l.o.MaxLeap) || l.accepted.Load() {
		return nil
	}
	return &ClockLeapError{Worker: worker, Bound: bound, Expected: expected, MaxLeap: l.o.MaxLeap}
}
