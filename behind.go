package snowflake

import (
	"context"
	"math"
)

// This file is how a call notices that the clock has gone back, and how it asks the policy. What it
// does with the answer is in Generator.find.

// isBehind reports whether the clock has gone back, or does not reach v's tick in time. open is the
// generator's open tick. slow: see watch.
func (v *view) isBehind(l Layout, open int64, slow bool) bool {
	// After a rewind, the next ticks may be spent: if there are many, the clock has gone back.
	return v.reached > v.limit || v.tick > v.limit && slow || v.kind != slot && v.tick > l.nearby(max(v.limit, open))
}

// nearby returns the last tick that a call waits for if the clock is at tick: maxStall later or, if
// that is less than a tick, one tick later.
func (l Layout) nearby(tick int64) int64 {
	return tick + min(max(1, int64(maxStall/l.Unit)), math.MaxInt64-tick)
}

// stepBack returns the clock's step back for the policy. g.mu must be held.
func (g *Generator) stepBack(c *call, v *view) *Backward {
	must := v.tick
	if v.reached > v.limit {
		must = v.reached
	}
	return &Backward{
		Last:      g.seq.layout.time(instant{tick: must}).Add(-g.borrow),
		Now:       g.seq.layout.time(c.now),
		Stalled:   c.watch.stalled,
		CanBump:   g.canBump(c.now),
		CanRewind: g.seq.canRewind(c.now.tick, g.seq.layout.nearby(v.limit)),
	}
}

// canBump reports whether there is a clock sequence whose last tick is before the clock's reading.
// g.mu must be held.
func (g *Generator) canBump(now instant) bool {
	if g.window == nil {
		return g.seq.trail != nil && g.seq.trail.seqs.choose(now.tick) != noClockSeq
	}
	b := g.window.bumper
	return b != nil && g.seq.layout.ClockSeqBits > 0 && now.tick > g.window.after && b.CanBump(g.seq.layout.time(now))
}

// ask asks the policy what to do about a clock that went back.
func (g *Generator) ask(ctx context.Context, c *call, m move) error {
	c.progress.asks++
	a := g.policy.OnBackward(*m.back)
	if !m.back.can(a) || c.progress.asks > maxAsks {
		return &ClockBackwardError{*m.back}
	}
	if a == ActionBump && g.window != nil {
		if err := g.bump(ctx, *m.grant, m.back.Now); err != nil {
			return unbumped(ctx, *m.back, err)
		}
	}
	c.progress.agreed, c.progress.by = a, m.back.By()
	return nil
}

// maxAsks bounds the questions to the policy before a call waits or fails. One is enough unless the
// clock goes back further between two of them.
const maxAsks = 3
