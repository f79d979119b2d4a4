package snowflake

import (
	"context"
	"errors"
	"time"
)

// Stats counts what a Generator has done since it was made.
type Stats struct {
	Issued   uint64        // IDs issued
	Waits    uint64        // waits of calls, for the next tick or for the clock
	Waited   time.Duration // the sum of these waits: ten calls that wait one second add ten
	Backward uint64        // calls of the policy
	Bumps    uint64        // changes of the clock sequence
	Rewinds  uint64        // steps back to an earlier tick
	Borrowed uint64        // ticks entered ahead of the clock

	// Refused counts calls that returned an error: each once, in the first field that it matches.
	Refused struct {
		ClockBackward uint64 // ErrClockBackward
		LeaseExpired  uint64 // ErrLeaseExpired
		TimeExhausted uint64 // ErrTimeExhausted
		BeforeEpoch   uint64 // ErrBeforeEpoch
		Deadline      uint64 // context.DeadlineExceeded
		Canceled      uint64 // context.Canceled
		Other         uint64 // another error, such as a lease's
	}
}

// Stats returns the generator's counters.
func (g *Generator) Stats() Stats {
	if g == nil {
		return Stats{}
	}
	g.lock()
	defer g.unlock()
	var s Stats
	if g.counted != nil {
		s = *g.counted
	}
	s.Issued = g.seq.issued()
	return s
}

// refuse counts err, the error of a call, unless it is nil. It returns err.
func (g *Generator) refuse(err error) error {
	if err == nil {
		return nil
	}
	g.mu.Lock()
	s := g.counts()
	g.mu.Unlock()
	n := s.refused(err) // without the lock, because err may be a lease's, with methods of its own
	g.mu.Lock()
	*n++
	g.mu.Unlock()
	return err
}

// counts returns g.counted, and makes it if it is nil. g.mu must be held.
func (g *Generator) counts() *Stats {
	if g.counted == nil {
		g.counted = new(Stats)
	}
	return g.counted
}

// refused returns the field of s.Refused that counts err. An expired lease comes before a deadline, because a
// deadline of its store may be the cause.
func (s *Stats) refused(err error) *uint64 {
	switch r := &s.Refused; {
	case errors.Is(err, ErrClockBackward):
		return &r.ClockBackward
	case errors.Is(err, ErrLeaseExpired):
		return &r.LeaseExpired
	case errors.Is(err, ErrTimeExhausted):
		return &r.TimeExhausted
	case errors.Is(err, ErrBeforeEpoch):
		return &r.BeforeEpoch
	case errors.Is(err, context.DeadlineExceeded):
		return &r.Deadline
	case errors.Is(err, context.Canceled):
		return &r.Canceled
	}
	return &s.Refused.Other
}
