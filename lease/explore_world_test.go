//go:build go1.25

package lease

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/seed-5394e6b1/snowflake"
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
	dies                // a process is gone
	forward             // a clock is set
	backward
	pass   // time passes
	lose   // the store loses entries
	pause  // a process is stopped before it reads
	garble // a record cannot be read any more
	kinds
)

// step is one step of a story, of process p.
type step struct {
	kind kind
	p, n int8
}

// world is what a story is about.
type world struct {
	scope
	mu      sync.Mutex
	now     int
	began   time.Time
	store   *memory
	procs   []*process
	late    []*asked
	running *process
	hot     *process // it reads next
	order   int      // the processes from it on may make a step of their own now, and the process that moved last:
	mover   int
	over    bool
	spent   [kinds]int
	faulty  int
	ids     map[snowflake.ID]*process
	mark    snowflake.ID // the watermark
	broken  string
	words   []string
	telling bool
}

func (w *world) tell(format string, args ...any) {
	if w.telling {
		w.words = append(w.words, fmt.Sprintf(format, args...))
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
	if w.hot != nil {
		i := slices.Index(w.procs, w.hot)
		n := slices.IndexFunc(w.hot.parked, func(r *asked) bool { return !r.writes() })
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
		for n := range p.parked {
			add(answer, i, n)
			if mayFault(delay, w.delays) {
				add(delay, i, n)
			}
			if mayFault(fail, w.fails) {
				add(fail, i, n)
			}
		}
		for n, r := range p.heard {
			if r.made < w.now+1 {
				add(hear, i, n)
			}
		}
		for n, nap := range p.naps {
			if nap.due <= w.now && !(p.calling && p.lease != nil) && (own || !p.atRest() || p.doubts()) {
				add(wake, i, n)
			}
		}
		if own && p.issued < w.scope.ids && p.gen != nil && !p.calling && p.tried != p.sight() {
			add(issue, i, 0)
		}
		if p.done || p.err != nil || p.views {
			continue
		}
		if (own || p.doubts()) && p.gen != nil && !p.ending && w.spent[release] < w.releases {
			add(release, i, 0)
		}
		if own && mayFault(dies, w.crashes) {
			add(dies, i, 0)
		}
		if own && mayFault(forward, w.sets) && !w.back {
			add(forward, i, 0)
		}
		if own && mayFault(forward, w.sets) {
			add(backward, i, 0)
		}
	}
	for n := range w.late {
		add(arrive, 0, n)
	}
	if w.now < w.ticks {
		add(pass, 0, 1)
	} else if w.heals && w.spent[lose] > 0 && w.now < w.ticks+w.healed() {
		add(pass, 0, w.healed())
	}
	if mayFault(lose, w.losses) && len(w.store.entries) > 0 {
		for n := range 2 {
			add(lose, 0, n)
		}
	}
	if mayFault(garble, w.garbles) {
		for n, key := range w.garbled() {
			if w.store.entries[key].Version != "" {
				add(garble, 0, n)
			}
		}
	}
	return all
}

// garbled returns the keys of the entries that may become unreadable.
func (w *world) garbled() []string {
	keys := []string{doorKey, watermarkKey}
	for n := range w.workers {
		keys = append(keys, recordKey(n))
	}
	return keys
}

// lucks is how many worker IDs p may look at first. If nobody has asked yet, all worker IDs are the same: then one is enough.
func (w *world) lucks(p *process) int {
	if p.views || !slices.ContainsFunc(w.procs, func(q *process) bool { return q.begun && !q.views }) {
		return 1
	}
	return w.workers
}

// mayMove reports whether process i may make a step that no other process notices. Such a step could as well
// have come earlier: directly after the process moved last, or after time passed.
func (w *world) mayMove(i int) bool { return i == w.mover || i >= w.order || w.unordered }

// take makes one step.
func (w *world) take(s step) {
	p := w.procs[s.p]
	w.running = p
	p.settle()
	switch s.kind {
	case delay, fail, dies, forward, backward, lose, pause, garble:
		w.faulty++
	}
	rest := p.atRest() && !p.doubts()
	switch {
	case s.kind == pass || s.kind == begin || s.kind == lose || s.kind == garble || s.kind == arrive:
		w.order, w.mover = 0, int(s.p)
	case s.kind == issue || s.kind >= dies && s.kind <= backward || (s.kind == wake || s.kind == release) && rest:
		w.order, w.mover = int(s.p), int(s.p)
	default:
		w.order, w.mover = len(w.procs), int(s.p)
	}
	mark, spent := w.mark, s.kind
	if spent == backward {
		spent = forward
	}
	w.spent[spent]++
	switch s.kind {
	case begin:
		if p.views {
			w.tell("%s asks for the watermark", p.name)
			p.view()
		} else {
			w.tell("%s asks for a worker ID", p.name)
			p.draws = int(s.n)
			p.acquire()
		}
	case answer, delay, fail:
		r := p.parked[s.n]
		p.parked = slices.Delete(p.parked, int(s.n), int(s.n)+1)
		switch s.kind {
		case answer:
			w.make(r)
			w.tell("%s", w.told(r))
			close(r.answered)
		case delay:
			w.make(r)
			w.tell("%s; the answer is on its way", w.told(r))
			p.heard = append(p.heard, r)
		case fail:
			if r.writes() {
				late := *r
				w.late = append(w.late, &late)
				inOrder(w.late)
			}
			r.err = errDown
			w.tell("%s gets an error: %s", p.name, w.told(r))
			close(r.answered)
		}
	case hear:
		r := p.heard[s.n]
		p.heard = slices.Delete(p.heard, int(s.n), int(s.n)+1)
		w.tell("%s gets the answer: %s", p.name, r.do)
		close(r.answered)
	case arrive:
		r := w.late[s.n]
		w.late = slices.Delete(w.late, int(s.n), int(s.n)+1)
		w.make(r)
		w.tell("late: %s", w.told(r))
	case wake:
		n := p.naps[s.n]
		p.naps = slices.Delete(p.naps, int(s.n), int(s.n)+1)
		w.tell("%s wakes up", p.name)
		p.note("wake")
		n.over <- time.Time{}
	case issue:
		p.issue()
	case release:
		w.tell("%s releases", p.name)
		p.note("release")
		p.release()
	case dies:
		w.tell("%s crashes", p.name)
		p.kill()
	case forward, backward:
		by := tick * time.Duration(w.by)
		if s.kind == backward {
			by = -by
		}
		p.offset += by
		w.tell("the clock of %s is set by %v", p.name, by)
	case pass:
		w.running = nil
		w.now += int(s.n)
		w.tell("it is %d", w.now)
		time.Sleep(tick * time.Duration(s.n))
	case pause:
		w.tell("%s is paused before it reads", p.name)
	case lose:
		if s.n == 0 {
			clear(w.store.entries)
			w.tell("the store loses all entries")
		} else {
			maps.DeleteFunc(w.store.entries, func(key string, _ Entry) bool { return strings.HasPrefix(key, recordPrefix) })
			w.tell("the store loses the records")
		}
	}
	if s.kind == garble {
		key := w.garbled()[s.n]
		w.store.set(func() { w.store.store(&query{do: "put", key: key, value: []byte("?")}) })
		w.tell("%s cannot be read any more", key)
	}
	synctest.Wait()
	w.late = slices.DeleteFunc(w.late, w.stale)
	if w.mark != mark { // from now on it matters who issues what
		w.order = 0
	}
	if p.ending { // its naps end with the lease
		p.naps = nil
	}
	w.check()
	w.hot = nil
	if s.kind != pause && s.kind != pass && slices.ContainsFunc(p.parked, func(r *asked) bool { return !r.writes() }) {
		w.hot = p
		if all := w.choices(); len(all) == 1 {
			w.take(all[0])
		}
	}
}

func newWorld(s scope) *world {
	w := &world{scope: s, began: time.Now().Add(-tick / 2), store: newMemory(), ids: map[snowflake.ID]*process{}}
	w.store.ownClock = !s.clockless
	w.store.entries[doorKey] = Entry{Key: doorKey, Version: "0", Value: door{Name: "store", Layout: s.layout(), Open: true}.encode(), Time: w.began}
	for i := range s.processes + s.readers {
		name := fmt.Sprint("reader ", i-s.processes+1)
		if i < s.processes {
			name = []string{"A", "B", "A'", "B'"}[i]
		}
		w.procs = append(w.procs, w.newProcess(name, i >= s.processes))
	}
	w.procs[0].offset = time.Duration(s.ahead) * tick
	return w
}

func (w *world) newProcess(name string, views bool) *process {
	return &process{w: w, name: name, late: -w.span() - 1, views: views, windows: map[[2]int]snowflake.Grant{}, sights: map[string]sight{},
		signed: map[string]bool{}, low: map[[2]int]time.Time{}, saved: map[[2]int]time.Time{}}
}

// end ends all goroutines.
func (w *world) end() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	for _, p := range w.procs {
		p.end()
		w.mu.Lock()
		l := p.lease
		w.mu.Unlock()
		if l != nil {
			l.cancel()
		}
	}
}
