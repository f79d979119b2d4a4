//go:build go1.25

package snowflake

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
)

// reference is a slow and obvious generator with its waiting callers: it remembers all stamps, and
// plays events one after the other. TestModel compares the Generator with it.

type reference struct {
	o         *Options
	l         Layout
	policy    BackwardPolicy
	now       time.Time                    // of the bubble
	read      func(at time.Time) time.Time // the clock's reading at a time of the bubble
	builtin   bool                         // the clock is a built-in one, so ticks stay open for late calls
	asked     []Backward                   // the questions to the policy
	used      map[refPlace]int64           // sequence numbers taken
	sent      map[int64]int64              // the last tick of a returned ID, by clock sequence
	back      []refRun                     // IDs that were put back
	served    ID                           // the greatest ID returned in order
	seqs      []int64                      // the clock sequences used, in order of their first use
	seq       int64                        // the current one
	head      int64                        // the tick that IDs are taken from
	last      int64                        // the tick that the clock must have reached
	late      bool                         // head was taken from early, or follows such a tick
	era       int
	rewinding bool  // the policy has agreed to go back
	closed    int64 // the last tick closed for the current clock sequence
	after     int64 // the last tick closed for clock sequences that are not in seqs
	ahead     int64 // the last tick before the window
	stamped   int64 // the last tick of an ID that was returned, or -1
	worker    int
	lease     *script // nil without a lease
	granted   Grant   // as the generator knows it
	stopped   bool
	bumps     uint64
	rewinds   uint64
	borrowed  uint64
	waits     uint64
	waited    time.Duration
	dice      func(int64) int64
	alarms    alarms

	waiting []*refCall // the calls that wait, or ask the lease
}

type refPlace struct{ seq, tick int64 }

// refRun has IDs that a call has taken.
type refRun struct {
	ids  []ID
	tick int64
	era  int
}

// refCall is a call.
type refCall struct {
	want     int
	ends     time.Time // the end of its context; zero without one
	with     error     // the context's error
	deadline bool      // the context has a deadline

	ids      []ID
	err      error
	done     bool
	returned time.Time
	refTurn
}

// refTurn is the part of a call that takes the IDs of one tick.
type refTurn struct {
	slot     refRun        // the IDs for whose tick it waits
	began    bool          // it has waited
	since    time.Time     // the start of the first wait
	from     time.Time     // the clock's reading at since
	asleep   bool          // it waits
	cut      bool          // the wait ends early, for a look at the clock
	slept    time.Time     // the start of the last wait
	last     time.Time     // the clock's reading at slept
	slow     bool          // the clock has run too slowly during the waits
	retry    time.Duration // the least length of the next wait
	first    time.Duration // the length of the first wait for the clock that the policy agreed to
	agreed   time.Time     // the start of that wait
	wake     time.Time     // the time of the next step
	asking   time.Time     // the end of the question to the lease
	extended Grant         // the grant of the last question to the lease
	extends  int           // the number of these questions
	expired  time.Time     // the clock's reading at the last of them
}

func newReference(o *Options, worker int, lease *script, read func(time.Time) time.Time, dice func(int64) int64) *reference {
	r := &reference{o: o, l: o.Layout, policy: o.OnBackward, now: time.Now(), read: read, dice: dice,
		alarms: alarms{set: map[time.Time]bool{}}, used: map[refPlace]int64{}, sent: map[int64]int64{}, served: -1,
		seqs: []int64{0}, head: -1, last: -1, closed: -1, after: -1, ahead: -1, stamped: -1, worker: worker, lease: lease}
	_, r.builtin = o.Clock.(*builtinClock)
	if r.policy == nil {
		r.policy = WaitPolicy(10 * ms)
	}
	if o.After > 0 {
		p := r.l.Decode(o.After)
		r.seq, r.seqs = int64(p.ClockSeq), []int64{int64(p.ClockSeq)}
		r.head = r.tick(p.Time)
		r.last, r.closed, r.after, r.stamped = r.head, r.head-1, r.head, r.head
		at := refPlace{r.seq, r.head}
		r.used[at] = 0 // it counts as stamped
		for r.room(r.head) > 0 && r.id(at) <= o.After {
			r.used[at]++
		}
	}
	if lease != nil {
		r.look(nil)
		r.bumps, r.stamped = 0, r.after
	}
	return r
}

