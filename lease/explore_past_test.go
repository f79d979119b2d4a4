//go:build go1.25

package lease

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/contract"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/tenure"
)

// past is all that a process got so far, and what it has done then. What a process does depends on
// its past alone, so each past is lived through once, however many worlds have a process with it.
type past struct {
	id     [16]byte
	of     *process // as it was made
	before *past    // nil if the process has not begun
	got    input
	life   *life // the process, if it has got nothing since

	open    *request // of the task that got the input; nil if the task has ended
	outcome          // of the task, if it has ended

	rested    *text                    // the lease at its last rest (text.lease); nil before the first
	gen       []event                  // what happened to the generator
	drawn     int                      // number of dice thrown
	granted   *granted                 // nil before the first grant
	loss      error                    // why the worker ID was lost
	doubt     bool                     // whether the lease reads its record before it saves
	searching time.Time                // known.searching
	seen      map[string]book.Sighting // book.Watch.Seen
	kept      book.Silences            // book.Watch.Kept
}

// input is what a task of a process gets: an order to begin, or a reply.
type input struct {
	task int
	luck int // worker ID that is looked at first
	reply
}

// reply is an answer of the store.
type reply struct {
	entries []Entry
	err     error
	reading book.Reading // clocks when it came
}

// request is what a task waits for: a reply of the store, or something else.
type request struct {
	query
	copy bool          // whether the local copy is asked
	d    time.Duration // of a rest
}

// What a task may wait for besides replies.
const (
	rest  = "rest"  // the end of a rest
	freed = "freed" // the end of a rest, or that worker IDs were freed
	keep  = "keep"  // the end of a rest of the lease
	slot  = "slot"  // a tenure in the slot
	frees = "frees" // that another task has begun to free worker IDs
)

// outcome is what has come of a task.
type outcome struct {
	err    error
	id     snowflake.ID // that was issued, or the watermark
	rests  bool         // whether the lease is at rest now
	hurry  bool         // whether a call has asked for a renewal
	looked bool         // whether a task that frees worker IDs has looked at all of them once
}

// event is what has happened to a generator. The first event is that it was made.
type event struct {
	what    happening
	grant   snowflake.Grant // at that time
	own     time.Time       // reading of the clock
	id      snowflake.ID
	then    snowflake.Grant // after the clock sequence was changed; zero if it was not
	thenOwn time.Time       // reading of the clock after that
}

type happening uint8

const (
	made    happening = iota
	floored           // the lease asked for the floor
	looked            // the lease made it look
	stopped           // the lease stopped it
	issued            // it issued an ID, or none but had its clock sequence changed
)

func (e event) bumped() bool { return !e.then.To.IsZero() }

// pasts has the pasts of all processes of a scope.
type pasts struct {
	*scope
	of    map[[16]byte]*past
	lives []*life // the oldest first
}

// maxLives bounds the number of processes that are kept. Each has a coroutine for each task.
const maxLives = 200

// then returns the past of a process with the past before that gets an input.
func (all *pasts) then(before *past, in input) *past {
	id := in.hash(before.id)
	p, ok := all.of[id]
	if !ok {
		p = &past{id: id, of: before.of, before: before, got: in, life: before.life}
		if before.life = nil; p.life == nil {
			p.life = all.relive(before)
		}
		p.life.live(p)
		all.of[id] = p
	}
	return p
}

// relive returns a process that has lived through p.
func (all *pasts) relive(p *past) *life {
	if p.before == nil {
		if len(all.lives) == maxLives {
			all.lives[0].end()
			all.lives = all.lives[1:]
		}
		l := &life{scope: all.scope, at: p, of: p.of, tasks: map[int]*coroutine{}}
		all.lives = append(all.lives, l)
		return l
	}
	l := all.relive(p.before)
	again := *p
	l.live(&again)
	return l
}

// end ends all processes.
func (all *pasts) end() {
	for _, l := range all.lives {
		l.end()
	}
}

