package snowflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// A call takes its IDs in steps. Each step, with the lock held, takes IDs or finds
// what to do before the next step: ask the policy, ask the lease, or wait in the
// queue. The call does these without the lock.

// maxStall is how long a call waits for a clock that runs at less than half of its
// speed, or not at all. It is longer than the steps of any coarse clock (on Windows
// they are up to 16 ms).
const maxStall = 50 * time.Millisecond

// minRetry is the shortest wait for a clock that did not move during the last wait.
// If it does not move again, the next wait is twice as long, up to maxRetry.
const (
	minRetry = 100 * time.Microsecond
	maxRetry = time.Millisecond
)

// maxAsks is how often a policy is asked before a call waits or fails. Once is
// enough unless the clock goes back further between the questions.
const maxAsks = 3

// run is some consecutive IDs of one tick: n of them, from first on.
type run struct {
	first ID
	n     int
}

// plan is the place of the next ID: its tick and its clock sequence.
type plan struct {
	tick int64
	left int64 // how many IDs the tick has left
	bump bool  // under another clock sequence
	late bool  // callers that waited for the tick woke late: see Generator.lagging
}

// consent is what the policy agreed to.
type consent struct {
	action Action
	by     time.Duration // the consent holds if Backward.By is at most this
}

// reservation is the result of a step: IDs, or what to do before the next step.
type reservation struct {
	ids    run
	caller *caller // the caller that waits

	behind *Backward     // if not nil, ask the policy
	stuck  time.Duration // how long the caller has waited for the clock, if the policy was not asked before

	first bool          // the caller is the head of the queue: it waits for the duration wait; if false, until it is called
	wait  time.Duration // see first
	due   time.Duration // the caller's turn does not come earlier than this
}

var errNotMade = fmt.Errorf("%w: this Generator is zero; make one with New or NewLeased", ErrInvalidOptions)

// take returns 1 to n IDs. It waits if the tick is spent or the clock went back.
func (g *Generator) take(ctx context.Context, n int) (run, error) {
	if g.layout == (Layout{}) {
		return run{}, errNotMade
	}
	c := &caller{n: n}
	c.deadline, c.limited = ctx.Deadline()
	done := false
	defer func() {
		if !done { // a policy, a lease or a clock has panicked: the queue must not wait for this caller
			_, _ = g.quit(c, nil)
		}
	}()
	var agreed consent
	for {
		r, err := g.reserve(c, agreed)
		if err != nil || r.ids.n > 0 {
			done = true
			return r.ids, err
		}
		c = r.caller
		answered := false
		answered, agreed, err = g.proceed(ctx, c, r)
		if err != nil {
			done = true
			return g.quit(c, err)
		}
		if answered {
			done = true
			return c.ids, c.err
		}
	}
}

// proceed does what r asks for, and reports whether c was answered. If it was, there
// is no next step.
func (g *Generator) proceed(ctx context.Context, c *caller, r reservation) (answered bool, agreed consent, err error) {
	switch {
	case r.behind != nil:
		if agreed, err = g.ask(ctx, c, r); err != nil || agreed != (consent{}) {
			return false, agreed, err
		}
	case c.expired != nil:
		return false, consent{}, g.extend(ctx, c)
	}
	answered, err = c.wait(ctx, r)
	return answered, consent{}, err
}

// ask asks the policy what to do about a clock that went back. If the caller is to
// wait, it returns no consent; if the call fails, an error.
func (g *Generator) ask(ctx context.Context, c *caller, r reservation) (consent, error) {
	b := *r.behind
	c.asks++
	switch a := g.policy.OnBackward(b); {
	case a == ActionWait && c.agreeToWait(r):
		return consent{}, nil
	case c.asks > maxAsks:
	case a == ActionBump && b.CanBump:
		if g.window != nil {
			if err := g.bump(ctx, *c.grant, b.Now); err != nil {
				return consent{}, unbumped(ctx, b, err)
			}
		}
		return consent{a, b.By()}, nil
	case a == ActionRewind && b.CanRewind:
		return consent{a, b.By()}, nil
	}
	return consent{}, &ClockBackwardError{b}
}

// unbumped is the error of a call whose clock went back, if the lease could not
// record the change of the clock sequence.
func unbumped(ctx context.Context, b Backward, err error) error {
	if ctx.Err() != nil {
		return ended(ctx, err)
	}
	if errors.Is(err, ErrClockBackward) {
		return err
	}
	return fmt.Errorf("%w; the clock sequence could not be changed: %w", &ClockBackwardError{b}, err)
}

