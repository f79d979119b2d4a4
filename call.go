package snowflake

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// call is a call that takes IDs. With the generator's lock held, it decides what to do next
// (decide.go); it waits, and asks the policy and the lease, without the lock.
type call struct {
	n        int64     // how many IDs it wants at most
	deadline time.Time // zero: none
	slot     run       // the IDs for whose tick it waits
	watch    watch     // of the clock, since it began to wait
	asks     int       // of the policy, since the last wait
	agreed   consent   // of the policy
	patience patience
	extended *Grant // the grant that the lease was last asked to extend
}

// verdict is what a call does next, and what it needs for that.
type verdict struct {
	step    step
	ids     run
	wait    time.Duration
	behind  Backward
	grant   *Grant
	expired *LeaseExpiredError // the call's error if the lease does not extend grant
	now     time.Time          // the clock's reading
}

var errNotMade = fmt.Errorf("%w: this Generator was not made; make one with New or NewLeased", ErrInvalidOptions)

// take returns 1 to n IDs. It waits if the tick is spent or the clock went back.
func (g *Generator) take(ctx context.Context, n int) (run, error) {
	if g.seq.layout == (Layout{}) {
		return run{}, errNotMade
	}
	c := call{n: int64(n)}
	c.deadline, _ = ctx.Deadline()
	defer g.putBack(&c) // also if a policy, a lease or a clock panics
	for {
		v, err := g.step(&c)
		if err != nil || v.step == stepIssue {
			return v.ids, err
		}
		if err = g.proceed(ctx, &c, v); err != nil {
			var ids run
			if ctx.Err() != nil {
				ids = g.begun(&c)
			}
			if ids.n > 0 {
				err = nil
			}
			return ids, err
		}
	}
}

// proceed does what v says.
func (g *Generator) proceed(ctx context.Context, c *call, v verdict) error {
	if v.step == stepAsk {
		return g.ask(ctx, c, v)
	}
	c.asks = 0
	if v.step == stepExtend {
		return g.extend(ctx, c, v)
	}
	return g.sleep(ctx, v.wait)
}

