package lease

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/tenure"
)

// renew moves the bound to a window from now. If the clock stepped back or leapt, it leaves
// the bound and only shows that the holder lives.
func (l *Lease) renew(ctx context.Context) error {
	now, begun := l.o.now(), machine.Now()
	err := l.advance(ctx)
	took := max(machine.Since(begun), l.o.now().Sub(now))
	// If the process itself stood still, the time says nothing about the store.
	paused := took > l.o.Window/3+l.o.Window/16
	l.note(begun, err, !paused && !errors.Is(err, ErrLost))
	return err
}

func (l *Lease) advance(ctx context.Context) error {
	t, err := l.take(ctx)
	if err != nil {
		return err
	}
	defer l.give(t)
	if l.cloned(t) {
		return errCloned
	}
	w := t.Window
	err = leaseError(t.Renew(l.renewing(ctx), l.accepted.Load()))
	l.known.horizon = t.Horizon
	if t.Granted && t.Window != w {
		l.grantWindow(t)
		l.mu.Lock()
		look := l.generator.Look
		l.mu.Unlock()
		if look != nil && t.Window.Above != w.Above {
			look()
		}
	}
	switch {
	case errors.Is(err, tenure.ErrRestored): // the bound is moved by the next renewal
		return nil
	case err == nil:
		l.accepted.Store(false)
	}
	return err
}

// note keeps the statistics, and answers the calls that asked for a renewal. If err is an
// error and final is false, they wait for the next renewal.
func (l *Lease) note(begun time.Time, err error, final bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.asked:
	default:
	}
	defer l.wake()
	if err == nil {
		l.stats.Renewals++
		l.stats.Renewed = begun
		l.stats.LastError, l.failing, l.cause = nil, nil, nil
		return
	}
	l.stats.Failures++
	l.blame(err, final, l.o.Window)
}
