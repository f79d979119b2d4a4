package lease

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/tenure"
	"github.com/seed-5394e6b1/snowflake/lease/internal/wiped"
)

// attempt returns the attempt to take the worker ID of c, which save makes.
func (s *search) attempt(c candidate) (attempt, error) {
	born, begun := s.clones.generation(), s.line.Read()
	if born != s.clones.begun && s.clones.torn(errCloned) {
		return attempt{}, errCloned
	}
	s.known.horizon.Observe(begun.Own, begun.Steady())
	rules := s.o.rules()
	by := protocol.Holder{
		Owner:        s.o.Owner,
		Host:         hostname(),
		PID:          os.Getpid(),
		Reuse:        s.o.Reuse,
		WindowLength: s.o.Window,
		FloorEvery:   s.o.FloorEvery,
		Store:        s.door.Name,
		Offline:      s.offline,
	}
	bound := by.BoundAt(begun.Own)
	err := s.known.horizon.Leap(rules, c.record.Worker, bound, s.engineNow(), begun.Steady(), s.accepted.Load())
	if err != nil {
		return attempt{}, leaseError(err)
	}
	by.Token = s.clones.newToken(born, begun.At)
	w := protocol.Window{Seq: c.seq, From: rules.WindowFrom(c.from, begun.Own), Before: c.from}
	if s.o.seeksNamesake() {
		s.known.namesake.mine[c.record.Worker] = by.Token
	}
	least, _ := s.line.Unstamped().Least(w, false)
	return attempt{c, w, c.record.Take(w, by, least, protocol.Clocks{Own: begun.Own, Engine: s.engineNow()}), begun, born, nil}, nil
}

// save takes the worker ID of a. The owner's entry comes first, so that an owner that keeps its
// worker ID finds it. The look at the watermark comes last.
func (s *search) save(a *attempt) (saved protocol.Record, err error) {
	worker := a.record.Worker
	s.known.last = worker
	if name := strconv.Itoa(worker); s.o.Reuse != ReuseOnce && string(s.owner.Value) != name {
		e, err := s.line.Put(book.OwnerKey(s.o.Owner), s.owner.Version, []byte(name))
		if err == nil {
			s.owner = e
		} else if s.o.Reuse == ReuseKeep && !s.badOwner {
			// After a conflict, another process of the owner may be taking a worker ID.
			return saved, err
		}
	}
	saved, a.wanted, err = book.SaveWithHistory(s.line, s.o.History, a.record, a.wanted)
	if err == nil {
		saved, err = wiped.Confirm(s.line, s.door, a.record, saved)
	}
	if err == nil {
		a.window.Above, s.known.passed, err = tenure.Above(s.line, s.door, a.record, time.Time{}, s.known.passed)
	}
	return saved, err
}

// missed handles a save that failed. It returns an error if the search is to end.
func (s *search) missed(a attempt, err error) error {
	if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrBadRecord) && !errors.Is(err, ErrWiped) {
		a.unsure = err
	}
	// The conflict may be with this very save, if the store's client sent it twice.
	s.tried = append(s.tried, a)
	switch {
	case errors.Is(err, ErrWiped):
		s.read = nil
		return s.raced(err)
	case errors.Is(err, ErrConflict):
		delete(s.read, a.record.Worker) // it is another record by now
		s.whole = false
		if s.races++; s.o.Reuse != ReuseAny || s.races == maxRaces {
			s.read = nil
		}
		return s.raced(err)
	case s.line.Read().Over:
		return s.because(err)
	case len(s.failures) == maxFailures:
		return s.failures[0]
	}
	s.failures = append(s.failures, err)
	s.read = nil
	return nil
}

// skipped returns the worker IDs that are not tried again, because a save failed that may still be
// made, and why it failed.
func (s *search) skipped() map[int]error {
	skipped := map[int]error{}
	for _, a := range s.tried {
		// An owner that keeps its worker ID must not get a second one.
		if a.unsure != nil && s.o.Reuse != ReuseKeep {
			skipped[a.record.Worker] = a.unsure
		}
	}
	return skipped
}

// forgetOwner removes the entry of the owner that had the worker ID before, if it still names this
// worker ID: that owner gets another one. If that fails, the entry that remains costs a request.
func (s *search) forgetOwner(a attempt) {
	if before := a.record.Owner; before != "" && before != s.o.Owner {
		e, err := s.line.Get(book.OwnerKey(before))
		if worker, _, ok := book.DecodeOwner(e); err == nil && ok && worker == a.record.Worker {
			_ = s.line.Delete(e.Key, e.Version)
		}
	}
}

// free frees the worker IDs of attempts. It returns the attempts whose records may be stored, now
// or later.
func (c *cloning) free(s book.Line, tried []attempt) []attempt {
	// If the machine was cloned, the other copy may stamp what this copy does not use.
	return slices.DeleteFunc(tried, func(a attempt) bool { return a.born != c.generation() || free(s, a) })
}

// free frees the worker ID of an attempt if its record was stored: nothing was stamped, so
// the record becomes what it was before. It reports whether there is nothing more to do. If
// free never succeeds, the worker ID comes free by itself after a window.
func free(s book.Line, a attempt) (done bool) {
	r, err := book.GetRecord(s, a.wanted.Worker)
	switch {
	case err != nil:
		return false
	case r.Token == a.wanted.Token && r.State != StateSpent:
		stray, err := wiped.IsStray(s, r)
		switch {
		case err == nil && stray:
			// The holder whose record was lost would take this one for a later holder's.
			err = s.Delete(book.RecordKey(r.Worker), r.Version)
		case err == nil:
			next := r.Undo(a.record, a.window)
			next.Saves++
			_, err = book.PutRecord(s, next)
		}
		return err == nil
	case r.Version != a.record.Version:
		return true // its save can no longer be made
	}
	return a.unsure == nil
}
