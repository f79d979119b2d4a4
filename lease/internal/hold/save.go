package hold

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
func (h *Hold) change(s book.Line, edit func(protocol.Record) protocol.Record) error {
	own, was := h.Own, h.Heard
	err := h.save(s, edit)
	// Even if this save fails, an earlier one, whose answer was lost, may have been stored late.
	h.Overdue = h.Overdue || was.silent(own, s.Read(), h.Own.Renewed) > h.Rules.Window*15/16
	return err
}

// restoreAndChange is change. If the record was lost and is put back, restoreAndChange saves the
// edit afterwards.
func (h *Hold) restoreAndChange(s book.Line, edit func(protocol.Record) protocol.Record) (err error) {
	for range book.MaxConflicts {
		if err = h.change(s, edit); !errors.Is(err, ErrRestored) {
			return err
		}
	}
	return err
}

func (h *Hold) save(s book.Line, edit func(protocol.Record) protocol.Record) error {
	if h.Doubt != Sure {
		if err := h.look(s); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		read := s.Read()
		saved, tried, err := book.SaveWithHistory(s, h.Rules.History, h.Own, edit(h.Own))
		if err == nil {
			h.noteSaved(s, saved, read)
			return nil
		}
		// Clip, so that a copy of h shares no room with it.
		h.Tried = append(slices.Clip(h.Tried[max(0, len(h.Tried)+1-maxTried):]), tried)
		h.Doubt = unsure
		if !errors.Is(err, driver.ErrConflict) {
			h.Freed = h.Freed || tried.State != protocol.StateHeld
			return err
		}
		if err := h.look(s); err != nil {
			return err
		}
		if try == book.MaxConflicts {
			return book.RefusesToSave(fmt.Sprintf("the record of worker %d", h.Own.Worker))
		}
	}
}

// maxTried is how many saves without an answer are remembered. If an older one is stored
// after all, the lease ends.
const maxTried = 1000

// noteSaved notes that the record is stored. read is what the clocks read before.
func (h *Hold) noteSaved(s book.Line, own protocol.Record, read book.Reading) {
	h.Own, h.Doubt, h.Tried = own, Sure, nil
	h.Heard = Heard{read.At, read.Own, s.Read().Steady()}
}

// look reads the stored record after a save whose result is not known, and finds out what it
// means.
func (h *Hold) look(s book.Line) error {
	found, err := book.GetRecord(s, h.Own.Worker)
	if errors.Is(err, driver.ErrBadRecord) {
		return fmt.Errorf("%w: its record cannot be read: %w", protocol.ErrLost, err)
	}
	if err != nil {
		return err
	}
	kept, err := protocol.Judge(h.Own, h.Window, h.Tried, found)
	if errors.Is(err, protocol.ErrGone) {
		return h.restore(s, found)
	}
	if errors.Is(err, protocol.ErrLost) {
		stray, failed := wiped.IsStray(s, found)
		if stray {
			failed = h.restore(s, found)
		}
		if failed != nil && !errors.Is(failed, protocol.ErrLost) {
			return failed
		}
	}
	if err != nil {
		return err
	}
	if h.Doubt == returning {
		if err := h.mayRestore(s); err != nil {
			return err
		}
	}
	h.Own, h.Doubt, h.Heard.At = kept, Sure, s.Read().Steady()
	return nil
}
