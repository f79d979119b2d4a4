package wiped

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Newcomer is a process that comes to a store for a worker ID.
type Newcomer struct {
	Line         book.Line
	Watch        *book.Watch
	Layout       snowflake.Layout
	WindowLength time.Duration
	NewStore     bool // the store counts as new unless it shows that it was used
	Log

	// Foreign returns the error for a record with another layout or, if worker is None, for a store.
	Foreign func(worker int, has snowflake.Layout) error

	Raced  func(error) error // called when a save met a conflict; an error ends the wait
	Rested func()            // called after each rest
}

// Log is told how a newcomer waits.
type Log struct {
	Waits  func(left time.Duration, d ShutDoor) // called at first, and then every logEvery
	Shut   func(err error, until time.Time)     // called while the door is shut, for the reason that err names
	Opened func()                               // called when the door is open, or cannot be read
}

// logEvery is the interval at which a process without a worker ID logs the rest of its wait.
const logEvery = 30 * time.Second

// ShutDoor is a door that is not open, with its circumstances.
type ShutDoor struct {
	door, made protocol.Door // made is what replaces a door that is lost or cannot be read
	protocol.Clocks
	isNew bool   // the store is known to be new
	Used  string // what shows that the store is not new, if that was looked for
}

// Wait returns the store's door once it is open. If the store has no door, Wait makes it. If the
// time for requests ends first, the error matches ErrWiped.
func (n Newcomer) Wait() (protocol.Door, error) {
	var waits error // the purpose of the wait, once there is one
	ends := func(err error) error {
		if waits == nil {
			return err
		}
		return book.Ended(n.Line, fmt.Errorf("%w; the next Acquire continues this wait", waits), err)
	}
	var last time.Duration
	for logged := (time.Time{}); ; {
		shut, err := n.look()
		if shut.door.Open {
			n.Watch.Seen.Forget(book.DoorKey)
		}
		if err != nil || shut.door.Open {
			n.Opened()
			return shut.door, ends(err)
		}
		next, left, err := advance(n.Line, n.Watch, shut.door, shut.made, shut.Clocks, shut.isNew)
		if errors.Is(err, driver.ErrConflict) {
			err, next.Open = n.Raced(err), true // it is looked at again
		}
		if err == nil && next.Open {
			continue
		}
		now := n.Line.Read()
		logs := err == nil && (logged.IsZero() || left > last+time.Second || now.At.Sub(logged) >= logEvery)
		last = left
		if logs && shut.Used == "" {
			shut.Used, err = n.used(next)
		}
		if err != nil {
			return shut.door, ends(err)
		}
		waits = fmt.Errorf("%w: %s", book.ErrWiped, WaitsFor(left, shut.Clocks))
		if logs {
			logged = now.At
			n.Waits(left, shut)
		}
		n.Shut(waits, now.At.Add(left))
		if ended := n.Line.Rest(now.BeforeEnd(min(protocol.Progress+machine.RandomN(protocol.Progress), left))); ended != nil {
			return shut.door, ends(ended)
		}
		n.Rested()
	}
}

// look reads the store's door. If it is not open, look also reads the clocks, and finds out whether
// the store is new. NewStore is not believed if the store was used.
func (n Newcomer) look() (shut ShutDoor, err error) {
	shut.made.Layout = n.Layout
	shut.door, err = book.GetDoor(n.Line)
	d := shut.door
	switch {
	case errors.Is(err, driver.ErrBadRecord) && d.Version != "":
		err = nil // it is replaced, as if it were lost
	case err == nil && d.Version != "" && d.Layout != n.Layout:
		err = n.Foreign(protocol.None, d.Layout)
	}
	if err != nil || d.Open {
		return shut, err
	}
	if d.Name == "" || n.NewStore {
		if shut.Used, err = n.used(d); err != nil {
			return shut, err
		}
	}
	if d.Version == "" && shut.Used == "" {
		trace, told, err := n.Line.Trace()
		switch {
		case err != nil:
			return shut, err
		case trace == "" && told:
			shut.made.Whole = n.WindowLength
		}
		shut.made.Trace = trace
	}
	shut.Used = cmp.Or(shut.Used, shut.made.Trace, d.Trace)
	shut.isNew = n.NewStore && shut.Used == ""
	shut.Own = n.Line.Read().Own
	shut.Engine, err = n.Line.Engine()
	return shut, err
}

