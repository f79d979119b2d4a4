//go:build go1.25

package lease

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/localcopy"
	"github.com/seed-5394e6b1/snowflake/lease/internal/tenure"
)

// replay repeats what a task did, with the replies of its log, and continues it up to the next
// request or rest.
type replay struct {
	w       *world
	p       *process
	task    int
	reading book.Reading // clocks now
	next    int          // number of replies that the task has got again
	over    bool         // whether the log has ended; what follows is discarded
	rested  bool         // whether the lease is at rest
	ctx     context.Context
	cancel  context.CancelFunc
	lease   *Lease
	tenure  *tenure.Tenure
	watch   *book.Watch
	lent    *lent         // lease of the generator, if the task is a call
	looked  chan struct{} // closed after a first look at the worker IDs to be freed
	draws   int           // number of dice thrown
	tokens  int           // number of random texts made
}

// now is the replay under way.
var now *replay

var errOpen = errors.New("there is no answer yet")

// run replays the task.
func (r *replay) run() {
	defer func(before *replay) { now = before }(now)
	now = r
	r.ctx, r.cancel = context.WithCancel(context.Background())
	defer r.cancel()
	switch {
	case r.task >= freer:
		r.free()
	case r.p.reader:
		r.view()
	case r.task == keeper:
		r.keep()
	case r.task == releaser:
		r.release()
	default:
		r.call()
	}
}

// replied returns the next reply of the log. ok is false if the log ends here. Once the replay is
// over, replied returns errOpen.
func (r *replay) replied() (a reply, ok bool) {
	t := &r.p.tasks[r.task]
	if r.over {
		return reply{err: errOpen}, true
	}
	if r.next == len(t.log) {
		return reply{}, false
	}
	a = t.log[r.next]
	r.next++
	if r.reading = a.reading; r.reading.Over { // Release was called
		r.cancel()
		if r.lent != nil {
			r.lent.binding.Stop(ErrReleased)
		}
	}
	return a, true
}

// add adds a reply that comes at once.
func (r *replay) add(a reply) {
	a.reading = r.reading
	t := &r.p.tasks[r.task]
	t.log = append(slices.Clip(t.log), a)
	r.next++
}

// end ends the replay with a request that has no reply, or a rest.
func (r *replay) end(q query) *task {
	r.over = true
	r.show()
	select {
	case <-r.looked:
		r.p.frees = false
	default:
	}
	r.cancel()
	t := &r.p.tasks[r.task]
	t.open = &q
	return t
}

// ask makes a request to the store.
func (r *replay) ask(_ context.Context, q *query) error {
	w, p := r.w, r.p
	if q.do == "now" {
		q.entries = []Entry{{Time: r.reading.At}}
		if w.clockless {
			return errors.ErrUnsupported
		}
		return nil
	}
	a, ok := r.replied()
	switch {
	case ok:
	case w.calm(q.key):
		a = w.serveFor(p, *q)
		if q.key == book.SilenceKey {
			p.shared = w.now
		}
		r.add(a)
		if w.copies {
			p.note(q, q.key, a)
		}
	default:
		p.idle = p.idle && !q.writes()
		p.listed = p.listed || q.do == "list"
		r.end(*q)
		a.err = errOpen
	}
	q.entries = a.entries
	return a.err
}

// askCopy makes a request to the local copy.
func (r *replay) askCopy(_ context.Context, q *query) error {
	a, ok := r.replied()
	if !ok {
		a = r.w.serveCopy(r.p, *q)
		r.add(a)
		r.p.note(q, q.key, a)
	}
	q.entries = a.entries
	return a.err
}

// noTimer is the timer of all rests.
var noTimer = time.NewTimer(1e6 * time.Hour)

