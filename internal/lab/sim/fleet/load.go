//go:build go1.25

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// call is a call of the generator, and its result.
type call struct {
	n     int           // number of IDs: 1 is NextIDContext, more is Fill
	limit time.Duration // time-out of the context; 0: none

	begin         time.Duration // start, since the run's
	took          time.Duration // duration without pauses of the process
	whole         time.Duration // duration with pauses
	mono          time.Duration // reading of the monotonic clock at the start
	before, after snowflake.Stats
	ids           []snowflake.ID
	err           error
}

func (c *call) String() string {
	s := fmt.Sprintf("a call for %d, from %v to %v", c.n, c.begin, c.begin+c.whole)
	if c.limit > 0 {
		s += fmt.Sprintf(", with a deadline after %v", c.limit)
	}
	if len(c.ids) > 0 {
		s += fmt.Sprintf(": %d to %d", c.ids[0], c.ids[len(c.ids)-1])
	}
	if c.err != nil {
		s += fmt.Sprintf("; %v", c.err)
	}
	return s
}

// ask queues load for the node's current process.
func (n *node) ask(e Event) {
	n.mu.Lock()
	n.asked = append(n.asked, e)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// takeAsked takes the oldest queued load. If there is none, its Kind is empty.
func (n *node) takeAsked() (e Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.asked) > 0 {
		e, n.asked = n.asked[0], n.asked[1:]
	}
	return e
}

// load calls the generator: for the oldest queued load or, if there is none, with a random call.
func (p *process) load() error {
	w := p.w
	// The IDs of a tick, or fewer if ticks are large.
	tick := min(1<<w.Layout.SequenceBits, 1024/(1+len(w.Nodes)/8))
	switch e := p.takeAsked(); e.Kind {
	case FillMany:
		return p.call(&call{n: 1 + w.intN(e.N*tick)})
	case Saturate:
		for begun := time.Now(); time.Since(begun) < e.For; {
			if err := p.call(&call{n: 1}); err != nil || p.isDead() {
				return err
			}
		}
		return nil
	}
	c := &call{n: 1}
	switch w.intN(4) {
	case 0:
		c.n += w.intN(min(3*tick, 24))
	case 1:
		c.limit = 1 + w.up(2*max(50*ms, w.Layout.Unit))
	}
	return p.call(c)
}

// call makes a call and checks its result.
func (p *process) call(c *call) error {
	c.before, c.mono, c.begin = p.gen.Stats(), p.machine.Mono(), time.Since(p.w.begun)
	p.inCall.Store(true)
	gated := p.gated()
	t := p.begins(c.n)
	begun := time.Now()
	c.make(p.gen)
	c.whole = time.Since(begun)
	p.inCall.Store(false)
	c.took = max(0, c.whole-(p.gated()-gated)) // if several goroutines were paused, their pauses add up
	if p.isDead() {
		return c.err // a dead process returns nothing
	}
	if len(c.ids) > 0 {
		p.issues()
	}
	p.w.logf("%v: %v", p, c)
	c.after = p.gen.Stats()
	p.checkWatermark(t, c.ids)
	p.check(c)
	return c.err
}

// make calls g.
func (c *call) make(g *snowflake.Generator) {
	ctx := context.Background()
	if c.limit > 0 {
		limited, cancel := context.WithTimeout(ctx, c.limit)
		defer cancel()
		ctx = limited
	}
	c.ids = make([]snowflake.ID, c.n)
	n := 0
	if c.n > 1 {
		n, c.err = g.Fill(ctx, c.ids)
	} else if c.ids[0], c.err = g.NextIDContext(ctx); c.err == nil {
		n = 1
	}
	c.ids = c.ids[:n]
}

// isContextError reports whether a call failed because its own context ended, and not a request's.
func isContextError(err error) bool {
	if errors.Is(err, snowflake.ErrLeaseExpired) || errors.Is(err, snowflake.ErrClockBackward) {
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