// continueAfter makes later IDs greater than after. It reports false if the clock is outside the
// layout's time.
func (r *reference) continueAfter(after ID) bool {
	if r.outside(r.read(r.now)) != nil {
		return false
	}
	p := r.l.Decode(after)
	tick := r.tick(p.Time)
	was, at := r.head, refPlace{r.seq, tick}
	for r.room(tick) > 0 && r.id(at) <= after {
		r.used[at]++
		if tick == r.head {
			r.last = max(r.last, tick)
		}
	}
	if tick > r.head {
		r.used[at] += 0 // it counts as stamped
		r.head, r.last, r.late = tick, max(r.last, tick), false
	}
	r.after = max(r.after, tick)
	r.closed = max(r.closed, tick-1)
	if tick < was {
		r.closed = max(r.closed, tick)
	}
	r.served = max(r.served, after)
	r.back = slices.DeleteFunc(r.back, func(run refRun) bool { return run.ids[0] <= after })
	return true
}

// tick returns the tick of t.
func (r *reference) tick(t time.Time) int64 {
	d := t.Sub(r.l.Epoch.Time())
	if d < 0 {
		d -= r.l.Unit - 1
	}
	return int64(d / r.l.Unit)
}

// starting returns the first tick that does not start before t.
func (r *reference) starting(t time.Time) int64 {
	if t.Before(r.l.Epoch.Time()) {
		return 0
	}
	return min(r.tick(t.Add(r.l.Unit-1)), r.l.maxTick()+1)
}

func (r *reference) start(tick int64) time.Time {
	return r.l.Epoch.Time().Add(time.Duration(tick) * r.l.Unit)
}

// id returns the next ID at a place.
func (r *reference) id(at refPlace) ID {
	id, err := r.l.Encode(Parts{
		Time:       r.start(at.tick),
		ClockSeq:   int(at.seq),
		Datacenter: r.o.Datacenter,
		Worker:     r.worker,
		Sequence:   int(r.used[at]),
	})
	if err != nil {
		panic(err)
	}
	return id
}

// room returns the number of IDs left in a tick.
func (r *reference) room(tick int64) int64 {
	if tick <= r.closed {
		return 0
	}
	return 1<<r.l.SequenceBits - r.used[refPlace{r.seq, tick}]
}

// firstRoom returns the first tick from tick on that has IDs left, or the layout's last tick.
func (r *reference) firstRoom(tick int64) int64 {
	tick = max(tick, min(r.closed+1, r.l.maxTick()))
	for r.room(tick) == 0 && tick < r.l.maxTick() {
		tick++
	}
	return tick
}

// lastTick returns the last tick that IDs were taken from under seq.
func (r *reference) lastTick(seq int64) int64 {
	last := r.after
	for at := range r.used {
		if at.seq == seq {
			last = max(last, at.tick)
		}
	}
	return last
}

// lastSent returns the last tick of an ID that was returned under seq.
func (r *reference) lastSent(seq int64) int64 {
	if last, ok := r.sent[seq]; ok {
		return max(last, r.after)
	}
	return r.after
}

// otherSeq returns the clock sequence to change to at tick, or -1.
func (r *reference) otherSeq(tick int64) int64 {
	best := int64(-1)
	for _, seq := range r.seqs {
		if seq != r.seq && r.lastSent(seq) < tick && (best < 0 || r.lastSent(seq) > r.lastSent(best)) {
			best = seq
		}
	}
	size := int64(1) << r.l.ClockSeqBits
	if best < 0 && int64(len(r.seqs)) < size && r.after < tick {
		best = (r.seqs[0] + int64(len(r.seqs))) % size
	}
	return best
}

func (r *reference) goOver(seq int64) {
	r.closed = r.lastSent(seq)
	r.seq = seq
	// Calls that waited with IDs of the sequence have taken others.
	maps.DeleteFunc(r.used, func(at refPlace, _ int64) bool { return at.seq == seq && at.tick > r.closed })
	r.bumps++
	if !slices.Contains(r.seqs, seq) {
		r.seqs = append(r.seqs, seq)
	}
}

func (r *reference) canBump(reading time.Time) bool {
	if r.lease == nil {
		return r.l.ClockSeqBits > 0 && r.otherSeq(r.tick(reading)) >= 0
	}
	return r.lease.bumps && r.l.ClockSeqBits > 0 && r.tick(reading) > r.after && r.lease.canBump(reading)
}

