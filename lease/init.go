package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Init opens a store that has never been used, so that the first start does not wait: run it once,
// like a migration. A start that waits already continues within two seconds, if the store has no
// record yet. The zero layout stands for snowflake.DefaultLayout().
//
// In any other store, Init changes nothing, and the error matches [ErrInitialized] and names the
// entry that it found. If the store has another layout, the error matches ErrLayout, too. Other
// errors match snowflake.ErrInvalidLayout, or are the store's; then Init may be called again.
//
// HAZARD: if the store was in use and has lost all of its entries, IDs may repeat until a live
// holder has put its record back. Then starts wait again.
func Init(ctx context.Context, s Store, layout snowflake.Layout) error {
	if s == nil {
		return fmt.Errorf("%w: the store is nil", ErrInvalidOptions)
	}
	layout = cmp.Or(layout, snowflake.DefaultLayout())
	if err := layout.Validate(); err != nil {
		return err
	}
	from := book.LineTo(ctx, s)
	for try := 1; ; try++ {
		d, err := book.GetDoor(from)
		switch {
		case err != nil && d.Version == "":
			return err
		case err != nil, d.Open, d.Name != "" && d.Layout != layout:
			return initialized(d, err, layout, book.DoorKey)
		}
		if try == 1 {
			key, err := anyEntry(ctx, s, d)
			if err != nil {
				return err
			}
			if key != "" {
				return initialized(d, nil, layout, key)
			}
		}
		engine, err := from.Engine()
		if err != nil {
			return err
		}
		d.Name, d.Layout = cmp.Or(d.Name, machine.RandomText()), layout
		next, _ := d.Advance(0, protocol.Moment{}, protocol.Clocks{Own: from.Read().Own, Engine: engine}, true, 0)
		// Starts that wait save how long they have waited, so one of them may be quicker.
		if _, err = from.Put(book.DoorKey, d.Version, next.Encode()); !errors.Is(err, ErrConflict) || try == maxAllRaces {
			return err
		}
	}
}

// anyEntry returns the key of an entry that a store without a record does not have, or the path of
// the file that says that a directory had an entry; "" if there is none. d is the store's door.
func anyEntry(ctx context.Context, s Store, d protocol.Door) (key string, err error) {
	for _, prefix := range []string{book.RecordPrefix, book.MarkPrefix, book.OwnerPrefix, book.HistoryPrefix, book.WatermarkKey, book.SilenceKey} {
		entries, err := s.List(ctx, prefix)
		if err != nil {
			return "", err
		}
		if len(entries) > 0 {
			return entries[0].Key, nil
		}
	}
	if d.Version == "" {
		key, _, err = book.TraceOf(ctx, s)
		return key, err
	}
	return d.Trace, nil
}

// initialized returns the error of Init for a store that it does not open, because the store has
// the entry that key names. d is the store's door, and bad is the error of reading it.
func initialized(d protocol.Door, bad error, layout snowflake.Layout, key string) error {
	switch {
	case bad != nil:
		return fmt.Errorf("%w: %w", ErrInitialized, bad)
	case d.Name != "" && d.Layout != layout:
		return fmt.Errorf("%w: %w", ErrInitialized, foreign(none, d.Layout, layout))
	case d.Open:
		return fmt.Errorf("%w: it is open already, and starts do not wait", ErrInitialized)
	}
	d.Layout = layout
	return fmt.Errorf("%w: it has %s, and has lost other entries: starts wait for %v more", ErrInitialized, key, d.Left())
}
