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

// The generator of a process is made anew each time, from what has happened to it.

// event is something that has happened to a generator, with what was granted then and what the
// clock read. The first is that it was made.
type event struct {
	what    happening
	grant   snowflake.Grant
	own     time.Time
	then    snowflake.Grant // to which the clock sequence was changed,
	thenOwn time.Time       // and what the clock read when that was done
	id      snowflake.ID
}

type happening uint8

const (
	made    happening = iota
	floored           // the lease asked for the floor
	looked            // the lease made it look
	stopped           // the lease stopped it
	issued            // it issued an ID, or none but had its clock sequence changed
)

// happens adds an event. A floor takes the place of those before that were not higher.
func (p *process) happens(e event) {
	p.gen = slices.Clone(p.gen)
	if e.what == floored {
		from := 1
		for i, b := range p.gen {
			if b.bumps() || b.what != floored && b.what != issued {
				from = i + 1
			}
		}
		kept := slices.DeleteFunc(p.gen[from:], func(b event) bool {
			return b.what == floored && b.grant.Worker == e.grant.Worker && b.grant.ClockSeq == e.grant.ClockSeq && !b.own.After(e.own) &&
				!b.grant.From.After(e.grant.From) && !b.grant.To.After(e.grant.To)
		})
		p.gen = p.gen[:from+len(kept)]
	}
	p.gen = append(p.gen, e)
}

func (e event) bumps() bool { return !e.then.To.IsZero() }

// deals is the lease of a generator that is made anew, and asks for nothing that it did not get
// then.
type deals struct {
	private
	binding binding
	event   event
	lease   *Lease // after all that has happened
	bumped  bool   // the lease was asked to change its clock sequence
}

var errHasty = errors.New("not now")

func (d *deals) Grant() snowflake.Grant {
	switch {
	case d.lease != nil:
		return d.lease.Grant()
	case d.bumped:
		return d.event.then
	}
	return d.event.grant
}

// Extend refuses, so that the generator does not wait for more than it has.
func (d *deals) Extend(context.Context, snowflake.Grant, time.Time) error { return errHasty }

func (d *deals) CanBump(t time.Time) bool {
	if d.lease != nil {
		return served{d.lease}.CanBump(t)
	}
	return d.event.bumps()
}

func (d *deals) Bump(ctx context.Context, g snowflake.Grant, t time.Time) error {
	if d.lease == nil {
		d.bumped, now.reading.Own = true, d.event.thenOwn
		return nil
	}
	r := now
	if _, waited := r.replied(); r.over {
		return errOpen
	} else if !waited && !r.p.keeps() {
		r.opens(query{do: "wait"}) // for the slot
		return errOpen
	} else if !waited {
		r.notes(reply{})
	}
	d.bumped = true
	return served{d.lease}.Bump(ctx, g, t)
}

// keeps reports whether the lease's slot is not empty.
func (p *process) keeps() bool {
	return p.tasks[keeper].open == nil || p.tasks[keeper].open.do == "keep"
}

// generator makes the generator of the process anew, as it was after so many events.
func (r *replay) generator(events int) (*snowflake.Generator, *deals) {
	p, w := r.p, r.w
	own := r.reading.Own
	d := &deals{event: p.gen[0]}
	d.private = contract.Keep(&terms{Bind: func(b binding) error { d.binding = b; return nil }})
	o := &snowflake.Options{Layout: w.layout(), OnBackward: snowflake.FailPolicy(), Clock: snowflake.ClockFunc(func() time.Time { return now.reading.Own })}
	if w.seqBits > 0 {
		o.OnBackward = snowflake.ClockSeqPolicy()
	}
	r.reading.Own = p.gen[0].own
	g, err := snowflake.NewLeased(d, o)
	if err != nil {
		panic(err)
	}
	for _, e := range p.gen[1:events] {
		d.event, d.bumped, r.reading.Own = e, false, e.own
		switch e.what {
		case floored:
			d.binding.Floor()
		case looked:
			d.binding.Look()
		case stopped:
			d.binding.Stop(ErrReleased)
		case issued:
			if id, err := g.NextIDContext(soon{context.Background()}); id != e.id {
				r.w.breaks("the generator is not the same when it is made anew: %v %v", id, err)
			}
		}
	}
	d.event, d.bumped, r.reading.Own = event{}, false, own
	return g, d
}

// soon is a context that ends soon, and does not say so when it has.
type soon struct{ context.Context }

func (soon) Deadline() (time.Time, bool) { return time.Now().Add(time.Millisecond), true }

// binding lets the lease of the replay tell the generator what to do.
func (r *replay) binding() binding {
	tells := func(what happening, do func(binding) time.Time) time.Time {
		if a, ok := r.replied(); ok || r.over {
			return a.floor
		}
		e := event{what: what, grant: r.lease.Grant(), own: r.reading.Own}
		_, d := r.generator(len(r.p.gen))
		d.event = e
		at := do(d.binding)
		r.p.happens(e)
		r.notes(reply{floor: at})
		return at
	}
	return binding{
		Layout: r.w.layout(),
		Floor:  func() time.Time { return tells(floored, func(b binding) time.Time { return b.Floor() }) },
		Look:   func() { tells(looked, func(b binding) time.Time { b.Look(); return time.Time{} }) },
		Stop:   func(error) time.Time { return tells(stopped, func(b binding) time.Time { return b.Stop(ErrReleased) }) },
	}
}
