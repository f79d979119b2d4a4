//go:build go1.25

package lease

import (
	"fmt"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

func (w *world) breaks(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// saves checks what a record that is stored says, in place of was: lines 3 and 5 of the proof in
// doc.go.
func (w *world) saves(p *process, q *query, was Entry) {
	worker, ok := book.WorkerOf(book.RecordPrefix, q.key)
	if !ok {
		return
	}
	old, _ := protocol.DecodeRecord(worker, was)
	rec, _ := protocol.DecodeRecord(worker, Entry{Version: "new", Value: q.value})
	taken := !p.signed[rec.Token]
	// It is put back, in place of a stray record or of none.
	back := !taken && old.Token != rec.Token
	if rec.State != StateHeld || back {
		return
	}
	p.signed = with(p.signed, rec.Token, true)
	for c := range 1 << w.seqBits {
		of := [2]int{worker, c}
		p.saved = with(p.saved, of, times.Later(p.saved[of], rec.BoundOf(c)))
		if rec.BoundOf(c).Before(old.BoundOf(c)) {
			w.breaks("the bound of worker ID %d and clock sequence %d goes back from %s to %s", worker, c, w.at(old.BoundOf(c)), w.at(rec.BoundOf(c)))
		}
		if old.State == StateHeld || old.State == StateFree {
			if c == rec.ClockSeq && (taken || old.ClockSeq != c) {
				p.low = with(p.low, of, old.BoundOf(c))
			}
		}
	}
}

// marked checks an ID of a process that renews.
func (w *world) marked(p *process, id, mark snowflake.ID, was snowflake.Grant) {
	passed := w.layout().Decode(mark).Time.Add(tick)
	silent := w.now-p.heardOf > w.span() || w.now-p.late <= w.span()
	if id <= mark && !(silent && (!was.To.After(passed) || !p.grant().To.After(passed))) {
		w.breaks("%s issues an ID of time %s, and the watermark was at %s", p.name, w.at(w.layout().Decode(id).Time), w.at(w.layout().Decode(mark).Time))
	}
}

// check compares the windows of the processes that are up with all windows that others had, and
// with their IDs. A process that releases its worker ID gives the rest of its window back, so only
// its IDs count.
func (w *world) check() {
	for i, p := range w.procs {
		if p.dead || p.gen == nil || p.ending {
			continue
		}
		g := p.grant()
		of := [2]int{g.Worker, g.ClockSeq}
		// A window that ends at the bound is the one before.
		if low := p.low[of]; g.From.Before(low) && low.Before(g.To) {
			w.breaks("%s begins a window of worker ID %d and clock sequence %d at %s, and the bound was %s", p.name, g.Worker, g.ClockSeq, w.at(g.From), w.at(p.low[of]))
		}
		if g.From.Before(g.To) && g.To.After(p.saved[of]) {
			w.breaks("%s may issue IDs of worker ID %d and clock sequence %d up to %s, and has not saved that bound", p.name, g.Worker, g.ClockSeq, w.at(g.To))
		}
		if was, ok := p.windows[of]; ok && !g.From.Before(was.From) && g.From.Before(was.To) {
			// It is the same window, also if the watermark has passed a part of it.
			g.From, g.To = was.From, times.Later(was.To, g.To)
		}
		if g.From.Before(g.To) {
			if p.windows[of] != g {
				p = w.change(i)
				p.windows = with(p.windows, of, g)
			}
		}
		for _, q := range w.procs {
			if h, ok := q.windows[of]; ok && p != q && !q.ending && g.From.Before(h.To) && h.From.Before(g.To) {
				w.breaks("%s and %s may both issue IDs of worker ID %d and clock sequence %d from %s to %s", p.name, q.name, g.Worker, g.ClockSeq, w.at(times.Later(g.From, h.From)), w.at(times.Earlier(g.To, h.To)))
			}
		}
		for id, by := range w.ids {
			is := w.layout().Decode(id)
			if by != p.name && is.Worker == g.Worker && is.ClockSeq == g.ClockSeq && !is.Time.Before(g.From) && is.Time.Before(g.To) {
				w.breaks("%s may issue IDs of worker ID %d and clock sequence %d at %s, and %s has issued one", p.name, g.Worker, g.ClockSeq, w.at(is.Time), by)
			}
		}
	}
}
