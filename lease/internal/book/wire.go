package book

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Wire is the Line to a store. Ctx bounds all its requests.
type Wire struct {
	Ctx   context.Context
	Store driver.Store
	Asker
	Each func() time.Duration // how long each request may take; nil: only ctx bounds it
}

// Asker has a Wire's calls to the lease that uses it.
type Asker struct {
	Now       func() time.Time // the reading of its clock; nil: machine.Wall
	Unstamped func() Unstamped // the times that its generator may still stamp
	Failed    func(error)      // notes that a request failed, which had a time-out of its own
	Restored  func(worker int) // notes that the record was lost, and was put back
}

// Optional parts of a store.
type (
	// Directory tells whether it was used before it lost its entries: see Line.Trace.
	Directory interface {
		Trace(context.Context) (of string, told bool, err error)
	}

	// Offline is a store that works while the store behind it is away.
	Offline interface {
		// WhyAway returns why the store behind it was not told of the last save; nil if it was.
		WhyAway() error

		// HasLost reports whether the store behind it has lost a record since the last call of HasLost.
		HasLost() bool
	}
)

// LineTo returns a line for a process that has no lease.
func LineTo(ctx context.Context, s driver.Store) Wire { return Wire{Ctx: ctx, Store: s} }

// carry makes a request over w.
func carry[T any](w Wire, f func(context.Context) (T, error)) (T, error) {
	if w.Each == nil {
		return f(w.Ctx)
	}
	ctx, cancel := context.WithTimeout(w.Ctx, w.Each())
	defer cancel()
	result, err := f(ctx)
	err = Unanswered(w.Ctx, ctx, err)
	if err != nil && !errors.Is(err, driver.ErrConflict) {
		w.Failed(err)
	}
	return result, err
}

func (w Wire) Get(key string) (driver.Entry, error) {
	return carry(w, func(ctx context.Context) (driver.Entry, error) { return w.Store.Get(ctx, key) })
}

func (w Wire) List(prefix string) ([]driver.Entry, error) {
	return carry(w, func(ctx context.Context) ([]driver.Entry, error) { return w.Store.List(ctx, prefix) })
}

func (w Wire) Put(key, old string, value []byte) (driver.Entry, error) {
	return carry(w, func(ctx context.Context) (driver.Entry, error) { return w.Store.Put(ctx, key, old, value) })
}

func (w Wire) Delete(key, old string) error {
	_, err := carry(w, func(ctx context.Context) (none struct{}, err error) { return none, w.Store.Delete(ctx, key, old) })
	return err
}

func (w Wire) Engine() (time.Time, error) {
	return carry(w, func(ctx context.Context) (time.Time, error) { return ClockOf(ctx, w.Store) })
}

// ClockOf returns the time of the engine's clock. It is zero if the engine has no clock that
// clients can ask.
func ClockOf(ctx context.Context, s driver.Store) (now time.Time, err error) {
	if clock, ok := s.(driver.Clock); ok {
		now, err = clock.Now(ctx)
	}
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return now, nil
	}
	return time.Time{}, err
}

func (w Wire) Trace() (of string, told bool, err error) {
	of, err = carry(w, func(ctx context.Context) (of string, err error) {
		of, told, err = TraceOf(ctx, w.Store)
		return of, err
	})
	return of, told, err
}

// TraceOf returns what tells that a store was used before it lost its entries: see Line.Trace.
func TraceOf(ctx context.Context, s driver.Store) (of string, told bool, err error) {
	if d, ok := s.(Directory); ok {
		return d.Trace(ctx)
	}
	return "", false, nil
}

func (w Wire) Rest(d time.Duration) error { return machine.Sleep(w.Ctx, d) }

func (w Wire) Read() Reading {
	end, _ := w.Ctx.Deadline()
	r := Reading{Moment: ThisMoment(), End: end, Over: w.Ctx.Err() != nil}
	if w.Now == nil {
		r.Own = machine.Wall(w.Ctx)
	} else {
		r.Own = w.Now()
	}
	return r
}

// ThisMoment reads the steady clocks of this host.
func ThisMoment() protocol.Moment {
	host, boot, asleep := machine.BootClock()
	return protocol.Moment{At: machine.Now(), Host: host, Boot: boot, Asleep: asleep}
}

func (w Wire) Unstamped() Unstamped { return w.Asker.Unstamped() }

func (w Wire) Away() error { return WhyAway(w.Store) }

// WhyAway returns why a store works without the store behind it, or nil if it does not.
func WhyAway(s driver.Store) error {
	if of, ok := s.(Offline); ok {
		return of.WhyAway()
	}
	return nil
}

func (w Wire) Restored(worker int) { w.Asker.Restored(worker) }
