//go:build go1.25

package snowflake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

// An explorer visits every state that a generator with a few bits can get into, breadth first, and
// takes every step of every call in each of them: advanceLocked, with what it decides (decide.go)
// and takes (sequence.go, past.go). Nothing in a step is left to chance: the explorer chooses what
// the clock reads, what the policy and the lease answer, which call is next, and when a call gives
// up.
//
// A state does not say which IDs were returned on the way to it. When all states are known, settle
// finds this for all ways at once. TestModel checks how long calls wait, and which of several
// correct IDs they get.

// scope is what an explorer covers.
type scope struct {
	name    string
	opts    Options
	builtin bool // the clock is a built-in one
	lease   leaseKind
	calls   int      // how many calls may have begun and not returned
	counts  []int64  // how many IDs a call wants
	actions []Action // of the policy
	expect  string   // what has to happen
	full    bool     // only the full run explores it
}

// leaseKind is what lease the generator has.
type leaseKind int

const (
	noLease   leaseKind = iota
	granting            // it grants, and nothing more
	changing            // it extends its grant when it is asked, and changes its clock sequence
	cloneable           // changing, and the machine may be cloned
)

// deal is what a lease grants now, in ticks.
type deal struct {
	worker, seq int
	from, to    int64
	bound       int64  // the latest to of this clock sequence
	other       int64  // and of the other clock sequence
	spare       int    // how many workers it can still change to
	generation  uint64 // the machine's generation
	of          uint64 // the generation when the lease asked for the worker
}

func (d deal) cloned() bool { return d.generation != d.of }

// world is a state.
type world struct {
	g     *Generator
	calls []flight
	deal  deal
}

// flight is a call that has begun, and has not returned.
type flight struct {
	call
	open bool
	unlocked
}

// unlocked is how far a call has come that takes IDs of the open tick without the lock. Between two
// stages it may stop for any time.
type unlocked struct {
	stage stage
	sight sight
	read  uint64 // the ticks that the clock has read since the call began, as bits, if there is no order
}

type stage uint8

const (
	locks  stage = iota // it goes, or will go, the way of obtain
	sees                // it has seen the word
	reads               // it has read the clock, which was in time
	claims              // it has claimed IDs
)

// eventKind is what happens in a state.
type eventKind uint8

const (
	begins eventKind = iota
	wakes
	givesUp
	looks
	goesOn
	timePasses
	leaseChanges
	clone
	leaseStops
	leaseLooks
	leaseTakes
	leaseAsks
)

var eventTexts = [...]string{
	"call %d begins", "call %d wakes", "call %d gives up", "call %d begins, and sees the word", "call %d takes its next step without the lock", "half a tick passes",
	"the lease changes", "the machine is cloned", "the lease stops the generator", "the lease lets the generator look",
	"the lease takes a part back", "the lease asks for the floor",
}

// event is what happens in a state, with all that the explorer chose.
type event struct {
	kind   eventKind
	call   int8
	at     int8 // which reading
	n      int8
	slow   bool
	clones bool // the machine is cloned while the call reads the clock
	asked  bool
	action Action
	deal   *deal
}

// edge is a move, and what comes of it.
type edge struct {
	effect
	event
}

type effect struct {
	to     int32
	by     int8 // the call, or -1
	begins bool
	ends   bool
	got    int8  // how many IDs the call returns
	first  ID    // the first of them
	keep   int32 // from now on only IDs of this set may be returned
	gain   int32 // the set of IDs that may be returned as well from now on
	end    int64 // what the generator returns when it stops: the tick after the last one stamped
}

// ids is a set of IDs.
type ids [4]uint64

func (s *ids) add(id ID)      { s[id/64] |= 1 << (id % 64) }
func (s *ids) has(id ID) bool { return uint64(id) < 256 && s[id/64]>>(id%64)&1 == 1 }

// ids returns the IDs for which in holds.
func (x *explorer) ids(in func(tick int64, p Parts) bool) (s ids) {
	for id := range ID(1) << x.layout.bits() {
		if in(x.tickOf(id), x.layout.Decode(id)) {
			s.add(id)
		}
	}
	return s
}

// granted returns the IDs that a deal grants.
func (x *explorer) granted(d deal) ids {
	return x.ids(func(tick int64, p Parts) bool {
		return p.Worker == d.worker && p.ClockSeq == d.seq && d.from <= tick && tick < d.to
	})
}

// explorer explores a scope.
type explorer struct {
	scope
	t        *testing.T
	layout   Layout
	readings []time.Duration // of the clock, since the epoch
	mono     time.Duration

	reading time.Time // what the clock reads in the next step
	action  Action    // what the policy answers

	world      *world // whose generator takes the next step
	generation atomic.Uint64
	clones     bool  // the machine is cloned when the clock is read
	deals      *deal // what the lease grants when it is asked; nil if it fails

	sets  []ids // the first stands for no change
	found map[string]int32
	came  []struct{ from, edge int32 } // how a state was first reached
	queue []*world                     // nil when it has been explored
	edges [][]edge
	here  int32
	outcomes
}

const exhaustWorker = 1

