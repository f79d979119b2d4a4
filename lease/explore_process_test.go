//go:build go1.25

package lease

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/hold"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// process is a process of the world. While it does something, it is what it was when it rested
// last, and what it has heard since: to go on, it begins anew, hears that again, and asks for one
// thing more. So a copy of the struct is a copy of the process. What its fields lead to never
// changes.
type process struct {
	name     string
	options  Options
	views    bool // it reads the watermark, and holds nothing
	offset   time.Duration
	tasks    []task          // what it does now
	lease    *Lease          // as it was at rest; nil before it is acquired
	gen      []event         // of its generator
	watch    book.Watch      // as it was at rest
	sees     visible         // what others see of it now
	draws    int             // of dice, before what it does now
	tokens   int             // that it made before what it does now
	signed   map[string]bool // the tokens with which it has saved
	err      error
	begun    bool
	ending   bool // Release was called,
	releases bool // and the renewing has ended
	done     bool // Release, or the reader, has returned
	dead     bool
	idle     bool // it has no worker ID, and has sent no save
	listed   bool
	frees    bool // it has not had a first look yet at the worker IDs that it frees
	since    int  // when it began
	endedAt  int  // when Release was called
	shared   int  // when it last looked at the entry "silence"

	heardOf  int   // when it was saved last,
	late     int   // and when a save came late
	tried    sight // what the last call saw
	issued   int
	issuedAt int
	refused  error // why the last call issued nothing
	last     snowflake.ID
	windows  map[[2]int]snowflake.Grant // as granted last, by worker ID and clock sequence
	low      map[[2]int]time.Time       // the bounds that it found,
	saved    map[[2]int]time.Time       // and the latest that it saved

	events text  // what it has heard since it rested
	text   *text // of all this; nil if it is not known
}

// The tasks of a process.
const (
	keeper   = iota // acquires a lease and keeps it, or reads the watermark
	caller          // issues an ID
	releaser        // releases the lease
	freer           // frees worker IDs in the background, as do those that follow
)

// task is something that a process does, and what it has heard.
type task struct {
	begun book.Reading
	log   []reply
	open  *query    // what it asks for; nil if there is nothing to do
	heard *reply    // the answer is on its way,
	made  int       // since then
	due   int       // when it wakes up, if it rests
	tried []attempt // what it frees
	frees bool      // it rests until something was freed
	since int       // how much had happened to the generator when it began
}

// parked reports whether a request was not made yet.
func (t *task) parked() bool {
	return t.open != nil && t.heard == nil && (t.open.reads() || t.open.writes())
}

// rests reports whether the task rests. If open.do is "keep", the process is at rest.
func (t *task) rests() bool { return t.open != nil && (t.open.do == "rest" || t.open.do == "keep") }

// visible is what is seen of a process.
type visible struct {
	grant *granted
	shown *shown
	loss  error
	doubt bool // it has to read its record before it saves
	watch book.Watch
	drawn int
}

// sight is what a call sees.
type sight struct {
	own   int64
	grant snowflake.Grant
	mark  snowflake.ID
	ended bool
}

// atRest reports whether the process only waits for its next renewal.
func (p *process) atRest() bool {
	return !p.ending && p.tasks[keeper].open != nil && p.tasks[keeper].open.do == "keep" && !p.busy(caller)
}

// busy reports whether the tasks from one on do something.
func (p *process) busy(from int) bool {
	return slices.ContainsFunc(p.tasks[from:], func(t task) bool { return t.open != nil })
}

// up reports whether the process is up.
func (p *process) up() bool { return p.begun && !p.dead && !p.done && p.err == nil }

// calling reports whether a call of NextID is under way.
func (p *process) calling() bool { return p.tasks[caller].open != nil }

// grant returns what the process may issue.
func (p *process) grant() snowflake.Grant {
	if p.sees.grant == nil {
		return snowflake.Grant{}
	}
	return p.sees.grant.Grant
}

// replay is what a task does from its beginning on.
type replay struct {
	w       *world
	p       *process
	task    int
	reading book.Reading
	next    int  // of the replies
	over    bool // something has no answer yet, and what follows is thrown away
	keeps   bool // the process is at rest
	cancel  context.CancelFunc
	ctx     context.Context
	lease   *Lease
	hold    *hold.Hold
	watch   *book.Watch
	deals   *deals        // of the generator, if the task is a call
	looked  chan struct{} // closed after a first look at worker IDs to be freed
	draws   int
	tokens  int
}

// now is the replay under way.
var now *replay

