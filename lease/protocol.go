package lease

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// This file is the protocol: functions that take a record and observations, and return the record
// to save. They use no store, lock, clock or context. They stand in the order of the proof in the
// package's documentation, which names them.

// judge decides whether a record that was found in the store is the holder's. own is the holder's
// record as last known to be saved, w its window, and tried are the records of saves whose results
// are not known.
//
// If found is the holder's, judge returns the record from which the holder continues. It has the
// bounds of both, in case the store lost the latest saves. If the holder's record was lost, or an
// earlier holder put back its own in its place, the error matches errGone, and the holder may
// replace found by own. Otherwise the error matches ErrLost; it is an *overlap if the other
// holder's window may overlap w.
func judge(own record, w window, tried []record, found record) (record, error) {
	if found.retired() {
		return found, fmt.Errorf("%w: worker %d is spent, because its local copy counts as gone", ErrLost, own.Worker)
	}
	if found.Token == own.Token &&
		(found.Saves <= own.Saves || slices.ContainsFunc(tried, found.same)) {
		kept := found.withBoundsOf(own)
		kept.Saves = max(found.Saves, own.Saves)
		return kept, nil
	}
	if found.version == "" || found.State == StateLost || resurrected(own, found) {
		return found, fmt.Errorf("%w: the record of worker %d is gone", errGone, own.Worker)
	}
	lost := fmt.Errorf("%w: worker %d went to another holder, %s, at %s",
		ErrLost, own.Worker, found.held().who(), times.Text(found.From))
	for _, h := range append(found.Ended, found.holding()) {
		if h.Token != own.Token && h.ClockSeq == w.seq && h.From.Before(w.to) && h.To.After(w.from) {
			return found, &overlap{lost, times.Later(w.from, h.From), w.to}
		}
	}
	if bound := found.bound(w.seq); bound.Before(w.to) {
		return found, &overlap{lost, times.Later(w.from, bound), w.to}
	}
	return found, lost
}

// errGone says that a holder's record is no longer in the store.
var errGone = errors.New("lease: the record is lost")

// overlap is the loss of a worker ID to a holder that may stamp the same times, [from, to).
type overlap struct {
	error
	from, to time.Time
}

func (o *overlap) Unwrap() error { return o.error }

// resurrected reports whether found is the record of a holder before own's, which has put it back
// since, and has not moved its bound.
func resurrected(own, found record) bool {
	is := false
	for _, h := range own.Ended {
		if h.Token == found.Token {
			is = found.State == StateHeld && found.Saves <= own.Saves && !found.bound(h.ClockSeq).After(h.To)
		}
	}
	return is
}

