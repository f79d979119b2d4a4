package snowflake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
)

// An explorer visits every state that a generator with a few bits can get into, breadth first, and takes every step
// of every call in each of them: stepLocked, with what it decides (decide.go) and takes (sequence.go, past.go). Nothing
// in a step is left to chance: the explorer chooses what the clock reads, what the policy and the lease answer, which
// call is next, and when a call gives up.
//
// A state does not say which IDs were returned on the way to it. When all states are known, settle finds this for all
// ways at once.

// scope is what an explorer covers.
type scope struct {
	name    string
	opts    Options
	builtin bool // the clock is a built-in one
	hurried bool // no call has the time to wait
	timed   bool // a call wakes when its wait ends, and watches the clock; else the explorer says that the clock is slow, at any time
	lease   leaseKind
	calls   int      // how many calls may have begun and not returned
	counts  []int64  // how many IDs a call wants
	actions []Action // of the policy
	expect  string   // what has to happen
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
	generation  uint64 // the machine's
	of          uint64 // what it was when the lease asked for the worker
}

// world is a state.
type world struct {
	g     *Generator
	calls []flight
	last  int64 // the latest tick of an ID that was returned, if the policy keeps order
	floor int64 // the latest that the generator has told the lease
	deal  deal
}

// flight is a call that has begun, and has not returned.
type flight struct {
	call
	open   bool
	due    time.Duration // if timed: how long it still sleeps
	total  time.Duration // how long it has waited, from when the clock read from
	from   time.Duration
	agreed time.Duration // how long it has waited since the policy first agreed to wait, with the first of these waits in first
	first  time.Duration
}

// move is what happens in a state.
type move struct {
	what   string
	call   int
	at     int // which reading
	slow   bool
	n      int64
	dice   int64
	late   time.Duration
	clones bool
	asked  bool
	action Action
	deal   *deal
}

// edge is what comes of a move.
type edge struct {
	to     int32
	k      int32 // the number of the move
	call   int8
	begins bool
	ends   bool
	first  ID // the first of the n IDs that the call returns
	n      int64
	full   ID    // unless it is 0, an ID that was returned on each way here
	keep   int32 // from now on only IDs of this set may be returned
	gain   int32 // and these, too
	end    int64 // unless it is 0, all IDs that were returned lie in ticks before
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
	dice    int64     // what randomN returns
	sides   int64     // what randomN was asked

	world      *world // whose generator takes the next step
	generation atomic.Uint64
	clones     bool  // the machine is cloned when the clock is read
	deals      *deal // to what the lease changes when it is asked; nil: it fails

	sets  [][4]uint64
	found map[string]int32
	paths []step32
	queue []*world // nil when it has been explored
	edges [][]edge
	here  int32
	from  *world // here
	move  move
	k     int32
	outcomes
}

// step32 is how a state was first reached.
type step32 struct{ from, k int32 }

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
	x.reading = x.layout.Epoch.Time().Add(x.layout.Unit * time.Duration(int64(x.opts.After)>>x.layout.timeShift()))
	w := &world{calls: make([]flight, x.calls), last: -1}
	x.world = w
	var err error
	if x.lease == noLease {
		w.g, err = New(exhaustWorker, &x.opts)
	} else {
		w.deal = deal{worker: exhaustWorker, to: 1, bound: 1, spare: map[bool]int{true: 1}[x.ordered()]}
		w.g, err = NewLeased(exhaustLease{x}, &x.opts)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	if x.builtin {
		w.g.clock = nil
	}
	if x.lease == noLease {
		w.last = w.g.seq.last // of Options.After
	}
	return w
}

// exhaustLease is the lease of the world that takes a step.
type exhaustLease struct{ x *explorer }

func (l exhaustLease) Grant() Grant {
	d, at := &l.x.world.deal, func(tick int64) time.Time { return l.x.layout.time(instant{tick: tick}) }
	return Grant{Worker: d.worker, ClockSeq: d.seq, From: at(d.from), To: at(d.to)}
}

func (l exhaustLease) Terms() (t terms) {
	x := l.x
	if x.lease == granting {
		return t
	}
	change := func(context.Context, Grant, time.Time) error {
		if x.deals == nil {
			return errAway
		}
		x.world.deal = *x.deals
		return nil
	}
	t.Extend, t.Bump = change, change
	t.CanBump = func(now time.Time) bool {
		return !x.world.deal.cloned() && x.world.deal.other <= x.tickAt(now)
	}
	if x.lease == cloneable {
		t.Generation = &x.generation
		t.Granted = func() (Grant, uint64) { return l.Grant(), x.world.deal.of }
	}
	return t
}

func (d deal) cloned() bool { return d.generation != d.of }

// free reports whether the generator has no lease, and the policy keeps order.
func (x *explorer) free() bool { return x.lease == noLease && x.ordered() }

