package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// Ready returns nil if a call to the generator would return an ID now, or after a wait for the
// clock; before NewLeased, it looks at the lease alone. Otherwise it returns a [*NotReadyError] or,
// if the layout has run out of time or begins later, the generator's error. It issues no ID and
// does not wait for the store. Answer a readiness probe with it, but do not restart the process
// because of it, unless the lease has ended.
func (l *Lease) Ready() error {
	if l == nil || l.grant.Load() == nil {
		return errZero
	}
	now := l.o.now()
	l.mu.Lock()
	ready := l.generator.Ready
	l.mu.Unlock()
	if ready == nil {
		ready = func() error { return l.unbound(now) }
	}
	err := ready()
	if expired := new(*snowflake.LeaseExpiredError); errors.As(err, expired) {
		return l.explain(*expired)
	}
	if behind := new(*snowflake.ClockBackwardError); errors.As(err, behind) {
		return &NotReadyError{err, fmt.Sprintf("IDs are issued again in %v, when the clock has caught up, or sooner if it is set right",
			(*behind).By().Round(time.Millisecond))}
	}
	return err
}

// unbound is contract.Binding.Ready if the lease has no generator.
func (l *Lease) unbound(now time.Time) error {
	switch g := l.Grant(); {
	case l.Err() != nil || !now.Before(g.To) || l.generation() != l.grant.Load().generation:
		return &snowflake.LeaseExpiredError{Worker: g.Worker, NotAfter: g.To, Time: now}
	case now.Before(g.From):
		return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: g.From, Now: now}}
	}
	return nil
}

// explain adds to an error the reason why the lease grants no more, and the end of that, with what
// would bring it sooner.
func (l *Lease) explain(expired *snowflake.LeaseExpiredError) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	cloned := l.generation() != l.grant.Load().generation
	switch {
	case l.err != nil:
		expired.Cause = l.err
		return &NotReadyError{expired, "the lease has ended for good: acquire another one, or restart the process"}
	case l.failing != nil:
		expired.Cause = l.failing
	case l.loss != nil:
		expired.Cause = l.loss
	case cloned:
		expired.Cause = errCloned
	case l.stats.LastError != nil:
		expired.Cause = l.stats.LastError
	default:
		expired.Cause = errPaused
	}
	return &NotReadyError{expired, l.mends(expired.Cause)}
}

var errPaused = errors.New("lease: the process stood still, and has not renewed its lease since")

// mends says when IDs are issued again after err, and what would shorten that. l.mu must be held.
func (l *Lease) mends(err error) string {
	left := l.stats.WaitsUntil.Sub(machine.Now())
	switch {
	case err == errPaused:
		return fmt.Sprintf("a call renews the lease at once, or the lease does so itself within %v", l.o.Window/3)
	case errors.Is(err, ErrClockLeap):
		return l.shown.Load().horizon.Mends(l.o.MaxLeap)
	case errors.Is(err, ErrBadRecord), errors.Is(err, ErrLayout):
		return retries(err)
	case left > 0:
		return fmt.Sprintf("this wait ends by itself, in %v", left.Round(time.Second))
	case errors.Is(err, ErrExhausted):
		return "a worker ID comes free when a holder releases it, or a window after a holder's crash"
	case errors.Is(err, ErrLost):
		return fmt.Sprintf("a worker ID is taken in its place as soon as the store has one, which is asked at least every %v", l.o.Window)
	}
	return fmt.Sprintf("IDs are issued again as soon as the store answers, which is asked at least every %v", l.o.Window/3)
}

// NotReadyError is the error of [Lease.Ready]. It matches the error of a call to the generator,
// such as [snowflake.ErrLeaseExpired] or [snowflake.ErrClockBackward], and the cause:
// [ErrReleased], [ErrLost], [ErrClockLeap], [ErrWiped] or the store's error.
type NotReadyError struct {
	Err error // the error of a call to the generator, which may name users and hosts of the store

	// Next says when IDs are issued again, and what would shorten that. It names no users and hosts.
	Next string
}

func (e *NotReadyError) Error() string { return e.Err.Error() + "; " + e.Next }

func (e *NotReadyError) Unwrap() error { return e.Err }
