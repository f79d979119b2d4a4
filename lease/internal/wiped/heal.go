package wiped

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Heal puts back the entries that the store lost besides a holder's record, own, which is there:
// the watermark, the owner's entry and the store's door. most is an instant after which nothing was
// published while the holder lived; zero if this is not known yet. Heal reports whether all is
// there again. If it is not, the holder calls Heal again after its next renewal.
//
// Until the door is open, each call counts how long it has been closed, so that newcomers need not
// wait for all of that time themselves. A closed door of another layout was made by a newcomer with
// wrong options, and is replaced; so is a door for which newcomers would not wait long enough,
// because they took the store for a new one.
func Heal(s book.Line, w *book.Watch, own protocol.Record, most time.Time) (healed bool, err error) {
	d, err := book.GetDoor(s)
	if err != nil && (!errors.Is(err, driver.ErrBadRecord) || d.Version == "") {
		return false, err
	}
	m, err := book.GetWatermark(s)
	if most.IsZero() {
		return false, err // the holder has to look at the watermark first
	}
	wrong := d.Mistaken(own.Store) || !d.Open && (d.Layout != own.Layout || d.Whole > 0)
	// Until the door is open, nothing is published. So it does no harm if a holder whose clock was
	// ahead was quicker: its watermark is replaced.
	alone := false
	if err == nil && (m.Lost() || !d.Open && m.Proposed.After(most) && !m.Published.After(most)) {
		if d.Open { // nobody would replace it
			alone, err = isAhead(s, w, own, most)
		}
		if err == nil && !alone {
			_, err = RestoreWatermark(s, m, own, most)
		}
	}
	if err != nil {
		return false, err
	}
	if d.Open && !wrong {
		w.Seen.Forget(book.DoorKey)
		return !alone, nil // until another one has put it back, or counts as dead
	}
	if own.Reuse != protocol.ReuseOnce {
		if _, err = s.Put(book.OwnerKey(own.Owner), "", []byte(strconv.Itoa(own.Worker))); err != nil && !errors.Is(err, driver.ErrConflict) {
			return false, err
		}
	}
	if wrong {
		d = protocol.Door{Version: d.Version}
	}
	c := protocol.Clocks{Own: s.Read().Own}
	if c.Engine, err = s.Engine(); err == nil {
		_, _, err = advance(s, w, d, protocol.Door{Layout: own.Layout, Watermarked: true}, c, false)
	}
	return false, err
}

// isAhead reports whether most is after the bounds of all other holders, and one of them is not
// known to be dead. Then the clock behind most is the only one that says so, and may be wrong.
func isAhead(s book.Line, w *book.Watch, own protocol.Record, most time.Time) (bool, error) {
	asked := s.Read().Moment
	records, _, err := book.AllRecords(s)
	now := s.Read().At
	held := slices.DeleteFunc(slices.Collect(maps.Values(records)), func(r protocol.Record) bool {
		w.Seen.Sees(book.RecordKey(r.Worker), r.Version, now, protocol.Healing(r.Layout.Unit))
		return r.Worker == own.Worker || !r.Live(w.Idle(r, asked))
	})
	return len(held) > 0 && most.After(protocol.Latest(held)), err
}

// RestoreWatermark puts back a watermark that was lost. Nothing later than most was proposed. If
// most is zero, this is not known, and RestoreWatermark takes the latest bound, because nothing
// later is ever proposed. But a clock that was ahead once may have left a bound far ahead. Then it
// takes the latest floor of a holder: nothing later was proposed while one of them lived. If none
// did, what was proposed is at most Skew after this clock, unless a reader's clock differed from it
// by more.
func RestoreWatermark(s book.Line, m protocol.Watermark, own protocol.Record, most time.Time) (protocol.Watermark, error) {
	if most.IsZero() {
		records, _, err := book.AllRecords(s)
		if err != nil {
			return m, err
		}
		records[own.Worker] = own
		all, now := slices.Collect(maps.Values(records)), s.Read().Own
		most = times.Later(times.Earlier(protocol.Latest(all), times.Later(protocol.LatestFloor(all), now.Add(protocol.Skew))), now)
	}
	m.Proposed = most.UTC()
	m, err := book.PutWatermark(s, m)
	if errors.Is(err, driver.ErrBadRecord) {
		err = nil // it cannot be replaced
	}
	m.Proposed = times.Later(m.Proposed, most)
	return m, err
}
