package lease

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-5394e6b1/snowflake"
)

// Whois returns who issued id, by what s has of its worker ID: the present holder
// or, if s is a [Historian], one before. It is the only one that could: the windows
// of two holders have no instant in common. Whether it took this very sequence
// number is not recorded. The layout of id is that of the records.
//
// If nobody can have issued id, the error matches [ErrNeverIssued]. If its
// issuer may be one that is no longer in the history (see Options.History), the
// error matches [ErrForgotten]. Other errors match ErrLayout, if the records do not
// agree on a layout, or are the store's.
//
// With Options.LocalCopy a holder goes on while the store is away, and tells it later:
// when it answers again or, if that holder has ended, when its owner acquires a lease
// again. Until then the error for an ID that the owner may have issued meanwhile matches
// [ErrUntold], and the Holding is the last that the store was told of: nobody else than
// its Owner can have issued id. File(LocalCopy), on the host of the holder, knows more.
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

// whois looks into a record, and then into the history. In the other order a
// holder that ends meanwhile would be in neither.
func whois(ctx context.Context, s Store, r Record, parts snowflake.Parts, id snowflake.ID) (Holding, error) {
	holdings := []Holding{r.holding()}
	if h, ok := s.(Historian); ok {
		kept, err := h.History(ctx, r.Worker)
		if err != nil {
			return Holding{}, err
		}
		// A holding that is kept may have gone on, after a change of the clock sequence
		// whose answer was lost. Then the record says where it ends.
		holdings = append(holdings, slices.DeleteFunc(kept, r.holding().same)...)
	}
	for _, h := range holdings {
		if h.ClockSeq == parts.ClockSeq && !parts.Time.Before(h.From) && parts.Time.Before(h.To) {
			return h, nil
		}
	}
	if parts.Time.Before(r.Forgotten) {
		return Holding{}, fmt.Errorf("%w: %d: worker %d has no history before %s, and it is of %s",
			ErrForgotten, id, r.Worker, formatTime(r.Forgotten), formatTime(parts.Time))
	}
	if hasCopy(r) && !parts.Time.Before(r.bound(parts.ClockSeq)) {
		return r.holding(), fmt.Errorf("%w: %d: only %s can have issued it, at %s, and told of nothing from %s on",
			ErrUntold, id, r.Owner, formatTime(parts.Time), formatTime(r.bound(parts.ClockSeq)))
	}
	return Holding{}, fmt.Errorf("%w: %d: nobody had worker %d and clock sequence %d at %s",
		ErrNeverIssued, id, r.Worker, parts.ClockSeq, formatTime(parts.Time))
}
