package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Errors of this package match one of these, ErrConflict, an error of package
// snowflake, that of the caller's context, or that of the store's engine.
var (
	// ErrExhausted is returned by Acquire when no worker ID of the range came
	// free within a window. The error is an [*ExhaustedError].
	ErrExhausted = errors.New("lease: no worker ID is free")

	// ErrLost says that another process took the worker ID, or that its record was
	// removed. Stats and the cause of a snowflake.LeaseExpiredError match it until
	// the worker ID is replaced, and so does Lease.Err with OnLoss: Stop. Acquire
	// never returns it: it tries again.
	ErrLost = errors.New("lease: lost")

	// ErrReleased is what Lease.Err returns after Release, and the cause of the
	// snowflake.LeaseExpiredError that the generator's calls return then.
	ErrReleased = errors.New("lease: released")

	// ErrBadRecord is returned by Acquire, and by a Store's methods, for a
	// record that cannot be read. The error of the file store is a
	// [*FileError], which names the file. Nothing is ever taken for empty
	// because it cannot be read: repair or remove the record by hand, and only
	// when its worker ID has not been used since what you replace it with.
	ErrBadRecord = errors.New("lease: bad record")

	// ErrWiped is returned by Acquire, by a Store's methods and in Stats if the
	// store has lost records that were in use. What was issued under them is not
	// known any more, so nothing is issued until somebody who knows it repairs
	// the store, as its package says. If only some are lost, and the store can tell
	// which, Acquire takes other worker IDs, and so does the holder when its window has
	// ended: see Snapshot.Lost.
	ErrWiped = errors.New("lease: the store has lost its records")

	// ErrNeverIssued is returned by Whois for an ID that no holder of a worker
	// ID can have issued.
	ErrNeverIssued = errors.New("lease: nobody can have issued it")

	// ErrForgotten is returned by Whois for an ID whose issuer is no longer in
	// the store's history.
	ErrForgotten = errors.New("lease: its issuer is forgotten")

	// ErrUntold is returned by Whois for an ID that the owner of the worker ID may have
	// issued while the store was away: it has a LocalCopy, and has not told the store yet.
	ErrUntold = errors.New("lease: the store was not told of its issuer yet")

	// ErrAway is what a Store's errors may match if the store cannot answer now and will
	// soon, as when it restarts: Acquire then tries again. Connections that are refused,
	// break or time out need no such mark.
	ErrAway = errors.New("lease: the store is away")

	// ErrLayout is returned by Acquire for a store whose records are of another
	// layout or epoch, and by snowflake.NewLeased for options with another
	// layout than the lease's. The error is a [*LayoutError].
	ErrLayout = errors.New("lease: another layout")

	// ErrClockLeap is what Acquire returns, and Stats and the cause of a
	// snowflake.LeaseExpiredError match, while a bound would lie too far ahead.
	// The error is a [*ClockLeapError].
	ErrClockLeap = errors.New("lease: the clock leapt forward")

	// ErrInvalidOptions is returned by Acquire for an option that is out of its
	// range, and by snowflake.NewLeased for a Lease that Acquire did not return.
	ErrInvalidOptions = errors.New("lease: invalid options")

	// ErrInUse is returned by snowflake.NewLeased for a lease that serves a
	// generator already.
	ErrInUse = errors.New("lease: it serves a generator already")
)

// ExhaustedError says who holds the worker IDs of the range. It matches
// [ErrExhausted].
type ExhaustedError struct {
	First, Last int      // the range
	Records     []Record // of the range, by worker; where Owner is set, its own
	Owner       string   // with ReuseKeep: who has a worker ID already, and gets no second one
}

func (e *ExhaustedError) Error() string {
	const most = 8
	var b strings.Builder
	fmt.Fprintf(&b, "%v, of %d to %d", ErrExhausted, e.First, e.Last)
	if e.Owner != "" {
		fmt.Fprintf(&b, ", for %s, who keeps one already", e.Owner)
	}
	sep := ": "
	for i, r := range e.Records {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(e.Records)-most)
			break
		}
		fmt.Fprintf(&b, "%s%v", sep, r)
		sep = "; "
	}
	return b.String()
}

// Is reports whether target is [ErrExhausted].
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// LayoutError says which record, or generator, has another layout than the
// lease. It matches [ErrLayout].
type LayoutError struct {
	Worker    int
	Where     string // the record's file, under the file store, or the generator's options
	Has, Want snowflake.Layout
}

func (e *LayoutError) Error() string {
	where := ""
	if e.Where != "" {
		where = " in " + e.Where
	}
	return fmt.Sprintf("%v: worker %d%s has %v, not %v", ErrLayout, e.Worker, where, e.Has, e.Want)
}

// Is reports whether target is [ErrLayout].
func (e *LayoutError) Is(target error) bool { return target == ErrLayout }

// ClockLeapError says how far ahead a bound would lie of what the store's clock,
// or the time that has passed, lets expect. It matches [ErrClockLeap].
type ClockLeapError struct {
	Worker   int
	Bound    time.Time     // what was refused
	Expected time.Time     // what it may be, without MaxLeap
	MaxLeap  time.Duration // Options.MaxLeap
}

func (e *ClockLeapError) Error() string {
	return fmt.Sprintf("%v: worker %d would stamp up to %s, %v ahead of %s; MaxLeap allows %v",
		ErrClockLeap, e.Worker, formatTime(e.Bound), e.Bound.Sub(e.Expected).Round(time.Millisecond), formatTime(e.Expected), e.MaxLeap)
}

// Is reports whether target is [ErrClockLeap].
func (e *ClockLeapError) Is(target error) bool { return target == ErrClockLeap }

// FileError names the file that the file store could not use. It unwraps to the
// reason: [ErrBadRecord], or what the operating system said.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string {
	err := e.Err
	if of := (*fs.PathError)(nil); errors.As(err, &of) && of == err && of.Path == e.Path {
		err = fmt.Errorf("%s: %w", of.Op, of.Err) // the path is said already
	}
	return once(fmt.Errorf("lease: file %s: %w", e.Path, err)).Error()
}

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

// once returns err, whose text says "lease: " only once, though errors of this package
// wrap one another.
func once(err error) error { return onceError{err} }

type onceError struct{ error }

func (e onceError) Error() string { return strings.ReplaceAll(e.error.Error(), ": lease: ", ": ") }

func (e onceError) Unwrap() error { return e.error }