// rest is machine.NewTimer. Its timer fires at once, because the replay ends if the rest goes on.
func (r *replay) rest(d time.Duration) *time.Timer {
	fires := make(chan time.Time, 1)
	fires <- time.Time{}
	noTimer.C = fires
	if _, ok := r.replied(); ok {
		return noTimer
	}
	w, p, l := r.w, r.p, r.lease
	forFreed := r.task == keeper && (d == l.o.patience() || d == farewell) // Lease.gaveBack
	if forFreed && !p.frees {
		r.add(reply{})
		return noTimer
	}
	if p.idle {
		p.forget()
	}
	q := query{do: rest}
	if r.rested = r.task == keeper && l.grant.Load() != nil && l.trouble() == nil; r.rested {
		q.do = keep
	}
	t := r.end(q)
	if t.due = w.now; d > w.layout().Unit*time.Duration(w.span())/6 || !r.rested {
		t.due += max(1, int((d+tick-1)/tick))
	}
	if t.forFreed = forFreed; len(l.asked) > 0 {
		t.due = w.now
	}
	if r.rested {
		r.save()
	}
	return noTimer
}

// save makes the lease of the replay the one that later replays copy.
func (r *replay) save() {
	r.p.lease, r.p.watch, r.p.idle = r.lease, r.p.seen.watch, false
	r.lease.log.lostAt = time.Time{}
}

// show sets what others see of the process. While the keeper renews, a call changes nothing of
// that.
func (r *replay) show() {
	p, l := r.p, r.lease
	if r.task >= freer || r.task == caller && !p.slotIsFull() {
		return
	}
	p.seen.drawn = r.draws
	if l != nil {
		select {
		case h := <-l.slot:
			l.slot <- h
			r.tenure = cmp.Or(h, r.tenure)
		default: // the tenure is being changed
		}
		g := l.grant.Load()
		p.seen.grant, p.seen.shown, p.seen.loss = g, l.shown.Load(), l.trouble()
		p.seen.doubt = g != nil && r.tenure != nil && r.tenure.Doubt != tenure.Sure
	}
	if r.watch != nil {
		p.seen.watch = book.Watch{Seen: r.watch.Seen.Clone(), Kept: r.watch.Kept}
	}
}

// throw is machine.Dice. It chooses each worker ID in turn, beginning with the step's choice, and
// makes no rest shorter.
func throw(n int64) int64 {
	if now != nil && n == int64(now.w.workers) && n > 1 {
		now.draws++
		return int64(now.draws) % n
	}
	return 0
}

// newText is machine.RandomText.
func newText() string {
	now.tokens++
	return now.p.name + strconv.Itoa(now.tokens)
}

// options returns what a process gives to Acquire.
func (w *world) options(name string) Options {
	o := Options{Layout: w.layout(), Owner: name[:1], Window: tick * time.Duration(w.span()), Count: w.workers, MaxLeap: 1000 * time.Hour,
		Clock: snowflake.ClockFunc(func() time.Time { return now.reading.Own })}
	if w.copies {
		o.Reuse, o.LocalCopy = ReuseKeep, "copy"
	}
	o, err := o.withDefaults(0)
	if err != nil {
		panic(err)
	}
	o.named = false // so that no process looks for a namesake; the worlds would be too large
	return o
}

// copyLease copies the lease at rest, or makes the process's first one.
func (r *replay) copyLease() *Lease {
	p := r.p
	l := newLease(asks(r.ask), p.options)
	r.lease, r.watch = l, &l.known.Watch
	if was := p.lease; was != nil {
		if c, ok := was.store.(*localcopy.Store); ok {
			l.o.Owner, l.store = was.o.Owner, c.Clone(asks(r.ask), asks(r.askCopy))
		}
		l.known, l.log = was.known, was.log
		l.known.lost = maps.Clone(was.known.lost)
		l.troubles, l.wiped, l.stats = was.troubles, was.wiped, was.stats
		l.grant.Store(was.grant.Load())
		h := <-was.slot
		was.slot <- h
		<-l.slot
		if h != nil {
			is := *h
			r.tenure, h = &is, &is
		}
		l.give(h)
		l.generator = r.binding()
	}
	l.known.Watch = book.Watch{Seen: p.watch.Seen.Clone(), Kept: p.watch.Kept}
	return l
}