func (r *reference) canRewind(tick, near int64) bool {
	if r.o.RewindTicks == 0 || tick >= r.last || tick <= r.closed || tick < max(r.lastTick(r.seq), r.head)-int64(r.o.RewindTicks) {
		return false
	}
	back := r.firstRoom(tick)
	return r.room(back) > 0 && back <= near
}

// look asks the lease for its grant, for c.
func (r *reference) look(c *refCall) {
	g := r.lease.grant
	from := r.starting(g.From) - 1
	closed, taken := max(from, r.after), r.stamped
	for _, o := range append(r.waiting, c) {
		if o != nil && len(o.slot.ids) > 0 && o.slot.era == r.era {
			taken = max(taken, o.slot.tick)
		}
	}
	last, reach := max(closed, taken), max(closed, min(r.last, taken))
	r.granted = g
	switch worker, seq := g.Worker != r.worker, int64(g.ClockSeq) != r.seq; {
	case worker: // the next IDs are greater
	case seq:
		r.bumps++
		r.newEra()
		last, reach, r.stamped = closed, closed, closed // it may have been used up to there
	case from < r.head:
		r.closed = max(r.closed, from)
		return
	}
	r.worker, r.seq, r.back = g.Worker, int64(g.ClockSeq), nil
	r.head, r.last, r.late, r.closed, r.ahead = last, reach, false, last, last
	clear(r.used) // what it holds is closed now, or belongs to another worker
}

func (r *reference) newEra() {
	r.era++
	r.back, r.served = nil, -1
}

// floor closes the ticks before the first that calls may still stamp, except to the calls that wait
// for them, and returns the beginning of the first that is open.
func (r *reference) floor() time.Time {
	if r.o.RewindTicks > 0 {
		return time.Time{}
	}
	r.look(nil)
	reading, earliest := r.read(r.now), int64(0)
	if r.outside(reading) == nil {
		earliest = max(0, min(r.earliest(reading), r.starting(r.granted.To)))
	}
	if last := earliest - 1; r.head < last {
		r.head, r.last, r.late, r.closed, r.ahead = last, last, false, last, last
	}
	r.back = slices.DeleteFunc(r.back, func(run refRun) bool { return run.tick < earliest })
	first := r.head
	if r.room(first) == 0 {
		first++
	}
	for _, run := range r.back {
		first = min(first, run.tick)
	}
	for _, c := range r.waiting {
		if len(c.slot.ids) > 0 && c.slot.era == r.era {
			first = min(first, c.slot.tick)
		}
	}
	return r.start(first)
}

// call begins a call.
func (r *reference) call(c *refCall) {
	if c.want == 0 {
		r.finish(c, nil)
		return
	}
	r.turn(c)
	for c.asleep && !c.wake.After(r.now) { // the policy agreed to a wait of length 0
		r.step(c)
	}
}

// turn begins a turn of c.
func (r *reference) turn(c *refCall) {
	// A Fill checks its context for each tick.
	if len(c.ids) > 0 && !c.ends.IsZero() && !c.ends.After(r.now) {
		r.finish(c, c.with)
		return
	}
	c.refTurn = refTurn{}
	r.step(c)
}

// advance plays the events until at.
func (r *reference) advance(at time.Time) {
	for {
		next, more := r.next()
		if !more || next.After(at) {
			break
		}
		r.now = next
		r.play()
	}
	r.now = at
}

// next returns the time of the next event.
func (r *reference) next() (at time.Time, more bool) {
	for _, c := range r.waiting {
		for _, t := range []time.Time{c.wake, c.asking, c.ends} {
			if !t.IsZero() && (!more || t.Before(at)) {
				at, more = times.Later(t, r.now), true
			}
		}
	}
	return at, more
}

// play plays all events of this moment.
func (r *reference) play() {
	for _, c := range slices.Clone(r.waiting) {
		if c.done {
			continue
		}
		due := func(t time.Time) bool { return !t.IsZero() && !t.After(r.now) }
		switch {
		case due(c.ends):
			r.give(c)
		case due(c.wake):
			r.step(c)
		case due(c.asking):
			r.answered(c)
		}
	}
}

