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

// member is a call of the generator. The members of a crowd come at different times, want one ID or many, have deadlines,
// give up, and wait for their ticks together.
type member struct {
	what  string        // NextID, NextIDContext or Fill
	n     int           // how many IDs it wants
	after time.Duration // when it begins, after its caller was free
	limit time.Duration // after that it gives up, if it does
	knows bool          // the limit is a deadline

	begin, end time.Duration // since the run began
	reading    time.Time     // the wall clock's, at its begin
	ids        []snowflake.ID
	err        error
}

// outcome is what came of the calls that a process made together.
type outcome struct {
	crowd         []*member // in order of arrival
	callers       int
	wanted        int            // IDs
	ids           []snowflake.ID // those of several callers are sorted
	err           error          // that of a lone call, or else one that is not its context's
	took          time.Duration  // but for pauses
	whole         time.Duration  // with them
	mono          time.Duration  // the monotonic clock's reading before it
	before, after snowflake.Stats
	from          time.Time // the window's beginning, before it
	renewals      uint64    // of the lease, meanwhile
	readings
}

func (o outcome) String() string {
	if len(o.crowd) == 1 {
		return o.crowd[0].String()
	}
	return fmt.Sprintf("a crowd of %d, which wants %d IDs: %d IDs in %v; %v", len(o.crowd), o.wanted, len(o.ids), o.took, o.err)
}

// isLone reports whether there was one call.
func (o outcome) isLone() bool { return len(o.crowd) == 1 }

func (o outcome) backward() bool { return o.after.Backward > o.before.Backward }

// shuffled reports whether a call went back, by a bump or by a rewind.
func (o outcome) shuffled() bool {
	return o.after.Bumps+o.after.Rewinds > o.before.Bumps+o.before.Rewinds
}

// gaveUp reports whether a call put back IDs that it had taken. A later call gets them, before calls that
// came in between.
func (o outcome) gaveUp() bool {
	return slices.ContainsFunc(o.crowd, func(m *member) bool { return m.err != nil && m.end > m.begin })
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

func (n *node) takeAsked() (e Event, asked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if asked = len(n.asked) > 0; asked {
		e, n.asked = n.asked[0], n.asked[1:]
	}
	return e, asked
}

// load calls the generator, as was asked for or as the process likes.
func (p *process) load() error {
	w := p.w
	tick := min(1<<w.Layout.SequenceBits, 1024/(1+len(w.Nodes)/8)) // a tick's worth, or what is enough
	e, asked := p.takeAsked()
	switch {
	case asked && e.Kind == Burst:
		if w.intN(2) == 0 {
			return p.crowd(e.N+w.intN(min(2*tick, 60)), 1)
		}
		return p.crowd(e.N, 1+w.intN(min(2*tick, 50)))
	case asked && e.Kind == FillMany:
		return p.fill(1 + w.intN(e.N*tick))
	case asked && e.Kind == Saturate:
		for begun := time.Now(); time.Since(begun) < e.For; {
			if err := p.next(); err != nil || p.isDead() {
				return err
			}
		}
		return nil
	case w.Calmed:
		return p.next()
	}
	switch w.intN(20) {
	case 0:
		return p.crowd(2+w.intN(3), 1+w.intN(2*min(tick, 8)))
	case 1:
		return p.crowd(2, 1)
	case 2, 3:
		return p.fill(1 + w.intN(min(3*tick, 100)))
	case 4, 5, 6, 7:
		return p.calls([]*member{{what: "NextIDContext", n: 1, limit: w.up(2*max(50*ms, w.Layout.Unit)) + 1, knows: true}})
	case 8:
		return p.crowd(2+w.intN(min(3*tick, 16)), 1)
	}
	for range 1 + w.intN(5) {
		if err := p.next(); err != nil || p.isDead() {
			return err
		}
	}
	return nil
}

func (p *process) next() error { return p.calls([]*member{{what: "NextID", n: 1}}) }

func (p *process) fill(n int) error { return p.calls([]*member{{what: "Fill", n: n}}) }

// crowd lets callers come together, each with so many calls, one after the other.
func (p *process) crowd(callers, each int) error {
	w := p.w
	size := 1 << w.Layout.SequenceBits
	unit := max(w.Layout.Unit, ms)
	spread := w.up([]time.Duration{us, unit, 3 * unit}[w.intN(3)])
	most := unit * time.Duration(callers/size+3) // what most of them wait
	taken := map[time.Duration]bool{}            // no two begin at one time: their order would not be the seed's
	all := make([][]*member, callers)
	for i := range all {
		for k := range each {
			m := &member{what: "NextIDContext", n: 1}
			for m.after = w.up(spread); k == 0 && taken[m.after]; {
				m.after++
			}
			if k > 0 {
				m.after = 0
			}
			taken[m.after] = true
			switch w.intN(8) {
			case 0:
				m.what = "NextID"
			case 1:
				if m.what, m.n = "Fill", 1+w.intN(1+2*min(size, 64)/each); w.intN(3) == 0 {
					m.limit = 1 + w.up(most)
				}
			case 2:
				m.limit = 1 + w.up(most)
			case 3, 4:
				m.limit, m.knows = 1+w.up(most), true
			}
			all[i] = append(all[i], m)
		}
	}
	if each == 1 && size > 64 && w.intN(size/8) == 0 { // else what is left of a tick is enough for them
		all[0] = []*member{{what: "Fill", n: 2*size - 1}}
	}
	return p.calls(all...)
}

// calls lets callers come, each with one call after the other, and holds what comes of it against what was promised.
func (p *process) calls(callers ...[]*member) error {
	o := outcome{callers: len(callers), before: p.gen.Stats(), mono: p.machine.Mono()}
	p.takeReadings()
	p.solo.Store(len(callers) == 1)
	p.inCall.Store(true)
	gated := p.gated()
	if p.lease != nil {
		o.renewals, o.from = p.lease.Stats().Renewals, p.lease.Grant().From
	}
	t := p.begins()
	begun := time.Now()
	p.meet(&o, callers)
	o.whole = time.Since(begun)
	p.solo.Store(false)
	p.inCall.Store(false)
	o.readings = p.takeReadings()
	o.took = max(0, o.whole-(p.gated()-gated)) // or less, if several goroutines were stopped
	if p.isDead() {
		return o.err // what a dead process has, nobody gets
	}
	o.after = p.gen.Stats()
	if p.lease != nil {
		o.renewals = p.lease.Stats().Renewals - o.renewals
	}
	p.checkWatermark(t, o.ids)
	p.check(o)
	return o.err
}

// meet makes the calls, and returns when all have returned.
func (p *process) meet(o *outcome, callers [][]*member) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	run := func(calls []*member) {
		for _, m := range calls {
			if m.after > 0 {
				time.Sleep(m.after)
			}
			mu.Lock()
			o.crowd = append(o.crowd, m)
			mu.Unlock()
			if m.call(p, ctx); m.err != nil && !isContextError(m.err) {
				return
			}
		}
	}
	if len(callers) == 1 {
		run(callers[0])
	} else {
		for _, calls := range callers {
			wg.Go(func() { run(calls) })
		}
		p.await(&wg, len(callers), cancel)
	}
	for _, m := range o.crowd {
		o.wanted += m.n
		o.ids = append(o.ids, m.ids...)
		if m.err != nil && (o.isLone() || !isContextError(m.err)) {
			o.err = m.err
		}
	}
	if len(callers) > 1 {
		slices.Sort(o.ids)
	}
}

