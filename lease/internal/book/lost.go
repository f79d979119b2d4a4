package book

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// AdvanceDoor saves how long d is known to be closed, or makes the door if there is none or it
// cannot be read. It returns how long the door stays closed. If another process was quicker, the
// error matches ErrConflict. A door that is made anew has the layout and the length of the wait,
// and is marked, as made says.
func (w *Watch) AdvanceDoor(s Line, d, made protocol.Door, c protocol.Clocks, isNew bool) (next protocol.Door, left time.Duration, err error) {
	m := s.Read().Moment
	known := w.Seen.Lasts(DoorKey, d.Name, d.Waited.For, m, protocol.Healing(made.Layout.Unit))
	if d.Name == "" {
		made.Version = d.Version
		next, left = made.Advance(known, m, c, isNew, made.Wait())
		next.Name = machine.RandomText()
	} else if next, left = d.Advance(known, m, c, isNew, d.Wait()); next == d {
		return next, left, nil
	}
	e, err := s.Put(DoorKey, d.Version, next.Encode())
	if err == nil {
		next.Version = e.Version
		w.Seen.Lasts(DoorKey, next.Name, next.Waited.For, m, protocol.Healing(made.Layout.Unit))
	}
	return next, left, err
}

// Outwait saves how long the record of a worker ID is known to be lost, and returns how much longer
// the worker ID stays unused. If that is 0, next may be taken.
func Outwait(
	s Line, r protocol.Record, layout snowflake.Layout, seen *sightings, m protocol.Moment, c protocol.Clocks,
) (next protocol.Record, left time.Duration, err error) {
	whole := protocol.Healing(layout.Unit)
	if next = r; r.Version == "" {
		if mark, err := s.Get(MarkKey(r.Worker)); err == nil && mark.Version == "" {
			return next, whole, nil // all is lost, and the wait for the door is enough
		}
		next.Layout, next.Marked, left = layout, true, whole
		next.Waited = protocol.Waited{Name: machine.RandomText()}.More(0, m)
	} else {
		more := seen.Lasts(LostKey(r.Worker), r.Waited.Name, r.Waited.For, m, whole)
		if next, left = r.Missing(more, m, c, whole); left <= 0 || next.Waited == r.Waited {
			return next, left, nil
		}
	}
	next.Saves++
	saved, err := PutRecord(s, next)
	if errors.Is(err, driver.ErrConflict) {
		return next, left, nil
	}
	if err == nil {
		seen.Lasts(LostKey(r.Worker), next.Waited.Name, next.Waited.For, m, whole)
	}
	return saved, left, err
}

// LostKey is the key of a lost record in sightings.
func LostKey(worker int) string { return "lost " + RecordKey(worker) }

// WaitsFor says what ends the wait for a store that has no entries.
func WaitsFor(left time.Duration, c protocol.Clocks) string {
	if !c.Agree() {
		return fmt.Sprintf("the store's clock reads %s and this host's %s: no worker ID is taken until they agree within %v",
			times.Text(c.Engine), times.Text(c.Own), protocol.Skew)
	}
	return fmt.Sprintf("a worker ID is taken in %v, when every window under a record that may be lost has ended", left.Round(time.Second))
}