// give ends c's turn because its context has ended, unless c has IDs whose tick has begun.
func (r *reference) give(c *refCall) {
	if len(c.slot.ids) > 0 {
		if reading := r.read(r.now); r.outside(reading) == nil {
			r.waited += r.now.Sub(c.slept)
			if c.slot.tick <= r.tick(reading.Add(r.o.BorrowAhead)) && c.slot.era == r.era && !r.stopped {
				r.serve(c)
				return
			}
		}
	}
	r.refuse(c, c.with)
}

// outside returns an error if the layout has no tick for a reading.
func (r *reference) outside(reading time.Time) error {
	switch {
	case reading.Before(r.l.Epoch.Time()):
		return ErrBeforeEpoch
	case !reading.Before(r.l.Expires()):
		return ErrTimeExhausted
	}
	return nil
}

func (r *reference) refuse(c *refCall, err error) {
	r.putBack(c)
	r.finish(c, err)
}

func (r *reference) leave(c *refCall) {
	r.waiting = slices.DeleteFunc(r.waiting, func(o *refCall) bool { return o == c })
	c.wake, c.asking = time.Time{}, time.Time{}
}

func (r *reference) finish(c *refCall, err error) {
	r.leave(c)
	c.done, c.err, c.returned = true, err, r.now
	slices.Sort(c.ids)
}

// putBack puts back the IDs for whose tick c waits.
func (r *reference) putBack(c *refCall) {
	if run := c.slot; len(run.ids) > 0 {
		if run.era == r.era && run.ids[0] > r.served {
			r.back = append(r.back, run)
			slices.SortFunc(r.back, func(a, b refRun) int { return int(a.ids[0] - b.ids[0]) })
		}
	}
	c.slot = refRun{}
}

// got returns IDs to c.
func (r *reference) got(c *refCall, ids []ID) {
	r.leave(c)
	c.slot = refRun{}
	c.ids = append(c.ids, ids...)
	if len(c.ids) == c.want {
		r.finish(c, nil)
	} else {
		r.turn(c)
	}
}

// serve returns to c the IDs that it has waited for.
func (r *reference) serve(c *refCall) {
	run := c.slot
	r.returned(run.ids[len(run.ids)-1])
	r.last = max(r.last, run.tick)
	r.got(c, run.ids)
}

// returned notes that IDs up to id were returned.
func (r *reference) returned(id ID) {
	r.served = max(r.served, id)
	tick := r.tick(r.l.Decode(id).Time)
	r.sent[r.seq], r.stamped = max(r.lastSent(r.seq), tick), max(r.stamped, tick)
	r.back = slices.DeleteFunc(r.back, func(run refRun) bool {
		return run.ids[0] <= r.served
	})
}

// take takes up to n IDs for c: IDs of tick, or of the run that was put back.
func (r *reference) take(c *refCall, tick int64, back bool) refRun {
	n := c.want - len(c.ids)
	if back {
		i := slices.IndexFunc(r.back, func(run refRun) bool { return run.tick == tick })
		run := r.back[i]
		n = min(n, len(run.ids))
		r.back[i].ids = run.ids[n:]
		if n == len(run.ids) {
			r.back = slices.Delete(r.back, i, i+1)
		}
		run.ids = run.ids[:n:n]
		return run
	}
	run := refRun{tick: tick, era: r.era}
	for at := (refPlace{r.seq, tick}); len(run.ids) < n && r.room(tick) > 0; {
		run.ids = append(run.ids, r.id(at))
		r.used[at]++
	}
	return run
}

// earliest returns the first tick that calls may still stamp.
func (r *reference) earliest(reading time.Time) int64 {
	if r.builtin {
		return r.tick(reading.Add(-5 * ms))
	}
	return r.tick(reading)
}

// inOrder returns the tick of the next IDs in order. They may have been put back, or follow a tick
// for which calls waited.
func (r *reference) inOrder(reading time.Time) (target int64, back, late bool) {
	tick, earliest := r.tick(reading), r.earliest(reading)
	for _, run := range r.back {
		if run.tick >= earliest {
			return run.tick, true, false
		}
	}
	if tick <= r.head || r.late && earliest <= r.head {
		return r.firstRoom(r.head), false, r.late
	}
	return r.firstRoom(tick), false, false
}

