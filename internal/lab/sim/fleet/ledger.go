//go:build go1.25

package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// ledger has the IDs of a run, and what limits them.
type ledger struct {
	mu        sync.Mutex
	issued    map[snowflake.ID]issue
	last      map[[2]int]int64 // the last tick issued, by worker and clock sequence
	clones    []cloned
	watermark snowflake.ID // the highest one read
}

// issue is the issuer of an ID, and the time since the start of the run.
type issue struct {
	by *process
	at time.Duration
}

// cloned is a window that the processes of a cloned machine have in common.
type cloned struct {
	worker, seq int
	bound       time.Time // its end; zero if the hypervisor has reported the clone
}

// add adds an ID. If it was issued before, add returns that issue.
func (l *ledger) add(id snowflake.ID, parts snowflake.Parts, tick int64, is issue) (before issue, twice bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, twice = l.issued[id]
	l.issued[id] = is
	key := [2]int{parts.Worker, parts.ClockSeq}
	if last, ok := l.last[key]; !ok || tick > last {
		l.last[key] = tick
	}
	return before, twice
}

// lastTick returns the last tick issued with a clock sequence, if there is one.
func (l *ledger) lastTick(worker, seq int) (tick int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tick, ok = l.last[[2]int{worker, seq}]
	return tick, ok
}

// share records a window that a clone and its original have in common.
func (l *ledger) share(c cloned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clones = append(l.clones, c)
}

// isCommon reports whether a clone and its original have a window in common at t. The two may
// repeat IDs in it and, after a release, so may the next holders.
func (l *ledger) isCommon(worker, seq int, t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.clones, func(c cloned) bool { return c.worker == worker && c.seq == seq && t.Before(c.bound) })
}

// hasClone reports whether a machine was cloned when it had the worker ID.
func (l *ledger) hasClone(worker int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.clones, func(c cloned) bool { return c.worker == worker })
}

// mark returns the highest watermark read so far.
func (l *ledger) mark() snowflake.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watermark
}

// raise records a reading of the watermark, and reports whether it is the highest so far.
func (l *ledger) raise(id snowflake.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	higher := id > l.watermark
	l.watermark = max(l.watermark, id)
	return higher
}

// checkHistory checks that the history names the issuer of each ID, unless the issuer is forgotten,
// and that it never denies an ID, whatever the store has lost.
func (w *world) checkHistory() {
	w.ids.mu.Lock()
	issued := maps.Clone(w.ids.issued)
	w.ids.mu.Unlock()
	h, err := lease.ReadHistory(context.Background(), &w.store.memory)
	if h == nil {
		w.fail("history", "it cannot be read: %v", err)
		return
	}
	lost, named := w.isWiped(), uint64(0)
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for id, by := range issued {
		parts := w.Layout.Decode(id)
		if w.ids.isCommon(parts.Worker, parts.ClockSeq, parts.Time) {
			continue // a holder after a release may have issued the ID, too
		}
		is, err := h.Whois(id)
		switch {
		case err == nil && (lost || slices.Contains(w.store.holders[is.Token], by.by)):
			named++
		case errors.Is(err, lease.ErrNeverIssued), !lost && !parts.Time.Before(w.store.worker(parts.Worker).record.Forgotten):
			w.fail("history", "%v issued %d (%v), and the history names %v: %v", by.by, id, parts, is, err)
			return
		}
	}
	w.count("IDs with an issuer", named)
}
