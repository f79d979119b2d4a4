package lease

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// CanBump reports whether Bump can change the clock sequence now: see [snowflake.Bumper].
func (l served) CanBump(now time.Time) bool {
	is := l.shown.Load()
	if is == nil || is.record.Worker != l.Worker() {
		return false // it is being replaced
	}
	_, from := is.record.Start(now)
	return !from.After(now) && !is.passed.After(now)
}

// Bump changes the clock sequence of the grant g, and records the change: see [snowflake.Bumper].
// It waits for the store for up to two thirds of a window, because it saves and then looks.
func (l served) Bump(ctx context.Context, g snowflake.Grant, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.Window*2/3)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	if l.generation() != l.grant.Load().generation {
		// Another copy of the machine may have the worker ID, and save its record.
		return l.Extend(ctx, g, now)
	}
	t, err := l.take(ctx)
	if err != nil {
		return cmp.Or(l.trouble(), err)
	}
	defer l.give(t)
	if is := l.Grant(); is.Worker != g.Worker || is.ClockSeq != g.ClockSeq {
		return nil
	}
	if err := l.trouble(); err != nil {
		return err
	}
	if err := t.Bump(l.line(ctx), now); err != nil {
		if errors.Is(err, ErrLost) {
			l.ask() // the renewal finds out what is wrong
		}
		return err
	}
	l.grantWindow(t)
	l.lower(t.Window.Begin())
	return nil
}