// goOn lets a task of process i go on, with what it has heard.
func (w *world) goOn(i, n int) {
	p := w.procs[i]
	p.tasks[n].open, p.tasks[n].heard = nil, nil
	before := now
	r := &replay{w: w, p: p, task: n, reading: p.tasks[n].begun, draws: p.draws, tokens: p.tokens}
	now = r
	r.ctx, r.cancel = context.WithCancel(context.Background())
	switch {
	case n >= freer:
		r.frees()
	case p.views:
		r.views()
	case n == keeper:
		r.lives()
	case n == releaser:
		r.releases()
	default:
		r.issues()
	}
	r.cancel()
	now = before
	if t := &p.tasks[n]; !r.over || r.keeps {
		t.log, t.begun = nil, r.reading
		if n < freer {
			p.draws, p.tokens = r.draws, r.tokens
		}
	}
	p.settle()
	keeps, calls := &p.tasks[keeper], &p.tasks[caller]
	switch {
	case n >= freer && !p.frees && keeps.frees && keeps.open != nil:
		w.hears(i, keeper, reply{})
	case r.over && !r.keeps:
	case n == keeper && calls.open != nil && calls.open.do == "wait":
		calls.since = len(p.gen)
		w.hears(i, caller, reply{})
	case p.ending && !p.done && n < releaser && keeps.open == nil && calls.open == nil && p.tasks[releaser].open == nil && !p.releases:
		p.releases = true
		w.begins(i, releaser)
	}
}

// begins begins a task of process i.
func (w *world) begins(i, n int) {
	w.procs[i].tasks[n] = task{begun: w.reading(w.procs[i]), since: len(w.procs[i].gen)}
	w.goOn(i, n)
}

// hears lets process i hear a reply.
func (w *world) hears(i, n int, r reply) {
	p := w.procs[i]
	t := &p.tasks[n]
	r.reading = w.reading(p)
	r.reading.Over = p.ending && n != releaser
	if t.rests() {
		p.note(w, "wake", n)
	} else {
		p.note(w, "", n)
		p.events.reply(t.open, r)
	}
	t.log = append(slices.Clip(t.log), r)
	w.goOn(i, n)
}

// reading returns what the clocks of p read.
func (w *world) reading(p *process) book.Reading {
	return book.Reading{Own: w.time().Add(p.offset), Moment: protocol.Moment{At: w.time()}}
}

// replied returns the next reply of the log.
func (r *replay) replied() (reply, bool) {
	t := &r.p.tasks[r.task]
	if r.over || r.next == len(t.log) {
		return reply{}, false
	}
	a := t.log[r.next]
	r.next++
	if r.reading = a.reading; r.reading.Over { // Release was called
		r.cancel()
		if r.deals != nil {
			r.deals.binding.Stop(ErrReleased)
		}
	}
	return a, true
}

// opens ends the replay with a request that has no answer.
func (r *replay) opens(q query) *task {
	r.over = true
	r.sees()
	if r.looked != nil && isClosed(r.looked) {
		r.p.frees = false
	}
	t := &r.p.tasks[r.task]
	t.open = &q
	r.cancel()
	return t
}

// sees notes what is seen of the process. While it renews, a call sees no more than that.
func (r *replay) sees() {
	p := r.p
	if r.task >= freer || r.task == caller && !p.keeps() {
		return
	}
	p.sees.drawn = r.draws
	if l := r.lease; l != nil {
		h := r.holds()
		p.sees.grant, p.sees.shown, p.sees.loss, p.sees.doubt = l.grant.Load(), l.shown.Load(), l.trouble(), h != nil && h.Doubt != hold.Sure
		if l.grant.Load() == nil {
			p.sees.doubt = false
		}
	}
	if w := r.watch; w != nil {
		p.sees.watch = book.Watch{Seen: w.Seen.Clone(), Kept: w.Kept}
	}
}

// holds returns the hold, also while it is not in its slot.
func (r *replay) holds() *hold.Hold {
	select {
	case h := <-r.lease.slot:
		r.lease.slot <- h
		if h != nil {
			r.hold = h
		}
	default:
	}
	return r.hold
}

// ask is the way to the store.
func (r *replay) ask(_ context.Context, q *query) error {
	if q.do == "now" {
		if r.w.clockless {
			return errors.ErrUnsupported
		}
		q.entries = []Entry{{Time: r.reading.At}}
		return nil
	}
	if a, ok := r.replied(); ok {
		q.entries = a.entries
		return a.err
	}
	w, p := r.w, r.p
	switch {
	case r.over:
		return errOpen
	case w.calm(q.key):
		a := w.make(p, *q)
		if q.key == book.SilenceKey {
			p.shared = w.now
		}
		r.notes(a)
		if w.copies {
			p.told(q, a)
		}
		q.entries = a.entries
		return a.err
	}
	p.idle = p.idle && !q.writes()
	p.listed = p.listed || q.do == "list"
	r.opens(*q)
	return errOpen
}

