package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// member is a call of a crowd: of callers that come at different times, want one
// ID or many, have deadlines, give up, and wait for their ticks together.
type member struct {
	what   string
	n      int           // how many IDs it wants
	after  time.Duration // when it begins,
	within time.Duration // its deadline after that, if it has one,
	gives  time.Duration // and when it gives up after that, if it does

	begin, end time.Duration // since the run began
	reading    time.Time     // the wall clock's, at its begin
	ids        []snowflake.ID
	err        error
}

// crowd makes so many calls.
func (p *process) crowd(callers int) error {
	w := p.w
	size := 1 << w.Layout.SequenceBits
	unit := max(w.Layout.Unit, ms)
	spread := w.up(oneOfUs(w, us, unit, 3*unit))
	most := unit * time.Duration(callers/size+3) // what most of them wait
	c := call{what: "a crowd", callers: callers}
	taken := map[time.Duration]bool{} // no two begin at one time: their order would not be the seed's
	for range callers {
		m := &member{what: "NextIDContext", n: 1, after: w.up(spread)}
		for taken[m.after] {
			m.after++
		}
		taken[m.after] = true
		switch w.intN(8) {
		case 0:
			m.what, m.n = "NextID", 1
		case 1:
			m.what, m.n = "Fill", 1+w.intN(2*min(size, 64))
		case 2:
			m.gives = 1 + w.up(most)
		case 3, 4:
			m.within = 1 + w.up(most)
		}
		if m.what == "Fill" && w.intN(3) == 0 {
			m.gives = 1 + w.up(most)
		}
		c.ids += m.n
		c.crowd = append(c.crowd, m)
	}
	if size > 64 && w.intN(8) == 0 { // else what is left of a tick is enough for them
		c.crowd[0].what, c.crowd[0].n, c.crowd[0].after, c.crowd[0].within = "Fill", 2*size-1, 0, 0
		c.ids += 2*size - 2
	}
	return p.call(c, func() ([]snowflake.ID, error) { return p.meet(c.crowd) })
}

func oneOfUs[T any](w *world, values ...T) T { return values[w.intN(len(values))] }

// meet makes the calls of a crowd, and returns when all have returned.
func (p *process) meet(crowd []*member) (ids []snowflake.ID, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range crowd {
		wg.Go(func() {
			time.Sleep(m.after)
			m.call(p, ctx)
		})
	}
	p.await(&wg, len(crowd), cancel)
	for _, m := range crowd {
		ids = append(ids, m.ids...)
		if m.err != nil && !isContextError(m.err) {
			err = m.err
		}
	}
	slices.Sort(ids)
	return ids, err
}

// await waits for callers, and fails if any of them waits for ever.
func (p *process) await(wg *sync.WaitGroup, callers int, cancel func()) {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	hang := time.NewTimer(10*time.Minute + 100*p.w.Window + 1000*p.w.Layout.Unit)
	defer hang.Stop()
	select {
	case <-done:
		return
	case <-hang.C:
	}
	p.w.fail("wait", "%v: some of %d callers were forgotten", p, callers)
	cancel()
	for range 1000 { // whoever comes serves the others first
		rescue, cancel := context.WithTimeout(context.Background(), p.w.Layout.Unit+ms)
		_, _ = p.gen.NextIDContext(rescue)
		cancel()
	}
	<-done
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
	if m.within > 0 {
		limited, cancel := context.WithTimeout(ctx, m.within)
		defer cancel()
		ctx = limited
	}
	if m.gives > 0 {
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(m.gives, cancel).Stop()
		ctx = limited
	}
	m.begin, m.reading = time.Since(p.w.begun), p.machine.Wall()
	switch m.what {
	case "NextID":
		m.ids, m.err = one(p.gen.NextID())
	case "NextIDContext":
		m.ids, m.err = one(p.gen.NextIDContext(ctx))
	case "Fill":
		m.ids = make([]snowflake.ID, m.n)
		n, err := p.gen.Fill(ctx, m.ids)
		m.ids, m.err = m.ids[:n], err
	}
	m.end = time.Since(p.w.begun)
	p.w.logf("%v: %v", p, m)
}

