package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/seed-5394e6b1/snowflake"
)

// Init makes a store that has never been used. Run it once, as you run a migration; after it, the
// first start does not wait. If layout is zero, it is snowflake.DefaultLayout(). If the store has
// an entry, Init changes nothing, and the error matches [ErrInitialized]. Other errors match
// snowflake.ErrInvalidLayout, or are the store's; then Init may be called again.
//
// HAZARD: if the store was in use and has lost all of its entries, IDs may repeat.
func Init(ctx context.Context, s Store, layout snowflake.Layout) error {
	if s == nil {
		return fmt.Errorf("%w: the store is nil", ErrInvalidOptions)
	}
	layout = cmp.Or(layout, snowflake.DefaultLayout())
	if err := layout.Validate(); err != nil {
		return err
	}
	e, err := s.Get(ctx, doorKey)
	if e.Version != "" {
		return fmt.Errorf("%w: it has the entry %s", ErrInitialized, doorKey)
	}
	if err != nil {
		return err
	}
	for _, prefix := range []string{recordPrefix, markPrefix, ownerPrefix, historyPrefix, watermarkKey, silenceKey} {
		entries, err := s.List(ctx, prefix)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			return fmt.Errorf("%w: it has the entry %s", ErrInitialized, entries[0].Key)
		}
	}
	_, err = s.Put(ctx, doorKey, "", door{Name: randomText(), Layout: layout, Open: true}.encode())
	if errors.Is(err, ErrConflict) {
		err = fmt.Errorf("%w: it has the entry %s", ErrInitialized, doorKey)
	}
	return err
}

// ErrInitialized is returned by Init if the store was made before.
var ErrInitialized = errors.New("lease: the store is in use")
