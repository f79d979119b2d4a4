package main

import "slices"

// mutant is a deliberate defect.
type mutant struct {
	name    string
	seeds   int // within so many it has to be found
	patches []patch
}

// mutants are the mistakes of other libraries, and mistakes that this one could
// make. Each is a change of the code that on(name) switches on; with none on, the
// simulator finds nothing.
var mutants = slices.Concat(generatorMutants, leaseMutants)

var generatorMutants = []mutant{
	// The generator.
	{"the clock is read outside the lock", 20, []patch{{"queue.go", "\tdeadline time.Time\n",
		"\tdeadline time.Time\n\tearly   func() (instant, error) // on(\"the clock is read outside the lock\")\n"}, {"reserve.go", "func (g *Generator) reserve(c *caller, agreed consent) (reservation, error) {\n",
		`func (g *Generator) reserve(c *caller, agreed consent) (reservation, error) {
	if on("the clock is read outside the lock") && g.clock != nil {
		at, err := g.layout.instant(g.clock.Now())
		c.early = func() (instant, error) { return at, err }
	}
`}, {"reserve.go", "\tnow, err := g.refresh()\n\tif err != nil {\n\t\treturn reservation{}, err\n",
		`	now, err := instant{}, error(nil)
	if on("the clock is read outside the lock") && c.early != nil {
		now, err = c.early()
	} else {
		now, err = g.refresh()
	}
	if err != nil {
		return reservation{}, err
`}}},
	{"state changes before the refusal", 20, []patch{{"reserve.go", "\t\tg.stats.Backward++\n",
		`		g.stats.Backward++
		if on("state changes before the refusal") {
			g.leave()
			g.open(now.tick, g.layout.sequences())
		}
`}}},
	{"the old tick again, after waiting for a clock that went back", 20, []patch{{"reserve.go", "\tif b != nil && b.By() <= agreed.by {\n",
		`	if on("the old tick again, after waiting for a clock that went back") && b != nil && !c.since.IsZero() {
		p, b = plan{tick: now.tick, left: g.layout.sequences()}, nil
	}
	if b != nil && b.By() <= agreed.by {
`}}},
	{"a batch crosses the end of its tick", 20, []patch{{"reserve.go", "\tr := run{first: g.nextID, n: int(min(int64(n), g.left))}\n",
		`	r := run{first: g.nextID, n: int(min(int64(n), g.left))}
	if on("a batch crosses the end of its tick") {
		r.n = n
	}
`}}},
	{"the sequence spills into the next field", 20, []patch{{"reserve.go", "<<l.sequenceShift()) | g.fixed\n",
		`<<l.sequenceShift()) | g.fixed
	if on("the sequence spills into the next field") && left > 0 {
		g.left++
	}
`}}},
	{"borrowing has no bound", 20, []patch{{"reserve.go", "for p.left > 0 && p.tick <= limit &&",
		"for p.left > 0 && (p.tick <= limit || on(\"borrowing has no bound\") && g.borrow > 0) &&"}}},
	{"what was borrowed looks like a step back", 20, []patch{{"reserve.go", "\tcase g.tick > limit:\n",
		"\tcase g.tick > limit, on(\"what was borrowed looks like a step back\") && g.tick > now.tick:\n"}}},
	{"After is ignored", 20, []patch{{"snowflake.go", "\tif o.After > 0 {\n",
		"\tif o.After > 0 && !on(\"After is ignored\") {\n"}}},
	{"After itself is issued again", 50, []patch{{"reserve.go", "g.nextID > after && first",
		"(g.nextID > after || on(\"After itself is issued again\") && g.nextID == after) && first"}}},
	{"clock sequences are a counter", 50, []patch{{"past.go", "i != s.current && last < tick && (best",
		"i != s.current && (last < tick || on(\"clock sequences are a counter\")) && (best"}}},
	{"a clock sequence forgets its last tick", 100, []patch{{"past.go", "\ts.last[s.current] = top\n",
		`	if !on("a clock sequence forgets its last tick") {
		s.last[s.current] = top
	}
`}}},
	{"clock sequences that were not used since the start are open", 100, []patch{{"past.go", "\tp.seqs.virgin, p.seqs.first = tick, first\n",
		`	p.seqs.virgin, p.seqs.first = tick, first
	if on("clock sequences that were not used since the start are open") {
		p.seqs.virgin = -1
	}
`}}},
	{"rewinding forgets what was used", 50, []patch{{"past.go", "m.tick == tick {\n",
		"m.tick == tick && !on(\"rewinding forgets what was used\") {\n"}}},
	{"rewinding to ticks that are not remembered", 200, []patch{{"past.go", "tick > r.floor && tick > max(r.top, head)-int64(len(r.marks))\n",
		"tick > r.floor && (tick > max(r.top, head)-int64(len(r.marks)) || on(\"rewinding to ticks that are not remembered\"))\n"}}},
	{"rewinding to before the start", 100, []patch{{"past.go", "\treturn tick > r.floor && (tick >",
		"\treturn (tick > r.floor || on(\"rewinding to before the start\")) && (tick >"}, {"past.go", "\tif tick <= r.floor {\n",
		"\tif tick <= r.floor && !on(\"rewinding to before the start\") {\n"}}},
	{"a wait for the clock has no bound", 1000, []patch{{"queue.go", "\treturn c.agreed <= maxStall ||",
		"\treturn on(\"a wait for the clock has no bound\") || c.agreed <= maxStall ||"}}},
	{"the policy's limit is ignored", 20, []patch{{"backward.go", "\tif b.By() <= p.max {\n",
		"\tif b.By() <= p.max || on(\"the policy's limit is ignored\") {\n"}}},
	{"a clock that stands still is waited for", 1000, []patch{{"reserve.go", "\t\tc.stalled = waited >= maxStall",
		"\t\tc.stalled = !on(\"a clock that stands still is waited for\") && waited >= maxStall"}}},
	{"the deadline is ignored", 200, []patch{{"queue.go", "time.Until(c.deadline) < due {",
		"time.Until(c.deadline) < due && !on(\"the deadline is ignored\") {"}}},
	{"those who wake late are caught up with for ever", 20, []patch{{"reserve.go", "\tcase g.lagging && g.tick >= g.layout.plus(now, -maxLag):\n",
		"\tcase g.lagging && (g.tick >= g.layout.plus(now, -maxLag) || on(\"those who wake late are caught up with for ever\")):\n"}, {"reserve.go", "waited > g.tick && waited >= g.layout.plus(now, -maxLag) && waited",
		"waited > g.tick && (waited >= g.layout.plus(now, -maxLag) || on(\"those who wake late are caught up with for ever\")) && waited"}}},
	{"a time that has run out wraps round", 20, []patch{{"tick.go", "tick <= uint64(l.maxTick()) {",
		"tick <= uint64(l.maxTick()) || on(\"a time that has run out wraps round\") {"}, {"reserve.go", "\t\tif left > 0 || tick >= last {\n",
		"\t\tif left > 0 || tick >= last && !on(\"a time that has run out wraps round\") {\n"}}},

	// The clocks.
	{"the wall clock is not looked at again", 20, []patch{{"clock.go",
		"!w.steady && uint64(w.passed)", "!w.steady && !on(\"the wall clock is not looked at again\") && uint64(w.passed)"}}},
	{"the hot path does not look at the wall clock", 50, []patch{{"clock.go",
		"\treturn anchorEvery - w.passed\n", "\tif on(\"the hot path does not look at the wall clock\") {\n\t\treturn math.MaxInt64 - w.passed\n\t}\n\treturn anchorEvery - w.passed\n"}}},
	{"a correction is never taken back", 20, []patch{{"clock.go",
		"max(0, time.Duration(w.ahead)-passed/4)", "max(0, time.Duration(w.ahead)-map[bool]time.Duration{false: passed / 4}[on(\"a correction is never taken back\")])"},
		{"clock.go", "\tif ahead > maxSlew {\n", "\tif ahead > maxSlew && !on(\"a correction is never taken back\") {\n"}}},

	{"a stale reading is believed", 20, []patch{{"snowflake.go", "\tstride ID ",
		"\tstale  time.Duration // on(\"a stale reading is believed\")\n\tstride ID "}, {"snowflake.go", "\t\tg.mu.Unlock()\n\t}\n\tr, err := g.take(context.Background(), 1)\n",
		"\t\tif on(\"a stale reading is believed\") {\n\t\t\tg.stale = read\n\t\t}\n\t\tg.mu.Unlock()\n\t}\n\tr, err := g.take(context.Background(), 1)\n"}, {"reserve.go", "\treturn g.layout.instant(g.wall.now())\n",
		`	stale := g.stale
	g.stale = 0
	if passed := stale - g.wall.mono; on("a stale reading is believed") && stale > 0 && passed < anchorEvery {
		g.wall.passed = passed
		return g.layout.instant(g.wall.at(passed))
	}
	return g.layout.instant(g.wall.now())
`}}},

	// The generator under a lease.
	{"the window's end is off by one", 20, []patch{{"reserve.go", "p.tick < g.window.hi) {",
		"p.tick < g.window.hi || on(\"the window's end is off by one\") && p.tick == g.window.hi) {"}}},
	{"the window's beginning is ignored", 100, []patch{{"lease.go", "\tlo := g.layout.ceil(grant.From)\n",
		`	lo := g.layout.ceil(grant.From)
	if on("the window's beginning is ignored") {
		lo = 0
	}
`}}},
	{"the window is not looked at again", 20, []patch{{"reserve.go", "\tcase limit >= g.window.hi:\n",
		"\tcase limit >= g.window.hi && !on(\"the window is not looked at again\"):\n"}}},
	{"a released lease's generator goes on", 100, []patch{{"lease.go", "\t\tg.window.stopped, g.window.cause, g.window.end = true,",
		"\t\tg.window.stopped, g.window.cause, g.window.end = !on(\"a released lease's generator goes on\"),"}, {"lease.go", "\t\tg.left, g.fresh = 0, 0\n",
		`		if !on("a released lease's generator goes on") {
			g.left, g.fresh = 0, 0
		}
`}}},
	{"released is the last tick, not the one behind it", 20, []patch{{"lease.go", "instant{tick: last + 1})\n",
		"instant{tick: last + map[bool]int64{false: 1}[on(\"released is the last tick, not the one behind it\")]})\n"}}},
	{"a replaced worker ID's IDs go below the last ID", 400, []patch{{"lease.go", "last = max(last, g.top()) //",
		"last = max(last, g.top()*map[bool]int64{false: 1}[on(\"a replaced worker ID's IDs go below the last ID\")]) //"}}},

	// Those that a reviewer invented, to show that the simulator was too weak.
	{"top is the last tick left", 100, []patch{{"past.go", "\tr.top = max(r.top, tick)\n",
		`	r.top = max(r.top, tick)
	if on("top is the last tick left") {
		r.top = tick
	}
`}}},
	{"never rewinds", 20, []patch{{"reserve.go", "\tif g.past == nil || tick >= g.tick ||",
		"\tif on(\"never rewinds\") || g.past == nil || tick >= g.tick ||"}}},
	{"never bumps", 20, []patch{{"reserve.go", "func (g *Generator) canBump(now instant) bool {\n",
		`func (g *Generator) canBump(now instant) bool {
	if on("never bumps") {
		return false
	}
`}}},
	{"WaitPolicy never waits", 20, []patch{{"backward.go", "\tif b.By() <= p.max ||",
		`	if on("WaitPolicy never waits") {
		return ActionFail
	}
	if b.By() <= p.max ||`}}},
	{"BorrowAhead is ignored", 200, []patch{{"reserve.go", "\tg.observe(c, now)\n",
		`	g.observe(c, now)
	if on("BorrowAhead is ignored") {
		g.borrow = 0
	}
`}}},
	{"RandomStart is ignored", 20, []patch{{"reserve.go", "g.random && left == size {",
		"g.random && left == size && !on(\"RandomStart is ignored\") {"}}},
	{"until forgets into", 50, []patch{{"tick.go", "\treturn time.Duration(lo) - at.into\n",
		`	if on("until forgets into") {
		return time.Duration(lo)
	}
	return time.Duration(lo) - at.into
`}}},
	{"idle generators lag too", 20, []patch{{"reserve.go", "\tcase g.lagging && (g.tick >= g.layout",
		"\tcase on(\"idle generators lag too\") && g.clock == nil && g.tick >= g.layout.plus(now, -maxLag):\n\t\tfrom, late = g.tick, true\n\tcase g.lagging && (g.tick >= g.layout"}}},
	{"waits are counted twice", 20, []patch{{"queue.go", "\tg.stats.Waits++\n",
		`	g.stats.Waits++
	if on("waits are counted twice") {
		g.stats.Waits++
		g.stats.Waited += waited
	}
`}}},
	{"look is not called after a bump", 20, []patch{{"lease.go", "\tif w.stopped {\n\t\treturn nil\n",
		"\tif w.stopped || on(\"look is not called after a bump\") {\n\t\treturn nil\n"}}},
	{"the old clock sequence is not masked", 200, []patch{{"reserve.go", "\tg.fixed = g.fixed&^ID",
		`	if on("the old clock sequence is not masked") {
		g.fixed |= ID(seq << shift)
		return
	}
	g.fixed = g.fixed&^ID`}}},

	// The queue.
	{"a newcomer overtakes", 20, []patch{{"reserve.go", "\t\tg.enter(p, now)\n\t\tg.give(c, now)\n",
		"\t\tg.enter(p, now)\n\t\tif on(\"a newcomer overtakes\") && !c.queued && c.ids.n == 0 {\n\t\t\tc.ids = g.draw(c.n)\n\t\t}\n\t\tg.give(c, now)\n"}}},
	{"an ID goes to a caller that has left", 50, []patch{{"queue.go", "\tfirst := q.head == c\n\tq.leave(c)\n",
		`	first := q.head == c
	if on("an ID goes to a caller that has left") {
		q.call(nil)
		return
	}
	q.leave(c)
`}}},
	{"the head gives up, and nobody takes over", 50, []patch{{"queue.go", "\tif first {\n\t\tq.call(nil)",
		"\tif first && !on(\"the head gives up, and nobody takes over\") {\n\t\tq.call(nil)"}}},
	{"Fill starves others", 50, []patch{{"queue.go", "\tc.queued, c.prev = true, q.tail\n",
		`	if on("Fill starves others") && c.n > 1 && q.head != nil {
		c.queued, c.next, q.head.prev = true, q.head, c
		q.head = c
		return
	}
	c.queued, c.prev = true, q.tail
`}}},
	{"Fill is starved", 50, []patch{{"queue.go", "\tq.tail = c\n}\n\n// leave",
		`	q.tail = c
	if p := c.prev; on("Fill is starved") && c.n == 1 && p != nil && p.n > 1 && p != q.head {
		p.prev.next, c.prev, c.next, p.prev, p.next, q.tail = c, p.prev, p, c, nil, p
	}
}

// leave`}}},
	{"a deadline is judged by the head's place", 200, []patch{{"reserve.go", "g.until(c, now, g.place(c, p).tick)",
		"g.until(c, now, map[bool]plan{false: g.place(c, p), true: p}[on(\"a deadline is judged by the head's place\")].tick)"}}},
	{"a deadline is judged as if each caller took one ID", 400, []patch{{"queue.go", "\t\tend = g.following(end, o.n)\n",
		"\t\tend = g.following(end, map[bool]int{false: o.n, true: 1}[on(\"a deadline is judged as if each caller took one ID\")])\n"}}},
	{"a stalled clock is waited for by each caller in turn", 100, []patch{{"queue.go", "\tc.next, c.prev, c.queued, q.known =",
		`	if on("a stalled clock is waited for by each caller in turn") && c.prev == nil {
		q.since = time.Now()
	}
	c.next, c.prev, c.queued, q.known =`}}},

	// What is remembered.
	{"a bump forgets After", 400, []patch{{"past.go", "append(s.last, s.virgin)\n",
		"append(s.last, map[bool]int64{false: s.virgin, true: -1}[on(\"a bump forgets After\")])\n"}}},
	{"the ring does not know After", 100, []patch{{"past.go", "\tp.ring.top, p.ring.floor = tick, tick-1\n",
		`	if !on("the ring does not know After") {
		p.ring.top, p.ring.floor = tick, tick-1
	}
`}}},
}

// regression is a mistake that this library once made, and the seed that shows it.
type regression struct {
	name    string
	seed    uint64
	patches []patch
}

var regressions = []regression{}