// await waits for callers, and fails if any of them waits for ever.
func (p *process) await(wg *sync.WaitGroup, callers int, cancel func()) {
	hang := time.AfterFunc(10*time.Minute+100*p.w.Window+1000*p.w.Layout.Unit, func() {
		p.w.fail("wait", "%v: some of %d callers were forgotten", p, callers)
		cancel()
		for range 1000 { // whoever comes serves the others first
			rescue, cancel := context.WithTimeout(context.Background(), p.w.Layout.Unit+ms)
			_, _ = p.gen.NextIDContext(rescue)
			cancel()
		}
	})
	defer hang.Stop()
	wg.Wait()
}

// isContextError is whether a call failed because its context had ended, and not because
// a store's context had.
func isContextError(err error) bool {
	if errors.Is(err, snowflake.ErrLeaseExpired) || errors.Is(err, snowflake.ErrClockBackward) {
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func (m *member) call(p *process, ctx context.Context) {
	var cancel func()
	switch {
	case m.knows:
		ctx, cancel = context.WithTimeout(ctx, m.limit)
		defer cancel()
	case m.limit > 0:
		ctx, cancel = context.WithCancel(ctx)
		defer time.AfterFunc(m.limit, cancel).Stop()
		defer cancel()
	}
	m.begin, m.reading = time.Since(p.w.begun), p.machine.Wall()
	m.ids = make([]snowflake.ID, m.n)
	n := 1
	switch m.what {
	case "NextID":
		m.ids[0], m.err = p.gen.NextID()
	case "NextIDContext":
		m.ids[0], m.err = p.gen.NextIDContext(ctx)
	case "Fill":
		n, m.err = p.gen.Fill(ctx, m.ids)
	}
	if m.err != nil && m.what != "Fill" {
		n = 0
	}
	m.ids, m.end = m.ids[:n], time.Since(p.w.begun)
	p.w.logf("%v: %v", p, m)
}

func (m *member) String() string {
	s := fmt.Sprintf("%s of %d, from %v to %v", m.what, m.n, m.begin, m.end)
	if m.limit > 0 {
		s += fmt.Sprintf(", gives up after %v, which it knows: %t", m.limit, m.knows)
	}
	if len(m.ids) > 0 {
		s += fmt.Sprintf(": %d to %d", m.ids[0], m.ids[len(m.ids)-1])
	}
	if m.err != nil {
		s += fmt.Sprintf("; %v", m.err)
	}
	return s
}
