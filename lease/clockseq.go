package lease

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// canBump is snowflake.Terms.CanBump.
func (l *Lease) canBump(now time.Time) bool {
	r := l.record.Load()
	if r == nil || r.Worker != l.Worker() {
		return false // it is being replaced
	}
	_, from := r.free(now)
	return !from.After(now)
}

// bump is snowflake.Terms.Bump. It waits for the store for up to a third of a window.
func (l *Lease) bump(ctx context.Context, g snowflake.Grant, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.Window/3)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	if is := l.Grant(); is.Worker != g.Worker || is.ClockSeq != g.ClockSeq {
		return nil
	}
	if err := l.trouble(); err != nil {
		return err
	}
	seq, begin := l.record.Load().free(now)
	if begin.After(now) {
		return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: begin, Now: now}}
	}
	w := window{seq: seq, from: l.o.begin(begin, now), before: begin}
	err := l.move(ctx, func(r Record) Record { return r.withWindow(w, later(r.bound(w.seq), now.Add(l.o.Window))) })
	if err != nil {
		if errors.Is(err, ErrLost) {
			l.ask() // the renewal finds out what is wrong
		}
		return err
	}
	w.to = l.record.Load().Bound()
	l.window = w
	l.publish()
	return nil
}

// trouble returns why there is no worker ID to change: the lease has ended, or its worker
// ID is being replaced.
func (l *Lease) trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	return l.loss
}