func (x *explorer) start() *world {
	x.opts.Clock = ClockFunc(func() time.Time {
		if x.clones {
			x.world.deal.generation = 1
			x.generation.Store(1)
		}
		return x.reading
	})
	x.opts.OnBackward = BackwardFunc(func(Backward) Action { return x.action })
	x.reading = x.layout.time(instant{tick: x.tickOf(x.opts.After)})
	w := &world{calls: make([]flight, x.calls)}
	x.world = w
	var err error
	if x.lease == noLease {
		w.g, err = New(exhaustWorker, &x.opts)
	} else {
		w.deal = deal{worker: exhaustWorker, to: 1, bound: 1}
		if x.ordered() {
			w.deal.spare = 1
		}
		w.g, err = NewLeased(x.newLease(), &x.opts)
	}
	require.NoError(x.t, err)
	if x.builtin {
		w.g.clock = nil
	}
	return w
}

// exhaustLease is the lease of the world that takes a step. It grants, and nothing more.
type exhaustLease struct {
	terms
	x *explorer
}

// newLease returns the lease of x.
func (x *explorer) newLease() Lease {
	l := exhaustLease{terms{Bind: func(binding) error { return nil }}, x}
	switch x.lease {
	case granting:
		return l
	case cloneable:
		l.terms.Generation = func() *atomic.Uint64 { return &x.generation }
		l.terms.Born = func() uint64 { return x.world.deal.of }
	}
	return changingLease{l}
}

func (l exhaustLease) Grant() Grant {
	l.x.checkSealed(l.x.world, event{})
	d, at := &l.x.world.deal, func(tick int64) time.Time { return l.x.layout.time(instant{tick: tick}) }
	return Grant{Worker: d.worker, ClockSeq: d.seq, From: at(d.from), To: at(d.to)}
}

// changingLease is an exhaustLease that can be asked for more.
type changingLease struct{ exhaustLease }

func (l changingLease) Extend(context.Context, Grant, time.Time) error {
	if l.x.deals == nil {
		return errAway
	}
	l.x.world.deal = *l.x.deals
	return nil
}

func (l changingLease) CanBump(now time.Time) bool {
	d := l.x.world.deal
	return !d.cloned() && d.other <= l.x.tickAt(now)
}

func (l changingLease) Bump(ctx context.Context, g Grant, now time.Time) error {
	return l.Extend(ctx, g, now)
}

// changes returns what a lease may grant next.
func (x *explorer) changes(d deal) (all []deal) {
	end := x.layout.maxTick() + 1
	// A lease that finds that its machine was cloned first takes back what it granted.
	if d.spare > 0 && (!d.cloned() || d.from == d.to) {
		for from := range end {
			all = append(all, deal{worker: 1 - d.worker, from: from, to: from + 1, bound: from + 1,
				generation: d.generation, of: d.generation})
		}
	}
	if d.cloned() {
		return all
	}
	if d.to < end {
		longer, again := d, d
		longer.to++
		longer.bound = max(longer.to, d.bound)
		all = append(all, longer)
		if again.from, again.to = d.bound, d.bound+1; again.to <= end {
			again.bound = again.to
			all = append(all, again)
		}
	}
	return all
}

// bumped returns what a lease may grant when it has changed its clock sequence, when the clock
// reads now.
func (x *explorer) bumped(d deal, now int64) (all []deal) {
	for _, from := range []int64{d.other, now} {
		o := d
		o.seq, o.other, o.from, o.to, o.bound = 1-d.seq, d.bound, from, now+1, now+1
		all = append(all, o)
	}
	return all
}

// set returns the number of a set.
func (x *explorer) set(s ids) int32 {
	i := slices.Index(x.sets, s)
	if i < 0 {
		i, x.sets = len(x.sets), append(x.sets, s)
	}
	return int32(i)
}

func (w *world) clone() *world {
	c := *w
	o := w.g
	c.g = &Generator{generator: generator{machine: o.machine, seq: o.seq, wall: o.wall, borrow: o.borrow, clock: o.clock, policy: o.policy}}
	c.g.next.Store(o.next.Load())
	c.g.until.Store(o.until.Load())
	c.g.born.Store(o.born.Load())
	if o.counted != nil {
		counted := *o.counted
		c.g.counted = &counted
	}
	if p := o.seq.past; p != nil {
		q := *p
		q.ring.marks, q.seqs.last = slices.Clone(p.ring.marks), slices.Clone(p.seqs.last)
		c.g.seq.past = &q
	}
	if s := o.seq.slots; s != nil {
		q := *s
		q.back, q.ticks = slices.Clone(s.back), maps.Clone(s.ticks)
		c.g.seq.slots = &q
	}
	if win := o.window; win != nil {
		q := *win
		if !q.ended {
			q.stopped = make(chan struct{})
		}
		c.g.window = &q
	}
	c.calls = slices.Clone(w.calls)
	return &c
}

