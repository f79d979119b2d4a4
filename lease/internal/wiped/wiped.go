// Package wiped handles a store that is new or has lost entries: some of them, or all. The rules,
// and why no ID repeats, are told in the documentation of package lease, "A store that loses
// entries".
//
// A newcomer waits at the store's door ([Newcomer.Wait]) or, if one record alone is lost, for that
// worker ID ([Outwait]), and looks again after it has saved a first record ([Confirm]). A holder
// puts back all else that was lost ([Heal], [RestoreWatermark]); its own record it puts back first,
// in package tenure (restore.go). It replaces the record of a newcomer that has not looked again
// yet ([IsStray]).
package wiped

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// WaitsFor says what ends the wait for a store that has no entries.
func WaitsFor(left time.Duration, c protocol.Clocks) string {
	if !c.Agree() {
		return fmt.Sprintf("the store's clock reads %s and this host's %s: no worker ID is taken until they agree within %v",
			times.Text(c.Engine), times.Text(c.Own), protocol.Skew)
	}
	return fmt.Sprintf("a worker ID is taken in %v, when every window under a record that may be lost has ended", left.Round(time.Second))
}

// Confirm makes the mark of a worker ID that had no mark. If it had no record either, because
// before was never stored, Confirm then looks at the door and at the record again: if the store has
// lost entries since they were read, the worker ID may be another holder's, so Confirm removes the
// record, and the error matches ErrWiped. door is the door as it was read.
func Confirm(s book.Line, door protocol.Door, before, saved protocol.Record) (protocol.Record, error) {
	if saved.Marked {
		return saved, nil
	}
	err := book.MarkWorker(s, saved)
	switch {
	case before.Version == "" && err == nil:
		err = lookAgain(s, door, saved)
	case before.Version != "" && errors.Is(err, book.ErrWiped):
		err = nil // the mark is of the record before
	}
	saved.Marked = err == nil
	if errors.Is(err, book.ErrWiped) {
		_ = s.Delete(book.RecordKey(saved.Worker), saved.Version)
	}
	return saved, err
}

func lookAgain(s book.Line, door protocol.Door, saved protocol.Record) error {
	is, err := book.GetDoor(s)
	if err != nil {
		return err
	}
	found, err := book.GetRecord(s, saved.Worker)
	if err == nil && (is.Name != door.Name || found.Version != saved.Version) {
		err = fmt.Errorf("%w, while worker %d was taken", book.ErrWiped, saved.Worker)
	}
	return err
}

// IsStray reports whether r is the first record of a newcomer that has not noticed yet that all
// entries were lost since it read them. The newcomer notices before it stamps (Confirm), even if
// another record has replaced r by then.
func IsStray(s book.Line, r protocol.Record) (bool, error) {
	if r.Saves > 1 || r.Marked {
		return false, nil
	}
	d, err := book.GetDoor(s)
	if errors.Is(err, driver.ErrBadRecord) { // the newcomer may have looked again before
		return false, nil
	}
	return err == nil && d.Name != r.Store, err
}
