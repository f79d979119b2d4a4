package snowflake

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/contract"
)

// Lease lends a worker ID to a Generator for a span of time. The leases of package lease renew
// themselves; another may be an [Extender] or a [Bumper], too.
type Lease interface {
	// Grant returns what may be stamped now. It is called with the generator's lock held and must
	// not block. A later Grant may have a later To, another worker ID or another clock sequence.
	//
	// HAZARD: if overlapping spans are granted to two holders of one worker ID and clock sequence,
	// IDs can repeat.
	Grant() Grant
}

// Grant is a span of time to be stamped with a worker ID and clock sequence.
type Grant struct {
	Worker, ClockSeq int
	From, To         time.Time // the span is [From, To)
}

// Extender is a Lease that can be asked to grant more.
type Extender interface {
	Lease
	// Extend is called, without the generator's lock, when no time before g.To is left to stamp. If
	// now, the clock's reading, has reached g.To, Extend should ask for more at once; otherwise
	// Options.BorrowAhead ran into the end, and Extend should wait for the regular renewal. It returns
	// nil once Grant returns another grant than g, or an error, which becomes the Cause of a
	// LeaseExpiredError unless ctx is done. A call to the generator calls Extend at most 100 times.
	Extend(ctx context.Context, g Grant, now time.Time) error
}

// Bumper is a Lease that can change its clock sequence, for ActionBump.
type Bumper interface {
	Lease
	// CanBump reports whether another clock sequence than the grant's may be stamped when the
	// generator's clock reads now. It is called with the generator's lock held and must not block.
	CanBump(now time.Time) bool
	// Bump changes the grant g to such a clock sequence, and returns when the change is recorded. If
	// g is no longer the grant, Bump does nothing. A call's error wraps Bump's.
	Bump(ctx context.Context, g Grant, now time.Time) error
}

// The contract with a lease of package lease.
type (
	terms   = contract.Terms[Layout]
	binding = contract.Binding[Layout]
)

// window is the lease's grant in ticks.
type window struct {
	lease    Lease
	extender Extender // nil if the lease cannot be extended
	bumper   Bumper   // nil if the lease cannot change its clock sequence
	terms    terms
	grant    *Grant        // replaced when it changes
	hi       int64         // the first tick that may no longer be stamped
	after    int64         // the tick of Options.After; no clock sequence may stamp it again
	closed   int64         // the last tick closed by the window's start or by a floor
	stamped  int64         // the last tick of an ID that a call returned, or -1
	bumping  int           // the number of calls that are asking the lease for another clock sequence
	stopped  chan struct{} // closed when the generator stops for good
	ended    bool          // stopped is closed
	cause    error         // the reason for the stop
	end      time.Time     // the end of the window or, after the stop, of the last tick stamped
}

// lease makes g stamp only what l grants.
func (g *Generator) lease(l Lease) error {
	after := g.seq.tick // of Options.After
	w := &window{after: after, closed: -1, stamped: after, stopped: make(chan struct{})}
	g.window = w
	own, err := g.serve(l)
	if err != nil {
		return err
	}
	if err := g.look(); err != nil {
		return err
	}
	g.counted = nil
	if own {
		return w.terms.Bind(binding{Layout: g.seq.layout, Floor: g.floor, Look: g.lookNow, Ready: g.ready, Stop: g.stop})
	}
	return nil
}

// serve makes g.window the window of l, and reports whether l is a lease of package lease.
func (g *Generator) serve(l Lease) (own bool, err error) {
	w := g.window
	w.lease = l
	w.extender, _ = as[Extender](l)
	w.bumper, _ = as[Bumper](l)
	w.terms, own = contract.Of[Layout](l)
	if own && w.terms.Bind == nil {
		return own, fmt.Errorf("%w: this Lease was not made by Acquire", ErrInvalidOptions)
	}
	if w.terms.Generation != nil {
		g.vmGeneration = w.terms.Generation()
	}
	return own, nil
}

// as returns l as an Extender or a Bumper. A lease of package lease has their methods in its terms.
func as[T Lease](l Lease) (t T, ok bool) {
	if t, ok = l.(T); ok {
		return t, true
	}
	terms, _ := contract.Of[Layout](l)
	t, ok = terms.Methods.(T)
	return t, ok
}

