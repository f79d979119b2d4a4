package lease

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/wiped"
)

// find takes one worker ID, and returns its record. It waits for a free one for one and a half
// times the longest window, its own or a holder's; and for a worker ID whose record is lost, until
// that may be used.
func (s *search) find() (a attempt, saved protocol.Record, err error) {
	for {
		if s.read == nil {
			if err := s.beginRound(); err != nil {
				return a, saved, book.Ended(s.line, s.full, s.because(err))
			}
		}
		c, wait, err := choose(s.o, s.line.Read().Own, protocol.Sorted(maps.Values(s.read)), s.former(), s.silent, s.skipped())
		if (err != nil || c.from.After(s.line.Read().Own)) && !s.enough() {
			if err := s.readMore(); err != nil {
				return a, saved, book.Ended(s.line, s.full, s.because(err))
			}
			continue
		}
		if err != nil {
			var e *ExhaustedError
			if errors.As(err, &e) && len(s.bad) > 0 {
				e.Lost = s.bad
			}
			if s.share() {
				continue
			}
			s.full = err
			if err := s.wait(wait, err); err != nil {
				return a, saved, err
			}
			continue
		}
		if a, err = s.attempt(c); err != nil {
			return a, saved, err
		}
		if saved, err = s.save(&a); err == nil {
			return a, saved, nil
		}
		if err := s.missed(a, err); err != nil {
			return a, saved, err
		}
	}
}

// beginRound begins a round.
func (s *search) beginRound() (err error) {
	if s.door, err = s.newcomer().Wait(); err != nil {
		return err
	}
	if s.now, err = s.line.Engine(); err != nil {
		return err
	}
	s.asked, s.known.horizon.EngineClock = s.line.Read().Moment, !s.now.IsZero()
	if s.o.Reuse != ReuseOnce {
		s.owner, err = s.line.Get(book.OwnerKey(s.o.Owner))
		_, _, readable := book.DecodeOwner(s.owner)
		s.badOwner = errors.Is(err, ErrBadRecord) || s.owner.Version != "" && !readable
		if err != nil && !s.badOwner {
			return err
		}
		if by := s.known.namesake.hears(s.owner); by != "" {
			s.log.namesake(by)
		}
	}
	s.scan, s.races = scan{read: map[int]protocol.Record{}, bad: map[int]error{}}, 0
	s.tried = s.clones.free(s.line, s.tried)
	if s.badOwner && s.o.Reuse == ReuseKeep { // one of the records may be the owner's
		return s.readAll()
	}
	if former := s.former(); s.o.First <= former && former <= s.o.last() {
		return s.readFormer(former)
	}
	return nil
}

// readFormer reads the worker ID that the owner had last. A namesake may have it.
func (s *search) readFormer(former int) error {
	err := s.readOne(former)
	if err != nil || !s.o.seeksNamesake() {
		return err
	}
	// If the namesake cannot be given a note now, it gets one at the next look.
	if process, _ := s.known.suspect(s.line, s.o.Owner, s.owner, s.read[former]); process != "" {
		s.log.namesake(process)
	}
	return nil
}

// former returns the worker ID that the owner had last, or none.
func (s *search) former() int {
	if worker, _, ok := book.DecodeOwner(s.owner); ok {
		return worker
	}
	return s.known.last
}

// enough reports whether it is useless to read more worker IDs.
func (s *search) enough() bool {
	return s.whole || s.o.Reuse == ReuseKeep && owns(s.o, s.read[s.former()])
}

// share saves how long the records of holders that may be dead are known to be unchanged, and
// learns what other processes know: in the first round, eight times in a window, and when ctx is
// about to end. It reports whether a holder turned out to be dead.
func (s *search) share() bool {
	longest, now := s.longest(), s.line.Read()
	if now.At.Sub(s.shared) < max(protocol.Progress, longest/8) && (now.End.IsZero() || now.End.Sub(now.At) >= longest/4) {
		return false
	}
	s.shared = now.At
	var suspects []protocol.Record
	for _, r := range s.read {
		if r.Live(s.silent(r)) {
			suspects = append(suspects, r)
		}
	}
	_ = s.known.Share(s.line, suspects, s.asked) // it is tried again in the next round
	return slices.ContainsFunc(suspects, func(r protocol.Record) bool { return !r.Live(s.silent(r)) })
}

