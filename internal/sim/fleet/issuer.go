package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// historian is a client of a store that keeps what is replaced.
type historian struct{ client }

// store returns the process's way to the store.
func (p *process) store() lease.Store {
	if p.w.Forgets {
		return client{p}
	}
	return historian{client{p}}
}

// SaveEnding asks for a save, and for an entry in the history.
func (h historian) SaveEnding(ctx context.Context, r lease.Record, ended lease.Holding, forget time.Time) (lease.Record, error) {
	r.Bounds = slices.Clone(r.Bounds)
	h.p.checkLeap(r)
	a := h.call(ctx, "save and end", func(s *store) answer {
		saved, err := s.save(h.p, r, &ended, forget)
		return answer{record: saved, err: err}
	})
	if a.err != nil {
		return r, a.err
	}
	return a.record, nil
}

// History asks for the history of a worker ID.
func (h historian) History(ctx context.Context, worker int) ([]lease.Holding, error) {
	a := h.call(ctx, "read the history", func(s *store) answer {
		s.mu.Lock()
		defer s.mu.Unlock()
		return answer{kept: slices.Clone(s.history[worker])}
	})
	return a.kept, a.err
}

func (s *store) isWiped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wiped > 0 && !s.w.isOver()
}

// keep keeps who holds what. s.mu is held.
func (s *store) keep(p *process, r lease.Record, ended *lease.Holding, forget time.Time) {
	s.isHolder(r.Token, p)
	if ended == nil {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(s.history[r.Worker]), func(h lease.Holding) bool { return isSame(h, *ended) })
	s.history[r.Worker] = slices.DeleteFunc(append(kept, *ended), func(h lease.Holding) bool { return h.To.Before(forget) })
}

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

// checkHistory: what is replaced is kept, as it was, and only what is older than
// Options.History is dropped; and holdings have no instant in common. s.mu is held.
func (s *store) checkHistory(p *process, old, r lease.Record, ended *lease.Holding, forget time.Time) {
	w := s.w
	if w.LocalCopy {
		return // the copy decides
	}
	was, is := holdingOf(old), holdingOf(r)
	changed := old.Version > 0 && !isSame(was, is)
	switch {
	case ended == nil && changed && was.From.Before(was.To) && !w.Forgets:
		w.fail("history", "%v replaces %v, and does not keep it", p, was)
	case ended != nil && (!changed || !isSame(*ended, was) || !ended.To.Equal(was.To)):
		w.fail("history", "%v replaces %v, and keeps %v", p, was, *ended)
	}
	if r.Forgotten.After(old.Forgotten) {
		_, hi := p.machine.offsets(1000 * time.Hour)
		most := p.machine.start.Add(p.machine.Mono() + hi - w.history())
		if w.Forgets {
			most = old.Bound()
		}
		if r.Forgotten.After(most) || forget.After(r.Forgotten) {
			w.fail("history", "%v forgets what ended before %v, of %v", p, r.Forgotten, most)
		}
	}
	if r.State != lease.Held || !is.From.Before(is.To) || isSame(was, is) {
		return
	}
	for _, h := range append(slices.Clone(s.history[r.Worker]), was) {
		if h.ClockSeq == is.ClockSeq && h.Token != is.Token && h.From.Before(h.To) && is.From.Before(h.To) && h.From.Before(is.To) {
			w.fail("history", "%v begins %v, which has instants in common with %v", p, is, h)
		}
	}
}

// history is Options.History, with its default.
func (w *world) history() time.Duration {
	if w.History == 0 {
		return 90 * 24 * time.Hour
	}
	return w.History
}

// desk answers for the store itself, without a network between.
type desk struct {
	historian
	snap lease.Snapshot
}

// bareDesk is a desk that knows no history.
type bareDesk struct {
	client
	desk *desk
}

// ask returns the store as it is now.
func (s *store) ask() lease.Store {
	d := &desk{historian: historian{client{&process{node: &node{w: s.w}}}}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, worker := range slices.Sorted(maps.Keys(s.records)) {
		d.snap.Records = append(d.snap.Records, s.records[worker])
	}
	if s.w.Forgets {
		return bareDesk{d.client, d}
	}
	return d
}

// Load returns the records.
func (d *desk) Load(context.Context) (lease.Snapshot, error) { return d.snap, nil }

// History returns what is kept of a worker ID.
func (d *desk) History(_ context.Context, worker int) ([]lease.Holding, error) {
	s := d.p.w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history[worker], nil
}

// Load returns the records.
func (d bareDesk) Load(ctx context.Context) (lease.Snapshot, error) { return d.desk.Load(ctx) }

// checkIssuer: the issuer of an ID is found at once, now and then.
func (p *process) checkIssuer(o outcome) {
	if p.lease == nil || p.w.LocalCopy || len(o.ids) == 0 || !p.w.chance(3) {
		return
	}
	p.w.checkIssuer(p.w.store.ask(), o.ids[p.w.intN(len(o.ids))], p)
}

func (w *world) checkIssuer(s lease.Store, id snowflake.ID, by *process) {
	parts := w.Layout.Decode(id)
	w.mu.Lock()
	_, common := w.commonWindow(parts.Worker, parts.ClockSeq, parts.Time)
	w.totals.Named++
	w.mu.Unlock()
	if common {
		return // whoever came after a release may have issued it, too
	}
	h, err := lease.Whois(context.Background(), s, id)
	w.store.mu.Lock()
	right := slices.Contains(w.store.holders[h.Token], by)
	forgotten := w.store.records[parts.Worker].Forgotten
	w.store.mu.Unlock()
	switch {
	case err == nil && right:
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
	s := w.store.ask()
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
	snap, _ := s.Load(context.Background())
	records := map[int]lease.Record{}
	for _, r := range snap.Records {
		records[r.Worker] = r
	}
	for worker := range min(w.Last+1, 8) {
		r, held := records[worker]
		holdings := w.store.history[worker]
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
	case r.Reuse == lease.ReuseKeep && strings.Contains(r.Owner, " @") && !parts.Time.Before(boundOf(r, parts.ClockSeq)):
		want = lease.ErrUntold
	}
	if h, err := lease.Whois(context.Background(), s, id); !errors.Is(err, want) || err == nil && !has(h) {
		w.fail("issuer", "Whois says of %d (%v): %v, %v; want %v", id, parts, h, err, want)
	}
}
