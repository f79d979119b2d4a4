package lease

import (
	"errors"
	"fmt"
	"time"
)

// open returns the store's door once it is open. If the store has no door, open makes it.
func (s *search) open() (door, error) {
	l := s.l
	var waits error // what the wait is for, once there is one
	for told := (time.Time{}); ; {
		d, c, isNew, err := s.lookAtDoor()
		if err != nil || d.Open {
			l.waitsUntil(time.Time{})
			return d, s.still(waits, err)
		}
		next, left, err := l.advanceDoor(s.line, d, door{Layout: l.o.Layout}, c, isNew)
		if errors.Is(err, ErrConflict) {
			err, next.Open = s.raced(err), true // it is looked at again
		}
		if err == nil && next.Open {
			continue
		}
		if err != nil {
			return d, s.still(waits, err)
		}
		waits = fmt.Errorf("%w: %s", ErrWiped, waitsFor(left, c))
		now := s.line.read()
		l.waitsUntil(now.at.Add(left))
		if told.IsZero() || now.at.Sub(told) >= tellEvery {
			told = now.at
			l.log.waits(l, left, c)
		}
		l.tripped(waits)
		s.conflicts = 0
		if ended := s.line.rest(now.beforeEnd(min(progress+randomN(progress), left))); ended != nil {
			return d, s.still(waits, ended)
		}
		s.begun = s.line.read().at // the wait for a worker ID begins when the door is open
	}
}

// still returns err. If the search has run out of time, during a request or between two, still adds
// waits: what the search was waiting for, or nil.
func (s *search) still(waits, err error) error {
	if err == nil || waits == nil || errors.Is(err, waits) || !s.line.read().over {
		return err
	}
	if errors.Is(waits, ErrWiped) {
		waits = fmt.Errorf("%w; the next Acquire goes on with this wait", waits)
	}
	return once(fmt.Errorf("%w: %w", waits, err))
}

// tellEvery is how often a process that has no worker ID yet logs how long it waits.
const tellEvery = 30 * time.Second

// waitsFor says what ends the wait for a store that has no entries.
func waitsFor(left time.Duration, c clocks) string {
	if !c.agree() {
		return fmt.Sprintf("the store's clock reads %s and this host's %s: no worker ID is taken until they agree within %v",
			formatTime(c.engine), formatTime(c.own), skew)
	}
	return fmt.Sprintf("a worker ID is taken in %v, when every window under a record that may be lost has ended", left.Round(time.Second))
}

// lookAtDoor returns the store's door. If it is not open, lookAtDoor also returns the clocks, and
// whether the store is known to be new.
func (s *search) lookAtDoor() (d door, c clocks, isNew bool, err error) {
	o := &s.l.o
	d, err = getDoor(s.line)
	switch {
	case errors.Is(err, ErrBadRecord) && d.version != "":
		err = nil // it is made anew, as if it were lost
	case err == nil && d.version != "" && d.Layout != o.Layout:
		err = &LayoutError{Worker: none, Where: "the store", Has: d.Layout, Want: o.Layout}
	}
	if err != nil || d.Open {
		return d, c, false, err
	}
	if isNew = o.NewStore && !s.l.inUse; d.version == "" && !isNew {
		if isNew, err = s.line.isNew(); err != nil {
			return d, c, false, err
		}
	}
	if d.Name == "" && !isNew { // the holders of another layout may not have put it back yet
		records, _, err := allRecords(s.line)
		if err != nil {
			return d, c, false, err
		}
		for _, r := range records {
			if r.State != StateLost && r.Layout != o.Layout {
				return d, c, false, &LayoutError{Worker: r.Worker, Where: "the store", Has: r.Layout, Want: o.Layout}
			}
		}
	}
	c.own = s.line.read().own
	c.engine, err = s.line.engine()
	return d, c, isNew, err
}
