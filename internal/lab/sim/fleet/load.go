//go:build go1.25

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// call is a call of the generator.
type call struct {
	what  string        // NextID, NextIDContext or Fill
	n     int           // how many IDs it wants
	after time.Duration // when it begins, after its caller was free
	limit time.Duration // after that it gives up; 0: never
	knows bool          // the limit is a deadline

	begin, end time.Duration // since the run began; end is 0 if it was not made
	ids        []snowflake.ID
	err        error
}

// outcome is the result of the calls that a process made together.
type outcome struct {
	calls         []*call
	callers       int
	wanted        int            // IDs
	ids           []snowflake.ID // sorted
	err           error          // of a lone call, or else one that is not its context's
	took          time.Duration  // but for pauses
	whole         time.Duration  // with them
	mono          time.Duration  // the monotonic clock's reading before it
	before, after snowflake.Stats
	renewals      uint64 // of the lease, meanwhile
	readings
}

func (o outcome) String() string {
	if o.isLone() {
		return o.calls[0].String()
	}
	return fmt.Sprintf("a crowd of %d, which wants %d IDs: %d IDs in %v; %v", len(o.calls), o.wanted, len(o.ids), o.took, o.err)
}

// isLone reports whether there was one call.
func (o outcome) isLone() bool { return len(o.calls) == 1 }

// shuffled reports whether a call went back, by a bump or by a rewind.
func (o outcome) shuffled() bool {
	return o.after.Bumps+o.after.Rewinds > o.before.Bumps+o.before.Rewinds
}

// ask makes the current process do what the event says, next.
func (n *node) ask(e Event) {
	n.mu.Lock()
	n.asked = append(n.asked, e)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *node) takeAsked() (e Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.asked) > 0 {
		e, n.asked = n.asked[0], n.asked[1:]
	}
	return e
}

// load calls the generator, as was asked for or as the process likes.
func (p *process) load() error {
	w := p.w
	// As many as a tick has, or as are enough.
	tick := min(1<<w.Layout.SequenceBits, 1024/(1+len(w.Nodes)/8))
	next := func() *call { return &call{what: "NextID", n: 1} }
	switch e := p.takeAsked(); {
	case e.Kind == Burst && w.intN(2) == 0:
		return p.crowd(e.N+w.intN(min(2*tick, 60)), 1)
	case e.Kind == Burst:
		return p.crowd(e.N, 1+w.intN(min(2*tick, 50)))
	case e.Kind == FillMany:
		return p.calls([]*call{{what: "Fill", n: 1 + w.intN(e.N*tick)}})
	case e.Kind == Saturate:
		begun := time.Now()
		for n := 0; n < 4096 && time.Since(begun) < e.For; n++ {
			if err := p.calls([]*call{next()}); err != nil || p.isDead() {
				return err
			}
		}
		return nil
	}
	switch w.intN(20) {
	case 0:
		return p.crowd(2+w.intN(3), 1+w.intN(2*min(tick, 8)))
	case 1, 2:
		return p.crowd(2+w.intN(min(3*tick, 16)), 1)
	case 3, 4, 5, 6, 7:
		return p.calls([]*call{p.randomCall(2 * max(50*ms, w.Layout.Unit))})
	}
	for range 1 + w.intN(5) {
		if err := p.calls([]*call{next()}); err != nil || p.isDead() {
			return err
		}
	}
	return nil
}

// randomCall is a call of any kind. If it gives up, it does so within a time.
func (p *process) randomCall(most time.Duration) *call {
	w := p.w
	c := &call{what: "NextIDContext", n: 1}
	switch w.intN(8) {
	case 0:
		c.what = "NextID"
		return c
	case 1, 2:
		c.what, c.n = "Fill", 1+w.intN(min(3<<w.Layout.SequenceBits, 24))
	}
	if w.intN(2) == 0 {
		c.limit, c.knows = 1+w.up(most), w.intN(3) > 0
	}
	return c
}

