//go:build go1.25

package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/contract"
)

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

// happened adds an event. A floor takes the place of those before it that were not higher.
func (p *process) happened(e event) {
	p.gen = slices.Clone(p.gen)
	if e.what == floored {
		from := 1
		for i, was := range p.gen {
			if was.bumped() || was.what != floored && was.what != issued {
				from = i + 1
			}
		}
		kept := slices.DeleteFunc(p.gen[from:], func(was event) bool {
			return was.what == floored && was.grant.Worker == e.grant.Worker && was.grant.ClockSeq == e.grant.ClockSeq && !was.own.After(e.own) &&
				!was.grant.From.After(e.grant.From) && !was.grant.To.After(e.grant.To)
		})
		p.gen = p.gen[:from+len(kept)]
	}
	p.gen = append(p.gen, e)
}

// lent is the lease of a generator that is rebuilt. It gives the generator what it got in each
// event, and then what the lease of the replay gives.
type lent struct {
	private
	binding binding
	event   event
	lease   *Lease // nil while the generator is rebuilt
	bumped  bool   // Bump was called
}

var errHasty = errors.New("not now")

func (l *lent) Grant() snowflake.Grant {
	switch {
	case l.lease != nil:
		return l.lease.Grant()
	case l.bumped:
		return l.event.then
	}
	return l.event.grant
}

// Extend refuses, so that the generator does not wait for more than it has.
func (l *lent) Extend(context.Context, snowflake.Grant, time.Time) error { return errHasty }

func (l *lent) CanBump(t time.Time) bool {
	if l.lease != nil {
		return served{l.lease}.CanBump(t)
	}
	return l.event.bumped()
}

func (l *lent) Bump(ctx context.Context, g snowflake.Grant, t time.Time) error {
	r := now
	if l.lease == nil {
		l.bumped, r.reading.Own = true, l.event.thenOwn
		return nil
	}
	a, waited := r.replied()
	switch {
	case a.err != nil:
		return a.err
	case !waited && !r.p.slotIsFull():
		r.end(query{do: slot})
		return errOpen
	case !waited:
		r.add(reply{})
	}
	l.bumped = true
	return served{l.lease}.Bump(ctx, g, t)
}

// generator rebuilds the generator of the process, as it was after so many events.
func (r *replay) generator(events int) (*snowflake.Generator, *lent) {
	p, w := r.p, r.w
	own := r.reading.Own
	l := &lent{event: p.gen[0]}
	l.private = contract.Keep(&terms{Bind: func(b binding) error { l.binding = b; return nil }})
	o := &snowflake.Options{Layout: w.layout(), OnBackward: snowflake.FailPolicy(), Clock: p.options.Clock}
	if w.seqBits > 0 {
		o.OnBackward = snowflake.ClockSeqPolicy()
	}
	r.reading.Own = p.gen[0].own
	g, err := snowflake.NewLeased(l, o)
	if err != nil {
		panic(err)
	}
	for _, e := range p.gen[1:events] {
		l.event, l.bumped, r.reading.Own = e, false, e.own
		if e.what != issued {
			l.tell(e.what)
		} else if id, err := g.NextIDContext(soon{context.Background()}); id != e.id {
			w.breaks("the generator is not the same when it is rebuilt: %v %v", id, err)
		}
	}
	l.event, l.bumped, r.reading.Own = event{}, false, own
	return g, l
}

// tell tells the generator what happens. It returns what the lease gets, if anything.
func (l *lent) tell(what happening) (floor time.Time) {
	switch what {
	case floored:
		return l.binding.Floor()
	case looked:
		l.binding.Look()
	case stopped:
		return l.binding.Stop(ErrReleased)
	}
	return time.Time{}
}

// tellGenerator tells the generator of the process what happens now.
func (r *replay) tellGenerator(e event) (floor time.Time) {
	_, l := r.generator(len(r.p.gen))
	l.event = e
	floor = l.tell(e.what)
	r.p.happened(e)
	return floor
}

// soon is a context that ends soon, but never says so.
type soon struct{ context.Context }

func (soon) Deadline() (time.Time, bool) { return time.Now().Add(time.Millisecond), true }

// binding lets the lease of the replay tell the generator what to do.
func (r *replay) binding() binding {
	tell := func(what happening) time.Time {
		a, ok := r.replied()
		if !ok {
			a.floor = r.tellGenerator(event{what: what, grant: r.lease.Grant(), own: r.reading.Own})
			r.add(a)
		}
		return a.floor
	}
	return binding{
		Layout: r.w.layout(),
		Floor:  func() time.Time { return tell(floored) },
		Look:   func() { tell(looked) },
		Stop:   func(error) time.Time { return tell(stopped) },
	}
}
