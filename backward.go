package snowflake

import (
	"fmt"
	"time"
)

// Backward tells a BackwardPolicy by how much the clock reads earlier than the last ID, and which
// actions are possible.
type Backward struct {
	// Last is the time that the clock must reach before IDs can continue in order: the start of the
	// last ID's tick or, if a call waits, of the tick that it waits for, less Options.BorrowAhead.
	Last time.Time
	Now  time.Time // the clock's reading, before Last
	// Stalled is true if the clock has not gone back, but stands still or has run at less than half
	// of its speed since the call began to wait, at least 50 ms ago.
	Stalled bool
	// CanBump is true if ActionBump is possible: the layout has a clock sequence whose own last
	// tick is before Now, and the lease, if there is a lease, can record the change.
	CanBump bool
	// CanRewind is true if ActionRewind is possible: the tick at Now is remembered (see
	// Options.RewindTicks), and IDs are left in it, in the next tick, or in another tick within 50
	// ms.
	CanRewind bool
}

// By returns Last - Now. The step back can be larger, by up to a tick and the part of
// BorrowAhead that was not in use.
func (b Backward) By() time.Duration { return b.Last.Sub(b.Now) }

// Action is a BackwardPolicy's choice.
type Action uint8

const (
	// ActionFail makes the call return a [*ClockBackwardError] at once.
	ActionFail Action = iota
	// ActionWait makes the call wait for Backward.By and, if other calls wait, for its turn after
	// them. If the clock has not begun the tick by then, because it runs slowly, stands still or
	// went back again, the policy is asked again. In all, a call waits for such a clock for at most
	// twice the first of these waits, or 50 ms if that is more, however many calls arrive. If the
	// wait would be longer, the call fails.
	ActionWait
	// ActionBump makes the call continue at once under another clock sequence.
	ActionBump
	// ActionRewind makes the call continue at once in the tick that the clock reads, with unused
	// sequence numbers.
	ActionRewind
)

// String returns "fail", "wait", "bump" or "rewind".
func (a Action) String() string {
	if a > ActionRewind {
		return fmt.Sprintf("Action(%d)", uint8(a))
	}
	return [...]string{"fail", "wait", "bump", "rewind"}[a]
}

// BackwardPolicy chooses what a call does when the clock reads earlier than the last ID. It cannot
// cause a duplicate: an Action that is not possible (see CanBump and CanRewind) counts as
// ActionFail. OnBackward is called without the generator's lock, by each call that finds such a
// clock, several times if the call waits, and concurrently by several calls. It must not ask the
// generator for an ID. New refuses a policy of this package that could never act, but cannot check
// other policies.
type BackwardPolicy interface{ OnBackward(Backward) Action }

// BackwardFunc is a function that serves as a BackwardPolicy.
type BackwardFunc func(Backward) Action

// OnBackward calls f.
func (f BackwardFunc) OnBackward(b Backward) Action { return f(b) }

// FailPolicy returns the policy that always fails: at once if the clock went back, after
// 50 ms if it stands still while a call waits for its tick.
func FailPolicy() BackwardPolicy { return choice(ActionFail) }

// WaitPolicy returns the policy that waits if the clock reads at most max earlier than
// the last ID, and fails at once if the difference is larger. See [ActionWait] for the
// bound if the clock stops. New refuses a negative max.
func WaitPolicy(max time.Duration) BackwardPolicy { return waitPolicy{max} }

type waitPolicy struct{ max time.Duration }

func (p waitPolicy) OnBackward(b Backward) Action {
	if b.By() <= p.max {
		return ActionWait
	}
	return ActionFail
}

// ClockSeqPolicy returns the policy that continues at once under another clock sequence, as in
// UUIDv1 (RFC 9562). It needs a layout with ClockSeqBits, such as [ClockSeqLayout]. If there is a
// lease, it must be a [Bumper].
//
// A clock sequence is used again only if the clock is past its last tick. If there is no such clock
// sequence, and none that was never used, the call fails. So n bits survive 2^n-1 steps back even
// if each goes further back than the one before; other steps use up no clock sequence.
//
// HAZARD: if the clock is set back to before the generator's own start, the generator may
// repeat the IDs of an earlier process with the same worker ID: set Options.After, or use
// NewLeased.
func ClockSeqPolicy() BackwardPolicy { return choice(ActionBump) }

// RewindPolicy returns the policy that goes back to the tick that the clock reads, and continues
// with the sequence numbers that were not used there. The call fails if the tick is not one of the
// Options.RewindTicks that are remembered. If its sequence is spent, the call waits for the next
// tick that has IDs left, and fails if that is more than 50 ms and more than one tick away.
//
// It has the HAZARD of [ClockSeqPolicy].
func RewindPolicy() BackwardPolicy { return choice(ActionRewind) }

// choice is the policy that always chooses one Action, if it is possible.
type choice Action

func (c choice) OnBackward(b Backward) Action {
	if b.can(Action(c)) {
		return Action(c)
	}
	return ActionFail
}

// can reports whether a is possible, and not ActionFail.
func (b Backward) can(a Action) bool {
	return a == ActionWait || a == ActionBump && b.CanBump || a == ActionRewind && b.CanRewind
}

// ClockBackwardError is the error of a call for which the clock went back or stood still. It holds
// what the policy was told, and matches [ErrClockBackward].
type ClockBackwardError struct {
	Backward
}

func (e *ClockBackwardError) Error() string {
	if e.Stalled {
		return fmt.Sprintf("snowflake: clock stands still, or runs at less than half of its speed: it reads %s, %v before %s",
			formatTime(e.Now), e.By(), formatTime(e.Last))
	}
	return fmt.Sprintf("%v: it reads %s, %v behind %s",
		ErrClockBackward, formatTime(e.Now), e.By(), formatTime(e.Last))
}

func (e *ClockBackwardError) Is(target error) bool { return target == ErrClockBackward }
