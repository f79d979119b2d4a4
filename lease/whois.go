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
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
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
	from := book.LineTo(ctx, s)
	d, err := book.GetDoor(from)
	if err != nil {
		return Holding{}, err
	}
	if d.Version == "" {
		return Holding{}, fmt.Errorf("%w: %d: %w", ErrForgotten, id, ErrWiped)
	}
	if err := d.Layout.Check(id); err != nil {
		return Holding{}, fmt.Errorf("%w: %w", ErrNeverIssued, err)
	}
	r, err := book.GetRecord(from, d.Layout.Decode(id).Worker)
	if err != nil {
		return Holding{}, err
	}
	earlier, whole, unread := wholeHistory(from, &r)
	h := newHistory(d)
	h.add(d, r, earlier, whole)
	by, err := h.Whois(id)
	if err == nil {
		return *by, nil
	}
	if unread != nil {
		return Holding{}, unread
	}
	if errors.Is(err, ErrNeverIssued) {
		if is, bad := book.GetDoor(from); bad != nil || is.Version != d.Version {
			return Whois(ctx, s, id) // entries were lost meanwhile
		}
	}
	err = fmt.Errorf("%w: %d: %s", err, id, why(d, err, r, d.Layout.Decode(id)))
	if errors.Is(err, ErrNotReported) {
		return Holding(r.Holding()), err
	}
	return Holding{}, err
}

// why says why the history of r has no issuer for an ID.
func why(d protocol.Door, err error, r protocol.Record, id snowflake.Parts) string {
	begins, known := d.Complete(r)
	switch {
	case errors.Is(err, ErrNotReported):
		return fmt.Sprintf("only %s can have issued it, at %s, and has reported nothing from %s on",
			r.Owner, times.Text(id.Time), times.Text(r.BoundOf(id.ClockSeq)))
	case errors.Is(err, ErrNeverIssued) && r.Version == "":
		return fmt.Sprintf("worker %d was never leased; it may be reserved, such as for a column's default (docs/sql.md)", r.Worker)
	case errors.Is(err, ErrNeverIssued):
		return fmt.Sprintf("nobody had worker %d and clock sequence %d at %s", r.Worker, id.ClockSeq, times.Text(id.Time))
	case r.State == StateLost:
		return fmt.Sprintf("the record of worker %d was lost", r.Worker)
	case !known:
		return fmt.Sprintf("the store has lost entries, and the records of worker %d may be among them", r.Worker)
	}
	return fmt.Sprintf("its time is %s, and the history of worker %d begins at %s", times.Text(id.Time), r.Worker, times.Text(begins))
}

// wholeHistory returns the holdings of r that are not in its record, and whether they are all there.
// If r was replaced meanwhile, so that chunks were dropped, r becomes its successor.
func wholeHistory(s book.Line, r *protocol.Record) (holdings []protocol.Holding, whole bool, err error) {
	for r.Chunks.First < r.Chunks.Next {
		holdings, whole, err = history(s, *r)
		if whole || err != nil {
			return holdings, whole, err
		}
		is, err := book.GetRecord(s, r.Worker)
		if err != nil || is.Version == "" || is.Chunks == r.Chunks { // lost: what was read before counts
			return holdings, false, err
		}
		*r = is
	}
	return nil, true, nil
}

// history returns the holdings of r's chunks, and whether all chunks are there.
func history(s book.Line, r protocol.Record) (holdings []protocol.Holding, whole bool, err error) {
	entries, err := s.List(book.ChunksPrefix(r.Worker))
	if err != nil {
		return nil, false, err
	}
	found := 0
	for _, e := range entries {
		chunk, ok := book.WorkerOf(book.ChunksPrefix(r.Worker), e.Key)
		if !ok || chunk < r.Chunks.First || chunk >= r.Chunks.Next {
			continue
		}
		found++
		kept, err := book.DecodeChunk(e)
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
	from := book.LineTo(ctx, s)
	found, bad, err := book.AllRecords(from)
	if err != nil {
		return nil, err
	}
	d, err := book.GetDoor(from)
	if errors.Is(err, ErrBadRecord) {
		bad[none] = err
	} else if err != nil {
		return nil, err
	}
	now, err := from.Engine()
	if err != nil {
		return nil, err
	}
	switch waits := fmt.Errorf("%w: starts wait for %v", ErrWiped, d.Left()); {
	case d.Open, d.Name == "" && len(found) == 0:
	case len(found) > 0, d.Trace != "":
		bad[none] = errors.Join(bad[none], waits)
	default:
		bad[none] = fmt.Errorf("%w; if the store is new, lease.Init (snowflaked init) opens it at once", waits)
	}
	var holders []Holder
	for _, r := range protocol.Sorted(maps.Values(found)) {
		h := holderOf(r)
		switch {
		case r.Version == "":
			h.Layout = d.Layout
		case r.State == StateHeld && (now.IsZero() && time.Now().After(r.Bound()) || !now.IsZero() && !r.Live(now.Sub(r.Renewed))):
			h.State = StateDead
		}
		holders = append(holders, h)
	}
	return holders, errors.Join(slices.Collect(maps.Values(bad))...)
}