// key tells states apart.
func (x *explorer) key(w *world) string {
	b := make([]byte, 0, 128)
	add := func(values ...int64) {
		for _, v := range values {
			b = binary.AppendVarint(b, v)
		}
	}
	flag := func(f bool) int64 {
		if f {
			return 1
		}
		return 0
	}
	g, q := w.g, &w.g.seq
	add(int64(g.next.Load()), int64(q.nextID), q.left, q.tick, q.reached, int64(q.fixed), flag(q.late))
	if x.builtin {
		add(int64(max(time.Duration(g.until.Load())-x.mono, -1)))
	}
	if s := q.slots; s != nil {
		add(s.total, int64(s.served), int64(len(s.back)))
		for _, r := range s.back {
			add(int64(r.first), r.n, int64(q.era-r.era))
		}
		for tick := range x.layout.maxTick() + 2 {
			add(s.ticks[tick])
		}
	}
	if p := q.past; p != nil {
		add(p.last, p.ring.top, p.ring.closed, int64(p.seqs.current), p.seqs.first, p.seqs.initial)
		for _, m := range p.ring.marks {
			add(m.tick, m.left)
		}
		add(p.seqs.last...)
	}
	if v := g.window; v != nil {
		d := &w.deal
		add(v.hi, v.after, v.closed, v.stamped, int64(v.bumping), flag(v.ended), int64(v.grant.Worker),
			int64(v.grant.ClockSeq), x.tickAt(v.grant.From), x.tickAt(v.grant.To), int64(g.born.Load()))
		add(int64(d.worker), int64(d.seq), d.from, d.to, d.bound, d.other, int64(d.spare), int64(d.generation), int64(d.of))
	}
	for i := range w.calls {
		f := &w.calls[i]
		if !f.open {
			add(-1)
			continue
		}
		if g.window != nil {
			add(flag(f.progress.extended != nil), flag(f.progress.extended == g.window.grant))
		}
		add(int64(f.stage), int64(f.sight.word), int64(f.sight.born), int64(f.unlocked.read))
		add(f.n, int64(f.slot.first), f.slot.n, flag(f.slot.n > 0 && f.slot.era != q.era),
			flag(f.watch.started), int64(f.progress.agreed), int64(f.progress.by), int64(f.progress.asks))
	}
	return string(b)
}

func (x *explorer) explore() {
	x.found = map[string]int32{x.key(x.queue[0]): 0}
	for ; int(x.here) < len(x.queue); x.here++ {
		w := x.queue[x.here]
		x.queue[x.here] = nil
		x.moves(w)
	}
}

// add notes a state w to which a move leads from here, the state was.
func (x *explorer) add(was, w *world, e edge) {
	x.checkOnce(w, e.event)
	if issued := int64(w.g.Stats().Issued-was.g.Stats().Issued) - w.claimed() + was.claimed(); issued != int64(e.got) {
		x.fail(e.event, "Stats counts %d IDs as issued, and %d are returned", issued, e.got)
	}
	key := x.key(w)
	to, ok := x.found[key]
	if !ok {
		to = int32(len(x.queue))
		x.found[key] = to
		x.queue, x.edges = append(x.queue, w), append(x.edges, nil)
		x.came = append(x.came, struct{ from, edge int32 }{x.here, int32(len(x.edges[x.here]))})
	}
	before, after := was.g.Stats(), w.g.Stats()
	x.outcomes["bumps"] += int(after.Bumps - before.Bumps)
	x.outcomes["rewinds"] += int(after.Rewinds - before.Rewinds)
	x.outcomes["borrowed"] += int(after.Borrowed - before.Borrowed)
	x.outcomes["IDs"] += int(e.got)
	if w.deal != was.deal {
		e.gain = x.set(x.granted(w.deal))
		if w.deal.cloned() && !was.deal.cloned() {
			e.keep, e.gain = x.set(ids{}), 0
		}
	}
	e.to = to
	nothing := to == x.here && e.got == 0 && e.keep == 0 && e.end == 0
	if !nothing && !slices.ContainsFunc(x.edges[x.here], func(o edge) bool { return o.effect == e.effect }) {
		x.edges[x.here] = append(x.edges[x.here], e)
	}
}

// checkOnce checks that IDs that calls have taken, or that were put back, are there once. A call
// with IDs of an earlier era takes others before it returns.
func (x *explorer) checkOnce(w *world, m event) {
	var runs []run
	if s := w.g.seq.slots; s != nil {
		runs = append(runs, s.back...)
	}
	for i := range w.calls {
		if slot := w.calls[i].slot; slot.era == w.g.seq.era {
			runs = append(runs, slot)
		}
	}
	var seen ids
	for _, r := range runs {
		for k := range r.n {
			id := r.first + ID(k)*w.g.seq.stride()
			if seen.has(id) {
				x.fail(m, "ID %d waits twice to be returned", id)
			}
			seen.add(id)
		}
	}
}

// fail reports that a move in the state that is explored breaks a promise.
func (x *explorer) fail(m event, format string, args ...any) {
	x.t.Helper()
	require.FailNow(x.t, fmt.Sprintf(format, args...), x.story(append(x.way(x.here), edge{event: m})))
}

// way returns the first way to a state.
func (x *explorer) way(to int32) (way []edge) {
	for ; to > 0; to = x.came[to].from {
		way = append(way, x.edges[x.came[to].from][x.came[to].edge])
	}
	slices.Reverse(way)
	return way
}