// step plays a step of c.
func (r *reference) step(c *refCall) {
	reading := r.read(r.now)
	if err := r.outside(reading); err != nil {
		r.refuse(c, err)
		return
	}
	if c.asleep {
		r.waited += r.now.Sub(c.slept)
		retry := c.retry
		c.retry = 0
		if reading.Equal(c.last) {
			c.retry = min(max(100*time.Microsecond, 2*retry), ms)
		}
		waited := r.now.Sub(c.since)
		c.slow = waited >= 50*ms && reading.Sub(c.from) < waited/2
		r.leave(c)
		c.asleep = false
	}
	tick, limit := r.tick(reading), r.tick(reading.Add(r.o.BorrowAhead))
	long := max(1, int64(50*ms/r.l.Unit))
	for asks := 1; ; asks++ {
		if r.stopped {
			r.refuse(c, ErrLeaseExpired)
			return
		}
		if r.lease != nil && limit <= r.ahead {
			r.look(c)
		}
		if c.slot.era != r.era {
			r.putBack(c)
		}
		held := len(c.slot.ids) > 0
		if held && c.slot.tick <= limit {
			r.serve(c)
			return
		}
		target, back, late := r.inOrder(reading)
		if held {
			target = c.slot.tick
		} else if r.lease != nil && target >= r.starting(r.granted.To) {
			r.look(c)
			target, back, late = r.inOrder(reading)
		}
		if r.last <= limit && !(target > limit && c.slow) && (held || target <= max(limit, r.head)+long) {
			r.goOn(c, target, limit, back, late, reading)
			return
		}
		last := target
		if r.last > limit {
			last = r.last
		}
		b := Backward{
			Last:      r.start(last).Add(-r.o.BorrowAhead),
			Now:       reading.UTC(),
			Stalled:   c.slow && !reading.Before(c.from),
			CanBump:   r.canBump(reading),
			CanRewind: r.canRewind(tick, limit+long),
		}
		r.asked = append(r.asked, b)
		action := r.policy.OnBackward(b)
		if asks > 3 {
			r.refuse(c, ErrClockBackward)
			return
		}
		if earlier := r.firstRoom(tick); action == ActionRewind && b.CanRewind && (earlier <= limit || !c.slow) {
			r.rewinding = true
			r.goOn(c, earlier, limit, false, false, reading)
			r.rewinding = false
			return
		}
		if action == ActionBump && b.CanBump && r.lease == nil {
			r.putBack(c)
			r.goOver(r.otherSeq(tick))
			r.newEra()
			r.head = -1 // the last head is of another clock sequence
			r.last = tick
			r.goOn(c, tick, limit, false, false, reading)
			return
		}
		if action == ActionBump && b.CanBump {
			r.lease.bump(r.granted, reading)
			r.look(c)
			continue
		}
		if action == ActionRewind && b.CanRewind {
			continue
		}
		if action != ActionWait {
			r.refuse(c, ErrClockBackward)
			return
		}
		wait := max(c.retry, r.start(target).Sub(reading)-r.o.BorrowAhead)
		switch {
		case !held && r.room(target) == 0 && !back:
			r.refuse(c, ErrTimeExhausted)
		case !held && r.lease != nil && target >= r.starting(r.granted.To):
			r.atEnd(c, target, reading)
		case !r.mayWait(c, wait):
			r.refuse(c, ErrClockBackward)
		default:
			r.wait(c, target, limit, back, late, wait, wait, reading)
		}
		return
	}
}

// goOn returns IDs of target to c, or makes c wait for them.
func (r *reference) goOn(c *refCall, target, limit int64, back, late bool, reading time.Time) {
	switch {
	case len(c.slot.ids) > 0 && !r.rewinding:
		wait, sleep := r.untilTurn(c, target, reading)
		r.wait(c, target, limit, back, late, wait, sleep, reading)
	case r.room(target) == 0 && !back:
		r.refuse(c, ErrTimeExhausted)
	case r.lease != nil && target >= r.starting(r.granted.To):
		r.atEnd(c, target, reading)
	case target <= limit:
		run := r.enter(c, target, limit, back, late, reading)
		id := run.ids[len(run.ids)-1]
		if back {
			r.last = max(r.last, target)
		} else {
			r.last = target
		}
		r.returned(id)
		r.got(c, run.ids)
	default:
		wait, sleep := r.untilTurn(c, target, reading)
		r.wait(c, target, limit, back, late, wait, sleep, reading)
	}
}

