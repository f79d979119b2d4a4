package lease

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// wire is the line to a store. ctx bounds all that is asked over it.
type wire struct {
	ctx   context.Context
	store Store
	asker
	each func() time.Duration // how long each request may take; nil: only ctx bounds it
}

// asker is what a line asks and tells whoever uses it.
type asker struct {
	now      func() time.Time // the reading of its clock; nil: machine.Wall
	floor    func() floor     // what its generator may still stamp
	failed   func(error)      // notes that a request failed, which had a time-out of its own
	restored func(worker int) // notes that the record was lost, and was put back
}

// What else a store may tell.
type (
	// directory tells whether it was used before it lost its entries: see line.trace.
	directory interface {
		trace(context.Context) (of string, told bool, err error)
	}

	// absent is a store that goes on without the store behind it: see line.away.
	absent interface{ whyAway() error }
)

// lineTo returns a line for a process that has no lease.
func lineTo(ctx context.Context, s Store) wire { return wire{ctx: ctx, store: s} }

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
		w.failed(err)
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
	of, err = carry(w, func(ctx context.Context) (of string, err error) {
		of, told, err = traceOf(ctx, w.store)
		return of, err
	})
	return of, told, err
}

func traceOf(ctx context.Context, s Store) (of string, told bool, err error) {
	if d, ok := s.(directory); ok {
		return d.trace(ctx)
	}
	return "", false, nil
}

func (w wire) rest(d time.Duration) error { return machine.Sleep(w.ctx, d) }

func (w wire) read() reading {
	end, _ := w.ctx.Deadline()
	r := reading{Moment: thisMoment(), end: end, over: w.ctx.Err() != nil}
	if w.now == nil {
		r.own = machine.Wall(w.ctx)
	} else {
		r.own = w.now()
	}
	return r
}

func thisMoment() protocol.Moment {
	host, boot, asleep := machine.BootClock()
	return protocol.Moment{At: machine.Now(), Host: host, Boot: boot, Asleep: asleep}
}

func (w wire) floor() floor { return w.asker.floor() }

func (w wire) away() error { return whyAway(w.store) }

func whyAway(s Store) error {
	if of, ok := s.(absent); ok {
		return of.whyAway()
	}
	return nil
}

func (w wire) restored(worker int) { w.asker.restored(worker) }
