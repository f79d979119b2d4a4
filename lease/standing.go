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

// standing is the state of the lease that answers calls. mu guards the other fields.
type standing struct {
	mu        sync.Mutex
	generator binding // zero if there is none yet
	stats     Stats
	wiped     bool // the store lost the record, and perhaps more that is not put back yet
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
	since  time.Time     // and the start of their wait
	news   chan struct{} // closed, and replaced, when an answer to waiting calls changes
}

// Stats is the state and the history of a Lease.
type Stats struct {
	Renewals     uint64 // renewals that succeeded, even if the bound did not move; not the acquisition
	Failures     uint64 // failures of a renewal, or of the replacement of a lost worker ID
	Replacements uint64 // lost worker IDs that were replaced
	Restored     uint64 // lost records that were put back

	LastError  error     // of the last renewal, with the error before a time-out; nil after a success
	Renewed    time.Time // the start of the last successful renewal, by this host's clock
	Bound      time.Time // the end of the times for which IDs may be issued
	WaitsUntil time.Time // the end of a wait because the store has lost its entries, or zero
	Away       error     // with LocalCopy, the store's error at the last renewal, or nil

	Unsafe []string // settings with which the store's engine may lose acknowledged writes

	Clock   ClockSync // the kernel's report on the clock
	Guarded bool      // the hypervisor reports clones of the machine (see Options.VMClock)
	Clones  uint64    // reported clones, after which the worker ID was given up
}

// wake wakes the calls that wait for news. mu must be held.
func (s *standing) wake() {
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
		s.wake()
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

// terms and binding connect a lease and the generator that it serves.
type (
	terms   = contract.Terms[snowflake.Layout]
	private = contract.Private[snowflake.Layout]
	binding = contract.Binding[snowflake.Layout]
)

// granted is a grant, and the machine's generation before the store was asked for its worker ID.
type granted struct {
	snowflake.Grant
	generation uint64
}
