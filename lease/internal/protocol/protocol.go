// Package protocol defines the records that the leases keep in a store, and their rules: functions
// that take a record and observations, and return the record to save. They use no store, lock,
// clock or context. The documentation of package lease has the proof, which names them; those of
// protocol.go stand in its order, and door.go has those for a store that loses entries.
package protocol

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
)

// ErrLost is lease.ErrLost.
var ErrLost = errors.New("lease: the worker ID is lost")

// Judge decides whether a record that was found in the store is the holder's. own is the holder's
// record as last known to be saved, w its window, and tried are the records of saves whose results
// are not known.
//
// If found is the holder's, Judge returns the record from which the holder continues. It has the
// bounds of both, in case the store lost the latest saves. If the holder's record was lost, or an
// earlier holder put back its own in its place, the error matches ErrGone, and the holder may
// replace found by own. Otherwise the error matches ErrLost; it is an *Overlap if the other
// holder's window may overlap w.
func Judge(own Record, w Window, tried []Record, found Record) (Record, error) {
	if found.Retired() {
		return found, fmt.Errorf("%w: worker %d is spent, because its local copy counts as gone", ErrLost, own.Worker)
	}
	if found.Token == own.Token &&
		(found.Saves <= own.Saves || slices.ContainsFunc(tried, found.same)) {
		kept := found.WithBoundsOf(own)
		kept.Saves = max(found.Saves, own.Saves)
		return kept, nil
	}
	if found.Version == "" || found.State == StateLost || resurrected(own, found) {
		return found, fmt.Errorf("%w: the record of worker %d is gone", ErrGone, own.Worker)
	}
	lost := fmt.Errorf("%w: worker %d went to another holder, %s, at %s",
		ErrLost, own.Worker, found.who(), times.Text(found.From))
	for _, h := range append(found.Ended, found.Holding()) {
		if h.Token != own.Token && h.ClockSeq == w.Seq && h.From.Before(w.To) && h.To.After(w.From) {
			return found, &Overlap{lost, times.Later(w.From, h.From), w.To}
		}
	}
	if bound := found.BoundOf(w.Seq); bound.Before(w.To) {
		return found, &Overlap{lost, times.Later(w.From, bound), w.To}
	}
	return found, lost
}

// ErrGone says that a holder's record is no longer in the store.
var ErrGone = errors.New("lease: the record is lost")

// Overlap is the loss of a worker ID to a holder that may stamp the same times, [From, To).
type Overlap struct {
	error
	From, To time.Time
}

func (o *Overlap) Unwrap() error { return o.error }

// resurrected reports whether found is the record of a holder before own's, which has put it back
// since, and has not moved its bound.
func resurrected(own, found Record) bool {
	is := false
	for _, h := range own.Ended {
		if h.Token == found.Token {
			is = found.State == StateHeld && found.Saves <= own.Saves && !found.BoundOf(h.ClockSeq).After(h.To)
		}
	}
	return is
}

// Start returns the clock sequence with which a new holder whose clock reads now can issue IDs
// soonest, and the time from which it may. Among the sequences whose bounds have passed, it takes
// the one with the latest bound; if there is none, a sequence that was never used; if there is
// none, the one with the earliest bound.
func (r Record) Start(now time.Time) (seq int, from time.Time) {
	passed, unused, first := -1, -1, 0
	for i := range 1 << r.Layout.ClockSeqBits {
		switch bound := r.BoundOf(i); {
		case bound.IsZero():
			if unused < 0 {
				unused = i
			}
		case bound.After(now):
			if bound.Before(r.BoundOf(first)) {
				first = i
			}
		case passed < 0 || bound.After(r.BoundOf(passed)):
			passed = i
		}
	}
	switch {
	case passed >= 0:
		seq = passed
	case unused >= 0:
		seq = unused
	default:
		seq = first
	}
	return seq, r.BoundOf(seq)
}

// Take returns the record with which a new holder, by, takes the worker ID of r from the bound of w
// on. The holder stamps nothing before least.
// The bound is at most a window ahead of the clock, as the wait after a loss of all entries
// requires. If w begins later, renewals move the bound before w begins.
func (r Record) Take(w Window, by Holder, least time.Time, c Clocks) Record {
	by.Reuse = max(by.Reuse, r.Reuse)
	next := r
	next.Holder, next.Prior = by, r.leaves(c)
	next.State, next.Least, next.NoFloor, next.Waited = StateHeld, least, false, Waited{}
	return next.withWindow(w, times.Later(w.Before, by.BoundAt(c.Own)))
}

// leaves returns the times that the holder of r, and those before it, may still stamp.
func (r Record) leaves(c Clocks) Prior {
	p := r.Prior.unlessEnded(c)
	if r.State == StateHeld {
		p = p.And(Prior{r.Least, r.Ends()}.unlessEnded(c))
	}
	return p
}

// Retire returns the record of a worker ID whose LocalCopy is gone for good.
func (r Record) Retire(c Clocks) Record {
	r.Prior, r.State = r.leaves(c), StateSpent
	r.Saves++
	return r
}

// Retired reports whether the worker ID is not used again because its LocalCopy is gone. A holder
// with a LocalCopy never uses a worker ID up itself.
func (r Record) Retired() bool { return r.Offline && r.State == StateSpent }

