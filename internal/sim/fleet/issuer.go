package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// isHolder notes whose token it is. s.mu is held.
func (s *store) isHolder(token string, p *process) {
	if held := s.holders[token]; !slices.Contains(held, p) && (p.w.LocalCopy || len(held) == 0 || p.isClone || held[0].isClone) {
		s.holders[token] = append(held, p)
	}
}

func isSame(a, b lease.Holding) bool {
	return a.Worker == b.Worker && a.ClockSeq == b.ClockSeq && a.Token == b.Token && a.From.Equal(b.From)
}

// sharesAll lets q be known as the holder of all that p holds.
func (s *store) sharesAll(p, q *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, held := range s.holders {
		if slices.Contains(held, p) {
			s.holders[token] = append(slices.Clone(held), q)
		}
	}
	maps.Copy(q.took, p.took)
}

// holdingOf is what a record says of its holder.
func holdingOf(r lease.Record) lease.Holding {
	return lease.Holding{
		Worker: r.Worker, ClockSeq: r.ClockSeq, From: r.From, To: r.Bound(), Token: r.Token, Owner: r.Owner, Host: r.Host, PID: r.PID,
	}
}

// holdings returns the history of a record. s.mu is held.
func (s *store) holdings(r lease.Record) (all []lease.Holding) {
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
func (s *store) checkHistory(p *process, old, r lease.Record) {
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
	if r.Forgotten.After(old.Forgotten) {
		_, hi := p.machine.offsets(1000 * time.Hour)
		if most := p.machine.start.Add(p.machine.Mono() + hi - w.history()); r.Forgotten.After(most) {
			w.fail("history", "%v forgets what ended before %v, of %v", p, r.Forgotten, most)
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

// desk is the store, without a network between.
type desk struct{ s *store }

func (d desk) Get(_ context.Context, key string) (lease.Entry, error) {
	return d.s.get(key, false), nil
}

func (d desk) List(_ context.Context, prefix string) ([]lease.Entry, error) {
	return d.s.list(false, func(key string) bool { return strings.HasPrefix(key, prefix) }), nil
}

func (d desk) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	return d.s.put(nil, d.s.newPut(ctx, key, old, value))
}

func (d desk) Delete(_ context.Context, key, old string) error { return d.s.delete(key, old) }

// checkIssuer: the issuer of an ID is found at once, now and then.
func (p *process) checkIssuer(o outcome) {
	if p.lease == nil || p.w.LocalCopy || len(o.ids) == 0 || !p.w.chance(3) {
		return
	}
	p.w.checkIssuer(desk{p.w.store}, o.ids[p.w.intN(len(o.ids))], p)
}

func (w *world) checkIssuer(s lease.Store, id snowflake.ID, by *process) {
	parts := w.Layout.Decode(id)
	w.count("issuers found", 1)
	if w.isCommon(parts.Worker, parts.ClockSeq, parts.Time) {
		return // whoever came after a release may have issued it, too
	}
	h, err := lease.Whois(context.Background(), s, id)
	w.store.mu.Lock()
	right := slices.Contains(w.store.holders[h.Token], by)
	forgotten, wiped := w.store.records[parts.Worker].Forgotten, w.store.wiped.Load()
	w.store.mu.Unlock()
	switch {
	case err == nil && right, err != nil && wiped:
	case errors.Is(err, lease.ErrForgotten) && parts.Time.Before(forgotten):
	default:
		w.fail("issuer", "%v issued %d (%v), and Whois names %v: %v", by, id, parts, h, err)
	}
}

// checkIssuers: at the end each ID's issuer is found, and no other ID has one.
// Of the IDs that one process issued in a row, the first and the last are looked
// up, and some between.
func (w *world) checkIssuers() {
	if !w.Leased || w.isEnded() {
		return
	}
	s := desk{w.store}
	w.mu.Lock()
	rows := map[[2]int][]snowflake.ID{}
	for id := range w.issued {
		parts := w.Layout.Decode(id)
		key := [2]int{parts.Worker, parts.ClockSeq}
		rows[key] = append(rows[key], id)
	}
	issued := maps.Clone(w.issued)
	w.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(rows), func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) }) {
		row := slices.Sorted(slices.Values(rows[key]))
		for i, id := range row {
			by := issued[id].by
			if i == 0 || i == len(row)-1 || i%100 == 0 || issued[row[i-1]].by != by || issued[row[i+1]].by != by {
				w.checkIssuer(s, id, by)
			}
		}
	}
	w.checkNobody(s)
}

// checkNobody: at the edges of each holding, an ID has the issuer that the holdings
// say. If nobody issued it, Whois says so, or says that the issuer is forgotten if the ID is
// before Forgotten.
func (w *world) checkNobody(s lease.Store) {
	w.store.mu.Lock()
	records := maps.Clone(w.store.records)
	w.store.mu.Unlock()
	if w.isWiped() {
		return
	}
	for worker := range min(w.Last+1, 8) {
		r, held := records[worker]
		w.store.mu.Lock()
		holdings := slices.DeleteFunc(w.store.holdings(r), func(h lease.Holding) bool { return isSame(h, holdingOf(r)) })
		w.store.mu.Unlock()
		if held {
			holdings = append(slices.Clone(holdings), holdingOf(r))
		}
		holdings = append(holdings, lease.Holding{ClockSeq: 1<<w.Layout.ClockSeqBits - 1, From: w.Start, To: w.Start.Add(time.Hour)})
		for i, h := range holdings {
			for _, t := range []time.Time{h.From.Add(-w.Layout.Unit), h.From, h.To, h.To.Add(w.Layout.Unit)} {
				id, err := w.Layout.Encode(snowflake.Parts{Time: t, Worker: worker, ClockSeq: h.ClockSeq})
				if err != nil {
					continue // out of the layout's time
				}
				w.checkHolder(s, id, holdings[:len(holdings)-1], r)
			}
			if i == 100 {
				break
			}
		}
	}
}

// checkHolder: Whois names a holding that has the ID, or says that no holding has it, or that
// an owner with a local copy may have a holding which the store does not know yet.
func (w *world) checkHolder(s lease.Store, id snowflake.ID, holdings []lease.Holding, r lease.Record) {
	parts := w.Layout.Decode(id)
	has := func(h lease.Holding) bool {
		return h.ClockSeq == parts.ClockSeq && !parts.Time.Before(h.From) && parts.Time.Before(h.To)
	}
	want := lease.ErrNeverIssued
	switch {
	case slices.ContainsFunc(holdings, has):
		want = nil
	case parts.Time.Before(r.Forgotten):
		want = lease.ErrForgotten
	case r.Copy && !parts.Time.Before(boundOf(r, parts.ClockSeq)):
		want = lease.ErrUntold
	}
	if h, err := lease.Whois(context.Background(), s, id); !errors.Is(err, want) || err == nil && !has(h) {
		w.fail("issuer", "Whois says of %d (%v): %v, %v; want %v", id, parts, h, err, want)
	}
}
