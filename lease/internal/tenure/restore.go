package tenure

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// ErrRestored says that the record was lost and is there again, with the bound that it had.
var ErrRestored = errors.New("lease: the record was lost, and was put back")

// restore puts the record back in place of found, unless another process may have taken the worker
// ID for free since the record was saved.
func (t *Tenure) restore(s book.Line, found protocol.Record) error {
	read := s.Read()
	if err := t.mayRestore(s); err != nil {
		return err
	}
	if err := book.MarkWorker(s, t.Record); err != nil && !errors.Is(err, book.ErrWiped) {
		return err
	}
	next := t.Record
	next.Version, next.Saves = found.Version, max(t.Record.Saves, found.Saves)+1
	t.Doubt = returning
	saved, err := book.PutRecord(s, next)
	if err != nil {
		t.Tried = append(slices.Clip(t.Tried), next)
		return err
	}
	if err := t.mayRestore(s); err != nil {
		return err
	}
	t.noteSaved(s, saved, read)
	s.Restored(saved.Worker)
	return ErrRestored
}

// mayRestore returns an error that matches ErrLost if another process may have taken the worker ID
// for free since t.Record was saved, or since a release that had no answer. It is asked before the
// record is put back, and again when it is known to be there: if the process or the request stood
// still in between, the record may have been another holder's, and have been lost once more.
func (t *Tenure) mayRestore(s book.Line) error {
	engine, err := s.Engine()
	if err != nil {
		return err
	}
	now := s.Read()
	switch {
	case t.Freed || !t.Record.Restorable(t.Window, now.Own, t.Heard.silent(t.Record, now, time.Time{})):
		return fmt.Errorf("%w: the record of worker %d is gone, and may be another holder's", protocol.ErrLost, t.Record.Worker)
	case !t.Record.Restorable(t.Window, now.Own, t.Heard.silent(t.Record, now, engine)):
		return fmt.Errorf("lease: the record of worker %d is gone, and is put back when the store's clock, which reads %s, is right again",
			t.Record.Worker, times.Text(engine))
	}
	return nil
}
