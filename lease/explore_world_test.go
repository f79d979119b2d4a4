//go:build go1.25

package lease

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// kind is a kind of step.
type kind uint8

const (
	begin   kind = iota // a process asks for a worker ID, or for the watermark
	answer              // the store serves a request, and the process gets the answer
	hear                // a process gets the answer to a request that was served in an earlier tick
	wake                // a rest ends
	issue               // a call of NextID begins
	release             // a call of Release begins

	// The faults of a process.
	crash
	forward // its clock is set
	backward
	pause // it is stopped before it reads
	delay // the store serves a request, and the answer is on its way
	fail  // a request gets an error

	// The other faults.
	lose   // the store loses entries
	garble // an entry becomes unreadable
	outage // the store goes away, or comes back
	remove // the local copy is removed, or the records in it
	older  // the local copy is restored as it was at the beginning

	arrive // the store serves a request that failed, or whose process has crashed
	pass   // time passes
	kinds
)

// step is one step of a story, of process p. n is a task, a number of ticks, or a choice among
// several steps of one kind.
type step struct {
	kind kind
	p, n int8
}

// world is what a story is about. A step changes a copy of it, and of the process that moves.
type world struct {
	*scope
	*pasts
	now      int // in ticks
	began    time.Time
	entries  map[string]Entry
	versions map[string]int // number of times that each key was put
	procs    []*process
	late     []sent                  // requests that the store may yet serve
	hot      int                     // the process that reads next, or none
	order    int                     // the first process that may make a step that no other notices
	mover    int                     // the process that moved last; it may make such a step, too
	spent    perKind                 // number of steps of each kind
	faulty   int                     // number of faults
	ids      map[snowflake.ID]string // and who issued them
	mark     snowflake.ID            // the watermark
	away     bool                    // whether the store does not answer
	backup   map[string]Entry        // of the local copy
	broken   string                  // how an invariant is broken
	words    *[]string               // the story in words; nil if nobody reads it
}

// clone returns a copy of w.
func (w *world) clone() *world {
	c := *w
	c.procs = slices.Clone(w.procs)
	return &c
}

// change replaces process i by a copy, and returns it.
func (w *world) change(i int) *process {
	p := *w.procs[i]
	p.tasks, p.text = slices.Clone(p.tasks), nil
	w.procs[i] = &p
	return &p
}

func (w *world) tell(format string, args ...any) {
	if w.words != nil {
		*w.words = append(*w.words, fmt.Sprintf(format, args...))
	}
}

// at returns a time as ticks since the beginning.
func (w *world) at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%.1f", float64(t.Sub(w.began))/float64(tick))
}

// mayFault reports whether a fault of kind k may happen.
func (w *world) mayFault(k kind) bool {
	if k == backward {
		k = forward
	}
	return w.left(k) > 0
}

// left returns the number of faults of kind k that may still happen.
func (w *world) left(k kind) int { return min(w.most[k]-w.spent[k], w.faults-w.faulty) }

// choices returns the steps that may come next.
func (w *world) choices() (all []step) {
	add := func(may bool, k kind, p, n int) {
		if may {
			all = append(all, step{k, int8(p), int8(n)})
		}
	}
	fault := func(may bool, k kind, p, n int) { add(may && w.mayFault(k), k, p, n) }
	if i := w.hot; i != none {
		n := w.procs[i].reads()
		add(true, answer, i, n)
		for _, k := range []kind{pause, delay, fail} {
			fault(true, k, i, n)
		}
		return all
	}
	if i := w.next(false); i != none && len(w.up()) < 2 {
		for luck := range w.lucks() {
			add(true, begin, i, luck)
		}
	}
	i := w.next(true)
	add(i != none, begin, i, 0)
	for i, p := range w.procs {
		if !p.begun || p.dead {
			continue
		}
		alone := w.mayMove(i)
		for n := range p.tasks {
			switch t := &p.tasks[n]; t.waitsFor() {
			case answer:
				add(true, answer, i, n)
				fault(!w.away, delay, i, n)
				fault(!w.away, fail, i, n)
			case hear:
				add(t.made < w.now, hear, i, n)
			case wake:
				add(t.due <= w.now && !(p.calling() && p.rested != nil) && (alone || !p.atRest() || p.doubt), wake, i, n)
			}
		}
		add(alone && p.issued < w.scope.ids && p.gen != nil && !p.calling() && p.tried != p.trial(w), issue, i, 0)
		if p.up() && !p.reader {
			add((alone || p.doubt) && p.gen != nil && !p.ending && w.spent[release] < w.releases, release, i, 0)
			fault(alone, crash, i, 0)
			fault(alone && !w.back, forward, i, 0)
			fault(alone, backward, i, 0)
		}
	}
	for n := range w.late {
		add(!w.away, arrive, 0, n)
	}
	if w.away {
		add(true, outage, 0, 1)
	} else {
		fault(w.spent[older] == 0, outage, 0, 0)
	}
	for n := range 2 {
		fault(true, remove, 0, n)
		fault(len(w.entries) > 0, lose, 0, n)
	}
	fault(w.mayFault(older) && w.mayRestore(), older, 0, 0)
	add(w.now < w.ticks, pass, 0, 1)
	add(w.heals && w.spent[lose] > 0 && w.ticks <= w.now && w.now < w.ticks+w.healed(), pass, 0, w.healed())
	for n, key := range w.garbled() {
		fault(w.entries[key].Version != "", garble, 0, n)
	}
	return all
}