// openCopy gives the lease of the replay its local copy, as Acquire does.
func (r *replay) openCopy(ctx context.Context) (err error) {
	if l := r.lease; r.w.copies {
		l.store, err = withLocalCopy(ctx, asks(r.ask), asks(r.askCopy), &l.o)
	}
	return err
}

// keep acquires a lease, as Acquire does, and keeps it.
func (r *replay) keep() {
	p, l := r.p, r.copyLease()
	if p.lease == nil {
		err := l.again(r.ctx, r.openCopy)
		if err == nil {
			err = l.again(r.ctx, l.obtain)
		}
		if r.over {
			return
		}
		if p.err = err; err != nil {
			return
		}
		l.grantFirst()
		p.gen = []event{{grant: l.Grant(), own: r.reading.Own}}
		l.generator = r.binding()
	}
	l.run(r.ctx)
	if !r.over {
		r.show()
		r.save()
	}
}

// release calls Release. The renewing has ended.
func (r *replay) release() {
	l := r.copyLease()
	close(l.ended)
	err := l.Release(r.ctx)
	if !r.over {
		r.show()
		r.p.lease, r.p.err, r.p.done = l, err, true
	}
}

// view reads the watermark.
func (r *replay) view() {
	w, p := r.w, r.p
	reader := &WatermarkReader{asks(r.ask), make(chan *book.Watch, 1)}
	r.watch = &book.Watch{Seen: p.watch.Seen.Clone(), Kept: p.watch.Kept}
	reader.slot <- r.watch
	m, err := reader.Read(r.ctx)
	if r.over {
		return
	}
	r.show()
	if p.watch, p.done = p.seen.watch, true; err != nil {
		return
	}
	w.tell("%s gets the watermark %s", p.name, w.at(w.timeOf(m.ID)))
	if m.ID < w.mark {
		w.breaks("the watermark falls from %s to %s", w.at(w.timeOf(w.mark)), w.at(w.timeOf(m.ID)))
	}
	w.mark = max(w.mark, m.ID)
}

// free frees worker IDs in the background.
func (r *replay) free() {
	r.lease = newLease(asks(r.ask), r.p.options)
	r.looked = make(chan struct{})
	if r.openCopy(r.ctx) != nil {
		return
	}
	if r.lease.freeAll(r.ctx, slices.Clone(r.p.tasks[r.task].tried), r.looked); !r.over {
		r.p.frees = false
	}
}

// freeInWorld is freeLater.
func freeInWorld(_ context.Context, _ *Lease, tried []attempt, _ chan<- struct{}) {
	r := now
	if _, ok := r.replied(); ok {
		return
	}
	r.add(reply{})
	p := r.p
	p.frees = true
	p.tasks = append(p.tasks, task{begun: r.reading, tried: slices.Clone(tried)})
	r.w.resume(slices.Index(r.w.procs, p), len(p.tasks)-1)
}

// call calls NextID.
func (r *replay) call() {
	w, p, l := r.w, r.p, r.copyLease()
	l.grant.Store(p.seen.grant)
	l.shown.Store(p.seen.shown)
	mark, was := w.mark, l.Grant()
	e := event{what: issued, grant: was, own: r.reading.Own}
	g, lent := r.generator(p.tasks[caller].events)
	lent.lease, r.lent = l, lent
	id, err := g.NextIDContext(soon{context.Background()})
	if r.over {
		return
	}
	if lent.bumped {
		e.then, e.thenOwn = l.Grant(), r.reading.Own
		r.show()
		r.save()
		if len(l.asked) > 0 {
			p.tasks[keeper].due = w.now
		}
	}
	if p.refused, e.id = err, id; err == nil || e.then.ClockSeq != was.ClockSeq && lent.bumped {
		p.happened(e)
	}
	if err == nil {
		p.issued++
		w.checkID(p, id, mark, was)
	}
}
