package fleet

import (
	"errors"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// isLive is Record.Live, which is what is tested.
func isLive(r lease.Record, now time.Time) bool {
	age := now.Sub(r.Renewed)
	return r.State == lease.Held && age <= r.Window && age > -r.Window
}

func (w *world) hasClone(worker int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clones {
		if c.worker == worker {
			return true
		}
	}
	return false
}

// startOf is the start of a tick.
func (w *world) startOf(tick int64) time.Time {
	return w.Layout.Epoch.Time().Add(time.Duration(tick) * w.Layout.Unit)
}

// tickAt is the tick of a reading.
func (w *world) tickAt(t time.Time) int64 {
	d := t.Sub(w.Layout.Epoch.Time())
	tick := int64(d / w.Layout.Unit)
	if d%w.Layout.Unit < 0 {
		tick--
	}
	return tick
}

// unlagged is maxLag if nobody can have woken late: a generator that was idle for longer
// stamps what its clock reads.
func (p *process) unlagged(o outcome) time.Duration {
	if o.callers == 1 && p.Borrow == 0 && !p.isClone && o.after.Waits == o.before.Waits && o.mono-p.idleAt > 2*maxLag+p.w.Layout.Unit && p.changes == p.machine.changes() {
		return maxLag
	}
	return 0
}

// reach is how far ahead of the clock the ticks can be whose IDs were put back: a later call may
// get these IDs late, although nobody called since.
func (p *process) reach(o outcome) time.Duration {
	room := 1 << p.w.Layout.SequenceBits
	if p.Random {
		room = max(room/2, 1)
	}
	return time.Duration(o.call.ids/room+2) * p.w.Layout.Unit
}

// checkReason: a call waits, or fails because the clock went back, only if the policy and
// the options cannot help it.
func (p *process) checkReason(o outcome) {
	w := p.w
	if p.isClone || o.callers != 1 {
		return
	}
	if waited := o.after.Waited - o.before.Waited; waited > o.whole {
		w.fail("statistics", "%v: %s took %v, and waited for %v", p, o.what, o.whole, waited)
	}
	quiet := o.after.Backward == o.before.Backward
	if p.Clock == "custom" && (o.what == "NextID" || o.what == "NextIDContext") && (p.Policy == "fail" || p.Policy == "wait") && p.lastTick >= 0 &&
		quiet && o.after.Waits > o.before.Waits && p.lastTick < w.tickAt(o.lo.Add(p.Borrow)) && (p.lease == nil || p.Borrow == 0) {
		w.fail("reason", "%v: %s waited, with a last ID of %d and its clock at %d", p, o.what, p.lastTick, w.tickAt(o.lo))
	}
	e := new(snowflake.ClockBackwardError)
	if !errors.As(o.err, &e) || p.machine.changes() != o.changes || isStoreError(o.err) {
		return
	}
	now := w.tickAt(e.Now)
	switch p.Policy {
	case "wait":
		if o.whole == 0 && e.By() <= p.MaxWait {
			w.fail("reason", "%v: %s does not wait for %v: %v", p, o.what, e.By(), o.err)
		}
	case "clockseq":
		can := e.CanBump
		if p.lease == nil && p.after == 0 && w.Layout.ClockSeqBits > 0 && len(p.tops) > 0 {
			can = can || len(p.tops) < 1<<w.Layout.ClockSeqBits
			for seq, top := range p.tops {
				can = can || seq != p.lastSeq && top < now
			}
		}
		if p.lease != nil && p.after == 0 && w.Layout.ClockSeqBits > 0 && !w.LocalCopy && !w.isWiped() {
			w.store.mu.Lock()
			r, taken := w.store.records[p.worker], w.store.taken[p.worker]
			w.store.mu.Unlock()
			can = can || taken.by == p && taken.saver == p && !leastBound(r, w.Layout).After(e.Now) && !w.store.proposed().After(e.Now)
		}
		if can {
			w.fail("reason", "%v: %s does not bump at %d, with %v behind: %v", p, o.what, now, p.tops, o.err)
		}
	case "rewind":
		if o.whole > 0 { // the clock may stand still
			return
		}
		if e.CanRewind || p.Rewind > 0 && !p.putBack && p.oldest >= 0 && now > p.oldest && now >= p.top-int64(p.Rewind) && now < p.lastTick && !p.stamped[now] {
			w.fail("reason", "%v: %s does not rewind to %d from %d, with a ring of %d: %v", p, o.what, now, p.top, p.Rewind, o.err)
		}
	}
}

// checkSequence: no ID is left out.
func (p *process) checkSequence(o outcome) {
	w := p.w
	for _, id := range o.ids {
		parts := w.Layout.Decode(id)
		tick := int64(id) >> w.timeShift()
		if tick > p.top && p.top >= 0 && !p.isClone {
			p.starts++
			if parts.Sequence == 0 {
				p.zeros++
			} else if !p.Random && !p.putBack && (p.Rewind == 0 || o.after.Backward == 0) && o.after.Bumps == o.before.Bumps { // going back, calls give back the IDs for whose tick they wait
				w.fail("sequence", "%v begins tick %d with sequence %d", p, tick, parts.Sequence)
			}
		}
		if p.oldest < 0 {
			p.oldest = tick
		}
		p.stamped[tick] = true
		if top, ok := p.tops[parts.ClockSeq]; !ok || tick > top {
			p.tops[parts.ClockSeq] = tick
		}
		p.top = max(p.top, tick)
		p.lastTick, p.lastSeq = tick, parts.ClockSeq
	}
	if p.Random && p.starts >= 60 && p.zeros == p.starts && w.Layout.SequenceBits > 2 {
		w.fail("sequence", "%v began %d ticks at random, and all with sequence 0", p, p.starts)
	}
}

// hostWasCloned reports whether the hypervisor has told p's host that it was cloned, with another node of the host.
func (p *process) hostWasCloned() bool { return p.machine.generation.Load() > 0 }

// checkLoss: a lease is lost only to another.
func (p *process) checkLoss() {
	if p.w.LocalCopy || p.hostWasCloned() || !errors.Is(p.lease.Err(), lease.ErrLost) || p.w.hasClone(p.worker) || p.w.isWiped() {
		return
	}
	p.w.store.mu.Lock()
	taken := p.w.store.taken[p.worker]
	p.w.store.mu.Unlock()
	if taken.by == p {
		p.w.fail("loss", "%v lost worker %d to nobody: %v", p, p.worker, p.lease.Err())
	}
}

// checkRelease: what was released can be taken at once, from the first instant
// that was not stamped.
func (p *process) checkRelease(l *lease.Lease, err error) {
	w := p.w
	if w.LocalCopy || w.hasClone(l.Worker()) || p.isDead() || w.isWiped() {
		return
	}
	if err != nil {
		if w.isCalm() && !errors.Is(err, lease.ErrLost) {
			w.fail("release", "%v: long after all faults have ended: %v", p, err)
		}
		return
	}
	p.mu.Lock()
	busy, g := p.inCall, p.gen
	p.mu.Unlock()
	w.store.mu.Lock()
	r, taken := w.store.records[l.Worker()], w.store.taken[l.Worker()]
	w.store.mu.Unlock()
	if taken.by != p || errors.Is(l.Err(), lease.ErrLost) {
		return
	}
	from := l.Grant().From
	if most := w.startOf(p.top + 1); r.State == lease.Held ||
		g != nil && !busy && p.after == 0 && r.Bound().After(most) && r.Bound().After(from.Add(w.Layout.Unit)) {
		w.fail("release", "%v released %v, and had stamped up to %v", p, r, most)
	}
}
