package snowflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A call takes its IDs in steps: reserve, under the lock, either takes them or
// says how long to wait. The policy and the sleep come in between, without it.

// maxStall is how long a call goes on waiting for a clock that runs at less
// than half of its speed, or not at all. It is longer than the steps of any
// coarse clock (those of Windows are up to 16 ms).
const maxStall = 50 * time.Millisecond

// minRetry is the shortest wait for a clock that has not moved in the last one.
const minRetry = 100 * time.Microsecond

// maxAsks is how often a policy is asked before a call sleeps, waits or fails.
// Once is enough unless the clock goes back further between the questions.
const maxAsks = 3

// waiter is what a call remembers from one step to the next.
type waiter struct {
	wait     time.Duration // what the last step asked for
	least    time.Duration // what it must not be less than
	tick     int64         // the tick that it waits for
	behind   bool          // the last step found the clock behind: ask the policy
	grant    Grant         // of the lease that the last step found
	extended Grant         // the one that the lease was asked to extend
	consent  Action        // ActionBump or ActionRewind, once the policy chose it,
	by       time.Duration // for a clock that is this far behind
	asks     int           // how often it was asked since the last sleep

	first  time.Duration // the first wait that the policy agreed to
	agreed time.Duration // the sum of them

	since   time.Time     // the first sleep's beginning
	start   instant       // the clock's reading then
	last    instant       // and its reading in the last step
	slept   time.Duration // since then, not only asked for
	counted time.Duration // how much of slept is in the statistics
	halted  bool          // the clock did not keep up with slept
}

// run is some consecutive IDs of one tick: n of them, from first on.
type run struct {
	first ID
	n     int
}

// plan is where the next ID would lie.
type plan struct {
	tick int64
	room int64 // how many IDs are left there
	bump bool  // under another clock sequence
	late bool  // those who waited for it woke late: see Generator.lagging
}

// take returns 1 to n IDs, and waits for them where it has to.
func (g *Generator) take(ctx context.Context, n int) (run, error) {
	w := waiter{tick: -1}
	for {
		r, b, err := g.reserve(&w, n)
		if e, ok := err.(*LeaseExpiredError); ok {
			if err := g.extend(ctx, &w, e); err != nil {
				return run{}, err
			}
			continue
		}
		if err != nil || r.n > 0 {
			return r, err
		}
		if w.behind {
			again, err := g.ask(ctx, &w, b)
			if err != nil {
				return run{}, err
			}
			if again {
				continue
			}
		}
		if w.since.IsZero() {
			w.since = time.Now()
		}
		if err := sleep(ctx, w.wait); err != nil {
			return run{}, err
		}
		w.slept = time.Since(w.since)
		w.consent, w.asks = ActionFail, 0
	}
}

// ask asks the policy about b. It returns true when what the policy chose is to
// be done at once, and false when the call is to wait first.
func (g *Generator) ask(ctx context.Context, w *waiter, b Backward) (again bool, err error) {
	w.asks++
	switch a := g.policy.OnBackward(b); {
	case a == ActionWait && w.mayWait():
		return false, nil
	case w.asks > maxAsks:
	case a == ActionBump && b.CanBump:
		if g.window != nil {
			if err := g.window.terms.Bump(ctx, w.grant, b.Now); err != nil {
				return false, unbumped(ctx, b, err)
			}
		}
		w.consent, w.by = a, b.By()
		return true, nil
	case a == ActionRewind && b.CanRewind:
		w.consent, w.by = a, b.By()
		return true, nil
	}
	return false, &ClockBackwardError{b}
}

// extend asks the lease for more than the grant that e found spent. An error says
// that there is no more.
func (g *Generator) extend(ctx context.Context, w *waiter, e *LeaseExpiredError) error {
	g.mu.Lock()
	grant, extend, stopped := g.window.grant, g.window.terms.Extend, g.window.stopped
	g.mu.Unlock()
	if stopped || extend == nil || w.extended == grant {
		return e
	}
	w.extended = grant
	if err := extend(ctx, grant, e.now); err != nil {
		if ctx.Err() != nil {
			return err
		}
		e.Cause = err
		return e
	}
	return nil
}

// unbumped is the error of a call whose clock is behind, because the change of the
// clock sequence could not be recorded.
func unbumped(ctx context.Context, b Backward, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrClockBackward) {
		return err
	}
	return fmt.Errorf("%w; the clock sequence could not be changed: %w", &ClockBackwardError{b}, err)
}

