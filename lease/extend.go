package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// extend is snowflake.Terms.Extend. The renewing goroutine does one renewal for all calls
// that wait.
func (l *Lease) extend(ctx context.Context, g snowflake.Grant, now time.Time) error {
	early, begun := g.To.Sub(now), time.Now() // before g.To, the regular renewal comes
	since := l.Stats().Renewals
	for {
		wait := early - time.Since(begun)
		news, patience, err := l.answer(g, wait <= 0, since)
		if news == nil {
			return err
		}
		if wait <= 0 {
			wait = patience
		}
		if err := nap(ctx, wait, news); err != nil {
			return err
		}
	}
}

// answer returns what a call that needs more than g has to be told. If this is not known
// yet, it returns a channel that is closed when there is news. If the call is in a hurry,
// it also makes sure that a renewal or a replacement is under way, and returns for how long
// the call may wait.
func (l *Lease) answer(g snowflake.Grant, hurry bool, since uint64) (news <-chan struct{}, patience time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.Grant()
	switch {
	case is.Worker != g.Worker || is.ClockSeq != g.ClockSeq || !is.From.Equal(g.From) || is.To.After(g.To):
		return nil, 0, nil
	case l.err != nil:
		return nil, 0, l.err
	case !hurry:
		return l.news, 0, nil
	case l.failing != nil:
		return nil, 0, l.failing
	case l.loss == nil && l.stats.Renewals > since+1: // at least one renewal began after the call asked
		return nil, 0, &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: g.To, Now: l.o.now()}}
	}
	l.ask()
	if patience = l.patience(); patience <= 0 {
		return nil, 0, l.overdue()
	}
	return l.news, patience, nil
}

// patience returns for how long calls may still wait for more than the grant: a third of a
// window, from the first waiting call on. So a call that comes after others gave up does
// not begin anew. l.mu must be held.
func (l *Lease) patience() time.Duration {
	if g := l.grant.Load(); l.wanted != g {
		l.wanted, l.since = g, time.Now()
	}
	return l.o.Window/3 - time.Since(l.since)
}

func (l *Lease) ask() {
	select {
	case l.asked <- struct{}{}:
	default:
	}
}

// overdue returns why a call that has run out of patience got nothing. l.mu must be held.
func (l *Lease) overdue() error {
	if l.loss != nil {
		return fmt.Errorf("%w; no other worker ID was taken in its place within %v", l.loss, l.o.Window/3)
	}
	return fmt.Errorf("lease: the store did not answer within %v", l.o.Window/3)
}