// look copies the lease's grant, and closes the time before its span. Later IDs are greater, unless
// the policy asked for another clock sequence. If the grant does not fit the layout, nothing
// changes. g.mu must be held.
func (g *Generator) look() error {
	g.until.Store(noTick)
	w, q := g.window, &g.seq
	born := uint64(0)
	if g.vmGeneration != nil {
		// Born is read before the grant. If the grant is newer, calls only ask the lease again.
		born = w.terms.Born()
	}
	was, grant := q.layout.Decode(q.fixed), w.lease.Grant()
	if err := q.layout.checkFields(grant.ClockSeq, was.Datacenter, grant.Worker); err != nil {
		return fmt.Errorf("the lease's grant: %w", err)
	}
	if g.born.Swap(born) != born {
		// The machine was cloned, and each copy has the slots of the calls that wait.
		defer q.newEra()
	}
	if w.grant == nil || *w.grant != grant {
		w.grant, w.end, w.hi = &grant, grant.To, q.layout.ceil(grant.To)
	}
	lo := q.layout.ceil(grant.From)
	if q.trail != nil {
		q.trail.ring.closed = max(q.trail.ring.closed, lo-1)
	}
	replaced, other := grant.Worker != was.Worker, grant.ClockSeq != was.ClockSeq
	// The tick of Options.After may have IDs left, and may lie before lo.
	if !replaced && !other && lo <= q.tick {
		return nil
	}
	closed, taken := max(lo-1, w.after), max(w.stamped, q.slots.highest())
	// Calls may be waiting for the ticks between reach and last.
	last, reach := max(closed, taken), max(closed, min(q.reached, taken))
	if other && !replaced && w.bumping > 0 {
		g.counts().Bumps++
		q.newEra()
		// The new clock sequence may have been used up to closed.
		last, reach, w.stamped = closed, closed, closed
	}
	q.restart(last, q.layout.fixed(grant.ClockSeq, was.Datacenter, grant.Worker), reach)
	w.closed = last
	return nil
}

// lockFromLease is lock for the functions that the lease calls.
func (g *Generator) lockFromLease() {
	lock(&g.mu)
	g.seal()
}

// lookNow is contract.Binding.Look.
func (g *Generator) lookNow() {
	g.lockFromLease()
	defer g.unlock()
	_ = g.look() // after an error the window stays as it is: the grant has the same fields
	g.seq.newEra()
}

// floor is contract.Binding.Floor.
func (g *Generator) floor() time.Time {
	g.lockFromLease()
	defer g.unlock()
	if g.seq.trail != nil {
		return time.Time{} // it may go back
	}
	_ = g.look() // after an error the window stays as it is
	w, q, earliest := g.window, &g.seq, int64(0)
	if now, err := g.refresh(); err == nil {
		// A clock that leaps closes no ticks past the window.
		earliest = max(0, min(g.earliest(now), w.hi))
	}
	if q.tick < earliest-1 {
		w.closed = earliest - 1
	}
	return q.layout.time(instant{tick: q.closeBefore(earliest)})
}

// ready is contract.Binding.Ready.
func (g *Generator) ready() error {
	b, err := g.refusal()
	if b != nil && !b.can(g.policy.OnBackward(*b)) {
		return &ClockBackwardError{*b}
	}
	return err
}

// refusal returns the error of a call made now, without taking an ID. If the policy decides,
// refusal returns the step back for it.
func (g *Generator) refusal() (*Backward, error) {
	g.lockFromLease()
	defer g.unlock()
	now, err := g.refresh()
	if err != nil {
		return nil, err
	}
	v, err := g.find(&call{n: 1, now: now})
	if err != nil {
		return nil, err
	}
	switch next := v.decide(); {
	case next == asks:
		return v.back, nil
	case next == extends, g.cloned():
		return nil, g.expired(v.tick)
	case next == exhausts:
		return nil, g.seq.layout.exhausted(g.seq.layout.Expires())
	}
	return nil, nil
}

// bump asks the lease for a clock sequence other than grant's, and changes to it.
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
	if err := w.bumper.Bump(ctx, grant, now); err != nil {
		return err
	}
	g.lock()
	defer g.unlock()
	if w.ended {
		return nil
	}
	return g.look()
}

// stop is contract.Binding.Stop.
func (g *Generator) stop(cause error) time.Time {
	g.lock()
	defer g.unlock()
	w, q := g.window, &g.seq
	if !w.ended {
		q.leave()
		q.open(q.tick, 0)
		w.end = q.layout.time(instant{tick: w.stamped + 1})
		w.ended, w.cause = true, cause
		close(w.stopped)
	}
	return w.end
}

// expired returns the error of a call whose next ID would lie in tick. g.mu must be held.
func (g *Generator) expired(tick int64) *LeaseExpiredError {
	w, l := g.window, g.seq.layout
	return &LeaseExpiredError{
		Worker:   l.Decode(g.seq.fixed).Worker,
		NotAfter: w.end,
		Time:     l.time(instant{tick: tick}),
		Cause:    w.cause,
		stopped:  w.ended,
		unused:   w.ended && w.end.Equal(l.time(instant{})),
	}
}