// story tells moves from the start on.
func (x *explorer) story(way []edge) string {
	var b strings.Builder
	for _, e := range way {
		b.WriteString("\n" + strings.ReplaceAll(eventTexts[e.kind], "%d", fmt.Sprint(e.call)))
		if e.kind <= givesUp || e.kind == leaseAsks {
			fmt.Fprintf(&b, ", and the clock reads %v after the epoch", x.readings[e.at])
		}
		if e.kind == begins {
			fmt.Fprintf(&b, "; it wants %d IDs", e.n)
		}
		if e.slow {
			b.WriteString(", slow")
		}
		if e.clones {
			b.WriteString("; meanwhile the machine is cloned")
		}
		if e.asked {
			fmt.Fprintf(&b, "; the policy answers %d", e.action)
		}
		if e.deal != nil {
			fmt.Fprintf(&b, "; the lease changes to %+v", *e.deal)
		}
		if e.got > 0 {
			fmt.Fprintf(&b, ", and gets %d IDs from %d", e.got, e.first)
		}
	}
	return b.String()
}

// moves makes all moves of a state.
func (x *explorer) moves(w *world) {
	free := int8(slices.IndexFunc(w.calls, func(f flight) bool { return !f.open }))
	for at := range int8(len(x.readings)) {
		for i := range int8(len(w.calls)) {
			if !w.calls[i].open || w.calls[i].stage != locks {
				continue
			}
			x.step(w, event{kind: wakes, call: i, at: at})
			if !x.inside(at) {
				continue // the call ends as it does when it gives up before its tick
			}
			if w.calls[i].watch.started {
				x.step(w, event{kind: wakes, call: i, at: at, slow: true})
			}
			x.giveUp(w, event{kind: givesUp, call: i, at: at})
		}
		for k, n := range x.counts {
			if free < 0 || !x.inside(at) && k > 0 {
				break
			}
			x.step(w, event{kind: begins, call: free, at: at, n: int8(n)})
			if x.lease == cloneable && !x.builtin && !w.deal.cloned() && w.deal.generation == 0 {
				x.step(w, event{kind: begins, call: free, at: at, n: int8(n), clones: true})
			}
		}
	}
	if x.builtin {
		x.unlockedMoves(w, free)
	}
	if x.lease != noLease && !w.g.window.ended {
		x.leaseMoves(w)
	}
}

// leaseMoves makes the moves of the lease by itself.
func (x *explorer) leaseMoves(w *world) {
	do := func(m event, f func(c *world, e *edge)) {
		c, e := w.clone(), edge{effect{by: -1}, m}
		x.read(c, m.at)
		f(c, &e)
		x.add(w, c, e)
	}
	for _, d := range x.changes(w.deal) {
		do(event{kind: leaseChanges, deal: &d}, func(c *world, _ *edge) { c.deal = d })
	}
	if x.lease == cloneable && w.deal.generation == 0 {
		do(event{kind: clone}, func(c *world, _ *edge) { c.deal.generation = 1 })
	}
	do(event{kind: leaseLooks, at: 1}, func(c *world, _ *edge) { c.g.lookNow() })
	if w.claimed() > 0 && !w.deal.cloned() {
		return // what a call has claimed counts as returned before
	}
	do(event{kind: leaseStops, at: 1}, func(c *world, e *edge) {
		end := c.g.stop(errAway)
		e.keep, e.end = x.set(ids{}), x.tickAt(end)
	})
	if w.deal.to > w.deal.from {
		do(event{kind: leaseTakes, at: 1}, func(c *world, e *edge) {
			lost := x.granted(c.deal)
			if c.deal.to--; c.deal.cloned() {
				c.deal.to = c.deal.from
			}
			left := x.granted(c.deal)
			for i := range lost {
				lost[i] = ^(lost[i] &^ left[i])
			}
			c.g.lookNow()
			e.keep = x.set(lost)
		})
	}
	for at := range int8(len(x.readings)) {
		if w.g.seq.past == nil && x.inside(at) {
			m := event{kind: leaseAsks, at: at}
			do(m, func(c *world, e *edge) {
				floor := c.g.floor()
				if floor.Before(x.layout.Epoch.Time()) || floor.After(x.layout.Expires()) {
					x.fail(m, "the floor is %v", floor)
				}
				e.keep = x.set(x.ids(func(tick int64, _ Parts) bool { return tick >= x.tickAt(floor) }))
			})
		}
	}
}

// inside reports whether the layout has a tick for a reading.
func (x *explorer) inside(at int8) bool { return 0 < at && int(at) < len(x.readings)-1 }

// read lets the generator's clock read x.readings[at].
func (x *explorer) read(w *world, at int8) {
	x.reading = x.layout.Epoch.Time().Add(x.readings[at])
	x.world = w
	x.generation.Store(w.deal.generation)
	if x.builtin {
		w.g.wall = wall{steady: true, anchor: x.reading, mono: x.mono}
	}
	for i := range w.calls {
		if f := &w.calls[i]; x.inside(at) && f.stage != locks && !x.ordered() {
			f.read |= 1 << x.tick(x.readings[at])
		}
	}
}

