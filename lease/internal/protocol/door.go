package protocol

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// If a store lost all of its entries, or one record, it is not used until every window that may be
// open under the lost records has ended. No holder can extend such a window, because every save
// names a version that is gone.

// Healing returns the time after which no process can stamp under a lost record.
func Healing(unit time.Duration) time.Duration { return MaxWindow(unit) + Skew }

// MaxWindow returns the longest window of a lease whose layout has this tick.
func MaxWindow(unit time.Duration) time.Duration {
	return max(driver.MaxWindow, 3*min(unit, time.Duration(1<<60)))
}

// Door is the store's entry about itself. It is made first, so a store without it is new or
// has lost its entries.
type Door struct {
	Name   string           `json:"name"` // random
	Layout snowflake.Layout `json:"layout"`
	Open   bool             `json:"open"`            // worker IDs may be taken
	Waited Waited           `json:"waited,omitzero"` // how long entries are known to be lost

	// Watermarked says that the store has a watermark.
	Watermarked bool `json:"watermarked,omitzero"`

	// Whole is the length of the wait for a directory that may be new or lost; 0: the time that
	// Healing returns.
	Whole time.Duration `json:"whole,omitzero"`

	// Opened is the time at which a store was opened that may be new: by Init, by Options.NewStore,
	// or after the wait for a directory. If the store had lost its entries, the issuers of earlier
	// IDs are not known. It is the beginning of a tick.
	Opened time.Time `json:"opened,omitzero"`

	// Healed says that the store may have lost records. Then worker IDs without a record may have
	// been used before NotBefore, by the engine's clock.
	Healed    bool      `json:"healed,omitzero"`
	NotBefore time.Time `json:"notBefore,omitzero"`

	// Trace is the file that told, when the first start made the door, that the directory had been in
	// use. A later one cannot ask the file, because each save makes it.
	Trace string `json:"trace,omitzero"`

	Version string `json:"-"` // of the entry
}

// Raise returns r for a new holder whose clock reads now. If r was never stored, or was made before
// or while the store lost its entries, the records of later holders may have been lost. Then its
// NotBefore is raised.
func (d Door) Raise(r Record, now time.Time) Record {
	if d.Healed && r.Store != d.Name {
		r.NotBefore = times.Later(r.NotBefore, times.Later(d.NotBefore, now)).UTC()
	}
	return r
}

// Wait returns the length of the wait for the door.
func (d Door) Wait() time.Duration { return cmp.Or(d.Whole, Healing(d.Layout.Unit)) }

// Left returns the rest of the wait for the door, by its last save.
func (d Door) Left() time.Duration { return max(0, d.Wait()-d.Waited.For).Round(time.Second) }

// openedAt returns the beginning of the tick in which the store is opened, by the later clock.
func (d Door) openedAt(c Clocks) time.Time {
	return times.Later(c.Own, c.Engine).UTC().Truncate(d.Layout.Unit)
}

// Encode returns the value of the door's entry.
func (d Door) Encode() []byte {
	b, err := json.Marshal(d)
	if err != nil {
		panic(err) // its fields can all be encoded
	}
	return b
}

// Mistaken reports whether d was opened as the door of a new store, although the store was in use:
// name is the store's in the record of a holder that has put its record back.
func (d Door) Mistaken(name string) bool { return d.Open && !d.Healed && d.Name != name }

// Advance returns the door to save in place of a door that is not open, and the rest of the wait.
// seen is the time for which a process has seen d unchanged. isNew says that the store is known to
// be new. whole is the length of the whole wait.
func (d Door) Advance(seen time.Duration, m Moment, c Clocks, isNew bool, whole time.Duration) (next Door, left time.Duration) {
	switch {
	case isNew:
		d.Open, d.Opened = true, d.openedAt(c)
		return d, 0
	case d.Name == "": // d is lost, or cannot be read
		d.Waited = Waited{}.More(0, m)
		return d, whole
	}
	if d.Waited, left = d.Waited.until(whole, seen, m, c); left == 0 {
		d.Open, d.Healed, d.NotBefore = true, true, c.Engine
		if d.Whole > 0 {
			d.Opened = d.openedAt(c)
		}
	}
	return d, left
}

// Complete returns the time from which on no holding of r's worker ID is missing in the store, if
// r's chunks are all there. If this is not known, ok is false. r may be the record of a worker ID
// that has none.
func (d Door) Complete(r Record) (from time.Time, ok bool) {
	from = times.Later(times.Later(r.Forgotten, r.NotBefore), d.Opened)
	switch {
	case !d.Open || r.State == StateLost:
		// Entries were lost, and perhaps not all have been put back.
		return from, false
	case d.Healed && r.Store != d.Name: // the records of later holders may have been lost
		return times.Later(from, d.NotBefore), !d.NotBefore.IsZero() || !d.Opened.IsZero()
	}
	return from, true
}

// Missing returns the record to save for a worker ID whose record alone was lost, and the rest of
// the time for which the worker ID stays unused. seen is the time for which a process has seen r
// unchanged, and whole the length of the whole wait.
func (r Record) Missing(seen time.Duration, m Moment, c Clocks, whole time.Duration) (next Record, left time.Duration) {
	if r.Waited, left = r.Waited.until(whole, seen, m, c); left == 0 {
		r.NotBefore = times.Later(r.NotBefore, times.Later(c.Engine, c.Own)).UTC()
	}
	return r, left
}
