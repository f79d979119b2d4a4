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
		if l.ends(lost) {
			l.finish(lost)
			return
		}
		if err := l.replace(ctx, lost); err != nil {
			return
		}
	}
}

// keep renews the lease until ctx is done or the worker ID is lost: three times in a
// window, whenever a call asks, and every Options.FloorEvery, from the first renewal on, while
// somebody reads the watermark.
func (l *Lease) keep(ctx context.Context) error {
	every := l.o.Window / 3
	backoff := every / 32
	readers := new(readers)
	for wait := readers.pace(ctx, l, max(0, every-timeSince(l.renewed()))); ; {
		if err := nap(ctx, jittered(wait), l.asked); err != nil {
			return err
		}
		begun := timeNow()
		err := l.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			wait, backoff = every, every/32
			left := l.Grant().To.Sub(l.o.now())
			switch {
			case left < wait: // the record was put back with its old bound, which has to move first
				wait = max(left/2, 0)
			case l.isWiped():
				_ = l.heal(ctx) // tried again after the next renewal
				wait = max(0, wait-timeSince(begun))
			}
			wait = readers.pace(ctx, l, wait)
		case errors.Is(err, ErrLost):
			return err
		default:
			wait, backoff = toEnd(backoff, l.Grant().To, l.o.now()), min(2*backoff, every)
		}
		l.log.renewed(l, err)
	}
}

// toEnd shortens a wait from now that goes far past end, a window's, so that the log says at once
// that no IDs are issued.
func toEnd(wait time.Duration, end, now time.Time) time.Duration {
	if left := end.Sub(now); left > 0 {
		return min(wait, left+left/7+time.Millisecond) // even jittered, it is not shorter than left
	}
	return wait
}

// jittered shortens a wait by up to an eighth, so that holders that began at once do not
// stay in step.
func jittered(wait time.Duration) time.Duration { return wait - randomN(wait/8+1) }

// renew moves the bound to a window from now. If the clock stepped back or leapt, it leaves
// the bound and only shows that the holder lives.
func (l *Lease) renew(ctx context.Context) error {
	now, begun := l.o.now(), timeNow()
	err := l.advance(ctx)
	took := max(timeSince(begun), l.o.now().Sub(now))
	// If the process itself stood still, the time says nothing about the store.
	paused := took > l.o.Window/3+l.o.Window/16
	l.note(begun, err, !paused && !errors.Is(err, ErrLost))
	return err
}

func (l *Lease) advance(ctx context.Context) error {
	h, err := l.take(ctx)
	if err != nil {
		return err
	}
	defer l.give(h)
	if l.cloned(h) {
		return errCloned
	}
	w := h.window
	err = h.renew(l.renewing(ctx), l.accepted.Load())
	l.known.horizon = h.horizon
	if h.granted && h.window != w {
		l.publish(h)
		l.mu.Lock()
		look := l.bound.Look
		l.mu.Unlock()
		if look != nil && h.window.above != w.above {
			look()
		}
	}
	switch {
	case errors.Is(err, errRestored): // the bound is moved by the next renewal
		return nil
	case err == nil:
		l.accepted.Store(false)
	}
	return err
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
		l.stats.LastError, l.failing, l.cause = nil, nil, nil
		return
	}
	l.stats.Failures++
	l.blame(err, final)
}

// blame notes why no more IDs can be stamped. To a time-out it adds the last error that said more,
// if that was within the last window. l.mu must be held.
func (l *Lease) blame(err error, final bool) {
	switch {
	case !isTimeout(err):
		l.cause, l.caused = err, timeNow()
	case l.failing != nil && l.cause != nil && timeSince(l.caused) < l.o.Window:
		err = once(fmt.Errorf("%w; the error before was: %w", err, l.cause))
	}
	if final || l.stats.LastError != nil {
		l.failing = err
	}
	l.stats.LastError = err
}

// renewed returns when the last successful renewal began.
func (l *Lease) renewed() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats.Renewed
}
