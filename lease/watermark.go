package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/wiped"
)

// Mark is a reading of the watermark, right even if somebody keeps it back.
type Mark struct {
	ID snowflake.ID // below every ID issued from now on

	// HeldBy is the holder that keeps the watermark further back than its renewals explain, or nil:
	// by more than Options.FloorEvery and 3 s; or, if that is not set or this process has not read
	// again and again for half a window, by more than two thirds of the holder's window, or a third
	// of it and 3 s if that is more; but by two windows in any case.
	HeldBy *Holder
	Why    string           // the reason why HeldBy keeps it back, for people
	Layout snowflake.Layout // of the IDs
}

// Watermark reads the watermark once: an ID below every ID issued from now on under this store. If
// each transaction that issues and stores IDs has a [Lease.Hold], every row whose ID is at or below
// the watermark is there, or will not come: a poller that reads the rows above its last watermark
// and up to this one misses none. The watermark does not fall while the store keeps its entries. A
// process that has not renewed for a window no longer keeps it back once its bound has passed;
// docs/watermark.md shows how the database stops it.
//
// The watermark lags by a third of a window, or by Options.FloorEvery if that is set; and by the
// slowest clock and the oldest open Hold. Starts and releases do not keep it back; a dead holder
// does for a window, and a generator with RewindTicks for its whole window. It is never after the
// latest bound in the store, so it stands still when no worker ID is held.
//
// With an error, the Mark is empty: the error matches ErrWiped if the store has no entries,
// ErrBadRecord, or ErrConflict if the store refuses to save the watermark, or is the store's. A
// call costs two to four reads, two of which list all records, and up to three saves. Calls at most
// three minutes apart share the process's knowledge of a store, for at most 1024 stores; if the
// Store's type cannot be compared with ==, use a [WatermarkReader].
func Watermark(ctx context.Context, s Store) (Mark, error) { return NewWatermarkReader(s).Read(ctx) }

// WatermarkReader reads the watermark again and again, for a Store of any type. Any number of
// goroutines may use it.
type WatermarkReader struct {
	store Store
	slot  chan *book.Watch // has room for one: whoever takes the watch out owns it
}

// NewWatermarkReader returns a reader of the watermark of s.
func NewWatermarkReader(s Store) *WatermarkReader {
	r := &WatermarkReader{s, make(chan *book.Watch, 1)}
	w := book.WatchOf(s)
	r.slot <- &w
	return r
}

// Read is [Watermark].
func (r *WatermarkReader) Read(ctx context.Context) (Mark, error) {
	if r.slot == nil {
		return Mark{}, fmt.Errorf("%w: this WatermarkReader was not made by NewWatermarkReader", ErrInvalidOptions)
	}
	w, err := machine.TakeOut(ctx, r.slot)
	if err != nil {
		return Mark{}, err
	}
	defer func() { r.slot <- w }()
	v := viewer{Line: book.LineTo(ctx, r.store), watch: w}
	if err := v.open(); err != nil {
		return Mark{}, err
	}
	return v.watermark()
}

// viewer is a process that looks at all holders of a store.
type viewer struct {
	book.Line
	watch  *book.Watch
	door   protocol.Door
	stored protocol.Watermark // as the store had it last
	now    time.Time          // by the engine's clock and this host's, whichever is behind
	asked  protocol.Moment    // when the records were asked for
}

