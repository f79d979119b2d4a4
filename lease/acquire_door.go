package lease

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// open returns the store's door once it is open. If the store has no door, open makes it.
func (s *search) open() (protocol.Door, error) {
	var waits error // what the wait is for, once there is one
	var last time.Duration
	for told := (time.Time{}); ; {
		shut, err := s.lookAtDoor()
		if shut.door.Open {
			s.known.Seen.Forget(book.DoorKey)
		}
		if err != nil || shut.door.Open {
			s.log.opened()
			return shut.door, s.still(waits, err)
		}
		next, left, err := s.known.AdvanceDoor(s.line, shut.door, shut.made, shut.Clocks, shut.isNew)
		if errors.Is(err, ErrConflict) {
			err, next.Open = s.raced(err), true // it is looked at again
		}
		if err == nil && next.Open {
			continue
		}
		now := s.line.Read()
		tells := err == nil && (told.IsZero() || left > last+time.Second || now.At.Sub(told) >= tellEvery)
		last = left
		if tells && shut.used == "" {
			shut.used, err = s.used(next)
		}
		if err != nil {
			return shut.door, s.still(waits, err)
		}
		waits = fmt.Errorf("%w: %s", ErrWiped, book.WaitsFor(left, shut.Clocks))
		if tells {
			told = now.At
			s.log.waits(left, shut)
		}
		s.log.shut(waits, now.At.Add(left))
		s.conflicts = 0
		if ended := s.line.Rest(now.BeforeEnd(min(protocol.Progress+machine.RandomN(protocol.Progress), left))); ended != nil {
			return shut.door, s.still(waits, ended)
		}
		s.begun = s.line.Read().At // the wait for a worker ID begins when the door is open
	}
}

// tellEvery is how often a process that has no worker ID yet logs how long it waits.
const tellEvery = 30 * time.Second

// lookAtDoor reads the store's door. If it is not open, lookAtDoor also reads the clocks, and finds
// out whether the store is new. Options.NewStore is not believed if the store was used.
func (s *search) lookAtDoor() (shut shutDoor, err error) {
	o := s.o
	shut.made.Layout = o.Layout
	shut.door, err = book.GetDoor(s.line)
	d := shut.door
	switch {
	case errors.Is(err, ErrBadRecord) && d.Version != "":
		err = nil // it is made anew, as if it were lost
	case err == nil && d.Version != "" && d.Layout != o.Layout:
		err = &LayoutError{Worker: none, Where: "the store", Has: d.Layout, Want: o.Layout}
	}
	if err != nil || d.Open {
		return shut, err
	}
	wantsNew := o.NewStore && !s.known.inUse
	if d.Name == "" || wantsNew {
		if shut.used, err = s.used(d); err != nil {
			return shut, err
		}
	}
	if d.Version == "" && shut.used == "" {
		trace, told, err := s.line.Trace()
		switch {
		case err != nil:
			return shut, err
		case trace == "" && told:
			shut.made.Whole = o.Window
		}
		shut.made.Trace = trace
	}
	shut.used = cmp.Or(shut.used, shut.made.Trace, d.Trace)
	shut.isNew = wantsNew && shut.used == ""
	shut.Own = s.line.Read().Own
	shut.Engine, err = s.line.Engine()
	return shut, err
}

// used returns what shows that the store of d is not new: a worker ID that has, or had, a record.
// It returns "" if nothing shows this. If d is lost, the holders of another layout may not have put
// it back yet. Then used returns an error if a record has another layout.
func (s *search) used(d protocol.Door) (found string, err error) {
	records, bad, err := book.AllRecords(s.line)
	if err != nil {
		return "", err
	}
	for _, r := range protocol.Sorted(maps.Values(records)) {
		if want := s.o.Layout; d.Name == "" && r.State != StateLost && r.Layout != want {
			return "", &LayoutError{Worker: r.Worker, Where: "the store", Has: r.Layout, Want: want}
		}
		if found == "" && r.State == StateLost {
			found = fmt.Sprintf("the mark of worker %d, whose record is lost", r.Worker)
		} else if found == "" {
			found = fmt.Sprintf("the record of worker %d, of %s", r.Worker, holderOf(r).who())
		}
	}
	if found == "" && len(bad) > 0 {
		found = fmt.Sprintf("the record of worker %d, which cannot be read", slices.Min(slices.Collect(maps.Keys(bad))))
	}
	return found, nil
}
