package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/tenure"
	"github.com/seed-5394e6b1/snowflake/lease/internal/wiped"
)

// obtain takes a worker ID, and waits until the clock has reached its window. If the worker ID is
// lost meanwhile, obtain tries again. It frees the worker IDs that it took but does not use.
func (l *Lease) obtain(ctx context.Context) error {
	for {
		if l.known.gaveBack != nil { // then the worker ID can be taken again
			_ = machine.Nap(ctx, l.o.patience(), l.known.gaveBack)
		}
		s := l.newSearch(ctx)
		a, saved, err := s.find()
		if err == nil {
			l.adopt(s.line, a, saved)
			s.forgetOwner(a)
			waits, ended := l.settle(ctx)
			if err = book.Ended(s.line, waits, s.because(ended)); err == nil {
				l.giveBack(l.ctx, s.tried, a.record.Worker)
				l.known.namesake.entry = s.owner.Version
				return nil
			}
			s.tried = append(s.tried, a)
		}
		if t := <-l.slot; t != nil {
			l.known.passed = t.Passed
		}
		l.give(nil)
		l.known.gaveBack = l.giveBack(context.WithoutCancel(ctx), s.tried, none)
		if !errors.Is(err, ErrLost) || ctx.Err() != nil || l.torn(err) {
			_ = machine.Nap(context.WithoutCancel(ctx), farewell, l.known.gaveBack)
			if errors.Is(err, ErrLost) && !l.torn(err) {
				return ctx.Err()
			}
			return err
		}
	}
}

// grantFirst grants the window for the first time.
func (l *Lease) grantFirst() {
	t := <-l.slot
	l.grantWindow(t)
	l.give(t)
}

// settle waits until the clock has reached the window. It renews the lease during the wait, and
// first if the store took long to answer. With an error, it returns the reason for the wait; nil if
// it did not wait for the clock.
func (l *Lease) settle(ctx context.Context) (waits, err error) {
	every := l.o.Window / 3
	deadline := machine.Now().Add(2 * l.o.Window)
	failing := time.Time{} // when the first of the renewals that failed began
	for {
		now := l.o.now()
		begins := l.shown.Load().window.Begin()
		wait := begins.Sub(now)
		if waits = nil; wait > 0 {
			waits = &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: begins, Now: now}}
		}
		if wait > 0 && machine.Now().Add(wait).After(deadline) {
			return nil, waits
		}
		if wait > worthLogging && l.trouble() == nil {
			until, _ := ctx.Deadline()
			l.log.unacquired(l, waits, until)
		} else if wait > worthLogging {
			l.log.unreplaced(l, waits)
		}
		pause := every - machine.Since(l.renewed())
		if pause <= 0 {
			begun := machine.Now()
			err := l.renew(ctx)
			if err == nil {
				failing = time.Time{}
				continue
			}
			if failing.IsZero() {
				failing = begun
			}
			if errors.Is(err, ErrLost) || ctx.Err() != nil || machine.Since(failing) >= l.o.patience() {
				return waits, err
			}
			pause = every / 8
		} else if wait <= 0 {
			return nil, nil
		} else {
			pause = min(pause, wait)
		}
		if err := machine.Sleep(ctx, pause); err != nil {
			return waits, err
		}
	}
}

// worthLogging is the shortest wait for the window that is logged when it begins.
const worthLogging = 10 * time.Second

// newSearch returns a search of the lease for a worker ID.
func (l *Lease) newSearch(ctx context.Context) *search {
	s := book.Wire{Ctx: ctx, Store: l.store, Asker: l.asker(), Each: l.searchTrip}
	_, offline := l.store.(book.Offline)
	return newSearch(s, needs{&l.o, &l.known, l.cloning, offline, &l.accepted, l.Grant().To, searchLog{l}})
}

// adopt takes over the worker ID of an attempt whose record was saved.
func (l *Lease) adopt(s book.Line, a attempt, saved protocol.Record) {
	a.window.To = saved.BoundOf(a.window.Seq)
	l.known.horizon.Reached(saved.Bound(), a.begun.Steady())
	t := &tenure.Tenure{Rules: l.o.rules(), Record: saved, Window: a.window, Born: a.born, Passed: l.known.passed, Horizon: l.known.horizon,
		Heard: tenure.Heard{Renewed: a.begun.At, Read: a.begun.Own, At: s.Read().Steady()}}
	l.known.inUse = true
	l.mu.Lock()
	l.stats.Renewed = a.begun.At
	l.mu.Unlock()
	<-l.slot
	l.give(t)
}

// farewell bounds how long an Acquire that failed waits until its worker IDs are freed. After
// that, they are freed in the background.
const farewell = 100 * time.Millisecond

// giveBack frees, in the background, the worker IDs that a search took, except used. (An
// older attempt to take the used worker ID cannot be made any more.) For a save that may
// still be made, it looks again and again. The channel is closed after the first look.
func (l *Lease) giveBack(ctx context.Context, tried []attempt, used int) <-chan struct{} {
	looked := make(chan struct{})
	tried = slices.DeleteFunc(tried, func(a attempt) bool { return a.record.Worker == used })
	if len(tried) == 0 {
		close(looked)
		return looked
	}
	freeLater(ctx, l, tried, looked)
	return looked
}

// freeLater frees the worker IDs of attempts in the background.
var freeLater = func(ctx context.Context, l *Lease, tried []attempt, looked chan<- struct{}) {
	go l.freeAll(ctx, tried, looked)
}

// freeAll frees the worker IDs of attempts. It closes looked after the first look.
func (l *Lease) freeAll(ctx context.Context, tried []attempt, looked chan<- struct{}) {
	ctx, cancel := context.WithTimeout(ctx, l.o.patience())
	defer cancel()
	tried = l.free(l.line(ctx), tried)
	close(looked)
	for pause := l.o.patience() / 8; len(tried) > 0 && machine.Sleep(ctx, pause) == nil; pause *= 2 {
		tried = l.free(l.line(ctx), tried)
	}
}

// searchLog is the lease's reporter.
type searchLog struct{ l *Lease }

func (s searchLog) opened() { s.waitsUntil(time.Time{}) }

func (s searchLog) shut(err error, until time.Time) {
	s.waitsUntil(until)
	s.l.tripped(err)
}

func (s searchLog) waitsUntil(t time.Time) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.l.stats.WaitsUntil = t
}

func (s searchLog) waits(left time.Duration, shut wiped.ShutDoor) { s.l.log.waits(s.l, left, shut) }

func (s searchLog) missing(worker int) { s.l.log.missing(s.l, worker) }

func (s searchLog) namesake(process string) { s.l.log.namesake(s.l, process) }

func (s searchLog) rests(err error, until time.Time) {
	if s.l.trouble() == nil && errors.Is(err, ErrExhausted) {
		s.l.log.unacquired(s.l, err, until)
	}
}

func (s searchLog) rested(err error) {
	if s.l.trouble() != nil { // a lost worker ID is to be replaced
		s.l.log.unreplaced(s.l, err)
	}
}