// next returns the next process that begins, or none.
func (w *world) next(reader bool) int {
	return slices.IndexFunc(w.procs, func(p *process) bool { return !p.begun && p.reader == reader })
}

// up returns the processes that are up, without the readers.
func (w *world) up() []*process {
	return slices.DeleteFunc(slices.Clone(w.procs), func(p *process) bool { return p.reader || !p.up() })
}

// garbled returns the keys of the entries that may become unreadable.
func (w *world) garbled() []string {
	keys := []string{book.DoorKey, book.WatermarkKey}
	for n := range w.workers {
		keys = append(keys, book.RecordKey(n))
	}
	return keys
}

// lucks returns the number of worker IDs that the next process may look at first. Before any has
// begun, all worker IDs are alike: then one is enough.
func (w *world) lucks() int {
	if !w.procs[0].begun {
		return 1
	}
	return w.workers
}

// mayMove reports whether process i may make a step that no other process notices. Such a step
// could as well have come earlier: directly after the process moved last, or after time passed. If
// there is a local copy, others may notice it.
func (w *world) mayMove(i int) bool { return i == w.mover || i >= w.order || w.unordered || w.copies }

// take makes one step.
func (w *world) take(s step) {
	i, n := int(s.p), int(s.n)
	p := w.procs[i]
	if s.kind < lose {
		p = w.change(i)
	}
	w.count(s)
	rested := p.atRest() && !p.doubt
	switch {
	case s.kind == begin || s.kind >= lose:
		w.order, w.mover = 0, i
	case s.kind == issue || s.kind >= crash && s.kind <= backward || (s.kind == wake || s.kind == release) && rested:
		w.order, w.mover = i, i
	default:
		w.order, w.mover = len(w.procs), i
	}
	mark := w.mark
	switch s.kind {
	case begin:
		w.tell("%s asks for %s", p.name, map[bool]string{true: "the watermark", false: "a worker ID"}[p.reader])
		p.begun, p.since, p.idle = true, w.now, !p.reader
		p.note(p.since)
		w.start(i, keeper, n)
	case answer, delay, fail:
		w.request(i, n, s.kind)
	case hear:
		w.tell("%s gets the answer: %s", p.name, p.tasks[n].open.do)
		w.deliver(i, n, *p.tasks[n].heard)
	case wake:
		w.tell("%s wakes up", p.name)
		w.deliver(i, n, reply{})
	case issue:
		p.tried = p.trial(w)
		w.start(i, caller, 0)
	case release:
		w.tell("%s releases", p.name)
		p.note(w.now, p.offset, "release")
		w.stop(i)
	case crash:
		w.tell("%s crashes", p.name)
		p.dead = true
		for n := range p.tasks {
			if t := &p.tasks[n]; t.waitsFor() == answer && t.open.writes() {
				w.sendLate(i, t.open.query)
			}
			p.tasks[n] = task{}
		}
	case forward, backward:
		by := tick * time.Duration(w.by)
		if s.kind == backward {
			by = -by
		}
		p.offset += by
		w.tell("the clock of %s is set by %v", p.name, by)
	case pause:
		w.tell("%s is paused before it reads", p.name)
	case lose:
		w.lose([]string{"", book.RecordPrefix}[n])
	case garble:
		key := w.garbled()[n]
		w.store(&query{do: "put", key: key, value: []byte("?")})
		w.tell("%s becomes unreadable", key)
	case outage:
		w.away = n == 0
		w.tell("the store %s", map[bool]string{true: "goes away", false: "is back"}[w.away])
	case remove:
		w.lose(copyPrefix + []string{"", book.RecordPrefix}[n])
	case older:
		w.lose(copyPrefix)
		maps.Copy(w.entries, w.backup)
		w.tell("the local copy is restored as it was at the beginning")
	case arrive:
		a := w.late[n]
		w.late = slices.Delete(slices.Clone(w.late), n, n+1)
		p = w.change(a.by)
		r := w.serveFor(p, a.query)
		w.tell("late: %s", w.told(p, &a.query, r.err))
	case pass:
		w.now += n
		w.giveUp()
		w.tell("it is %d", w.now)
	}
	if len(w.late) > 0 {
		w.late = slices.DeleteFunc(slices.Clone(w.late), w.stale)
	}
	if w.mark != mark { // from now on it matters who issues what
		w.order = 0
	}
	w.checkWindows()
	w.hot = none
	if s.kind != pause && s.kind != pass && w.procs[i].reads() != none {
		w.hot = i
		if all := w.choices(); len(all) == 1 {
			w.take(all[0])
		}
	}
}

