package main

// mutant is a deliberate defect.
type mutant struct {
	name    string
	seeds   int // within so many it has to be found
	patches []patch
}

// mutants are the mistakes of other libraries, and those that this one could
// make. Each is a change of the code that on(name) switches on; with none on, the
// simulator finds nothing.
var mutants = []mutant{
	// The generator.
	{"the clock is read outside the lock", 20, []patch{{"reserve.go",
		"\tg.mu.Lock()\n\tdefer g.mu.Unlock()\n\tnow, err := g.read()\n",
		`	var now instant
	var err error
	if on("the clock is read outside the lock") && g.clock != nil {
		now, err = g.layout.instant(g.clock.Now())
		g.mu.Lock()
		defer g.mu.Unlock()
	} else {
		g.mu.Lock()
		defer g.mu.Unlock()
		now, err = g.read()
	}
`}}},
	{"state changes before the refusal", 20, []patch{{"reserve.go",
		"\t\t\tg.stats.Backward++\n",
		"\t\t\tg.stats.Backward++\n\t\t\tif on(\"state changes before the refusal\") {\n\t\t\t\tg.leave()\n\t\t\t\tg.open(now.tick, g.start())\n\t\t\t}\n"}}},
	{"the old tick again, after waiting for a clock that went back", 20, []patch{
		{"reserve.go", "w.behind = g.tick > limit ||", "w.behind = g.tick > limit && !(on(\"the old tick again, after waiting for a clock that went back\") && w.slept > 0) ||"},
		{"reserve.go", "\tcase now.tick <= g.tick:\n", "\tcase now.tick <= g.tick && !(on(\"the old tick again, after waiting for a clock that went back\") && now.tick < g.tick && waited >= 0):\n"},
	}},
	{"a batch crosses the end of its tick", 20, []patch{{"reserve.go",
		"\tr := run{first: g.next, n: int(min(int64(n), g.spare))}\n",
		"\tr := run{first: g.next, n: int(min(int64(n), g.spare))}\n\tif on(\"a batch crosses the end of its tick\") {\n\t\tr.n = n\n\t}\n"}}},
	{"the sequence spills into the next field", 20, []patch{{"reserve.go",
		"\tsize := g.layout.sequences()\n",
		"\tsize := g.layout.sequences()\n\tif on(\"the sequence spills into the next field\") {\n\t\treturn size + 1\n\t}\n"}}},
	{"borrowing has no bound", 20, []patch{{"reserve.go",
		"\tcase p.tick > limit:\n", "\tcase p.tick > limit && !(on(\"borrowing has no bound\") && g.borrow > 0):\n"}}},
	{"what was borrowed looks like a step back", 20, []patch{{"reserve.go",
		"halted && p.tick > limit; w.behind {", "halted && p.tick > limit || on(\"what was borrowed looks like a step back\") && g.tick > now.tick; w.behind {"}}},
	{"After is ignored", 20, []patch{{"snowflake.go", "\tif o.After > 0 {\n", "\tif o.After > 0 && !on(\"After is ignored\") {\n"}}},
	{"After itself is issued again", 50, []patch{{"reserve.go",
		"g.next > after && first", "(g.next > after || on(\"After itself is issued again\") && g.next == after) && first"}}},
	{"clock sequences are a counter", 50, []patch{{"past.go",
		"i != p.current && last < tick && (best", "i != p.current && (last < tick || on(\"clock sequences are a counter\")) && (best"}}},
	{"a clock sequence forgets its last tick", 100, []patch{{"past.go",
		"\tp.last[p.current] = p.top\n", "\tif !on(\"a clock sequence forgets its last tick\") {\n\t\tp.last[p.current] = p.top\n\t}\n"}}},
	{"clock sequences that were not used since the start are open", 100, []patch{{"past.go",
		"\tp.virgin, p.first = tick, first\n", "\tp.virgin, p.first = tick, first\n\tif on(\"clock sequences that were not used since the start are open\") {\n\t\tp.virgin = -1\n\t}\n"}}},
	{"rewinding forgets what was used", 50, []patch{{"past.go", "m.tick == tick {\n", "m.tick == tick && !on(\"rewinding forgets what was used\") {\n"}}},
	{"rewinding to ticks that are not remembered", 20, []patch{{"past.go",
		"\treturn tick > p.floor && tick > max(p.top, head)-int64(len(p.ring))\n",
		"\treturn tick > p.floor && (tick > max(p.top, head)-int64(len(p.ring)) || on(\"rewinding to ticks that are not remembered\"))\n"}}},
	{"rewinding to before the start", 100, []patch{{"past.go",
		"\treturn tick > p.floor && (tick >", "\treturn (tick > p.floor || on(\"rewinding to before the start\")) && (tick >"},
		{"past.go", "\tif tick <= p.floor {\n", "\tif tick <= p.floor && !on(\"rewinding to before the start\") {\n"}}},
	{"a wait for the clock has no bound", 1000, []patch{{"reserve.go",
		"\treturn w.agreed <= maxStall ||", "\treturn on(\"a wait for the clock has no bound\") || w.agreed <= maxStall ||"}}},
	{"the policy's limit is ignored", 20, []patch{{"clock.go", "\t\tif b.By() <= max {\n", "\t\tif b.By() <= max || on(\"the policy's limit is ignored\") {\n"}}},
	{"a clock that stands still is waited for", 1000, []patch{{"reserve.go",
		"\tw.halted = w.slept >= maxStall", "\tw.halted = !on(\"a clock that stands still is waited for\") && w.slept >= maxStall"}}},
	{"the deadline is ignored", 200, []patch{{"reserve.go",
		"time.Until(deadline) < d {", "time.Until(deadline) < d && !on(\"the deadline is ignored\") {"}}},
	{"those who wake late are caught up with for ever", 20, []patch{
		{"reserve.go", "\tcase g.lagging && g.tick >= g.layout.plus(now, -maxLag):\n", "\tcase g.lagging && (g.tick >= g.layout.plus(now, -maxLag) || on(\"those who wake late are caught up with for ever\")):\n"},
		{"reserve.go", "\tcase waited > g.tick && waited >= g.layout.plus(now, -maxLag) && waited <= now.tick:\n",
			"\tcase waited > g.tick && (waited >= g.layout.plus(now, -maxLag) || on(\"those who wake late are caught up with for ever\")) && waited <= now.tick:\n"},
	}},
	{"a time that has run out wraps round", 20, []patch{{"layout.go",
		"tick <= uint64(l.maxTick()) {", "tick <= uint64(l.maxTick()) || on(\"a time that has run out wraps round\") {"},
		{"reserve.go", "\t\tif room > 0 || tick == g.layout.maxTick() {\n", "\t\tif room > 0 || tick == g.layout.maxTick() && !on(\"a time that has run out wraps round\") {\n"}}},

	// The clocks.
	{"the wall clock is not looked at again", 20, []patch{{"clock.go",
		"!w.steady && uint64(w.passed)", "!w.steady && !on(\"the wall clock is not looked at again\") && uint64(w.passed)"}}},
	{"the hot path does not look at the wall clock", 50, []patch{{"clock.go",
		"\treturn anchorEvery - w.passed\n", "\tif on(\"the hot path does not look at the wall clock\") {\n\t\treturn math.MaxInt64 - w.passed\n\t}\n\treturn anchorEvery - w.passed\n"}}},
	{"a small correction is a step back", 2000, []patch{{"clock.go",
		"\tif ahead > maxSlew {\n", "\tif ahead > maxSlew || on(\"a small correction is a step back\") {\n"}}},
	{"a correction is never taken back", 20, []patch{{"clock.go",
		"max(0, w.ahead-passed/4)", "max(0, w.ahead-map[bool]time.Duration{false: passed / 4}[on(\"a correction is never taken back\")])"},
		{"clock.go", "if ahead > maxSlew ||", "if ahead > maxSlew && !on(\"a correction is never taken back\") ||"}}},
	// The generator under a lease.
	{"the window's end is off by one", 20, []patch{{"reserve.go",
		"p.tick >= g.window.hi:", "p.tick >= g.window.hi && !(on(\"the window's end is off by one\") && p.tick == g.window.hi):"}}},
	{"the window's beginning is ignored", 100, []patch{{"lease.go",
		"\tlo := g.layout.ceil(notBefore)\n", "\tlo := g.layout.ceil(notBefore)\n\tif on(\"the window's beginning is ignored\") {\n\t\tlo = 0\n\t}\n"}}},
	{"the window is not looked at again", 20, []patch{{"reserve.go",
		"\t\tif limit >= g.window.hi || w.consent", "\t\tif limit >= g.window.hi && !on(\"the window is not looked at again\") || w.consent"}}},
	{"a released lease's generator goes on", 20, []patch{{"lease.go",
		"\t\tg.window.stopped, g.window.end = true,", "\t\tg.window.stopped, g.window.end = !on(\"a released lease's generator goes on\"),"},
		{"lease.go", "\t\tg.opened, g.spare, g.fresh = 0, 0, 0\n", "\t\tif !on(\"a released lease's generator goes on\") {\n\t\t\tg.opened, g.spare, g.fresh = 0, 0, 0\n\t\t}\n"}}},
	{"released is the last tick, not the one behind it", 20, []patch{{"lease.go",
		"instant{tick: last + 1})\n\t}", "instant{tick: last + map[bool]int64{false: 1}[on(\"released is the last tick, not the one behind it\")]})\n\t}"}}},

	// The lease.
	{"the bound is recorded after its use", 20, []patch{{"lease/renew.go",
		"\terr := l.move(ctx, func(r Record) Record { return r.withBound(w.seq, later(",
		"\tif on(\"the bound is recorded after its use\") {\n\t\tl.window.Store(&window{seq: w.seq, from: w.from, to: bound})\n\t}\n\terr := l.move(ctx, func(r Record) Record { return r.withBound(w.seq, later("}}},
	{"the token is not compared", 20, []patch{{"lease/renew.go",
		"\t\tcase r.Token == own.Token && (r.Version <= own.Version ||",
		"\t\tcase (on(\"the token is not compared\") || r.Token == own.Token) && (on(\"the token is not compared\") || r.Version <= own.Version ||"}}},
	{"a clone is not told from its original", 20, []patch{{"lease/renew.go",
		"r.Version <= own.Version ||", "on(\"a clone is not told from its original\") || r.Version <= own.Version ||"}}},
	{"the version is not compared", 20, []patch{{"lease/renew.go",
		"\t\tr.Version++\n", `		if on("the version is not compared") {
			if snap, err := l.store.Load(ctx, r.Worker, r.Worker); err == nil && len(snap.Records) == 1 {
				r.Version = snap.Records[0].Version
			}
		}
		r.Version++
`}}},
	{"a lost lease goes on", 20, []patch{{"lease/renew.go",
		"\t\tcase errors.Is(err, ErrLost):\n", `		case errors.Is(err, ErrLost) && on("a lost lease goes on"):
			w := *l.window.Load()
			w.to = l.o.now().Add(l.o.Window)
			l.window.Store(&w)
			wait = every
		case errors.Is(err, ErrLost):
`}}},
	{"a save that failed is taken for made", 20, []patch{{"lease/renew.go",
		"\t\tif err == nil {\n\t\t\tl.record.Store(&saved)\n\t\t\tl.saved", "\t\tif err == nil || on(\"a save that failed is taken for made\") && !errors.Is(err, ErrConflict) {\n\t\t\tl.record.Store(&saved)\n\t\t\tl.saved"}}},
	{"a clock sequence is used before that is recorded", 200, []patch{{"lease/lease.go",
		"\terr := l.move(ctx, func(r Record) Record { return r.withBound(seq,",
		"\tif on(\"a clock sequence is used before that is recorded\") {\n\t\tl.window.Store(&window{seq: seq, from: begin, to: now.Add(l.o.Window)})\n\t}\n\terr := l.move(ctx, func(r Record) Record { return r.withBound(seq,"}}},
	{"a clock sequence begins before its bound", 200, []patch{{"lease/lease.go",
		"\tl.window.Store(&window{seq: seq, from: begin, to: l.record.Load().Bound()})\n",
		"\tif on(\"a clock sequence begins before its bound\") {\n\t\tbegin = time.Time{}\n\t}\n\tl.window.Store(&window{seq: seq, from: begin, to: l.record.Load().Bound()})\n"}}},
	{"a new holder begins at its clock", 20, []patch{{"lease/lease.go",
		"\tl.window.Store(&window{seq: a.seq, from: a.from, to: saved.Bound()})\n",
		"\tif on(\"a new holder begins at its clock\") {\n\t\ta.from = time.Time{}\n\t}\n\tl.window.Store(&window{seq: a.seq, from: a.from, to: saved.Bound()})\n"}}},
	{"a new holder forgets the other clock sequences", 20, []patch{{"lease/lease.go",
		"\tr = r.withBound(c.seq, later(c.from,", "\tif on(\"a new holder forgets the other clock sequences\") {\n\t\tr.Bounds = nil\n\t}\n\tr = r.withBound(c.seq, later(c.from,"}}},
	{"a release does not stop the generator first", 20, []patch{{"lease/lease.go",
		"\t\tnext = stop()\n", "\t\tif next = l.o.now(); !on(\"a release does not stop the generator first\") {\n\t\t\tnext = stop()\n\t\t}\n"}}},
	{"another's record is adopted", 200, []patch{{"lease/lease.go",
		"\t\t\tif r.same(a.wanted) {\n", "\t\t\tif r.same(a.wanted) || on(\"another's record is adopted\") && r.Worker == a.wanted.Worker {\n"}}},
	{"Acquire does not wait for its window", 20, []patch{{"lease/lease.go",
		"\t\tif wait <= 0 {\n\t\t\treturn nil\n", "\t\tif wait <= 0 || on(\"Acquire does not wait for its window\") {\n\t\t\treturn nil\n"}}},
	{"live holders lose their worker IDs", 20, []patch{{"lease/choose.go",
		"\t\tif r.Live(snap.Now) {\n", "\t\tif r.Live(snap.Now) && !on(\"live holders lose their worker IDs\") {\n"}}},
	{"the clients' clocks say who is dead", 20, []patch{{"lease/choose.go",
		"r.Live(snap.Now) &&", "r.Live(map[bool]time.Time{false: snap.Now, true: now}[on(\"the clients' clocks say who is dead\")]) &&"}}},
	{"kept worker IDs go to others", 20, []patch{{"lease/choose.go", "reuse == Keep && !mine {", "reuse == Keep && !mine && !on(\"kept worker IDs go to others\") {"}}},
	{"spent worker IDs are used again", 20, []patch{{"lease/choose.go",
		"r.State == Spent || reuse == Once ||", "(r.State == Spent || reuse == Once) && !on(\"spent worker IDs are used again\") ||"}}},
	{"a clock that leaps burns the future", 50, []patch{{"lease/renew.go",
		"> l.o.MaxLeap {", "> l.o.MaxLeap && !on(\"a clock that leaps burns the future\") {"}}},
	{"a clock that has leapt may begin", 50, []patch{{"lease/lease.go",
		"\tif l.ownClock {\n\t\treturn a,", "\tif l.ownClock && !on(\"a clock that has leapt may begin\") {\n\t\treturn a,"}}},
	{"bounds follow the clock back", 20, []patch{{"lease/renew.go",
		"\tbound := later(w.to, l.o.now().Add(l.o.Window))\n", "\tbound := later(w.to, l.o.now().Add(l.o.Window))\n\tif on(\"bounds follow the clock back\") {\n\t\tbound = l.o.now().Add(l.o.Window)\n\t}\n"},
		{"lease/renew.go", "later(r.bound(w.seq), bound)) })", "map[bool]time.Time{false: later(r.bound(w.seq), bound), true: bound}[on(\"bounds follow the clock back\")]) })"}}},
	{"a lease is renewed too late", 20, []patch{{"lease/renew.go", "\tevery := l.o.Window / 3\n", "\tevery := l.o.Window / 3\n\tif on(\"a lease is renewed too late\") {\n\t\tevery = 2 * l.o.Window\n\t}\n"}}},
	{"the local copy is not written", 20, []patch{{"lease/local.go",
		"\tsaved, err := s.local.Save(ctx, r)\n",
		"\tsaved, err := r, error(nil)\n\tif !on(\"the local copy is not written\") || r.Version <= 3 {\n\t\tsaved, err = s.local.Save(ctx, r)\n\t}\n"}}},

	// Those that a reviewer invented, to show that the simulator was too weak.
	{"top is the last tick left", 100, []patch{{"past.go", "\tp.top = max(p.top, tick)\n", "\tp.top = max(p.top, tick)\n\tif on(\"top is the last tick left\") {\n\t\tp.top = tick\n\t}\n"}}},
	{"never rewinds", 20, []patch{{"reserve.go", "\tif g.past == nil || tick >= g.tick ||", "\tif on(\"never rewinds\") || g.past == nil || tick >= g.tick ||"}}},
	{"never bumps", 20, []patch{{"reserve.go", "func (g *Generator) canBump(now instant) bool {\n", "func (g *Generator) canBump(now instant) bool {\n\tif on(\"never bumps\") {\n\t\treturn false\n\t}\n"}}},
	{"WaitPolicy never waits", 20, []patch{{"clock.go", "\t\tif b.By() <= max ||", "\t\tif on(\"WaitPolicy never waits\") {\n\t\t\treturn ActionFail\n\t\t}\n\t\tif b.By() <= max ||"}}},
	{"BorrowAhead is ignored", 200, []patch{{"reserve.go", "\tg.count(w, now)\n\tlimit := l.plus(now, g.borrow)", "\tg.count(w, now)\n\tif on(\"BorrowAhead is ignored\") {\n\t\tg.borrow = 0\n\t}\n\tlimit := l.plus(now, g.borrow)"}}},
	{"RandomStart is ignored", 20, []patch{{"reserve.go", "\tif !g.random {", "\tif !g.random || on(\"RandomStart is ignored\") {"}}},
	{"floor is forgotten on bump", 100, []patch{{"lease.go", "\t\tlast := max(lo-1, w.floor)\n", "\t\tlast := max(lo-1, w.floor)\n\t\tif on(\"floor is forgotten on bump\") {\n\t\t\tlast = lo - 1\n\t\t}\n"}}},
	{"until forgets into", 50, []patch{{"layout.go", "\treturn time.Duration(lo) - at.into\n", "\tif on(\"until forgets into\") {\n\t\treturn time.Duration(lo)\n\t}\n\treturn time.Duration(lo) - at.into\n"}}},
	{"idle generators lag too", 20, []patch{{"reserve.go", "\tcase g.lagging && (g.tick >= g.layout", "\tcase on(\"idle generators lag too\") && g.clock == nil && g.tick >= g.layout.plus(now, -maxLag):\n\t\tfrom, late = g.tick, true\n\tcase g.lagging && (g.tick >= g.layout"}}},
	{"waits are counted twice", 20, []patch{{"reserve.go", "\tg.stats.Waits++\n", "\tg.stats.Waits++\n\tif on(\"waits are counted twice\") {\n\t\tg.stats.Waits++\n\t\tg.stats.Waited += w.slept\n\t}\n"}}},
	{"look is not called after a bump", 20, []patch{{"reserve.go", "|| w.consent == ActionBump {\n\t\t\tg.look", "|| w.consent == ActionBump && !on(\"look is not called after a bump\") {\n\t\t\tg.look"}}},
	{"the old clock sequence is not masked", 20, []patch{{"reserve.go", "\tg.fixed = g.fixed&^ID", "\tif on(\"the old clock sequence is not masked\") {\n\t\tg.fixed |= ID(seq << shift)\n\t\treturn\n\t}\n\tg.fixed = g.fixed&^ID"}}},
	{"what was not saved is lost", 20, []patch{{"lease/renew.go", "|| r.Version <= own.Version ||", "|| r.Version <= own.Version && !on(\"what was not saved is lost\") ||"}}},
	{"release does not lower the bound", 20, []patch{{"lease/lease.go", "\t\tif stop != nil && next.Before", "\t\tif stop != nil && !on(\"release does not lower the bound\") && next.Before"}}},
	{"release records nothing", 20, []patch{{"lease/lease.go", "\tif l.record.Load().State != Held ||", "\tif on(\"release records nothing\") || l.record.Load().State != Held ||"}}},
	{"a second worker ID for a Keep owner", 20, []patch{{"lease/choose.go", "\tif o.Reuse != Keep || !owns {", "\tif o.Reuse != Keep || !owns || on(\"a second worker ID for a Keep owner\") {"}}},
	{"lost is told for a store that is away", 20, []patch{{"lease/renew.go", "\tif err != nil {\n\t\treturn err\n\t}\n\tfor _, r", "\tif err != nil && on(\"lost is told for a store that is away\") {\n\t\treturn fmt.Errorf(\"%w: %w\", ErrLost, err)\n\t}\n\tif err != nil {\n\t\treturn err\n\t}\n\tfor _, r"}}},
}

// regression is a mistake that this library once made, and the seed that shows it.
type regression struct {
	name    string
	seed    uint64
	patches []patch
}

var regressions = []regression{
	{"a steady clock is set again, after its lease's", 907, []patch{{"clock.go",
		"\tif leased {\n", "\tif leased && !(c.wall.steady && on(\"a steady clock is set again, after its lease's\")) {\n"}}},
}
