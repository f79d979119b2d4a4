//go:build go1.25

package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// history is Options.History, with its default.
func (w *world) history() time.Duration {
	if w.History == 0 {
		return 90 * 24 * time.Hour
	}
	return w.History
}

// checkIssuer: the issuer of an ID is found.
func (w *world) checkIssuer(id snowflake.ID, by *process) {
	parts := w.Layout.Decode(id)
	if w.LocalCopy || w.isCommon(parts.Worker, parts.ClockSeq, parts.Time) {
		return // its issuer has not told, or whoever came after a release may have issued it, too
	}
	w.count("issuers found", 1)
	h, err := lease.Whois(context.Background(), w.store, id)
	w.store.mu.Lock()
	right := slices.Contains(w.store.holders[h.Token], by)
	forgotten := w.store.worker(parts.Worker).record.Forgotten
	w.store.mu.Unlock()
	switch {
	case err == nil && right, err != nil && w.isWiped():
	case errors.Is(err, lease.ErrForgotten) && parts.Time.Before(forgotten):
	default:
		w.fail("issuer", "%v issued %d (%v), and Whois names %v: %v", by, id, parts, h, err)
	}
}

// checkHistory: nobody who had a lease is taken for a stranger, whatever the store has lost.
func (w *world) checkHistory() {
	h, err := lease.ReadHistory(context.Background(), w.store)
	if h == nil {
		w.fail("history", "it cannot be read: %v", err)
		return
	}
	w.mu.Lock()
	issued := maps.Clone(w.issued)
	w.mu.Unlock()
	for id, by := range issued {
		if p := w.Layout.Decode(id); w.isCommon(p.Worker, p.ClockSeq, p.Time) {
			continue // whoever came after a release may have issued it, too
		}
		w.count("IDs audited", 1)
		switch _, err := h.Whois(id); {
		case errors.Is(err, lease.ErrNeverIssued):
			w.fail("history", "%v issued %d (%v), and the history says that nobody did", by.by, id, w.Layout.Decode(id))
			return
		case err == nil:
			w.count("IDs with an issuer", 1)
		}
	}
}

// willCheckIssuer lets the issuer of IDs be looked up when the run ends.
func (w *world) willCheckIssuer(by *process, ids ...snowflake.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if id >= 0 {
			w.edges = append(w.edges, edge{id, by})
		}
	}
}

// edge is an ID that a process issued first, or last, in a grant.
type edge struct {
	id snowflake.ID
	by *process
}
