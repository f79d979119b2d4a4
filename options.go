package snowflake

import (
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Options configure a Generator. Nil, and zero values, mean the defaults.
type Options struct {
	Layout     Layout         // by default DefaultLayout(); with a lease see NewLeased
	Datacenter int            // the value of the datacenter bits, if the layout has them
	OnBackward BackwardPolicy // by default WaitPolicy(10*time.Millisecond)
	// Clock is by default SystemClock(); with a lease see NewLeased. If it is set, even to
	// SystemClock(), New makes a Generator that the rest of the process does not share. A clock of
	// your own costs a call of Now for each ID, and the ticks through which waiting callers oversleep.
	Clock Clock
	// BorrowAhead bounds the lead of timestamps over the clock: when a tick's sequence is spent, the
	// IDs of BorrowAhead/Unit ticks are issued without a wait. The maximum is the layout's time.
	BorrowAhead time.Duration
	// RewindTicks, 0 to 1<<20, is the number of ticks that RewindPolicy may go back from the latest
	// stamped tick. It must exceed the largest step back to be survived. A tick takes 16 bytes.
	RewindTicks int
	// RandomStart begins each tick's sequence at random in its lower half or, with one bit, at 0 or 1.
	// Without it, most IDs at low traffic have sequence 0: they fall on one shard, and can be guessed.
	RandomStart bool
	// After makes all IDs greater than this ID. Set it to SELECT coalesce(max(id), 0) to continue
	// after an earlier process with this worker ID. A clock that reads earlier than After counts as
	// having gone back. An After more than a day ahead of the clock is refused: it is most likely of
	// another layout, or the clock is wrong. An After more than two years behind may be of another
	// epoch, and is logged to slog.Default().
	After ID
}

const maxRewindTicks = 1 << 20

var defaultPolicy = WaitPolicy(10 * time.Millisecond)

// complete returns the options with their defaults, or check's error.
func (o *Options) complete(worker int, lease Lease) (c Options, err error) {
	if o != nil {
		c = *o
	}
	if l, ok := lease.(interface{ Layout() Layout }); ok && c.Layout == (Layout{}) {
		c.Layout = l.Layout()
	}
	if l, ok := lease.(interface{ Clock() Clock }); ok && c.Clock == nil {
		c.Clock = l.Clock()
	}
	if c.Layout == (Layout{}) {
		c.Layout = DefaultLayout()
	}
	if c.OnBackward == nil {
		c.OnBackward = defaultPolicy
	}
	return c, c.check(worker, lease)
}

// check refuses options that are out of range or would have no effect.
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
		return fmt.Errorf("%w: BorrowAhead %v is not within 0 to %v, the time that the layout lasts",
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
	_, canBump := as[Bumper](lease)
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

// maxAfter is the largest lead of Options.After over the clock.
const maxAfter = 24 * time.Hour

// checkAfter refuses an After that is unlikely to be an ID of the layout.
func (o *Options) checkAfter(now instant) error {
	l := o.Layout
	after := instant{tick: int64(o.After) >> l.timeShift()}
	if l.until(now, after.tick) <= maxAfter {
		return nil
	}
	return fmt.Errorf("%w: After %d was stamped at %s, more than a day ahead of the clock, which reads %s: "+
		"either the clock is wrong, or it is an ID of a layout other than %v",
		ErrInvalidOptions, o.After, formatTime(l.time(after)), formatTime(l.time(now)), l)
}

// oldAfter is the largest lag of Options.After behind the clock without a warning.
const oldAfter = 2 * 365 * 24 * time.Hour

// warnOfOldAfter warns of an After that is probably an ID of another epoch. It does not warn of an
// After in the layout's first day, which is most likely a key that an auto-increment assigned.
func (o *Options) warnOfOldAfter(now instant) {
	l := o.Layout
	after := instant{tick: int64(o.After) >> l.timeShift()}
	if l.plus(after, oldAfter) < now.tick && after.tick > l.plus(instant{}, maxAfter) {
		slog.Warn("snowflake: Options.After was stamped years ago: it may be an ID of another epoch",
			"after", o.After, "stamped", formatTime(l.time(after)), "layout", l.String(),
			"next", "IDs are issued all the same; if it is an ID of another layout, set Options.Layout")
	}
}
