package snowflake

import "time"

// Backward is what a BackwardPolicy gets to know: by how much the clock reads
// earlier than the last ID, and which actions are possible.
type Backward struct {
	// Last is the time that the clock has to reach before IDs can go on in order:
	// the start of the last ID's tick, less Options.BorrowAhead. If the clock
	// stood still while a call waited, or if the ticks after a rewind are spent,
	// Last is the start of the next tick that has IDs left.
	Last time.Time
	// Now is the clock's reading. It is before Last.
	Now time.Time
	// Stalled is true if the clock stands still, or runs at less than half of its
	// speed, so that it will not reach Last in time. Such a clock need not have
	// gone back at all.
	Stalled bool
	// CanBump is true if ActionBump is possible: the layout has a clock sequence
	// whose own last tick is before Now, and the lease, if there is a lease, can
	// record the change.
	CanBump bool
	// CanRewind is true if ActionRewind is possible: the tick at Now is one of
	// the Options.RewindTicks ticks that are remembered, and IDs are left in that
	// tick, in the next one, or in another tick within 50 ms.
	CanRewind bool
}

// By returns Last - Now. That can be less than the step back itself: by up to a
// tick, because Last is the start of a tick, and by the part of BorrowAhead that
// was not in use.
func (b Backward) By() time.Duration { return b.Last.Sub(b.Now) }

// Action is a BackwardPolicy's choice.
type Action uint8

const (
	// ActionFail gives the caller a [*ClockBackwardError] at once.
	ActionFail Action = iota
	// ActionWait makes the caller wait, without the generator's lock, for
	// Backward.By (and then for the next tick if the last one is spent). If the
	// clock has not reached Last by then, because it runs slowly, stands still or
	// went back again, the policy is asked again. In all, a call waits for such a
	// clock for at most twice the first of these waits, or 50 ms if that is more. If
	// the wait would be longer, the call fails.
	ActionWait
	// ActionBump goes on at once under another clock sequence.
	ActionBump
	// ActionRewind goes on at once in the tick that the clock reads, after the
	// last sequence that was used there.
	ActionRewind
)

// BackwardPolicy chooses what a call does when the clock reads earlier than the
// last ID. It chooses among safe outcomes and cannot cause a duplicate: if an
// Action is not possible (see CanBump and CanRewind), or is not one of the
// constants, it counts as ActionFail.
//
// OnBackward is called without the generator's lock, by each call that finds such
// a clock, and by several calls at a time. It should be quick, because callers that
// arrived later wait for it in the queue. It must not ask the generator for an ID.
type BackwardPolicy interface{ OnBackward(Backward) Action }

// BackwardFunc makes a BackwardPolicy of a function.
type BackwardFunc func(Backward) Action

// OnBackward calls f.
func (f BackwardFunc) OnBackward(b Backward) Action { return f(b) }

// FailPolicy returns the policy that always fails. If the clock went back, a call
// fails at once. If the clock stands still, a call waits for the next tick, and
// fails after 50 ms or one tick, whichever is longer. IDs keep their order.
// Twitter's snowflake and Baidu's default generator do the same.
func FailPolicy() BackwardPolicy { return failPolicy{} }

type failPolicy struct{}

func (failPolicy) OnBackward(Backward) Action { return ActionFail }

// WaitPolicy returns the policy that waits if the clock reads at most max earlier
// than the last ID, and fails at once if the difference is larger. IDs keep their
// order. As long as the clock runs, a call waits no longer than the difference; see
// [ActionWait] for the bound if the clock stops. New refuses a negative max.
//
// Meituan's Leaf waits if the difference is at most 5 ms; it sleeps once, for twice
// the difference, and fails if the clock has not caught up then.
func WaitPolicy(max time.Duration) BackwardPolicy { return waitPolicy{max} }

type waitPolicy struct{ max time.Duration }

func (p waitPolicy) OnBackward(b Backward) Action {
	if b.By() <= p.max {
		return ActionWait
	}
	return ActionFail
}

// ClockSeqPolicy returns the policy that goes on at once under another clock
// sequence. A clock sequence is a field of the ID that tells apart IDs stamped
// before and after a step back of the clock, as in UUIDv1 (RFC 9562). The policy
// needs a layout with ClockSeqBits; [ClockSeqLayout] has three. With a lease it
// needs [Terms].Bump. New and NewLeased refuse the policy without them.
//
// The generator remembers the last tick of every clock sequence, and uses a clock
// sequence again only if the clock is past that tick. If there is no such clock
// sequence, the call fails. So with n bits you survive 2^n-1 steps back, each further
// than the last; smaller steps are free. No ID is ever repeated.
//
// IDs stamped after a step back are smaller than the IDs before it: order is lost
// at that point, by as much as the clock was set back.
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
// reads, and on with the sequence numbers that were not used there. The generator
// remembers as many ticks as Options.RewindTicks says; the call fails if the clock
// reads an earlier tick. New refuses the policy without RewindTicks. If the
// sequence of the tick is spent, the call waits for the next tick that has IDs
// left, for up to 50 ms or one tick, and fails if that tick is further away.
//
// IDs stamped after a step back are smaller than the IDs before it: order is lost
// at that point, by at most RewindTicks ticks.
//
// HAZARD: a generator remembers only what it stamped itself. If the clock is set
// back to before the generator's own start, the generator may repeat the IDs of an
// earlier process that had the same worker ID: set Options.After, or use
// NewLeased. With either, it issues nothing in the time before.
func RewindPolicy() BackwardPolicy { return rewindPolicy{} }

type rewindPolicy struct{}

func (rewindPolicy) OnBackward(b Backward) Action {
	if b.CanRewind {
		return ActionRewind
	}
	return ActionFail
}