// hash returns the hash of the past that follows one with the hash before.
func (in *input) hash(before [16]byte) [16]byte {
	b := fmt.Append(before[:], in.task, " ", in.luck, " ", in.reading.Own.UnixNano(), " ", in.reading.At.UnixNano(), " ", in.reading.Over, in.err)
	for _, e := range in.entries {
		b = fmt.Appendf(b, "\n%s %s %d %s", e.Key, e.Version, e.Time.UnixNano(), e.Value)
	}
	return hash(b)
}

func hash(bytes []byte) [16]byte {
	sum := sha256.Sum256(bytes)
	return [16]byte(sum[:16])
}

// life is a process that is under way.
type life struct {
	*scope
	at      *past
	of      *process
	draws   int          // number of dice thrown
	tokens  int          // number of random texts made
	reading book.Reading // clocks now
	tasks   map[int]*coroutine
	is      *coroutine // task that runs
	outcome            // of that task

	lease     *Lease
	tenure    *tenure.Tenure // that was in the slot last
	rested    *text
	reader    *WatermarkReader
	watch     *book.Watch
	generator *snowflake.Generator
	gen       []event
	was       snowflake.Grant // when the task continued
	bumped    bool            // whether the call under way called Bump
	wakes     bool            // whether the lease at rest wakes up
	tried     []attempt       // what the next task frees
}

// coroutine is a task that is under way.
type coroutine struct {
	task   int
	ctx    context.Context
	cancel context.CancelFunc
	reply  reply
	next   func() (*request, bool)
	stop   func()
	yield  func(*request) bool
	looked chan struct{} // closed when the task has looked at all worker IDs that it frees
	last   *request      // with which it ends
}

// now is the process that runs.
var now *life

var errEnds = errors.New("the coroutine ends")

// live gives the process the input of p, and sets in p what it does then.
func (l *life) live(p *past) {
	defer func(before *life) { now = before }(now)
	l.at, now = p, l
	t, ok := l.tasks[p.got.task]
	if !ok {
		t = l.begin(p.got)
	}
	if t.reply, l.reading = p.got.reply, p.got.reading; l.reading.Over { // Release was called
		t.cancel()
	}
	l.is, l.outcome = t, outcome{}
	if l.lease != nil {
		l.was = l.lease.Grant()
	}
	if p.open, ok = t.next(); !ok {
		t.cancel()
		p.open = t.last
		delete(l.tasks, t.task)
	}
	select {
	case <-t.looked:
		l.looked = true
	default:
	}
	l.show(p)
}

