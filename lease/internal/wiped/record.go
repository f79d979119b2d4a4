package wiped

import (
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Outwait saves how long the record of a worker ID is known to be lost, and returns how much longer
// the worker ID stays unused. If that is 0, next may be taken.
func Outwait(
	s book.Line, w *book.Watch, r protocol.Record, layout snowflake.Layout, m protocol.Moment, c protocol.Clocks,
) (next protocol.Record, left time.Duration, err error) {
	whole := protocol.Healing(layout.Unit)
	if next = r; r.Version == "" {
		if mark, err := s.Get(book.MarkKey(r.Worker)); err == nil && mark.Version == "" {
			return next, whole, nil // all is lost, and the wait for the door is enough
		}
		next.Layout, next.Marked, left = layout, true, whole
		next.Waited = protocol.Waited{Name: machine.RandomText()}.More(0, m)
	} else {
		more := w.Seen.Lasts(LostKey(r.Worker), r.Waited.Name, r.Waited.For, m, whole)
		if next, left = r.Missing(more, m, c, whole); left <= 0 || next.Waited == r.Waited {
			return next, left, nil
		}
	}
	next.Saves++
	saved, err := book.PutRecord(s, next)
	if errors.Is(err, driver.ErrConflict) {
		return next, left, nil
	}
	if err == nil {
		w.Seen.Lasts(LostKey(r.Worker), next.Waited.Name, next.Waited.For, m, whole)
	}
	return saved, left, err
}

// LostKey is the key under which a process notes the loss of a record.
func LostKey(worker int) string { return "lost " + book.RecordKey(worker) }