// BoundAt returns the bound that the holder asks for when its clock reads now.
func (h Holder) BoundAt(now time.Time) time.Time { return now.Add(h.WindowLength) }

// Extend returns the record with which a holder moves its bound. A bound never goes back.
func (r Record) Extend(w Window, bound time.Time) Record {
	return r.withWindow(w, times.Later(r.BoundOf(w.Seq), bound))
}

// Release returns the record with which a holder whose generator has stopped releases its worker
// ID. The generator stamped nothing from next on, under any worker ID. unit is the layout's tick.
func (r Record) Release(w Window, next time.Time, to State, unit time.Duration) Record {
	if !next.After(w.From) {
		next = w.Before // nothing was stamped
	}
	next = times.Later(next, r.Least) // the watermark may have passed what was not stamped
	r.State = to
	// The tick in which the window ends may be stamped as a whole, so next may lie up to a
	// tick after the bound.
	bound := r.BoundOf(w.Seq)
	if next.Before(bound.Add(unit)) {
		bound = next
	}
	// Not WithBound: r may have a change to another clock sequence that was given up.
	return r.withWindow(w, bound)
}

// Undo returns the record that releases a worker ID which was taken, but never stamped. before is
// the record from which it was taken, and r the record as it was saved then, or by a renewal since.
// The watermark may have passed the floor of r.
func (r Record) Undo(before Record, w Window) Record {
	r.State, r.Owner, r.Reuse = StateFree, before.Owner, before.Reuse
	return r.WithBound(w.Seq, times.Earlier(times.Later(w.Before, r.Least), r.BoundOf(w.Seq)))
}

// Restorable reports whether a holder whose record was lost may put it back. since is the time
// since its last save, by every clock that can tell. Until a window has passed, no process takes
// the holder for dead. The bound stays as it is, so that a later holder, if there is one after all,
// detects the old record before its bound moves.
func (r Record) Restorable(w Window, now time.Time, since time.Duration) bool {
	return now.Before(w.To) && since < r.WindowLength
}

// Live reports whether r is held by a holder that may have renewed it within its window. idle is
// how long the entry is known to be unchanged.
func (r Record) Live(idle time.Duration) bool { return r.State == StateHeld && idle <= r.WindowLength }

// WithHistoryOf returns r, which replaces old, with the history. If r begins another holding, the
// holding of old has ended. If that was released unused, it is not in the history, not even as it
// was in an earlier save. Nor is a holding that r continues. If the record then has too many ended
// holdings, they move to the entry old.Chunks.Next, which must be stored before r: every process
// that replaces old stores the same there, so it does not matter which one succeeds.
func (r Record) WithHistoryOf(old Record, forget time.Time) (next Record, chunk []Holding) {
	r.Saves, r.Ended, r.Chunks = max(r.Saves, old.Saves)+1, old.Ended, old.Chunks
	ended := old.Holding()
	if old.Token == "" || ended.same(r.Holding()) {
		return r, nil
	}
	again := r.Holding() // in the history if a change to another clock sequence was given up
	all := slices.DeleteFunc(slices.Clone(old.Ended), func(h Holding) bool { return h.same(ended) || h.same(again) })
	if ended.From.Before(ended.To) {
		if len(all) >= MaxEnded { // and so again is not among them
			chunk, all = all, nil
			r.Chunks.Next++
		}
		all = append(all, ended)
	}
	r.Ended = slices.DeleteFunc(slices.Clone(all), func(h Holding) bool { return h.To.Before(forget) })
	if len(r.Ended) < len(all) {
		r.Forgotten = times.Later(r.Forgotten, forget)
	}
	return r, chunk
}

// Lowest returns the latest instant, up to most, before which no holder will stamp anything, and
// the record that keeps it back, or nil. A holder that is dead, because it has not renewed for a
// window, counts until its bounds have passed, and never again. A holder that continues while the
// store is away is never dead. If its layout has clock sequences, the store does not know which
// times it stamps then.
func Lowest(records []Record, now, most time.Time, dead func(Record) bool) (at time.Time, by *Record) {
	at = most
	for i := range records {
		r := &records[i]
		var least []time.Time
		switch {
		case r.State != StateHeld:
		case r.Offline && r.Layout.ClockSeqBits > 0:
			least = append(least, time.Time{})
		case r.Offline || now.Before(r.Ends()) || !dead(*r):
			least = append(least, r.Least)
		}
		if now.Before(r.Prior.To) {
			least = append(least, r.Prior.Least)
		}
		for _, l := range least {
			if l.Before(at) {
				at, by = l, r
			}
		}
	}
	return at, by
}

// Latest returns the latest bound of the records: all IDs that were issued under them are before
// it. A lost record has no bound, and its NotBefore is the clock of the process that reads it.
func Latest(records []Record) (bound time.Time) {
	for _, r := range records {
		if r.State != StateLost {
			bound = times.Later(bound, r.Last())
		}
	}
	return bound
}

// LatestFloor returns the latest Least of the worker IDs that are held.
func LatestFloor(records []Record) (at time.Time) {
	for _, r := range records {
		if r.State == StateHeld {
			at = times.Later(at, r.Least)
		}
	}
	return at
}
