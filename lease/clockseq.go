package lease

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// CanBump reports whether Bump can change the clock sequence now: see [snowflake.Bumper]. The
// lease's generator calls it.
func (l *Lease) CanBump(now time.Time) bool {
	r := l.record.Load()
	if r == nil || r.Worker != l.Worker() {
		return false // it is being replaced
	}
	_, from := r.start(now)
	return !from.After(now) && !l.passed().After(now)
}

// Bump changes the clock sequence of the grant g, and records the change: see
// [snowflake.Bumper]. It waits for the store for up to a third of a window. The lease's generator
// calls it.
func (l *Lease) Bump(ctx context.Context, g snowflake.Grant, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.Window/3)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	if l.generation() != l.grant.Load().generation { // another copy may have the worker ID, and save its record
		return l.Extend(ctx, g, now)
	}
	if err := l.lock(ctx); err != nil {
		return cmp.Or(l.trouble(), err)
	}
	defer l.unlock()
	if is := l.Grant(); is.Worker != g.Worker || is.ClockSeq != g.ClockSeq {
		return nil
	}
	if err := l.trouble(); err != nil {
		return err
	}
	seq, begin := l.record.Load().start(now)
	if begin.After(now) {
		return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: begin, Now: now}}
	}
	w := window{seq: seq, from: l.o.begin(begin, now), before: begin}
	var own Record
	err := errPutBack
	for errors.Is(err, errPutBack) {
		err = l.move(ctx, func(r Record) Record {
			own = r
			r = r.extend(w, now.Add(l.o.Window))
			r.Least = earlier(r.Least, w.from)
			return r
		})
	}
	if err == nil {
		w.above, err = l.above(ctx, l.store, door{}, own, later(own.Least, l.passed())) // nothing later was published
	}
	if err != nil {
		if errors.Is(err, ErrLost) {
			l.ask() // the renewal finds out what is wrong
		}
		return err
	}
	w.to = l.record.Load().bound(w.seq)
	l.window = w
	l.publish()
	l.lower(w.begin())
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