// changes returns what a lease may grant next.
func (x *explorer) changes(d deal) (all []deal) {
	end := x.layout.maxTick() + 1
	if d.spare > 0 && (!d.cloned() || d.from == d.to) { // a lease that finds that it was cloned takes back what it granted first

		for from := range end {
			all = append(all, deal{worker: 1 - d.worker, from: from, to: from + 1, bound: from + 1, generation: d.generation, of: d.generation})
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

// bumped returns what a lease may grant when it has changed its clock sequence, when the clock reads now.
func (x *explorer) bumped(d deal, now int64) (all []deal) {
	for _, from := range []int64{d.other, now} {
		o := d
		o.seq, o.other, o.from, o.to, o.bound = 1-d.seq, d.bound, from, now+1, now+1
		all = append(all, o)
	}
	return all
}

// granted returns the IDs that a deal grants, as a set.
func (x *explorer) granted(d deal) (set [4]uint64) {
	for id := range ID(1) << x.layout.bits() {
		if p := x.layout.Decode(id); p.Worker == d.worker && p.ClockSeq == d.seq && d.from <= x.tickOf(id) && x.tickOf(id) < d.to {
			set[id/64] |= 1 << (id % 64)
		}
	}
	return set
}

// set32 returns the number of a set.
func (x *explorer) set32(set [4]uint64) int32 {
	i := slices.Index(x.sets, set)
	if i < 0 {
		i, x.sets = len(x.sets), append(x.sets, set)
	}
	return int32(i)
}

func (w *world) clone() *world {
	c := *w
	o := w.g
	c.g = &Generator{fresh: o.fresh, seq: o.seq, wall: o.wall, counts: o.counts, borrow: o.borrow, clock: o.clock, policy: o.policy}
	if p := o.seq.past; p != nil {
		q := *p
		q.ring.marks, q.seqs.last = slices.Clone(p.ring.marks), slices.Clone(p.seqs.last)
		c.g.seq.past = &q
	}
	if s := o.seq.slots; s != nil {
		q := *s
		q.back, q.ticks = slices.Clone(s.back), make(map[int64]int64, len(s.ticks))
		for tick, n := range s.ticks {
			q.ticks[tick] = n
		}
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
	add(int64(q.nextID), q.left, q.tick, q.last, int64(q.fixed), flag(q.late), int64(g.borrow), w.last)
	if x.builtin {
		add(int64(max(g.fresh-x.mono, -1)))
	}
	if s := q.slots; s != nil {
		add(s.held, int64(s.served), int64(len(s.back)))
		for _, r := range s.back {
			add(int64(r.first), r.n, int64(q.era-r.era))
		}
		for tick := range x.layout.maxTick() + 2 {
			add(s.ticks[tick])
		}
	}
	if p := q.past; p != nil {
		add(p.last, p.ring.top, p.ring.floor, int64(p.seqs.current), p.seqs.first, p.seqs.virgin)
		for _, m := range p.ring.marks {
			add(m.tick, m.left)
		}
		add(p.seqs.last...)
	}
	if v := g.window; v != nil {
		d := &w.deal
		add(v.hi, v.floor, v.closed, v.stamped, int64(v.bumping), flag(v.ended), int64(v.grant.Worker), int64(v.grant.ClockSeq), x.tickAt(v.grant.From), x.tickAt(v.grant.To), int64(v.generation))
		add(w.floor, int64(d.worker), int64(d.seq), d.from, d.to, d.bound, d.other, int64(d.spare), int64(d.generation), int64(d.of))
	}
	for i := range w.calls {
		f := &w.calls[i]
		if f.open && g.window != nil {
			add(flag(f.extended != nil), flag(f.extended == g.window.grant))
		}
		if !f.open {
			add(-1)
			continue
		}
		add(f.n, int64(f.slot.first), f.slot.n, flag(f.slot.n > 0 && f.slot.era != q.era), flag(f.watch.began), int64(f.call.agreed.action), int64(f.call.agreed.by), int64(f.asks))
		if x.timed {
			v := &f.watch
			add(int64(f.due), int64(f.total), int64(f.from), int64(f.agreed), int64(f.first), flag(v.asleep), flag(v.cut), flag(v.slow), int64(v.since-x.mono), int64(v.slept-x.mono), int64(v.retry),
				v.from.tick, int64(v.from.into), v.last.tick, int64(v.last.into), int64(f.patience.first), int64(f.patience.since-x.mono))
		}
	}
	return string(b)
}

// checkOnce checks that IDs that are taken, or were put back, are there once. A call with IDs of an earlier era takes
// others before it returns.
func (x *explorer) checkOnce(w *world) {
	var seen [4]uint64
	see := func(r run) {
		for k := range r.n {
			id := r.first + ID(k)*w.g.seq.stride
			if in(seen, id) {
				x.fail("ID %d waits twice to be returned", id)
			}
			seen[id/64] |= 1 << (id % 64)
		}
	}
	for _, r := range w.g.seq.lowered() {
		see(r)
	}
	for i := range w.calls {
		if slot := w.calls[i].slot; slot.era == w.g.seq.era {
			see(slot)
		}
	}
}

// add notes a state that a move leads to.
func (x *explorer) add(w *world, e edge) {
	x.checkOnce(w)
	key := x.key(w)
	to, ok := x.found[key]
	if !ok {
		to = int32(len(x.queue))
		x.found[key] = to
		x.queue, x.edges, x.paths = append(x.queue, w), append(x.edges, nil), append(x.paths, step32{x.here, x.k})
	}
	was, is := &x.from.g.counts, &w.g.counts
	x.outcomes["bumps"] += int(is.bumps - was.bumps)
	x.outcomes["rewinds"] += int(is.rewinds - was.rewinds)
	x.outcomes["borrowed"] += int(is.borrowed - was.borrowed)
	x.outcomes["IDs"] += int(e.n)
	if w.deal != x.from.deal {
		e.gain = x.set32(x.granted(w.deal))
		if w.deal.cloned() && !x.from.deal.cloned() {
			e.keep, e.gain = x.set32([4]uint64{}), 0
		}
	}
	e.to, e.k = to, x.k
	x.k++
	if to == x.here && e.n == 0 && e.full+ID(e.keep)+ID(e.end) == 0 {
		return
	}
	for _, o := range x.edges[x.here] {
		if o.k = e.k; o == e {
			return
		}
	}
	x.edges[x.here] = append(x.edges[x.here], e)
}

func (x *explorer) explore() {
	x.found = map[string]int32{x.key(x.queue[0]): 0}
	for ; int(x.here) < len(x.queue); x.here++ {
		w := x.queue[x.here]
		x.queue[x.here] = nil
		x.k, x.from = 0, w
		x.moves(w, x.add)
	}
}

// fail reports that the move that is tried now breaks a promise.
func (x *explorer) fail(format string, args ...any) {
	x.t.Helper()
	last := x.tell(x.move)
	x.t.Fatalf("%s\n%s%s", fmt.Sprintf(format, args...), x.story(x.way(x.here)), last)
}

// way returns the first way to a state, as the numbers of its moves.
func (x *explorer) way(to int32) (ks []int32) {
	for ; to > 0; to = x.paths[to].from {
		ks = append(ks, x.paths[to].k)
	}
	slices.Reverse(ks)
	return ks
}

// story tells moves from the start on.
func (x *explorer) story(ks []int32) string {
	y := &explorer{scope: x.scope, t: x.t, layout: x.layout, readings: x.readings, mono: x.mono, outcomes: outcomes{}, sets: [][4]uint64{everyID}}
	old := randomN
	defer func() { randomN = old }()
	randomN = y.roll
	w := y.start()
	var b strings.Builder
	for _, k := range ks {
		var next *world
		i := int32(0)
		y.moves(w, func(to *world, e edge) {
			if i == k {
				next = to
				b.WriteString(y.tell(y.move))
				if e.n > 0 {
					fmt.Fprintf(&b, ", and gets %d IDs from %d", e.n, e.first)
				}
				b.WriteByte('\n')
			}
			i++
		})
		w = next
	}
	return b.String()
}

func (x *explorer) roll(n int64) int64 {
	x.sides = n
	return x.dice
}

// tell says what a move is.
func (x *explorer) tell(m move) string {
	s := m.what
	if strings.HasPrefix(s, "call") {
		s = fmt.Sprintf(s, m.call)
	}
	if m.at > 0 || strings.HasPrefix(s, "call") {
		s += fmt.Sprintf(", and the clock reads %v after the epoch", x.readings[m.at])
	}
	if m.n > 0 {
		s += fmt.Sprintf("; it wants %d IDs", m.n)
	}
	if m.slow {
		s += ", slow"
	}
	if m.late > 0 {
		s += fmt.Sprintf(", %v late", m.late)
	}
	if m.dice > 0 {
		s += fmt.Sprintf("; the dice say %d", m.dice)
	}
	if m.asked {
		s += fmt.Sprintf("; the policy answers %d", m.action)
	}
	if m.deal != nil {
		s += fmt.Sprintf("; the lease changes to %+v", *m.deal)
	}
	return s
}

// moves makes all moves of a state.
func (x *explorer) moves(w *world, found func(*world, edge)) {
	free := slices.IndexFunc(w.calls, func(f flight) bool { return !f.open })
	for at := range x.readings {
		for i := range w.calls {
			if !w.calls[i].open {
				continue
			}
			if x.timed {
				x.step(w, move{what: "call %d wakes", call: i, at: at}, found)
				if w.calls[i].watch.asleep && depth.Full() {
					x.step(w, move{what: "call %d wakes", call: i, at: at, late: x.layout.Unit / 2}, found)
				}
				continue
			}
			x.step(w, move{what: "call %d wakes", call: i, at: at}, found)
			if !x.inside(at) {
				continue // the call ends, and puts its IDs back, as it does when it gives up before its tick
			}
			if w.calls[i].watch.began {
				x.step(w, move{what: "call %d wakes", call: i, at: at, slow: true}, found)
			}
			x.giveUp(w, move{what: "call %d gives up", call: i, at: at}, found)
		}
		for k, n := range x.counts {
			if free < 0 || !x.inside(at) && k > 0 {
				break
			}
			x.step(w, move{what: "call %d begins", call: free, at: at, n: n}, found)
			if x.lease == cloneable && !w.deal.cloned() && w.deal.generation == 0 {
				x.step(w, move{what: "call %d begins, and the machine is cloned", call: free, at: at, n: n, clones: true}, found)
			}
		}
	}
	if x.builtin {
		x.hot(w, found)
	}
	if x.lease != noLease && !w.g.window.ended {
		x.leaseMoves(w, found)
	}
}

// leaseMoves makes the moves of the lease by itself.
func (x *explorer) leaseMoves(w *world, found func(*world, edge)) {
	for _, d := range x.changes(w.deal) {
		x.move = move{what: fmt.Sprintf("the lease changes to %+v", d)}
		c := w.clone()
		c.deal = d
		found(c, edge{call: -1})
	}
	if x.lease == cloneable && w.deal.generation == 0 {
		x.move = move{what: "the machine is cloned"}
		c := w.clone()
		c.deal.generation = 1
		found(c, edge{call: -1})
	}
	do := func(what string, at int, f func(c *world) edge) {
		x.move = move{what: what, at: at}
		c := w.clone()
		x.set(c, at)
		e := f(c)
		e.call = -1
		found(c, e)
	}
	before := func(tick int64) (set [4]uint64) { // all IDs from tick on
		for id := ID(tick << x.layout.timeShift()); id < 1<<x.layout.bits(); id++ {
			set[id/64] |= 1 << (id % 64)
		}
		return set
	}
	do("the lease stops the generator", 1, func(c *world) edge {
		end := c.g.stop(errAway)
		e := edge{keep: x.set32([4]uint64{})}
		if x.ordered() {
			e.end = x.tickAt(end)
		}
		return e
	})
	do("the lease lets the generator look", 1, func(c *world) edge {
		c.g.lookNow()
		return edge{}
	})
	if w.deal.to > w.deal.from {
		do("the lease takes a part back", 1, func(c *world) edge {
			lost := x.granted(c.deal)
			if c.deal.to--; c.deal.cloned() {
				c.deal.to = c.deal.from
			}
			left := x.granted(c.deal)
			for i := range lost {
				lost[i] = ^(lost[i] &^ left[i])
			}
			c.g.lookNow()
			return edge{keep: x.set32(lost)}
		})
	}
	for at := range x.readings {
		if w.g.seq.past == nil && x.inside(at) {
			do("the lease asks for the floor", at, func(c *world) edge {
				floor := c.g.floor()
				if limit := x.layout.Expires(); floor.Before(x.layout.Epoch.Time()) || floor.After(limit) {
					x.fail("the floor is %v", floor)
				}
				if x.lease != cloneable {
					c.floor = max(c.floor, x.tickAt(floor))
				}
				return edge{keep: x.set32(before(x.tickAt(floor)))}
			})
		}
	}
}

// inside reports whether the layout has a tick for a reading.
func (x *explorer) inside(at int) bool { return 0 < at && at < len(x.readings)-1 }

// set lets the generator's clock read x.readings[at].
func (x *explorer) set(w *world, at int) {
	x.reading = x.layout.Epoch.Time().Add(x.readings[at])
	x.world = w
	x.generation.Store(w.deal.generation)
	if x.builtin {
		w.g.wall = wall{steady: true, anchor: x.reading, mono: x.mono}
	}
}

// tick returns the tick that a time after the epoch lies in.
func (x *explorer) tick(d time.Duration) int64 {
	return int64((d+64*x.layout.Unit)/x.layout.Unit) - 64
}

// tickAt returns the tick that a time lies in.
func (x *explorer) tickAt(t time.Time) int64 { return x.tick(t.Sub(x.layout.Epoch.Time())) }

func (x *explorer) tickOf(id ID) int64 { return int64(id) >> x.layout.timeShift() }

// ordered reports whether the policy keeps order.
func (x *explorer) ordered() bool {
	return !slices.Contains(x.actions, ActionBump) && !slices.Contains(x.actions, ActionRewind)
}

// step lets a call take its next step, with all that may come of it.
func (x *explorer) step(w *world, m move, found func(*world, edge)) {
	for sides := int64(1); m.dice < sides; m.dice++ {
		x.move, x.dice, x.sides = m, m.dice, 1
		x.stepOnce(w, m, found)
		sides = x.sides
	}
}

// ready returns a copy of w in which the call can take its step.
func (x *explorer) ready(w *world, m move) (c *world, f *flight) {
	c = w.clone()
	f = &c.calls[m.call]
	if !f.open {
		*f = flight{open: true, call: call{n: m.n}}
	}
	x.set(c, m.at)
	if !x.timed {
		f.asks = max(f.asks, maxAsks-1) // one more question is enough to see what questions do
	}
	if x.hurried {
		f.deadline = time.Now().Add(-1)
	}
	switch {
	case x.timed:
		d := f.due + m.late
		f.due = 0
		f.total += d
		f.watch.since, f.watch.slept, f.patience.since = f.watch.since-d, f.watch.slept-d, f.patience.since-d
		if f.first > 0 {
			f.agreed += d
		}
	case f.watch.began:
		f.watch = watch{began: true, since: x.mono, slow: m.slow, still: m.slow}
		f.patience = patience{}
	}
	return c, f
}

func (x *explorer) stepOnce(w *world, m move, found func(*world, edge)) {
	c, f := x.ready(w, m)
	x.sides = 1
	begins, held, consent, queue := !w.calls[m.call].open, f.slot, f.call.agreed, len(c.g.seq.lowered())
	e := edge{call: int8(m.call), begins: begins}
	at := x.readings[m.at]
	now, limit := x.tick(at), x.tick(at+x.opts.BorrowAhead)
	era := c.g.seq.era
	issued, waits, waited := c.g.seq.issued(), w.g.Stats().Waits, w.g.Stats().Waited

	x.clones = m.clones
	v, err := c.g.stepLocked(&f.call)
	x.clones = false

	taken := v.ids
	if f.slot.n > 0 && (f.slot.first != held.first || f.slot.era != held.era) {
		taken = f.slot
	}
	if taken.n > 0 && (held.n == 0 || taken.first != held.first) {
		x.checkTaken(w, c, f, taken, now)
		e.full = x.checkPlace(w, c, m, v, taken, now, limit, queue)
	}
	if x.sides > 1 {
		x.outcomes["random start"]++
		if seq := x.layout.Decode(taken.first).Sequence; int64(seq) != m.dice {
			x.fail("a tick begins with sequence %d, not %d", seq, m.dice)
		}
	}
	if inside := at >= 0 && now <= x.layout.maxTick(); !inside {
		if want := map[bool]error{true: ErrBeforeEpoch, false: ErrTimeExhausted}[at < 0]; !errors.Is(err, want) {
			x.fail("a clock outside of the layout: %v", err)
		}
	}
	behind := w.last > limit
	asked := v.behind != Backward{}
	switch {
	case !x.free() || held.n > 0:
	case v.step == stepWait && behind && !asked && err == nil:
		x.fail("it waits for a clock that went back, and the policy was not asked")
	case asked && !behind && !m.slow && !x.timed && taken.n > 0 && taken.tick <= now+1:
		x.fail("the policy is asked about a clock that did not go back")
	case begins && asked && !behind:
		x.fail("the policy is asked at once about a clock that did not go back")
	}
	if x.free() && !x.builtin && begins && now > max(w.g.seq.tick, w.last) && at >= 0 && now <= x.layout.maxTick() && (v.step != stepIssue || v.ids.tick != now) {
		x.fail("the tick has all its IDs, but the call gets none")
	}
	// What was chosen for a call that waited counts as stamped.
	if d := w.deal; (x.lease == granting || x.lease == changing) && x.ordered() && begins && !w.g.window.ended && w.g.seq.slots == nil &&
		d.from <= now && now < d.to && now > w.last && now >= w.floor && v.step != stepIssue {
		x.fail("the lease grants the tick, but the call gets no ID: step %d, %v", v.step, err)
	}
	if x.free() && v.step == stepWait && err == nil && !asked && begins {
		ahead, k := taken.tick-limit, int64(0)
		for i := range w.calls {
			if w.calls[i].open {
				k += w.calls[i].slot.n
			}
		}
		if size := x.layout.sequences(); !x.opts.RandomStart && ahead > k/size+1 {
			x.fail("it waits for %d ticks behind %d IDs", ahead, k)
		}
	}
	if x.timed {
		slept := w.calls[m.call].due + m.late
		if got := c.g.Stats().Waited - waited; err == nil && !begins && w.calls[m.call].watch.asleep && got != slept {
			x.fail("a wait of %v counts as %v", slept, got)
		}
	}
	want := uint64(0)
	if v.step == stepWait && err == nil && !(x.timed && w.calls[m.call].watch.cut) {
		want = 1
	}
	if got := c.g.Stats().Waits - waits; got != want {
		x.fail("%d waits are counted", got)
	}

	switch {
	case err != nil:
		x.checkError(err, c, now)
		x.finish(w, c, m, e, run{}, issued, found)
	case v.step == stepIssue:
		if v.ids.tick > limit {
			x.fail("ID %d has tick %d, ahead of the clock", v.ids.first, v.ids.tick)
		}
		if era != c.g.seq.era && consent.action == ActionWait {
			x.fail("the policy agreed to wait")
		}
		x.finish(w, c, m, e, v.ids, issued, found)
	case v.step == stepWait:
		x.outcomes["waits"]++
		x.checkWait(w, c, m, v, asked, at)
		x.proceed(w, c, m, v, e, issued, found)
	case v.step == stepAsk:
		x.outcomes["asks"]++
		x.checkPolicies(v.behind)
		for _, x.action = range x.actions {
			x.move.asked, x.move.action = true, x.action
			deals := []deal{{}}
			if x.action == ActionBump && x.lease != noLease && v.behind.CanBump {
				deals = x.bumped(c.deal, now)
			}
			for _, d := range deals {
				if x.deals = &d; x.lease != noLease {
					x.move.deal = &d
				}
				x.proceed(w, c.clone(), m, v, e, issued, found)
			}
		}
	case v.step == stepExtend:
		x.outcomes["extends"]++
		x.deals, x.move.deal = nil, nil
		x.proceed(w, c.clone(), m, v, e, issued, found)
		for _, d := range append(x.changes(c.deal), c.deal) {
			x.deals, x.move.deal = &d, &d
			x.proceed(w, c.clone(), m, v, e, issued, found)
		}
	default:
		x.fail("step %d", v.step)
	}
}

// lowered returns the IDs that were put back.
func (s *sequence) lowered() []run {
	if s.slots == nil {
		return nil
	}
	return s.slots.back
}

// proceed does what a step of a call has decided.
func (x *explorer) proceed(w, c *world, m move, v verdict, e edge, issued uint64, found func(*world, edge)) {
	f := &c.calls[m.call]
	x.world = c
	if v.step == stepWait {
		f.asks, f.due = 0, v.wait
	} else if err := c.g.proceed(context.Background(), &f.call, v); err != nil {
		x.checkError(err, c, 0)
		x.finish(w, c, m, e, run{}, issued, found)
		return
	}
	if !x.timed {
		f.patience = patience{}
		if f.watch.began {
			f.watch = watch{began: true}
		}
	}
	found(c, e)
}

// giveUp ends a call whose context is done.
func (x *explorer) giveUp(w *world, m move, found func(*world, edge)) {
	x.move = m
	c, f := x.ready(w, m)
	issued := c.g.seq.issued()
	r := c.g.begun(&f.call)
	if limit := x.tick(x.readings[m.at] + x.opts.BorrowAhead); r.n > 0 && r.tick > limit {
		x.fail("it gives up, and gets ID %d, ahead of the clock", r.first)
	}
	x.finish(w, c, m, edge{call: int8(m.call)}, r, issued, found)
}

// hot takes an ID as the calls of a built-in clock do while it stays in the tick, and lets time pass.
func (x *explorer) hot(w *world, found func(*world, edge)) {
	free := slices.IndexFunc(w.calls, func(f flight) bool { return !f.open })
	if w.g.fresh <= x.mono || free < 0 {
		return
	}
	x.move = move{what: "call %d takes an ID of the open tick", call: free, n: 1}
	c := w.clone()
	c.calls[free].open = true
	issued := c.g.seq.issued()
	c.g.wall.mono = x.mono
	if r := c.g.inTick(1); r.n > 0 {
		x.finish(w, c, x.move, edge{call: int8(free), begins: true}, r, issued, found)
	}
	x.move = move{what: "half a tick passes"}
	c = w.clone()
	c.g.fresh -= x.layout.Unit / 2
	found(c, edge{call: -1})
}

// finish ends a call, which returns r.
func (x *explorer) finish(w, c *world, m move, e edge, r run, issued uint64, found func(*world, edge)) {
	f := &c.calls[m.call]
	c.g.putBack(&f.call)
	*f = flight{}
	if got := c.g.seq.issued() - issued; got != uint64(r.n) {
		x.fail("%d IDs are returned, and %d are counted", r.n, got)
	}
	if r.n > 0 {
		e.first, e.n = r.first, r.n
		c.last = max(c.last, r.tick)
		if !x.ordered() || x.lease == cloneable {
			c.last = -1
		}
	} else if e.begins && !x.builtin && x.lease == noLease && x.key(c) != x.key(w) {
		x.fail("a call that returns an error has changed the state")
	}
	e.ends = true
	found(c, e)
}

// checkTaken checks IDs that a call has taken, to return them or to wait for them.
func (x *explorer) checkTaken(w, c *world, f *flight, r run, now int64) {
	l := x.layout
	if r.n < 1 || r.n > f.n || r.n > l.sequences() {
		x.fail("a call for %d IDs gets %d", f.n, r.n)
	}
	for k := range r.n {
		id := r.first + ID(k)*c.g.seq.stride
		p := l.Decode(id)
		if l.Check(id) != nil || x.tickOf(id) != r.tick || x.lease == noLease && p.Worker != exhaustWorker || p.Datacenter != 0 || p.Sequence != l.Decode(r.first).Sequence+int(k) {
			x.fail("fields touch: %d, %+v", id, p)
		}
		if id <= x.opts.After && x.opts.After > 0 {
			x.fail("ID %d, after %d", id, x.opts.After)
		}
	}
	lag := int64(0)
	if x.builtin && !x.hurried {
		lag = int64((maxLag + l.Unit - 1) / l.Unit)
	}
	if r.tick < now-lag {
		x.fail("ID %d has tick %d, and the clock reads %d", r.first, r.tick, now)
	}
}

// checkPlace checks that a call that waits, or takes IDs ahead of the clock, leaves out no ID. It returns an ID that
// was returned before then, or 0.
func (x *explorer) checkPlace(w, c *world, m move, v verdict, r run, now, limit int64, queue int) (full ID) {
	q := &w.g.seq
	if !x.free() {
		return 0
	}
	if w.calls[m.call].slot.n == 0 && queue == 0 {
		for i := range w.calls {
			if f := &w.calls[i]; f.open && i != m.call && f.slot.n > 0 && f.slot.first >= r.first {
				x.fail("ID %d overtakes %d", r.first, f.slot.first)
			}
		}
	}
	if v.step == stepWait && v.behind == (Backward{}) && r.tick <= limit {
		x.fail("it waits for tick %d, which it may stamp", r.tick)
	}
	first := r.first&(1<<x.layout.timeShift()-1) == q.fixed
	if before := r.tick - 1; first && v.behind == (Backward{}) && before >= now && before >= 0 {
		id := ID(before<<x.layout.timeShift()) | q.fixed | ID((x.layout.sequences()-1)<<x.layout.sequenceShift())
		for i := range w.calls {
			if f := &w.calls[i]; f.open && f.slot.n > 0 && f.slot.first <= id && id <= f.slot.first+ID(f.slot.n-1)*q.stride {
				return 0
			}
		}
		if id > x.opts.After {
			return id
		}
	}
	return 0
}

// checkWait checks how long a call waits.
func (x *explorer) checkWait(w, c *world, m move, v verdict, agreed bool, at time.Duration) {
	f := &c.calls[m.call]
	if f.slot.n == 0 { // for the end of a lease's window
		if v.wait <= 0 || v.wait > maxStall {
			x.fail("it waits for %v at the end of its window", v.wait)
		}
		return
	}
	due := time.Duration(f.slot.tick)*x.layout.Unit - x.opts.BorrowAhead - at
	if !x.free() && due <= 0 { // another call has rewound while this one waited, or the lease has closed the ticks after the one put back
		due = 0
	} else if v.wait <= 0 {
		x.fail("it waits for %v", v.wait)
	}
	if !x.timed {
		if want := min(due, maxStall); agreed && v.wait != due || !agreed && v.wait != want {
			x.fail("it waits for %v, and its tick begins in %v", v.wait, due)
		}
		if w.calls[m.call].open || x.lease != noLease {
			return
		}
		for _, short := range []time.Duration{0, 1} {
			c, f := x.ready(w, m)
			f.deadline = time.Now().Add(due - short)
			_, err := c.g.stepLocked(&f.call)
			if errors.Is(err, context.DeadlineExceeded) != (short > 0) && !agreed {
				x.fail("with a deadline in %v, %v less than its tick: %v", due-short, short, err)
			}
			if err != nil {
				*f = flight{}
				if x.key(c) != x.key(w) {
					x.fail("a call that is refused because of its deadline has changed the state")
				}
			}
		}
		return
	}
	if !w.calls[m.call].watch.began {
		f.total, f.from = 0, at
	}
	waited := f.total
	switch {
	case agreed:
		if f.first == 0 {
			f.first = v.wait
		}
		if f.agreed+v.wait > max(maxStall, 2*f.first) {
			x.fail("it waits for the clock for %v, and the first wait was to last %v", f.agreed+v.wait, f.first)
		}
	default:
		passed := at - f.from
		if waited >= maxStall && passed < waited/2 {
			x.fail("it goes on waiting for a clock that has moved by %v in %v", passed, waited)
		}
		if v.wait > max(maxStall-waited, waited, maxRetry) || v.wait > max(due, f.watch.retry) {
			x.fail("it does not look at the clock for %v, after %v", v.wait, waited)
		}
	}
	if waited > 64*x.layout.Unit+time.Second {
		x.fail("it waits without end")
	}
}

// checkPolicies checks the policies' answers.
func (x *explorer) checkPolicies(b Backward) {
	by := b.Last.Sub(b.Now)
	yes := func(can bool, a Action) Action {
		if can {
			return a
		}
		return ActionFail
	}
	for _, p := range []struct {
		policy BackwardPolicy
		want   Action
	}{
		{FailPolicy(), ActionFail}, {WaitPolicy(by - 1), ActionFail}, {WaitPolicy(by), ActionWait}, {WaitPolicy(by + 1), ActionWait},
		{ClockSeqPolicy(), yes(b.CanBump, ActionBump)}, {RewindPolicy(), yes(b.CanRewind, ActionRewind)},
	} {
		if got := p.policy.OnBackward(b); got != p.want {
			x.fail("%T answers %d to %+v", p.policy, got, b)
		}
	}
	if b.Now != x.reading || by <= 0 {
		x.fail("the policy is told %+v when the clock reads %v", b, x.reading)
	}
}

// checkError checks the error of a call.
func (x *explorer) checkError(err error, c *world, now int64) {
	for name, want := range map[string]error{"clock backward": ErrClockBackward, "time exhausted": ErrTimeExhausted, "before epoch": ErrBeforeEpoch, "deadline": context.DeadlineExceeded,
		"lease expired": ErrLeaseExpired} {
		if errors.Is(err, want) {
			x.outcomes[name]++
			if q := &c.g.seq; want == ErrTimeExhausted && now <= x.layout.maxTick() {
				x.outcomes["spent"]++
				if x.free() && (q.tick != x.layout.maxTick() || q.left > 0) {
					x.fail("%v, but IDs are left", err)
				}
			}
			return
		}
	}
	x.fail("an unexpected error: %v", err)
}

// facts is what is known of all ways to a state: which IDs were returned on one of them, which on each, the greatest
// ID that was returned on one, and the greatest that was returned before a call began.
type facts struct {
	some, each [4]uint64
	may        [4]uint64 // the IDs that the lease grants on each way
	top        ID
	began      [4]ID // -1 if the call has not begun, or nothing was returned before
}

func (f *facts) add(id ID) {
	f.some[id/64] |= 1 << (id % 64)
	f.each[id/64] |= 1 << (id % 64)
	f.top = max(f.top, id)
}

var everyID = [4]uint64{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}

func in(set [4]uint64, id ID) bool { return set[id/64]>>(id%64)&1 == 1 }

// join adds what is known of another way, and reports whether this says more.
func (f *facts) join(o facts) bool {
	was := *f
	for i := range f.some {
		f.some[i] |= o.some[i]
		f.each[i] &= o.each[i]
		f.may[i] &= o.may[i]
		f.began[i] = max(f.began[i], o.began[i])
	}
	f.top = max(f.top, o.top)
	return *f != was
}

// follow returns what is known after a move.
func (x *explorer) follow(f facts, e edge, stride ID) facts {
	f = x.grants(f, e)
	if e.begins {
		f.began[e.call] = f.top
	}
	for k := range e.n {
		f.add(e.first + ID(k)*stride)
	}
	if e.ends {
		f.began[e.call] = -1
	}
	return f
}

// grants returns f with what a move changes of the lease's grant.
func (x *explorer) grants(f facts, e edge) facts {
	for i := range f.may {
		f.may[i] &= x.sets[e.keep][i]
		if e.gain > 0 {
			f.may[i] |= x.sets[e.gain][i]
		}
	}
	return f
}

// settle finds the facts of all states, and checks the IDs that are returned.
func (x *explorer) settle() {
	stride := x.start().g.seq.stride
	all := make([]facts, len(x.edges))
	for i := range all {
		all[i] = facts{each: everyID, may: everyID, top: -1, began: [4]ID{-1, -1, -1, -1}}
	}
	start := &all[0]
	start.each = [4]uint64{}
	if x.lease != noLease {
		start.may = x.granted(x.start().deal)
	}
	for id := range x.opts.After + 1 { // of an earlier process
		if x.opts.After > 0 && x.layout.Decode(id).Worker == exhaustWorker {
			start.add(id)
		}
	}
	todo, waiting := []int32{0}, make([]bool, len(all))
	for len(todo) > 0 {
		i := todo[0]
		todo, waiting[i] = todo[1:], false
		for _, e := range x.edges[i] {
			if all[e.to].join(x.follow(all[i], e, stride)) && !waiting[e.to] {
				todo, waiting[e.to] = append(todo, e.to), true
			}
		}
	}
	for i := range all {
		for _, e := range x.edges[i] {
			x.checkEdge(int32(i), e, &all[i], stride)
		}
	}
}

// checkEdge checks the IDs that a move returns.
func (x *explorer) checkEdge(i int32, e edge, f *facts, stride ID) {
	for k := range e.n {
		if id := e.first + ID(k)*stride; in(f.some, id) {
			x.t.Fatalf("ID %d is issued twice\n%s", id, x.story(x.wayWith(i, e, func(o edge, seen uint8) uint8 {
				if o.n > 0 && o.first <= id && id <= o.first+ID(o.n-1)*stride {
					return 1
				}
				return seen
			}, 1)))
		}
		if id := e.first + ID(k)*stride; !in(x.grants(*f, e).may, id) {
			x.t.Fatalf("ID %d is not granted\n%s", id, x.story(x.wayWith(i, e, func(o edge, not uint8) uint8 {
				if o.gain > 0 && in(x.sets[o.gain], id) {
					return 0
				}
				if !in(x.sets[o.keep], id) {
					return 1
				}
				return not
			}, 1)))
		}
	}
	if e.end > 0 {
		for id := ID(e.end << x.layout.timeShift()); id < 1<<x.layout.bits(); id++ {
			if in(f.some, id) {
				x.t.Fatalf("ID %d was returned, and the generator says that it ended before tick %d\n%s", id, e.end, x.story(append(x.way(i), e.k)))
			}
		}
	}
	since := f.began[max(0, e.call)]
	if e.begins {
		since = f.top
	}
	if x.ordered() && e.n > 0 && e.first <= since {
		x.t.Fatalf("ID %d is returned, although %d was returned before the call began\n%s", e.first, since, x.story(x.wayWith(i, e, func(o edge, seen uint8) uint8 {
			if seen > 0 && o.begins && o.call == e.call {
				return 2
			}
			if o.n > 0 && o.first+ID(o.n-1)*stride == since {
				return 1
			}
			return seen
		}, map[bool]uint8{true: 1, false: 2}[e.begins])))
	}
	if e.full > 0 && !in(f.each, e.full) {
		x.t.Fatalf("ID %d is left over\n%s", e.full, x.story(append(x.way(i), e.k)))
	}
}

// wayWith returns the shortest way to a state on which see, told each move and what it returned last, has returned want
// in the end; then e.
func (x *explorer) wayWith(to int32, e edge, see func(edge, uint8) uint8, want uint8) (ks []int32) {
	type place struct {
		at   int32
		seen uint8
	}
	type from struct {
		place
		k int32
	}
	came := map[place]from{{}: {}}
	todo := []place{{}}
	for ; len(todo) > 0 && todo[0] != (place{to, want}); todo = todo[1:] {
		p := todo[0]
		for _, o := range x.edges[p.at] {
			next := place{o.to, see(o, p.seen)}
			if _, ok := came[next]; !ok {
				came[next] = from{p, o.k}
				todo = append(todo, next)
			}
		}
	}
	for p := (place{to, want}); p != (place{}); p = came[p].place {
		ks = append(ks, came[p].k)
	}
	slices.Reverse(ks)
	return append(ks, e.k)
}

// fewBits is a layout. In the full run, each tick has two IDs at least.
func fewBits(times, clockSeqs, sequences uint8, unit time.Duration) Layout {
	sequences = max(sequences, depth.Of[uint8](0, 1))
	return Layout{Epoch: DefaultEpoch, Unit: unit, TimeBits: times, ClockSeqBits: clockSeqs, WorkerBits: 1, SequenceBits: sequences, WorkerLast: clockSeqs == 0}
}

func TestEveryStateOfAFewBits(t *testing.T) {
	if depth.Race {
		t.Skip("one goroutine runs at a time; the other tests look for races")
	}
	const unit = 20 * time.Millisecond
	wait, bump, rewind := []Action{ActionFail, ActionWait}, []Action{ActionFail, ActionWait, ActionBump}, []Action{ActionFail, ActionWait, ActionRewind}
	all := []Action{ActionFail, ActionWait, ActionBump, ActionRewind}
	for _, s := range []scope{ // the largest last, because the first that finds a mutant ends the test
		{name: "in order", opts: Options{Layout: fewBits(2, 0, 0, unit)}, actions: wait, calls: 2, counts: []int64{1}, expect: "waits, clock backward, spent"},
		{name: "batches", opts: Options{Layout: fewBits(1, 0, 2, unit)}, actions: wait, calls: 2, counts: []int64{1, 3}, expect: "waits, clock backward, spent"},
		{name: "borrow ahead, after an ID", opts: Options{Layout: fewBits(2, 0, 1, unit), BorrowAhead: unit, After: 5}, actions: wait, calls: 2, counts: []int64{1, 2}, expect: "waits, clock backward, spent, borrowed"},
		{name: "random start", opts: Options{Layout: fewBits(2, 0, 2, unit), RandomStart: true}, actions: wait, calls: 1, counts: []int64{1, 3}, expect: "waits, clock backward, spent, random start"},
		{name: "a built-in clock", opts: Options{Layout: fewBits(2, 0, 0, 5*time.Millisecond)}, builtin: true, actions: wait, calls: 2, counts: []int64{1}, expect: "waits, clock backward, spent"},
		{name: "a built-in clock for which nobody waits", opts: Options{Layout: fewBits(2, 0, 2, 5*time.Millisecond)}, builtin: true, hurried: true, actions: wait[:1], calls: 1, counts: []int64{1, 3}, expect: "deadline, clock backward, spent"},
		{name: "clock sequences, after an ID", opts: Options{Layout: fewBits(2, 1, 0, unit), After: depth.Of[ID](7, 14)}, actions: bump, calls: 2, counts: []int64{1}, expect: "waits, clock backward, bumps"},
		{name: "rewind", opts: Options{Layout: fewBits(2, 0, 0, unit), RewindTicks: 2}, actions: rewind, calls: 2, counts: []int64{1}, expect: "waits, clock backward, rewinds"},
		{name: "clock sequences and rewind", opts: Options{Layout: fewBits(2, 1, 1, unit), RewindTicks: 2, After: 14}, actions: all, calls: 1, counts: []int64{1, 2}, expect: "waits, clock backward, bumps, rewinds"},
		{name: "a lease", opts: Options{Layout: fewBits(1, 0, 1, unit)}, lease: granting, actions: wait, calls: 1, counts: []int64{1}, expect: "waits, clock backward, lease expired"},
		{name: "a lease that extends", opts: Options{Layout: fewBits(1, 0, 1, unit)}, lease: changing, actions: wait, calls: 1, counts: []int64{1}, expect: "waits, clock backward, lease expired, extends"},
		{name: "a lease that changes its clock sequence", opts: Options{Layout: fewBits(1, 1, 1, unit)}, lease: changing, actions: bump, calls: 1, counts: []int64{1}, expect: "waits, clock backward, lease expired, extends, bumps"},
		{name: "a machine that is cloned", opts: Options{Layout: fewBits(1, 0, 1, unit)}, lease: cloneable, actions: wait, calls: 1, counts: []int64{1}, expect: "waits, clock backward, lease expired, extends"},
		{name: "the length of waits", opts: Options{Layout: fewBits(2, 0, 1, unit)}, timed: true, actions: wait, calls: 1, counts: []int64{1, 2}, expect: "waits, clock backward"},
		{name: "clock sequences", opts: Options{Layout: fewBits(2, 1, 0, unit)}, actions: bump, calls: 2, counts: []int64{1}, expect: "waits, clock backward, bumps"},
	} {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { exhaust(t, s) })
		})
	}
}

func exhaust(t *testing.T, s scope) {
	time.Sleep(time.Until(DefaultEpoch.Time().Add(24 * time.Hour)))
	x := &explorer{scope: s, t: t, layout: s.opts.Layout, mono: monotonic(), outcomes: outcomes{}}
	old := randomN
	defer func() { randomN = old }()
	randomN = x.roll
	ticks := x.layout.maxTick() + 1
	x.readings = append(x.readings, -1)
	for tick := range ticks {
		x.readings = append(x.readings, time.Duration(tick)*x.layout.Unit+time.Duration(tick%2)*x.layout.Unit/4)
	}
	x.readings = append(x.readings, time.Duration(ticks)*x.layout.Unit)
	x.sets = [][4]uint64{everyID, {}} // the first stands for no change
	x.queue, x.edges, x.paths = []*world{x.start()}, make([][]edge, 1), make([]step32, 1)
	x.explore()
	x.settle()
	for _, name := range strings.Split(s.expect, ", ") {
		assert.NotZero(t, x.outcomes[name], "%s: never happened", name)
	}
	n := 0
	for _, e := range x.edges {
		n += len(e)
	}
	t.Logf("%d states, %d different steps: %v", len(x.queue), n, x.outcomes)
}
