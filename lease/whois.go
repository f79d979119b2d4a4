package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/history"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Whois returns the one holding in which id can have been issued, by the layout, the records and
// the history of s. Whether the holder used this sequence number is not recorded.
//
// The error matches ErrNeverIssued, ErrForgotten or ErrBadRecord, or is the store's. A holder with
// Options.LocalCopy continues while the store is away, and reports to the store when it answers
// again or, if the holder has ended, when its owner next acquires a lease. If the owner may have
// issued id before it has reported, the error matches ErrNotReported, and the Holding is the last
// one that the store has: only its Owner can have issued id, even after [Retire].
func Whois(ctx context.Context, s Store, id snowflake.ID) (Holding, error) {
	by, err := history.Whois(book.LineTo(ctx, s), id)
	return Holding(by), err
}

// Holders returns the holders of all used worker IDs, sorted by worker ID. Whether one is dead is
// decided by the engine's clock or, if it has none, by this host's. If some records cannot be read,
// Holders returns the others, with an error that joins the reasons. If starts wait because the
// store is new or has lost entries, the error matches ErrWiped, too.
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
		bad[none] = fmt.Errorf("%w; %s", waits, ifNew)
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
