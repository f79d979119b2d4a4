package snowflake

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Every error of this package matches one of these with [errors.Is], or is the error of
// the caller's context.
var (
	// NextID, NextIDContext and Fill return ErrClockBackward, as a [*ClockBackwardError], if the clock
	// reads earlier than the last ID, or stands still, and the policy could not or would not go on.
	ErrClockBackward = errors.New("snowflake: clock went backward")
	// New, NewLeased, NextID, NextIDContext and Fill return ErrTimeExhausted if the clock is past the
	// end of the layout's time bits; Encode, Range and Follows, if a time is.
	ErrTimeExhausted = errors.New("snowflake: layout has run out of time")
	// The same functions, except Follows, return ErrBeforeEpoch if the time is before the layout's
	// epoch.
	ErrBeforeEpoch = errors.New("snowflake: time before the epoch")
	// NextID, NextIDContext and Fill return ErrLeaseExpired, as a [*LeaseExpiredError], if the next ID
	// would lie at or past the end of the time span that the lease grants, and the lease does not extend
	// it. If the lease's store did not answer in time, the error can also match
	// context.DeadlineExceeded: so test for ErrLeaseExpired first.
	ErrLeaseExpired = errors.New("snowflake: lease expired")
	// The Parse functions, the Unmarshal methods and Scan return ErrInvalidID if a text or a value is
	// not the canonical form of an ID; the methods that write an ID, if it is negative; Check, and New
	// for Options.After, if the ID is not of the layout; Encode, if a clock sequence or a sequence does
	// not fit.
	ErrInvalidID = errors.New("snowflake: invalid ID")
	// Validate, Encode, Range, Follows, New and NewLeased return ErrInvalidLayout if a layout is not
	// valid.
	ErrInvalidLayout = errors.New("snowflake: invalid layout")
	// New, NewLeased and Encode return ErrWorkerRange, as a [*FieldRangeError], if a worker or
	// datacenter does not fit.
	ErrWorkerRange = errors.New("snowflake: worker out of range")
	// New and NewLeased return ErrInvalidOptions if an option is out of its range or would have no
	// effect; the methods of a Generator return it if the Generator was not made by them.
	ErrInvalidOptions = errors.New("snowflake: invalid options")
	// Range returns ErrInvalidRange if from is later than to.
	ErrInvalidRange = errors.New("snowflake: invalid range")
	// Follows returns ErrOverlap, as an [*OverlapError], if a new ID can be equal to or less than an old
	// ID.
	ErrOverlap = errors.New("snowflake: layouts overlap")
)

// ClockBackwardError is what the policy was told. It matches [ErrClockBackward].
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

// The fields' names in errors.
const (
	fieldClockSeq   = "clock sequence"
	fieldDatacenter = "datacenter"
	fieldWorker     = "worker"
	fieldSequence   = "sequence"
)

// FieldRangeError says which field of an ID was given a value that does not fit. It
// matches [ErrWorkerRange] for a worker or a datacenter, and [ErrInvalidID] for a clock
// sequence or a sequence.
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

func (e *FieldRangeError) Is(target error) bool {
	if e.Field == fieldWorker || e.Field == fieldDatacenter {
		return target == ErrWorkerRange
	}
	return target == ErrInvalidID
}

// LeaseExpiredError says which worker ID may no longer be stamped. It matches
// [ErrLeaseExpired] and what Cause matches.
type LeaseExpiredError struct {
	Worker   int
	NotAfter time.Time // no ID is stamped at or past it: the end of the lease's window or, after a release, of the last tick stamped
	Time     time.Time // the timestamp that the next ID would have had
	Cause    error     // why the window was not extended, as the lease says it; nil if it does not say
	now      time.Time // the clock's reading
	stopped  bool      // for good
	unused   bool      // and nothing was stamped
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

func (e *LeaseExpiredError) Is(target error) bool { return target == ErrLeaseExpired }

// formatTime writes t with milliseconds, so that times of the common layouts
// line up. It writes more digits only if t has them.
func formatTime(t time.Time) string {
	if t.Nanosecond()%int(time.Millisecond) == 0 {
		return t.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return t.UTC().Format(time.RFC3339Nano)
}