func (m *member) String() string {
	s := fmt.Sprintf("%s of %d, from %v to %v", m.what, m.n, m.begin, m.end)
	if m.within > 0 {
		s += fmt.Sprintf(", within %v", m.within)
	}
	if m.gives > 0 {
		s += fmt.Sprintf(", gives up after %v", m.gives)
	}
	if len(m.ids) > 0 {
		s += fmt.Sprintf(": %d to %d", m.ids[0], m.ids[len(m.ids)-1])
	}
	if m.err != nil {
		s += fmt.Sprintf("; %v", m.err)
	}
	return s
}

// checkCrowd: callers are served in order of arrival. Two that begin at different
// times are known to have come in that order, because time stands still until
// whoever runs has to wait.
func (p *process) checkCrowd(o outcome) {
	slices.SortFunc(o.crowd, func(a, b *member) int { return cmp.Compare(a.begin, b.begin) })
	for _, m := range o.crowd {
		p.checkMember(o, m)
	}
	if o.after.Bumps+o.after.Rewinds != o.before.Bumps+o.before.Rewinds {
		return
	}
	p.checkOvertaken(o)
	if p.isClone || p.lease != nil && p.lease.Grant().From != o.from {
		return
	}
	p.checkLeftOut(o)
	p.checkPlaces(o)
}

// checkMember: a call waits for its tick, waits only once if the clock has
// gone back, and does not wait after it gave up.
func (p *process) checkMember(o outcome, m *member) {
	w := p.w
	late := w.Late + ms
	size := 1 << w.Layout.SequenceBits
	ahead := m.n
	for _, a := range o.crowd {
		if a.begin <= m.begin && a.end >= m.begin {
			ahead += min(a.n, size)
		}
	}
	if m.what == "Fill" { // for each tick it takes its place again
		ahead = o.call.ids
	}
	room := size
	if p.Random {
		room = max(room/2, 1)
	}
	ticks := time.Duration(ahead/room + 3)
	if m.what == "Fill" {
		ticks += time.Duration(m.n * len(o.crowd) / room)
	}
	bound := ticks * (2*w.Layout.Unit + late)
	if p.lease != nil {
		bound += p.Borrow + w.Window/3*time.Duration(1+o.renewals) + 2*late
	}
	if o.after.Backward > o.before.Backward || o.err != nil || p.changes != p.machine.changes() {
		most := max(50*ms, 4*w.Layout.Unit)
		if p.Policy == "wait" || p.Policy == "any" {
			most = max(most, 2*(p.MaxWait+2*w.Layout.Unit))
		}
		if p.lease != nil && p.Policy != "wait" {
			most += w.Window
		}
		// A clock that is so slow that a tick takes just less than a call waits for it is waited for at each tick.
		bound += ticks * (most + 50*ms + late)
	}
	took := m.end - m.begin
	if took > bound {
		w.fail("wait", "%v: in a crowd of %d, %v took %v, over %v, with policy %s", p, len(o.crowd), m, took, bound, p.Policy)
	}
	if limit := cmp.Or(m.gives, m.within); limit > 0 && took > limit+late && p.lease == nil {
		w.fail("deadline", "%v: %v", p, m)
	}
	if isContextError(m.err) && m.gives == 0 && m.within == 0 {
		w.fail("error", "%v: %v", p, m)
	}
}

// gaveUp reports whether a call put back IDs that it had taken. A later call gets them, before calls that
// came in between.
func (o outcome) gaveUp() bool {
	return slices.ContainsFunc(o.crowd, func(m *member) bool { return m.err != nil && m.end > m.begin })
}