// ask asks the policy what to do about a clock that went back.
func (g *Generator) ask(ctx context.Context, c *call, v verdict) error {
	b := v.behind
	c.asks++
	a := g.policy.OnBackward(b)
	if !b.can(a) || c.asks > maxAsks {
		return &ClockBackwardError{b}
	}
	if a == ActionBump && g.window != nil {
		if err := g.bump(ctx, *v.grant, b.Now); err != nil {
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

// extend asks the lease for more than it grants.
func (g *Generator) extend(ctx context.Context, c *call, v verdict) error {
	if c.extended == v.grant { // the lease said that it gave more, but did not
		return v.expired
	}
	c.extended = v.grant
	err := g.window.extender.Extend(ctx, *v.grant, v.now)
	if err == nil || ctx.Err() != nil {
		return ended(ctx, err)
	}
	v.expired.Cause = err
	return v.expired
}

// sleep waits for d, or until ctx is done or the generator is stopped.
func (g *Generator) sleep(ctx context.Context, d time.Duration) error {
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

// putBack puts the IDs back for whose tick c waits.
func (g *Generator) putBack(c *call) {
	if c.slot.n > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.drop(c)
	}
}

// drop is putBack. g.mu must be held.
func (g *Generator) drop(c *call) {
	if c.slot.n > 0 {
		g.seq.putBack(c.slot)
		c.slot = run{}
	}
}

// step takes IDs for c, or finds what c does next. It checks everything first. It changes the state
// that IDs come from only if c gets IDs, or takes them to wait for their tick.
func (g *Generator) step(c *call) (verdict, error) {
	if !g.mu.TryLock() {
		g.contend()
	}
	defer g.mu.Unlock()
	return g.stepLocked(c)
}

// stepLocked is step. g.mu must be held.
func (g *Generator) stepLocked(c *call) (verdict, error) {
	now, limit, err := g.read(c)
	if err != nil {
		return verdict{}, err
	}
	s, err := g.situation(c, now, limit)
	if err != nil {
		return verdict{}, err
	}
	agreed := c.agreed
	c.agreed = consent{}
	v := verdict{step: s.decide()}
	if v.step == stepAsk {
		if v.behind = g.behind(c, s, now); v.behind.By() <= agreed.by {
			s = g.agree(agreed.action, v.behind, s, now)
			v.step = s.decide()
		}
	}
	switch v.step {
	case stepIssue:
		if v.ids = g.unlessCloned(g.issue(c, s, now)); v.ids.n == 0 {
			v.step = stepExtend
			err = g.atEnd(c, s, &v, now)
		}
	case stepWait:
		err = g.wait(c, s, &v, now)
	case stepAsk:
		g.counts.backward++
	case stepExtend:
		err = g.atEnd(c, s, &v, now)
	case stepExhaust:
		err = g.seq.layout.exhausted(g.seq.layout.Expires())
	}
	if g.window != nil {
		v.grant = g.window.grant
	}
	return v, err
}

// begun returns the IDs for whose tick c waits, if the tick has begun.
func (g *Generator) begun(c *call) run {
	if c.slot.n == 0 {
		return run{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now, limit, err := g.read(c)
	if err != nil || g.window != nil && g.window.ended || c.slot.era != g.seq.era || c.slot.tick > limit {
		return run{}
	}
	return g.unlessCloned(g.issue(c, situation{held: true}, now))
}

// read reads the clock for c. It returns the reading, and the last tick that may be stamped now. If
// c has waited, it notes that the wait has ended. g.mu must be held.
func (g *Generator) read(c *call) (now instant, limit int64, err error) {
	now, err = g.refresh()
	if err == nil && c.watch.asleep {
		g.seq.slots.waited += c.watch.end(g.seq.layout, now, monotonic())
	}
	return now, g.seq.layout.plus(now, g.borrow), err
}

// situation returns what c finds. g.mu must be held.
func (g *Generator) situation(c *call, now instant, limit int64) (s situation, err error) {
	q, w := &g.seq, g.window
	switch {
	case w != nil && w.ended:
		return s, g.expired(now.tick)
	case w != nil && limit <= w.closed:
		err = g.look()
	}
	if c.slot.era != q.era {
		g.drop(c)
	}
	s = situation{place: place{tick: c.slot.tick, left: c.slot.n}, held: c.slot.n > 0, limit: limit, slow: c.watch.slow}
	if !s.held {
		s.place = g.next(now)
		if err == nil && g.over(s.tick) {
			err = g.look()
			s.place = g.next(now)
		}
	}
	s.last, s.near, s.over = q.last, q.layout.nearby(max(limit, q.tick)), g.over(s.tick)
	return s, err
}

// next returns the place of the next IDs if the clock has not gone back. g.mu must be held.
func (g *Generator) next(now instant) place {
	return g.seq.next(now.tick, g.earliest(now))
}

// over reports whether the lease does not grant tick, as far as the generator knows. g.mu must be
// held.
func (g *Generator) over(tick int64) bool { return g.window != nil && tick >= g.window.hi }

// behind returns what to tell the policy. g.mu must be held.
func (g *Generator) behind(c *call, s situation, now instant) Backward {
	last := s.tick
	if s.last > s.limit {
		last = s.last
	}
	return Backward{
		Last:      g.seq.layout.time(instant{tick: last}).Add(-g.borrow),
		Now:       g.seq.layout.time(now),
		Stalled:   c.watch.still,
		CanBump:   g.canBump(now),
		CanRewind: g.seq.canRewind(now.tick, g.seq.layout.nearby(s.limit)),
	}
}

// canBump reports whether there is a clock sequence whose last tick is before the clock's. g.mu
// must be held.
func (g *Generator) canBump(now instant) bool {
	if g.window == nil {
		return g.seq.past != nil && g.seq.past.seqs.next(now.tick) != noClockSeq
	}
	b := g.window.bumper
	return b != nil && g.seq.layout.ClockSeqBits > 0 && now.tick > g.window.floor && b.CanBump(g.seq.layout.time(now))
}

// agree returns s as it is if the policy has chosen a. g.mu must be held.
func (g *Generator) agree(a Action, b Backward, s situation, now instant) situation {
	switch {
	case a == ActionWait:
		s.agree = true
		return s
	case a == ActionBump && b.CanBump && g.window == nil:
		s.place = place{tick: now.tick, left: g.seq.layout.sequences(), kind: bumped}
	case a == ActionRewind && b.CanRewind:
		s.place = g.seq.from(now.tick, g.seq.layout.maxTick())
		s.kind = rewound
	default:
		return s
	}
	s.held, s.last, s.near, s.over = false, now.tick, s.tick, g.over(s.tick)
	return s
}

// issue returns c's IDs. g.mu must be held.
func (g *Generator) issue(c *call, s situation, now instant) run {
	r := c.slot
	if s.held {
		c.slot = run{}
		g.seq.serve(r)
	} else {
		r = g.draw(c, s, now)
		g.seq.issue(s.place, r)
		if g.clock == nil && s.kind != putBack {
			g.fresh = g.holds(now)
		}
	}
	if g.window != nil {
		g.window.stamped = max(g.window.stamped, r.tick)
	}
	return r
}

// draw takes IDs for c. g.mu must be held.
func (g *Generator) draw(c *call, s situation, now instant) run {
	g.drop(c)
	g.fresh = never
	skip := int64(0)
	if g.seq.enters(s.place) {
		switch {
		case s.kind == bumped:
			g.counts.bumps++
		case s.tick < g.seq.tick:
			g.counts.rewinds++
		}
		if s.tick > now.tick && g.borrow > 0 {
			g.counts.borrowed++
		}
		// A tick that was stamped before has fewer IDs left than a whole tick.
		if size := g.seq.layout.sequences(); g.seq.random && s.left == size {
			skip = randomN(max(size/2, min(size, 2)))
		}
	}
	return g.seq.take(s.place, c.n, skip, s.limit)
}

// holds returns until when the open tick is the tick to stamp, in monotonic time. g.mu must be
// held.
func (g *Generator) holds(now instant) time.Duration {
	l, tick := g.seq.layout, g.seq.tick
	left := l.until(now, tick+1)
	if g.seq.late {
		left = maxLag - l.time(now).Sub(l.time(instant{tick: tick + 1}))
	}
	return g.wall.mono + g.wall.passed + min(left, g.wall.trusted())
}

// wait takes IDs for c, if c has none, and says for how long c waits for their tick. g.mu must be
// held.
func (g *Generator) wait(c *call, s situation, v *verdict, now instant) error {
	mono := monotonic()
	due := max(c.watch.retry, g.seq.layout.until(now, s.tick)-g.borrow)
	if s.agree && !c.patience.allows(due, mono) {
		return &ClockBackwardError{v.behind}
	}
	if !c.deadline.IsZero() && until(c.deadline) < due {
		return fmt.Errorf("snowflake: a wait of %v would outlast the deadline, %s: %w", due, formatTime(c.deadline), context.DeadlineExceeded)
	}
	if v.wait = due; !s.agree {
		v.wait = min(due, c.watch.patience(mono))
	}
	if !s.held {
		c.slot = g.draw(c, s, now)
		g.seq.waiting().hold(c.slot.tick, c.slot.n)
	}
	g.sleeps(c, now, mono, v.wait < due)
	return nil
}

// sleeps notes that c begins to wait. If the wait is cut, the next wait is a part of it. g.mu must
// be held.
func (g *Generator) sleeps(c *call, now instant, mono time.Duration, cut bool) {
	if !c.watch.cut {
		g.seq.waiting().waits++
	}
	c.watch.begin(now, mono, cut)
}

// atEnd says what c does at the end of the lease's window. g.mu must be held.
func (g *Generator) atEnd(c *call, s situation, v *verdict, now instant) error {
	v.expired, v.now = g.expired(s.tick), g.seq.layout.time(now)
	if g.window.extender != nil {
		return nil
	}
	if s.tick <= now.tick || s.slow {
		return v.expired
	}
	v.step, v.wait = stepWait, min(g.seq.layout.until(now, s.tick), maxStall) // and look again
	g.sleeps(c, now, monotonic(), false)
	return nil
}
