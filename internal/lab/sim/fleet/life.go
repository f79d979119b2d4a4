//go:build go1.25

package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/seam"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// farewell is the time that Acquire may take after the end of its context, to return a worker ID.
const farewell = 100 * ms

// patience returns the time-out of the program's Acquire.
func (w *world) patience() time.Duration {
	if !w.over.Load() && w.chance(25) {
		return w.Window/4 + w.up(2*w.Window)
	}
	return w.longest()
}

// longest is longer than any wait of Acquire, unless entries are lost.
func (w *world) longest() time.Duration { return 5*w.Window + 10*time.Second }

// acquire makes a lease with a time-out, and checks that Acquire returns within it.
func (p *process) acquire(limit time.Duration) (*lease.Lease, error) {
	w := p.w
	o := &lease.Options{
		Layout: w.Layout, Owner: p.owner, Window: p.Window, Count: w.Last + 1, Reuse: w.Reuse, History: w.History,
		MaxLeap: w.MaxLeap, Clock: seam.NewClock(p.machine).(snowflake.Clock), Logger: quiet,
		FloorEvery: w.floorEvery(p.Window),
	}
	if w.Guarded {
		o.VMClock = p.machine.vmClock()
	}
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	p.acquiring.Store(true)
	defer p.acquiring.Store(false)
	gated, begun := p.gated(), time.Now()
	l, err := lease.Acquire(ctx, client{p: p}, o)
	took := time.Since(begun) - (p.gated() - gated)
	if most := limit + farewell + 2*(w.Late+ms); took > most && !p.isDead() {
		w.fail("acquisition", "%v: Acquire took %v, with a deadline of %v: %v", p, took, limit, err)
	}
	return l, err
}

// hasEnded reports whether the lease has ended, which ends the program.
func (p *process) hasEnded() bool {
	err := p.lease.Err()
	if errors.Is(err, lease.ErrLost) {
		p.w.fail("loss", "%v: its lease has ended: %v", p, err)
	}
	return err != nil
}

// mayStamp reports whether the process has had a worker ID.
func (p *process) mayStamp(worker int) bool {
	p.w.store.mu.Lock()
	defer p.w.store.mu.Unlock()
	return worker == p.worker || p.took[worker]
}

// tookLast reports whether p was the last process to take a worker ID.
func (p *process) tookLast(worker int) bool { return p.w.store.of(worker).by == p }

// checkGrant checks that a new grant begins after everything stamped, and that a worker ID is
// replaced only if another process took it.
func (p *process) checkGrant() {
	w, g, was := p.w, p.lease.Grant(), p.grant
	p.grant = g
	if g.Worker == was.Worker && g.ClockSeq == was.ClockSeq && g.From.Equal(was.From) {
		return
	}
	n := p.lease.Stats().Replacements
	// If From alone is later, the watermark has passed the beginning of the same window.
	if n != p.replacements || g.Worker != was.Worker || g.ClockSeq != was.ClockSeq || g.From.Before(was.From) {
		p.checkWindow()
	}
	if n == p.replacements+1 && g.Worker != was.Worker && p.tookLast(was.Worker) && !p.isClone && !w.ids.hasClone(was.Worker) &&
		!p.hostWasCloned() && !w.isWiped() {
		w.fail("loss", "%v lost worker %d to nobody", p, was.Worker)
	}
	w.count("worker IDs replaced", n-p.replacements)
	p.replacements = n
}

// checkSpared checks that a process without faults of its own keeps its worker ID, and has IDs
// without a gap, although the store loses entries. A clone of an earlier holder is an exception: it
// may put its own record back.
func (p *process) checkSpared(c *call) {
	if !p.Spared || p.w.troubled.Load() || p.robbed {
		return
	}
	if n := p.lease.Stats().Replacements; n > 0 || errors.Is(c.err, snowflake.ErrLeaseExpired) {
		p.w.fail("healing", "%v: nothing happened to it: %v, after %d replacements", p, c, n)
	}
}

