package snowflake

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/contract"
)

// Lease tells a generator which worker ID it may stamp, and when. The leases of package lease renew
// themselves. A Lease may also be an [Extender] or a [Bumper]. If it has a method Layout() Layout
// or Clock() Clock, this is the default of the option of that name.
type Lease interface {
	// Grant returns what the generator may stamp now. It is called with the generator's lock held
	// and must not block. A later Grant may have a later To, or another worker ID or clock
	// sequence.
	//
	// HAZARD: if two holders of one worker ID and clock sequence are granted spans that overlap,
	// IDs can repeat.
	Grant() Grant
}

// Grant is a worker ID and clock sequence (0 if the layout has none), and the span of time, [From,
// To), to stamp them in.
type Grant struct {
	Worker, ClockSeq int
	From, To         time.Time
}

// Extender is a Lease that can be asked for more.
type Extender interface {
	Lease
	// Extend is called, without the generator's lock, when no time before g.To is left to stamp.
	// now is the clock's reading. Extend returns nil if Grant now returns more than g: a later To,
	// another worker ID or another clock sequence. If Grant will not return more soon, it returns
	// an error, which becomes the Cause of a LeaseExpiredError, unless ctx is done. A call of the
	// generator asks at most 100 times, and not again when its ctx is done.
	//
	// If now has reached g.To, Extend should ask for more at once. If now is before g.To,
	// Options.BorrowAhead ran into the span's end, and Extend should wait until the lease is
	// renewed as usual.
	Extend(ctx context.Context, g Grant, now time.Time) error
}

// Bumper is a Lease that can change its clock sequence, as ActionBump needs it to.
type Bumper interface {
	Lease
	// CanBump reports whether a clock sequence other than the grant's may be stamped from now on.
	// now is a reading of the generator's clock. CanBump is called with the generator's lock held
	// and must not block.
	CanBump(now time.Time) bool
	// Bump changes the grant g to such a clock sequence. If g is no longer the grant, it does
	// nothing. It may block, and returns when the change is recorded. Its error becomes a part of
	// NextID's error.
	Bump(ctx context.Context, g Grant, now time.Time) error
}

// terms and binding are what a lease of package lease and its generator tell each other.
type (
	terms   = contract.Terms[Layout]
	binding = contract.Binding[Layout]
)

// window is the lease's grant in ticks.
type window struct {
	lease    Lease
	extender Extender // lease, or nil if it cannot be extended
	bumper   Bumper   // lease, or nil if it cannot change its clock sequence
	terms    terms
	grant    *Grant        // replaced when it changes
	hi       int64         // the first tick that may not be stamped any more
	after    int64         // the tick of Options.After: ticks up to it are closed to all clock sequences
	closed   int64         // the ticks up to this one were closed, because the window begins after it or for a floor
	stamped  int64         // the last tick of an ID that a call returned; -1 if there is none
	bumping  int           // calls that have asked the lease for another clock sequence
	stopped  chan struct{} // closed when no further ID may be issued, for good
	ended    bool          // stopped is closed
	cause    error         // why
	end      time.Time     // no ID is stamped at or past it

	machine *atomic.Uint64 // changes if the machine is cloned; nil if the machine does not report clones
	born    uint64         // what machine was before the lease asked for the worker ID, or earlier
}

// lease makes g stamp only what l grants.
func (g *Generator) lease(l Lease) error {
	after := g.seq.tick // of Options.After
	w := &window{after: after, closed: -1, stamped: after, stopped: make(chan struct{})}
	own, err := w.serve(l)
	if err != nil {
		return err
	}
	g.window = w
	if err := g.look(); err != nil {
		return err
	}
	g.counts = counts{}
	if own {
		return w.terms.Bind(binding{Layout: g.seq.layout, Floor: g.floor, Look: g.lookNow, Stop: g.stop})
	}
	return nil
}

// serve makes w the window of l, and reports whether l is a lease of package lease.
func (w *window) serve(l Lease) (own bool, err error) {
	w.lease = l
	w.extender, _ = l.(Extender)
	w.bumper, _ = l.(Bumper)
	w.terms, own = contract.Of[Layout](l)
	if own && w.terms.Bind == nil {
		return own, fmt.Errorf("%w: this Lease was not made by Acquire", ErrInvalidOptions)
	}
	if w.terms.Generation != nil {
		w.machine = w.terms.Generation()
	}
	return own, nil
}

