package snowflake

import (
	"fmt"
	"time"
)

// A call notices in behind.go that the clock has gone back, and asks the policy there.

// Backward describes a clock that reads earlier than the last ID.
type Backward struct {
	// Last is the time that the clock must reach before IDs can continue in order: the start of the
	// last ID's tick or, if the call waits for a tick, of that tick, less Options.BorrowAhead.
	Last time.Time
	Now  time.Time // the clock's reading, before Last
	// Stalled is true if the clock has not gone back, but stands still or has run at less than half
	// of its speed since the call began to wait, at least 50 ms ago.
	Stalled bool
	CanBump bool // a clock sequence's own last tick is before Now, and a lease can record the bump
	// CanRewind is true if the tick at Now is remembered, and it, the next tick or a tick that begins
	// within 50 ms has IDs left.
	CanRewind bool
}

// By returns Last - Now. The step back can be larger, by up to a tick and the part of BorrowAhead
// that was not in use.
func (b Backward) By() time.Duration { return b.Last.Sub(b.Now) }

// Action is a BackwardPolicy's choice.
type Action uint8

const (
	ActionFail Action = iota // return a [*ClockBackwardError] at once
	// ActionWait makes the call wait for Backward.By and, if other calls wait, for its turn after
	// them. If the clock has not reached the tick by then, the policy is asked again. A call's waits
	// for such a clock last at most twice the first of them in total, or 50 ms if that is more. A
	// call that would have to wait longer fails.
	ActionWait
	ActionBump   // continue at once under another clock sequence
	ActionRewind // continue in the tick that the clock reads, with unused sequence numbers
)

// String returns "fail", "wait", "bump" or "rewind".
func (a Action) String() string {
	if a > ActionRewind {
		return fmt.Sprintf("Action(%d)", uint8(a))
	}
	return [...]string{"fail", "wait", "bump", "rewind"}[a]
}

// BackwardPolicy chooses what a call does when the clock reads earlier than the last ID. It cannot
// cause a duplicate: an Action that is not possible counts as ActionFail. OnBackward is called
// concurrently and without the generator's lock, several times by a call that waits, and must not
// ask the generator for an ID.
type BackwardPolicy interface{ OnBackward(Backward) Action }

// BackwardFunc is a function that serves as a BackwardPolicy.
type BackwardFunc func(Backward) Action

// OnBackward calls f.
func (f BackwardFunc) OnBackward(b Backward) Action { return f(b) }

// FailPolicy returns the policy that always fails.
func FailPolicy() BackwardPolicy { return choice(ActionFail) }

// WaitPolicy returns the policy that waits if the clock reads at most max earlier than the last ID,
// and fails at once if the difference is larger. See [ActionWait] for the bound if the clock stops.
func WaitPolicy(max time.Duration) BackwardPolicy { return waitPolicy{max} }

type waitPolicy struct{ max time.Duration }

func (p waitPolicy) OnBackward(b Backward) Action {
	if b.By() <= p.max {
		return ActionWait
	}
	return ActionFail
}

// ClockSeqPolicy returns the policy that continues at once under another clock sequence, as in
// UUIDv1 (RFC 9562). It needs a layout with ClockSeqBits, such as [ClockSeqLayout]. A lease must be
// one of package lease, or a [Bumper].
//
// A clock sequence is used again once the clock has passed its last tick. If there is no such clock
// sequence, and no unused one, the call fails. So n bits survive 2^n-1 steps back, each further
// back than the one before; other steps use up none. The package doc has the HAZARD of a restart.
func ClockSeqPolicy() BackwardPolicy { return choice(ActionBump) }

// RewindPolicy returns the policy that goes back to the tick that the clock reads, and continues
// with the sequence numbers that were not used there. The call fails if the tick is not one of the
// Options.RewindTicks that are remembered. If its sequence is spent, the call waits for the next
// tick that has IDs left, and fails if that is more than 50 ms and more than one tick away. The
// package doc has the HAZARD of a restart.
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

// ClockBackwardError is the error of a call if the clock went back or stands still, and the policy
// does not help. It matches [ErrClockBackward].
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
