package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// call is a call of the generator, or a burst of them.
type call struct {
	what    string
	ids     int
	callers int
	within  time.Duration // the deadline, if there is one

	crowd     []*member
	overtaker func() // is called while the first caller reads the clock
}

// outcome is what came of it.
type outcome struct {
	call
	ids           []snowflake.ID
	err           error
	took          time.Duration // but for pauses
	whole         time.Duration // with them
	mono          time.Duration // the monotonic clock's reading before it
	before, after snowflake.Stats
	from          time.Time // the window's beginning, before it
	renewals      uint64    // of the lease, meanwhile
	changes       int       // of the machine, before it
	readings
}

// call makes a call, and holds what comes of it against what was promised.
func (p *process) call(c call, f func() ([]snowflake.ID, error)) error {
	o := outcome{call: c, before: p.gen.Stats(), mono: p.machine.Mono(), changes: p.machine.changes()}
	p.mu.Lock()
	p.readings = readings{}
	p.solo, p.overtaker = c.callers == 1, c.overtaker
	p.inCall = true
	gated := p.gatedFor
	p.mu.Unlock()
	if p.lease != nil {
		o.renewals, o.from = p.lease.Stats().Renewals, p.lease.Grant().From
	}
	t := p.begins()
	begun := time.Now()
	o.ids, o.err = f()
	o.whole = time.Since(begun)
	p.mu.Lock()
	p.solo, p.overtaker, p.inCall = false, nil, false
	o.readings = p.readings
	o.took = max(0, o.whole-(p.gatedFor-gated)) // or less, if several goroutines were stopped
	p.mu.Unlock()
	if p.isDead() {
		return o.err // what a dead process has, nobody gets
	}
	o.after = p.gen.Stats()
	if p.lease != nil {
		o.renewals = p.lease.Stats().Renewals - o.renewals
	}
	if p.w.tracing {
		p.w.logf("%v: %s: %v", p, c.what, describe(p.w.Layout, o))
	}
	p.checkWatermark(t, o.ids)
	p.check(o)
	return o.err
}

// check is all that is promised of a call.
func (p *process) check(o outcome) {
	putBack := o.gaveUp() || o.err != nil && o.after.Waits > o.before.Waits
	p.putBack = p.putBack || putBack
	p.checkGrant()
	for _, id := range o.ids {
		p.checkFields(id)
		p.checkTruth(id, o)
		p.checkBound(id)
		p.checkNew(id)
	}
	p.checkOrder(o)
	p.checkWorkers(o)
	p.checkIssuer(o)
	p.checkHaste(o)
	p.checkOverslept(o)
	p.checkSpared(o)
	if o.crowd == nil {
		p.checkWait(o)
	} else {
		p.checkCrowd(o)
	}
	p.checkError(o)
	p.checkSequence(o)
	p.checkReason(o)
	p.idleAt = max(p.idleAt, p.machine.Mono())
	if putBack {
		p.idleAt = max(p.idleAt, p.machine.Mono()+p.reach(o))
	}
	p.got += uint64(len(o.ids))
	if o.after.Issued != p.got {
		p.w.fail("statistics", "%v issued %d IDs, and says %d", p, p.got, o.after.Issued)
	}
	p.w.count(func(t *Totals) {
		t.IDs += len(o.ids)
		t.Backward += o.after.Backward - o.before.Backward
		t.Bumps += o.after.Bumps - o.before.Bumps
		t.Rewinds += o.after.Rewinds - o.before.Rewinds
		t.Borrowed += o.after.Borrowed - o.before.Borrowed
		t.Waits += o.after.Waits - o.before.Waits
		if o.err != nil {
			t.Errors++
		}
	})
}

// checkFields: fields never touch, and no ID is negative.
func (p *process) checkFields(id snowflake.ID) {
	parts := p.w.Layout.Decode(id)
	if id < 0 || p.w.Layout.Check(id) != nil || !p.mayStamp(parts.Worker) || parts.Datacenter != p.Datacenter {
		p.w.fail("fields", "%v is worker %d in datacenter %d, and issued %d: %v", p, p.worker, p.Datacenter, id, parts)
	}
}

