package tenure

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/wiped"
)

// change saves the record that edit returns. edit must not make a bound earlier that is in use. If
// the record was lost and is put back, change returns ErrRestored, and the edit is not saved.
func (t *Tenure) change(s book.Line, edit func(protocol.Record) protocol.Record) error {
	before, was := t.Record, t.Heard
	err := t.save(s, edit)
	// Even if this save fails, an earlier one, whose answer was lost, may have been stored late.
	t.Overdue = t.Overdue || was.silent(before, s.Read(), t.Record.Renewed) > t.Rules.WindowLength*15/16
	return err
}

// restoreAndChange is change. If the record was lost and is put back, restoreAndChange saves the
// edit afterwards.
func (t *Tenure) restoreAndChange(s book.Line, edit func(protocol.Record) protocol.Record) (err error) {
	for range book.MaxConflicts {
		if err = t.change(s, edit); !errors.Is(err, ErrRestored) {
			return err
		}
	}
	return err
}

func (t *Tenure) save(s book.Line, edit func(protocol.Record) protocol.Record) error {
	if t.Doubt != Sure {
		if err := t.look(s); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		read := s.Read()
		saved, tried, err := book.SaveWithHistory(s, t.Rules.History, t.Record, edit(t.Record))
		if err == nil {
			t.noteSaved(s, saved, read)
			return nil
		}
		// Clip, so that a copy of t shares no room with it.
		t.Tried = append(slices.Clip(t.Tried[max(0, len(t.Tried)+1-maxTried):]), tried)
		t.Doubt = unsure
		if !errors.Is(err, driver.ErrConflict) {
			t.Freed = t.Freed || tried.State != protocol.StateHeld
			return err
		}
		if err := t.look(s); err != nil {
			return err
		}
		if try == book.MaxConflicts {
			return book.RefusesToSave(fmt.Sprintf("the record of worker %d", t.Record.Worker))
		}
	}
}

// maxTried is the number of saves without an answer that are remembered. If an older one is stored
// after all, the lease ends.
const maxTried = 1000

// noteSaved notes that the record is stored. read is the clocks' reading before the save.
func (t *Tenure) noteSaved(s book.Line, saved protocol.Record, read book.Reading) {
	t.Record, t.Doubt, t.Tried = saved, Sure, nil
	t.Heard = Heard{read.At, read.Own, s.Read().Steady()}
}

// look reads the stored record after a save whose result is not known, and judges it.
func (t *Tenure) look(s book.Line) error {
	found, err := book.GetRecord(s, t.Record.Worker)
	if errors.Is(err, driver.ErrBadRecord) {
		return fmt.Errorf("%w: its record cannot be read: %w", protocol.ErrLost, err)
	}
	if err != nil {
		return err
	}
	kept, err := protocol.Judge(t.Record, t.Window, t.Tried, found)
	if errors.Is(err, protocol.ErrGone) {
		return t.restore(s, found)
	}
	if errors.Is(err, protocol.ErrLost) {
		stray, failed := wiped.IsStray(s, found)
		if stray {
			failed = t.restore(s, found)
		}
		if failed != nil && !errors.Is(failed, protocol.ErrLost) {
			return failed
		}
	}
	if err != nil {
		return err
	}
	if t.Doubt == returning {
		if err := t.mayRestore(s); err != nil {
			return err
		}
	}
	t.Record, t.Doubt, t.Heard.At = kept, Sure, s.Read().Steady()
	return nil
}
