package lease

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-5394e6b1/snowflake"
)

// Whois returns who issued id, by the records and the history in s: the present holder of
// id's worker ID or, if s is a [Historian], an earlier one. No other holder can have issued
// it, because no two holders have an instant of a worker ID and clock sequence in common.
// Whether the holder really used this sequence number is not recorded. Whois decodes id
// with the layout of the records.
//
// If nobody can have issued id, the error matches [ErrNeverIssued]. If id's issuer may have
// been dropped from the history (see Options.History), the error matches [ErrForgotten].
// Other errors match ErrLayout, if the records have different layouts, or are the store's.
// If the record of a worker ID was removed by hand with its marks, the worker ID counts as
// never leased.
//
// A holder with Options.LocalCopy goes on while the store is away, and reports to the store
// later: when the store answers again or, if the holder has ended, when its owner acquires
// a lease again. Until then, if the owner may have issued id, the error matches
// [ErrUntold], and the Holding is the last one that the store knows: nobody but its Owner
// can have issued id. On the holder's host, Whois with File(LocalCopy) as the store knows
// more.
func Whois(ctx context.Context, s Store, id snowflake.ID) (Holding, error) {
	snap, err := s.Load(ctx)
	if err != nil {
		return Holding{}, err
	}
	if len(snap.Records) == 0 {
		return Holding{}, fmt.Errorf("%w: %d: the store has no records", ErrNeverIssued, id)
	}
	layout := snap.Records[0].Layout
	for _, r := range snap.Records {
		if r.Layout != layout {
			return Holding{}, &LayoutError{Worker: r.Worker, Has: r.Layout, Want: layout}
		}
	}
	if err := layout.Check(id); err != nil {
		return Holding{}, fmt.Errorf("%w: %w", ErrNeverIssued, err)
	}
	parts := layout.Decode(id)
	if err := snap.Lost[parts.Worker]; err != nil {
		return Holding{}, err
	}
	for _, r := range snap.Records {
		if r.Worker == parts.Worker {
			return whois(ctx, s, r, parts, id)
		}
	}
	return Holding{}, fmt.Errorf("%w: %d: worker %d was never leased", ErrNeverIssued, id, parts.Worker)
}

// whois looks first into the record, and then into the history. In the other order, a
// holding that ends meanwhile would be in neither.
func whois(ctx context.Context, s Store, r Record, parts snowflake.Parts, id snowflake.ID) (Holding, error) {
	holdings := []Holding{r.holding()}
	if h, ok := s.(Historian); ok {
		kept, err := h.History(ctx, r.Worker)
		if err != nil {
			return Holding{}, err
		}
		// If the answer to a change of the clock sequence was lost, the current holding may
		// be in the history too, with an earlier end. The record has the right one.
		holdings = append(holdings, slices.DeleteFunc(kept, r.holding().same)...)
	}
	for _, h := range holdings {
		if h.ClockSeq == parts.ClockSeq && !parts.Time.Before(h.From) && parts.Time.Before(h.To) {
			return h, nil
		}
	}
	if parts.Time.Before(r.Forgotten) {
		return Holding{}, fmt.Errorf("%w: %d: its time is %s, and the history of worker %d begins at %s",
			ErrForgotten, id, formatTime(parts.Time), r.Worker, formatTime(r.Forgotten))
	}
	if hasCopy(r) && !parts.Time.Before(r.bound(parts.ClockSeq)) {
		return r.holding(), fmt.Errorf("%w: %d: only %s can have issued it, at %s, and has reported nothing from %s on",
			ErrUntold, id, r.Owner, formatTime(parts.Time), formatTime(r.bound(parts.ClockSeq)))
	}
	return Holding{}, fmt.Errorf("%w: %d: nobody had worker %d and clock sequence %d at %s",
		ErrNeverIssued, id, r.Worker, parts.ClockSeq, formatTime(parts.Time))
}