// mayWait reports whether the wait that the policy has agreed to is within what
// a call may wait for a clock that is behind, and counts it.
func (w *waiter) mayWait() bool {
	if w.agreed == 0 {
		w.first = w.wait
	}
	w.agreed += w.wait
	return w.agreed <= maxStall || w.agreed/2 <= w.first
}

// sleep waits for d, or until ctx is done. It refuses at once to wait longer
// than to ctx's deadline.
func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("snowflake: a wait of %v would outlast the deadline, %s: %w", d, formatTime(deadline), context.DeadlineExceeded)
	}
	if ctx.Done() == nil {
		time.Sleep(d)
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve takes 1 to n IDs of one tick. Where that is not possible now, it
// returns none and sets w.wait; where the clock is behind, it also sets
// w.behind and returns what the policy is to be told.
//
// It checks everything first, and changes what IDs come from only when it
// returns some.
func (g *Generator) reserve(w *waiter, n int) (run, Backward, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, err := g.read()
	if err != nil {
		return run{}, Backward{}, err
	}
	l := g.layout
	g.count(w, now)
	limit := l.plus(now, g.borrow) // the last tick that may be stamped now
	if g.window != nil {
		if g.window.stopped {
			return run{}, Backward{}, g.expired(now, now.tick)
		}
		if limit >= g.window.hi || w.consent == ActionBump {
			if err := g.look(); err != nil {
				return run{}, Backward{}, err
			}
		}
	}

	p := g.forward(now, w.tick)
	// Behind a tick that was gone back to there may be others that are spent: a
	// few of them are waited for, more are a clock that is behind.
	near := limit + min(max(1, int64(maxStall/l.Unit)), math.MaxInt64-limit)
	if w.behind = g.tick > limit || p.tick > near || w.halted && p.tick > limit; w.behind {
		last := p.tick
		if g.tick > limit {
			last = g.tick
		}
		b := Backward{
			Last:      l.time(instant{tick: last}).Add(-g.borrow),
			Now:       l.time(now),
			CanBump:   g.canBump(now),
			CanRewind: g.canRewind(now.tick, near),
		}
		switch {
		case b.By() > w.by: // it agreed to less
		case w.consent == ActionBump && b.CanBump && g.window == nil:
			p, w.behind = plan{tick: now.tick, room: g.start(), bump: true}, false
		case w.consent == ActionRewind && b.CanRewind:
			p = g.room(now.tick)
			w.behind = w.halted && p.tick > limit
		}
		if w.behind {
			g.stats.Backward++
			if g.window != nil {
				w.grant = g.window.grant
			}
			w.wait = max(w.least, l.until(now, p.tick)-g.borrow)
			return run{}, b, nil
		}
	}

	switch {
	case p.room == 0:
		return run{}, Backward{}, l.exhausted(l.Expires())
	case p.tick > limit:
		w.tick, w.wait = p.tick, max(w.least, l.until(now, p.tick)-g.borrow)
		return run{}, Backward{}, nil
	case g.window != nil && p.tick >= g.window.hi:
		if p.tick <= now.tick || w.halted {
			return run{}, Backward{}, g.expired(now, p.tick)
		}
		// It is borrowing that met the window's end. The clock has not.
		w.tick, w.wait = p.tick, max(w.least, l.until(now, p.tick))
		return run{}, Backward{}, nil
	}
	g.enter(p, now)
	return g.cut(n), Backward{}, nil
}

// read reads the clock.
func (g *Generator) read() (instant, error) {
	g.fresh = 0 // it was counted from an anchor that may move now
	if g.clock != nil {
		return g.layout.instant(g.clock.Now())
	}
	return g.layout.instant(g.wall.now())
}

// count notes, for the statistics and for w, what w has slept for.
func (g *Generator) count(w *waiter, now instant) {
	if w.asks > 0 {
		return // it has not slept since the last step
	}
	if w.slept == 0 {
		w.start, w.last = now, now
		return
	}
	g.stats.Waits++
	g.stats.Waited += w.slept - w.counted
	w.counted = w.slept
	passed := g.layout.time(now).Sub(g.layout.time(w.start))
	w.halted = w.slept >= maxStall && passed < w.slept/2
	w.least = 0
	if now == w.last {
		w.least = minRetry
	}
	w.last = now
}

// forward returns the plan that keeps IDs in order. waited is the tick that the
// caller has waited for, or -1.
func (g *Generator) forward(now instant, waited int64) plan {
	from, late := now.tick, false
	switch {
	case now.tick <= g.tick:
		from, late = g.tick, g.lagging
	case g.clock != nil:
		// It is not known to be smooth.
	case g.lagging && g.tick >= g.layout.plus(now, -maxLag):
		from, late = g.tick, true
	case waited > g.tick && waited >= g.layout.plus(now, -maxLag) && waited <= now.tick:
		from, late = waited, waited < now.tick || now.into > 0
	}
	p := g.room(from)
	p.late = late && p.tick <= now.tick
	return p
}

// room finds the first tick from tick on that has IDs left. Where there is none
// it returns the layout's last, without room.
func (g *Generator) room(tick int64) plan {
	for ; ; tick++ {
		room := g.left(tick)
		if room > 0 || tick == g.layout.maxTick() {
			return plan{tick: tick, room: room}
		}
	}
}

// left returns how many IDs a tick has left under the current clock sequence.
func (g *Generator) left(tick int64) int64 {
	if tick == g.tick {
		return g.spare
	}
	if g.past != nil {
		if left, ok := g.past.left(tick); ok {
			return left
		}
	}
	return g.start()
}

// start returns how many IDs a tick that was never stamped has to give.
func (g *Generator) start() int64 {
	size := g.layout.sequences()
	if !g.random {
		return size
	}
	return size - rand.Int64N(max(size/2, min(size, 2)))
}

// canBump reports whether there is a clock sequence that is behind the clock.
func (g *Generator) canBump(now instant) bool {
	if g.window != nil {
		t := g.window.terms
		return t.Bump != nil && t.CanBump != nil && g.layout.ClockSeqBits > 0 && now.tick > g.window.floor && t.CanBump(g.layout.time(now))
	}
	return g.past != nil && g.past.behind(now.tick) >= 0
}

// canRewind reports whether all that was stamped in tick and since is known, and
// leaves room in it or up to near.
func (g *Generator) canRewind(tick, near int64) bool {
	if g.past == nil || tick >= g.tick || !g.past.knows(tick, g.tick) {
		return false
	}
	p := g.room(tick)
	return p.room > 0 && p.tick <= near
}

// enter makes p the tick that IDs come from.
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
		g.open(p.tick, p.room)
	}
	g.lagging = p.late
	if g.clock == nil {
		g.fresh = g.holds(now)
	}
}

