package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Whois returns who issued id, by the records and the history in s: the present holder of
// id's worker ID, or an earlier one. No other holder can have issued it, because no two
// holders have an instant of a worker ID and clock sequence in common. Whether the holder
// actually used this sequence number is not recorded. Whois decodes id with the layout of the
// store.
//
// If no holder can have issued id, the error matches [ErrNeverIssued]. If id's issuer may have been
// dropped from the history (see Options.History) or lost, the error matches [ErrForgotten]. Other
// errors match ErrBadRecord or are the store's.
//
// A holder with Options.LocalCopy continues while the store is away, and reports to the store
// later: when the store answers again or, if the holder has ended, when its owner acquires a lease
// again. Until then, if the owner may have issued id, the error matches [ErrNotReported], and the
// Holding is the last one that the store knows: only its Owner can have issued id. If the worker ID
// was retired ([Retire]), this never changes.
func Whois(ctx context.Context, s Store, id snowflake.ID) (Holding, error) {
	from := lineTo(ctx, s)
	d, err := getDoor(from)
	if err != nil {
		return Holding{}, err
	}
	if d.version == "" {
		return Holding{}, fmt.Errorf("%w: %d: %w", ErrForgotten, id, ErrWiped)
	}
	if err := d.Layout.Check(id); err != nil {
		return Holding{}, fmt.Errorf("%w: %w", ErrNeverIssued, err)
	}
	parts := d.Layout.Decode(id)
	for {
		r, err := getRecord(from, parts.Worker)
		if err != nil {
			return Holding{}, err
		}
		h, err := whois(from, d, r, parts, id)
		if errors.Is(err, ErrNeverIssued) {
			if is, bad := getDoor(from); bad != nil || is.version != d.version {
				return Whois(ctx, s, id) // entries were lost meanwhile
			}
		}
		if err == nil || !errors.Is(err, ErrForgotten) {
			return h, err
		}
		if again, bad := getRecord(from, parts.Worker); bad != nil || again.Chunks == r.Chunks {
			return h, err
		}
		// A chunk was dropped meanwhile.
	}
}

func whois(s line, d door, r record, parts snowflake.Parts, id snowflake.ID) (Holding, error) {
	begins, known := d.begin(r)
	if r.State == StateLost || r.version == "" {
		if !known || parts.Time.Before(begins) {
			return Holding{}, fmt.Errorf("%w: %d: the record of worker %d was lost", ErrForgotten, id, parts.Worker)
		}
		return Holding{}, fmt.Errorf("%w: %d: worker %d was never leased; it may be reserved, such as for a column's default (docs/sql.md)",
			ErrNeverIssued, id, parts.Worker)
	}
	if h, ok := issuer(append([]Holding{r.holding()}, r.Ended...), parts); ok {
		return h, nil
	}
	whole := true
	if r.Chunks.First < r.Chunks.Next {
		earlier, all, err := history(s, r)
		if err != nil {
			return Holding{}, err
		}
		if h, ok := issuer(earlier, parts); ok {
			return h, nil
		}
		whole = all
	}
	if !known {
		return Holding{}, fmt.Errorf("%w: %d: the store has lost entries, and the records of worker %d may be among them",
			ErrForgotten, id, parts.Worker)
	}
	if !whole || parts.Time.Before(begins) {
		return Holding{}, fmt.Errorf("%w: %d: its time is %s, and the history of worker %d begins at %s",
			ErrForgotten, id, formatTime(parts.Time), r.Worker, formatTime(begins))
	}
	if r.Copy && !parts.Time.Before(r.bound(parts.ClockSeq)) {
		return r.holding(), fmt.Errorf("%w: %d: only %s can have issued it, at %s, and has reported nothing from %s on",
			ErrNotReported, id, r.Owner, formatTime(parts.Time), formatTime(r.bound(parts.ClockSeq)))
	}
	return Holding{}, fmt.Errorf("%w: %d: nobody had worker %d and clock sequence %d at %s",
		ErrNeverIssued, id, r.Worker, parts.ClockSeq, formatTime(parts.Time))
}

// issuer returns the holding in which an ID was issued. If a change to another clock sequence was
// given up, because its answer was lost, the history may have a holding with a later end than it
// had. Later holders began at its real end, so the holding that began last is the right one.
func issuer(holdings []Holding, parts snowflake.Parts) (by Holding, ok bool) {
	for _, h := range holdings {
		if h.ClockSeq == parts.ClockSeq && !parts.Time.Before(h.From) && parts.Time.Before(h.To) && (!ok || h.From.After(by.From)) {
			by, ok = h, true
		}
	}
	return by, ok
}

// history returns the holdings of r's chunks, and whether all chunks are there.
func history(s line, r record) (holdings []Holding, whole bool, err error) {
	entries, err := s.list(chunksPrefix(r.Worker))
	if err != nil {
		return nil, false, err
	}
	found := 0
	for _, e := range entries {
		chunk, ok := workerOf(chunksPrefix(r.Worker), e.Key)
		if !ok || chunk < r.Chunks.First || chunk >= r.Chunks.Next {
			continue
		}
		found++
		kept, err := decodeChunk(e)
		if err != nil {
			return nil, false, err
		}
		holdings = append(holdings, kept...)
	}
	return holdings, found == r.Chunks.Next-r.Chunks.First, nil
}

// Holders returns the holders of all worker IDs that were ever used, sorted by worker ID. A
// Holder's State is StateDead if it no longer renews: by the engine's clock or, if the engine has
// no clock, by this host's. If some records cannot be read, Holders returns the others, with an
// error that joins the reasons. If starts wait because the store is new or has lost entries, the
// error matches [ErrWiped], too.
func Holders(ctx context.Context, s Store) ([]Holder, error) {
	from := lineTo(ctx, s)
	found, bad, err := allRecords(from)
	if err != nil {
		return nil, err
	}
	d, err := getDoor(from)
	if errors.Is(err, ErrBadRecord) {
		bad[none] = err
	} else if err != nil {
		return nil, err
	}
	now, err := from.engine()
	if err != nil {
		return nil, err
	}
	switch waits := fmt.Errorf("%w: starts wait for %v", ErrWiped, d.left()); {
	case d.Open, d.Name == "" && len(found) == 0:
	case len(found) > 0:
		bad[none] = errors.Join(bad[none], waits)
	default:
		bad[none] = fmt.Errorf("%w; if the store is new, lease.Init (snowflaked init) opens it at once", waits)
	}
	var holders []Holder
	for _, r := range sorted(maps.Values(found)) {
		h := r.held()
		switch {
		case r.version == "":
			h.Layout = d.Layout
		case r.State == StateHeld && (now.IsZero() && time.Now().After(r.Bound()) || !now.IsZero() && !r.live(now.Sub(r.Renewed))):
			h.State = StateDead
		}
		holders = append(holders, h)
	}
	return holders, errors.Join(slices.Collect(maps.Values(bad))...)
}

// begin returns the time from which on no holding of r's worker ID is missing in the store, if r's
// chunks are all there. If this is not known, ok is false. r may be the record of a worker ID that
// has none.
func (d door) begin(r record) (from time.Time, ok bool) {
	from = later(later(r.Forgotten, r.Floor), d.Opened)
	switch {
	case !d.Open || r.State == StateLost:
		// Entries were lost, and perhaps not all have been put back.
		return from, false
	case d.Healed && r.Store != d.Name: // the records of later holders may have been lost
		return later(from, d.Floor), !d.Floor.IsZero() || !d.Opened.IsZero()
	}
	return from, true
}