// tick returns the tick that a time after the epoch lies in.
func (x *explorer) tick(d time.Duration) int64 { return x.layout.plus(instant{}, d) }

// tickAt returns the tick that a time lies in.
func (x *explorer) tickAt(t time.Time) int64 { return x.tick(t.Sub(x.layout.Epoch.Time())) }

func (x *explorer) tickOf(id ID) int64 { return int64(id) >> x.layout.timeShift() }

// ordered reports whether the policy keeps order.
func (x *explorer) ordered() bool {
	return !slices.Contains(x.actions, ActionBump) && !slices.Contains(x.actions, ActionRewind)
}

// ready returns a copy of w in which the call can take its step.
func (x *explorer) ready(w *world, m event) (c *world, f *flight) {
	c = w.clone()
	f = &c.calls[m.call]
	if !f.open {
		*f = flight{open: true, call: call{n: int64(m.n)}}
	}
	x.read(c, m.at)
	f.progress.asks = max(f.progress.asks, maxAsks-1) // one more question is enough to see what questions do
	if f.watch.started {
		f.watch = watch{started: true, since: x.mono, slow: m.slow, stalled: m.slow}
		f.progress.since, f.progress.first = 0, 0
	}
	f.progress.extends = 0 // another test checks how often a call may ask the lease
	return c, f
}

// step makes a call take its next step, with each outcome that the step can have.
func (x *explorer) step(w *world, m event) {
	c, f := x.ready(w, m)
	x.clones = m.clones
	c.g.lock()
	x.checkSealed(c, m)
	next, err := c.g.advanceLocked(&f.call)
	x.checkSealed(c, m)
	c.g.unlock()
	x.clones = false
	switch {
	case err != nil || next.kind == returns:
		x.finish(w, c, m, next.ids, err)
	case next.kind == asks:
		x.outcomes["asks"]++
		for _, x.action = range x.actions {
			m.asked, m.action, m.deal = true, x.action, nil
			deals := []deal{{}}
			if x.action == ActionBump && x.lease != noLease && next.back.CanBump {
				deals = x.bumped(c.deal, x.tick(x.readings[m.at]))
			}
			for _, d := range deals {
				if x.deals = &d; x.lease != noLease {
					m.deal = &d
				}
				x.proceed(w, c.clone(), m, next)
			}
		}
	case next.kind == extends:
		x.outcomes["extends"]++
		x.deals = nil
		x.proceed(w, c.clone(), m, next)
		for _, d := range append(x.changes(c.deal), c.deal) {
			x.deals, m.deal = &d, &d
			x.proceed(w, c.clone(), m, next)
		}
	default:
		x.outcomes["waits"]++
		x.proceed(w, c, m, next)
	}
}

// proceed does what a step of a call has decided, and leaves out the sleep.
func (x *explorer) proceed(w, c *world, m event, next move) {
	f := &c.calls[m.call]
	x.world = c
	if next.kind == sleeps {
		f.progress.asks = 0
	} else if err := c.g.do(context.Background(), &f.call, next); err != nil {
		x.finish(w, c, m, run{}, err)
		return
	}
	f.progress.since, f.progress.first = 0, 0
	if f.watch.started {
		f.watch = watch{started: true}
	}
	x.add(w, c, edge{effect{by: m.call, begins: m.kind == begins}, m})
}

// giveUp ends a call whose context is done.
func (x *explorer) giveUp(w *world, m event) {
	c, f := x.ready(w, m)
	x.finish(w, c, m, c.g.slotInTime(&f.call), context.Canceled)
}

// claimed returns how many IDs calls have claimed without the lock, and not yet returned.
func (w *world) claimed() (n int64) {
	for i := range w.calls {
		if f := &w.calls[i]; f.stage == claims {
			got, _ := w.g.seq.following(f.sight.word, f.n)
			n += got
		}
	}
	return n
}

// checkSealed checks that no call gets IDs without the lock while another call holds it.
func (x *explorer) checkSealed(w *world, m event) {
	for i := range w.calls {
		if f := &w.calls[i]; f.stage == reads && w.g.claim(f.sight, sealed) {
			x.fail(m, "call %d takes ID %d while the lock is held", i, f.sight.id())
		}
	}
}

// unlockedMoves makes the moves of calls that take IDs of the open tick without the lock.
func (x *explorer) unlockedMoves(w *world, free int8) {
	for _, n := range x.counts {
		if free < 0 {
			break
		}
		c := w.clone()
		if s := c.g.sight(); s.word != sealed {
			c.calls[free] = flight{open: true, call: call{n: n}, unlocked: unlocked{stage: sees, sight: s}}
			x.add(w, c, edge{effect{by: free, begins: true}, event{kind: looks, call: free, n: int8(n)}})
		}
	}
	for i := range int8(len(w.calls)) {
		if w.calls[i].stage != locks {
			x.goOn(w, event{kind: goesOn, call: i})
		}
	}
	if time.Duration(w.g.until.Load()) > x.mono {
		c := w.clone()
		c.g.until.Add(-int64(x.layout.Unit / 2))
		x.add(w, c, edge{effect{by: -1}, event{kind: timePasses}})
	}
}