// noTimer is the timer of all rests.
var noTimer = time.NewTimer(1e6 * time.Hour)

// newRest is machine.NewTimer for a replay. It ends the replay, or lets the rest be over.
func newRest(d time.Duration) *time.Timer {
	r := now
	fires := make(chan time.Time, 1)
	fires <- time.Time{}
	noTimer.C = fires
	if _, ok := r.replied(); ok || r.over {
		return noTimer
	}
	w, p := r.w, r.p
	l := r.lease
	if !p.frees && r.waitsForFreed(d) {
		r.notes(reply{})
		return noTimer
	}
	if p.idle { // what a search has read is forgotten when it rests
		p.forget()
	}
	q := query{do: "rest"}
	if r.keeps = r.task == keeper && l.grant.Load() != nil && l.trouble() == nil; r.keeps {
		q.do = "keep"
	}
	t := r.opens(q)
	if t.due = w.now; d > w.layout().Unit*time.Duration(w.span())/6 || !r.keeps {
		t.due += max(1, int((d+tick-1)/tick))
	}
	if t.frees = r.waitsForFreed(d); len(l.asked) > 0 {
		t.due = w.now
	}
	if r.keeps {
		r.rests()
	}
	return noTimer
}

// waitsForFreed reports whether a rest of d ends when worker IDs were given back (Lease.gaveBack).
func (r *replay) waitsForFreed(d time.Duration) bool {
	return r.task == keeper && (d == r.lease.o.patience() || d == farewell)
}

// notes adds a reply that comes at once.
func (r *replay) notes(a reply) {
	a.reading = r.reading
	t := &r.p.tasks[r.task]
	t.log = append(slices.Clip(t.log), a)
	r.next++
}

// rests keeps the lease as it is.
func (r *replay) rests() {
	l := r.lease
	r.p.lease, r.p.watch, r.p.idle = l, r.p.sees.watch, false
	l.log.lostAt = time.Time{}
}

// throw is dice for a replay. It chooses each worker ID in turn; the story says which is first. It
// makes no rest shorter.
func throw(n int64) int64 {
	if now != nil && n == int64(now.w.workers) && n > 1 {
		now.draws++
		return int64(now.draws) % n
	}
	return 0
}

// newText is machine.RandomText for a replay.
func newText() string {
	now.tokens++
	return now.p.name + strconv.Itoa(now.tokens)
}

// copies makes the lease of the replay, as the process's was at rest.
func (r *replay) copies() *Lease {
	p := r.p
	l := newLease(asks(r.ask), p.options)
	r.lease, r.watch = l, &l.known.Watch
	if was := p.lease; was != nil {
		r.copiesCopy(was)
		l.known, l.log = was.known, was.log
		l.known.lost = maps.Clone(was.known.lost)
		l.err, l.loss, l.failing, l.cause, l.caused = was.err, was.loss, was.failing, was.cause, was.caused
		l.wiped, l.stats = was.wiped, was.stats
		l.grant.Store(was.grant.Load())
		h := <-was.slot
		was.slot <- h
		<-l.slot
		if h != nil {
			is := *h
			r.hold, h = &is, &is
		}
		l.give(h)
		l.bound = r.binding()
	}
	l.known.Watch = book.Watch{Seen: p.watch.Seen.Clone(), Kept: p.watch.Kept}
	return l
}

// lives acquires a lease, as Acquire does, and keeps it.
func (r *replay) lives() {
	p, l := r.p, r.copies()
	if p.lease == nil {
		if p.err = l.again(r.ctx, r.opensCopy); p.err == nil {
			p.err = l.again(r.ctx, l.obtain)
		}
		if p.err != nil || r.over {
			if r.over {
				p.err = nil
			}
			return
		}
		l.begin()
		p.gen = []event{{grant: l.Grant(), own: r.reading.Own}}
		l.bound = r.binding()
	}
	l.run(r.ctx)
	if !r.over {
		r.sees()
		r.rests()
	}
}

// releases calls Release. The renewing has ended.
func (r *replay) releases() {
	l := r.copies()
	close(l.ended)
	err := l.Release(r.ctx)
	if !r.over {
		r.sees()
		r.p.lease, r.p.err, r.p.done = l, err, true
	}
}

