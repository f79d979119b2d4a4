//go:build go1.25

package lease

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// kind is a kind of steps.
type kind uint8

const (
	begin   kind = iota // a process asks for a worker ID, or reads the watermark
	answer              // the store makes a request, and the process gets the answer
	delay               // the store makes a request
	hear                // the process gets its answer
	fail                // the process gets an error
	arrive              // the store makes a request that failed, or whose process has crashed
	wake                // a rest ends
	issue               // a call of NextID begins
	release             // a call of Release begins
	crash               // a process is gone
	forward             // a clock is set
	backward
	pass   // time passes
	lose   // the store loses entries
	pause  // a process is stopped before it reads
	garble // a record cannot be read any more
	outage // the store goes away, or comes back
	remove // the local copy is removed, or the record in it
	older  // the local copy is put back as it was
	kinds
)

// step is one step of a story, of process p.
type step struct {
	kind kind
	p, n int8
}

// world is what a story is about. A step changes a copy of it, and of the process that makes it.
type world struct {
	*scope
	now      int
	began    time.Time
	entries  map[string]Entry
	versions map[string]int // how often each key was put
	procs    []*process
	late     []sent
	hot      int // the process that reads next, or none
	order    int // the processes from it on may make a step of their own now,
	mover    int // and the process that moved last
	spent    [kinds]int
	faulty   int
	ids      map[snowflake.ID]string // and who issued them
	mark     snowflake.ID            // the watermark
	gone     bool                    // the store is away
	backup   map[string]Entry        // of the local copy
	broken   string
	words    *[]string // the story, if it is told
}

// clone returns a copy of w.
func (w *world) clone() *world {
	c := *w
	c.procs = slices.Clone(w.procs)
	return &c
}

// change returns process i, to be changed.
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

// at returns a time as ticks since the story began.
func (w *world) at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprintf("%.1f", float64(t.Sub(w.began))/float64(tick))
}

// choices returns what may happen next.
func (w *world) choices() (all []step) {
	add := func(k kind, p, n int) { all = append(all, step{k, int8(p), int8(n)}) }
	mayFault := func(k kind, most int) bool { return w.faulty < w.faults && w.spent[k] < most }
	if i := w.hot; i != none {
		n := w.procs[i].reads()
		add(answer, i, n)
		if mayFault(pause, w.pauses) {
			add(pause, i, n)
		}
		if mayFault(delay, w.delays) {
			add(delay, i, n)
		}
		if mayFault(fail, w.fails) {
			add(fail, i, n)
		}
		return all
	}
	up, first := 0, map[bool]bool{}
	for _, p := range w.procs {
		if p.up() && !p.views {
			up++
		}
	}
	for i, p := range w.procs {
		if !p.begun && !first[p.views] {
			first[p.views] = true
			if up < 2 || p.views {
				for luck := range w.lucks(p) {
					add(begin, i, luck)
				}
			}
		}
	}
	for i, p := range w.procs {
		if !p.begun || p.dead {
			continue
		}
		own := w.mayMove(i)
		for n := range p.tasks {
			if !p.tasks[n].parked() {
				continue
			}
			add(answer, i, n)
			if mayFault(delay, w.delays) && !w.gone {
				add(delay, i, n)
			}
			if mayFault(fail, w.fails) && !w.gone {
				add(fail, i, n)
			}
		}
		for n, k := range p.tasks {
			if k.heard != nil && k.made < w.now {
				add(hear, i, n)
			}
			if k.rests() && k.due <= w.now && !(p.calling() && p.lease != nil) && (own || !p.atRest() || p.sees.doubt) {
				add(wake, i, n)
			}
		}
		if own && p.issued < w.scope.ids && p.gen != nil && !p.calling() && p.tried != p.sight(w) {
			add(issue, i, 0)
		}
		if p.done || p.err != nil || p.views {
			continue
		}
		if (own || p.sees.doubt) && p.gen != nil && !p.ending && w.spent[release] < w.releases {
			add(release, i, 0)
		}
		if own && mayFault(crash, w.crashes) {
			add(crash, i, 0)
		}
		if own && mayFault(forward, w.sets) && !w.back {
			add(forward, i, 0)
		}
		if own && mayFault(forward, w.sets) {
			add(backward, i, 0)
		}
	}
	if !w.gone {
		for n := range w.late {
			add(arrive, 0, n)
		}
	}
	all = append(all, w.copySteps(mayFault)...)
	if w.now < w.ticks {
		add(pass, 0, 1)
	} else if w.heals && w.spent[lose] > 0 && w.now < w.ticks+w.healed() {
		add(pass, 0, w.healed())
	}
	if mayFault(lose, w.losses) && len(w.entries) > 0 {
		for n := range 2 {
			add(lose, 0, n)
		}
	}
	if mayFault(garble, w.garbles) {
		for n, key := range w.garbled() {
			if w.entries[key].Version != "" {
				add(garble, 0, n)
			}
		}
	}
	return all
}

// garbled returns the keys of the entries that may become unreadable.
func (w *world) garbled() []string {
	keys := []string{book.DoorKey, book.WatermarkKey}
	for n := range w.workers {
		keys = append(keys, book.RecordKey(n))
	}
	return keys
}