// goOn makes a call without the lock take its next step. If the step fails, the call goes the way
// of obtain.
func (x *explorer) goOn(w *world, m event) {
	c := w.clone()
	x.world = c
	x.generation.Store(c.deal.generation)
	f := &c.calls[m.call]
	got, next := c.g.seq.following(f.sight.word, f.n)
	was := f.stage
	f.stage = locks
	switch was {
	case sees:
		if c.g.inTime() {
			f.stage = reads
			f.read |= 1 << c.g.seq.tick
		}
	case reads:
		if c.g.claim(f.sight, next) {
			f.stage = claims
			// A tick is open for maxLag, which is the unit here, after its end.
			if tick := x.tickOf(f.sight.id()); f.read>>tick&3 == 0 {
				x.fail(m, "it claims ID %d of tick %d, which the clock has not read", f.sight.id(), tick)
			}
		}
	case claims:
		if c.g.confirm(f.sight, got) {
			x.finish(w, c, m, run{first: f.sight.id(), n: got}, nil)
			return
		}
	}
	if f.stage == locks {
		f.unlocked = unlocked{}
	}
	x.add(w, c, edge{effect{by: m.call}, m})
}

// finish ends a call, which returns r or err.
func (x *explorer) finish(w, c *world, m event, r run, err error) {
	f := &c.calls[m.call]
	if m.kind <= wakes && r.n > 0 {
		x.checkTime(m, w.calls[m.call].slot.n > 0, c, r)
	}
	c.g.finish(&f.call)
	*f = flight{}
	e := edge{effect{by: m.call, begins: m.kind == begins, ends: true, got: int8(r.n), first: r.first}, m}
	if r.n == 0 {
		x.count(m, err)
		if m.kind == begins && !x.builtin && x.lease == noLease && x.key(c) != x.key(w) {
			x.fail(m, "a call that returns an error has changed the state: %v", err)
		}
	}
	x.add(w, c, e)
}

// checkTime compares the time of IDs that are returned with the clock. If the call has waited for
// their tick, they may be older.
func (x *explorer) checkTime(m event, waited bool, c *world, r run) {
	now, limit := x.tick(x.readings[m.at]), x.tick(x.readings[m.at]+x.opts.BorrowAhead)
	if x.builtin {
		now = x.tick(x.readings[m.at] - maxLag)
	}
	for _, id := range []ID{r.first, r.first + ID(r.n-1)*c.g.seq.stride()} {
		if tick := x.tickOf(id); tick > limit || tick < now && !waited {
			x.fail(m, "ID %d has tick %d, and the clock reads %d", id, tick, now)
		}
	}
}

// count counts an error.
func (x *explorer) count(m event, err error) {
	for name, want := range map[string]error{
		"clock backward": ErrClockBackward, "time exhausted": ErrTimeExhausted, "before epoch": ErrBeforeEpoch,
		"canceled": context.Canceled, "lease expired": ErrLeaseExpired,
	} {
		if errors.Is(err, want) {
			x.outcomes[name]++
			return
		}
	}
	x.fail(m, "an unexpected error: %v", err)
}

// facts is what is known about all ways to a state together: which IDs were returned on any of
// them, which the lease grants on each of them, the greatest ID that was returned on any of them,
// and the greatest that was returned before a call began.
type facts struct {
	returned, granted ids
	top               ID
	began             [2]ID // by call; -1 if it has not begun, or nothing was returned before
}

// join adds what is known of another way, and reports whether this says more.
func (f *facts) join(o facts) bool {
	was := *f
	for i := range f.returned {
		f.returned[i] |= o.returned[i]
		f.granted[i] &= o.granted[i]
	}
	for i := range f.began {
		f.began[i] = max(f.began[i], o.began[i])
	}
	f.top = max(f.top, o.top)
	return *f != was
}

// follow returns what is known after a move.
func (x *explorer) follow(f facts, e edge) facts {
	f.granted = x.grants(f, e)
	if e.begins {
		f.began[e.by] = f.top
	}
	for id := range x.returned(e) {
		f.returned.add(id)
		f.top = max(f.top, id)
	}
	if e.ends {
		f.began[e.by] = -1
	}
	return f
}

// grants returns what the lease grants after a move.
func (x *explorer) grants(f facts, e edge) ids {
	for i := range f.granted {
		f.granted[i] &= x.sets[e.keep][i]
		if e.gain > 0 {
			f.granted[i] |= x.sets[e.gain][i]
		}
	}
	return f.granted
}

// returned yields the IDs that a call returns.
func (x *explorer) returned(e edge) func(func(ID) bool) {
	return func(yield func(ID) bool) {
		for k := range e.got {
			if !yield(e.first + ID(k)<<x.layout.sequenceShift()) {
				return
			}
		}
	}
}

// known returns what is known at the start.
func (x *explorer) known() facts {
	f := facts{top: -1, began: [2]ID{-1, -1}}
	f.granted = x.ids(func(_ int64, p Parts) bool { return p.Worker == exhaustWorker })
	if x.lease != noLease {
		f.granted = x.granted(x.start().deal)
	}
	for id := range x.opts.After + 1 { // of an earlier process
		if x.opts.After > 0 && x.layout.Decode(id).Worker == exhaustWorker {
			f.returned.add(id)
			f.top = id
		}
	}
	return f
}