// views reads the watermark.
func (r *replay) views() {
	w, p := r.w, r.p
	reader := NewWatermarkReader(asks(r.ask))
	r.watch = <-reader.slot
	if p.watch.Seen != nil {
		*r.watch = book.Watch{Seen: p.watch.Seen.Clone(), Kept: p.watch.Kept}
	}
	reader.slot <- r.watch
	m, err := reader.Read(r.ctx)
	if r.over {
		return
	}
	r.sees()
	if p.watch, p.done = p.sees.watch, true; err != nil {
		return
	}
	w.tell("%s gets the watermark %s", p.name, w.at(w.layout().Decode(m.ID).Time))
	if m.ID < w.mark {
		w.breaks("the watermark falls from %s to %s", w.at(w.layout().Decode(w.mark).Time), w.at(w.layout().Decode(m.ID).Time))
	}
	w.mark = max(w.mark, m.ID)
}

// frees frees worker IDs in the background.
func (r *replay) frees() {
	t := &r.p.tasks[r.task]
	l := newLease(asks(r.ask), r.p.options)
	r.lease = l
	r.looked = make(chan struct{})
	if r.opensCopy(r.ctx) != nil {
		return
	}
	if l.freeAll(r.ctx, slices.Clone(t.tried), r.looked); !r.over {
		r.p.frees = false
	}
}

// freed is freeLater for a replay.
func freed(_ context.Context, _ *Lease, tried []attempt, _ chan<- struct{}) {
	r := now
	if _, ok := r.replied(); ok || r.over {
		return
	}
	r.notes(reply{})
	p := r.p
	p.frees = true
	p.tasks = append(p.tasks, task{begun: r.reading, tried: slices.Clone(tried)})
	r.w.goOn(slices.Index(r.w.procs, p), len(p.tasks)-1)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// issues calls NextID.
func (r *replay) issues() {
	w, p := r.w, r.p
	l := r.copies()
	l.grant.Store(p.sees.grant)
	l.shown.Store(p.sees.shown)
	mark, was := w.mark, l.Grant()
	e := event{what: issued, grant: was, own: r.reading.Own}
	g, d := r.generator(p.tasks[caller].since)
	d.lease, r.deals = l, d
	id, err := g.NextIDContext(soon{context.Background()})
	if r.over {
		return
	}
	if d.bumped {
		e.then, e.thenOwn = l.Grant(), r.reading.Own
		r.sees()
		r.rests()
		if len(l.asked) > 0 {
			p.tasks[keeper].due = w.now
		}
	}
	if p.refused, e.id = err, id; err == nil || e.then.ClockSeq != was.ClockSeq && d.bumped {
		p.happens(e)
	}
	if err != nil {
		return
	}
	p.issued++
	parts := w.layout().Decode(id)
	w.tell("%s issues an ID: worker ID %d, clock sequence %d, time %s", p.name, parts.Worker, parts.ClockSeq, w.at(parts.Time))
	if by, ok := w.ids[id]; ok {
		w.breaks("%s and %s have issued the same ID, %d", by, p.name, id)
	}
	if w.seqBits == 0 && id <= p.last {
		w.breaks("%s issues %d after %d", p.name, id, p.last)
	}
	if mark > 0 {
		w.marked(p, id, mark, was)
	}
	w.ids, p.last = with(w.ids, id, p.name), id
}

// with returns a copy of m with another value.
func with[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	c := make(map[K]V, len(m)+1)
	maps.Copy(c, m)
	c[key] = value
	return c
}

// reads returns the first task that waits for the answer to a read, or none.
func (p *process) reads() int {
	return slices.IndexFunc(p.tasks, func(t task) bool { return t.parked() && !t.open.writes() })
}

// sight returns what a call would see.
func (p *process) sight(w *world) sight {
	if p.ending {
		return sight{ended: true}
	}
	return sight{w.reading(p).Own.Unix(), p.grant(), w.mark, false}
}

// options returns what a process gives to Acquire.
func (w *world) options(name string) Options {
	o := Options{Layout: w.layout(), Owner: name[:1], Window: tick * time.Duration(w.span()), Count: w.workers, MaxLeap: 1000 * time.Hour,
		Clock: snowflake.ClockFunc(func() time.Time { return now.reading.Own })}
	if w.copies {
		o.Reuse, o.LocalCopy = ReuseKeep, "copy"
	}
	o, err := o.withDefaults(0)
	o.named = false // the worlds are small enough: an owner's entry is a hint, also with a note of a namesake
	if err != nil {
		panic(err)
	}
	return o
}

// reply is an answer of a store, and what the clocks read when it came.
type reply struct {
	entries []Entry
	err     error
	reading book.Reading
	floor   time.Time // of the generator
}

var errOpen = errors.New("there is no answer yet")