// look takes over the lease's grant, and closes the time before it. Later IDs are greater, unless
// the policy asked for another clock sequence. If the grant does not fit the layout, nothing
// changes. g.mu must be held.
func (g *Generator) look() error {
	g.fresh = never
	w, q := g.window, &g.seq
	born := uint64(0)
	if w.machine != nil {
		born = w.terms.Born() // before the grant is read: if the grant is newer, calls only ask the lease again
	}
	was, grant := q.layout.Decode(q.fixed), w.lease.Grant()
	if err := q.layout.checkFields(grant.ClockSeq, was.Datacenter, grant.Worker); err != nil {
		return fmt.Errorf("the lease's grant: %w", err)
	}
	w.born = born
	if w.grant == nil || *w.grant != grant {
		w.grant, w.end, w.hi = &grant, grant.To, q.layout.ceil(grant.To)
	}
	lo := q.layout.ceil(grant.From)
	if q.past != nil {
		q.past.ring.closed = max(q.past.ring.closed, lo-1)
	}
	replaced, other := grant.Worker != was.Worker, grant.ClockSeq != was.ClockSeq
	if !replaced && !other && lo <= q.tick { // the tick of Options.After has IDs left, and may lie before it
		return nil
	}
	closed, taken := max(lo-1, w.after), max(w.stamped, q.slots.highest())
	last, reach := max(closed, taken), max(closed, min(q.reached, taken)) // calls may wait for the ticks between them
	if other && !replaced && w.bumping > 0 {
		g.counts.bumps++
		q.newEra()
		last, reach, w.stamped = closed, closed, closed // the clock sequence may have been used up to there
	}
	q.restart(last, q.layout.fixed(grant.ClockSeq, was.Datacenter, grant.Worker), reach)
	w.closed = last
	return nil
}

// cloned reports whether the machine was cloned since the lease asked for the worker ID.
func (w *window) cloned() bool {
	return w.machine != nil && w.machine.Load() != w.born
}

// unlessCloned returns r. If the machine was cloned since the lease asked for the worker ID, it
// returns no IDs and ends the window, because another copy may issue the same IDs. It stands
// between the choice of IDs and their return: a snapshot that was taken before the choice, or
// during it, is noticed in each copy. g.mu must be held.
func (g *Generator) unlessCloned(r run) run {
	if g.window == nil || !g.window.cloned() {
		return r
	}
	g.fresh, g.window.hi = never, math.MinInt64
	g.seq.taken -= uint64(r.n)
	return run{}
}

// generation returns the machine's, or 0 if nobody tells it.
func (g *Generator) generation() uint64 {
	if g.window == nil || g.window.machine == nil {
		return 0
	}
	return g.window.machine.Load()
}

// disown takes back that n IDs were issued.
func (g *Generator) disown(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seq.taken -= uint64(n)
}

// lookNow is contract.Binding.Look.
func (g *Generator) lookNow() {
	lock(&g.mu)
	defer g.mu.Unlock()
	_ = g.look() // an error leaves the window as it is: the grant names the same fields
	g.seq.newEra()
}

// floor is contract.Binding.Floor.
func (g *Generator) floor() time.Time {
	lock(&g.mu)
	defer g.mu.Unlock()
	if g.seq.past != nil {
		return time.Time{} // it may go back
	}
	_ = g.look() // an error leaves the window as it is
	w, q, earliest := g.window, &g.seq, int64(0)
	if now, err := g.refresh(); err == nil {
		earliest = max(0, min(g.earliest(now), w.hi)) // a clock that leaps closes no more than it could stamp
	}
	if q.tick < earliest-1 {
		w.closed = earliest - 1
	}
	return q.layout.time(instant{tick: q.closeBefore(earliest)})
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
	if err := w.bumper.Bump(ctx, grant, now); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.ended {
		return nil
	}
	return g.look()
}

// stop is contract.Binding.Stop.
func (g *Generator) stop(cause error) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
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

// LeaseExpiredError says which worker ID may no longer be stamped. It matches
// [ErrLeaseExpired] and what Cause matches.
type LeaseExpiredError struct {
	Worker   int
	NotAfter time.Time // no ID is stamped at or past it: the end of the lease's window or, after a release, of the last tick stamped
	Time     time.Time // the timestamp that the next ID would have had
	Cause    error     // why the window was not extended, as the lease says it; nil if it does not say
	stopped  bool      // for good
	unused   bool      // and nothing was stamped
}

func (e *LeaseExpiredError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: ", ErrLeaseExpired)
	if e.Cause != nil {
		fmt.Fprintf(&b, "%s; ", strings.TrimPrefix(e.Cause.Error(), "lease: "))
	}
	fmt.Fprintf(&b, "worker %d ", e.Worker)
	switch {
	case e.unused:
		b.WriteString("stamped no ID")
	case e.stopped, e.Time.Before(e.NotAfter): // Time lies before NotAfter if both are in the tick of the last ID
		fmt.Fprintf(&b, "stamped its last ID before %s", formatTime(e.NotAfter))
	case e.NotAfter.Truncate(time.Millisecond).Equal(e.Time.Truncate(time.Millisecond)):
		fmt.Fprintf(&b, "may stamp IDs before %s, the next would be at %s", formatTime(e.NotAfter), formatTime(e.Time))
	default:
		fmt.Fprintf(&b, "may stamp IDs before %s, the next would be at %s",
			formatTime(e.NotAfter.Truncate(time.Millisecond)), formatTime(e.Time.Truncate(time.Millisecond)))
	}
	return b.String()
}

// Unwrap returns Cause.
func (e *LeaseExpiredError) Unwrap() error { return e.Cause }

func (e *LeaseExpiredError) Is(target error) bool { return target == ErrLeaseExpired }