// start returns the clock sequence with which a new holder whose clock reads now can issue IDs
// soonest, and the time from which it may. Among the sequences whose bounds have passed, it takes
// the one with the latest bound; if there is none, a sequence that was never used; if there is
// none, the one with the earliest bound.
func (r record) start(now time.Time) (seq int, from time.Time) {
	passed, unused, first := -1, -1, 0
	for i := range 1 << r.Layout.ClockSeqBits {
		switch bound := r.bound(i); {
		case bound.IsZero():
			if unused < 0 {
				unused = i
			}
		case bound.After(now):
			if bound.Before(r.bound(first)) {
				first = i
			}
		case passed < 0 || bound.After(r.bound(passed)):
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
	return seq, r.bound(seq)
}

// take returns the record with which a new holder takes the worker ID of r from the bound of w on.
// id has the holder's Token, Owner, Host, PID, Reuse, Window, FloorEvery, Store, Copy and Least. The
// bound is at most a window ahead of the clock, as the wait after a loss of all entries requires. If w
// begins later, renewals move the bound before w begins.
func (r record) take(w window, id record, c clocks) record {
	next := r
	next.Prior = r.leaves(c)
	next.Least, next.NoFloor = id.Least, false
	next.State, next.Reuse, next.Waited = StateHeld, max(r.Reuse, id.Reuse), waited{}
	next.Token, next.Owner, next.Host, next.PID, next.Window = id.Token, id.Owner, id.Host, id.PID, id.Window
	next.FloorEvery, next.Store, next.Copy = id.FloorEvery, id.Store, id.Copy
	return next.withWindow(w, times.Later(w.before, c.own.Add(id.Window)))
}

// leaves returns what the holder of r, and those before it, may still stamp.
func (r record) leaves(c clocks) prior {
	p := r.Prior.still(c)
	if r.State == StateHeld {
		p = p.and(prior{r.Least, r.ends()}.still(c))
	}
	return p
}

// retire returns the record of a worker ID whose LocalCopy is gone for good.
func (r record) retire(c clocks) record {
	r.Prior, r.State = r.leaves(c), StateSpent
	r.Saves++
	return r
}

// retired reports whether nobody uses the worker ID again because its LocalCopy is gone. A holder
// with a LocalCopy never uses a worker ID up itself.
func (r record) retired() bool { return r.Copy && r.State == StateSpent }

// extend returns the record with which a holder moves its bound. A bound never goes back.
func (r record) extend(w window, bound time.Time) record {
	return r.withWindow(w, times.Later(r.bound(w.seq), bound))
}

// release returns the record with which a holder whose generator has stopped releases its worker
// ID. The generator stamped nothing from next on, under any worker ID. unit is the layout's tick.
func (r record) release(w window, next time.Time, state State, unit time.Duration) record {
	if !next.After(w.from) {
		next = w.before // nothing was stamped
	}
	next = times.Later(next, r.Least) // the watermark may have passed what was not stamped
	r.State = state
	// The tick in which the window ends may be stamped as a whole, so next may lie up to a
	// tick after the bound.
	bound := r.bound(w.seq)
	if next.Before(bound.Add(unit)) {
		bound = next
	}
	// Not withBound: r may have a change to another clock sequence that was given up.
	return r.withWindow(w, bound)
}

// undo returns the record that releases a worker ID which was taken, but never stamped. before is
// the record from which it was taken, and r the record as it was saved then, or by a renewal since.
// The watermark may have passed the floor of r.
func (r record) undo(before record, w window) record {
	r.State, r.Owner, r.Reuse = StateFree, before.Owner, before.Reuse
	return r.withBound(w.seq, times.Earlier(times.Later(w.before, r.Least), r.bound(w.seq)))
}

// restorable reports whether a holder whose record was lost may put it back. since is how long ago
// it was last saved, by every clock that can tell. Until a window has passed, no process takes the
// holder for dead. The bound stays as it is, so that a later holder, if there is one after all,
// detects the old record before its bound moves.
func (r record) restorable(w window, now time.Time, since time.Duration) bool {
	return now.Before(w.to) && since < r.Window
}

// live reports whether r is held by a holder that may have renewed it within its window. idle is
// how long the entry is known to be unchanged.
func (r record) live(idle time.Duration) bool { return r.State == StateHeld && idle <= r.Window }

// succeed returns r, which replaces old, with the history. If r begins another holding, the holding
// of old has ended. If that was released unused, it is not in the history, not even as it was in an
// earlier save. Nor is a holding that r continues. If the record then has too many ended holdings,
// they move to the entry old.Chunks.Next, which must be stored before r: every process that
// replaces old stores the same there, so it does not matter which one succeeds.
func (r record) succeed(old record, forget time.Time) (next record, chunk []Holding) {
	r.Saves, r.Ended, r.Chunks = max(r.Saves, old.Saves)+1, old.Ended, old.Chunks
	ended := old.holding()
	if old.Token == "" || ended.same(r.holding()) {
		return r, nil
	}
	again := r.holding() // in the history if a change to another clock sequence was given up
	all := slices.DeleteFunc(slices.Clone(old.Ended), func(h Holding) bool { return h.same(ended) || h.same(again) })
	if ended.From.Before(ended.To) {
		if len(all) >= machine.Embedded { // and so again is not among them
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

// If a store lost all of its entries, or one record, it is not used until every window that may be
// open under the lost records has ended. No holder can extend such a window, because every save
// names a version that is gone.

// healing returns how long a record must be known to be lost before no process can stamp under it.
func healing(unit time.Duration) time.Duration { return maxWindow(unit) + skew }

// door is the store's entry about itself. It is made first, so a store without it is new or
// has lost its entries.
type door struct {
	Name   string           `json:"name"` // random
	Layout snowflake.Layout `json:"layout"`
	Open   bool             `json:"open"`            // worker IDs may be taken
	Waited waited           `json:"waited,omitzero"` // how long entries are known to be lost
	Marked bool             `json:"marked,omitzero"` // the store has a watermark

	// Whole is the length of the wait for a directory that may be new or lost; 0: the time that
	// healing returns.
	Whole time.Duration `json:"whole,omitzero"`

	// Opened is the time at which a store was opened that may be new: by Init, by Options.NewStore,
	// or after the wait for a directory. If the store had lost its entries, the issuers of earlier
	// IDs are not known. It is the beginning of a tick.
	Opened time.Time `json:"opened,omitzero"`

	// Healed says that the store may have lost records. Then worker IDs without a record may have
	// been used up to Floor, by the engine's clock.
	Healed bool      `json:"healed,omitzero"`
	Floor  time.Time `json:"floor,omitzero"`

	// Trace is the file that told, when the first start made the door, that the directory had been in
	// use. A later one cannot ask the file, because each save makes it.
	Trace string `json:"trace,omitzero"`

	version string
}

// heal returns r for a new holder whose clock reads now. If r was never stored, or was made before
// or while the store lost its entries, the records of later holders may have been lost. Then heal
// raises the floor of r.
func (d door) heal(r record, now time.Time) record {
	if d.Healed && r.Store != d.Name {
		r.Floor = times.Later(r.Floor, times.Later(d.Floor, now)).UTC()
	}
	return r
}

// whole returns the length of the wait for the door.
func (d door) whole() time.Duration { return cmp.Or(d.Whole, healing(d.Layout.Unit)) }

// left returns how much longer the door stays closed, by what was saved.
func (d door) left() time.Duration { return max(0, d.whole()-d.Waited.For).Round(time.Second) }

// begins returns the beginning of the tick in which the store is opened, by the later clock.
func (d door) begins(c clocks) time.Time {
	return times.Later(c.own, c.engine).UTC().Truncate(d.Layout.Unit)
}

// mistaken reports whether somebody believed that the store was new and opened d, although a holder
// that was given its worker ID in the store called name has put its record back.
func (d door) mistaken(name string) bool { return d.Open && !d.Healed && d.Name != name }

// advance returns the door to save in place of a door that is not open, and how much longer it
// stays closed. seen is how long a process has seen d unchanged. isNew says that the store is known
// to be new. whole is the length of the whole wait.
func (d door) advance(seen time.Duration, m moment, c clocks, isNew bool, whole time.Duration) (next door, left time.Duration) {
	switch {
	case isNew:
		d.Open, d.Opened = true, d.begins(c)
		return d, 0
	case d.Name == "": // d is lost, or cannot be read
		d.Waited = waited{}.more(0, m)
		return d, whole
	}
	if d.Waited, left = d.Waited.until(whole, seen, m, c); left == 0 {
		d.Open, d.Healed, d.Floor = true, true, c.engine
		if d.Whole > 0 {
			d.Opened = d.begins(c)
		}
	}
	return d, left
}

// missing returns the record to save for a worker ID whose record alone was lost, and how much
// longer the worker ID stays unused. seen is how long a process has seen r unchanged, and whole the
// length of the whole wait.
func (r record) missing(seen time.Duration, m moment, c clocks, whole time.Duration) (next record, left time.Duration) {
	if r.Waited, left = r.Waited.until(whole, seen, m, c); left == 0 {
		r.Floor = times.Later(r.Floor, times.Later(c.engine, c.own)).UTC()
	}
	return r, left
}

// lowest returns the latest instant, up to most, before which no holder will stamp anything, and
// the record that keeps it back, or nil. A holder that is dead, because it has not renewed for a
// window, counts until its bounds have passed, and never again. A holder with a LocalCopy is never
// dead, because it may continue without the store. If its layout has clock sequences, the store
// does not tell which times it stamps then.
func lowest(records []record, now, most time.Time, dead func(record) bool) (at time.Time, by *record) {
	at = most
	for i := range records {
		r := &records[i]
		var least []time.Time
		switch {
		case r.State != StateHeld:
		case r.Copy && r.Layout.ClockSeqBits > 0:
			least = append(least, time.Time{})
		case r.Copy || now.Before(r.ends()) || !dead(*r):
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

// latest returns the latest bound of the records: all IDs that were issued under them are before
// it. A lost record has no bound, and its Floor is the clock of the process that reads it.
func latest(records []record) (bound time.Time) {
	for _, r := range records {
		if r.State != StateLost {
			bound = times.Later(bound, r.last())
		}
	}
	return bound
}

// floors returns the latest Least of the worker IDs that are held.
func floors(records []record) (at time.Time) {
	for _, r := range records {
		if r.State == StateHeld {
			at = times.Later(at, r.Least)
		}
	}
	return at
}