// ended returns err, wrapped so that it also matches ctx's error.
func ended(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// extend asks the lease for more than c.grant. If it returns an error, the call
// fails.
func (g *Generator) extend(ctx context.Context, c *caller) error {
	if c.extended == c.grant { // the lease said that it gave more, but did not
		return c.expired
	}
	c.extended = c.grant
	err := g.window.terms.Extend(ctx, *c.grant, c.expired.now)
	if err == nil || ctx.Err() != nil {
		return ended(ctx, err)
	}
	c.expired.Cause = err
	g.share(c)
	return c.expired
}

// reserve takes 1 to n IDs of one tick for c. If that is not possible now, c is
// in the queue, and the reservation says what to do before the next step. If
// there is an error, c is not in the queue.
//
// It checks everything first. It changes the state that IDs come from only if a
// caller gets IDs.
func (g *Generator) reserve(c *caller, agreed consent) (reservation, error) {
	if !g.mu.TryLock() {
		g.contend()
	}
	defer g.unlock()
	if c.ids.n > 0 || c.err != nil { // it was answered while it was asking
		return reservation{ids: c.ids}, c.err
	}
	r, err := g.step(c, agreed)
	if err != nil {
		g.dismiss(c)
	}
	return r, err
}

// step is reserve. g.mu must be held.
func (g *Generator) step(c *caller, agreed consent) (reservation, error) {
	now, err := g.refresh()
	if err != nil {
		return reservation{}, err
	}
	g.observe(c, now)
	limit := g.layout.plus(now, g.borrow) // the last tick that may be stamped now
	if err := g.follow(now, limit); err != nil {
		return reservation{}, err
	}
	p := g.forward(now)
	b := g.behind(p, now, limit, c.stalled)
	if b != nil && b.By() <= agreed.by {
		p, b = g.backward(p, now, limit, agreed, b, c.stalled)
	}
	if b == nil {
		if p = g.issue(c, p, now, limit); c.ids.n > 0 {
			return reservation{ids: c.ids}, nil
		}
		if p.left == 0 {
			return reservation{}, g.layout.exhausted(g.layout.Expires())
		}
	}

	r := reservation{behind: b, wait: g.until(c, now, p.tick)}
	var atEnd *LeaseExpiredError
	switch {
	case b != nil:
		g.stats.Backward++
	case p.tick <= limit: // the window's end
		if atEnd = g.expired(now, p.tick); g.window.terms.Extend == nil && (p.tick <= now.tick || c.stalled) {
			return reservation{}, atEnd
		}
		r.wait = min(g.layout.until(now, p.tick), maxStall) // and look again
	}
	if c.limited && atEnd == nil {
		r.due = g.until(c, now, g.place(c, p).tick)
	}
	if b == nil { // if b is not nil, the policy's error tells more than the deadline
		if err := c.tooLate(r.due); err != nil {
			return reservation{}, err
		}
	}
	r.caller = g.join(c, p, now)
	g.queue.note(&r, p)
	if b == nil && atEnd == nil {
		g.queue.expect(r)
	}
	r.caller.expired = nil
	if g.window != nil {
		r.caller.grant = g.window.grant
		if g.queue.head == r.caller && g.window.terms.Extend != nil {
			r.caller.expired = atEnd
		}
	}
	return r, nil
}

// refresh reads the clock. It may move the anchor that fresh counts from, so it
// clears fresh: until a tick is entered, no call takes the short way. g.mu must be
// held.
func (g *Generator) refresh() (instant, error) {
	g.fresh = 0
	if g.clock != nil {
		return g.layout.instant(g.clock.Now())
	}
	return g.layout.instant(g.wall.now())
}

// observe finds out from c's last wait whether the clock stands still. g.mu must be
// held.
func (g *Generator) observe(c *caller, now instant) {
	if c.woken {
		t := time.Now()
		g.count(c, t)
		if now == c.last {
			c.least = min(max(minRetry, 2*c.least), maxRetry)
		} else {
			c.least = 0
		}
		q := g.queue
		if now.before(c.last) { // the clock went back: measure anew, from here on
			q.since, q.reading = t, now
		}
		waited, passed := t.Sub(q.since), g.layout.time(now).Sub(g.layout.time(q.reading))
		c.stalled = waited >= maxStall && passed < waited/2
	}
	c.woken, c.last = false, now
}

// follow takes over the lease's grant if limit reaches the end of the window, or has
// not reached its beginning. g.mu must be held.
func (g *Generator) follow(now instant, limit int64) error {
	switch {
	case g.window == nil:
		return nil
	case g.window.stopped:
		return g.expired(now, now.tick)
	case limit >= g.window.hi, limit <= g.window.closed:
		return g.look()
	}
	return nil
}

// behind returns what to tell the policy. It returns nil if the clock did not go
// back. p is the plan that keeps IDs in order. g.mu must be held.
func (g *Generator) behind(p plan, now instant, limit int64, stalled bool) *Backward {
	// The ticks after a rewind may be spent. If they are few, the call waits for
	// the next tick with IDs; if they are many, the clock counts as having gone back.
	near := limit + min(max(1, int64(maxStall/g.layout.Unit)), math.MaxInt64-limit)
	last := p.tick
	switch {
	case g.tick > limit:
		last = g.tick
	case p.tick > near, stalled && p.tick > limit:
	default:
		return nil
	}
	return &Backward{
		Last:      g.layout.time(instant{tick: last}).Add(-g.borrow),
		Now:       g.layout.time(now),
		Stalled:   stalled,
		CanBump:   g.canBump(now),
		CanRewind: g.canRewind(now.tick, near),
	}
}

// backward returns the plan that the policy agreed to, or p and b again if the plan
// is not possible now. g.mu must be held.
func (g *Generator) backward(p plan, now instant, limit int64, agreed consent, b *Backward, stalled bool) (plan, *Backward) {
	switch {
	case agreed.action == ActionBump && b.CanBump && g.window == nil:
		return plan{tick: now.tick, left: g.layout.sequences(), bump: true}, nil
	case agreed.action == ActionRewind && b.CanRewind:
		if back := g.next(now.tick); back.tick <= limit || !stalled {
			return back, nil
		}
	}
	return p, b
}

// issue enters the tick of p and the ticks after it, as long as callers need IDs and
// the clock and the window allow it. It serves the queue first, then c. It returns
// the plan of the next ID. g.mu must be held.
func (g *Generator) issue(c *caller, p plan, now instant, limit int64) plan {
	head := g.head()
	for p.left > 0 && p.tick <= limit && (g.window == nil || p.tick < g.window.hi) {
		g.enter(p, now)
		g.give(c, now)
		if g.head() == nil {
			if c.ids.n == 0 {
				c.ids = g.draw(c.n)
			}
			if c.ids.n > 0 {
				return p
			}
		}
		p = g.forward(now)
	}
	if g.head() != head {
		g.queue.call(c)
	}
	return p
}

// until returns the least time that c has to wait for tick.
func (g *Generator) until(c *caller, now instant, tick int64) time.Duration {
	return max(c.least, g.layout.until(now, tick)-g.borrow)
}

// forward returns the plan that keeps IDs in order. g.mu must be held.
func (g *Generator) forward(now instant) plan {
	from, late := now.tick, false
	switch {
	case now.tick <= g.tick:
		from, late = g.tick, g.lagging
	case g.clock != nil:
		// A clock of the user's may jump: no tick is kept open for late callers.
	case g.lagging && g.tick >= g.layout.plus(now, -maxLag):
		from, late = g.tick, true
	case g.head() != nil:
		if waited := g.queue.tick; waited > g.tick && waited >= g.layout.plus(now, -maxLag) && waited <= now.tick {
			from, late = waited, waited < now.tick || now.into > 0
		}
	}
	p := g.next(from)
	p.late = late && p.tick <= now.tick
	return p
}

// next returns the first tick from tick on that has IDs left. If no tick has, it
// returns the layout's last tick, with no ID left. g.mu must be held.
func (g *Generator) next(tick int64) plan { return g.nextUpTo(tick, g.layout.maxTick()) }

// nextUpTo is next, but looks no further than last. g.mu must be held.
func (g *Generator) nextUpTo(tick, last int64) plan {
	for ; ; tick++ {
		left := g.leftIn(tick)
		if left > 0 || tick >= last {
			return plan{tick: tick, left: left}
		}
	}
}

// leftIn returns how many IDs a tick has left under the current clock sequence.
// g.mu must be held.
func (g *Generator) leftIn(tick int64) int64 {
	if tick == g.tick {
		return g.left
	}
	if g.past != nil {
		if left, ok := g.past.ring.left(tick); ok {
			return left
		}
	}
	return g.layout.sequences()
}

// canBump reports whether there is a clock sequence whose last tick is before the
// clock's. g.mu must be held.
func (g *Generator) canBump(now instant) bool {
	if g.window == nil {
		return g.past != nil && g.past.seqs.next(now.tick) != noClockSeq
	}
	t := g.window.terms
	return t.canBump(g.layout) && now.tick > g.window.floor && t.CanBump(g.layout.time(now))
}

// canRewind reports whether the generator remembers what it stamped in tick and
// since then, and whether IDs are left from tick up to near. g.mu must be held.
func (g *Generator) canRewind(tick, near int64) bool {
	if g.past == nil || tick >= g.tick || !g.past.ring.knows(tick, g.tick) {
		return false
	}
	return g.nextUpTo(tick, min(near, g.layout.maxTick())).left > 0
}

// enter makes p the tick that IDs come from. g.mu must be held.
func (g *Generator) enter(p plan, now instant) {
	if p.bump || p.tick != g.tick {
		g.leave()
		switch {
		case p.bump:
			g.stats.Bumps++
			g.setClockSeq(g.past.bump(p.tick))
		case p.tick < g.tick:
			g.stats.Rewinds++
		}
		if p.tick > now.tick {
			g.stats.Borrowed++
		}
		g.open(p.tick, p.left-g.skipped(p.left))
	}
	g.lagging = p.late
	if g.queue != nil {
		g.queue.behind = time.Time{}
	}
	if g.clock == nil {
		g.fresh = g.holds(now)
	}
}

// skipped returns how many IDs of a tick RandomStart leaves out. It is 0 if the tick
// was stamped before, because such a tick has fewer IDs left than a whole tick.
func (g *Generator) skipped(left int64) int64 {
	if size := g.layout.sequences(); g.random && left == size {
		return randomN(max(size/2, min(size, 2)))
	}
	return 0
}

// leave closes the tick that IDs came from. g.mu must be held.
func (g *Generator) leave() {
	g.stats.Issued -= uint64(g.left)
	if g.past != nil {
		g.past.ring.record(g.tick, g.left)
	}
}

// open makes tick the tick that IDs come from. It has its last IDs left, as many as
// left says; they count as issued until the tick is closed. g.mu must be held.
func (g *Generator) open(tick, left int64) {
	l := g.layout
	g.tick, g.left = tick, left
	g.stats.Issued += uint64(left)
	g.nextID = ID(tick<<l.timeShift()|(l.sequences()-left)<<l.sequenceShift()) | g.fixed
}

// holds returns for how long after wall's anchor the open tick is the tick to stamp.
// g.mu must be held.
func (g *Generator) holds(now instant) time.Duration {
	left := g.layout.until(now, g.tick+1)
	if g.lagging {
		left = maxLag - g.layout.time(now).Sub(g.layout.time(instant{tick: g.tick + 1}))
	}
	return g.wall.passed + min(left, g.wall.trusted())
}

// draw takes up to n of the IDs of the open tick. g.mu must be held.
func (g *Generator) draw(n int) run {
	r := run{first: g.nextID, n: int(min(int64(n), g.left))}
	g.nextID += ID(r.n) * g.stride
	g.left -= int64(r.n)
	return r
}

// setClockSeq makes seq the clock sequence of the IDs to come. g.mu must be held.
func (g *Generator) setClockSeq(seq int64) {
	shift := g.layout.clockSeqShift()
	g.fixed = g.fixed&^ID(lowBits(g.layout.ClockSeqBits)<<shift) | ID(seq<<shift)
}

// resume goes on in the tick of after, with the first ID above after. If that
// tick has no such ID for this worker, it goes on in the next tick.
func (g *Generator) resume(after ID) {
	l := g.layout
	p := l.Decode(after)
	tick := int64(after) >> l.timeShift()
	g.setClockSeq(int64(p.ClockSeq))
	left := int64(0)
	for _, first := range []int64{0, int64(p.Sequence), int64(p.Sequence) + 1} {
		if g.open(tick, l.sequences()-first); g.nextID > after && first < l.sequences() {
			left = l.sequences() - first
			break
		}
	}
	g.open(tick, left)
	g.stats.Issued = uint64(left)
	if g.past != nil {
		g.past.resume(tick, int64(p.ClockSeq))
	}
}
