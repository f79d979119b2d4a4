package snowflake

import (
	"math"
	"time"
)

// maxStall is how long a call waits for a clock that runs at less than half of its speed, or stands
// still. It is longer than the steps of any coarse clock (up to 16 ms on Windows).
const maxStall = 50 * time.Millisecond

// minRetry is the shortest wait for a clock that did not move during the last wait. If it does not
// move again, the next wait is twice as long, up to maxRetry.
const (
	minRetry = 100 * time.Microsecond
	maxRetry = time.Millisecond
)

// view is what a call finds, with the lock held.
type view struct {
	// place is where the call's IDs come from or, if it has no IDs, where the next IDs come from.
	// left is 0 if the layout's time has run out.
	place
	now     instant // the clock's reading
	limit   int64   // the last tick that may be stamped now
	reached int64   // the tick that the clock must have reached
	near    int64   // the last tick that IDs in order may come from, if the clock has not gone back
	held    bool    // the call has IDs, and waits for their tick
	over    bool    // the lease does not grant tick
	slow    bool    // the clock has run at less than half of its speed while the call waited
}

// step is what a call does next.
type step uint8

const (
	stepIssue   step = iota // return IDs
	stepWait                // take IDs, if it has none, and wait for their tick
	stepAsk                 // ask the policy about the clock
	stepExtend              // ask the lease for more than it grants
	stepExhaust             // fail, because the layout's time has run out
)

// decide returns the next step. agreed is what the policy agreed to, or ActionFail if it was not
// asked.
func (v *view) decide(agreed Action) step {
	switch {
	case v.held && v.tick <= v.limit:
		return stepIssue
	case v.behind() && agreed != ActionWait:
		return stepAsk
	case v.held:
		return stepWait
	case v.left == 0:
		return stepExhaust
	case v.over:
		return stepExtend
	case v.tick <= v.limit && v.reached <= v.limit:
		return stepIssue
	}
	return stepWait
}

// behind reports whether the clock has gone back, or does not reach the tick in time. After a
// rewind, the next ticks may be spent: if there are many, the clock counts as having gone back.
func (v *view) behind() bool {
	return v.reached > v.limit || v.tick > v.limit && v.slow || !v.held && v.tick > v.near
}

// watch tells how the clock has run since a call began to wait.
type watch struct {
	began  bool // the call has begun to wait
	asleep bool // it waits
	cut    bool // the wait ends early, so that the call looks at the clock
	// slow: the call has waited for maxStall or longer, and the clock has run at less than half of
	// its speed since the wait began.
	slow    bool
	still   bool          // slow, and the clock has not gone back
	since   time.Duration // when the call began to wait, in monotonic time
	from    instant       // the clock's reading then
	slept   time.Duration // when the last wait began
	reading instant       // the clock's reading then
	retry   time.Duration // the next wait must be at least as long
}

// begin notes that a call waits from mono on. now is the clock's reading. cut: see the field.
func (w *watch) begin(now instant, mono time.Duration, cut bool) {
	if !w.began {
		w.began, w.since, w.from = true, mono, now
	}
	w.asleep, w.reading, w.slept, w.cut = true, now, mono, cut
}

// checkIn returns how long a call may sleep before it looks at the clock again. It looks when it
// has waited for maxStall, and each time that its wait has doubled.
func (w *watch) checkIn(mono time.Duration) time.Duration {
	waited := time.Duration(0)
	if w.began {
		waited = mono - w.since
	}
	if waited < maxStall {
		return max(maxStall-waited, maxRetry)
	}
	return waited
}

// end notes that a wait has ended, when the clock reads now. It returns how long the wait was.
func (w *watch) end(l Layout, now instant, mono time.Duration) time.Duration {
	if now == w.reading {
		w.retry = min(max(minRetry, 2*w.retry), maxRetry)
	} else {
		w.retry = 0
	}
	waited, passed := mono-w.since, l.time(now).Sub(l.time(w.from))
	w.asleep = false
	w.slow = waited >= maxStall && passed < waited/2
	w.still = w.slow && passed >= 0
	return mono - w.slept
}

// patience bounds the waits for the clock that the policy agreed to.
type patience struct {
	since time.Duration // when the first of them began, in monotonic time
	first time.Duration // how long it was to last; 0 if there was none
}

// allows reports whether a wait may begin: in all, a call waits for such a clock for at most twice
// the first wait, or maxStall if that is more.
func (p *patience) allows(wait, mono time.Duration) bool {
	if p.first == 0 {
		p.since, p.first = mono, max(wait, 1)
	}
	total := mono - p.since + wait
	return total <= maxStall || total/2 <= p.first
}

// consent is what the policy agreed to.
type consent struct {
	action Action
	by     time.Duration // the consent holds if Backward.By is at most this
}

// maxAsks is how often a policy is asked before a call waits or fails. Once is enough unless the
// clock goes back further between the questions.
const maxAsks = 3

// nearby returns the last tick that a call waits for if the clock is at tick. It is maxStall later
// or, if that is less than a tick, one tick later.
func (l Layout) nearby(tick int64) int64 {
	return tick + min(max(1, int64(maxStall/l.Unit)), math.MaxInt64-tick)
}