// lucks is how many worker IDs p may look at first. If nobody has asked yet, all worker IDs are the
// same: then one is enough.
func (w *world) lucks(p *process) int {
	if p.views || !slices.ContainsFunc(w.procs, func(q *process) bool { return q.begun && !q.views }) {
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
	switch s.kind {
	case lose, pass, garble, arrive, outage, remove, older:
	default:
		p = w.change(i)
	}
	switch s.kind {
	case delay, fail, crash, forward, backward, lose, pause, garble, remove, older:
		w.faulty++
	case outage:
		w.faulty += 1 - n
	}
	rest := p.atRest() && !p.sees.doubt
	switch {
	case s.kind == pass || s.kind == begin || s.kind == lose || s.kind >= garble || s.kind == arrive:
		w.order, w.mover = 0, i
	case s.kind == issue || s.kind >= crash && s.kind <= backward || (s.kind == wake || s.kind == release) && rest:
		w.order, w.mover = i, i
	default:
		w.order, w.mover = len(w.procs), i
	}
	mark, spent := w.mark, s.kind
	if spent == backward {
		spent = forward
	}
	w.spent[spent]++
	switch s.kind {
	case begin:
		p.begun, p.since = true, w.now
		if p.views {
			w.tell("%s asks for the watermark", p.name)
		} else {
			w.tell("%s asks for a worker ID", p.name)
			p.draws, p.idle = n, true
		}
		w.begins(i, keeper)
	case answer, delay, fail:
		t := &p.tasks[n]
		q := *t.open
		var r reply
		if s.kind == fail {
			if q.writes() {
				w.sendsLate(i, q)
			}
			r.err = errDown
			w.tell("%s gets an error: %s", p.name, w.told(p, &q, nil))
		} else {
			r = w.make(p, q)
			w.tell("%s%s", w.told(p, &q, r.err), map[bool]string{true: "; the answer is on its way"}[s.kind == delay])
		}
		if s.kind == delay {
			t.heard, t.made = &r, w.now
		} else {
			w.hears(i, n, r)
		}
	case hear:
		w.tell("%s gets the answer: %s", p.name, p.tasks[n].open.do)
		w.hears(i, n, *p.tasks[n].heard)
	case arrive:
		a := w.late[n]
		w.late = slices.Delete(slices.Clone(w.late), n, n+1)
		p = w.change(a.by)
		r := w.make(p, a.query)
		w.tell("late: %s", w.told(p, &a.query, r.err))
	case wake:
		w.tell("%s wakes up", p.name)
		w.hears(i, n, reply{})
	case issue:
		p.tried = p.sight(w)
		w.begins(i, caller)
	case release:
		w.tell("%s releases", p.name)
		p.note(w, "release", 0)
		w.stops(i)
	case crash:
		w.tell("%s crashes", p.name)
		p.dead = true
		for n := range p.tasks {
			if t := &p.tasks[n]; t.parked() && t.open.writes() {
				w.sendsLate(i, *t.open)
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
	case pass:
		w.now += n
		w.givesUp()
		w.tell("it is %d", w.now)
	case pause:
		w.tell("%s is paused before it reads", p.name)
	case lose:
		if n == 0 {
			w.loses(func(string) bool { return true })
			w.tell("the store loses all entries")
		} else {
			w.loses(func(key string) bool { return strings.HasPrefix(key, book.RecordPrefix) })
			w.tell("the store loses the records")
		}
	case garble:
		key := w.garbled()[n]
		w.stores(&query{do: "put", key: key, value: []byte("?")})
		w.tell("%s cannot be read any more", key)
	case outage:
		w.gone = n == 0
		w.tell("the store %s", map[bool]string{true: "goes away", false: "is back"}[w.gone])
	case remove, older:
		w.changesCopy(s)
	}
	if len(w.late) > 0 {
		w.late = slices.DeleteFunc(slices.Clone(w.late), w.stale)
	}
	if w.mark != mark { // from now on it matters who issues what
		w.order = 0
	}
	w.check()
	w.hot = none
	if s.kind != pause && s.kind != pass && w.procs[i].reads() != none {
		w.hot = i
		if all := w.choices(); len(all) == 1 {
			w.take(all[0])
		}
	}
}

// stops lets process i release its lease. If it does something, it does that first. Rests end.
func (w *world) stops(i int) {
	p := w.procs[i]
	p.ending, p.endedAt = true, w.now
	rests := p.tasks[keeper].rests() && !p.keeps()
	for n := range p.tasks {
		if n != keeper && p.tasks[n].rests() || n == keeper && p.keeps() {
			p.tasks[n].open = nil
		}
	}
	if p.tasks[keeper].open == nil && p.tasks[caller].open == nil {
		p.releases = true
		w.begins(i, releaser)
		return
	}
	now = &replay{w: w, p: p, reading: w.reading(p)}
	_, d := now.generator(len(p.gen))
	d.event = event{what: stopped, grant: p.grant(), own: now.reading.Own}
	d.binding.Stop(ErrReleased)
	p.happens(d.event)
	now = nil
	if rests {
		w.hears(i, keeper, reply{})
	}
}

// givesUp lets those calls of Release return that wait for a renewal for too long.
func (w *world) givesUp() {
	for i, p := range w.procs {
		if p.ending && !p.dead && !p.done && !p.releases && w.now-p.endedAt >= w.span() {
			p = w.change(i)
			p.err, p.done = context.DeadlineExceeded, true
		}
	}
}

func newWorld(s *scope) *world {
	w := &world{scope: s, began: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), hot: none}
	w.entries = map[string]Entry{book.DoorKey: {Key: book.DoorKey, Version: "0", Value: protocol.Door{Name: "store", Layout: s.layout(), Open: true}.Encode(), Time: w.time()}}
	for i := range s.processes + s.readers {
		name := fmt.Sprint("reader ", i-s.processes+1)
		if i < s.processes {
			name = []string{"A", "B", "A'", "B'"}[i]
			if s.copies {
				name = "A" + strings.Repeat("'", i)
			}
		}
		w.procs = append(w.procs, w.newProcess(name, i >= s.processes))
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

func (w *world) newProcess(name string, views bool) *process {
	return &process{name: name, options: w.options(name), late: -w.span() - 1, views: views, tasks: make([]task, freer)}
}
