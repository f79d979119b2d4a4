//go:build go1.25

package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// check checks the result of a call.
func (p *process) check(c *call) {
	p.checkGrant()
	var last snowflake.Parts
	for _, id := range c.ids {
		parts := p.w.Layout.Decode(id)
		p.checkNew(id, parts)
		if parts.Sequence = 0; parts != last {
			p.checkFields(id, parts)
			p.checkTruth(parts, c)
			p.checkBound(parts)
		}
		last = parts
	}
	p.checkOrder(c)
	p.robbed = p.robbed || p.w.ids.hasClone(p.worker)
	if n := len(c.ids); n > 0 {
		p.worker = last.Worker
	}
	p.checkWaits(c)
	p.checkSpared(c)
	p.checkError(c)
	count := p.w.count
	count("IDs", uint64(len(c.ids)))
	count("calls found the clock behind", c.after.Backward-c.before.Backward)
	count("bumps", c.after.Bumps-c.before.Bumps)
	count("waits", c.after.Waits-c.before.Waits)
	if c.err != nil {
		count("errors", 1)
	}
}

// checkFields checks that an ID is valid, and that its worker ID is the process's.
func (p *process) checkFields(id snowflake.ID, parts snowflake.Parts) {
	if id < 0 || p.w.Layout.Check(id) != nil || !p.mayStamp(parts.Worker) || parts.Datacenter != 0 {
		p.w.fail("fields", "%v is worker %d, and issued %d: %v", p, p.worker, id, parts)
	}
}

// checkTruth checks that an ID's timestamp is the tick that the clock reads, or differs from it by
// no more than the options and the clock allow.
func (p *process) checkTruth(parts snowflake.Parts, c *call) {
	tick := parts.Time
	least, most := p.machine.offsets(100*ms + c.whole)
	lo := p.machine.start.Add(c.mono + least - maxLag)
	hi := p.machine.start.Add(p.machine.Mono() + most + maxSlew)
	if late, early := lo.Sub(tick)-p.w.Layout.Unit, tick.Sub(hi); late >= 0 || early > 0 {
		p.w.fail("truth", "%v, whose clock read %s to %s, stamped %s", p, lo.Format(timeFormat), hi.Format(timeFormat),
			tick.Format(timeFormat))
	}
}

// The documented limits of the timestamps of late callers, and of SystemClock's slewing.
const (
	maxLag  = 5 * ms
	maxSlew = 10 * ms
)

// checkBound checks that a bound above an ID was saved before the ID was issued.
func (p *process) checkBound(parts snowflake.Parts) {
	p.w.store.mu.Lock()
	r := p.w.store.worker(parts.Worker).saved
	stray := p.w.isWiped() && !slices.Contains(p.w.store.holders[r.Token], p)
	p.w.store.mu.Unlock()
	if stray {
		return // the newcomer reads the store again before it issues IDs
	}
	if p.w.ids.isCommon(parts.Worker, parts.ClockSeq, parts.Time) {
		return // the other copy may have released the worker ID
	}
	if parts.ClockSeq >= len(r.Bounds) || !parts.Time.Before(r.Bounds[parts.ClockSeq]) {
		p.w.fail("bound", "%v stamped %s with clock sequence %d, but recorded is %v", p, parts.Time.Format(timeFormat),
			parts.ClockSeq, r.Bounds)
	}
}

// checkWindow checks that a window begins after everything stamped with its clock sequence. If
// another process has taken the worker ID since, its IDs are later, and nothing is checked.
func (p *process) checkWindow() {
	w := p.w
	g := p.lease.Grant()
	worker, seq, from := g.Worker, g.ClockSeq, g.From
	if !p.tookLast(worker) {
		return
	}
	last, stamped := w.ids.lastTick(worker, seq)
	tick := w.startOf(last)
	if stamped && !w.ids.isCommon(worker, seq, tick) && !from.After(tick) {
		w.fail("window", "%v has a window from %s with clock sequence %d, which was stamped at %s", p,
			from.Format(timeFormat), seq, tick.Format(timeFormat))
	}
}

// checkNew checks that an ID was not issued before.
func (p *process) checkNew(id snowflake.ID, parts snowflake.Parts) {
	w := p.w
	tick := int64(parts.Time.Sub(w.Layout.Epoch.Time()) / w.Layout.Unit)
	other, twice := w.ids.add(id, parts, tick, issue{p, time.Since(w.begun)})
	p.node.mu.Lock()
	p.node.lastID = max(p.node.lastID, id)
	p.node.mu.Unlock()
	p.top = max(p.top, tick)
	if twice && w.ids.isCommon(parts.Worker, parts.ClockSeq, parts.Time) {
		w.count("IDs repeated by a clone", 1)
	} else if twice {
		w.fail("uniqueness", "%v (at %v) and %v both issued %d: %v", other.by, other.at, p, id, parts)
	}
}

