package lease

import "time"

// horizon is what a lease knows of the clock, so that one that leaps forward does not
// burn the future. It is guarded by Lease.op.
type horizon struct {
	ownClock bool // the store's clock is another than ours, and decides

	bound time.Time // the highest bound that was saved,
	saved time.Time // and when that save was begun

	read time.Time // what the clock read last,
	at   time.Time // and when

	right time.Time // what it would have read then without the leap, if it has leapt

	leapt  time.Time // since when it is known that the clock has leapt and runs steadily; zero if it has not leapt
	behind time.Time // what the clock had read before it stepped back, until it reads that again; zero if it did not
}

// reached notes a bound that was saved.
func (h *horizon) reached(bound, begun time.Time) {
	if bound.After(h.bound) {
		h.bound, h.saved = bound, begun
	}
}

// observe takes a reading of the clock. If since the last one the clock did not pass
// by as much as the monotonic time did, a leap has not lasted yet. If the clock reads less
// than it would without a leap, it has stepped back.
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

// trust notes that the last reading is no leap.
func (h *horizon) trust() { h.right, h.leapt = h.read, time.Time{} }

// slack is how far a clock that runs steadily may be from the monotonic one after some
// time: slew and, because a clock is slewed by as much, an eighth of the time.
func slack(passed time.Duration) time.Duration { return passed/8 + slew }

const slew = 50 * time.Millisecond

// judge reports whether a leap that is to be refused at this time, of the monotonic
// clock, has lasted for max. It has not if the store's clock decides.
func (h *horizon) judge(at time.Time, max time.Duration) (accepted bool) {
	if h.leapt.IsZero() {
		h.leapt = at
	}
	return !h.ownClock && at.Sub(h.leapt) >= max
}

// leap refuses a bound that is further ahead than the store's clock lets expect,
// or, if the store has none of its own, the monotonic time that has passed
// since the highest bound was saved. The caller holds op.
func (l *Lease) leap(bound, begun time.Time) error {
	r := l.record.Load()
	expected := l.horizon.bound.Add(begun.Sub(l.horizon.saved))
	if l.horizon.ownClock {
		expected = r.Renewed.Add(begun.Sub(l.saved) + l.o.Window)
	}
	return l.refuse(r.Worker, bound, expected, begun)
}

// checkClock refuses to take a worker ID with a clock that has leapt: by the store's
// clock or, when a lost one is replaced, by the monotonic time that has passed since
// then. At the first acquisition there is nothing to compare with otherwise.
func (l *Lease) checkClock(snap Snapshot, worker int, now, begun time.Time) error {
	l.horizon.observe(now, begun)
	expected := l.horizon.bound.Add(begun.Sub(l.horizon.saved))
	switch {
	case snap.OwnClock:
		expected = snap.Now.Add(l.o.Window)
	case l.horizon.bound.IsZero():
		l.horizon.trust()
		return nil
	}
	return l.refuse(worker, now.Add(l.o.Window), expected, begun)
}

// refuse refuses a bound that is further ahead than expected, unless the leap of the
// clock is accepted.
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
