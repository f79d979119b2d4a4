package lease

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// move saves the record after change. change must not make a bound earlier that is in use.
// If the record was lost and is put back, move returns errRestored; change is not made.
func (h *hold) move(s book.Line, change func(protocol.Record) protocol.Record) error {
	own, was := h.own, h.heard
	err := h.save(s, change)
	// Even if this save fails, an earlier one, whose answer was lost, may have been stored late.
	h.overdue = h.overdue || was.silence(own, s.Read(), h.own.Renewed) > h.rules.window*15/16
	return err
}

// moveAgain is move. If the record was lost and is put back, moveAgain makes the change afterwards.
func (h *hold) moveAgain(s book.Line, change func(protocol.Record) protocol.Record) (err error) {
	for range book.MaxConflicts {
		if err = h.move(s, change); !errors.Is(err, errRestored) {
			return err
		}
	}
	return err
}

func (h *hold) save(s book.Line, change func(protocol.Record) protocol.Record) error {
	if h.doubt != sure {
		if err := h.look(s); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		read := s.Read()
		saved, tried, err := book.Replace(s, h.rules.history, h.own, change(h.own))
		if err == nil {
			h.saved(s, saved, read)
			return nil
		}
		// Clip, so that a copy of h shares no room with it.
		h.tried = append(slices.Clip(h.tried[max(0, len(h.tried)+1-maxTried):]), tried)
		h.doubt = unsure
		if !errors.Is(err, ErrConflict) {
			h.freed = h.freed || tried.State != StateHeld
			return err
		}
		if err := h.look(s); err != nil {
			return err
		}
		if try == book.MaxConflicts {
			return book.RefusesToSave(fmt.Sprintf("the record of worker %d", h.own.Worker))
		}
	}
}

// maxTried is how many saves without an answer are remembered. If an older one is stored
// after all, the lease ends.
const maxTried = 1000

// saved notes that the record is stored. read is what the clocks read before.
func (h *hold) saved(s book.Line, own protocol.Record, read book.Reading) {
	h.own, h.doubt, h.tried = own, sure, nil
	h.heard = heard{read.At, read.Own, s.Read().Steady()}
}

// look reads the stored record after a save whose result is not known, and finds out what it
// means.
func (h *hold) look(s book.Line) error {
	found, err := book.GetRecord(s, h.own.Worker)
	if errors.Is(err, ErrBadRecord) {
		return fmt.Errorf("%w: its record cannot be read: %w", ErrLost, err)
	}
	if err != nil {
		return err
	}
	kept, err := protocol.Judge(h.own, h.window, h.tried, found)
	if errors.Is(err, protocol.ErrGone) {
		return h.restore(s, found)
	}
	if errors.Is(err, ErrLost) {
		stray, failed := book.IsStray(s, found)
		if stray {
			failed = h.restore(s, found)
		}
		if failed != nil && !errors.Is(failed, ErrLost) {
			return failed
		}
	}
	if err != nil {
		return err
	}
	if h.doubt == returning {
		if err := h.mayRestore(s); err != nil {
			return err
		}
	}
	h.own, h.doubt, h.heard.at = kept, sure, s.Read().Steady()
	return nil
}

// mayRestore returns an error that matches ErrLost if somebody may have taken the worker ID for
// free since own was saved, or since a release that had no answer. It is asked before the record is
// put back, and again when it is known to be there: if the process or the request stood still
// meanwhile, the record may have been another holder's, and have been lost once more.
func (h *hold) mayRestore(s book.Line) error {
	engine, err := s.Engine()
	if err != nil {
		return err
	}
	now := s.Read()
	switch {
	case h.freed || !h.own.Restorable(h.window, now.Own, h.heard.silence(h.own, now, time.Time{})):
		return fmt.Errorf("%w: the record of worker %d is gone, and may be another holder's", ErrLost, h.own.Worker)
	case !h.own.Restorable(h.window, now.Own, h.heard.silence(h.own, now, engine)):
		return fmt.Errorf("lease: the record of worker %d is gone, and is put back when the store's clock, which reads %s, is right again",
			h.own.Worker, times.Text(engine))
	}
	return nil
}

// errRestored says that the record was lost and is there again, with the bound that it had.
var errRestored = errors.New("lease: the record was lost, and was put back")

// restore puts the record back in place of found, if nobody can have taken the worker ID
// for free since it was saved.
func (h *hold) restore(s book.Line, found protocol.Record) error {
	read := s.Read()
	if err := h.mayRestore(s); err != nil {
		return err
	}
	if err := book.MarkWorker(s, h.own); err != nil && !errors.Is(err, ErrWiped) {
		return err
	}
	next := h.own
	next.Version, next.Saves = found.Version, max(h.own.Saves, found.Saves)+1
	h.doubt = returning
	saved, err := book.PutRecord(s, next)
	if err != nil {
		h.tried = append(slices.Clip(h.tried), next)
		return err
	}
	if err := h.mayRestore(s); err != nil {
		return err
	}
	h.saved(s, saved, read)
	s.Restored(saved.Worker)
	return errRestored
}