// settle finds the facts of all states, and checks the IDs that are returned.
func (x *explorer) settle() {
	all := make([]facts, len(x.edges))
	for i := range all {
		all[i] = facts{granted: x.sets[0], top: -1, began: [2]ID{-1, -1}}
	}
	all[0] = x.known()
	todo, waiting := []int32{0}, make([]bool, len(all))
	for len(todo) > 0 {
		i := todo[0]
		todo, waiting[i] = todo[1:], false
		for _, e := range x.edges[i] {
			if all[e.to].join(x.follow(all[i], e)) && !waiting[e.to] {
				todo, waiting[e.to] = append(todo, e.to), true
			}
		}
	}
	for i := range all {
		for _, e := range x.edges[i] {
			x.check(int32(i), e, all[i])
		}
	}
}

// check checks what a move returns. If a promise is broken, it searches the states, with what is
// known about one ID on the way, and reports a shortest sequence of moves that breaks it.
func (x *explorer) check(to int32, e edge, f facts) {
	id, what := x.wrong(e, f)
	if what == "" {
		return
	}
	type place struct {
		at int32
		facts
	}
	type step struct {
		place
		edge edge
	}
	begin := place{0, x.known().only(id)}
	came, todo := map[place]step{begin: {}}, []place{begin}
	for ; len(todo) > 0; todo = todo[1:] {
		p := todo[0]
		if other, same := x.wrong(e, p.facts); p.at == to && other == id && same == what {
			way := []edge{e}
			for ; p != begin; p = came[p].place {
				way = append(way, came[p].edge)
			}
			slices.Reverse(way)
			require.FailNow(x.t, fmt.Sprintf("ID %d %s", id, what), x.story(way))
		}
		for _, o := range x.edges[p.at] {
			next := place{o.to, x.follow(p.facts, o).only(id)}
			if _, ok := came[next]; !ok {
				came[next] = step{p, o}
				todo = append(todo, next)
			}
		}
	}
	require.FailNow(x.t, fmt.Sprintf("ID %d %s", id, what), x.story(append(x.way(to), e)))
}

// wrong returns an ID that shows that a move breaks a promise, and the name of that promise.
func (x *explorer) wrong(e edge, f facts) (id ID, what string) {
	granted := x.grants(f, e)
	for id := range x.returned(e) {
		switch {
		case f.returned.has(id):
			return id, "is issued twice"
		case !granted.has(id):
			return id, "is not granted"
		}
	}
	since := f.began[max(0, e.by)]
	if e.begins {
		since = f.top
	}
	if x.ordered() && e.got > 0 && e.first <= since {
		return since, "was returned before the call began, which gets a lower ID"
	}
	end := x.tickOf(f.top) + 1
	wrongEnd := e.end < end || e.end > end && x.lease != cloneable
	if e.kind == leaseStops && wrongEnd && !slices.Contains(x.actions, ActionBump) {
		return f.top, fmt.Sprintf("is the last that was returned, and the generator says that it ended before tick %d", e.end)
	}
	return 0, ""
}

// only returns what the facts say about one ID.
func (f facts) only(id ID) facts {
	o := facts{granted: ids{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}, top: min(f.top, id)}
	if f.returned.has(id) {
		o.returned.add(id)
	}
	if !f.granted.has(id) {
		o.granted[id/64] &^= 1 << (id % 64)
	}
	for i, began := range f.began {
		o.began[i] = min(began, id)
	}
	return o
}

// fewBits returns a layout of few bits. In the full run, each tick has at least two IDs.
func fewBits(times, clockSeqs, sequences uint8, unit time.Duration) Layout {
	sequences = max(sequences, depth.Of[uint8](0, 1))
	return Layout{Epoch: DefaultEpoch, Unit: unit, TimeBits: times, ClockSeqBits: clockSeqs, WorkerBits: 1,
		SequenceBits: sequences, WorkerLast: clockSeqs == 0}
}

