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
	"github.com/seed-5394e6b1/snowflake/lease/internal/hold"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Errors of this package match one of the following, ErrConflict, an error of package
// snowflake, the error of the caller's context, or an error of the store's engine.
var (
	// ErrExhausted is returned by Acquire if no worker ID of the range came free within one and a
	// half times the longest window. The error is an [*ExhaustedError].
	ErrExhausted = errors.New("lease: no worker ID is free")

	// ErrLost means that another process took the worker ID, or that its record was lost and
	// may not be put back. Stats and the cause of a snowflake.LeaseExpiredError match it until
	// the worker ID is replaced; with OnLoss: Stop, Lease.Err matches it too.
	ErrLost = protocol.ErrLost

	// ErrReleased is returned by Lease.Err after Release. It is also the cause of the
	// snowflake.LeaseExpiredError that the generator returns after Release.
	ErrReleased = errors.New("lease: released")

	// ErrBadRecord is returned by Acquire, and by a Store's methods, if an entry cannot be
	// read. The error of the file store is a [*FileError], which names the file. A record
	// that cannot be read never counts as empty: its worker ID is unusable until it is
	// repaired or removed by hand, and its holder takes another one. Other entries that cannot be
	// read count as lost, and are replaced. IDs may repeat if you replace a record by an older one
	// after which the worker ID was used.
	ErrBadRecord = driver.ErrBadRecord

	// ErrWiped is matched by the error of Acquire if its context ends while it waits because
	// the store is new or has lost entries, and by the error in Stats while a lost worker ID cannot
	// be replaced for this reason. The wait ends by itself. Watermark, ReadHistory and Holders
	// return it, too.
	ErrWiped = book.ErrWiped

	// ErrNeverIssued is returned by Whois if no holder of a worker ID can have issued the ID.
	ErrNeverIssued = history.ErrNeverIssued

	// ErrForgotten is returned by Whois if the ID's issuer may have been dropped from the
	// store's history, or if its record may have been lost.
	ErrForgotten = history.ErrForgotten

	// ErrNotReported is returned by Whois if an owner with a LocalCopy may have issued the ID, and
	// has not reported to the store yet, or never will (see Retire).
	ErrNotReported = history.ErrNotReported

	// ErrLayout is returned by Acquire if the store has another layout or epoch, and by
	// snowflake.NewLeased for another layout than the lease's. The error is a [*LayoutError].
	ErrLayout = errors.New("lease: another layout")

	// ErrClockLeap is returned by Acquire, and matched by the errors in Stats and by the
	// cause of a snowflake.LeaseExpiredError, while the clock is too far ahead. The error
	// is a [*ClockLeapError].
	ErrClockLeap = errors.New("lease: the clock leapt forward")

	// ErrInvalidOptions is returned by Acquire for an option that is out of its range, and
	// by snowflake.NewLeased for a Lease that Acquire did not return. It is snowflake's.
	ErrInvalidOptions = snowflake.ErrInvalidOptions

	// ErrInUse is returned by snowflake.NewLeased if the lease already serves a generator.
	ErrInUse = errors.New("lease: the lease already serves a generator")
)

// ExhaustedError says who holds the worker IDs of the range. It matches [ErrExhausted].
type ExhaustedError struct {
	First, Last int      // the first and the last worker ID of the range
	Holders     []Holder // by worker; if Owner is set, only the holder of the owner's worker ID

	// Owner is set with ReuseKeep if this owner already has a worker ID: it gets no second one.
	Owner string

	// Lost has the worker IDs of the range that are unusable, and why: the record is lost or cannot
	// be read.
	Lost map[int]error
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

// Is reports whether target is [ErrExhausted].
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// LayoutError says which record, or generator, has another layout than the lease. It
// matches [ErrLayout].
type LayoutError struct {
	Worker    int    // -1: the store has one layout for all worker IDs
	Where     string // the store, or the generator's options
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

// Is reports whether target is [ErrLayout].
func (e *LayoutError) Is(target error) bool { return target == ErrLayout }

// ClockLeapError says how far a bound would lie ahead of the expected time. It matches
// [ErrClockLeap].
type ClockLeapError struct {
	Worker   int
	Bound    time.Time     // the bound that was refused: IDs would have been issued up to it
	Expected time.Time     // the bound by the store's clock, or by the time that has passed
	MaxLeap  time.Duration // Options.MaxLeap: how far Bound may lie after Expected
}

func (e *ClockLeapError) Error() string {
	return fmt.Sprintf("%v: worker %d would stamp up to %s, %v ahead of %s; MaxLeap allows %v",
		ErrClockLeap, e.Worker, times.Text(e.Bound), e.Bound.Sub(e.Expected).Round(time.Millisecond), times.Text(e.Expected), e.MaxLeap)
}

// leaseError returns err. If it is the error of a hold, it becomes one of this package.
func leaseError(err error) error {
	if of, ok := err.(*hold.LeapError); ok {
		return (*ClockLeapError)(of)
	}
	return err
}

// Is reports whether target is [ErrClockLeap].
func (e *ClockLeapError) Is(target error) bool { return target == ErrClockLeap }
