package lease

import (
	"context"
	"errors"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// lose notes that the worker ID is lost. Unless two windows overlap or the machine was cloned, the
// rest of the window may still be stamped, because the next holder's begins after it.
func (l *Lease) lose(lost error) {
	t := <-l.slot
	r := t.Record
	l.known.lost[r.Worker] = r.WithBoundsOf(l.known.lost[r.Worker])
	l.known.passed = t.Passed
	var over *protocol.Overlap
	overlaps := errors.As(lost, &over)
	cloned := l.cloned(t)
	if cloned {
		l.countClone()
	}
	stop := overlaps || cloned
	if stop {
		l.log.cut = times.Earlier(l.Grant().To, l.o.now())
		none := *l.grant.Load()
		none.To = none.From
		l.grant.Store(&none)
	}
	l.mu.Lock()
	look := l.generator.Look
	l.loss, l.failing, l.cause = lost, nil, nil
	l.wake()
	l.mu.Unlock()
	l.give(nil)
	if stop && look != nil {
		look()
	}
	l.log.lost(l, r.Worker, lost)
	if overlaps {
		l.log.overlaps(l, r.Worker, over)
	}
}

// replace takes another worker ID in place of the lost one, for as long as that takes. It
// returns nil when the new worker ID is granted, and an error when ctx is done.
func (l *Lease) replace(ctx context.Context, lost error) error {
	backoff := l.o.Window / 100
	for {
		err := l.obtain(ctx)
		if err == nil {
			l.grantReplacement()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if l.torn(err) {
			l.countClone()
			l.finish(err)
			return err
		}
		l.note(machine.Now(), unreplaced(lost, err), true)
		l.log.unreplaced(l, err)
		if err := machine.Sleep(ctx, machine.Jittered(toEnd(backoff, l.Grant().To, l.o.now()))); err != nil {
			return err
		}
		backoff = min(2*backoff, l.o.Window)
	}
}

func (l *Lease) grantReplacement() {
	before := l.Worker()
	l.grantFirst()
	l.log.replaced(l, before)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loss, l.failing, l.cause, l.stats.LastError = nil, nil, nil, nil
	l.stats.Replacements++
	l.wake()
}
