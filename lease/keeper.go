package lease

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// The files keeper*.go have the goroutine that keeps a lease: it renews the window, answers calls
// that need more, heals the store, and replaces a lost worker ID, for which it searches as Acquire
// does (acquire*.go). The methods in served*.go and release.go run in the goroutines of their
// callers. Whoever needs the tenure takes it out of Lease.slot. The log is in journal.go.

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
	for wait := readers.pace(ctx, l, max(0, every-machine.Since(l.renewed()))); ; {
		if err := machine.Nap(ctx, machine.Jittered(wait), l.asked); err != nil {
			return err
		}
		begun := machine.Now()
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
			case l.hasLost():
				_ = l.heal(ctx) // tried again after the next renewal
				wait = max(0, wait-machine.Since(begun))
			case l.mayLook():
				_ = l.lookForNamesake(ctx) // tried again at the next look
				wait = max(0, wait-machine.Since(begun))
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
