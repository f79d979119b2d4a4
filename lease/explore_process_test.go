//go:build go1.25

package lease

import (
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// process is a process of a world. What its fields point to never changes.
type process struct {
	*past
	name    string
	options Options
	reader  bool // whether it reads the watermark, and holds nothing
	begun   bool
	since   int // tick in which it began
	dead    bool
	offset  time.Duration // error of its clock
	tasks   []task

	// Since the last rest of the lease:
	idle   bool // whether it has no worker ID, and has sent no save
	listed bool // whether it has read all records
	frees  bool // whether a task of its frees worker IDs, and has not looked at all of them yet
	shared int  // tick in which it used the entry "silence" last
	events text // what happened, and the replies

	// Release:
	ending   bool // whether it was called
	endedAt  int  // tick of the call
	releases bool // whether the renewing has ended
	done     bool // whether the call has returned, or that of a reader
	err      error

	// The generator:
	tried    tried        // what the last call depended on
	refused  error        // why the last call issued nothing
	issued   int          // number of IDs
	issuedAt int          // tick of the last ID in a continuation
	last     snowflake.ID // the last ID

	// For others and the checks:
	heardOf int                        // tick of the last save
	late    int                        // tick of the last save that came late
	windows map[[2]int]snowflake.Grant // last grants, by worker ID and clock sequence
	low     map[[2]int]time.Time       // bounds found
	saved   map[[2]int]time.Time       // latest bounds saved
	signed  map[string]bool            // tokens of its saves

	text *text // all this as a text; nil if it has to be written
}

// The tasks of a process.
const (
	stopper  = iota - 1 // stops the generator, at once
	keeper              // acquires a lease and keeps it, or reads the watermark
	caller              // issues an ID
	releaser            // releases the lease
	freer               // frees worker IDs in the background; so do the tasks after it
)

// task is something that a process does.
type task struct {
	open  *request // what it waits for; nil if it does nothing
	heard *reply   // reply that is on its way
	made  int      // tick in which the store sent it
	due   int      // tick in which the rest ends
}

// waitsFor returns the step that the task waits for; pass if it waits for another task, or for
// nothing.
func (t *task) waitsFor() kind {
	switch {
	case t.heard != nil:
		return hear
	case t.open == nil || t.open.do == slot:
		return pass
	case t.open.do == rest || t.open.do == freed || t.open.do == keep:
		return wake
	}
	return answer
}

// tried is what a call of NextID depends on.
type tried struct {
	own   int64 // clock in seconds
	grant snowflake.Grant
	mark  snowflake.ID // the watermark
	ended bool
}

// trial returns what a call would depend on now.
func (p *process) trial(w *world) tried {
	if p.ending {
		return tried{ended: true}
	}
	return tried{w.reading(p).Own.Unix(), p.grant(), w.mark, false}
}

// atRest reports whether the process only waits for its next renewal.
func (p *process) atRest() bool {
	return !p.ending && p.tasks[keeper].open != nil && p.tasks[keeper].open.do == keep && !p.busy(caller)
}

// busy reports whether one of the tasks from number n on does something.
func (p *process) busy(n int) bool {
	return slices.ContainsFunc(p.tasks[n:], func(t task) bool { return t.open != nil })
}

func (p *process) up() bool { return p.begun && !p.dead && !p.done && p.err == nil }

// calling reports whether a call of NextID is under way.
func (p *process) calling() bool { return p.tasks[caller].open != nil }

// slotIsFull reports whether the keeper has not taken the tenure out of its slot.
func (p *process) slotIsFull() bool {
	return p.tasks[keeper].open == nil || p.tasks[keeper].open.do == keep
}

// mayRelease reports whether the task of Release may begin.
func (p *process) mayRelease() bool {
	return p.ending && !p.done && !p.releases && p.tasks[keeper].open == nil && !p.calling()
}

// reads returns the first task that waits for a read, or none.
func (p *process) reads() int {
	return slices.IndexFunc(p.tasks, func(t task) bool { return t.waitsFor() == answer && t.open.reads() })
}

// grant returns what the process may issue.
func (p *process) grant() snowflake.Grant {
	if p.granted == nil {
		return snowflake.Grant{}
	}
	return p.granted.Grant
}

// reading returns what the clocks of p read.
func (w *world) reading(p *process) book.Reading {
	return book.Reading{Own: w.time().Add(p.offset), Moment: protocol.Moment{At: w.time()}}
}

// start starts a task of process i.
func (w *world) start(i, n, luck int) {
	p := w.procs[i]
	p.releases = p.releases || n == releaser
	p.tasks[n] = task{}
	w.resume(i, input{n, luck, reply{reading: w.reading(p)}})
}

// deliver gives a reply to process i, or ends its rest.
func (w *world) deliver(i, n int, r reply) {
	p := w.procs[i]
	t := &p.tasks[n]
	r.reading = w.reading(p)
	r.reading.Over = p.ending && n != releaser
	wakes := t.waitsFor() == wake
	if p.note(w.now, p.offset, wakes, n); !wakes {
		p.note(t.open.key, r)
	}
	w.resume(i, input{n, 0, r})
}

// resume gives an input to a task of process i, which continues until it has to wait.
func (w *world) resume(i int, in input) {
	p, n := w.procs[i], in.task
	p.tasks[n].open, p.tasks[n].heard = nil, nil
	for {
		was := p.grant()
		p.past = w.then(p.past, in)
		p.idle, p.frees = p.idle && !p.rests, p.frees && !p.looked
		if p.open == nil {
			w.finish(p, n, was)
			break
		}
		a, ok := w.atOnce(i, n)
		if !ok {
			p.tasks[n].open = p.open
			break
		}
		a.reading = in.reading
		in = input{task: n, reply: a}
	}
	p.settle()
	keeps, calls := p.tasks[keeper].open, p.tasks[caller].open
	switch waits := p.tasks[n].open; {
	case n >= freer && !p.frees && keeps != nil && keeps.do == freed:
		w.deliver(i, keeper, reply{})
	case waits != nil && waits.do != keep:
	case n == keeper && calls != nil && calls.do == slot:
		w.deliver(i, caller, reply{})
	case n < releaser && p.mayRelease():
		w.start(i, releaser, 0)
	}
}

// atOnce returns the reply to the request of a task of process i. ok is false if it comes later.
func (w *world) atOnce(i, n int) (a reply, ok bool) {
	p := w.procs[i]
	switch q := p.open; {
	case q.do == slot:
		return a, p.slotIsFull()
	case q.do == freed && !p.frees:
	case q.do == rest || q.do == freed || q.do == keep:
		if p.idle {
			p.forget()
		}
		t := &p.tasks[n]
		if t.due = w.now; q.do != keep || q.d > tick*time.Duration(w.span())/6 {
			t.due += max(1, int((q.d+tick-1)/tick))
		}
		return a, false
	case q.do == frees:
		p.frees, p.tasks = true, append(p.tasks, task{})
		w.start(i, len(p.tasks)-1, 0)
	case q.copy:
		a = w.serveCopy(p, q.query)
		p.note(&q.query, q.key, a)
	case w.calm(q.key):
		a = w.serveFor(p, q.query)
		if q.key == book.SilenceKey {
			p.shared = w.now
		}
		if w.copies {
			p.note(&q.query, q.key, a)
		}
	default:
		p.idle, p.listed = p.idle && !q.writes(), p.listed || q.do == "list"
		return a, false
	}
	return a, true
}

// finish notes what has come of a task of p. was is what p was granted when the task continued.
func (w *world) finish(p *process, n int, was snowflake.Grant) {
	switch is := p.outcome; {
	case n == caller:
		if p.refused = is.err; is.err == nil {
			p.issued++
			w.checkID(p, is.id, was)
		}
		if is.hurry {
			p.tasks[keeper].due = w.now
		}
	case p.reader:
		if p.done = true; is.err == nil {
			w.checkMark(p, is.id)
		}
	case n == releaser:
		p.err, p.done = is.err, true
	case n == keeper && is.err != nil:
		p.err = is.err
	}
}

// with returns a copy of m with another value.
func with[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	c := make(map[K]V, len(m)+1)
	maps.Copy(c, m)
	c[key] = value
	return c
}
