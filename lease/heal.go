package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// open returns the store's door once it is open. If the store has no door, open makes it.
func (s *search) open(ctx context.Context) (door, error) {
	l := s.l
	for told := (time.Time{}); ; {
		d, c, isNew, err := s.lookAtDoor(ctx)
		if err != nil || d.Open {
			l.waitsUntil(time.Time{})
			return d, err
		}
		next, left, err := l.advanceDoor(ctx, s.store, d, l.newDoor(), c, isNew)
		if errors.Is(err, ErrConflict) || err == nil && next.Open {
			continue
		}
		if err != nil {
			return d, err
		}
		waits := fmt.Errorf("%w: %s", ErrWiped, waitsFor(left, c))
		l.waitsUntil(time.Now().Add(left))
		if told.IsZero() || time.Since(told) >= tellEvery {
			told = time.Now()
			l.log.waits(l, left, c)
		}
		l.tripped(waits)
		if ended := sleep(ctx, beforeEnd(ctx, min(progress+randomN(progress), left))); ended != nil {
			return d, once(fmt.Errorf("%w; the next Acquire goes on with this wait: %w", waits, ended))
		}
		s.begun = time.Now() // a wait for a worker ID begins behind the door
	}
}

// tellEvery is how often the log says how long a process waits that has no worker ID yet.
const tellEvery = 30 * time.Second

// waitsFor says what ends the wait for a store that has no entries.
func waitsFor(left time.Duration, c clocks) string {
	if !c.agree() {
		return fmt.Sprintf("the store's clock reads %s and this host's %s: no worker ID is taken until they agree within %v",
			formatTime(c.engine), formatTime(c.own), skew)
	}
	return fmt.Sprintf("a worker ID is taken in %v, when every window has ended under a record that may be lost", left.Round(time.Second))
}

// lookAtDoor returns the store's door. If it is not open, lookAtDoor also returns the clocks, and
// whether the store is known to be new.
func (s *search) lookAtDoor(ctx context.Context) (d door, c clocks, isNew bool, err error) {
	o := &s.l.o
	d, err = getDoor(ctx, s.store)
	switch {
	case errors.Is(err, ErrBadRecord) && d.version != "":
		err = nil // it is made anew, as if it were lost
	case err == nil && d.version != "" && d.Layout != o.Layout:
		err = &LayoutError{Worker: none, Where: "the store", Has: d.Layout, Want: o.Layout}
	}
	if err != nil || d.Open {
		return d, c, false, err
	}
	if isNew = o.NewStore; d.version == "" && !isNew && s.l.directory != nil {
		if isNew, err = patiently(ctx, s.l, s.l.directory.isNew); err != nil {
			return d, c, false, err
		}
	}
	c.own = o.now()
	c.engine, err = clockOf(ctx, s.store)
	return d, c, isNew, err
}

// advanceDoor saves how long d is known to be closed, or makes the door if there is none or it cannot be read.
// It returns how long the door stays closed. If another process was quicker, the error matches
// ErrConflict. A door that is made anew has the layout, and is marked, as made says.
func (w *watch) advanceDoor(ctx context.Context, s Store, d, made door, c clocks, isNew bool) (next door, left time.Duration, err error) {
	m := thisMoment()
	next, left = d.advance(w.seen.lasts(doorKey, d.Name, d.Waited.For, m), m, c, isNew, healing(made.Layout.Unit))
	if d.Name == "" {
		next.Name, next.Layout, next.Marked = randomText(), made.Layout, made.Marked
	} else if next == d {
		return next, left, nil
	}
	e, err := s.Put(ctx, doorKey, d.version, next.encode())
	if err == nil {
		next.version = e.Version
		w.seen.lasts(doorKey, next.Name, next.Waited.For, m)
	}
	return next, left, err
}

// newDoor is what this process says of a door that it makes. A holder puts the watermark back, too.
func (l *Lease) newDoor() door { return door{Layout: l.o.Layout, Marked: l.record.Load() != nil} }

// heal puts back what the store lost besides the record of this holder, which was put back before:
// the watermark and the store's door. Until the door is open, each call counts how long it is
// closed, so that newcomers do not wait for all of that time themselves.
func (l *Lease) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.trip())
	defer cancel()
	d, err := getDoor(ctx, l.store)
	if err != nil && (!errors.Is(err, ErrBadRecord) || d.version == "") {
		return err
	}
	m, err := getMark(ctx, l.store)
	if err == nil && m.lost() {
		own := *l.record.Load()
		_, err = l.restoreMark(ctx, l.store, m, own, later(own.Least, l.passed())) // nothing later was proposed while this holder lived
	}
	if err != nil {
		return err
	}
	if d.Open {
		l.wiped.Store(false)
		return nil
	}
	c := clocks{own: l.o.now()}
	if c.engine, err = clockOf(ctx, l.store); err == nil {
		_, _, err = l.advanceDoor(ctx, l.store, d, l.newDoor(), c, false)
	}
	return err
}

// outwait saves how long the record of a worker ID is known to be lost, and returns how much longer
// the worker ID stays unused. If that is 0, next may be taken.
func outwait(ctx context.Context, s Store, r Record, layout snowflake.Layout, seen sightings, m moment, c clocks) (next Record, left time.Duration, err error) {
	whole := healing(layout.Unit)
	if next = r; r.version == "" {
		if mark, err := s.Get(ctx, markKey(r.Worker)); err == nil && mark.Version == "" {
			return next, whole, nil // all is lost, and the wait for the door is enough
		}
		next.Layout, next.Marked, left = layout, true, whole
		next.Waited = waited{Name: randomText()}.more(0, m)
	} else if next, left = r.missing(seen.lasts(lostKey(r.Worker), r.Waited.Name, r.Waited.For, m), m, c, whole); left <= 0 || next.Waited == r.Waited {
		return next, left, nil
	}
	next.Saves++
	saved, err := putRecord(ctx, s, next)
	if errors.Is(err, ErrConflict) {
		return next, left, nil
	}
	if err == nil {
		seen.lasts(lostKey(r.Worker), next.Waited.Name, next.Waited.For, m)
	}
	return saved, left, err
}

// lostKey is under what a lost record is known.
func lostKey(worker int) string { return "lost " + recordKey(worker) }
