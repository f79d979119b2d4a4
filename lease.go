package snowflake

import (
	"context"
	"time"
)

// Lease is a worker ID and the span of ID time that its holder may stamp.
// Package lease has leases that renew themselves; they are also a [Binder] and
// a [ClockSeqLease].
type Lease interface {
	// Worker returns the worker ID. It does not change.
	Worker() int
	// Window returns the span that may be stamped, [notBefore, notAfter). It is
	// called with the generator's lock held and must not block. Between calls
	// the window may grow; it must never have included what another holder of
	// the worker ID may stamp.
	Window() (notBefore, notAfter time.Time)
}

// Binder is a Lease that serves one Generator and can end it.
type Binder interface {
	Lease
	// Layout returns the layout that the lease is for. NewLeased takes it where
	// Options.Layout is zero.
	Layout() Layout
	// Clock returns the clock that the lease goes by. NewLeased takes it where
	// Options.Clock is nil.
	Clock() Clock
	// Bind is called by NewLeased, last of all. An error makes NewLeased fail
	// with it.
	Bind(Binding) error
}

// Binding is what a Binder gets to know of its Generator.
type Binding struct {
	// Layout is the generator's.
	Layout Layout
	// Stop makes the generator issue no further ID: calls return a
	// [*LeaseExpiredError]. It returns the first instant that was not stamped.
	Stop func() time.Time
}

// ClockSeqLease is a Lease of the clock sequences of a worker ID, one at a time,
// so that [ClockSeqPolicy] is possible under a lease.
type ClockSeqLease interface {
	Lease
	// ClockSeqWindow returns the clock sequence to stamp and the window in which
	// it may be stamped. It takes the place of Window.
	ClockSeqWindow() (seq int, notBefore, notAfter time.Time)
	// CanBump reports whether there is a clock sequence that may be stamped
	// from now on, a reading of the generator's clock. It must not block.
	CanBump(now time.Time) bool
	// Bump goes over to such a clock sequence from the one given, or does
	// nothing where that is no longer the current one. It may block, and
	// returns when the change is recorded. An error becomes a part of NextID's.
	Bump(ctx context.Context, from int, now time.Time) error
}

// window is the lease's window in ticks.
type window struct {
	lease   Lease
	seqs    ClockSeqLease // lease, where it is one and the layout has clock sequences
	floor   int64         // ticks up to this one are closed to all clock sequences
	hi      int64         // the first tick that may not be stamped any more
	end     time.Time
	stopped bool // for good
}

// lease makes g stamp only inside l's window.
func (g *Generator) lease(l Lease) error {
	g.window = &window{lease: l, floor: g.tick} // that of Options.After
	if s, ok := l.(ClockSeqLease); ok && g.layout.ClockSeqBits > 0 {
		g.window.seqs = s
	}
	g.look()
	g.stats = Stats{}
	if b, ok := l.(Binder); ok {
		return b.Bind(Binding{Layout: g.layout, Stop: g.stop})
	}
	return nil
}

// look asks the lease for its window, and closes what is before it.
func (g *Generator) look() {
	w := g.window
	seq := g.clockSeq()
	var notBefore, notAfter time.Time
	if w.seqs != nil {
		seq, notBefore, notAfter = w.seqs.ClockSeqWindow()
	} else {
		notBefore, notAfter = w.lease.Window()
	}
	w.hi, w.end = g.layout.ceil(notAfter), notAfter
	lo := g.layout.ceil(notBefore)
	if bumped := seq != g.clockSeq(); bumped || lo > g.tick { // the tick of Options.After has IDs left, and may lie before it
		g.leave()
		if bumped {
			g.stats.Bumps++
			g.setClockSeq(int64(seq))
		}
		last := max(lo-1, w.floor)
		g.open(last, 0)
		if g.past != nil {
			g.past.restart(last)
		}
	}
}

// stop is Binding.Stop.
func (g *Generator) stop() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.window.stopped {
		g.leave()
		last := g.tick
		if g.past != nil {
			last = g.past.top
		}
		g.opened, g.spare, g.fresh = 0, 0, 0
		g.window.stopped, g.window.end = true, g.layout.time(instant{tick: last + 1})
	}
	return g.window.end
}

func (g *Generator) expired(tick int64) error {
	return &LeaseExpiredError{
		Worker:   g.layout.Decode(g.fixed).Worker,
		NotAfter: g.window.end,
		Time:     g.layout.time(instant{tick: tick}),
	}
}
