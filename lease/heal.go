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
	for told := false; ; told = true {
		d, engine, isNew, err := s.lookAtDoor(ctx)
		if err != nil || d.Open {
			return d, err
		}
		idle := l.seen.idle(doorKey, d.version, d.stored, engine)
		next, left := d.advance(idle, engine, isNew, healing(l.o.Layout.Unit))
		if d.version == "" {
			next.Name, next.Layout = randomText(), l.o.Layout
		}
		if d.version == "" || next != d {
			e, err := s.store.Put(ctx, doorKey, d.version, next.encode())
			if errors.Is(err, ErrConflict) {
				continue // another process was quicker
			}
			if err != nil {
				return d, err
			}
			l.seen.sees(doorKey, e.Version)
		}
		if next.Open {
			continue
		}
		waits := fmt.Errorf("%w: a worker ID is taken in %v, when every window has ended under a record that may be lost", ErrWiped, left.Round(time.Second))
		if !told {
			l.log.waits(l, left)
			l.tripped(waits)
		}
		if ended := sleep(ctx, min(progress+randomN(progress), left)); ended != nil {
			return d, once(fmt.Errorf("%w; the next Acquire goes on with this wait: %w", waits, ended))
		}
		s.begun = time.Now() // a wait for a worker ID begins behind the door
	}
}

// lookAtDoor returns the store's door. If it is not open, lookAtDoor also returns the
// engine's time, and whether the store is known to be new.
func (s *search) lookAtDoor(ctx context.Context) (d door, engine time.Time, isNew bool, err error) {
	o := &s.l.o
	if d, err = getDoor(ctx, s.store); err == nil && d.version != "" && d.Layout != o.Layout {
		err = &LayoutError{Worker: none, Where: "the store", Has: d.Layout, Want: o.Layout}
	}
	if err != nil || d.Open {
		return d, engine, false, err
	}
	if isNew = o.NewStore; d.version == "" && !isNew && s.l.directory != nil {
		if isNew, err = patiently(ctx, s.l, s.l.directory.isNew); err != nil {
			return d, engine, false, err
		}
	}
	engine, err = clockOf(ctx, s.store)
	return d, engine, isNew, err
}

// outwait saves for how long the record of a worker ID is known to be lost. It returns for how long the worker ID is not used
// yet. If that is 0, next may be taken. idle is for how long r is known not to have changed.
func outwait(ctx context.Context, s Store, r Record, layout snowflake.Layout, idle time.Duration, now, engine time.Time) (next Record, left time.Duration, err error) {
	whole := healing(layout.Unit)
	if next = r; r.version == "" {
		next.Layout, next.Marked, left = layout, true, whole
	} else if next, left = r.missing(idle, now, engine, whole); left <= 0 || next.Waited == r.Waited {
		return next, left, nil
	}
	next.Saves++
	saved, err := putRecord(ctx, s, next)
	if errors.Is(err, ErrConflict) {
		return next, left, nil
	}
	return saved, left, err
}

// progress is how often those who wait for a store that lost its entries save for how long
// they have waited.
const progress = time.Second
