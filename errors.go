package snowflake

import "errors"

// Every error of this package matches one of these with [errors.Is], or is the error of
// the caller's context.
var (
	// NextID, NextIDContext and Fill return ErrClockBackward, as a [*ClockBackwardError], if the
	// clock reads earlier than the last ID, or stands still, and the policy could not or would not
	// go on.
	ErrClockBackward = errors.New("snowflake: clock went backward")
	// New, NewLeased, NextID, NextIDContext and Fill return ErrTimeExhausted if the clock is past
	// the end of the layout's time bits; Encode, Range and Follows, if a time is.
	ErrTimeExhausted = errors.New("snowflake: layout has run out of time")
	// The same functions, except Follows, return ErrBeforeEpoch if the time is before the layout's
	// epoch.
	ErrBeforeEpoch = errors.New("snowflake: time before the epoch")
	// NextID, NextIDContext and Fill return ErrLeaseExpired, as a [*LeaseExpiredError], if the next
	// ID would lie at or past the end of the span that the lease grants, and the lease does not
	// extend it. It can also match context.DeadlineExceeded, if a store did not answer: so test for
	// ErrLeaseExpired first.
	ErrLeaseExpired = errors.New("snowflake: lease expired")
	// The Parse functions, the Unmarshal methods and Scan return ErrInvalidID if a text or a value
	// is not the canonical form of an ID; the methods that write an ID, if it is negative; Check,
	// and New for Options.After, if the ID is not of the layout; Encode, if a clock sequence or a
	// sequence does not fit; a Generator's methods, if the clock sequence that its lease grants
	// does not.
	ErrInvalidID = errors.New("snowflake: invalid ID")
	// Validate, Encode, Range, Follows, New and NewLeased return ErrInvalidLayout if a layout is
	// not valid.
	ErrInvalidLayout = errors.New("snowflake: invalid layout")
	// New, NewLeased and Encode return ErrWorkerRange, as a [*FieldRangeError], if a worker or
	// datacenter does not fit; NextID, NextIDContext and Fill, if the worker ID that the lease
	// grants does not.
	ErrWorkerRange = errors.New("snowflake: worker out of range")
	// New and NewLeased return ErrInvalidOptions if an option is out of its range or would have no
	// effect; the methods of a Generator return it if the Generator was not made by them.
	ErrInvalidOptions = errors.New("snowflake: invalid options")
	// Range returns ErrInvalidRange if from is later than to.
	ErrInvalidRange = errors.New("snowflake: invalid range")
	// Follows returns ErrOverlap, as an [*OverlapError], if a new ID can be equal to or less than
	// an old ID.
	ErrOverlap = errors.New("snowflake: layouts overlap")
)