// open reads the door and the watermark. After it has made the first watermark, and before anything
// is proposed, open notes this in the door, so that newcomers can tell if the watermark is lost.
func (v *viewer) open() (err error) {
	for range book.MaxConflicts {
		v.door, err = book.GetDoor(v)
		if bad := errors.Is(err, ErrBadRecord) && v.door.Version != ""; err != nil && !bad {
			return err
		}
		if !v.door.Open {
			if err = v.wait(); err != nil {
				return err
			}
			continue
		}
		v.watch.Seen.Forget(book.DoorKey)
		if v.stored, err = book.GetWatermark(v); err != nil || v.door.Watermarked {
			return err
		}
		if v.stored.Version == "" {
			if err = v.save(protocol.Watermark{}); err != nil {
				return err
			}
		}
		v.door.Watermarked = true
		if _, err = v.Put(book.DoorKey, v.door.Version, v.door.Encode()); err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return book.RefusesToSave("its own entry")
}

// wait counts how long the store and its records are known to be lost, so that the watermark comes
// back even if there is no newcomer. It returns nil when the door is open.
func (v *viewer) wait() error {
	next, waits, err := wiped.Count(v, v.watch, v.door)
	if v.door = next; err != nil || waits == nil {
		return err
	}
	if _, _, err = v.look(); err != nil {
		return err
	}
	return waits
}

// watermark proposes the instant that the holders allow, looks at them again, and publishes the
// instant that they allow then, up to the proposed one.
func (v *viewer) watermark() (Mark, error) {
	low, by, err := v.look()
	if err == nil && low.After(v.stored.Proposed) {
		if err = v.save(protocol.Watermark{Proposed: low, Published: v.stored.Published}); err == nil {
			low, by, err = v.look()
		}
	}
	at := v.stored.Publish(low)
	for try := 1; err == nil && at.After(v.stored.Published); try++ {
		if try > book.MaxConflicts {
			return Mark{}, book.RefusesToSave("the watermark")
		}
		err = v.save(protocol.Watermark{Proposed: times.Later(v.stored.Proposed, at), Published: at})
		// A holder may have put back an earlier proposal (wiped.Heal).
		at = times.Earlier(at, v.stored.Publish(low))
	}
	if err != nil {
		return Mark{}, err
	}
	at, l := v.stored.Published, v.door.Layout
	id, _ := l.Encode(snowflake.Parts{Time: times.Earlier(at, l.Expires().Add(-1))})
	m := Mark{ID: max(0, id-1), Layout: l} // 0 even if at is before the epoch
	if by != nil && v.now.Sub(at) > v.explained(*by) {
		h := holderOf(*by)
		if h.State == StateHeld && v.now.After(h.To) {
			h.State = StateDead
		}
		m.HeldBy, m.Why = &h, v.why(*by)
	}
	return m, nil
}

// explained returns how far the watermark may lag because r's holder saves its floor only now and
// then.
func (v *viewer) explained(r protocol.Record) time.Duration {
	every, slack := r.WindowLength/3, max(lagSlack, r.WindowLength/3)
	if v.isFollowed(r) && r.FloorEvery > 0 {
		every, slack = r.FloorEvery, lagSlack
	}
	return min(every+slack, 2*r.WindowLength) + 2*v.door.Layout.Unit
}

// lagSlack is what requests, timers and the reader's own wait may add to the watermark's lag.
const lagSlack = 3 * time.Second

// isFollowed reports whether this process has read the watermark for so long, at least once in each
// window, that r's holder has noticed it.
func (v *viewer) isFollowed(r protocol.Record) bool {
	return v.asked.At.Sub(v.watch.Seen.Last(readKey).Since) > r.WindowLength/2
}

// readKey is the key in sightings for this process's own readings.
const readKey = "read"

// save stores m in place of v.stored. Then v.stored is what the store has: m, or the watermark of
// another process that was quicker.
func (v *viewer) save(m protocol.Watermark) (err error) {
	m.Version = v.stored.Version
	for try := 1; err == nil && v.stored.Version == m.Version; try++ {
		if try > book.MaxConflicts {
			return book.RefusesToSave("the watermark")
		}
		if v.stored, err = book.PutWatermark(v, m); err == nil && v.stored.Bad {
			err = fmt.Errorf("%w: the entry %s cannot be read, and the store does not replace it", ErrBadRecord, book.WatermarkKey)
		}
	}
	return err
}

// look returns the instant before which no holder stamps anything any more, and the record that
// keeps it back. It is not after the latest bound, and not after now. If a record is lost or cannot
// be read, nothing is known for as long as a window under it may be open, and the instant is zero.
func (v *viewer) look() (low time.Time, by *protocol.Record, err error) {
	c := protocol.Clocks{Own: v.Read().Own}
	if c.Engine, err = v.Engine(); err != nil {
		return low, nil, err
	}
	v.now = c.Early()
	v.asked = v.Read().Moment
	found, bad, err := book.AllRecords(v)
	if err != nil {
		return low, nil, err
	}
	records, now := protocol.Sorted(maps.Values(found)), v.Read().At
	var silent []protocol.Record
	for worker, why := range bad {
		silent = append(silent, protocol.Record{Worker: worker, State: StateLost, Version: "unreadable", Unreadable: why})
		v.watch.Seen.Sees(book.RecordKey(worker), "unreadable", now, protocol.Healing(v.door.Layout.Unit))
	}
	unreadable, shortest := len(silent), protocol.MaxWindow(v.door.Layout.Unit)
	for _, r := range records {
		v.watch.Seen.Sees(book.RecordKey(r.Worker), r.Version, now, protocol.Healing(v.door.Layout.Unit))
		if r.State != StateLost {
			v.watch.Seen.Forget(wiped.LostKey(r.Worker))
		}
		if r.State == StateHeld {
			shortest = min(shortest, r.WindowLength)
		}
		if r.State == StateHeld && r.Ends().Sub(v.now) < r.WindowLength/2 && !v.dead(r, c) {
			// It was not renewed for half a window.
			silent = append(silent, r)
		}
	}
	v.watch.Seen.Sees(readKey, "", v.asked.At, shortest)
	if err = v.watch.Share(v, slices.Clone(silent), v.asked); err != nil {
		return low, nil, err
	}
	for _, r := range silent[:unreadable] {
		if v.watch.Idle(r, v.asked) < protocol.Healing(v.door.Layout.Unit) {
			return low, &r, nil
		}
	}
	for i, r := range records { // all of them, so that the waits for them run at the same time
		if r.State == StateLost {
			next, left, err := wiped.Outwait(v, v.watch, r, v.door.Layout, v.asked, c)
			if records[i] = next; err != nil {
				return low, &next, err
			}
			if left > 0 {
				by = &next
			}
		}
	}
	if by != nil {
		return low, by, nil
	}
	low, by = protocol.Lowest(records, v.now, times.Earlier(v.now, protocol.Latest(records)), func(r protocol.Record) bool { return v.dead(r, c) })
	return low, by, nil
}

// dead reports whether r had not been renewed for its window when it was asked for.
func (v *viewer) dead(r protocol.Record, c protocol.Clocks) bool {
	return !r.Live(v.watch.Silent(r, v.asked, c))
}

// why says why r keeps the watermark back.
func (v *viewer) why(r protocol.Record) string {
	saved := r.Ends().Add(-r.WindowLength) // its clock's reading at the last move of its bound
	switch {
	case r.Unreadable != nil:
		return fmt.Sprintf("what its holder may still stamp is not known, because its record cannot be read: %v", r.Unreadable)
	case r.State == StateLost:
		return "its record was lost, and a window under it may be open"
	case (r.Retired() || r.Prior.Least.Before(r.Least)) && v.now.Before(r.Prior.To):
		return "not its holder, but an earlier one that was taken for dead may still stamp times before " + times.Text(r.Prior.To)
	case r.State != StateHeld:
		return "it was released without a generator, and its former holder may still stamp times before " + times.Text(r.Prior.To)
	case r.NoFloor:
		return "it has no generator, or one that may go back (RewindTicks), and so may stamp any time since it began"
	case r.Offline:
		return "it has a LocalCopy, and may continue without the store, or with another clock sequence; " +
			"if its directory is gone for good, retire the worker ID"
	case v.watch.Idle(r, v.asked) > r.WindowLength/2:
		return "it does not renew, and counts until it is known to be dead and its bound has passed"
	case saved.Sub(r.Least) > time.Second+2*r.Layout.Unit:
		return "it has had an open Hold since " + times.Text(r.Least)
	}
	return fmt.Sprintf("it saved its floor last when its clock read %s: it renews late, or its clock is behind", times.Text(saved))
}