// checkOvertaken: a call gets greater IDs than every call that returned before it began. It also gets greater
// IDs than every call that only began before, unless a call gave up or had to ask the lease.
func (p *process) checkOvertaken(o outcome) {
	inOrder := p.lease == nil && !o.gaveUp()
	for k, m := range o.crowd {
		for _, before := range o.crowd[:k] {
			if len(m.ids) == 0 || len(before.ids) == 0 || before.begin == m.begin {
				continue
			}
			last := before.ids[len(before.ids)-1]
			if before.end < m.begin && last >= m.ids[0] || inOrder && before.ids[0] >= m.ids[0] {
				p.w.fail("turn", "%v: %v was overtaken by %v", p, before, m)
			}
		}
	}
}

func (p *process) tickOf(id snowflake.ID) int64 { return int64(id) >> p.w.timeShift() }

// checkLeftOut: if no call gave up, no ID of a tick is left out as long as a call waits for one.
func (p *process) checkLeftOut(o outcome) {
	l := p.w.Layout
	if o.gaveUp() {
		return
	}
	owner := map[snowflake.ID]*member{}
	for _, m := range o.crowd {
		for _, id := range m.ids {
			owner[id] = m
		}
	}
	for i := 1; i < len(o.ids); i++ {
		x, y := l.Decode(o.ids[i-1]), l.Decode(o.ids[i])
		d, b := owner[o.ids[i-1]], owner[o.ids[i]]
		switch {
		case x.Worker != y.Worker || x.ClockSeq != y.ClockSeq:
		case p.tickOf(o.ids[i-1]) == p.tickOf(o.ids[i]):
			if y.Sequence != x.Sequence+1 {
				p.w.fail("sequence", "%v: nobody got the IDs between %v of %v and %v of %v", p, x, d, y, b)
			}
		case b.n == 1 && p.Clock == "custom" && p.Borrow == 0 && p.lease == nil && x.Sequence != 1<<l.SequenceBits-1 &&
			p.changes == p.machine.changes() && p.w.tickAt(b.reading) <= p.tickOf(o.ids[i-1]):
			p.w.fail("sequence", "%v: %v of %v was not the last of its tick, and %v waited", p, x, d, b)
		}
	}
}

// checkPlaces: a deadline is refused at once, exactly if the tick in which the
// caller's turn comes begins after it.
func (p *process) checkPlaces(o outcome) {
	w := p.w
	if p.lease != nil || p.Clock != "custom" || p.Borrow > 0 || p.Random || p.changes != p.machine.changes() || o.after.Backward != o.before.Backward ||
		o.err != nil || p.lastTick < 0 {
		return
	}
	for i, m := range o.crowd {
		if m.within == 0 || m.end == m.begin && m.err == nil {
			continue
		}
		now := w.tickAt(m.reading)
		turn, known := p.turn(o.crowd[:i], m.begin, now)
		if !known || !w.startOf(turn+1).Before(w.Layout.Expires()) || now < p.top {
			continue
		}
		due := w.startOf(turn).Sub(m.reading)
		if refused := m.end == m.begin; refused != (m.within < due) {
			w.fail("deadline", "%v: %v, and its turn came in %v", p, m, due)
		}
	}
}

// turn returns the tick from which a call gets its ID that comes at this time, after these, and when the clock is
// in the tick now, whose IDs are gone. It is not known if a Fill is under way, which takes IDs again and again, or
// if a call gave up.
func (p *process) turn(before []*member, at time.Duration, now int64) (tick int64, known bool) {
	tick = now + 1
	for _, m := range before {
		if m.begin == at || m.n > 1 && m.end >= at || m.err != nil && m.end > m.begin {
			return 0, false
		}
		if len(m.ids) > 0 {
			last := m.ids[len(m.ids)-1]
			next := p.tickOf(last)
			if p.w.Layout.Decode(last).Sequence == 1<<p.w.Layout.SequenceBits-1 {
				next++
			}
			tick = max(tick, next)
		}
	}
	return tick, true
}
