package snowflake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Every error of this package matches one of these with [errors.Is], or is the error of
// the caller's context.
var (
	// ErrClockBackward is matched by the [*ClockBackwardError] that NextID, NextIDContext and Fill
	// return if the clock reads earlier than the last ID, or stands still, and the policy fails, or
	// what it chose is not possible.
	ErrClockBackward = errors.New("snowflake: clock went backward")
	// ErrTimeExhausted is returned by New, NewLeased, NextID, NextIDContext and Fill if the clock
	// reads a time past the layout's end (see [Layout.Expires]), and by Encode, Range and Follows
	// if a time is past it.
	ErrTimeExhausted = errors.New("snowflake: layout has run out of time")
	// ErrBeforeEpoch is returned by New, NewLeased, NextID, NextIDContext and Fill if the clock
	// reads a time before the layout's epoch, and by Encode and Range if a time is before it.
	ErrBeforeEpoch = errors.New("snowflake: time before the epoch")
	// ErrLeaseExpired is matched by the [*LeaseExpiredError] that NextID, NextIDContext and Fill
	// return if the next ID would lie at or past the end of the span that the lease grants, and the
	// lease does not extend it. If a store did not answer, that error can also match
	// context.DeadlineExceeded, so test for ErrLeaseExpired first.
	ErrLeaseExpired = errors.New("snowflake: lease expired")
	// ErrInvalidID is returned by
	//   - the Parse functions, the Unmarshal methods and Scan, if a text or a value is not the
	//     canonical form of an ID;
	//   - the methods that write an ID, if it is negative;
	//   - Check, and New for Options.After, if the ID does not belong to the layout;
	//   - Encode, if a clock sequence or a sequence does not fit the layout;
	//   - a Generator's methods, if the clock sequence that its lease grants does not fit.
	ErrInvalidID = errors.New("snowflake: invalid ID")
	// ErrInvalidLayout is returned by Validate, Encode, Range, Follows, New and NewLeased if a
	// layout is not valid, and by ParseLayout if a text is not a valid layout.
	ErrInvalidLayout = errors.New("snowflake: invalid layout")
	// ErrWorkerRange is matched by the [*FieldRangeError] that New, NewLeased and Encode return if
	// a worker or datacenter does not fit the layout, and NextID, NextIDContext and Fill if the
	// worker ID that the lease grants does not.
	ErrWorkerRange = errors.New("snowflake: worker out of range")
	// ErrInvalidOptions is returned by New and NewLeased if an option is out of range or would have
	// no effect, and by the methods of a Generator that was not made by them.
	ErrInvalidOptions = errors.New("snowflake: invalid options")
	// ErrInUse is returned by New if this process has a Generator that could issue the same IDs, and
	// that was made with other options.
	ErrInUse = errors.New("snowflake: worker ID in use")
	// ErrInvalidRange is returned by Range if from is later than to.
	ErrInvalidRange = errors.New("snowflake: invalid range")
	// ErrOverlap is matched by the [*OverlapError] that Follows returns if a new ID can be equal to
	// or less than an old ID.
	ErrOverlap = errors.New("snowflake: layouts overlap")
)

var errNotMade = fmt.Errorf("%w: this Generator was not made by New or NewLeased", ErrInvalidOptions)

// unbumped is the error of a call whose clock went back, if the lease could not record the change
// of the clock sequence.
func unbumped(ctx context.Context, b Backward, err error) error {
	if ctx.Err() != nil {
		return ended(ctx, err)
	}
	if errors.Is(err, ErrClockBackward) {
		return err
	}
	return fmt.Errorf("%w; the clock sequence could not be changed: %w", &ClockBackwardError{b}, err)
}

// ended returns err, wrapped so that it also matches ctx's error.
func ended(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// LeaseExpiredError is the error of a call that cannot stamp another ID under its lease. It matches
// [ErrLeaseExpired] and whatever Cause matches.
type LeaseExpiredError struct {
	Worker int // which may no longer be stamped
	// NotAfter is the end of the lease's window or, after a release, of the last tick stamped. No
	// ID is stamped at or past it.
	NotAfter time.Time
	Time     time.Time // the timestamp that the next ID would have had
	// Cause is the lease's error, which says why the window was not extended. It may be nil.
	Cause   error
	stopped bool // no further ID may be issued, for good
	unused  bool // stopped, and no ID was stamped
}

func (e *LeaseExpiredError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: ", ErrLeaseExpired)
	if e.Cause != nil {
		fmt.Fprintf(&b, "%s; ", strings.TrimPrefix(e.Cause.Error(), "lease: "))
	}
	fmt.Fprintf(&b, "worker %d ", e.Worker)
	switch {
	case e.unused:
		b.WriteString("stamped no ID")
	case e.stopped, e.Time.Before(e.NotAfter):
		// Time is before NotAfter if both are in the tick of the last ID.
		fmt.Fprintf(&b, "stamped its last ID before %s", formatTime(e.NotAfter))
	case e.NotAfter.Truncate(time.Millisecond).Equal(e.Time.Truncate(time.Millisecond)):
		fmt.Fprintf(&b, "may stamp IDs before %s, the next would be at %s", formatTime(e.NotAfter), formatTime(e.Time))
	default:
		fmt.Fprintf(&b, "may stamp IDs before %s, the next would be at %s",
			formatTime(e.NotAfter.Truncate(time.Millisecond)), formatTime(e.Time.Truncate(time.Millisecond)))
	}
	return b.String()
}

// Unwrap returns Cause.
func (e *LeaseExpiredError) Unwrap() error { return e.Cause }

func (e *LeaseExpiredError) Is(target error) bool { return target == ErrLeaseExpired }
