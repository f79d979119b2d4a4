package snowflake

import (
	"context"
	"fmt"
	"time"
)

// Lease tells a generator which worker ID it may stamp, and when. Package lease has
// leases that renew themselves; they also implement [ManagedLease].
type Lease interface {
	// Grant returns what the generator may stamp now. It is called with the
	// generator's lock held and must not block. A later Grant may have a later To,
	// or another worker ID or clock sequence.
	//
	// HAZARD: if two holders of one worker ID and clock sequence are granted spans
	// that overlap, their IDs can repeat.
	Grant() Grant
}

// Grant is a worker ID and a clock sequence, and the span of time, [From, To), that
// the generator may write into IDs with them. If the layout has no clock-sequence
// bits, ClockSeq is 0.
type Grant struct {
	Worker, ClockSeq int
	From, To         time.Time
}

// ManagedLease is a Lease that also has Terms.
type ManagedLease interface {
	Lease
	Terms() Terms
}

// Terms are the settings and functions that a lease gives its generator besides
// grants. Each field may be zero.
type Terms struct {
	// Layout is the generator's layout if Options.Layout is zero.
	Layout Layout

	// Clock is the generator's clock if Options.Clock is nil.
	Clock Clock

	// Bind is called by NewLeased, last of all. If it returns an error, NewLeased
	// fails with that error.
	Bind func(Binding) error

	// Extend is called, without the generator's lock, when no time before g.To is
	// left to stamp. now is the clock's reading. Extend returns nil if Grant now
	// returns more: a later To, another worker ID or another clock sequence. The
	// generator then calls Grant again. If Grant will not return more soon, Extend
	// returns an error, which becomes the Cause of a [LeaseExpiredError], unless
	// ctx is done.
	//
	// If now has reached g.To, Extend should ask for a renewal at once. If now is
	// before g.To, Options.BorrowAhead ran into the window's end, and Extend should
	// wait for the next regular renewal.
	Extend func(ctx context.Context, g Grant, now time.Time) error

	// CanBump reports whether a clock sequence other than the grant's may be
	// stamped from now on. now is a reading of the generator's clock. CanBump must
	// not block.
	CanBump func(now time.Time) bool

	// Bump changes the grant g to such a clock sequence. If g is no longer the
	// grant, it does nothing. It may block, and returns when the change is
	// recorded. Its error becomes a part of NextID's error. Without Bump,
	// [ActionBump] is not possible.
	Bump func(ctx context.Context, g Grant, now time.Time) error
}

// Binding is what NewLeased tells a lease about its generator.
type Binding struct {
	// Layout is the generator's.
	Layout Layout
	// Stop makes the generator issue no further ID: calls return a
	// [*LeaseExpiredError] with this cause. It returns the end of the last tick
	// that the generator stamped: no ID is at or past it, under any worker ID. If
	// the generator stamped no tick, it returns the layout's epoch.
	Stop func(cause error) time.Time
}

// window is the lease's grant in ticks.
type window struct {
	lease   Lease
	terms   Terms
	grant   *Grant // replaced when it changes
	floor   int64  // ticks up to this one are closed to all clock sequences
	closed  int64  // look closed the ticks up to this one, because the window begins after it
	stamped int64  // the last tick that counted as stamped when look closed them; -1 if no tick did
	bumping int    // calls that have asked the lease for another clock sequence
	hi      int64  // the first tick that may not be stamped any more
	stopped bool   // no further ID, for good
	cause   error  // why it was stopped
	end     time.Time
}

// canBump reports whether the clock sequence can be changed at all.
func (t *Terms) canBump(l Layout) bool {
	return l.ClockSeqBits > 0 && t.Bump != nil && t.CanBump != nil
}

// termsOf returns the terms of a lease. They are zero if it is not a ManagedLease.
func termsOf(l Lease) Terms {
	if m, ok := l.(ManagedLease); ok {
		return m.Terms()
	}
	return Terms{}
}

// lease makes g stamp only what l grants.
func (g *Generator) lease(l Lease, t Terms) error {
	g.window = &window{lease: l, terms: t, floor: g.tick, closed: -1, stamped: -1} // floor is the tick of Options.After
	if err := g.look(); err != nil {
		return err
	}
	g.stats = Stats{Issued: uint64(g.left)}
	if t.Bind != nil {
		return t.Bind(Binding{Layout: g.layout, Stop: g.stop})
	}
	return nil
}

// look takes over the lease's grant, and closes the time before it. Later IDs are
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
	last, stamped := max(lo-1, w.floor), g.top()
	if bumped := changed && !replaced && w.bumping > 0; bumped {
		g.stats.Bumps++
		stamped = last // the clock sequence may have been used up to there
	} else {
		last = max(last, stamped) // later IDs are greater, and no ID repeats
	}
	if g.past != nil {
		g.past.ring.floor = max(g.past.ring.floor, lo-1)
	}
	if changed || lo > g.tick { // the tick of Options.After has IDs left, and may lie before it
		g.leave()
		g.fixed = g.layout.fixed(grant.ClockSeq, was.Datacenter, grant.Worker)
		g.open(last, 0)
		w.closed, w.stamped = last, stamped
		if g.past != nil {
			g.past.restart(last)
		}
	}
	return nil
}

// bump asks the lease for another clock sequence than grant's, and changes to it.
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
// sequence. If no tick was stamped under them yet, it returns the last tick stamped
// before they were granted, or -1. g.mu must be held.
func (g *Generator) top() int64 {
	top := g.tick
	if g.past != nil {
		top = max(top, g.past.ring.top)
	}
	if w := g.window; top == w.closed {
		return w.stamped
	}
	return top
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

// expired returns the error of a call whose next ID would lie in tick. g.mu must be
// held.
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
