package lease

import (
	"context"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/history"
)

// History is what a store knew, when it was read, of who held its worker IDs. It answers for many
// IDs what [Whois] answers for one. Any number of goroutines may use it.
type History struct{ index *history.Index }

// ReadHistory reads the records and the history in s, once. What it returns is right for all IDs
// that were issued before it was called. So first read the IDs, and then the history: the holder of
// a later ID may have saved its window since, and the ID then looks as if nobody had issued it.
//
// If some entries cannot be read, ReadHistory returns a History that answers ErrForgotten where
// they may be missing, and an error that joins the reasons, each of which matches [ErrBadRecord].
// If the store has no entries, the error matches [ErrWiped]. Other errors are the store's.
func ReadHistory(ctx context.Context, s Store) (*History, error) {
	index, err := history.Read(book.LineTo(ctx, s))
	if index == nil {
		return nil, err
	}
	return &History{index}, err
}

// Layout returns the layout of the store's IDs.
func (h *History) Layout() snowflake.Layout { return h.index.Layout() }

// Begins returns the beginning of the first holding that the store knows, of any worker ID. If it
// knows none, Begins returns the zero time.
func (h *History) Begins() time.Time { return h.index.Begins() }

// Whois returns who issued id, as the function [Whois] does, with its errors and without their
// texts: [ErrNeverIssued], which also matches snowflake.ErrInvalidID if id is not of the layout;
// [ErrForgotten]; or [ErrNotReported]. It does not look at the datacenter. It allocates nothing.
// The Holding is nil if there is an error, and must not be changed.
func (h *History) Whois(id snowflake.ID) (*Holding, error) {
	by, err := h.index.Whois(id)
	return (*Holding)(by), err
}

// Around returns the last holding of id's worker ID and clock sequence that ended before id, and
// the first that began after it; nil if there is none.
func (h *History) Around(id snowflake.ID) (before, after *Holding) {
	b, a := h.index.Around(id)
	return (*Holding)(b), (*Holding)(a)
}