// checkTruth: an ID's timestamp is the tick that the clock reads, or differs by
// no more than the options and the clock allow.
func (p *process) checkTruth(id snowflake.ID, o outcome) {
	l := p.w.Layout
	tick := l.Decode(id).Time
	lo, hi := o.lo, o.hi
	switch {
	case p.Clock == "custom":
	case p.Clock == "monotonic":
		lo = p.machine.start.Add(o.mono + p.offset - maxLag)
		hi = p.machine.start.Add(p.machine.Mono() + p.offset)
		lo = lo.Add(p.unlagged(o))
	default:
		least, most := p.machine.offsets(100*ms + o.whole)
		lo = p.machine.start.Add(o.mono + least - maxLag)
		hi = p.machine.start.Add(p.machine.Mono() + most + maxSlew)
		lo = lo.Add(p.unlagged(o))
	}
	if late, early := lo.Sub(tick)-l.Unit, tick.Sub(hi)-p.Borrow; late >= 0 || early > 0 {
		p.w.fail("truth", "%v (%s clock, which read %s to %s) stamped %s", p, p.Clock,
			lo.Format(timeFormat), hi.Format(timeFormat), tick.Format(timeFormat))
	}
}

// Of the documentation of NextID and SystemClock.
const (
	maxLag  = 5 * ms
	maxSlew = 10 * ms
)

// checkBound: the bound is recorded before it is used, and nothing is stamped
// before the bound that the holder found.
func (p *process) checkBound(id snowflake.ID) {
	if p.lease == nil {
		return
	}
	parts := p.w.Layout.Decode(id)
	p.w.store.mu.Lock()
	r, taken := p.w.store.saved[parts.Worker], p.w.store.taken[parts.Worker]
	stray := p.w.isWiped() && !slices.Contains(p.w.store.holders[r.Token], p)
	p.w.store.mu.Unlock()
	if stray {
		return // of a newcomer that has not looked at the store again, and stamps nothing before it has
	}
	if taken.by == p && p.tookOnce(parts.Worker) && !p.w.LocalCopy && parts.ClockSeq < len(taken.bounds) && parts.Time.Before(taken.bounds[parts.ClockSeq]) {
		p.w.fail("bound", "%v stamped %s with clock sequence %d, which were closed up to %v", p, parts.Time.Format(timeFormat), parts.ClockSeq, taken.bounds)
	}
	if p.w.LocalCopy {
		if parts.Time.Before(p.copied[parts.ClockSeq]) {
			return
		}
		var err error
		if r, err = p.readCopy(parts.Worker); err != nil {
			p.w.fail("bound", "%v has no copy of its record: %v", p, err)
			return
		}
		p.w.store.mu.Lock()
		p.w.store.isHolder(r.Token, p)
		p.w.store.mu.Unlock()
		p.copied = map[int]time.Time{}
		for seq, bound := range r.Bounds {
			p.copied[seq] = bound
		}
	}
	p.w.mu.Lock()
	_, common := p.w.commonWindow(parts.Worker, parts.ClockSeq, parts.Time)
	p.w.mu.Unlock()
	if common {
		return // the other one may have released it
	}
	if parts.ClockSeq >= len(r.Bounds) || !parts.Time.Before(r.Bounds[parts.ClockSeq]) {
		p.w.fail("bound", "%v stamped %s with clock sequence %d, but recorded is %v", p, parts.Time.Format(timeFormat), parts.ClockSeq, r.Bounds)
	}
}

// checkWindow: a window begins after all that anybody stamped with its clock sequence. If somebody has taken the worker
// ID since, while p waited for its window, the stamps are later windows' too, and nothing is checked.
func (p *process) checkWindow() {
	w := p.w
	g := p.lease.Grant()
	worker, seq, from := g.Worker, g.ClockSeq, g.From
	if !p.tookLast(worker) && !w.LocalCopy {
		return
	}
	w.mu.Lock()
	last, stamped := w.last[[2]int{worker, seq}]
	tick := w.startOf(last)
	_, common := w.commonWindow(worker, seq, tick)
	w.mu.Unlock()
	if stamped && !common && !from.After(tick) {
		w.fail("window", "%v has a window from %s with clock sequence %d, which was stamped at %s", p, from.Format(timeFormat), seq, tick.Format(timeFormat))
	}
}

