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
	patience := l.o.Window / 3
	hurry := !now.Before(g.To)
	limit := patience
	if !hurry {
		limit = g.To.Sub(now) // the regular renewal comes before
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	since := l.Stats().Renewals
	for {
		news, err := l.answer(g, hurry, since)
		if news == nil {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			if hurry {
				return l.overdue(patience)
			}
			hurry = true
			timer.Reset(patience)
		}
	}
}

// answer returns what there is to say to a call that needs more than g. As long as that
// is not known, it returns a channel that is closed when there is news; if the call
// is in a hurry, a renewal is under way then.
func (l *Lease) answer(g snowflake.Grant, hurry bool, since uint64) (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.Grant()
	switch {
	case is.Worker != g.Worker || is.ClockSeq != g.ClockSeq || !is.From.Equal(g.From) || is.To.After(g.To):
		return nil, nil
	case l.err != nil:
		return nil, l.err
	case !hurry:
		return l.news, nil
	case l.failing != nil:
		return nil, l.failing
	case l.loss == nil && l.stats.Renewals > since+1: // one of them was begun since
		return nil, &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: g.To, Now: l.o.now()}}
	}
	l.ask()
	return l.news, nil
}

// ask asks for a renewal at once.
func (l *Lease) ask() {
	select {
	case l.asked <- struct{}{}:
	default:
	}
}

// overdue is why a call that waited for so long got nothing.
func (l *Lease) overdue(waited time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failing != nil:
		return l.failing
	case l.loss != nil:
		return l.loss
	}
	return fmt.Errorf("lease: the store did not answer within %v", waited)
}
