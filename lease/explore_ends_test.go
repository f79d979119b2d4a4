//go:build go1.25

package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// This file goes on from a state without further faults, and with all clocks right: what was sent
// late arrives, and then in each tick each process renews and is answered. Whatever has happened
// before, within the ticks of patience each process issues IDs again, or knows that it lost its
// worker ID while all are in use; then a newcomer does; and then the watermark is less than two
// windows behind.

// patience returns how many ticks each of the three may take.
func (w *world) patience() int {
	ticks := 2*w.span() + 1 + max(w.ahead, -w.ahead) + w.sets*w.by
	if w.spent[lose]+w.spent[garble] > 0 {
		ticks += 2 * w.healed()
	}
	return ticks
}

// ends goes on from the present state. If something takes longer than patience, the world is
// broken.
func (w *world) ends() {
	begun := w.now
	s := *w.scope
	s.faults, s.ids = 0, 1<<30
	w.gone = false
	w.scope = &s
	w.tell("no fault happens any more, and all clocks are right")
	for i := range w.procs {
		w.change(i).offset = 0
	}
	for len(w.late) > 0 {
		w.take(step{arrive, 0, 0})
	}
	w.await("each process", begun, w.waiting)

	reader := w.joins(true)
	_, bad := book.GetDoor(w.line())        // a newcomer makes it anew if it cannot be read
	if bad == nil && len(w.issuing()) > 0 { // if nobody has a worker ID, the watermark rests
		w.await("the watermark", w.now, w.behind(reader))
	}
	if holders := w.issuing(); len(holders) > 0 && len(holders) >= w.usable() {
		w.take(step{release, int8(holders[0]), 0})
	}
	var newcomer int8
	w.await("a newcomer", w.now, func() string {
		if p := w.procs[newcomer]; newcomer == 0 || p.err != nil {
			newcomer = w.joins(false)
			w.take(step{begin, newcomer, 0})
			w.rest()
		}
		late := w.waiting()
		if p := w.procs[newcomer]; p.err != nil && len(w.issuing()) < w.usable() {
			late = fmt.Sprintf("it fails: %v", p.err)
		}
		return late
	})
	w.await("the watermark", w.now, w.behind(reader))
}

// retires retires each worker ID that is held and whose local copy is gone, as an operator does.
func (w *world) retires() {
	for worker := range w.workers {
		if r, err := book.GetRecord(w.line(), worker); err == nil && r.State == StateHeld && !w.mayKeep(r) {
			value, _ := r.Retire(protocol.Clocks{Own: w.time()}).Encode()
			w.stores(&query{do: "put", key: book.RecordKey(worker), value: value})
			w.tell("worker ID %d is retired", worker)
		}
	}
}

// behind lets a reader read the watermark, and says by how much it is behind.
func (w *world) behind(reader int8) func() string {
	return func() string {
		if w.spent[remove] > 0 {
			w.retires()
		}
		w.change(int(reader)).done = false
		w.take(step{begin, reader, 0})
		w.rest()
		if lag := w.time().Sub(w.layout().Decode(w.mark).Time); lag >= 2*tick*time.Duration(w.span()) {
			return fmt.Sprintf("it is %v behind", lag)
		}
		return ""
	}
}

// await lets time pass until nobody is late.
func (w *world) await(who string, begun int, late func() string) {
	for w.broken == "" {
		w.rest()
		why := late()
		if why == "" {
			return
		}
		if w.now-begun == w.patience() {
			w.breaks("%s is late by more than %d ticks: %s", who, w.patience(), why)
		}
		w.take(step{pass, 0, 1})
	}
}

// rest lets the store answer, and each process make what is due in this tick.
func (w *world) rest() {
	const most = 3 // times that a process wakes up in a tick
	woken := map[int]int{}
	for w.broken == "" {
		s, ok := w.due(func(i int) bool { return woken[i] < most })
		if !ok {
			return
		}
		if s.kind == wake {
			woken[int(s.p)]++
		}
		w.take(s)
	}
}

// due returns the next step that somebody waits for.
func (w *world) due(mayWake func(i int) bool) (s step, ok bool) {
	for i, p := range w.procs {
		for n := range p.tasks {
			if p.tasks[n].parked() {
				return step{answer, int8(i), int8(n)}, true
			}
			if p.tasks[n].heard != nil {
				return step{hear, int8(i), int8(n)}, true
			}
		}
	}
	for i, p := range w.procs {
		for n, k := range p.tasks {
			if k.rests() && k.due <= w.now && mayWake(i) {
				return step{wake, int8(i), int8(n)}, true
			}
		}
	}
	return step{}, false
}

// waiting lets each process issue an ID, and says who cannot.
func (w *world) waiting() string {
	up, why := 0, ""
	for i, p := range w.procs {
		switch {
		case p.begun && !p.dead && !p.done && p.err == nil && (p.views || p.ending):
			return p.name + " has not ended"
		case p.views || !p.up():
		case p.gen == nil:
			up++
		default:
			up++
			if late := w.tries(i); late != "" && !errors.Is(p.sees.loss, ErrLost) {
				why = late
			}
		}
	}
	if n := len(w.issuing()); why == "" && n < min(up, w.usable()) {
		why = fmt.Sprintf("%d of %d processes issue IDs", n, up)
	}
	return why
}

// tries lets process i issue an ID, and says why it does not.
func (w *world) tries(i int) string {
	if p := w.procs[i]; p.gen == nil {
		return p.name + " has no worker ID"
	}
	n := w.procs[i].issued
	w.take(step{issue, int8(i), 0})
	w.rest()
	p := w.change(i)
	if p.issued == n {
		return fmt.Sprintf("%s issues nothing: %v", p.name, p.refused)
	}
	p.issuedAt = w.now
	return ""
}

// issuing returns the processes that have issued an ID in this tick.
func (w *world) issuing() (all []int) {
	for i, p := range w.procs {
		if p.up() && !p.views && p.issued > 0 && p.issuedAt == w.now {
			all = append(all, i)
		}
	}
	return all
}

// usable is how many worker IDs can be used.
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

// joins adds a process.
func (w *world) joins(views bool) int8 {
	name := "newcomer"
	if w.copies {
		name = "A, the newcomer"
	}
	if views {
		name = "the last reader"
	}
	w.procs = append(w.procs, w.newProcess(name, views))
	return int8(len(w.procs) - 1)
}
