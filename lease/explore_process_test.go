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

// process is a process of the world. While it does something, it is what it was at its last rest,
// and the replies since then. So a copy of the struct is a copy of the process. What its fields
// point to never changes.
type process struct {
	name    string
	options Options
	reader  bool // whether it reads the watermark, and holds nothing
	begun   bool
	since   int // tick in which it began
	dead    bool
	offset  time.Duration // error of its clock
	tasks   []task

	// At the last rest:
	lease  *Lease // nil before the first rest
	watch  book.Watch
	draws  int // number of dice thrown
	tokens int // number of random texts made

	// Since then:
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
	gen      []event
	tried    input        // what the last call depended on
	refused  error        // why the last call issued nothing
	issued   int          // number of IDs
	issuedAt int          // tick of the last ID in a continuation
	last     snowflake.ID // the last ID

	// For others and the checks:
	seen    visible
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
	keeper   = iota // acquires a lease and keeps it, or reads the watermark
	caller          // issues an ID
	releaser        // releases the lease
	freer           // frees worker IDs in the background; so do the tasks after it
)

// task is something that a process does.
type task struct {
	begun    book.Reading // clocks when it began
	events   int          // number of the generator's events when it began
	log      []reply      // replies since then
	open     *query       // request without a reply, or a rest; nil if the task does nothing
	heard    *reply       // reply that is on its way
	made     int          // tick in which the store sent it
	due      int          // tick in which the rest ends
	forFreed bool         // whether the rest also ends when worker IDs were freed
	tried    []attempt    // what the task frees
}

// What a task may wait for besides requests.
const (
	rest = "rest" // the end of a rest
	keep = "keep" // the end of a rest of the lease
	slot = "slot" // a tenure in the slot
)

// reply is an answer of the store.
type reply struct {
	entries []Entry
	err     error
	reading book.Reading // clocks when it came
	floor   time.Time    // answer of the generator, if that was asked
}

// waitsFor returns the step that the task waits for; pass if it waits for another task, or for
// nothing.
func (t *task) waitsFor() kind {
	switch {
	case t.heard != nil:
		return hear
	case t.open == nil || t.open.do == slot:
		return pass
	case t.open.do == rest || t.open.do == keep:
		return wake
	}
	return answer
}

// visible is what calls and other processes see of a process.
type visible struct {
	grant *granted
	shown *shown
	loss  error
	doubt bool // whether it reads its record before it saves
	watch book.Watch
	drawn int // number of dice thrown
}

// input is what a call of NextID depends on.
type input struct {
	own   int64 // clock in seconds
	grant snowflake.Grant
	mark  snowflake.ID // the watermark
	ended bool
}

// input returns what a call would depend on now.
func (p *process) input(w *world) input {
	if p.ending {
		return input{ended: true}
	}
	return input{w.reading(p).Own.Unix(), p.grant(), w.mark, false}
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
	if p.seen.grant == nil {
		return snowflake.Grant{}
	}
	return p.seen.grant.Grant
}

// reading returns what the clocks of p read.
func (w *world) reading(p *process) book.Reading {
	return book.Reading{Own: w.time().Add(p.offset), Moment: protocol.Moment{At: w.time()}}
}

// start starts a task of process i.
func (w *world) start(i, n int) {
	p := w.procs[i]
	p.releases = p.releases || n == releaser
	p.tasks[n] = task{begun: w.reading(p), events: len(p.gen)}
	w.resume(i, n)
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
	t.log = append(slices.Clip(t.log), r)
	w.resume(i, n)
}

// resume lets a task of process i continue with the replies that it has.
func (w *world) resume(i, n int) {
	p := w.procs[i]
	p.tasks[n].open, p.tasks[n].heard = nil, nil
	r := &replay{w: w, p: p, task: n, reading: p.tasks[n].begun, draws: p.draws, tokens: p.tokens}
	r.run()
	if t := &p.tasks[n]; !r.over || r.rested {
		t.log, t.begun = nil, r.reading
		if n < freer {
			p.draws, p.tokens = r.draws, r.tokens
		}
	}
	p.settle()
	keeps, calls := &p.tasks[keeper], &p.tasks[caller]
	switch {
	case n >= freer && !p.frees && keeps.forFreed && keeps.open != nil:
		w.deliver(i, keeper, reply{})
	case r.over && !r.rested:
	case n == keeper && calls.open != nil && calls.open.do == slot:
		calls.events = len(p.gen)
		w.deliver(i, caller, reply{})
	case n < releaser && p.mayRelease():
		w.start(i, releaser)
	}
}

// with returns a copy of m with another value.
func with[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	c := make(map[K]V, len(m)+1)
	maps.Copy(c, m)
	c[key] = value
	return c
}