// checkOrder checks that IDs increase, unless the clock sequence was changed.
func (p *process) checkOrder(c *call) {
	bumped := c.after.Bumps > c.before.Bumps
	if !p.Bumps && bumped {
		p.w.fail("order", "%v changed the clock sequence, although its policy is to wait", p)
	}
	if bumped {
		p.lastID = -1
	}
	if len(c.ids) == 0 {
		return
	}
	if c.ids[0] <= p.lastID || !slices.IsSorted(c.ids) {
		p.w.fail("order", "%v: %d came after %d", p, c.ids[0], p.lastID)
	}
	if p.lastID = c.ids[len(c.ids)-1]; bumped && len(c.ids) > 1 {
		p.lastID = -1 // either part may have the larger ID
	}
}

// checkWaits checks that a call returns within a bound, also if the clock has gone back, and within
// its deadline.
func (p *process) checkWaits(c *call) {
	w := p.w
	bound := time.Duration(c.n+3) * (2*w.Layout.Unit + w.Late + 100*ms + p.Window)
	if c.took > bound {
		w.fail("wait", "%v: %v took over %v", p, c, bound)
	}
	if isContextError(c.err) && c.limit == 0 {
		w.fail("error", "%v: %v", p, c)
	}
	late := (w.Late + ms) * time.Duration(c.after.Waits-c.before.Waits+1)
	if c.limit > 0 && c.took > c.limit+late && c.after.Bumps == c.before.Bumps {
		w.fail("deadline", "%v: %v", p, c)
	}
}

// checkError checks that an error is a promised one, and has a reason.
func (p *process) checkError(c *call) {
	switch {
	case c.err != nil && !isContextError(c.err) &&
		!isOneOf(c.err, snowflake.ErrLeaseExpired, snowflake.ErrBeforeEpoch, snowflake.ErrClockBackward):
		p.w.fail("error", "%v: unexpected: %v", p, c)
	case errors.Is(c.err, snowflake.ErrLeaseExpired) && p.lease.Err() == nil && p.w.isCalm() && !p.mayBeExpired(c.err):
		p.w.fail("renewal", "%v: long after all faults have ended: %v", p, c)
	}
}

// mostRequests limits a process's requests to the store within a second.
const mostRequests = 1000

// checkRequests counts a request to the store, and checks that the process does not make too many.
func (p *process) checkRequests(what string) {
	now := time.Since(p.w.begun)
	p.mu.Lock()
	if now-p.requests.second >= time.Second {
		p.requests = requests{second: now}
	}
	p.requests.n++
	n := p.requests.n
	p.mu.Unlock()
	if n > mostRequests {
		p.w.fail("requests", "%v asks the store %d times within a second, at last to %s", p, n, what)
	}
}

// isCalm reports whether the random faults ended so long ago that they have no effects, on a fast
// network.
func (w *world) isCalm() bool {
	return time.Since(w.begun) > w.Faults+w.settling()-min(2*w.Window, 10*time.Second) && w.Network <= ms && !w.troubled.Load()
}

func isOneOf(err error, all ...error) bool {
	return slices.ContainsFunc(all, func(one error) bool { return errors.Is(err, one) })
}

// isPromised reports whether package lease may return an error.
func isPromised(err error) bool {
	return isOneOf(err, errRefused, errReset, errDead, lease.ErrConflict, lease.ErrLost, lease.ErrReleased, lease.ErrWiped,
		context.DeadlineExceeded, context.Canceled)
}

func (p *process) checkBeginError(err error) {
	switch {
	case p.lease == nil && errors.Is(err, lease.ErrLost):
		p.w.fail("acquisition", "%v: Acquire returns %v", p, err)
	case !isPromised(err) &&
		!isOneOf(err, lease.ErrExhausted, lease.ErrClockLeap, snowflake.ErrClockBackward, snowflake.ErrBeforeEpoch):
		p.w.fail("error", "%v: unexpected at begin: %v", p, err)
	}
}

// checkToken checks that a record has its saver's token, and that a newcomer's window begins at the
// bound of its clock sequence or later, also if the store has lost the record. was is the last
// record saved. s.mu must be held.
func (s *store) checkToken(p *process, was, r *record) {
	w, held := s.w, s.holders[r.Token]
	switch bound := boundOf(was, r.ClockSeq); {
	case w.ids.hasClone(r.Worker):
	case len(held) > 0 && !slices.Contains(held, p):
		w.fail("token", "%v saves with the token of %v: %v", p, held[0], r)
	case len(held) == 0 && !s.isStray(r) && r.From.Before(bound):
		w.fail("window", "%v takes worker %d from %s on, before the bound %s of clock sequence %d", p, r.Worker,
			r.From.Format(timeFormat), bound.Format(timeFormat), r.ClockSeq)
	}
}