// checkNew: no ID is issued twice.
func (p *process) checkNew(id snowflake.ID) {
	w := p.w
	parts := w.Layout.Decode(id)
	w.mu.Lock()
	other, twice := w.issued[id]
	w.issued[id] = issue{p, time.Since(w.begun)}
	key := [2]int{parts.Worker, parts.ClockSeq}
	tick := int64(id) >> w.timeShift()
	if last, ok := w.last[key]; !ok || tick > last {
		w.last[key] = tick
	}
	p.node.mu.Lock()
	p.node.lastID, p.node.issuedAt = max(p.node.lastID, id), time.Now()
	p.node.mu.Unlock()
	allowed := false
	if twice {
		var c cloned
		if c, allowed = w.commonWindow(parts.Worker, parts.ClockSeq, parts.Time); allowed {
			w.totals.Repeated++
			w.totals.Overlap = max(w.totals.Overlap, parts.Time.Sub(c.at))
		}
	}
	w.mu.Unlock()
	if p.after > 0 && id <= p.after {
		w.fail("after", "%v issued %d, after %d", p, id, p.after)
	}
	if twice && !allowed {
		w.fail("uniqueness", "%v (at %v) and %v both issued %d: %v", other.by, other.at, p, id, parts)
	}
}

func (w *world) timeShift() int {
	l := w.Layout
	return int(l.ClockSeqBits + l.DatacenterBits + l.WorkerBits + l.SequenceBits)
}

// commonWindow finds the window that a clone and its original have in common. In it the two
// may repeat IDs, and after a release the next holders may, too.
func (w *world) commonWindow(worker, seq int, t time.Time) (cloned, bool) {
	for _, c := range w.clones {
		if c.worker == worker && c.seq == seq && t.Before(c.bound) {
			return c, true
		}
	}
	return cloned{}, false
}

// checkOrder: IDs increase, unless the policy lets order go.
func (p *process) checkOrder(o outcome) {
	shuffles := o.after.Bumps + o.after.Rewinds
	ordered := shuffles == p.shuffles
	if orderly := p.Policy == "fail" || p.Policy == "wait"; orderly && !ordered {
		p.w.fail("order", "%v, of policy %s, went back", p, p.Policy)
	}
	p.shuffles = shuffles
	if len(o.ids) == 0 {
		if !ordered {
			p.lastID = -1
		}
		return
	}
	if ordered && o.ids[0] <= p.lastID || !slices.IsSorted(o.ids) {
		p.w.fail("order", "%v: %d came after %d", p, o.ids[0], p.lastID)
	}
	if p.lastID = o.ids[len(o.ids)-1]; !ordered && len(o.ids) > 1 {
		p.lastID = -1 // it is not known which one came last
	}
}

// checkWait: every wait has a bound.
func (p *process) checkWait(o outcome) {
	w := p.w
	late := (w.Late + ms) * time.Duration(o.after.Waits-o.before.Waits+1)
	if o.within > 0 && o.took > o.within+late && o.after.Bumps == o.before.Bumps {
		w.fail("deadline", "%v: %s took %v, its deadline was %v", p, o.what, o.took, o.within)
	}
	p.checkDeadline(o)
	room := 1 << w.Layout.SequenceBits
	if p.Random {
		room = max(room/2, 1)
	}
	ticks := time.Duration(o.call.ids/room + 2)
	bound := ticks*4*w.Layout.Unit + late
	if p.lease != nil {
		// At the window's end a call waits for a renewal: if it was borrowing, until the
		// clock gets there, and then for an answer of the store.
		bound += p.Borrow + w.Window/3*time.Duration(1+o.renewals) + late
	}
	if p.changes != p.machine.changes() {
		bound += ticks * 50 * ms // the clock may stand still
	}
	if o.after.Backward > o.before.Backward || o.err != nil {
		most := max(50*ms, 2*(2*w.Layout.Unit))
		if p.Policy == "wait" || p.Policy == "any" {
			most = max(most, 2*(p.MaxWait+2*w.Layout.Unit))
		}
		if p.lease != nil && p.Policy != "wait" {
			most += w.Window // for a change of the clock sequence
		}
		bound += ticks * (most + 50*ms)
	}
	if o.took > bound {
		w.fail("wait", "%v: %s of %d IDs took %v, over %v, with policy %s: %v", p, o.what, o.call.ids, o.took, bound, p.Policy, o.err)
	}
}

