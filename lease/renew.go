package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// renew moves the bound until ctx is done or the lease is lost.
func (l *Lease) renew(ctx context.Context) {
	defer close(l.ended)
	every := l.o.Window / 3
	backoff := every / 32
	for wait := every; ; {
		wait -= rand.N(wait/8 + 1) // so that holders who began at once do not go on at once
		if err := sleep(ctx, wait); err != nil {
			l.finish(err)
			return
		}
		switch err := l.extend(ctx); {
		case err == nil:
			wait, backoff = every, every/32
		case errors.Is(err, ErrLost):
			l.finish(err)
			return
		default:
			wait, backoff = backoff, min(2*backoff, every)
		}
	}
}

// extend moves the bound to a window from now. Where the clock is behind, or has
// leapt, it leaves the bound and only shows that the holder lives.
func (l *Lease) extend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.Window/3)
	defer cancel()
	begun := time.Now()
	if err := l.lock(ctx); err != nil {
		l.note(begun, err)
		return err
	}
	defer l.unlock()
	w := *l.window.Load()
	bound := later(w.to, l.o.now().Add(l.o.Window))
	leap := l.leap(bound, begun)
	if leap != nil && l.accepted.Load() {
		leap = nil
	}
	if leap != nil {
		bound = w.to
	}
	err := l.move(ctx, func(r Record) Record { return r.withWindow(w, later(r.bound(w.seq), bound)) })
	if err == nil {
		l.accepted.Store(false)
		w.to = l.record.Load().Bound()
		l.window.Store(&w)
		if w.to.After(l.base) {
			l.base, l.moved = w.to, begun
		}
		err = leap
	}
	l.note(begun, err)
	return err
}

// note keeps the statistics.
func (l *Lease) note(begun time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.LastError = err
	if err != nil {
		l.stats.Failures++
		return
	}
	l.stats.Renewals++
	l.stats.Renewed = begun
}

// leap refuses a bound that is further ahead than the store's clock lets expect,
// or, where the store has none of its own, the monotonic time that has passed
// since the bound was last moved.
func (l *Lease) leap(bound, now time.Time) error {
	r := l.record.Load()
	if l.ownClock {
		return l.checkLeap(r.Worker, bound, r.Renewed.Add(now.Sub(l.saved)+l.o.Window))
	}
	return l.checkLeap(r.Worker, bound, l.base.Add(now.Sub(l.moved)))
}

func (l *Lease) checkLeap(worker int, bound, expected time.Time) error {
	if bound.Sub(expected) > l.o.MaxLeap {
		return &ClockLeapError{Worker: worker, Bound: bound, Expected: expected, MaxLeap: l.o.MaxLeap}
	}
	return nil
}

// move saves the record changed by change, which must not make less of a bound
// that is in use. The caller holds op.
func (l *Lease) move(ctx context.Context, change func(Record) Record) error {
	if l.unknown {
		if err := l.look(ctx); err != nil {
			return err
		}
	}
	for {
		old := *l.record.Load()
		r := change(old)
		r.Version++
		saved, err := replace(ctx, l.store, &l.o, old, r)
		if err == nil {
			l.record.Store(&saved)
			l.saved, l.tried = time.Now(), nil // not before Renewed, so that no leap hides in how long it took
			return nil
		}
		l.tried = append(l.tried[max(0, len(l.tried)+1-maxTried):], r)
		l.unknown = true
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if err := l.look(ctx); err != nil {
			return err
		}
	}
}

// maxTried is how many saves without an answer are remembered. One that is older
// and comes true after all ends the lease.
const maxTried = 1000

// look finds out what is stored, after a save of which that is not known: our
// own record, then we go on from it; or another's, then the lease is lost. One
// that has our token, and that we did not save, is that of a clone of ours. An
// older one is ours, too: the store lost what came after.
func (l *Lease) look(ctx context.Context) error {
	own := l.record.Load()
	snap, err := l.store.LoadWorker(ctx, own.Worker)
	if err != nil {
		return err
	}
	for _, r := range snap.Records {
		switch {
		case r.Worker != own.Worker:
		case r.Token == own.Token && (r.Version <= own.Version || slices.ContainsFunc(l.tried, r.same)):
			l.record.Store(&r)
			l.saved = time.Now()
			l.unknown = false
			return nil
		default:
			return fmt.Errorf("%w: worker %d went to another at %s: %v", ErrLost, r.Worker, formatTime(r.Renewed), r)
		}
	}
	return fmt.Errorf("%w: the record of worker %d is gone", ErrLost, own.Worker)
}