// checkGranted checks that a grant ends at the bound in the store, or at the last one saved if it
// was lost.
func (s *store) checkGranted(token string, worker, seq int, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, r := s.w, s.worker(worker).saved
	if bound := boundOf(&r, seq); to.After(bound) && !s.isStray(&r) && !w.ids.hasClone(worker) {
		w.fail("grant", "%v is granted worker %d, clock sequence %d, until %s, and the store has %s", s.holders[token], worker,
			seq, to.Format(timeFormat), bound.Format(timeFormat))
	}
}

// checkSave checks a record against the one that it replaces. s.mu must be held.
func (s *store) checkSave(p *process, old, r *record) {
	w := s.w
	taken := old.Token != "" && old.Token != r.Token
	switch {
	case taken && old.Reuse == lease.ReuseOnce:
		w.fail("reuse", "%v takes worker %d, which was used once: %v", p, r.Worker, old)
	case taken && old.Reuse == lease.ReuseKeep && old.Owner != r.Owner:
		w.fail("reuse", "%v takes worker %d, which is kept for another: %v", p, r.Worker, old)
	case taken && w.OwnClock && s.machine.changes() == 1 && !s.faults.everLied() && isLive(*old, s.machine.Wall()):
		w.fail("liveness", "%v takes worker %d of a live holder: %v", p, r.Worker, old)
	}
	for seq, bound := range old.Bounds {
		last, stamped := w.ids.lastTick(r.Worker, seq)
		is, tick := boundOf(r, seq), w.startOf(last)
		stamped = stamped && !is.After(tick) && !w.ids.isCommon(r.Worker, seq, tick)
		holds := r.State == lease.StateHeld && !w.ids.hasClone(r.Worker)
		if is.Before(bound) && (stamped || holds) {
			w.fail("bound", "%v moves the bound of worker %d, clock sequence %d, back from %v to %v; stamped is %v", p,
				r.Worker, seq, bound, is, tick)
		}
	}
	if r.Forgotten.After(old.Forgotten) && !s.wiped.Load() { // a lost history is forgotten
		_, hi := p.machine.offsets(1000 * time.Hour)
		if most := p.machine.start.Add(p.machine.Mono() + hi - cmp.Or(w.History, 90*24*time.Hour)); r.Forgotten.After(most) {
			w.fail("history", "%v forgets what ended before %v, of %v", p, r.Forgotten, most)
		}
	}
	maxLeap := w.maxLeap()
	most := s.machine.Wall().Add(w.Window + w.Window/3 + maxLeap)
	if taken { // the former holder's bound may be a window ahead
		most = most.Add(w.Window)
	}
	if w.OwnClock && s.machine.changes() == 1 &&
		r.bound().After(most) && boundOf(old, r.ClockSeq).Before(r.bound()) && (old.Token == "" || !old.bound().After(most)) {
		w.fail("leap", "%v moves the bound of worker %d to %v: more than %v ahead of %v", p, r.Worker, r.bound(), maxLeap, s.machine.Wall())
	}
}

func boundOf(r *record, seq int) time.Time {
	if seq < len(r.Bounds) {
		return r.Bounds[seq]
	}
	return time.Time{}
}

func leastBound(r record, l snowflake.Layout) time.Time {
	if len(r.Bounds) < 1<<l.ClockSeqBits {
		return time.Time{}
	}
	return slices.MinFunc(r.Bounds, time.Time.Compare)
}

// isLive reports whether a record's holder is alive. It does not use Record.Live, which it tests.
func isLive(r record, now time.Time) bool {
	age := now.Sub(r.renewed)
	return r.State == lease.StateHeld && age <= r.Window && age > -r.Window
}

// startOf returns the start of a tick.
func (w *world) startOf(tick int64) time.Time {
	return w.Layout.Epoch.Time().Add(time.Duration(tick) * w.Layout.Unit)
}

// hostWasCloned reports whether the hypervisor has reported a clone of p's host.
func (p *process) hostWasCloned() bool { return p.machine.generation.Load() > 0 }

// checkRelease checks that a released worker ID can be taken at once: from its first unstamped
// instant or, if the watermark may have passed that, from its last floor.
func (p *process) checkRelease(l *lease.Lease, err error) {
	w := p.w
	if w.ids.hasClone(l.Worker()) || p.hostWasCloned() || p.isDead() || w.isWiped() {
		return
	}
	if err != nil {
		if w.isCalm() && !errors.Is(err, lease.ErrLost) {
			w.fail("release", "%v: long after all faults have ended: %v", p, err)
		}
		return
	}
	_, g := p.has()
	busy := p.inCall.Load()
	is := w.store.of(l.Worker())
	if is.by != p || errors.Is(l.Err(), lease.ErrLost) {
		return
	}
	r, from := is.record, l.Grant().From
	if most := times.Later(w.startOf(p.top+1), r.Least); r.State == lease.StateHeld ||
		g != nil && !busy && r.bound().After(most) && r.bound().After(from.Add(w.Layout.Unit)) {
		w.fail("release", "%v released %v, and had stamped up to %v", p, r, most)
	}
}