// checkDeadline: a call is refused at once, exactly if its tick begins after its
// deadline. If it is not refused, only a timer that wakes late keeps it from its ID.
func (p *process) checkDeadline(o outcome) {
	w := p.w
	if p.lease != nil || p.isClone || o.within == 0 || o.callers != 1 || p.Clock != "custom" || p.lastTick < 0 || p.Borrow > 0 ||
		p.changes != p.machine.changes() || o.after.Backward != o.before.Backward || !errors.Is(o.err, context.DeadlineExceeded) {
		return
	}
	due := w.startOf(p.lastTick + 1).Sub(o.lo)
	if at := o.whole == 0; at && o.within >= due || !at && (o.within < due || o.within > due+due/1000+w.Late+ms) {
		w.fail("deadline", "%v: %s failed after %v, with a deadline of %v and %v to the next tick: %v", p, o.what, o.whole, o.within, due, o.err)
	}
}

// checkError: an error is promised for the call, and has a reason.
func (p *process) checkError(o outcome) {
	smooth := p.Clock == "custom" && p.changes == p.machine.changes() && o.whole == o.took // a reading from before a pause looks as if the clock had stood still
	if smooth && p.changes >= 0 && o.after.Backward > o.before.Backward && p.isBegun(o.lo) {
		p.w.fail("error", "%v: %s: its clock never went back, and it was taken to have: %v", p, o.what, o.err)
	}
	if p.Clock == "system" && o.after.Backward > o.before.Backward && p.after == 0 && p.changes > 0 && p.machine.isSlewed(p.changes) && p.isBegun(p.machine.Wall()) {
		p.w.fail("error", "%v: %s: a small correction showed as a step back: %v", p, o.what, o.err)
	}
	met := o.last.Add(p.w.Layout.Unit)          // borrowing alone does not meet the window's end
	end := o.hi.Add(p.Borrow + p.w.Layout.Unit) // of several callers, any may have read that
	var unknown bool
	switch err := o.err; {
	case err == nil:
	case errors.Is(err, snowflake.ErrLeaseExpired):
		_, to := p.window()
		p.mu.Lock()
		calm := p.Clock == "custom" && o.callers == 1 && !p.releasing && o.whole == 0
		p.mu.Unlock()
		if p.lease.Err() == nil && p.w.isCalm() && !p.mayBeExpired(err) {
			p.w.fail("renewal", "%v: long after all faults have ended: %v", p, err)
		}
		told := p.w.Guarded && p.w.hasClone(p.worker) // that its machine was cloned: then its window has ended
		if calm && !told && p.lease.Err() == nil && met.Before(to) {
			p.w.fail("error", "%v: at %s, under a lease until %s: %v", p, o.last.Format(timeFormat), to.Format(timeFormat), err)
		}
	case errors.Is(err, snowflake.ErrTimeExhausted):
		if p.Clock == "custom" && end.Add(100*ms).Before(p.w.Layout.Expires()) && p.after == 0 {
			p.w.fail("error", "%v: at %s: %v", p, o.hi, err)
		}
	case errors.Is(err, snowflake.ErrBeforeEpoch), errors.Is(err, snowflake.ErrClockBackward):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		unknown = o.within == 0
	default:
		unknown = true
	}
	if unknown {
		p.w.fail("error", "%v: %s: unexpected: %v", p, o.what, o.err)
	}
}

// isCalm is whether all faults have ended so long ago that nothing shows of them.
func (w *world) isCalm() bool {
	return time.Since(w.begun) > w.Faults+8*w.Window+10*time.Second+w.healing() && w.Network <= ms
}

// isBegun is whether the clock is past what is closed to the generator.
func (p *process) isBegun(reading time.Time) bool {
	if p.lease != nil {
		if from, _ := p.window(); reading.Before(from) {
			return false
		}
	}
	return p.after == 0 || reading.After(p.w.Layout.Decode(p.after).Time.Add(p.w.Layout.Unit))
}

func (p *process) window() (from, to time.Time) {
	g := p.lease.Grant()
	return g.From, g.To
}

