//go:build go1.25

package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// breaks says how an invariant is broken.
func (w *world) breaks(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// checkSave checks a record that p saves in place of was: lines 3 and 5 of the proof in doc.go.
func (w *world) checkSave(p *process, q *query, was Entry) {
	worker, ok := book.WorkerOf(book.RecordPrefix, q.key)
	if !ok {
		return
	}
	old, _ := protocol.DecodeRecord(worker, was)
	r, _ := protocol.DecodeRecord(worker, Entry{Version: "new", Value: q.value})
	taken := !p.signed[r.Token]
	putBack := !taken && old.Token != r.Token // in place of a stray record, or of none
	if r.State != StateHeld || putBack {
		return
	}
	p.signed = with(p.signed, r.Token, true)
	for c := range 1 << w.seqBits {
		of := [2]int{worker, c}
		p.saved = with(p.saved, of, times.Later(p.saved[of], r.BoundOf(c)))
		if r.BoundOf(c).Before(old.BoundOf(c)) {
			w.breaks("the bound of worker ID %d and clock sequence %d goes back from %s to %s", worker, c, w.at(old.BoundOf(c)), w.at(r.BoundOf(c)))
		}
		if (old.State == StateHeld || old.State == StateFree) && c == r.ClockSeq && (taken || old.ClockSeq != c) {
			p.low = with(p.low, of, old.BoundOf(c))
		}
	}
}

// checkMark checks the watermark that p has read.
func (w *world) checkMark(p *process, mark snowflake.ID) {
	w.tell("%s gets the watermark %s", p.name, w.at(w.timeOf(mark)))
	if mark < w.mark {
		w.breaks("the watermark falls from %s to %s", w.at(w.timeOf(w.mark)), w.at(w.timeOf(mark)))
	}
	w.mark = max(w.mark, mark)
}

// checkID checks an ID that p issued. was is what p was granted when the call continued.
func (w *world) checkID(p *process, id snowflake.ID, was snowflake.Grant) {
	is := w.layout().Decode(id)
	w.tell("%s issues an ID: worker ID %d, clock sequence %d, time %s", p.name, is.Worker, is.ClockSeq, w.at(is.Time))
	if by, ok := w.ids[id]; ok {
		w.breaks("%s and %s have issued the same ID, %d", by, p.name, id)
	}
	if w.seqBits == 0 && id <= p.last {
		w.breaks("%s issues %d after %d", p.name, id, p.last)
	}
	passed := w.timeOf(w.mark).Add(tick)
	silent := w.now-p.heardOf > w.span() || w.now-p.late <= w.span()
	exempt := silent && (!was.To.After(passed) || !p.grant().To.After(passed))
	if w.mark > 0 && id <= w.mark && !exempt {
		w.breaks("%s issues an ID of time %s, and the watermark was at %s", p.name, w.at(is.Time), w.at(w.timeOf(w.mark)))
	}
	w.ids, p.last = with(w.ids, id, p.name), id
}

func (w *world) timeOf(id snowflake.ID) time.Time { return w.layout().Decode(id).Time }

// checkWindows compares the windows of the processes that are up with all windows that others had,
// and with their IDs. A process that releases its worker ID gives the rest of its window back, so
// only its IDs count.
func (w *world) checkWindows() {
	for i, p := range w.procs {
		if p.dead || p.gen == nil || p.ending {
			continue
		}
		g := p.grant()
		of := [2]int{g.Worker, g.ClockSeq}
		name := fmt.Sprintf("of worker ID %d and clock sequence %d", g.Worker, g.ClockSeq)
		// A window that ends at the bound is the one before.
		if low := p.low[of]; g.From.Before(low) && low.Before(g.To) {
			w.breaks("%s begins a window %s at %s, and the bound was %s", p.name, name, w.at(g.From), w.at(low))
		}
		if g.From.Before(g.To) && g.To.After(p.saved[of]) {
			w.breaks("%s may issue IDs %s up to %s, and has not saved that bound", p.name, name, w.at(g.To))
		}
		if was, ok := p.windows[of]; ok && !g.From.Before(was.From) && g.From.Before(was.To) {
			// It is the same window, also if the watermark has passed a part of it.
			g.From, g.To = was.From, times.Later(was.To, g.To)
		}
		if g.From.Before(g.To) && p.windows[of] != g {
			p = w.change(i)
			p.windows = with(p.windows, of, g)
		}
		for _, q := range w.procs {
			if h, ok := q.windows[of]; ok && p != q && !q.ending && g.From.Before(h.To) && h.From.Before(g.To) {
				w.breaks("%s and %s may both issue IDs %s from %s to %s", p.name, q.name, name, w.at(times.Later(g.From, h.From)), w.at(times.Earlier(g.To, h.To)))
			}
		}
		for id, by := range w.ids {
			is := w.layout().Decode(id)
			if by != p.name && is.Worker == g.Worker && is.ClockSeq == g.ClockSeq && !is.Time.Before(g.From) && is.Time.Before(g.To) {
				w.breaks("%s may issue IDs %s at %s, and %s has issued one", p.name, name, w.at(is.Time), by)
			}
		}
	}
}

// patience returns the number of ticks that each of the waits of checkRecovery may take.
func (w *world) patience() int {
	ticks := 2*w.span() + 1 + max(w.ahead, -w.ahead) + w.most[forward]*w.by
	if w.spent[lose]+w.spent[garble] > 0 {
		ticks += 2 * w.healed()
	}
	return ticks
}

// checkRecovery continues without further faults, and with all clocks right: requests that failed
// are served, and then in each tick each process renews and gets its answers. Whatever has happened
// before, within patience each process issues IDs again, or knows that it lost its worker ID while
// all are in use; within the same time after that, a newcomer does; and within the same time after
// that, the watermark is less than two windows behind.
func (w *world) checkRecovery() {
	s := *w.scope
	s.faults, s.ids = 0, 1<<30
	w.away, w.scope = false, &s
	w.tell("no fault happens any more, and all clocks are right")
	for i := range w.procs {
		w.change(i).offset = 0
	}
	for len(w.late) > 0 {
		w.take(step{arrive, 0, 0})
	}
	w.await("each process", w.waiting)

	reader := w.join("the last reader", true)
	behind := func() string { return w.behind(reader) }
	_, bad := book.GetDoor(w.line())        // a newcomer makes it anew if it cannot be read
	if bad == nil && len(w.issuing()) > 0 { // if nobody has a worker ID, the watermark rests
		w.await("the watermark", behind)
	}
	if holders := w.issuing(); len(holders) > 0 && len(holders) >= w.usable() {
		w.take(step{release, holders[0], 0})
	}
	name, newcomer := "newcomer", int8(0)
	if w.copies {
		name = "A, the newcomer"
	}
	w.await("a newcomer", func() string {
		if newcomer == 0 || w.procs[newcomer].err != nil {
			newcomer = w.join(name, false)
			w.take(step{begin, newcomer, 0})
			w.rest()
		}
		late := w.waiting()
		if err := w.procs[newcomer].err; err != nil && len(w.issuing()) < w.usable() {
			late = fmt.Sprintf("it fails: %v", err)
		}
		return late
	})
	w.await("the watermark", behind)
}

// await lets time pass until late returns an empty text. If that takes longer than patience, the
// world is broken.
func (w *world) await(what string, late func() string) {
	for begun := w.now; w.broken == ""; w.take(step{pass, 0, 1}) {
		w.rest()
		why := late()
		if why == "" {
			return
		}
		if w.now-begun == w.patience() {
			w.breaks("%s is late by more than %d ticks: %s", what, w.patience(), why)
		}
	}
}

// rest lets the store answer, and each process do what is due in this tick.
func (w *world) rest() {
	woken := map[int8]int{} // times that each process woke up
	for w.broken == "" {
		s, ok := w.due(woken)
		if !ok {
			return
		}
		if s.kind == wake {
			woken[s.p]++
		}
		w.take(s)
	}
}

// due returns the next step that somebody waits for: an answer, or else the end of a rest.
func (w *world) due(woken map[int8]int) (s step, ok bool) {
	for i, p := range w.procs {
		for n, t := range p.tasks {
			switch k := t.waitsFor(); {
			case k == answer || k == hear:
				return step{k, int8(i), int8(n)}, true
			case k == wake && !ok && t.due <= w.now && woken[int8(i)] < 3:
				s, ok = step{k, int8(i), int8(n)}, true
			}
		}
	}
	return s, ok
}

// waiting lets each process issue an ID, and says which one cannot.
func (w *world) waiting() (why string) {
	up := 0
	for i, p := range w.procs {
		switch {
		case p.up() && (p.reader || p.ending):
			return p.name + " has not ended"
		case !p.up():
			continue
		}
		up++
		if p.gen == nil {
			continue
		}
		n, lost := p.issued, errors.Is(p.loss, ErrLost)
		w.take(step{issue, int8(i), 0})
		w.rest()
		if p = w.change(i); p.issued > n {
			p.issuedAt = w.now
		} else if !lost {
			why = fmt.Sprintf("%s issues nothing: %v", p.name, p.refused)
		}
	}
	if n := len(w.issuing()); why == "" && n < min(up, w.usable()) {
		why = fmt.Sprintf("%d of %d processes issue IDs", n, up)
	}
	return why
}

// issuing returns the processes that have issued an ID in this tick.
func (w *world) issuing() (all []int8) {
	for i, p := range w.procs {
		if p.up() && p.issued > 0 && p.issuedAt == w.now {
			all = append(all, int8(i))
		}
	}
	return all
}

// usable returns the number of worker IDs that can be used.
func (w *world) usable() (n int) {
	for worker := range w.workers {
		if r, err := book.GetRecord(w.line(), worker); err == nil && w.mayKeep(r) {
			n++
		}
	}
	if w.copies {
		n = min(n, 1) // an owner has one
	}
	return n
}

// behind lets a reader read the watermark, and says by how much it is behind.
func (w *world) behind(reader int8) string {
	if w.spent[remove] > 0 {
		w.retire()
	}
	w.change(int(reader)).done = false
	w.take(step{begin, reader, 0})
	w.rest()
	if lag := w.time().Sub(w.timeOf(w.mark)); lag >= 2*tick*time.Duration(w.span()) {
		return fmt.Sprintf("it is %v behind", lag)
	}
	return ""
}

// retire retires each worker ID that is held and whose local copy is gone, as an operator does.
func (w *world) retire() {
	for worker := range w.workers {
		if r, err := book.GetRecord(w.line(), worker); err == nil && r.State == StateHeld && !w.mayKeep(r) {
			value, _ := r.Retire(protocol.Clocks{Own: w.time()}).Encode()
			w.store(&query{do: "put", key: book.RecordKey(worker), value: value})
			w.tell("worker ID %d is retired", worker)
		}
	}
}
