package snowflake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Every error of this package matches one of these with [errors.Is], or is the error of the
// caller's context. Calls are those of NextID, NextIDContext and Fill; New stands for NewLeased,
// too.
var (
	// ErrClockBackward is matched by the [*ClockBackwardError] of a call.
	ErrClockBackward = errors.New("snowflake: clock went backward")
	// ErrLeaseExpired is matched by the [*LeaseExpiredError] of a call. If a store did not answer,
	// that error can also match context.DeadlineExceeded, so test for ErrLeaseExpired first.
	ErrLeaseExpired = errors.New("snowflake: lease expired")
	// ErrTimeExhausted is returned by New, calls, Encode, Range and Follows after [Layout.Expires].
	ErrTimeExhausted = errors.New("snowflake: layout has run out of time")
	// ErrBeforeEpoch is returned by New, calls, Encode and Range for a time before the epoch.
	ErrBeforeEpoch = errors.New("snowflake: time before the epoch")
	// ErrInvalidOptions is returned by New if an option is out of range or would have no effect, and
	// by calls of a Generator that New did not make.
	ErrInvalidOptions = errors.New("snowflake: invalid options")
	// ErrInUse is returned by New if the process has a Generator of these bits with other options.
	ErrInUse = errors.New("snowflake: worker ID in use")
	// ErrWorkerRange is matched by a [*FieldRangeError] for a worker or a datacenter.
	ErrWorkerRange = errors.New("snowflake: worker out of range")
	// ErrInvalidID is returned by all that reads or writes an ID (see [ID]), by Check, Follows and New
	// if an ID has more bits than its layout, and matched by some [*FieldRangeError]s.
	ErrInvalidID = errors.New("snowflake: invalid ID")
	// ErrInvalidLayout is returned by New, Validate, Encode, Range, Follows and ParseLayout.
	ErrInvalidLayout = errors.New("snowflake: invalid layout")
	// ErrInvalidRange is returned by Range if from is later than to.
	ErrInvalidRange = errors.New("snowflake: invalid range")
	// ErrOverlap is matched by the [*OverlapError] of Follows.
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

// LeaseExpiredError is the error of a call whose ID would lie at or past the end of the granted
// span, if the lease does not extend it. It matches [ErrLeaseExpired] and what Cause matches.
type LeaseExpiredError struct {
	Worker   int       // the worker ID of the grant
	NotAfter time.Time // the end of the span or, after a release, of the last tick stamped
	Time     time.Time // the timestamp that the ID would have had
	Cause    error     // the lease's reason for not extending the span, or nil
	stopped  bool      // no further ID may be issued, for good
	unused   bool      // stopped, and no ID was stamped
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
