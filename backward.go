package snowflake

import "time"

// Backward is what a BackwardPolicy is told.
type Backward struct {
	// Last is what the clock has to reach again before IDs can go on in order:
	// the start of the last ID's tick, less Options.BorrowAhead. If the clock
	// stood still while a call waited, or if the ticks after a rewind are spent,
	// Last is the start of the next tick that has IDs left.
	Last time.Time
	// Now is the clock's reading. It is before Last.
	Now time.Time
	// Stalled is whether the clock stands still, or runs at less than half of its
	// speed, so that it will not reach Last in time. It may never have gone back.
	Stalled bool
	// CanBump is whether ActionBump is possible: the layout has a clock
	// sequence whose own last tick is before Now, and the lease, if there is
	// one, can record the change.
	CanBump bool
	// CanRewind is whether ActionRewind is possible: the tick at Now is one of
	// the Options.RewindTicks ticks that are remembered, and that tick, the next
	// one or another within 50 ms has IDs left.
	CanRewind bool
}

// By returns how far the clock is behind Last. Last is the start of a tick, so By
// is less than the step back itself by up to a tick, and by the part of
// BorrowAhead that was not in use.
func (b Backward) By() time.Duration { return b.Last.Sub(b.Now) }

// Action is a BackwardPolicy's choice.
type Action uint8

const (
	// ActionFail gives the caller a [*ClockBackwardError] at once.
	ActionFail Action = iota
	// ActionWait makes the caller wait, without the generator's lock, for
	// Backward.By (and then for the next tick if the last one is spent). If the
	// clock has not caught up by then, because it runs slowly, stands still or
	// went back again, the policy is asked again. In all, a call waits no longer
	// for a clock that is behind than twice the first of these waits, or 50 ms if
	// that is more; a wait that would be longer fails.
	ActionWait
	// ActionBump goes on at once under another clock sequence.
	ActionBump
	// ActionRewind goes on at once in the tick that the clock reads, after the
	// last sequence that was used there.
	ActionRewind
)

// BackwardPolicy chooses what to do when the clock reads earlier than the last
// ID. It chooses among safe outcomes and cannot cause a duplicate: an Action that
// is not possible (CanBump, CanRewind), or is not one of the constants, counts as
// ActionFail.
//
// OnBackward is called without the generator's lock, by each call that finds the
// clock behind, and by several calls at a time. It should be quick, and must not ask
// the generator for an ID: callers that arrived later wait for it in the queue.
type BackwardPolicy interface{ OnBackward(Backward) Action }

// BackwardFunc makes a BackwardPolicy of a function.
type BackwardFunc func(Backward) Action

// OnBackward calls f.
func (f BackwardFunc) OnBackward(b Backward) Action { return f(b) }

// FailPolicy returns the policy that always fails. If the clock went back, a call
// fails at once. If the clock stands still, a call fails after a wait for the
// next tick, of 50 ms or, if a tick is longer, a tick. IDs keep their order. It is
// what Twitter's snowflake and Baidu's default generator do.
func FailPolicy() BackwardPolicy { return failPolicy{} }

type failPolicy struct{}

func (failPolicy) OnBackward(Backward) Action { return ActionFail }

// WaitPolicy returns the policy that waits for a clock that is at most max
// behind, and fails at once if the clock is further behind. IDs keep their order.
// As long as the clock runs, a call waits no longer than the clock was behind; see
// [ActionWait] for the bound if the clock stops. New refuses a negative max.
//
// Meituan's Leaf waits for a clock that is up to 5 ms behind; it sleeps twice the
// difference, once, and then fails if the clock is still behind.
func WaitPolicy(max time.Duration) BackwardPolicy { return waitPolicy{max} }

type waitPolicy struct{ max time.Duration }

func (p waitPolicy) OnBackward(b Backward) Action {
	if b.By() <= p.max {
		return ActionWait
	}
	return ActionFail
}

// ClockSeqPolicy returns the policy that goes on at once under a clock sequence
// whose own last tick is before the clock's, and fails if there is no such clock
// sequence. It needs a layout with ClockSeqBits; [ClockSeqLayout] has three. Under
// a lease it needs [Terms].Bump. New refuses the policy without them.
//
// Every clock sequence keeps the last tick that was stamped under it, and is
// used again only when the clock is past that tick. So with n bits you survive
// 2^n-1 steps back, each further than the last; smaller steps are free. No ID is
// ever repeated.
//
// IDs stamped after a step back are smaller than the IDs before it: order is lost
// at that point, by as much as the clock was set back. The clock sequence is
// the idea of RFC 9562 (UUIDv1) and of the 41/3/7/12 layouts.
//
// HAZARD: a generator remembers only what it stamped itself. If the clock is set
// back to before the generator's own start, the generator may use a clock sequence
// that an earlier process with the same worker ID used there: set Options.After,
// or use NewLeased.
func ClockSeqPolicy() BackwardPolicy { return clockSeqPolicy{} }

type clockSeqPolicy struct{}

func (clockSeqPolicy) OnBackward(b Backward) Action {
	if b.CanBump {
		return ActionBump
	}
	return ActionFail
}

// RewindPolicy returns the policy that goes back to the tick that the clock
// reads, and on from the last sequence used there. It fails for ticks that are
// not remembered: set Options.RewindTicks to how many ticks back it may go. New
// refuses the policy without RewindTicks. If the sequence was spent in that tick,
// the call waits for the next tick that has IDs left, for up to 50 ms or a tick,
// and fails if that tick is further away.
//
// IDs stamped after a step back are smaller than the IDs before it: order is lost
// at that point, by at most RewindTicks.
//
// HAZARD: a generator remembers only what it stamped itself. If the clock is set
// back to before the generator's own start, the generator may meet the IDs of an
// earlier process that had the same worker ID: set Options.After, or use
// NewLeased. Both close the time before.
func RewindPolicy() BackwardPolicy { return rewindPolicy{} }

type rewindPolicy struct{}

func (rewindPolicy) OnBackward(b Backward) Action {
	if b.CanRewind {
		return ActionRewind
	}
	return ActionFail
}