// crowd lets callers come together, each with so many calls, one after the other.
func (p *process) crowd(callers, each int) error {
	w := p.w
	unit := max(w.Layout.Unit, ms)
	spread := w.up([]time.Duration{us, unit, 3 * unit}[w.intN(3)])
	most := unit * time.Duration(callers>>w.Layout.SequenceBits+3) // what most of them wait
	all := make([][]*call, callers)
	for i := range all {
		for range each {
			all[i] = append(all[i], p.randomCall(most))
		}
		n := time.Duration(callers)
		// No two begin at the same time: their order would not depend on the seed.
		all[i][0].after = w.up(spread)/n*n + time.Duration(i)
	}
	return p.calls(all...)
}

// calls lets callers come, each with one call after the other, and checks the results against what
// is promised.
func (p *process) calls(callers ...[]*call) error {
	o := outcome{calls: slices.Concat(callers...), callers: len(callers), before: p.gen.Stats(), mono: p.machine.Mono(),
		renewals: p.lease.Stats().Renewals}
	p.takeReadings()
	p.solo.Store(len(callers) == 1)
	p.inCall.Store(true)
	gated := p.gated()
	for _, c := range o.calls {
		o.wanted += c.n
	}
	t := p.begins(o.wanted)
	begun := time.Now()
	p.meet(callers)
	o.whole = time.Since(begun)
	p.solo.Store(false)
	p.inCall.Store(false)
	for _, c := range o.calls {
		o.ids = append(o.ids, c.ids...)
		if c.err != nil && (o.isLone() || !isContextError(c.err)) {
			o.err = c.err
		}
	}
	slices.Sort(o.ids)
	o.readings = p.takeReadings()
	o.took = max(0, o.whole-(p.gated()-gated)) // or less, if several goroutines were stopped
	if p.isDead() {
		return o.err // what a dead process has, nobody gets
	}
	o.after = p.gen.Stats()
	o.renewals = p.lease.Stats().Renewals - o.renewals
	p.checkWatermark(t, o.ids)
	p.check(o)
	return o.err
}

// meet makes the calls, and returns when all have returned.
func (p *process) meet(callers [][]*call) {
	run := func(calls []*call) {
		for _, c := range calls {
			if c.after > 0 {
				time.Sleep(c.after)
			}
			if c.make(p); c.err != nil && !isContextError(c.err) {
				return
			}
		}
	}
	if len(callers) == 1 {
		run(callers[0])
		return
	}
	var wg sync.WaitGroup
	for _, calls := range callers {
		wg.Go(func() { run(calls) })
	}
	wg.Wait()
}

// isContextError reports whether a call failed because its context had ended, and not because
// a store's context had.
func isContextError(err error) bool {
	if errors.Is(err, snowflake.ErrLeaseExpired) || errors.Is(err, snowflake.ErrClockBackward) {
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// make makes the call.
func (c *call) make(p *process) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch {
	case c.knows:
		ctx, cancel = context.WithTimeout(ctx, c.limit)
		defer cancel()
	case c.limit > 0:
		defer time.AfterFunc(c.limit, cancel).Stop()
	}
	c.begin = time.Since(p.w.begun)
	c.ids = make([]snowflake.ID, c.n)
	n := 1
	switch c.what {
	case "NextID":
		c.ids[0], c.err = p.gen.NextID()
	case "NextIDContext":
		c.ids[0], c.err = p.gen.NextIDContext(ctx)
	case "Fill":
		n, c.err = p.gen.Fill(ctx, c.ids)
	}
	if c.err != nil && c.what != "Fill" {
		n = 0
	}
	c.ids, c.end = c.ids[:n], time.Since(p.w.begun)
	if n > 0 && !p.isDead() {
		p.issues()
	}
	p.w.logf("%v: %v", p, c)
}

func (c *call) String() string {
	s := fmt.Sprintf("%s of %d, from %v to %v", c.what, c.n, c.begin, c.end)
	if c.limit > 0 {
		s += fmt.Sprintf(", gives up after %v, which it knows: %t", c.limit, c.knows)
	}
	if len(c.ids) > 0 {
		s += fmt.Sprintf(": %d to %d", c.ids[0], c.ids[len(c.ids)-1])
	}
	if c.err != nil {
		s += fmt.Sprintf("; %v", c.err)
	}
	return s
}