// count counts the step, and the fault that it may be.
func (w *world) count(s step) {
	if s.kind >= crash && s.kind <= older && !(s.kind == outage && s.n == 1) {
		w.faulty++
	}
	if s.kind == backward {
		s.kind = forward
	}
	w.spent[s.kind]++
}

// request lets the store serve the request of task n of process i, or lets the request fail.
func (w *world) request(i, n int, how kind) {
	p := w.procs[i]
	t := &p.tasks[n]
	q, r := t.open.query, reply{err: errDown}
	if how != fail {
		r = w.serveFor(p, q)
	} else if q.writes() {
		w.sendLate(i, q)
	}
	w.tell("%s%s", w.told(p, &q, r.err), map[bool]string{true: "; the answer is on its way"}[how == delay])
	if how == delay {
		t.heard, t.made = &r, w.now
	} else {
		w.deliver(i, n, r)
	}
}

// stop lets process i release its lease. What it does is finished first, but its rests end.
func (w *world) stop(i int) {
	p := w.procs[i]
	p.ending, p.endedAt = true, w.now
	rests := p.tasks[keeper].waitsFor() == wake && !p.slotIsFull()
	for n := range p.tasks {
		if n != keeper && p.tasks[n].waitsFor() == wake || n == keeper && p.slotIsFull() {
			p.tasks[n].open = nil
		}
	}
	if p.mayRelease() {
		w.start(i, releaser, 0)
		return
	}
	p.past = w.then(p.past, input{task: stopper, reply: reply{reading: w.reading(p)}})
	if rests {
		w.deliver(i, keeper, reply{})
	}
}

// giveUp ends the calls of Release that have waited for a renewal for too long.
func (w *world) giveUp() {
	for i, p := range w.procs {
		if p.ending && !p.dead && !p.done && !p.releases && w.now-p.endedAt >= w.span() {
			p = w.change(i)
			p.err, p.done = context.DeadlineExceeded, true
		}
	}
}

func newWorld(s *scope) *world {
	w := &world{scope: s, pasts: &pasts{scope: s, of: map[[16]byte]*past{}}, began: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), hot: none}
	w.entries = map[string]Entry{book.DoorKey: {Key: book.DoorKey, Version: "0", Value: protocol.Door{Name: "store", Layout: s.layout(), Open: true}.Encode(), Time: w.time()}}
	for i := range s.processes {
		name := []string{"A", "B", "A'", "B'"}[i]
		if s.copies {
			name = "A" + strings.Repeat("'", i)
		}
		w.join(name, false)
	}
	for i := range s.readers {
		w.join(fmt.Sprint("reader ", i+1), true)
	}
	w.procs[0].offset = time.Duration(s.ahead) * tick
	if s.held {
		w.take(step{begin, 0, 0})
		for w.procs[0].gen == nil {
			w.take(step{answer, 0, 0})
		}
		w.order, w.backup = 0, w.copied()
	}
	return w
}

// join adds a process, and returns its number.
func (w *world) join(name string, reader bool) int8 {
	p := &process{name: name, options: w.options(name), late: -w.span() - 1, reader: reader, tasks: make([]task, freer)}
	p.past = &past{id: hash([]byte(name)), of: p}
	w.procs = append(w.procs, p)
	return int8(len(w.procs) - 1)
}
