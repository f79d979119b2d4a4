package lease

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/history"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/tenure"
)

// Errors match one of these, an error of package snowflake, the error of the caller's context, or
// an error of the store's engine.
var (
	// ErrExhausted is matched by the [*ExhaustedError] of Acquire.
	ErrExhausted = errors.New("lease: no worker ID is free")
	// ErrLayout is matched by the [*LayoutError] of Acquire, Init and snowflake.NewLeased.
	ErrLayout = errors.New("lease: another layout")
	// ErrClockLeap is matched by the [*ClockLeapError] of Acquire. Stats and the cause of a
	// snowflake.LeaseExpiredError match it while the clock is too far ahead.
	ErrClockLeap = errors.New("lease: the clock leapt forward")
	// ErrClockUnsynchronized is returned by Acquire if the clock's error may exceed MaxClockError.
	ErrClockUnsynchronized = errors.New("lease: the clock is not known to be right")
	// ErrWiped is returned by Acquire if its context ends during a wait because the store is new or
	// has lost entries, and by Watermark, ReadHistory and Holders during such a wait. Stats match it
	// while a lost worker ID cannot be replaced for this reason. The wait ends by itself.
	ErrWiped = book.ErrWiped
	// ErrInitialized is returned by Init if the store was opened, or used, before.
	ErrInitialized = errors.New("lease: the store is not new")
	// ErrInvalidOptions is returned by Acquire for an option that is out of its range, and by Ready,
	// Release and snowflake.NewLeased for a Lease that Acquire did not return; by History.Whois for a
	// History that ReadHistory did not return.
	ErrInvalidOptions = snowflake.ErrInvalidOptions
	// ErrInUse is returned by snowflake.NewLeased if the lease already serves a generator.
	ErrInUse = errors.New("lease: the lease already serves a generator")

	// ErrLost means that another process took the worker ID, or that its record was lost and may not
	// be put back. Stats and the cause of a snowflake.LeaseExpiredError match it until the worker ID
	// is replaced; with OnLoss: Stop, Lease.Err matches it too.
	ErrLost = protocol.ErrLost
	// ErrReleased is returned by Lease.Err after Release, and is the cause of the generator's errors.
	ErrReleased = errors.New("lease: released")

	// ErrNeverIssued is returned by Whois if no holder of a worker ID can have issued the ID.
	ErrNeverIssued = history.ErrNeverIssued
	// ErrForgotten is returned by Whois if the ID's issuer may have been dropped from the store's
	// history, or its record may have been lost.
	ErrForgotten = history.ErrForgotten
	// ErrNotReported is returned by Whois if an owner with a LocalCopy may have issued the ID, and
	// has not reported to the store yet, or never will (see Retire).
	ErrNotReported = history.ErrNotReported
	// ErrNotRetired is matched by the [*RetireError] of Retire.
	ErrNotRetired = errors.New("lease: the worker ID is not retired")

	// ErrBadRecord is returned if an entry of the store cannot be read; by the file store as a
	// [*FileError]. If the entry is a worker ID's record, the worker ID stays unused until the record
	// is repaired or removed by hand, and its holder takes another one. Other entries count as lost,
	// and are replaced. If you replace a record by an older one, IDs may repeat.
	ErrBadRecord = driver.ErrBadRecord
	ErrConflict  = driver.ErrConflict // see package driver
	ErrAway      = driver.ErrAway     // see package driver
	ErrRefused   = driver.ErrRefused  // see package driver
)

// ExhaustedError is the error of Acquire if no worker ID of the range came free in one and a half
// of the longest windows. It matches [ErrExhausted].
type ExhaustedError struct {
	First, Last int           // the range
	Holders     []Holder      // the holders, by worker; if Owner is set, the owner's alone
	Owner       string        // with ReuseKeep, an owner that has a worker ID already; otherwise ""
	Lost        map[int]error // the unusable worker IDs, whose records are lost or cannot be read
}

func (e *ExhaustedError) Error() string {
	const most = 8
	var b strings.Builder
	fmt.Fprintf(&b, "%v, of %d to %d", ErrExhausted, e.First, e.Last)
	if e.Owner != "" {
		fmt.Fprintf(&b, "; owner %s already keeps one", e.Owner)
	}
	sep := ": "
	for i, r := range e.Holders {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(e.Holders)-most)
			break
		}
		fmt.Fprintf(&b, "%s%v", sep, r)
		sep = "; "
	}
	if len(e.Lost) > 0 {
		worker := slices.Min(slices.Collect(maps.Keys(e.Lost)))
		fmt.Fprintf(&b, "%s%d unusable, such as worker %d: %v", sep, len(e.Lost), worker, e.Lost[worker])
	}
	return b.String()
}

func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// LayoutError reports a store, record or generator with another layout or epoch than the lease. It
// matches [ErrLayout].
type LayoutError struct {
	Worker    int    // the record's worker ID, or -1 for the whole store
	Where     string // "the store" or "the generator's options"
	Has, Want snowflake.Layout
}

// foreign returns the error for a store, or the record of a worker ID, with another layout.
func foreign(worker int, has, want snowflake.Layout) error {
	return &LayoutError{Worker: worker, Where: "the store", Has: has, Want: want}
}

func (e *LayoutError) Error() string {
	what := e.Where
	if e.Worker >= 0 {
		what = fmt.Sprintf("worker %d", e.Worker)
		if e.Where != "" {
			what += " in " + e.Where
		}
	}
	return fmt.Sprintf("%v: %s has %v, not %v", ErrLayout, what, e.Has, e.Want)
}

func (e *LayoutError) Is(target error) bool { return target == ErrLayout }

// ClockLeapError reports a bound that is too far ahead. It matches [ErrClockLeap].
type ClockLeapError struct {
	Worker   int
	Bound    time.Time     // the refused bound
	Expected time.Time     // the bound by the store's clock or the monotonic clock
	MaxLeap  time.Duration // Options.MaxLeap, the largest Bound - Expected
}

func (e *ClockLeapError) Error() string {
	return fmt.Sprintf("%v: worker %d would stamp up to %s, %v ahead of %s; MaxLeap allows %v",
		ErrClockLeap, e.Worker, times.Text(e.Bound), e.Bound.Sub(e.Expected).Round(time.Millisecond), times.Text(e.Expected), e.MaxLeap)
}

// leaseError returns err. If it is the error of a tenure, it becomes one of this package.
func leaseError(err error) error {
	if of, ok := err.(*tenure.LeapError); ok {
		return (*ClockLeapError)(of)
	}
	return err
}

func (e *ClockLeapError) Is(target error) bool { return target == ErrClockLeap }
