package lease

import (
	"context"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/history"
)

// History is a copy of a store's records and history. It answers for many IDs what [Whois] answers
// for one. Any number of goroutines may use it.
type History struct{ index history.Index }

// ReadHistory reads the records and the history in s. The result is right for IDs that were issued
// before the call: read the IDs first, because a later one may look as if nobody had issued it.
//
// If some entries cannot be read, the History answers ErrForgotten where they may be missing, and
// the error joins the reasons, each of which matches ErrBadRecord. If there are no entries, it
// matches ErrWiped. Other errors are the store's.
func ReadHistory(ctx context.Context, s Store) (*History, error) {
	index, err := history.Read(book.LineTo(ctx, s))
	if index == nil {
		return nil, err
	}
	return &History{*index}, err
}

// Layout returns the layout of the store's IDs.
func (h *History) Layout() snowflake.Layout { return h.index.Layout() }

// Begins returns the start of the store's first holding, or the zero time.
func (h *History) Begins() time.Time { return h.index.Begins() }

// Whois is the function [Whois], with shorter errors and without allocations. If id is not of the
// layout, ErrNeverIssued also matches snowflake.ErrInvalidID. The datacenter is ignored. The
// Holding, nil with an error, must not be changed.
func (h *History) Whois(id snowflake.ID) (*Holding, error) {
	by, err := h.index.Whois(id)
	return (*Holding)(by), err
}

// Around returns the last holding of id's worker ID and clock sequence that ended before id, and
// the first that began after id, or nil.
func (h *History) Around(id snowflake.ID) (before, after *Holding) {
	b, a := h.index.Around(id)
	return (*Holding)(b), (*Holding)(a)
}
