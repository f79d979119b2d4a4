//go:build go1.25

package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// history returns Options.History or its default.
func (w *world) history() time.Duration {
	if w.History == 0 {
		return 90 * 24 * time.Hour
	}
	return w.History
}

// checkHistory checks that the history names the issuer of each ID, unless the issuer is forgotten,
// and that it never denies an ID, whatever the store has lost.
func (w *world) checkHistory() {
	w.mu.Lock()
	issued := maps.Clone(w.issued)
	w.mu.Unlock()
	h, err := lease.ReadHistory(context.Background(), &w.store.memory)
	if h == nil {
		w.fail("history", "it cannot be read: %v", err)
		return
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for id, by := range issued {
		parts := w.Layout.Decode(id)
		if w.isCommon(parts.Worker, parts.ClockSeq, parts.Time) {
			continue // a holder after a release may have issued the ID, too
		}
		w.count("IDs audited", 1)
		is, err := h.Whois(id)
		lost := w.isWiped()
		switch {
		case err == nil && (lost || slices.Contains(w.store.holders[is.Token], by.by)):
			w.count("IDs with an issuer", 1)
		case errors.Is(err, lease.ErrNeverIssued), !lost && !parts.Time.Before(w.store.worker(parts.Worker).record.Forgotten):
			w.fail("history", "%v issued %d (%v), and the history names %v: %v", by.by, id, parts, is, err)
			return
		}
	}
}
