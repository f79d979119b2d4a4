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

// wall reads time as the monotonic time that has passed since its anchor, where
// both clocks were read together.
type wall struct {
	anchor time.Time     // zero before the first reading
	passed time.Duration // from anchor to the last reading
	ahead  time.Duration // how far readings were ahead of the wall clock at anchor; absorbed at a quarter of the time passed
	steady bool          // anchor once and for all
}

// now returns the reading, and takes a new anchor first where one is due.
func (w *wall) now() time.Time {
	if w.anchor.IsZero() {
		w.anchor = time.Now()
	} else if w.passed = time.Since(w.anchor); !w.steady && uint64(w.passed) >= uint64(anchorEvery) {
		now := time.Now()
		w.reanchor(now, now.Sub(w.anchor))
	}
	return w.at(w.passed)
}

// at returns the reading when passed has passed since the anchor.
func (w *wall) at(passed time.Duration) time.Time {
	return w.anchor.Add(passed + max(0, w.ahead-passed/4))
}

// reanchor makes now, a reading of both clocks when passed had passed since the
// last one, the anchor.
func (w *wall) reanchor(now time.Time, passed time.Duration) {
	ahead := w.at(passed).Round(0).Sub(now.Round(0))
	if ahead > maxSlew {
		ahead = 0 // a step
	}
	w.anchor, w.passed, w.ahead = now, 0, max(0, ahead)
}

// trusted returns for how long from now on the readings come without a look at
// the wall clock.
func (w *wall) trusted() time.Duration {
	if w.steady {
		return math.MaxInt64 - w.passed
	}
	return anchorEvery - w.passed
}

// Backward is what a BackwardPolicy is told.
type Backward struct {
	// Last is what the clock has to reach again before IDs can go on in order:
	// the start of the last ID's tick, less Options.BorrowAhead. Where the
	// clock stood still while a call waited, or the ticks behind one that was
	// gone back to are spent, it is the start of the next that is not.
	Last time.Time
	// Now is the clock's reading. It is before Last.
	Now time.Time
	// CanBump is whether ActionBump is possible: the layout has a clock
	// sequence whose own last tick is behind Now, and a lease, where there is
	// one, can record the change.
	CanBump bool
	// CanRewind is whether ActionRewind is possible: the tick at Now is one of
	// the Options.RewindTicks ticks that are remembered, and it, the next one
	// or another within 50 ms has IDs left.
	CanRewind bool
}

// By returns how far the clock is behind Last. Because that is the start of a
// tick, it is less than the step back itself by up to a tick (and by what of
// BorrowAhead was not in use).
func (b Backward) By() time.Duration { return b.Last.Sub(b.Now) }

// Action is a BackwardPolicy's choice.
type Action uint8

const (
	// ActionFail gives the caller a [*ClockBackwardError] at once.
	ActionFail Action = iota
	// ActionWait makes the caller sleep, outside of the lock, for Backward.By
	// (and to the next tick where the last one is spent). When the clock has
	// not caught up by then, because it runs slowly, stands still or went back
	// again, the policy is asked again. All that a call waits so is at most
	// twice the first of these sleeps, or 50 ms, whichever is more; a wait that
	// would be longer fails.
	ActionWait
	// ActionBump goes on at once under another clock sequence.
	ActionBump
	// ActionRewind goes on at once in the tick that the clock reads, behind the
	// sequence that was used there.
	ActionRewind
)

// BackwardPolicy chooses what to do when the clock reads earlier than the last
// ID. It chooses among safe outcomes and cannot cause a duplicate: an Action
// that is not possible (CanBump, CanRewind), or is none of the constants, is
// ActionFail.
//
// It is called without the generator's lock, by each call that finds the clock
// behind, and by several at a time.
type BackwardPolicy func(Backward) Action

// FailPolicy returns the policy that always fails, at once when the clock went
// back; a clock that stands still shows only after a wait for the next tick, of
// 50 ms or, where that is longer, a tick. IDs keep their order. It is what Twitter's snowflake and Baidu's default generator do.
func FailPolicy() BackwardPolicy {
	return func(Backward) Action { return ActionFail }
}

// WaitPolicy returns the policy that waits for a clock that is at most max
// behind, and fails at once when it is further behind. IDs keep their order. A
// call waits no longer than the clock was behind, as long as the clock runs; see
// [ActionWait] for the bound when it does not.
// Meituan's Leaf does so, with a max of 5 ms.
func WaitPolicy(max time.Duration) BackwardPolicy {
	return func(b Backward) Action {
		if b.By() <= max {
			return ActionWait
		}
		return ActionFail
	}
}

// ClockSeqPolicy returns the policy that goes on at once under a clock sequence
// whose own last tick is behind the clock, and fails when there is none. It
// needs a layout with ClockSeqBits; [ClockSeqLayout] has three.
//
// Every clock sequence keeps the last tick that was stamped under it, and is
// used again only when the clock is past that. So n bits survive 2^n-1 steps
// back that each reach behind all others, any number of those that do not, and
// never repeat an ID.
//
// IDs stamped after a step back are smaller than those before it: order is lost
// at that point, by as much as the clock was set back. The clock sequence is
// the idea of RFC 9562 (UUIDv1) and of the 41/3/7/12 layouts. Without
// ClockSeqBits, and under a lease that is no [ClockSeqLease], this is FailPolicy.
//
// HAZARD: a generator remembers only what it stamped itself. One that is set
// back to before its own start may use a clock sequence that an earlier process
// with the same worker ID used there: set Options.After, or use NewLeased.
func ClockSeqPolicy() BackwardPolicy {
	return func(b Backward) Action {
		if b.CanBump {
			return ActionBump
		}
		return ActionFail
	}
}

// RewindPolicy returns the policy that goes back to the tick that the clock
// reads, and on from the last sequence used there. It fails for ticks that are
// not remembered: set Options.RewindTicks to how many ticks back it may go.
// Where the sequence was spent there, it waits for the next tick that has IDs
// left, for up to 50 ms or a tick, and fails where that is further.
// Without that, this is FailPolicy.
//
// IDs stamped after a step back are smaller than those before it: order is lost
// at that point, by at most RewindTicks.
//
// HAZARD: a generator remembers only what it stamped itself. One that goes back
// to before its own start may meet the IDs of an earlier process that had the
// same worker ID: set Options.After, or use NewLeased, which both close the
// time before.
func RewindPolicy() BackwardPolicy {
	return func(b Backward) Action {
		if b.CanRewind {
			return ActionRewind
		}
		return ActionFail
	}
}
