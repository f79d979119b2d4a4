package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// extend is snowflake.Terms.Extend. The renewing goroutine does the renewal, one
// for all calls that wait.
func (l *Lease) extend(ctx context.Context, g snowflake.Grant, now time.Time) error {
	early, begun := g.To.Sub(now), time.Now() // before g.To comes the regular renewal
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

// answer returns what there is to say to a call that needs more than g. As long as that
// is not known, it returns a channel that is closed when there is news; if the call
// is in a hurry, a renewal is under way then, or a replacement, and patience is for how
// long the call may wait.
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
	case l.loss == nil && l.stats.Renewals > since+1: // one of them was begun since
		return nil, 0, &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: g.To, Now: l.o.now()}}
	}
	if patience = l.patience(); patience <= 0 {
		return nil, 0, l.overdue()
	}
	l.ask()
	return l.news, patience, nil
}

// patience returns for how long calls may still wait for more than the grant: a third of a
// window, which begins with the first of them. So a call that comes after others
// gave up does not begin anew. l.mu must be held.
func (l *Lease) patience() time.Duration {
	if g := l.grant.Load(); l.wanted != g {
		l.wanted, l.since = g, time.Now()
	}
	return l.o.Window/3 - time.Since(l.since)
}

// ask asks for a renewal at once.
func (l *Lease) ask() {
	select {
	case l.asked <- struct{}{}:
	default:
	}
}

// overdue is why a call that has run out of patience got nothing. l.mu must be held.
func (l *Lease) overdue() error {
	if l.loss != nil {
		return fmt.Errorf("%w; it is being replaced, and was not within %v", l.loss, l.o.Window/3)
	}
	return fmt.Errorf("lease: the store did not answer within %v", l.o.Window/3)
}
