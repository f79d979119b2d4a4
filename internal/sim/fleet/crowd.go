package fleet

import "time"

// checkCrowd: callers are served in order of arrival, and none waits for long.
func (p *process) checkCrowd(o outcome) {
	for _, m := range o.crowd {
		p.checkMember(o, m)
	}
	if !o.backward() {
		p.checkOvertaken(o)
	}
}

// checkMember: every wait has a bound, also if the clock has gone back, and a call does not wait after it gave up.
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
		ahead = o.wanted
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
		// At the window's end a call waits for a renewal: if it was borrowing, until the
		// clock gets there, and then for an answer of the store.
		bound += p.Borrow + w.Window/3*time.Duration(1+o.renewals) + 2*late
	}
	if o.backward() || o.err != nil || p.changes != p.machine.changes() {
		most := max(50*ms, 4*w.Layout.Unit)
		if p.Policy == "wait" || p.Policy == "any" {
			most = max(most, 2*(p.MaxWait+2*w.Layout.Unit))
		}
		if p.lease != nil && p.Policy != "wait" {
			most += w.Window // for a change of the clock sequence
		}
		// A clock that is so slow that a tick takes just less than a call waits for it is waited for at each tick.
		bound += ticks * (most + 50*ms + late)
	}
	took := m.end - m.begin
	if o.isLone() {
		took = o.took
	}
	if took > bound {
		w.fail("wait", "%v: in a crowd of %d, %v took %v, over %v, with policy %s", p, len(o.crowd), m, took, bound, p.Policy)
	}
	if o.isLone() {
		late *= time.Duration(o.after.Waits - o.before.Waits + 1)
	}
	if m.limit > 0 && took > m.limit+late && (p.lease == nil || o.isLone() && o.after.Bumps == o.before.Bumps) {
		w.fail("deadline", "%v: %v", p, m)
	}
	if isContextError(m.err) && m.limit == 0 {
		w.fail("error", "%v: %v", p, m)
	}
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
