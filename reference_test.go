package snowflake

import (
	"context"

	"slices"
	"time"
)

// reference is a generator and the callers that wait for it, written in the slow and
// obvious way: it remembers all that was ever stamped, and plays events one after the
// other. TestModel compares the Generator with it.

type reference struct {
	o        *Options
	l        Layout
	policy   BackwardPolicy
	now      time.Time                    // of the bubble
	read     func(at time.Time) time.Time // what the clock reads
	builtin  bool                         // the clock is a built-in one: callers that woke late are caught up with
	asked    []Backward                   // what the policy was asked
	used     map[place]int64              // sequence numbers used
	seqs     []int64                      // the clock sequences used, in order of their first use
	seq      int64                        // the current one
	head     int64                        // the tick of the last ID
	fresh    bool                         // the last reading was in head, by a built-in clock
	lagging  bool                         // head is stamped after its end
	closed   int64                        // ticks up to this one are closed for the current clock sequence
	after    int64                        // and up to this one for clock sequences that are not in seqs
	ahead    int64                        // the window begins after this tick
	before   int64                        // the last tick stamped when the window was granted; -1 if no tick was
	worker   int
	lease    *script // nil without a lease
	granted  Grant   // as the generator knows it
	stopped  bool
	unclear  bool // two things happened at once, and their order is not promised
	bumps    uint64
	rewinds  uint64
	borrowed uint64

	queue   []*refCall // the callers that wait, in order of arrival
	away    []*refCall // the callers that got IDs while they asked the lease
	again   []*refCall // Fills that got a part, and come again at once
	opened  time.Time  // when a tick was last opened for the queue, or since when it is not empty
	reading time.Time  // the clock's reading then
	behind  time.Time  // when a call first found, after opened, that the clock had gone back; zero if it has not
	waited  int64      // the tick that the head waits for
}

type place struct{ seq, tick int64 }

// refCall is a call.
type refCall struct {
	want     int
	ends     time.Time // of its context; zero if never
	with     error     // how the context ends
	deadline bool      // it is known beforehand

	ids      []ID
	err      error
	done     bool
	returned time.Time
	refTurn
}

// refTurn is one stay of a call in the queue.
type refTurn struct {
	since    time.Time     // when it came
	waits    bool          // it has waited since its last step
	last     time.Time     // the clock's reading in the last step
	stalled  bool          // the clock did not keep up while it waited
	least    time.Duration // what the next wait must not be less than
	first    time.Duration // the first wait for the clock that the policy agreed to
	agreed   time.Duration // the sum of such waits
	wake     time.Time     // when it makes its next step, as the head
	ticks    bool          // it does so to see a tick begin
	asking   time.Time     // until when it asks the lease
	extended Grant         // what it last asked the lease to extend
	expired  time.Time     // the clock's reading when it asked
	out      bool          // it got its IDs
	stopped  bool          // the lease ended while it asked
}

