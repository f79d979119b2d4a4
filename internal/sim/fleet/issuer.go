package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func isSame(a, b lease.Holding) bool {
	return a.Worker == b.Worker && a.ClockSeq == b.ClockSeq && a.Token == b.Token && a.From.Equal(b.From)
}

// holdingOf is what a record says of its holder.
func holdingOf(r *lease.Record) lease.Holding {
	return lease.Holding{
		Worker: r.Worker, ClockSeq: r.ClockSeq, From: r.From, To: r.Bound(), Token: r.Token, Owner: r.Owner, Host: r.Host, PID: r.PID,
	}
}

// holdings returns the history of a record. s.mu is held.
func (s *store) holdings(r *lease.Record) (all []lease.Holding) {
	prefix := fmt.Sprintf("history/%d/", r.Worker)
	for chunk := r.Chunks.First; chunk < r.Chunks.Next; chunk++ {
		var kept []lease.Holding
		if e, ok := s.entries[prefix+strconv.Itoa(chunk)]; ok && json.Unmarshal(e.Value, &kept) == nil {
			all = append(all, kept...)
		}
	}
	return append(all, r.Ended...)
}

// checkHistory: what is replaced is kept, as it was, and only what is older than
// Options.History is dropped; and holdings have no instant in common. s.mu is held.
func (s *store) checkHistory(p *process, old, r *lease.Record) {
	w := s.w
	was, is := holdingOf(old), holdingOf(r)
	isOfTwo := w.isCommon(r.Worker, was.ClockSeq, time.Time{}) || w.isCommon(r.Worker, is.ClockSeq, time.Time{})
	if w.LocalCopy || s.wiped.Load() || old.Token == "" || isOfTwo {
		return // the copy decides, or much is gone, or a machine and its clone save in turn
	}
	kept := s.holdings(r)
	must := s.holdings(old)
	if !isSame(was, is) {
		must = slices.DeleteFunc(must, func(h lease.Holding) bool { return isSame(h, was) || isSame(h, is) })
		if was.From.Before(was.To) {
			must = append(must, was)
		}
	}
	for _, h := range must {
		if !slices.ContainsFunc(kept, func(k lease.Holding) bool { return isSame(h, k) && h.To.Equal(k.To) }) &&
			!slices.ContainsFunc(kept, func(k lease.Holding) bool { return isSame(h, k) && isSame(h, was) }) && !h.To.Before(r.Forgotten) {
			w.fail("history", "%v replaces %v, and does not keep %v", p, was, h)
		}
	}
	for _, k := range kept {
		if !isSame(k, is) && !slices.ContainsFunc(must, func(h lease.Holding) bool { return isSame(h, k) && h.To.Equal(k.To) }) {
			w.fail("history", "%v replaces %v, and keeps %v", p, was, k)
		}
	}
	if r.State != lease.Held || !is.From.Before(is.To) || isSame(was, is) {
		return
	}
	if h := was; h.ClockSeq == is.ClockSeq && h.Token != is.Token && h.From.Before(h.To) && is.From.Before(h.To) && h.From.Before(is.To) {
		w.fail("history", "%v begins %v, which has instants in common with %v", p, is, h)
	}
}

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
