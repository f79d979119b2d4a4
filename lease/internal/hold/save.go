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

// move saves the record after change. change must not make a bound earlier that is in use.
// If the record was lost and is put back, move returns ErrRestored; change is not made.
func (h *Hold) move(s book.Line, change func(protocol.Record) protocol.Record) error {
	own, was := h.Own, h.Heard
	err := h.save(s, change)
	// Even if this save fails, an earlier one, whose answer was lost, may have been stored late.
	h.Overdue = h.Overdue || was.silence(own, s.Read(), h.Own.Renewed) > h.Rules.Window*15/16
	return err
}

// moveAgain is move. If the record was lost and is put back, moveAgain makes the change afterwards.
func (h *Hold) moveAgain(s book.Line, change func(protocol.Record) protocol.Record) (err error) {
	for range book.MaxConflicts {
		if err = h.move(s, change); !errors.Is(err, ErrRestored) {
			return err
		}
	}
	return err
}

func (h *Hold) save(s book.Line, change func(protocol.Record) protocol.Record) error {
	if h.Doubt != Sure {
		if err := h.look(s); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		read := s.Read()
		saved, tried, err := book.Replace(s, h.Rules.History, h.Own, change(h.Own))
		if err == nil {
			h.saved(s, saved, read)
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

// saved notes that the record is stored. read is what the clocks read before.
func (h *Hold) saved(s book.Line, own protocol.Record, read book.Reading) {
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
