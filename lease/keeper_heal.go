package lease

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/hold"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// heal puts back what the store lost besides the record of this holder, which is there: the
// watermark, the owner's entry and the store's door. Until the door is open, each call counts
// how long it has been closed, so that newcomers need not wait for all of that time themselves. A
// closed door of another layout was made by a newcomer with wrong options, and is replaced; so is a
// door for which newcomers would not wait long enough, because they took the store for a new one.
func (l *Lease) heal(ctx context.Context) error {
	s := l.renewing(ctx)
	d, err := book.GetDoor(s)
	if err != nil && (!errors.Is(err, ErrBadRecord) || d.Version == "") {
		return err
	}
	m, err := book.GetWatermark(s)
	is := l.shown.Load()
	most := is.published
	if most.IsZero() {
		return err // it looks at the watermark first
	}
	wrong := d.Mistaken(is.own.Store) || !d.Open && (d.Layout != l.o.Layout || d.Whole > 0)
	// Until the door is open, nothing is published. So it does no harm if a holder whose clock was
	// ahead was quicker: its watermark is replaced.
	alone := false
	if err == nil && (m.Lost() || !d.Open && m.Proposed.After(most) && !m.Published.After(most)) {
		if d.Open { // nobody would replace it
			alone, err = isAhead(s, &l.known.Watch, is.own, most)
		}
		if err == nil && !alone {
			_, err = hold.RestoreWatermark(s, m, is.own, most)
		}
	}
	if err != nil {
		return err
	}
	if d.Open && !wrong {
		l.known.Seen.Forget(book.DoorKey)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wiped = alone // until another one has put it back, or counts as dead
		return nil
	}
	if l.o.Reuse != ReuseOnce {
		if _, err = s.Put(book.OwnerKey(l.o.Owner), "", []byte(strconv.Itoa(is.own.Worker))); err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
	if wrong {
		d = protocol.Door{Version: d.Version}
	}
	c := protocol.Clocks{Own: l.o.now()}
	if c.Engine, err = s.Engine(); err == nil {
		_, _, err = l.known.AdvanceDoor(s, d, protocol.Door{Layout: l.o.Layout, Marked: true}, c, false)
	}
	return err
}

// isWiped reports whether the store lost entries that this holder may have to put back.
func (l *Lease) isWiped() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.store.(interface{ HasLost() bool }); ok && s.HasLost() {
		l.wiped = true
	}
	return l.wiped && l.away() == nil
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
