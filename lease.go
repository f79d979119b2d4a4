package snowflake

import (
	"context"
	"fmt"
	"time"
)

// Lease is what a generator asks of whoever gave it its worker ID. Package lease
// has leases that renew themselves; they are also [ManagedLease].
type Lease interface {
	// Grant returns what may be stamped now. It is called with the generator's
	// lock held and must not block. A later Grant may extend To, or name another
	// worker ID or clock sequence. It must never have included what another
	// holder of the worker ID may stamp.
	Grant() Grant
}

// Grant is a worker ID, a clock sequence and the span of ID time, [From, To), in
// which they may be stamped. Without clock-sequence bits ClockSeq is 0.
type Grant struct {
	Worker, ClockSeq int
	From, To         time.Time
}

// ManagedLease is a Lease that can do more for its generator than grant.
type ManagedLease interface {
	Lease
	Terms() Terms
}

// Terms is what a lease settles with its generator besides the grant. Each field
// may be zero.
type Terms struct {
	// Layout is taken by NewLeased if Options.Layout is zero.
	Layout Layout

	// Clock is taken by NewLeased if Options.Clock is nil.
	Clock Clock

	// Bind is called by NewLeased, last of all. If it returns an error, NewLeased
	// fails with that error.
	Bind func(Binding) error

	// Extend is called, without the generator's lock, when nothing before g.To is
	// left to stamp. now is the clock's reading. Extend returns nil when Grant may
	// give more than g: a later To, another worker ID or another clock sequence.
	// The generator then calls Grant again. An error says that Grant will not give
	// more soon; it becomes the Cause of a [LeaseExpiredError], unless ctx is done.
	//
	// If now has reached g.To, a renewal is asked for at once. If now is before
	// g.To, Options.BorrowAhead ran into the window's end, and Extend waits for
	// the next regular renewal.
	Extend func(ctx context.Context, g Grant, now time.Time) error

	// CanBump reports whether there is a clock sequence that may be stamped from
	// now on, a reading of the generator's clock. It must not block.
	CanBump func(now time.Time) bool

	// Bump goes over to such a clock sequence from that of g. If g is no longer
	// the grant, it does nothing. It may block, and returns when the change is
	// recorded. Its error becomes a part of NextID's. Without Bump, [ActionBump]
	// is not possible.
	Bump func(ctx context.Context, g Grant, now time.Time) error
}

// Binding is what a lease gets to know of its generator.
type Binding struct {
	// Layout is the generator's.
	Layout Layout
	// Stop makes the generator issue no further ID: calls return a
	// [*LeaseExpiredError] with this cause. It returns the first instant that
	// the generator did not stamp, under any worker ID.
	Stop func(cause error) time.Time
}

// window is the lease's grant in ticks.
type window struct {
	lease   Lease
	terms   Terms
	grant   *Grant // replaced when it changes
	floor   int64  // ticks up to this one are closed to all clock sequences
	bumping int    // calls that have asked the lease for another clock sequence
	hi      int64  // the first tick that may not be stamped any more
	stopped bool   // for good
	cause   error  // why it was stopped
	end     time.Time
}

// canBump reports whether a clock sequence of the layout can be changed at all.
func (t *Terms) canBump(l Layout) bool {
	return l.ClockSeqBits > 0 && t.Bump != nil && t.CanBump != nil
}

// termsOf returns the terms of a lease; they are zero if it has none.
func termsOf(l Lease) Terms {
	if m, ok := l.(ManagedLease); ok {
		return m.Terms()
	}
	return Terms{}
}

// lease makes g stamp only what l grants.
func (g *Generator) lease(l Lease, t Terms) error {
	g.window = &window{lease: l, terms: t, floor: g.tick} // that of Options.After
	if err := g.look(); err != nil {
		return err
	}
	g.stats = Stats{Issued: uint64(g.left)}
	if t.Bind != nil {
		return t.Bind(Binding{Layout: g.layout, Stop: g.stop})
	}
	return nil
}

// look asks the lease for its grant, and closes what is before it. Later IDs are
// greater, unless the policy asked for another clock sequence. If the grant does not
// fit the layout, nothing changes. g.mu must be held.
func (g *Generator) look() error {
	w, was := g.window, g.layout.Decode(g.fixed)
	grant := w.lease.Grant()
	if err := g.layout.checkFields(grant.ClockSeq, was.Datacenter, grant.Worker); err != nil {
		return fmt.Errorf("the lease's grant: %w", err)
	}
	if w.grant == nil || *w.grant != grant {
		w.grant, w.end, w.hi = &grant, grant.To, g.layout.ceil(grant.To)
	}
	replaced := grant.Worker != was.Worker
	changed := replaced || grant.ClockSeq != was.ClockSeq
	lo := g.layout.ceil(grant.From)
	last := max(lo-1, w.floor)
	if bumped := changed && !replaced && w.bumping > 0; bumped {
		g.stats.Bumps++
	} else {
		last = max(last, g.top()) // later IDs are greater, and none is repeated
	}
	if g.past != nil {
		g.past.ring.floor = max(g.past.ring.floor, lo-1)
	}
	if changed || lo > g.tick { // the tick of Options.After has IDs left, and may lie before it
		g.leave()
		g.fixed = g.layout.fixed(grant.ClockSeq, was.Datacenter, grant.Worker)
		g.open(last, 0)
		if g.past != nil {
			g.past.restart(last)
		}
	}
	return nil
}

// bump asks the lease for another clock sequence than that of grant, and goes over
// to it.
func (g *Generator) bump(ctx context.Context, grant Grant, now time.Time) error {
	w := g.window
	g.mu.Lock()
	w.bumping++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		w.bumping--
	}()
	if err := w.terms.Bump(ctx, grant, now); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.stopped {
		return nil
	}
	return g.look()
}

// top returns the last tick that was stamped under the current worker ID and clock
// sequence. g.mu must be held.
func (g *Generator) top() int64 {
	if g.past != nil {
		return max(g.tick, g.past.ring.top)
	}
	return g.tick
}

// stop is Binding.Stop.
func (g *Generator) stop(cause error) time.Time {
	g.mu.Lock()
	defer g.unlock()
	if !g.window.stopped {
		g.leave()
		last := g.top()
		g.left, g.fresh = 0, 0
		g.window.stopped, g.window.cause, g.window.end = true, cause, g.layout.time(instant{tick: last + 1})
		if g.queue != nil {
			g.queue.refuse(g.expired(instant{tick: last + 1}, last+1))
		}
	}
	return g.window.end
}

// expired is the error of a call whose next ID would lie in tick. g.mu must be held.
func (g *Generator) expired(now instant, tick int64) *LeaseExpiredError {
	return &LeaseExpiredError{
		Worker:   g.layout.Decode(g.fixed).Worker,
		NotAfter: g.window.end,
		Time:     g.layout.time(instant{tick: tick}),
		Cause:    g.window.cause,
		now:      g.layout.time(now),
		stopped:  g.window.stopped,
	}
}
