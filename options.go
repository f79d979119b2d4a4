package snowflake

import (
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Options are the settings of a Generator. nil and zero values are defaults.
type Options struct {
	// Layout divides the bits. Zero: DefaultLayout(), or the lease's.
	Layout Layout
	// Datacenter is put into the datacenter bits, for layouts that have them.
	Datacenter int
	// Clock tells the time. nil: SystemClock(), or the lease's. With a clock of your own, each ID
	// costs a call of Now, and a saturated generator loses the ticks that its callers oversleep.
	Clock Clock
	// OnBackward chooses what happens when the clock goes back. nil: WaitPolicy(10 *
	// time.Millisecond).
	OnBackward BackwardPolicy
	// BorrowAhead is how far timestamps may run ahead of the clock when a tick's sequence is spent:
	// the IDs of BorrowAhead/Unit ticks come at once. 0 to the time that the layout lasts. 0: wait
	// for the next tick. After a restart, the clock may read earlier than the last ID by as much:
	// set After, or use a lease.
	BorrowAhead time.Duration
	// RewindTicks is how many ticks before the latest stamped tick RewindPolicy may go back to. It
	// must exceed the largest step back that you want to survive. Each tick takes 16 bytes. 0 to
	// 1<<20.
	RewindTicks int
	// RandomStart starts each tick's sequence at a random value in its lower half; if the sequence
	// has one bit, at 0 or 1. Without it, nearly all IDs at low traffic have the sequence 0, fall
	// on one shard, and are easy to guess. Within a tick, IDs still increase by 1. With
	// Layout.WorkerLast the low bits stay the worker's.
	RandomStart bool
	// After makes all IDs greater than this ID: pass SELECT coalesce(max(id), 0) to go on after the
	// IDs of an earlier process with this worker ID. 0: no limit. A clock that reads earlier than
	// After counts as having gone back. An After more than a day ahead of the clock is refused: it
	// is most likely an ID of another layout. One that is more than two years behind gets a warning
	// in slog.Default(): it may be an ID of another epoch.
	After ID
}

const maxRewindTicks = 1 << 20

var defaultPolicy = WaitPolicy(10 * time.Millisecond)

// check refuses options that are out of range, and options that would silently do
// nothing.
func (o *Options) check(worker int, lease Lease) error {
	l := o.Layout
	if err := l.Validate(); err != nil {
		return err
	}
	if err := l.checkFields(0, o.Datacenter, worker); err != nil {
		return err
	}
	lasts := min(l.until(instant{}, l.maxTick()), math.MaxInt64-l.Unit)
	switch {
	case o.BorrowAhead < 0 || o.BorrowAhead > lasts:
		return fmt.Errorf("%w: BorrowAhead %v is not within 0 to %v, which is all the time of the layout",
			ErrInvalidOptions, o.BorrowAhead, lasts)
	case o.RewindTicks < 0 || o.RewindTicks > maxRewindTicks:
		return fmt.Errorf("%w: RewindTicks %d is not within 0 to %d", ErrInvalidOptions, o.RewindTicks, maxRewindTicks)
	case o.RandomStart && l.SequenceBits == 0:
		return fmt.Errorf("%w: RandomStart has no effect: the layout has no sequence bits", ErrInvalidOptions)
	}
	if err := l.Check(o.After); err != nil {
		return fmt.Errorf("Options.After: %w", err)
	}
	if f, ok := o.Clock.(ClockFunc); ok && f == nil {
		return fmt.Errorf("%w: Clock is a nil ClockFunc", ErrInvalidOptions)
	}
	return o.checkPolicy(lease)
}

// checkPolicy refuses a policy that would always fail.
func (o *Options) checkPolicy(lease Lease) error {
	_, canBump := lease.(Bumper)
	switch p := o.OnBackward.(type) {
	case waitPolicy:
		if p.max < 0 {
			return fmt.Errorf("%w: WaitPolicy(%v) is negative", ErrInvalidOptions, p.max)
		}
	case choice:
		switch a := Action(p); {
		case a == ActionRewind && o.RewindTicks == 0:
			return fmt.Errorf("%w: RewindPolicy has no effect without RewindTicks", ErrInvalidOptions)
		case a == ActionBump && o.Layout.ClockSeqBits == 0:
			return fmt.Errorf("%w: ClockSeqPolicy has no effect: the layout has no clock-sequence bits, as ClockSeqLayout has",
				ErrInvalidOptions)
		case a == ActionBump && lease != nil && !canBump:
			return fmt.Errorf("%w: ClockSeqPolicy has no effect: the lease cannot change its clock sequence", ErrInvalidOptions)
		}
	case BackwardFunc:
		if p == nil {
			return fmt.Errorf("%w: OnBackward is a nil BackwardFunc", ErrInvalidOptions)
		}
	}
	return nil
}

// maxAfter is how far Options.After may be ahead of the clock.
const maxAfter = 24 * time.Hour

// checkAfter refuses an After that can hardly be an ID of the layout.
func (o *Options) checkAfter(now instant) error {
	l := o.Layout
	after := instant{tick: int64(o.After) >> l.timeShift()}
	if l.until(now, after.tick) <= maxAfter {
		return nil
	}
	return fmt.Errorf("%w: After %d was stamped at %s, more than a day ahead of the clock, which reads %s: it is probably an ID of another layout than %v",
		ErrInvalidOptions, o.After, formatTime(l.time(after)), formatTime(l.time(now)), l)
}

// oldAfter is how far Options.After may be behind the clock without a warning.
const oldAfter = 2 * 365 * 24 * time.Hour

// warnOfOldAfter warns of an After that is probably an ID of another epoch. The numbers of an
// auto-increment lie in the first day of the layout.
func (o *Options) warnOfOldAfter(now instant) {
	l := o.Layout
	after := instant{tick: int64(o.After) >> l.timeShift()}
	if l.plus(after, oldAfter) < now.tick && after.tick > l.plus(instant{}, maxAfter) {
		slog.Warn("snowflake: Options.After was stamped years ago: it may be an ID of another epoch",
			"after", o.After, "stamped", formatTime(l.time(after)), "layout", l.String(),
			"next", "IDs are issued all the same; if it is an ID of another layout, set Options.Layout")
	}
}
