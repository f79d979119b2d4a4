package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// served is a Lease with the methods that only the generator that it serves calls.
type served struct{ *Lease }

// Extend waits for a later end of the window than g.To, or for another worker ID: see
// [snowflake.Extender].
func (l served) Extend(ctx context.Context, g snowflake.Grant, now time.Time) error {
	// The renewing goroutine does one renewal for all calls that wait.
	early, begun := g.To.Sub(now), machine.Now() // until g.To, the regular renewal will do
	if l.generation() != l.grant.Load().generation {
		early = 0
	}
	l.mu.Lock()
	since := l.stats.Renewals
	l.mu.Unlock()
	for {
		wait := early - machine.Since(begun)
		news, patience, err := l.answer(g, wait <= 0, since)
		if news == nil {
			return err
		}
		if wait <= 0 {
			wait = patience
		}
		if err := machine.Nap(ctx, wait, news); err != nil {
			return err
		}
	}
}

// answer returns the result for a call that needs more than g. If it is not known yet, answer
// returns a channel that is closed when there is news. If hurry is set, answer also makes sure that
// a renewal or a replacement is under way, and returns how long the call may wait: all calls that
// need more than a grant wait for a third of a window at most, from the first of them on.
func (l *Lease) answer(g snowflake.Grant, hurry bool, since uint64) (news <-chan struct{}, patience time.Duration, err error) {
	now := l.o.now() // before the lock, because the clock may be the user's and take long
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.grant.Load()
	switch {
	case is.Worker != g.Worker || is.ClockSeq != g.ClockSeq || !is.From.Equal(g.From) || is.To.After(g.To):
		return nil, 0, nil
	case l.err != nil:
		return nil, 0, l.err
	case !hurry:
		return l.news, 0, nil
	case l.failing != nil:
		return nil, 0, l.failing
	case l.loss == nil && l.stats.Renewals > since+1:
		// At least one renewal began after the call asked.
		return nil, 0, &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: g.To, Now: now}}
	}
	l.ask()
	// After a leap of the clock, a renewal saves the same end again, and the calls continue to wait.
	// If no call has waited for a long time, the process was paused.
	if l.wanted == nil || !l.wanted.To.Equal(is.To) || machine.Since(l.since) > l.o.Window*2/3 {
		l.wanted, l.since = is, machine.Now()
	}
	patience = l.o.Window/3 - machine.Since(l.since)
	switch {
	case patience > 0:
		return l.news, patience, nil
	case l.loss != nil:
		return nil, 0, fmt.Errorf("%w; no other worker ID was taken in its place within %v", l.loss, l.o.Window/3)
	}
	return nil, 0, fmt.Errorf("lease: the store did not answer within %v", l.o.Window/3)
}

func (l *Lease) ask() {
	select {
	case l.asked <- struct{}{}:
	default:
	}
}