func newReference(o *Options, worker int, lease *script, read func(time.Time) time.Time) *reference {
	r := &reference{o: o, l: o.Layout, policy: o.OnBackward, now: time.Now(), read: read, used: map[place]int64{},
		seqs: []int64{0}, head: -1, closed: -1, after: -1, ahead: -1, before: -1, worker: worker, lease: lease}
	_, r.builtin = o.Clock.(*builtinClock)
	if r.policy == nil {
		r.policy = WaitPolicy(10 * ms)
	}
	if o.After > 0 {
		p := r.l.Decode(o.After)
		r.seq, r.seqs = int64(p.ClockSeq), []int64{int64(p.ClockSeq)}
		r.head = r.tick(p.Time)
		r.closed, r.after = r.head-1, r.head
		at := place{r.seq, r.head}
		r.used[at] = 0 // it counts as stamped
		for r.room(r.head) > 0 && r.id(at) <= o.After {
			r.used[at]++
		}
	}
	if lease != nil {
		r.look()
		r.bumps, r.before = 0, r.after
	}
	return r
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
func (r *reference) id(at place) ID {
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

// room returns how many IDs a tick has left.
func (r *reference) room(tick int64) int64 {
	if tick <= r.closed {
		return 0
	}
	return 1<<r.l.SequenceBits - r.used[place{r.seq, tick}]
}

// firstRoom returns the first tick from tick on that has IDs left, or the last of all.
func (r *reference) firstRoom(tick int64) int64 {
	tick = max(tick, min(r.closed+1, r.l.maxTick()))
	for r.room(tick) == 0 && tick < r.l.maxTick() {
		tick++
	}
	return tick
}

// last returns the last tick stamped under seq.
func (r *reference) last(seq int64) int64 {
	last := r.after
	for at := range r.used {
		if at.seq == seq {
			last = max(last, at.tick)
		}
	}
	return last
}

// otherSeq returns the clock sequence to change to at tick, or -1.
func (r *reference) otherSeq(tick int64) int64 {
	best := int64(-1)
	for _, seq := range r.seqs {
		if seq != r.seq && r.last(seq) < tick && (best < 0 || r.last(seq) > r.last(best)) {
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
	r.closed = r.last(seq)
	r.seq = seq
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
	if r.o.RewindTicks == 0 || tick >= r.head || tick <= r.closed || tick < max(r.last(r.seq), r.head)-int64(r.o.RewindTicks) {
		return false
	}
	back := r.firstRoom(tick)
	return r.room(back) > 0 && back <= near
}

// look asks the lease for its grant.
func (r *reference) look() {
	g := r.lease.grant
	from := r.starting(g.From) - 1
	last, stamped := max(from, r.after), r.stamped()
	worker, seq := g.Worker != r.worker, int64(g.ClockSeq) != r.seq
	r.granted = g
	switch {
	case worker:
		last = max(last, stamped) // the next IDs are greater
	case seq:
		r.bumps++
		stamped = last // it may have been used up to there
	case from >= r.head:
		last = max(last, stamped)
	default:
		r.closed = max(r.closed, from)
		return
	}
	r.worker, r.seq, r.fresh = g.Worker, int64(g.ClockSeq), false
	r.head, r.closed, r.ahead, r.before = last, last, last, stamped
	for at := range r.used {
		delete(r.used, at) // it is closed, or another's
	}
}

// stamped returns the last tick that counts as stamped, or -1. It is not a tick that
// was closed only because the window begins after it.
func (r *reference) stamped() int64 {
	if len(r.used) == 0 {
		return r.before
	}
	return max(r.head, r.last(r.seq))
}

// call begins a call.
func (r *reference) call(c *refCall) {
	if c.want == 0 {
		r.finish(c, nil)
		return
	}
	r.turn(c)
	r.settle()
}

// advance plays the events until at.
func (r *reference) advance(at time.Time) {
	for {
		next, do, more := r.next()
		if !more || next.After(at) {
			break
		}
		if next.Equal(at) {
			r.unclear = true
		}
		r.now = next
		do()
		r.settle()
	}
	r.now = at
}

// next returns the next event.
func (r *reference) next() (at time.Time, do func(), more bool) {
	note := func(t time.Time, f func()) {
		switch {
		case t.IsZero():
		case !more || t.Before(at):
			at, do, more = t, f, true
		case t.Equal(at):
			r.unclear = true
		}
	}
	for _, c := range slices.Concat(r.queue, r.away) {
		note(c.wake, func() { r.step(c) })
		note(c.asking, func() { r.answered(c) })
		if !c.ends.IsZero() {
			note(later(c.ends, r.now), func() { r.give(c, c.with) })
		}
	}
	return at, do, more
}

// settle lets the head of the queue make its first step, and the next one after
// that, and lets Fills come again.
func (r *reference) settle() {
	for {
		switch {
		case len(r.queue) > 0 && r.queue[0].wake.IsZero() && r.queue[0].asking.IsZero():
			waiting := len(r.queue)
			r.step(r.queue[0])
			if len(r.again) > 0 && len(r.queue) < waiting {
				r.unclear = true // did the Fill come before?
			}
		case len(r.again) > 0:
			if len(r.again) > 1 {
				r.unclear = true // who comes first?
			}
			c := r.again[0]
			r.again = r.again[1:]
			r.turn(c)
		default:
			return
		}
	}
}

// turn begins a stay of c in the queue.
func (r *reference) turn(c *refCall) {
	if len(c.ids) > 0 && !c.ends.IsZero() && !c.ends.After(r.now) { // a Fill looks at its context for each tick
		r.finish(c, c.with)
		return
	}
	c.refTurn = refTurn{since: r.now}
	r.step(c)
}

// give ends c's stay because of err, unless it has got IDs.
func (r *reference) give(c *refCall, err error) {
	if i := slices.Index(r.away, c); i >= 0 {
		r.away = slices.Delete(r.away, i, i+1)
		r.got(c)
		return
	}
	r.refuse(c, err)
}

func (r *reference) refuse(c *refCall, err error) {
	r.remove(c)
	r.finish(c, err)
}

func (r *reference) remove(c *refCall) {
	if i := slices.Index(r.queue, c); i >= 0 {
		r.queue = slices.Delete(r.queue, i, i+1)
	}
}

func (r *reference) finish(c *refCall, err error) {
	c.done, c.err, c.returned = true, err, r.now
	slices.Sort(c.ids)
}

// got continues c after it got IDs.
func (r *reference) got(c *refCall) {
	if len(c.ids) == c.want {
		r.finish(c, nil)
	} else {
		r.again = append(r.again, c)
	}
}

// draw gives c as many IDs of the open tick as it wants.
func (r *reference) draw(c *refCall) {
	for at := (place{r.seq, r.head}); len(c.ids) < c.want && r.room(r.head) > 0; {
		c.ids = append(c.ids, r.id(at))
		r.used[at]++
		c.out = true
	}
	if !c.out {
		return
	}
	r.remove(c)
	if c.asking.IsZero() {
		r.got(c)
	} else {
		c.wake = time.Time{}
		r.away = append(r.away, c)
	}
}

// step plays c's next step: when it comes, and when it is the head and wakes.
func (r *reference) step(c *refCall) {
	reading := r.read(r.now)
	if reading.Before(r.l.Epoch.Time()) {
		r.fresh = false
		r.refuse(c, ErrBeforeEpoch)
		return
	}
	if !reading.Before(r.l.Expires()) {
		r.fresh = false
		r.refuse(c, ErrTimeExhausted)
		return
	}
	if c.waits {
		if reading.Before(c.last) {
			r.opened, r.reading = r.now, reading
		}
		waited := r.now.Sub(r.opened)
		c.stalled = waited >= 50*ms && reading.Sub(r.reading) < waited/2
		least := c.least
		c.least = 0
		if reading.Equal(c.last) {
			c.least = min(max(100*time.Microsecond, 2*least), ms)
		}
	}
	c.waits, c.last, c.wake, c.ticks = false, reading, time.Time{}, false
	tick, limit := r.tick(reading), r.tick(reading.Add(r.o.BorrowAhead))
	if r.fresh && r.room(r.head) > 0 && (tick <= r.head || r.lagging && r.tick(reading.Add(-5*ms)) <= r.head) {
		r.draw(c) // the lease is not looked at
		return
	}
	r.fresh = false
	near := limit + max(1, int64(50*ms/r.l.Unit))
	for asks := 1; ; asks++ {
		if r.stopped {
			r.refuse(c, ErrLeaseExpired)
			return
		}
		if r.lease != nil && (limit >= r.starting(r.granted.To) || limit <= r.ahead) {
			r.look()
		}
		target, late := r.inOrder(tick, reading)
		if r.head <= limit && target <= near && !(c.stalled && target > limit) {
			r.serve(c, target, limit, late, reading)
			return
		}
		last := target
		if r.head > limit {
			last = r.head
		}
		b := Backward{
			Last:      r.start(last).Add(-r.o.BorrowAhead),
			Now:       reading.UTC(),
			Stalled:   c.stalled,
			CanBump:   r.canBump(reading),
			CanRewind: r.canRewind(tick, near),
		}
		if r.behind.IsZero() {
			r.behind = r.now
		}
		r.asked = append(r.asked, b)
		action := r.policy.OnBackward(b)
		if back := r.firstRoom(tick); action == ActionRewind && b.CanRewind && (back <= limit || !c.stalled) {
			r.serve(c, back, limit, false, reading)
			return
		}
		if action == ActionBump && b.CanBump && r.lease == nil {
			r.goOver(r.otherSeq(tick))
			r.head = -1 // whatever it was, it is another's
			r.serve(c, tick, limit, false, reading)
			return
		}
		if action == ActionBump && b.CanBump && asks <= 3 {
			r.lease.bump(r.granted, reading)
			r.look()
			continue
		}
		wait := max(c.least, r.start(target).Sub(reading)-r.o.BorrowAhead)
		if action != ActionWait || !r.mayWait(c, wait) {
			r.refuse(c, ErrClockBackward)
			return
		}
		r.wait(c, target, wait, reading)
		return
	}
}

// inOrder returns the tick to stamp that keeps order, and whether it is stamped
// after its end.
func (r *reference) inOrder(tick int64, reading time.Time) (target int64, late bool) {
	from, recent := tick, r.tick(reading.Add(-5*ms))
	switch {
	case tick <= r.head:
		from, late = r.head, r.lagging
	case !r.builtin:
	case r.lagging && r.head >= recent:
		from, late = r.head, true
	case len(r.queue) > 0 && r.waited > r.head && r.waited >= recent && r.waited <= tick:
		from = r.waited
		late = reading.After(r.start(from))
	}
	target = r.firstRoom(from)
	return target, late && target <= tick
}

// mayWait reports whether c may wait for a clock that went back, after the policy
// has agreed: in all twice the first such wait, or 50 ms.
func (r *reference) mayWait(c *refCall, wait time.Duration) bool {
	since := r.behind
	if c.since.After(since) {
		since = c.since
	}
	if c.agreed == 0 {
		c.first = wait
	}
	c.agreed = max(c.agreed, r.now.Sub(since)) + wait
	return c.agreed <= 50*ms || c.agreed/2 <= c.first
}

// serve gives the IDs of target, and of the ticks after it, to the queue and then
// to c, as far as they may be stamped now. If c gets no ID, it waits.
func (r *reference) serve(c *refCall, target, limit int64, late bool, reading time.Time) {
	end := r.l.maxTick() + 1
	if r.lease != nil {
		end = r.starting(r.granted.To)
	}
	tick := r.tick(reading)
	for r.room(target) > 0 && target <= limit && target < end {
		if target != r.head {
			if r.head > target {
				r.rewinds++
			}
			if target > tick {
				r.borrowed++
			}
		}
		r.head, r.lagging, r.fresh, r.behind = target, late, r.builtin, time.Time{}
		if len(r.queue) > 0 {
			r.opened, r.reading = r.now, reading
		}
		for len(r.queue) > 0 && r.room(target) > 0 {
			r.draw(r.queue[0])
		}
		if len(r.queue) == 0 && !c.out {
			r.draw(c)
		}
		if len(r.queue) == 0 && c.out {
			return
		}
		target, late = r.inOrder(tick, reading)
	}
	if c.out {
		return
	}
	if r.room(target) == 0 {
		r.refuse(c, ErrTimeExhausted)
		return
	}
	wait := max(c.least, r.start(target).Sub(reading)-r.o.BorrowAhead)
	if target > limit {
		if r.wait(c, target, wait, reading) {
			r.waited, r.behind = target, time.Time{}
			if head := r.queue[0]; head == c {
				c.ticks = true
			} else if head.ticks && head.wake.Sub(r.now.Add(wait)) > ms { // the clock was set forward
				head.wake = time.Time{}
			}
		}
		return
	}
	// The window's end.
	if r.lease.extends == 0 && (target <= tick || c.stalled) {
		r.refuse(c, ErrLeaseExpired)
		return
	}
	r.join(c, reading)
	r.waited, r.behind = target, time.Time{}
	c.waits = true
	again := min(max(0, r.start(target).Sub(reading)), 50*ms)
	if r.queue[0] != c {
		return
	}
	if r.lease.extends == 0 {
		c.wake = r.now.Add(again)
		return
	}
	if c.extended == r.granted {
		r.refuse(c, ErrLeaseExpired)
		return
	}
	c.waits = false
	c.extended, c.expired = r.granted, reading
	c.asking = r.now.Add(r.lease.takes(r.granted))
	if c.asking.Equal(r.now) {
		r.answered(c)
	}
}

// answered is when the lease answers c.
func (r *reference) answered(c *refCall) {
	c.asking = time.Time{}
	err := r.lease.extend(c.extended, c.expired)
	switch {
	case c.out:
		r.give(c, nil)
	case err != nil && !c.ends.IsZero() && !c.ends.After(r.now):
		r.refuse(c, c.with)
	case err != nil:
		r.unclear = r.unclear || len(r.again) > 0 // did the Fill come before?
		r.refuse(c, ErrLeaseExpired)
		for c.extended == r.granted && len(r.queue) > 0 {
			r.refuse(r.queue[0], ErrLeaseExpired)
		}
	case c.stopped:
		r.refuse(c, ErrLeaseExpired)
	default:
		r.step(c)
	}
}

func (r *reference) join(c *refCall, reading time.Time) {
	if slices.Contains(r.queue, c) {
		return
	}
	if len(r.queue) == 0 {
		r.opened, r.reading, r.waited = r.now, reading, -1
	}
	r.queue = append(r.queue, c)
}

// wait makes c wait in the queue, for so long if it is the head, if its deadline
// can be met, and reports whether it can. The next ID comes from target.
func (r *reference) wait(c *refCall, target int64, wait time.Duration, reading time.Time) bool {
	r.join(c, reading)
	c.waits = true
	if r.queue[0] == c {
		c.wake = r.now.Add(wait)
	}
	if !c.deadline {
		return true
	}
	taken := map[int64]int64{}
	for _, o := range r.queue {
		if r.room(target)-taken[target] == 0 {
			target = r.firstRoom(min(target+1, r.l.maxTick()))
		}
		if o == c {
			break
		}
		taken[target] += min(int64(o.want-len(o.ids)), r.room(target)-taken[target])
	}
	turn := max(c.least, r.start(target).Sub(reading)-r.o.BorrowAhead)
	late := r.now.Add(turn).After(c.ends)
	if late {
		r.refuse(c, context.DeadlineExceeded)
	}
	return !late
}

// stop is when the lease ends for good.
func (r *reference) stop() {
	r.stopped, r.fresh = true, false
	for _, c := range slices.Clone(r.queue) {
		if c.stopped = !c.asking.IsZero(); !c.stopped {
			r.refuse(c, ErrLeaseExpired)
		}
	}
	r.settle()
}