// leave closes the tick that IDs came from.
func (g *Generator) leave() {
	g.stats.Issued += uint64(g.opened - g.spare)
	if g.past != nil {
		g.past.record(g.tick, g.spare)
	}
}

// open makes tick, with its last room IDs, the one that IDs come from.
func (g *Generator) open(tick, room int64) {
	l := g.layout
	g.tick, g.spare, g.opened = tick, room, room
	g.next = ID(tick<<l.timeShift()|(l.sequences()-room)<<l.sequenceShift()) | g.fixed
}

// holds returns how long after wall's anchor the clock will have moved so far
// that tick is no longer the one to stamp.
func (g *Generator) holds(now instant) time.Duration {
	left := g.layout.until(now, g.tick+1)
	if g.lagging {
		left = maxLag - g.layout.time(now).Sub(g.layout.time(instant{tick: g.tick + 1}))
	}
	return g.wall.passed + min(left, g.wall.trusted())
}

// cut takes up to n of the IDs of the open tick.
func (g *Generator) cut(n int) run {
	r := run{first: g.next, n: int(min(int64(n), g.spare))}
	g.next += ID(r.n) * g.step
	g.spare -= int64(r.n)
	return r
}

// setClockSeq makes seq the clock sequence of the IDs to come.
func (g *Generator) setClockSeq(seq int64) {
	shift := g.layout.clockSeqShift()
	g.fixed = g.fixed&^ID(lowBits(g.layout.ClockSeqBits)<<shift) | ID(seq<<shift)
}

// resume goes on in the tick of after, with the first ID above it, or behind
// that tick where it has none for this worker.
func (g *Generator) resume(after ID) {
	l := g.layout
	p := l.Decode(after)
	tick := int64(after) >> l.timeShift()
	g.setClockSeq(int64(p.ClockSeq))
	room := int64(0)
	for _, first := range []int64{0, int64(p.Sequence), int64(p.Sequence) + 1} {
		if g.open(tick, l.sequences()-first); g.next > after && first < l.sequences() {
			room = l.sequences() - first
			break
		}
	}
	g.open(tick, room)
	if g.past != nil {
		g.past.resume(tick, int64(p.ClockSeq))
	}
}
