package lease

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// wire is the line to a store. ctx bounds all that is asked over it.
type wire struct {
	ctx   context.Context
	store Store
	lease *Lease               // the lease that asks; nil if none does
	each  func() time.Duration // how long each request may take; nil: only ctx bounds it
}

// lineTo returns a line for a process that has no lease.
func lineTo(ctx context.Context, s Store) wire { return wire{ctx: ctx, store: s} }

// line returns the line of the lease to its store.
func (l *Lease) line(ctx context.Context) wire { return wire{ctx: ctx, store: l.store, lease: l} }

// renewing returns the line of a renewal. Each request has a time-out of its own, so a slow store
// delays a renewal of several requests, but does not make it fail.
func (l *Lease) renewing(ctx context.Context) wire {
	return wire{ctx: ctx, store: l.store, lease: l, each: l.o.trip}
}

// carry makes a request over w.
func carry[T any](w wire, f func(context.Context) (T, error)) (T, error) {
	if w.each == nil {
		return f(w.ctx)
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.each())
	defer cancel()
	result, err := f(ctx)
	err = unanswered(w.ctx, ctx, err)
	if err != nil && !errors.Is(err, ErrConflict) {
		w.lease.tripped(err)
	}
	return result, err
}

func (w wire) get(key string) (Entry, error) {
	return carry(w, func(ctx context.Context) (Entry, error) { return w.store.Get(ctx, key) })
}

func (w wire) list(prefix string) ([]Entry, error) {
	return carry(w, func(ctx context.Context) ([]Entry, error) { return w.store.List(ctx, prefix) })
}

func (w wire) put(key, old string, value []byte) (Entry, error) {
	return carry(w, func(ctx context.Context) (Entry, error) { return w.store.Put(ctx, key, old, value) })
}

func (w wire) delete(key, old string) error {
	_, err := carry(w, func(ctx context.Context) (none struct{}, err error) { return none, w.store.Delete(ctx, key, old) })
	return err
}

func (w wire) engine() (time.Time, error) {
	return carry(w, func(ctx context.Context) (time.Time, error) { return clockOf(ctx, w.store) })
}

// clockOf returns the time of the engine's clock. It is zero if the engine has no clock that
// clients can ask.
func clockOf(ctx context.Context, s Store) (now time.Time, err error) {
	if clock, ok := s.(driver.Clock); ok {
		now, err = clock.Now(ctx)
	}
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return now, nil
	}
	return time.Time{}, err
}

func (w wire) trace() (of string, told bool, err error) {
	if told = w.lease.directory != nil; told {
		of, err = carry(w, w.lease.directory.trace)
	}
	return of, told, err
}

func (w wire) rest(d time.Duration) error { return sleep(w.ctx, d) }

func (w wire) read() reading {
	end, _ := w.ctx.Deadline()
	r := reading{moment: thisMoment(), end: end, over: w.ctx.Err() != nil}
	if w.lease == nil {
		r.own = wallClock(w.ctx)
	} else {
		r.own = w.lease.o.now()
	}
	return r
}

func thisMoment() moment {
	host, boot, asleep := bootClock()
	return moment{timeNow(), host, boot, asleep}
}

func (w wire) floor() floor { return w.lease.floor() }

func (w wire) away() error {
	if c, ok := w.store.(*localCopy); ok {
		return c.whyAway()
	}
	return nil
}

func (w wire) restored(worker int) { w.lease.restored(worker) }

// restored notes that the record of a worker ID was lost, and was put back.
func (l *Lease) restored(worker int) {
	l.mu.Lock()
	l.wiped = true
	l.stats.Restored++
	l.mu.Unlock()
	l.log.restored(l, worker)
}