// untilTurn returns the length of c's wait for target, if the policy sets none, and of its sleep before
// the next look at the clock.
func (r *reference) untilTurn(c *refCall, target int64, reading time.Time) (wait, sleep time.Duration) {
	wait, sleep = max(c.retry, r.start(target).Sub(reading)-r.o.BorrowAhead), 50*ms
	if c.began {
		switch waited := r.now.Sub(c.since); {
		case waited < 50*ms:
			sleep = max(50*ms-waited, ms)
		default:
			sleep = waited
		}
	}
	return wait, min(wait, sleep)
}

// enter takes IDs of target for c, in place of those for whose tick it waits.
func (r *reference) enter(c *refCall, target, limit int64, back, late bool, reading time.Time) refRun {
	r.putBack(c)
	if !back {
		if r.rewinding && target != r.head {
			r.newEra()
			if target < r.head {
				r.rewinds++
			}
		}
		if target != r.head && target > r.tick(reading) && r.o.BorrowAhead > 0 {
			r.borrowed++
		}
		if size := int64(1) << r.l.SequenceBits; target != r.head && r.o.RandomStart && r.room(target) == size {
			r.used[refPlace{r.seq, target}] = r.dice(max(size/2, min(size, 2)))
		}
		r.head, r.late = target, late || target > limit
	}
	return r.take(c, target, back)
}

// mayWait reports whether c may wait for a clock that went back, after the policy
// has agreed: in all twice the first such wait, or 50 ms.
func (r *reference) mayWait(c *refCall, wait time.Duration) bool {
	if c.agreed.IsZero() {
		c.agreed, c.first = r.now, wait
	}
	total := r.now.Sub(c.agreed) + wait
	return total <= 50*ms || total/2 <= c.first
}

// wait makes c wait for target, if its deadline can be met.
func (r *reference) wait(c *refCall, target, limit int64, back, late bool, wait, sleep time.Duration, reading time.Time) {
	if r.outlasts(c, wait) {
		return
	}
	if len(c.slot.ids) == 0 || r.rewinding {
		c.slot = r.enter(c, target, limit, back, late, reading)
	}
	r.sleep(c, sleep, sleep < wait, reading)
}

// outlasts refuses c if a wait would outlast its deadline.
func (r *reference) outlasts(c *refCall, wait time.Duration) bool {
	late := c.deadline && r.now.Add(wait).After(c.ends)
	if late {
		r.refuse(c, context.DeadlineExceeded)
	}
	return late
}

// sleep makes c look again after a wait. If the wait is cut, the next wait continues it.
func (r *reference) sleep(c *refCall, wait time.Duration, cut bool, reading time.Time) {
	if !c.cut {
		r.waits++
	}
	if !c.began {
		c.began, c.since, c.from = true, r.now, reading
	}
	c.asleep, c.cut, c.slept, c.last, c.wake = true, cut, r.now, reading, r.alarms.next(r.now.Add(wait))
	r.waiting = append(r.waiting, c)
}

// atEnd is c's step at the end of the lease's window.
func (r *reference) atEnd(c *refCall, target int64, reading time.Time) {
	if r.lease.extends == 0 {
		if target <= r.tick(reading) || c.slow {
			r.refuse(c, ErrLeaseExpired)
			return
		}
		if r.outlasts(c, max(c.retry, r.start(target).Sub(reading)-r.o.BorrowAhead)) {
			return
		}
		wait := r.start(target).Sub(reading)
		r.sleep(c, min(wait, 50*ms), wait > 50*ms, reading)
		return
	}
	if c.extends++; c.extended == r.granted || c.extends > 100 {
		r.refuse(c, ErrLeaseExpired)
		return
	}
	c.extended, c.expired = r.granted, reading
	r.waiting = append(r.waiting, c)
	takes := r.lease.takes(r.granted)
	if takes == 0 {
		r.answered(c)
		return
	}
	c.asking = r.alarms.next(r.now.Add(takes))
}

// answered returns when the lease answers c.
func (r *reference) answered(c *refCall) {
	r.leave(c)
	if err := r.lease.extend(c.extended, c.expired); err != nil {
		r.refuse(c, ErrLeaseExpired)
		return
	}
	r.step(c)
}

// stop ends the lease for good.
func (r *reference) stop() {
	r.stopped = true
	for _, c := range slices.Clone(r.waiting) {
		if c.asking.IsZero() {
			r.step(c)
		}
	}
}
