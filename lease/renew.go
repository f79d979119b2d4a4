package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// run keeps the lease until ctx is done, or until the lease ends because its worker ID was
// lost.
func (l *Lease) run(ctx context.Context) {
	defer close(l.ended)
	for {
		lost := l.keep(ctx)
		if ctx.Err() != nil {
			return
		}
		l.lose(lost)
		if l.o.OnLoss == Stop {
			l.finish(lost)
			return
		}
		if err := l.replace(ctx, lost); err != nil {
			return
		}
	}
}

// keep renews the lease until ctx is done or the worker ID is lost: three times in a
// window, and whenever a call asks.
func (l *Lease) keep(ctx context.Context) error {
	every := l.o.Window / 3
	backoff := every / 32
	for wait := max(0, every-time.Since(l.renewed())); ; {
		if err := nap(ctx, jittered(wait), l.asked); err != nil {
			return err
		}
		err := l.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			wait, backoff = every, every/32
		case errors.Is(err, ErrLost):
			return err
		case errors.Is(err, ErrWiped):
			if lost := l.unusable(ctx); lost != nil {
				return lost
			}
			fallthrough
		default:
			wait, backoff = backoff, min(2*backoff, every)
		}
		l.log.renewed(l, err)
	}
}

// unusable returns a loss if the window has ended and the store has lost this worker ID's
// record, though not all records. Nobody gets this worker ID until a person mends the
// store, and this holder need not wait for that, unless it is an owner that keeps its
// worker ID.
func (l *Lease) unusable(ctx context.Context) error {
	if l.o.Reuse != ReuseAny || l.o.now().Before(l.Grant().To) {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, l.o.trip())
	defer cancel()
	snap, err := l.store.Load(patient)
	if err != nil || snap.Lost[l.Worker()] == nil {
		return nil
	}
	return once(fmt.Errorf("%w: %w", ErrLost, snap.Lost[l.Worker()]))
}

// jittered shortens a wait by up to an eighth, so that holders that began at once do not
// stay in step.
func jittered(wait time.Duration) time.Duration { return wait - randomN(wait/8+1) }

// renew moves the bound to a window from now. If the clock stepped back or leapt, it leaves
// the bound and only shows that the holder lives.
func (l *Lease) renew(ctx context.Context) error {
	patient, cancel := context.WithTimeout(ctx, l.o.trip())
	defer cancel()
	now, begun := l.o.now(), time.Now()
	err := unanswered(ctx, patient, l.advance(patient))
	took := max(time.Since(begun), l.o.now().Sub(now))
	paused := took > l.o.Window/3+l.o.Window/16 // it was the process that stood still, so the time says nothing about the store
	l.note(begun, err, !paused && !errors.Is(err, ErrLost))
	return err
}

func (l *Lease) advance(ctx context.Context) error {
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	now, begun := l.o.now(), time.Now()
	l.horizon.observe(now, begun)
	bound := later(l.window.to, now.Add(l.o.Window))
	leap := l.leap(bound, begun)
	if leap == nil {
		return l.push(ctx, bound, begun)
	}
	if err := l.push(ctx, l.window.to, begun); err != nil {
		return err
	}
	if l.horizon.ownClock && l.leap(bound, begun) == nil { // now the lease knows the store's time
		return l.push(ctx, bound, begun)
	}
	return leap
}

// push moves the bound. op must be held.
func (l *Lease) push(ctx context.Context, bound, begun time.Time) error {
	w := l.window
	if err := l.move(ctx, func(r Record) Record { return r.withWindow(w, later(r.bound(w.seq), bound)) }); err != nil {
		return err
	}
	l.window.to = l.record.Load().Bound()
	l.horizon.reached(l.window.to, begun)
	l.accepted.Store(false)
	if l.granted {
		l.publish()
	}
	return nil
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
	defer l.tell()
	if err == nil {
		l.stats.Renewals++
		l.stats.Renewed = begun
		l.stats.LastError, l.failing = nil, nil
		return
	}
	l.stats.Failures++
	l.blame(err, final)
}

// blame notes why no more IDs can be stamped. A time-out does not replace the error before
// it. l.mu must be held.
func (l *Lease) blame(err error, final bool) {
	if l.stats.LastError == nil || l.failing == nil || !isTimeout(err) {
		l.stats.LastError = err
	}
	if final || l.failing != nil {
		l.failing = l.stats.LastError
	}
}

// renewed returns when the last successful renewal began.
func (l *Lease) renewed() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats.Renewed
}
