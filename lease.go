package snowflake

import "time"

// Lease is a worker ID and the span of ID time that its holder may stamp.
type Lease interface {
	// Worker returns the worker ID. It does not change.
	Worker() int
	// Window returns the span that may be stamped, [notBefore, notAfter). It is
	// called with the generator's lock held and must not block. Between calls
	// the window may grow; it must never have included what another holder of
	// the worker ID may stamp.
	Window() (notBefore, notAfter time.Time)
}

// window is the lease's window in ticks.
type window struct {
	lease Lease
	hi    int64 // the first tick that may not be stamped any more
	end   time.Time
}

// look asks the lease for its window, and closes what is before it.
func (g *Generator) look() {
	notBefore, notAfter := g.window.lease.Window()
	g.window.hi, g.window.end = g.layout.ceil(notAfter), notAfter
	if lo := g.layout.ceil(notBefore); lo-1 > g.tick {
		g.leave()
		g.open(lo-1, 0)
		if g.past != nil {
			g.past.close(lo - 1)
		}
	}
}

func (g *Generator) expired(tick int64) error {
	return &LeaseExpiredError{
		Worker:   g.Worker(),
		NotAfter: g.window.end,
		Time:     g.layout.time(instant{tick: tick}),
	}
}