func TestEveryStateOfAFewBits(t *testing.T) {
	if depth.Race {
		t.Skip("one goroutine runs at a time; the other tests look for races")
	}
	const unit = 20 * time.Millisecond
	wait := []Action{ActionFail, ActionWait}
	bump := []Action{ActionFail, ActionWait, ActionBump}
	rewind := []Action{ActionFail, ActionWait, ActionRewind}
	all := []Action{ActionFail, ActionWait, ActionBump, ActionRewind}
	// The largest scopes are last, because the first one that finds a mutant ends the test.
	for _, s := range []scope{
		{name: "in order", opts: Options{Layout: fewBits(2, 0, 0, unit)}, actions: wait, calls: 2,
			counts: []int64{1}, expect: "waits, clock backward, time exhausted"},
		{name: "batches", opts: Options{Layout: fewBits(1, 0, 2, unit)}, actions: wait, calls: 2,
			counts: []int64{1, 3}, expect: "waits, clock backward, time exhausted"},
		{name: "borrow ahead, after an ID",
			opts: Options{Layout: fewBits(2, 0, 1, unit), BorrowAhead: unit, After: 5}, actions: wait,
			calls: 2, counts: []int64{1, 2}, expect: "waits, clock backward, borrowed"},
		{name: "a built-in clock", opts: Options{Layout: fewBits(depth.Of[uint8](1, 2), 0, 1, maxLag)}, builtin: true,
			actions: wait, calls: 2, counts: []int64{1}, expect: "waits, clock backward"},
		{name: "a built-in clock, with rewinds", opts: Options{Layout: fewBits(1, 0, 1, maxLag), RewindTicks: 1},
			builtin: true, actions: rewind, calls: 2, counts: []int64{1}, expect: "waits, clock backward, rewinds"},
		{name: "a built-in clock, with leases", opts: Options{Layout: fewBits(1, 0, 1, maxLag)}, builtin: true,
			lease: granting, actions: wait, calls: depth.Of(1, 2), counts: []int64{1},
			expect: "waits, clock backward, lease expired"},
		{name: "a built-in clock, with clones", opts: Options{Layout: fewBits(1, 0, 1, maxLag)}, builtin: true,
			lease: cloneable, actions: wait, calls: 1, counts: []int64{1}, expect: "waits, clock backward, lease expired, extends"},
		{name: "clock sequences, after an ID",
			opts: Options{Layout: fewBits(2, 1, 0, unit), After: depth.Of[ID](7, 14)}, actions: bump,
			calls: 2, counts: []int64{1}, expect: "waits, clock backward, bumps"},
		{name: "rewind", opts: Options{Layout: fewBits(2, 0, 0, unit), RewindTicks: 2}, actions: rewind,
			calls: 2, counts: []int64{1}, expect: "waits, clock backward, rewinds"},
		{name: "clock sequences and rewind",
			opts: Options{Layout: fewBits(2, 1, 1, unit), RewindTicks: 2, After: 14}, actions: all, calls: 1,
			counts: []int64{1, 2}, expect: "waits, clock backward, bumps, rewinds"},
		{name: "a lease", opts: Options{Layout: fewBits(1, 0, 1, unit)}, lease: granting, actions: wait,
			calls: 1, counts: []int64{1}, expect: "waits, clock backward, lease expired"},
		{name: "a lease that extends", opts: Options{Layout: fewBits(1, 0, 1, unit)}, lease: changing,
			actions: wait, calls: 1, counts: []int64{1}, expect: "waits, clock backward, lease expired, extends"},
		{name: "a lease that changes its clock sequence", opts: Options{Layout: fewBits(1, 1, 1, unit)},
			lease: changing, actions: bump, calls: 1, counts: []int64{1}, expect: "waits, clock backward, lease expired, extends, bumps"},
		{name: "a lease and rewind",
			opts:  Options{Layout: fewBits(depth.Of[uint8](1, 2), 0, 0, unit), RewindTicks: 2},
			lease: granting, actions: rewind, calls: 1, counts: []int64{1},
			expect: "waits, clock backward, lease expired, rewinds"},
		{name: "a machine that is cloned", opts: Options{Layout: fewBits(1, 0, 1, unit)}, lease: cloneable,
			actions: wait, calls: 1, counts: []int64{1}, expect: "waits, clock backward, lease expired, extends"},
		{name: "two calls of a lease that extends", opts: Options{Layout: fewBits(1, 0, 0, unit)},
			lease: changing, actions: wait, calls: 2, counts: []int64{1},
			expect: "waits, clock backward, lease expired, extends", full: true},
		{name: "clock sequences", opts: Options{Layout: fewBits(2, 1, 0, unit)}, actions: bump, calls: 2,
			counts: []int64{1}, expect: "waits, clock backward, bumps", full: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			if s.full {
				depth.NeedFull(t, "the scopes of the full run have most of the states")
			}
			synctest.Test(t, func(t *testing.T) { exhaust(t, s) })
		})
	}
}

func exhaust(t *testing.T, s scope) {
	time.Sleep(time.Until(DefaultEpoch.Time().Add(24 * time.Hour)))
	x := &explorer{scope: s, t: t, layout: s.opts.Layout, mono: monotonic(), outcomes: outcomes{}}
	ticks := x.layout.maxTick() + 1
	x.readings = append(x.readings, -1)
	for tick := range ticks {
		x.readings = append(x.readings, time.Duration(tick)*x.layout.Unit+time.Duration(tick%2)*x.layout.Unit/4)
	}
	x.readings = append(x.readings, time.Duration(ticks)*x.layout.Unit)
	x.sets = []ids{{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}, {}}
	x.queue, x.edges, x.came = []*world{x.start()}, make([][]edge, 1), make([]struct{ from, edge int32 }, 1)
	x.explore()
	x.settle()
	for name := range strings.SplitSeq(s.expect, ", ") {
		assert.NotZero(t, x.outcomes[name], "%s: never happened", name)
	}
	n := 0
	for _, edges := range x.edges {
		n += len(edges)
	}
	t.Logf("%d states, %d different steps: %v", len(x.queue), n, x.outcomes)
}
