package snowflake

import "errors"

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