func isStoreError(err error) bool {
	for _, known := range []error{
		errRefused, errReset, errDead, lease.ErrConflict, lease.ErrLost, lease.ErrReleased, lease.ErrWiped,
		context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

func (p *process) checkBeginError(err error) {
	if p.w.Leased && p.lease == nil && errors.Is(err, lease.ErrLost) {
		p.w.fail("acquisition", "%v: Acquire returns %v", p, err)
	}
	for _, known := range []error{
		lease.ErrExhausted, lease.ErrClockLeap, snowflake.ErrClockBackward, snowflake.ErrBeforeEpoch, snowflake.ErrTimeExhausted,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	if p.lease == nil && !p.w.Leased || !isStoreError(err) {
		p.w.fail("error", "%v: unexpected at begin: %v", p, err)
	}
}

// checkSave: what the protocol says of the chain of records. s.mu is held.
func (s *store) checkSave(p *process, old, r lease.Record) {
	w := s.w
	taken := old.Token != "" && old.Token != r.Token
	if r.Reuse == lease.ReuseKeep && r.State == lease.Held && !w.LocalCopy && !s.wiped.Load() {
		for _, o := range s.records {
			if o.Owner == r.Owner && o.Worker != r.Worker && o.State != lease.Spent {
				w.fail("reuse", "%v takes worker %d, and has %d, which is kept for it", p, r.Worker, o.Worker)
			}
		}
	}
	switch {
	case taken && old.Reuse == lease.ReuseOnce:
		w.fail("reuse", "%v takes worker %d, which was used once: %v", p, r.Worker, old)
	case taken && old.Reuse == lease.ReuseKeep && old.Owner != r.Owner:
		w.fail("reuse", "%v takes worker %d, which is kept for another: %v", p, r.Worker, old)
	case taken && w.OwnClock && !w.LocalCopy && s.machine.changes() == 1 && !s.lied && isLive(old, s.machine.Wall()):
		w.fail("liveness", "%v takes worker %d of a live holder: %v", p, r.Worker, old)
	}
	for seq, bound := range old.Bounds { // a local copy may have been released while the store was away
		if seq < len(r.Bounds) && !r.Bounds[seq].Before(bound) {
			continue
		}
		w.mu.Lock()
		last, stamped := w.last[[2]int{r.Worker, seq}]
		tick := w.startOf(last)
		_, common := w.commonWindow(r.Worker, seq, tick)
		w.mu.Unlock()
		if seq >= len(r.Bounds) || r.State == lease.Held && !w.LocalCopy || stamped && !common && !r.Bounds[seq].After(tick) {
			w.fail("bound", "%v moves the bound of worker %d, clock sequence %d, back from %v to %v; stamped is %v", p, r.Worker, seq, bound, r.Bounds, tick)
		}
	}
	maxLeap := w.MaxLeap
	if maxLeap == 0 {
		maxLeap = time.Minute
	}
	most := s.machine.Wall().Add(w.Window + w.Window/3 + maxLeap)
	if taken { // whose bound may be up to a window ahead
		most = most.Add(w.Window)
	}
	if w.OwnClock && !w.LocalCopy && s.machine.changes() == 1 &&
		r.Bound().After(most) && boundOf(old, r.ClockSeq).Before(r.Bound()) && (old.Token == "" || !old.Bound().After(most)) {
		w.fail("leap", "%v moves the bound of worker %d to %v: more than %v ahead of %v", p, r.Worker, r.Bound(), maxLeap, s.machine.Wall())
	}
}

func boundOf(r lease.Record, seq int) time.Time {
	if seq < len(r.Bounds) {
		return r.Bounds[seq]
	}
	return time.Time{}
}

// copyOf returns the node's own copy of a record, if it has a copy.
func (n *node) copyOf(r lease.Record) lease.Record {
	if own, err := n.readCopy(r.Worker); err == nil {
		return own
	}
	if strings.HasPrefix(r.Owner, n.owner+" @") {
		r.State = lease.Spent // what was stamped is not known
	}
	return r
}

// readCopy returns the record in the node's local copy.
func (n *node) readCopy(worker int) (r lease.Record, err error) {
	e, err := lease.File(n.copyDir()).Get(context.Background(), "worker/"+strconv.Itoa(worker))
	if err == nil {
		err = json.Unmarshal(e.Value, &r)
	}
	return r, err
}

func leastBound(r lease.Record, l snowflake.Layout) time.Time {
	if len(r.Bounds) < 1<<l.ClockSeqBits {
		return time.Time{}
	}
	least := time.Unix(math.MaxInt32, 0)
	for _, b := range r.Bounds {
		if b.Before(least) {
			least = b
		}
	}
	return least
}

// describe says on one line what a call gave.
func describe(l snowflake.Layout, o outcome) string {
	s := fmt.Sprintf("%d IDs in %v", len(o.ids), o.took)
	if n := len(o.ids); n > 0 {
		s += fmt.Sprintf(", %d to %d: %s", o.ids[0], o.ids[n-1], l.Decode(o.ids[0]).Time.Format(timeFormat))
	}
	if o.err != nil {
		s += fmt.Sprintf("; %v", o.err)
	}
	return s
}