// mayBeExpired reports whether a lease may have expired long after the faults: its clock has leapt
// and is not trusted yet, or its worker ID is another process's.
func (p *process) mayBeExpired(err error) bool {
	return errors.Is(err, lease.ErrClockLeap) || errors.Is(err, lease.ErrLost) || errors.Is(err, snowflake.ErrClockBackward)
}

func (w *world) maxLeap() time.Duration { return cmp.Or(w.MaxLeap, time.Minute) }

// recovers checks that all nodes issue IDs again without a restart, unless they are excused. It
// waits no longer than it takes until a leap of a clock is accepted, or until a clock has caught up
// with a leap. It returns false if the run ends.
func (w *world) recovers() bool {
	for end := time.Now().Add(w.maxLeap() + 3*w.Window); ; {
		nodes := w.snapshotNodes()
		i := slices.IndexFunc(nodes, func(n *node) bool { return !n.Absent && !n.isAlive() && !n.isExcused() })
		if i < 0 {
			return true
		}
		if !time.Now().Before(end) {
			n := nodes[i]
			_, last, err := n.steady(w)
			w.fail("recovery", "node %d has not issued since %v, and all faults ended %v ago: %v", n.id, last.Sub(w.begun),
				time.Since(w.begun)-w.Faults, err)
		}
		if !w.sleep(2 * time.Second) {
			return false
		}
	}
}

func (n *node) isAlive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Since(n.issuedAt) <= 2*n.w.Window+2*time.Second+20*n.w.Layout.Unit+4*n.Gap
}

// isExcused reports whether a node has a documented reason not to issue IDs: its clock has not
// caught up with what it stamped or is not trusted, or all worker IDs that it may have are taken,
// used up or ahead of its clock.
func (n *node) isExcused() bool {
	w := n.w
	now := n.machine.Wall()
	n.mu.Lock()
	last := w.Layout.Decode(n.lastID).Time
	n.mu.Unlock()
	engine := w.store.machine.Wall()
	if w.OwnClock && now.Sub(engine) > w.maxLeap()-w.Window {
		return true // the store's clock decides
	}
	if at := w.proposed(); at.After(now) && (now.Before(w.now().Add(-time.Second)) || !at.After(w.lastStamp())) {
		return true // new windows begin at the watermark
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if p := n.current(); p.lease != nil && p.lease.Err() == nil {
		g := p.lease.Grant()
		restoredTooLate := errors.Is(p.lease.Stats().LastError, lease.ErrLost)
		if is := w.store.worker(g.Worker); is.saver == p && is.record.State == lease.StateHeld && !restoredTooLate {
			return n.isBehind(is.record, g, times.Later(last, p.began), now)
		}
	}
	owns, unused := false, w.Last+1
	for _, is := range w.store.workers {
		r := is.record
		if r.State == "" {
			continue
		}
		unused--
		mine := r.Owner == n.owner
		if mine && r.State != lease.StateSpent {
			owns = true
		}
		if r.State == lease.StateLost {
			return true // for as long as a window may be open under the lost record
		}
		if r.State == lease.StateSpent || w.Reuse == lease.ReuseOnce || w.Reuse == lease.ReuseKeep && !mine ||
			isLive(r, w.store.machine.Wall()) {
			continue
		}
		// There was time to wait for the bound.
		if leastBound(r, w.Layout).Before(now.Add(-2*w.Window - time.Second)) {
			return false
		}
	}
	return unused == 0 || w.Reuse == lease.ReuseKeep && owns
}

// lastStamp returns the time of the latest ID issued. If all clocks were ahead once, the watermark
// may have followed them.
func (w *world) lastStamp() (at time.Time) {
	for _, n := range w.snapshotNodes() {
		n.mu.Lock()
		at = times.Later(at, w.Layout.Decode(n.lastID).Time)
		n.mu.Unlock()
	}
	return at
}

// isBehind reports whether the clock has not caught up with what was stamped with the worker ID:
// with the current clock sequence or, if the policy changes it, with any.
func (n *node) isBehind(r record, g snowflake.Grant, last, now time.Time) bool {
	if !last.After(now) && !g.From.After(now) {
		return false
	}
	return !n.Bumps || !leastBound(r, n.w.Layout).Before(now.Add(-2*n.w.Window-time.Second))
}
