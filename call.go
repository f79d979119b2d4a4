package snowflake

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// call is a call that obtains IDs. It decides what to do next with the generator's lock held (see
// decide.go). It sleeps, and asks the policy and the lease, without the lock.
type call struct {
	n        int64     // how many IDs it wants at most
	deadline time.Time // zero: none
	slot     run       // the IDs for whose tick it waits
	watch    watch     // how the clock has run since it began to wait
	asks     int       // how often it has asked the policy since its last wait
	agreed   consent   // what the policy agreed to
	patience patience  // bounds the waits that the policy agreed to
	extended *Grant    // the grant that the lease was last asked to extend
	extends  int       // how often the lease was asked
}

// todo is what a call does next, without the lock. Only one of its fields is set.
type todo struct {
	ids    run           // return these IDs
	sleep  time.Duration // sleep for this long, then look again
	ask    *question     // ask the policy
	extend *shortage     // ask the lease
}

// question is what a call asks the policy about a clock that went back.
type question struct {
	Backward
	grant *Grant // of the lease, when the question arose
}

// shortage is what a call tells the lease when it needs more than grant.
type shortage struct {
	grant   *Grant
	now     time.Time          // the clock's reading
	expired *LeaseExpiredError // the call's error if the lease does not extend grant
}

var errNotMade = fmt.Errorf("%w: this Generator was not made by New or NewLeased", ErrInvalidOptions)

// obtain returns 1 to n IDs. It waits if the tick is spent or the clock went back.
func (g *Generator) obtain(ctx context.Context, n int) (run, error) {
	if g.seq.layout == (Layout{}) {
		return run{}, errNotMade
	}
	c := call{n: int64(n)}
	c.deadline, _ = ctx.Deadline()
	defer g.finish(&c) // also if a policy, a lease or a clock panics
	for {
		t, err := g.advance(&c)
		if err != nil || t.ids.n > 0 {
			return t.ids, err
		}
		if err = g.do(ctx, &c, t); err == nil {
			continue
		}
		if ctx.Err() != nil {
			if ids := g.begun(&c); ids.n > 0 {
				return ids, nil
			}
		}
		return run{}, err
	}
}

// do does what t says.
func (g *Generator) do(ctx context.Context, c *call, t todo) error {
	if t.ask != nil {
		return g.ask(ctx, c, t.ask)
	}
	c.asks = 0
	if t.extend != nil {
		return g.extend(ctx, c, t.extend)
	}
	return g.nap(ctx, t.sleep)
}

// ask asks the policy what to do about a clock that went back.
func (g *Generator) ask(ctx context.Context, c *call, q *question) error {
	b := q.Backward
	c.asks++
	a := g.policy.OnBackward(b)
	if !b.can(a) || c.asks > maxAsks {
		return &ClockBackwardError{b}
	}
	if a == ActionBump && g.window != nil {
		if err := g.bump(ctx, *q.grant, b.Now); err != nil {
			return unbumped(ctx, b, err)
		}
	}
	c.agreed = consent{a, b.By()}
	return nil
}

// unbumped is the error of a call whose clock went back, if the lease could not record the change
// of the clock sequence.
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

// maxExtends is how often a call asks the lease for more. Once is enough unless other calls take
// what it gives.
const maxExtends = 100

// extend asks the lease for more than it grants.
func (g *Generator) extend(ctx context.Context, c *call, s *shortage) error {
	switch c.extends++; {
	case ctx.Err() != nil:
		return ctx.Err()
	case c.extended == s.grant, c.extends > maxExtends:
		// The lease reported success, but granted no more, or too little.
		return s.expired
	}
	c.extended = s.grant
	err := g.window.extender.Extend(ctx, *s.grant, s.now)
	if err == nil || ctx.Err() != nil {
		return ended(ctx, err)
	}
	s.expired.Cause = err
	return s.expired
}

