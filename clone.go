package snowflake

import "math"

// cloned reports whether the machine was cloned since the lease asked for the worker ID.
func (g *Generator) cloned() bool {
	return g.vmGeneration != nil && g.vmGeneration.Load() != g.born.Load()
}

// unlessCloned returns r. If the machine was cloned since the lease asked for the worker ID, it
// returns no IDs and ends the window, because another copy may issue the same IDs. It is called
// between the choice of IDs and their return: each copy notices a snapshot that was taken before
// the choice or during it. g.mu must be held.
func (g *Generator) unlessCloned(r run) run {
	if !g.cloned() {
		return r
	}
	g.until.Store(noTick)
	g.window.hi = math.MinInt64
	g.seq.taken -= uint64(r.n)
	return run{}
}

// confirm reports whether a call may return n IDs that it has claimed. Like unlessCloned, it is
// called before their return.
func (g *Generator) confirm(s sight, n int64) bool {
	return g.vmGeneration == nil || g.vmGeneration.Load() == s.born || g.drop(n)
}

// drop ends the window if the machine was cloned, and disowns n IDs. It returns false.
func (g *Generator) drop(n int64) bool {
	g.lock()
	defer g.unlock()
	g.unlessCloned(run{})
	g.seq.taken -= uint64(n)
	return false
}

// generation returns the machine's generation, or 0 if the machine does not report clones.
func (g *Generator) generation() uint64 {
	if g.vmGeneration == nil {
		return 0
	}
	return g.vmGeneration.Load()
}

// disown subtracts n IDs from those that Stats counts as issued.
func (g *Generator) disown(n int) {
	g.lock()
	defer g.unlock()
	g.seq.taken -= uint64(n)
}
