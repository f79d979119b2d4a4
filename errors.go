package snowflake

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Every error of this package matches one of these with [errors.Is], or is the
// error of the caller's context. The text of a returned error also names the
// value that was refused and the limit that it broke.
var (
	// ErrClockBackward is returned by NextID, NextIDContext and Fill when the
	// clock reads earlier than the last ID, or stands still, and the backward
	// policy could not or would not go on. The error is a [*ClockBackwardError].
	ErrClockBackward = errors.New("snowflake: clock went backward")

	// ErrTimeExhausted is returned when a time lies past the end of a layout's
	// time bits: by New, NewLeased, NextID, NextIDContext and Fill for the
	// clock, by Encode and Range for the time that they were given.
	ErrTimeExhausted = errors.New("snowflake: layout has run out of time")

	// ErrBeforeEpoch is returned when a time lies before a layout's epoch: by
	// New, NewLeased, NextID, NextIDContext and Fill for the clock, by Encode
	// and Range for the time that they were given.
	ErrBeforeEpoch = errors.New("snowflake: time before the epoch")

	// ErrLeaseExpired is returned by NextID, NextIDContext and Fill of a
	// generator made by NewLeased, when the next ID would lie at or past the
	// end of the lease's window (the time span that it may stamp), and the lease
	// does not extend the window. The error is a [*LeaseExpiredError]. If the
	// lease's store did not answer in time, the error can also match
	// context.DeadlineExceeded: so test for ErrLeaseExpired first.
	ErrLeaseExpired = errors.New("snowflake: lease expired")

	// ErrInvalidID is returned by the Parse functions, the Unmarshal methods and
	// Scan if a text or a value is not the canonical form of an ID, by Layout.Check,
	// by New and NewLeased for Options.After, by the methods that write an ID if it
	// is negative, and by Layout.Encode for a clock sequence or a sequence that does
	// not fit.
	ErrInvalidID = errors.New("snowflake: invalid ID")

	// ErrInvalidLayout is returned if Layout.Validate refuses a layout: by Validate
	// itself, and by Layout.Encode, Layout.Range, Layout.Follows, New and NewLeased.
	ErrInvalidLayout = errors.New("snowflake: invalid layout")

	// ErrWorkerRange is returned by New, NewLeased and Layout.Encode for a
	// worker or datacenter that does not fit the layout. The error is a
	// [*FieldRangeError].
	ErrWorkerRange = errors.New("snowflake: worker out of range")

	// ErrInvalidOptions is returned by New and NewLeased for an option that is
	// out of its range or would have no effect, and by the methods of a Generator
	// that New or NewLeased did not make.
	ErrInvalidOptions = errors.New("snowflake: invalid options")

	// ErrInvalidRange is returned by Layout.Range when from is later than to.
	ErrInvalidRange = errors.New("snowflake: invalid range")

	// ErrOverlap is returned by Layout.Follows when an ID of the new layout can
	// be equal to or less than an ID of the old layout. The error is an
	// [*OverlapError].
	ErrOverlap = errors.New("snowflake: layouts overlap")
)

// ClockBackwardError says by how much the clock read earlier than the last ID
// when a call was refused, and whether the clock stands still. It matches
// [ErrClockBackward].
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

// Is reports whether target is [ErrClockBackward].
func (e *ClockBackwardError) Is(target error) bool { return target == ErrClockBackward }

// FieldRangeError says which field of an ID was given a value that its bits
// cannot hold. It matches [ErrWorkerRange] for a worker or a datacenter, and
// [ErrInvalidID] for a clock sequence or a sequence.
type FieldRangeError struct {
	Field string // "clock sequence", "datacenter", "worker" or "sequence"
	Value int    // what was given
	Max   int    // the largest that fits; the smallest is 0
}

func (e *FieldRangeError) Error() string {
	if e.Max == 0 {
		return fmt.Sprintf("snowflake: %s %d does not fit the layout, which has no bits for it: only 0 does", e.Field, e.Value)
	}
	return fmt.Sprintf("snowflake: %s %d does not fit the layout, which has room for 0 to %d", e.Field, e.Value, e.Max)
}

// Is reports whether target is the sentinel error of e's field.
func (e *FieldRangeError) Is(target error) bool {
	if e.Field == fieldWorker || e.Field == fieldDatacenter {
		return target == ErrWorkerRange
	}
	return target == ErrInvalidID
}

// LeaseExpiredError says which worker ID may no longer be stamped, since when and
// why. It matches [ErrLeaseExpired], and every error that Cause matches.
type LeaseExpiredError struct {
	Worker   int
	NotAfter time.Time // no ID is stamped at or past it: the end of the lease's window or, after a release, of the last tick stamped
	Time     time.Time // the timestamp that the next ID would have had
	Cause    error     // why the window was not extended, as the lease says it; nil if it does not say
	now      time.Time // the clock's reading
	stopped  bool      // for good
}

func (e *LeaseExpiredError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: ", ErrLeaseExpired)
	if e.Cause != nil {
		fmt.Fprintf(&b, "%s; ", strings.TrimPrefix(e.Cause.Error(), "lease: "))
	}
	fmt.Fprintf(&b, "worker %d ", e.Worker)
	switch {
	case e.stopped, e.Time.Before(e.NotAfter): // Time lies before NotAfter if both are in the tick of the last ID
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

// Is reports whether target is [ErrLeaseExpired].
func (e *LeaseExpiredError) Is(target error) bool { return target == ErrLeaseExpired }

// formatTime writes t with milliseconds, so that times of the common layouts
// line up. It writes more digits only if t has them.
func formatTime(t time.Time) string {
	if t.Nanosecond()%int(time.Millisecond) == 0 {
		return t.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return t.UTC().Format(time.RFC3339Nano)
}