// nap sleeps for d, or until ctx is done or the generator is stopped.
func (g *Generator) nap(ctx context.Context, d time.Duration) error {
	var stopped <-chan struct{}
	if g.window != nil {
		stopped = g.window.stopped
	}
	if ctx.Done() == nil && stopped == nil {
		sleep(d)
		return nil
	}
	timer := newTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stopped:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// finish ends c, and puts back the IDs for whose tick it waits.
func (g *Generator) finish(c *call) {
	if c.slot.n > 0 {
		g.lock()
		defer g.unlock()
		g.freeSlot(c)
	}
}

// freeSlot puts back the IDs for whose tick c waits. g.mu must be held.
func (g *Generator) freeSlot(c *call) {
	if c.slot.n > 0 {
		g.seq.putBack(c.slot)
		c.slot = run{}
	}
}

// advance returns what c does next. It checks everything before it changes anything, and changes
// the sequence only if c gets IDs, or takes them to wait for their tick.
func (g *Generator) advance(c *call) (todo, error) {
	g.lock()
	defer g.unlock()
	return g.advanceLocked(c)
}

// advanceLocked is advance. g.mu must be held.
func (g *Generator) advanceLocked(c *call) (todo, error) {
	now, err := g.read(c)
	if err != nil {
		return todo{}, err
	}
	v, err := g.see(c, now)
	if err != nil {
		return todo{}, err
	}
	var b Backward
	agreed, next := ActionFail, v.decide(ActionFail)
	if next == stepAsk {
		if b = g.tell(c, &v); b.By() <= c.agreed.by {
			agreed = c.agreed.action
		}
		v = g.goBack(agreed, b, &v)
		next = v.decide(agreed)
	}
	c.agreed = consent{}
	switch next {
	case stepIssue:
		if ids := g.unlessCloned(g.issue(c, &v)); ids.n > 0 {
			return todo{ids: ids}, nil
		}
		return g.atEnd(c, &v)
	case stepExtend:
		return g.atEnd(c, &v)
	case stepWait:
		return g.wait(c, &v, agreed, b)
	case stepAsk:
		g.counts().Backward++
		q := &question{Backward: b}
		if g.window != nil {
			q.grant = g.window.grant
		}
		return todo{ask: q}, nil
	}
	return todo{}, g.seq.layout.exhausted(g.seq.layout.Expires())
}

// begun returns the IDs for whose tick c waits, if the tick has begun.
func (g *Generator) begun(c *call) run {
	if c.slot.n == 0 {
		return run{}
	}
	g.lock()
	defer g.unlock()
	now, err := g.read(c)
	if err != nil || g.window != nil && g.window.ended || c.slot.era != g.seq.era || c.slot.tick > g.limit(now) {
		return run{}
	}
	return g.unlessCloned(g.issue(c, &view{held: true}))
}

// read reads the clock for c. If c has waited, it notes that the wait has ended. g.mu must be held.
func (g *Generator) read(c *call) (now instant, err error) {
	now, err = g.refresh()
	if err == nil && c.watch.asleep {
		g.seq.slots.waited += c.watch.end(g.seq.layout, now, monotonic())
	}
	return now, err
}

// limit returns the last tick that may be stamped when the clock reads now.
func (g *Generator) limit(now instant) int64 { return g.seq.layout.plus(now, g.borrow) }

// see returns what c finds when the clock reads now. If the last grant that it knows may be out of
// date, it looks at the lease's grant. g.mu must be held.
func (g *Generator) see(c *call, now instant) (v view, err error) {
	q, w := &g.seq, g.window
	v = view{now: now, limit: g.limit(now), slow: c.watch.slow}
	switch {
	case w != nil && w.ended:
		return v, g.expired(now.tick)
	case w != nil && v.limit <= w.closed:
		err = g.look()
	}
	if c.slot.era != q.era {
		g.freeSlot(c)
	}
	if v.held = c.slot.n > 0; v.held {
		v.place = place{tick: c.slot.tick, left: c.slot.n}
	} else if v.place = q.next(now.tick, g.earliest(now)); err == nil && g.over(v.tick) {
		err = g.look()
		v.place = q.next(now.tick, g.earliest(now))
	}
	v.reached, v.near, v.over = q.reached, q.layout.nearby(max(v.limit, q.tick)), g.over(v.tick)
	return v, err
}

// over reports whether the lease does not grant tick, as far as the generator knows. g.mu must be
// held.
func (g *Generator) over(tick int64) bool { return g.window != nil && tick >= g.window.hi }

// tell returns what to tell the policy. g.mu must be held.
func (g *Generator) tell(c *call, v *view) Backward {
	must := v.tick
	if v.reached > v.limit {
		must = v.reached
	}
	return Backward{
		Last:      g.seq.layout.time(instant{tick: must}).Add(-g.borrow),
		Now:       g.seq.layout.time(v.now),
		Stalled:   c.watch.still,
		CanBump:   g.canBump(v.now),
		CanRewind: g.seq.canRewind(v.now.tick, g.seq.layout.nearby(v.limit)),
	}
}

// canBump reports whether there is a clock sequence whose last tick is before the clock's reading.
// g.mu must be held.
func (g *Generator) canBump(now instant) bool {
	if g.window == nil {
		return g.seq.past != nil && g.seq.past.seqs.choose(now.tick) != noClockSeq
	}
	b := g.window.bumper
	return b != nil && g.seq.layout.ClockSeqBits > 0 && now.tick > g.window.after && b.CanBump(g.seq.layout.time(now))
}

// goBack returns v as it is after going back, if the policy chose ActionBump or ActionRewind and
// the action is possible: the clock has reached every tick that still counts. Otherwise it returns
// v. g.mu must be held.
func (g *Generator) goBack(a Action, b Backward, v *view) view {
	p := place{tick: v.now.tick, left: g.seq.layout.sequences(), kind: bumped}
	switch {
	case a == ActionBump && b.CanBump && g.window == nil:
	case a == ActionRewind && b.CanRewind:
		p = g.seq.from(v.now.tick, g.seq.layout.maxTick())
		p.kind = rewound
	default:
		return *v
	}
	return view{place: p, now: v.now, limit: v.limit, reached: v.now.tick, near: p.tick, over: g.over(p.tick), slow: v.slow}
}

// issue returns c's IDs. g.mu must be held.
func (g *Generator) issue(c *call, v *view) run {
	r := c.slot
	if v.held {
		c.slot = run{}
		g.seq.serve(r)
	} else {
		r = g.reserve(c, v)
		g.seq.returned(v.place, r)
		until := int64(never)
		if g.clock == nil && v.kind != leftover {
			until = int64(g.holds(v.now))
		}
		g.until.Store(until)
	}
	if g.window != nil {
		g.window.stamped = max(g.window.stamped, r.tick)
	}
	return r
}

// reserve takes IDs for c. g.mu must be held.
func (g *Generator) reserve(c *call, v *view) run {
	g.freeSlot(c)
	skip := int64(0)
	if g.seq.enters(v.place) {
		switch {
		case v.kind == bumped:
			g.counts().Bumps++
		case v.tick < g.seq.tick:
			g.counts().Rewinds++
		}
		if v.tick > v.now.tick && g.borrow > 0 {
			g.counts().Borrowed++
		}
		// A tick that was stamped before has fewer IDs left than a whole tick.
		if size := g.seq.layout.sequences(); g.seq.random && v.left == size {
			skip = randomN(max(size/2, min(size, 2)))
		}
	}
	return g.seq.take(v.place, c.n, skip, v.limit)
}

// holds returns the monotonic time until which the open tick is the tick to stamp. g.mu must be
// held.
func (g *Generator) holds(now instant) time.Duration {
	l, tick := g.seq.layout, g.seq.tick
	left := l.until(now, tick+1)
	if g.seq.late {
		left = maxLag - l.time(now).Sub(l.time(instant{tick: tick + 1}))
	}
	return g.wall.mono + g.wall.passed + min(left, g.wall.trusted())
}

// wait takes IDs for c, if c has none, and makes c sleep until their tick begins or, before that,
// until it is time to look at the clock. If the policy agreed to wait because the clock is behind
// by b, the waits are bounded by c.patience. g.mu must be held.
func (g *Generator) wait(c *call, v *view, agreed Action, b Backward) (todo, error) {
	mono := monotonic()
	due := g.due(c, v)
	if agreed == ActionWait && !c.patience.allows(due, mono) {
		return todo{}, &ClockBackwardError{b}
	}
	if err := c.outlasts(due); err != nil {
		return todo{}, err
	}
	d := due
	if agreed != ActionWait {
		d = min(due, c.watch.checkIn(mono))
	}
	if !v.held {
		c.slot = g.reserve(c, v)
		g.until.Store(never)
		g.seq.waiting().hold(c.slot.tick, c.slot.n)
	}
	return g.beginWait(c, v.now, mono, d, due), nil
}

// due returns how long c waits until v.tick may be stamped.
func (g *Generator) due(c *call, v *view) time.Duration {
	return max(c.watch.retry, g.seq.layout.until(v.now, v.tick)-g.borrow)
}

// outlasts returns an error if a wait of d would outlast c's deadline.
func (c *call) outlasts(d time.Duration) error {
	if c.deadline.IsZero() || until(c.deadline) >= d {
		return nil
	}
	return fmt.Errorf("snowflake: a wait of %v would outlast the deadline, %s: %w",
		d, formatTime(c.deadline), context.DeadlineExceeded)
}

// beginWait makes c sleep for d. If d is less than due, c's next wait continues this one. g.mu must
// be held.
func (g *Generator) beginWait(c *call, now instant, mono, d, due time.Duration) todo {
	if !c.watch.cut {
		g.seq.waiting().waits++
	}
	c.watch.begin(now, mono, d < due)
	return todo{sleep: d}
}

// atEnd returns what c does at the end of the lease's window: it asks the lease for more or, if the
// lease cannot be asked, sleeps until the window's end and looks again. g.mu must be held.
func (g *Generator) atEnd(c *call, v *view) (todo, error) {
	expired := g.expired(v.tick)
	if g.window.extender != nil {
		return todo{extend: &shortage{g.window.grant, g.seq.layout.time(v.now), expired}}, nil
	}
	if v.tick <= v.now.tick || v.slow {
		return todo{}, expired
	}
	if err := c.outlasts(g.due(c, v)); err != nil {
		return todo{}, err
	}
	end := g.seq.layout.until(v.now, v.tick)
	return g.beginWait(c, v.now, monotonic(), min(end, maxStall), end), nil
}
