package snowflake

import (
	"context"
	"fmt"
	"time"
)

// call is a call that obtains IDs. With the lock held, it finds the source of its IDs, decides what
// to do (see decide.go), and takes its IDs. Without the lock it makes its move: it sleeps, or asks
// the policy or the lease. Then it looks again.
type call struct {
	n        int64     // the most IDs that it takes
	deadline time.Time // zero without a deadline
	slot     run       // the IDs for whose tick it waits
	now      instant   // the clock's last reading
	watch    watch
	progress progress
}

// move is a call's next step, without the lock.
type move struct {
	kind    moveKind
	ids     run                // to return
	sleep   time.Duration      // the time to sleep
	back    *Backward          // for the policy
	grant   *Grant             // the lease's grant when the move was chosen
	refusal *LeaseExpiredError // the call's error if the lease does not extend grant
}

// obtain returns 1 to n IDs. It waits if the tick is spent or the clock went back.
func (g *Generator) obtain(ctx context.Context, n int) (run, error) {
	if g.seq.layout == (Layout{}) {
		return run{}, errNotMade
	}
	c := call{n: int64(n)}
	c.deadline, _ = ctx.Deadline()
	defer g.finish(&c) // even if a policy, a lease or a clock panics
	for {
		m, err := g.advance(&c)
		if err != nil || m.kind == returns {
			return m.ids, err
		}
		if err = g.do(ctx, &c, m); err == nil {
			continue
		}
		if ctx.Err() != nil {
			if ids := g.slotInTime(&c); ids.n > 0 {
				return ids, nil
			}
		}
		return run{}, err
	}
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

// do makes a move.
func (g *Generator) do(ctx context.Context, c *call, m move) error {
	if m.kind == asks {
		return g.ask(ctx, c, m)
	}
	c.progress.asks = 0
	if m.kind == extends {
		return g.extend(ctx, c, m)
	}
	return g.nap(ctx, m.sleep)
}

// maxExtends bounds a call's requests for a longer grant. One is enough unless other calls use up
// the extension.
const maxExtends = 100

// extend asks the lease for a longer grant.
func (g *Generator) extend(ctx context.Context, c *call, m move) error {
	p := &c.progress
	switch p.extends++; {
	case ctx.Err() != nil:
		return ctx.Err()
	case p.extended == m.grant, p.extends > maxExtends:
		// The lease reported success, but did not grant more, or not enough.
		return m.refusal
	}
	p.extended = m.grant
	err := g.window.extender.Extend(ctx, *m.grant, g.seq.layout.time(c.now))
	if err == nil || ctx.Err() != nil {
		return ended(ctx, err)
	}
	m.refusal.Cause = err
	return m.refusal
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

// advance chooses c's next move. It checks everything before it changes anything, and changes the
// sequence only if c gets IDs, or takes them to wait for their tick.
func (g *Generator) advance(c *call) (move, error) {
	g.lock()
	defer g.unlock()
	return g.advanceLocked(c)
}

// advanceLocked is advance. g.mu must be held.
func (g *Generator) advanceLocked(c *call) (move, error) {
	if err := g.read(c); err != nil {
		return move{}, err
	}
	v, err := g.find(c)
	if err != nil {
		return move{}, err
	}
	c.progress.agreed, c.progress.by = ActionFail, 0
	switch v.decide() {
	case returns:
		if ids := g.unlessCloned(g.issue(c, &v)); ids.n > 0 {
			return move{ids: ids}, nil
		}
		return g.atEnd(c, &v)
	case extends:
		return g.atEnd(c, &v)
	case sleeps:
		return g.wait(c, &v)
	case asks:
		g.counts().Backward++
		m := move{kind: asks, back: v.back}
		if g.window != nil {
			m.grant = g.window.grant
		}
		return m, nil
	}
	return move{}, g.seq.layout.exhausted(g.seq.layout.Expires())
}

// slotInTime returns the IDs for whose tick c waits, if the tick has begun.
func (g *Generator) slotInTime(c *call) run {
	if c.slot.n == 0 {
		return run{}
	}
	g.lock()
	defer g.unlock()
	if g.read(c) != nil || g.window != nil && g.window.ended || c.slot.era != g.seq.era || c.slot.tick > g.limit(c.now) {
		return run{}
	}
	return g.unlessCloned(g.issue(c, &view{place: place{kind: slot}}))
}

// read reads the clock for c. If c has waited, it notes that the wait has ended. g.mu must be held.
func (g *Generator) read(c *call) (err error) {
	c.now, err = g.refresh()
	if err == nil && c.watch.asleep {
		g.counts().Waited += c.watch.end(g.seq.layout, c.now, monotonic())
	}
	return err
}

// limit returns the last tick that may be stamped when the clock reads now.
func (g *Generator) limit(now instant) int64 { return g.seq.layout.plus(now, g.borrow) }

// find returns c's view, with the source of its IDs: its slot, the next IDs in order or, if the
// clock went back and the policy has agreed, another clock sequence or an earlier tick. g.mu must
// be held.
func (g *Generator) find(c *call) (v view, err error) {
	v.limit = g.limit(c.now)
	if v.place, err = g.inOrder(c, v.limit); err != nil {
		return v, err
	}
	l, q, slow := g.seq.layout, &g.seq, c.watch.slow
	v.reached, v.over = q.reached, g.over(v.tick)
	v.behind = v.isBehind(l, q.tick, slow)
	if !v.behind || v.kind == slot && v.tick <= v.limit {
		return v, nil
	}
	v.back = g.stepBack(c, &v)
	if v.back.By() <= c.progress.by {
		v.agreed = c.progress.agreed
	}
	switch {
	case v.agreed == ActionBump && v.back.CanBump && g.window == nil:
		v.place = place{tick: c.now.tick, left: l.sequences(), kind: bumped}
	case v.agreed == ActionRewind && v.back.CanRewind:
		v.place = q.from(c.now.tick, l.maxTick())
		v.kind = rewound
	default:
		return v, nil
	}
	// The clock has reached every tick that still counts.
	v.reached, v.over, v.behind = c.now.tick, g.over(v.tick), v.tick > v.limit && slow
	return v, nil
}

// inOrder returns the place of c's slot or, if c has none, of the next IDs in order. If the
// generator's copy of the grant may be out of date, inOrder looks at the lease's. g.mu must be
// held.
func (g *Generator) inOrder(c *call, limit int64) (p place, err error) {
	q, w := &g.seq, g.window
	switch {
	case w != nil && w.ended:
		return p, g.expired(c.now.tick)
	case w != nil && limit <= w.closed:
		err = g.look()
	}
	if c.slot.era != q.era {
		g.freeSlot(c)
	}
	if c.slot.n > 0 {
		return place{tick: c.slot.tick, left: c.slot.n, kind: slot}, err
	}
	if p = q.next(c.now.tick, g.earliest(c.now)); err == nil && g.over(p.tick) {
		err = g.look()
		p = q.next(c.now.tick, g.earliest(c.now))
	}
	return p, err
}

// over reports whether tick is not in the generator's copy of the grant. g.mu must be held.
func (g *Generator) over(tick int64) bool { return g.window != nil && tick >= g.window.hi }

// issue returns c's IDs. g.mu must be held.
func (g *Generator) issue(c *call, v *view) run {
	r := c.slot
	if v.kind == slot {
		c.slot = run{}
		g.seq.slots.count(r.tick, -r.n)
	} else {
		r = g.reserve(c, v)
		g.until.Store(g.closes(c, v))
	}
	g.seq.returned(r, v.kind)
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
		if v.tick > c.now.tick && g.borrow > 0 {
			g.counts().Borrowed++
		}
		// A tick that was stamped before has fewer IDs left than a whole tick.
		if size := g.seq.layout.sequences(); g.seq.random && v.left == size {
			skip = randomN(max(size/2, min(size, 2)))
		}
	}
	return g.seq.take(v.place, c.n, skip, v.limit)
}

// closes returns word.until for the tick that c has just stamped. g.mu must be held.
func (g *Generator) closes(c *call, v *view) int64 {
	if g.clock != nil || v.kind == leftover {
		return noTick
	}
	l, next := g.seq.layout, g.seq.tick+1
	left := l.until(c.now, next)
	if g.seq.late {
		left = maxLag - l.time(c.now).Sub(l.time(instant{tick: next}))
	}
	return int64(g.wall.mono + g.wall.passed + min(left, g.wall.trusted()))
}

// wait takes IDs for c, if c has none, and makes c sleep until their tick begins or until an
// earlier look at the clock is due. If the policy agreed to wait, c.progress bounds the waits. g.mu
// must be held.
func (g *Generator) wait(c *call, v *view) (move, error) {
	mono := monotonic()
	due := g.due(c, v)
	if v.agreed == ActionWait && !c.progress.mayWait(due, mono) {
		return move{}, &ClockBackwardError{*v.back}
	}
	if err := c.outlasts(due); err != nil {
		return move{}, err
	}
	d := due
	if v.agreed != ActionWait {
		d = min(due, c.watch.checkIn(mono))
	}
	if v.kind != slot {
		c.slot = g.reserve(c, v)
		g.until.Store(noTick)
		g.seq.waiting().count(c.slot.tick, c.slot.n)
	}
	return g.sleep(c, mono, d, due), nil
}

// due returns the time until v.tick may be stamped.
func (g *Generator) due(c *call, v *view) time.Duration {
	return max(c.watch.retry, g.seq.layout.until(c.now, v.tick)-g.borrow)
}

// outlasts returns an error if a wait of d would outlast c's deadline.
func (c *call) outlasts(d time.Duration) error {
	if c.deadline.IsZero() || until(c.deadline) >= d {
		return nil
	}
	return fmt.Errorf("snowflake: a wait of %v would outlast the deadline, %s: %w",
		d, formatTime(c.deadline), context.DeadlineExceeded)
}

// sleep makes c sleep for d. If d is less than due, c's next wait counts as a part of this one.
// g.mu must be held.
func (g *Generator) sleep(c *call, mono, d, due time.Duration) move {
	if !c.watch.cut {
		g.counts().Waits++
	}
	c.watch.start(c.now, mono, d < due)
	return move{kind: sleeps, sleep: d}
}

// atEnd is c's move at the end of the lease's window: to ask the lease for more or, if the lease
// cannot be asked, to sleep until the window's end and look again. g.mu must be held.
func (g *Generator) atEnd(c *call, v *view) (move, error) {
	expired := g.expired(v.tick)
	if g.window.extender != nil {
		return move{kind: extends, grant: g.window.grant, refusal: expired}, nil
	}
	if v.tick <= c.now.tick || c.watch.slow {
		return move{}, expired
	}
	if err := c.outlasts(g.due(c, v)); err != nil {
		return move{}, err
	}
	end := g.seq.layout.until(c.now, v.tick)
	return g.sleep(c, monotonic(), min(end, maxStall), end), nil
}