// begin begins a task.
func (l *life) begin(in input) *coroutine {
	t := &coroutine{task: in.task, looked: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	do := map[int]func(context.Context){keeper: l.keep, caller: l.call, releaser: l.release, stopper: l.stop}[in.task]
	switch {
	case do == nil:
		do = l.free
	case l.of.reader:
		do = l.view
	}
	if in.task == keeper && l.lease == nil {
		l.draws = in.luck
	}
	t.next, t.stop = iter.Pull(func(yield func(*request) bool) {
		defer func() {
			if r := recover(); r != nil && r != errEnds {
				panic(r)
			}
		}()
		t.yield = yield
		do(t.ctx)
	})
	l.tasks[in.task] = t
	return t
}

// end ends all tasks.
func (l *life) end() {
	defer func(before *life) { now = before }(now)
	now = l
	for _, t := range l.tasks {
		t.stop()
		t.cancel()
	}
	if l.at.life == l {
		l.at.life = nil
	}
}

// show sets what can be seen of the process.
func (l *life) show(p *past) {
	p.outcome, p.rested, p.gen, p.drawn = l.outcome, l.rested, l.gen, l.draws
	if l.lease != nil {
		select {
		case h := <-l.lease.slot:
			l.lease.slot <- h
			l.tenure = cmp.Or(h, l.tenure)
		default: // the tenure is being changed
		}
		p.searching = l.lease.known.searching
		p.granted, p.loss = l.lease.grant.Load(), l.lease.trouble()
		p.doubt = p.granted != nil && l.tenure != nil && l.tenure.Doubt != tenure.Sure
	}
	if l.watch != nil {
		p.kept = l.watch.Kept
		if p.seen = p.before.seen; !maps.Equal(p.seen, l.watch.Seen.Of) {
			p.seen = maps.Clone(l.watch.Seen.Of)
		}
	}
}

// wait waits for a reply to a request.
func (l *life) wait(q *request) reply {
	if !l.is.yield(q) {
		panic(errEnds)
	}
	return l.is.reply
}

// ask makes a request to the store, and askCopy to the local copy.
func (l *life) ask(_ context.Context, q *query) error {
	if q.do == "now" {
		if l.clockless {
			return errors.ErrUnsupported
		}
		q.entries = []Entry{{Time: l.reading.At}}
		return nil
	}
	a := l.wait(&request{query: *q})
	q.entries = a.entries
	return a.err
}

func (l *life) askCopy(_ context.Context, q *query) error {
	a := l.wait(&request{query: *q, copy: true})
	q.entries = a.entries
	return a.err
}

// noTimer is the timer of all rests.
var noTimer = time.NewTimer(1e6 * time.Hour)

// rest is machine.NewTimer. It returns when the rest has ended. The lease at rest ends its task,
// which begins again when it wakes up, so that nothing counts but what the lease knows then.
func (l *life) rest(d time.Duration) *time.Timer {
	q := &request{query: query{do: rest}, d: d}
	switch {
	case l.wakes:
		l.wakes = false
		return over()
	case l.is.task != keeper:
	case l.lease.grant.Load() != nil && l.lease.trouble() == nil:
		q.do = keep
		l.save()
		l.is.last = q
		panic(errEnds)
	case d == l.lease.o.patience() || d == farewell: // Lease.gaveBack
		q.do = freed
	}
	l.wait(q)
	return over()
}

// over returns a timer that has fired.
func over() *time.Timer {
	fires := make(chan time.Time, 1)
	fires <- time.Time{}
	noTimer.C = fires
	return noTimer
}

// save keeps what the lease at rest knows.
func (l *life) save() {
	l.rested, l.rests = new(text), true
	l.rested.lease(l.lease)
}

// throw is machine.Dice. It chooses each worker ID in turn, beginning with the step's choice, and
// makes no rest shorter.
func throw(n int64) int64 {
	if now != nil && n == int64(now.workers) && n > 1 {
		now.draws++
		return int64(now.draws) % n
	}
	return 0
}

// newText is machine.RandomText.
func newText() string {
	now.tokens++
	return now.of.name + strconv.Itoa(now.tokens)
}

// options returns what a process gives to Acquire.
func (s *scope) options(name string) Options {
	o := Options{Layout: s.layout(), Owner: name[:1], Window: tick * time.Duration(s.span()), Count: s.workers, MaxLeap: 1000 * time.Hour,
		Clock: snowflake.ClockFunc(func() time.Time { return now.reading.Own })}
	if s.copies {
		o.Reuse, o.LocalCopy = ReuseKeep, "copy"
	}
	o, err := o.withDefaults(0)
	if err != nil {
		panic(err)
	}
	o.named = false // so that no process looks for a namesake; the worlds would be too large
	return o
}

// open returns a new lease. It opens the local copy, as Acquire does.
func (l *life) open(ctx context.Context, is *Lease) (err error) {
	if l.copies {
		is.store, err = withLocalCopy(ctx, asks(l.ask), asks(l.askCopy), &is.o)
	}
	return err
}

// keep acquires a lease, as Acquire does, and keeps it.
func (l *life) keep(ctx context.Context) {
	if l.lease == nil {
		is := newLease(asks(l.ask), l.of.options)
		l.lease, l.watch = is, &is.known.Watch
		err := is.again(ctx, func(ctx context.Context) error { return l.open(ctx, is) })
		if err == nil {
			err = is.again(ctx, is.obtain)
		}
		if l.err = err; err != nil {
			return
		}
		is.grantFirst()
		l.make()
	} else {
		l.wakes, l.lease.ended = true, make(chan struct{})
	}
	l.lease.run(ctx)
	l.save()
}

// release calls Release. The renewing has ended.
func (l *life) release(ctx context.Context) {
	l.err = l.lease.Release(ctx)
	l.save()
}

// stop does what Release does at first, whatever is under way.
func (l *life) stop(context.Context) {
	l.lease.generator.Stop(ErrReleased)
	l.lease.finish(ErrReleased)
}

// view reads the watermark.
func (l *life) view(ctx context.Context) {
	if l.reader == nil {
		l.reader = NewWatermarkReader(asks(l.ask))
		l.watch = <-l.reader.slot
		l.reader.slot <- l.watch
	}
	m, err := l.reader.Read(ctx)
	l.id, l.err = m.ID, err
}

// free frees worker IDs in the background.
func (l *life) free(ctx context.Context) {
	is, tried := newLease(asks(l.ask), l.of.options), l.tried
	if l.open(ctx, is) != nil {
		return
	}
	is.freeAll(ctx, tried, l.is.looked)
}

// freeInWorld is freeLater.
func freeInWorld(_ context.Context, _ *Lease, tried []attempt, _ chan<- struct{}) {
	now.tried = slices.Clone(tried)
	now.wait(&request{query: query{do: frees}})
}

// call calls NextID.
func (l *life) call(context.Context) {
	e := event{what: issued, own: l.reading.Own}
	l.bumped = false
	id, err := l.generator.NextIDContext(soon{context.Background()})
	l.id, l.err, e.id, e.grant = id, err, id, l.was
	if l.bumped {
		e.then, e.thenOwn = l.lease.Grant(), l.reading.Own
		l.save()
		select {
		case <-l.lease.asked:
			l.hurry = true
		default:
		}
	}
	if err == nil || l.bumped && e.then.ClockSeq != e.grant.ClockSeq {
		l.happened(e)
	}
}

// soon is a context that ends soon, but never says so.
type soon struct{ context.Context }

func (soon) Deadline() (time.Time, bool) { return time.Now().Add(time.Millisecond), true }

// lent is the lease as the generator of the process has it.
type lent struct {
	private
	*life
}

var errHasty = errors.New("not now")

func (l lent) Grant() snowflake.Grant { return l.lease.Grant() }

// Extend refuses, so that the generator does not wait for more than it has.
func (l lent) Extend(context.Context, snowflake.Grant, time.Time) error { return errHasty }

func (l lent) CanBump(t time.Time) bool { return served{l.lease}.CanBump(t) }

func (l lent) Bump(ctx context.Context, g snowflake.Grant, t time.Time) error {
	l.wait(&request{query: query{do: slot}})
	l.bumped = true
	return served{l.lease}.Bump(ctx, g, t)
}

// make makes the generator, and notes what the lease tells it.
func (l *life) make() {
	g := lent{life: l}
	g.private = contract.Keep(&terms{Bind: func(b binding) error {
		tells := func(what happening) { l.happened(event{what: what, grant: l.lease.Grant(), own: l.reading.Own}) }
		l.lease.generator = binding{
			Layout: b.Layout,
			Floor:  func() time.Time { defer tells(floored); return b.Floor() },
			Look:   func() { defer tells(looked); b.Look() },
			Stop:   func(cause error) time.Time { defer tells(stopped); return b.Stop(cause) },
		}
		return nil
	}})
	o := &snowflake.Options{Layout: l.layout(), OnBackward: snowflake.FailPolicy(), Clock: l.of.options.Clock}
	if l.seqBits > 0 {
		o.OnBackward = snowflake.ClockSeqPolicy()
	}
	l.gen = []event{{grant: l.lease.Grant(), own: l.reading.Own}}
	var err error
	if l.generator, err = snowflake.NewLeased(g, o); err != nil {
		panic(err)
	}
}

// happened adds an event. A floor takes the place of those before it that were not higher.
func (l *life) happened(e event) {
	from := 1
	for i, was := range l.gen {
		if was.bumped() || was.what != floored && was.what != issued {
			from = i + 1
		}
	}
	all := slices.Clone(l.gen)
	if e.what == floored {
		kept := slices.DeleteFunc(all[from:], func(was event) bool {
			return was.what == floored && was.grant.Worker == e.grant.Worker && was.grant.ClockSeq == e.grant.ClockSeq && !was.own.After(e.own) &&
				!was.grant.From.After(e.grant.From) && !was.grant.To.After(e.grant.To)
		})
		all = all[:from+len(kept)]
	}
	l.gen = append(all, e)
}