// used returns the evidence that the store of d is not new: a worker ID that has, or had, a record.
// It returns "" if there is none. If d is lost, the holders of another layout may not have put
// it back yet. Then used returns an error if a record has another layout.
func (n Newcomer) used(d protocol.Door) (found string, err error) {
	records, bad, err := book.AllRecords(n.Line)
	if err != nil {
		return "", err
	}
	for _, r := range protocol.Sorted(maps.Values(records)) {
		if d.Name == "" && r.State != protocol.StateLost && r.Layout != n.Layout {
			return "", n.Foreign(r.Worker, r.Layout)
		}
		if found == "" && r.State == protocol.StateLost {
			found = fmt.Sprintf("the mark of worker %d, whose record is lost", r.Worker)
		} else if found == "" {
			found = fmt.Sprintf("the record of worker %d, of %s", r.Worker, protocol.Who(r.Owner, r.Host, r.PID))
		}
	}
	if found == "" && len(bad) > 0 {
		found = fmt.Sprintf("the record of worker %d, which cannot be read", slices.Min(slices.Collect(maps.Keys(bad))))
	}
	return found, nil
}

// advance saves how long d is known to be closed, or makes the door if there is none or it cannot
// be read. It returns how long the door stays closed. If another process was quicker, the error
// matches ErrConflict. A new door follows made in its layout, the length of the wait, and whether
// the store has a watermark.
func advance(s book.Line, w *book.Watch, d, made protocol.Door, c protocol.Clocks, isNew bool) (next protocol.Door, left time.Duration, err error) {
	m := s.Read().Moment
	known := w.Seen.Lasts(book.DoorKey, d.Name, d.Waited.For, m, protocol.Healing(made.Layout.Unit))
	if d.Name == "" {
		made.Version = d.Version
		next, left = made.Advance(known, m, c, isNew, made.Wait())
		next.Name = machine.RandomText()
	} else if next, left = d.Advance(known, m, c, isNew, d.Wait()); next == d {
		return next, left, nil
	}
	e, err := s.Put(book.DoorKey, d.Version, next.Encode())
	if err == nil {
		next.Version = e.Version
		w.Seen.Lasts(book.DoorKey, next.Name, next.Waited.For, m, protocol.Healing(made.Layout.Unit))
	}
	return next, left, err
}

// Count saves how long d, which is not open, is known to be closed, as newcomers do, for a process
// that wants no worker ID. If nobody ever had one, the store may be new, and Count leaves it alone.
// next is the door as it is now; if it is not open, waits says what ends the wait. waits and err
// match ErrWiped.
func Count(s book.Line, w *book.Watch, d protocol.Door) (next protocol.Door, waits, err error) {
	if d.Name == "" {
		records, _, err := book.AllRecords(s)
		if err != nil {
			return d, nil, err
		}
		for _, r := range records {
			if r.State != protocol.StateLost {
				d.Layout = r.Layout
			}
		}
		if d.Layout == (snowflake.Layout{}) {
			return d, nil, book.ErrWiped
		}
	}
	c := protocol.Clocks{Own: s.Read().Own}
	if c.Engine, err = s.Engine(); err != nil {
		return d, nil, err
	}
	next, left, err := advance(s, w, d, d, c, false)
	switch {
	case errors.Is(err, driver.ErrConflict):
		return d, nil, book.ErrWiped
	case err == nil && !next.Open:
		waits = fmt.Errorf("%w: %s", book.ErrWiped, WaitsFor(left, c))
	}
	return next, waits, err
}