// longest returns the longest window, of this process or of a holder.
func (s *search) longest() time.Duration {
	longest := s.o.Window
	for _, r := range s.read {
		if r.State == StateHeld {
			longest = max(longest, r.WindowLength)
		}
	}
	return longest
}

// readMore reads another worker ID at random or, if enough were read, all of them.
func (s *search) readMore() error {
	o := s.o
	if s.probes >= maxProbes || len(s.read)+len(s.bad) >= o.Count {
		return s.readAll()
	}
	s.probes++
	for {
		worker := o.First + machine.RandomN(o.Count)
		if _, ok := s.read[worker]; !ok && s.bad[worker] == nil {
			return s.readOne(worker)
		}
	}
}

func (s *search) readOne(worker int) error {
	r, err := book.GetMarked(s.line, worker)
	if errors.Is(err, ErrBadRecord) {
		s.bad[worker] = err
		return nil
	}
	if err != nil {
		return err
	}
	return s.note(r)
}

// readAll reads all worker IDs.
func (s *search) readAll() error {
	found, bad, err := book.AllRecords(s.line)
	if err != nil {
		return err
	}
	// Later rounds read all worker IDs at once, because probes is at its limit.
	s.read, s.bad, s.whole, s.probes = map[int]protocol.Record{}, map[int]error{}, true, maxProbes
	for worker := s.o.First; worker <= s.o.last(); worker++ {
		r, ok := found[worker]
		if !ok {
			r.Worker = worker
		}
		if err := bad[worker]; err != nil {
			s.bad[worker] = err
		} else if err := s.note(r); err != nil {
			return err
		}
	}
	return nil
}

// note keeps the record that was read of a worker ID.
func (s *search) note(r protocol.Record) error {
	switch r.State {
	case "":
		r.Layout = s.o.Layout // it was never used
	case StateLost:
		next, left, err := wiped.Outwait(s.line, &s.known.Watch, r, s.o.Layout, s.line.Read().Moment, s.clocks())
		if err != nil {
			return err
		}
		if r.Version == "" && next.Version != "" {
			s.log.missing(r.Worker)
		}
		if left > 0 {
			if s.left == 0 || left < s.left {
				s.left = left
			}
			s.bad[r.Worker] = fmt.Errorf("%w: worker %d is used again in %v", errNoRecord, r.Worker, left.Round(time.Second))
			return nil
		}
		r = next
	}
	if r.Layout != s.o.Layout {
		return foreign(r.Worker, r.Layout, s.o.Layout)
	}
	now := s.line.Read()
	if r.State != StateLost {
		s.known.Seen.Forget(wiped.LostKey(r.Worker))
	}
	if r.State == StateHeld {
		s.known.Seen.Sees(book.RecordKey(r.Worker), r.Version, now.At, protocol.Healing(r.Layout.Unit))
	}
	s.read[r.Worker] = s.door.Raise(r, now.Own).WithBoundsOf(s.known.lost[r.Worker])
	return nil
}

// errNoRecord is why a worker ID whose record was lost is unusable.
var errNoRecord = errors.New("lease: the record is lost, and a window under it may be open")

// wait waits until a worker ID may come free. none is the error to return if ctx ends first.
func (s *search) wait(wait time.Duration, none error) error {
	longest, now := s.longest(), s.line.Read()
	s.read = nil
	if s.left > 0 {
		if wait <= 0 || s.left < wait {
			wait = s.left
		}
		s.known.searching = now.At // the wait for the lost record ends by itself
	}
	if wait <= 0 {
		return none
	}
	wait = min(wait, max(s.o.Window/4, longest/64)) // a holder may also release its worker ID
	until := s.known.searching.Add(longest + longest/2)
	if now.At.Add(wait).After(until) {
		return none
	}
	if !now.End.IsZero() && now.End.Before(until) {
		until = now.End
	}
	s.log.rests(none, until)
	s.conflicts = 0
	if ended := s.line.Rest(now.BeforeEnd(toEnd(wait, s.ends, now.Own))); ended != nil {
		return fmt.Errorf("%w: %w", none, ended)
	}
	s.log.rested(none)
	return nil
}
