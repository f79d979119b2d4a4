package lease

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/contract"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// standing is what calls are told of the lease. mu guards the other fields.
type standing struct {
	mu    sync.Mutex
	bound binding // the generator; zero if there is none yet
	stats Stats
	wiped bool // the store lost the record, and perhaps more that is not put back yet
	troubles
	waiting
	done chan struct{} // closed when err is set
}

// troubles are why no more IDs can be stamped.
type troubles struct {
	err     error     // why the lease ended
	loss    error     // why the granted worker ID was lost; nil again after another one is granted
	failing error     // why the last renewal failed; nil if it succeeded
	cause   error     // the last failure that was more than a time-out,
	caused  time.Time // and when it was
}

// waiting are the calls that wait for more than a grant.
type waiting struct {
	wanted *granted      // the grant,
	since  time.Time     // and since when they wait
	news   chan struct{} // closed, and made anew, when something changes that calls are told
}

// Stats says how a Lease is doing.
type Stats struct {
	Renewals     uint64 // renewals that succeeded, also those that left the bound where it was
	Failures     uint64 // how often a renewal, or the replacement of a lost worker ID, failed
	Replacements uint64 // lost worker IDs that were replaced
	Restored     uint64 // how often the store had lost the record, and it was put back

	// LastError is why the last renewal failed, nil if it succeeded. After a time-out it also has
	// the error before it.
	LastError error

	Renewed time.Time // when the last successful renewal began, by this host's clock
	Bound   time.Time // IDs may be issued for times before it

	// WaitsUntil is until when no worker ID is taken because the store has lost its entries. It is
	// zero if the lease does not wait for that.
	WaitsUntil time.Time

	// Away is why, with LocalCopy, the store did not get the last renewal; nil if it did.
	Away error

	// Unsafe has the settings with which the store's engine may lose acknowledged writes. It is nil
	// if there are none, or if the store was not asked.
	Unsafe []string

	Clock   ClockSync // what the kernel says of the clock now
	Guarded bool      // the hypervisor reports clones of the machine (see Options.VMClock)
	Clones  uint64    // how often it has reported one, and the worker ID was given up
}

// tell wakes the calls that wait for news. mu must be held.
func (s *standing) tell() {
	close(s.news)
	s.news = make(chan struct{})
}

// finish closes Done, once.
func (s *standing) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.done)
		s.tell()
	}
}

// trouble returns why there is no worker ID to change: the lease has ended, or its worker
// ID is being replaced.
func (s *standing) trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return s.loss
}

// renewed returns when the last successful renewal began.
func (s *standing) renewed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats.Renewed
}

// blame notes why no more IDs can be stamped. To a time-out it adds the last error that said more,
// if that was within the last window. mu must be held.
func (s *standing) blame(err error, final bool, window time.Duration) {
	switch {
	case !book.IsTimeout(err):
		s.cause, s.caused = err, machine.Now()
	case s.failing != nil && s.cause != nil && machine.Since(s.caused) < window:
		err = book.Once(fmt.Errorf("%w; the error before was: %w", err, s.cause))
	}
	if final || s.stats.LastError != nil {
		s.failing = err
	}
	s.stats.LastError = err
}

// unreplaced returns why no worker ID has taken the place of the lost one.
func unreplaced(lost, err error) error {
	return book.Once(fmt.Errorf("%w; it was not replaced: %w", lost, err))
}

// terms and binding are what a lease and the generator that it serves tell each other.
type (
	terms   = contract.Terms[snowflake.Layout]
	private = contract.Private[snowflake.Layout]
	binding = contract.Binding[snowflake.Layout]
)

// granted is a grant, and the machine's generation before the store was asked for its worker
// ID.
type granted struct {
	snowflake.Grant
	generation uint64
}
