package snowflake

import (
	"context"
	"fmt"
	"time"
)

// queue holds the callers that wait, in order of arrival. The head, which is the
// first caller, sleeps until the next tick, or asks the policy or the lease; the
// others wait for their turn. A caller that opens a tick gives its IDs to the queue,
// from the head on, before it takes any. So if a tick has IDs left, the queue is
// empty.
//
// g.mu must be held for all methods.
type queue struct {
	head, tail *caller
	answered   *caller // the first caller in the list of callers to tell, when the lock is given back, that they have IDs or an error
	last       *caller // the last caller in that list

	tick int64     // the tick that the head waits for
	wake time.Time // when the head will wake; zero if it does not wait for a tick

	since   time.Time // when a tick was last opened for the queue or, if later, when a caller joined the empty queue
	reading instant   // the clock's reading at since
	behind  time.Time // when a call first found after since that the clock had gone back; zero if it has not

	// If the next ID comes from base, a caller that joins now gets its IDs from end.
	// Not known after a caller has left.
	base, end plan
	known     bool
}

// caller is a call that could not be served at once.
type caller struct {
	n        int // how many IDs it wants
	deadline time.Time
	limited  bool // it has a deadline
	ids      run  // what it got; guarded by Generator.mu until turn is closed
	err      error

	next, prev *caller
	queued     bool
	turn       chan struct{} // has a value when the caller comes to the head; closed when it is answered

	since   time.Time     // when it began to wait; zero if it has not
	waited  time.Duration // how much of the time since then is in the statistics
	woken   bool          // it has waited since the last step
	last    instant       // the clock's reading in the last step
	stalled bool          // the clock did not keep up with the last wait
	least   time.Duration // the next wait must be at least as long
	asks    int           // how often the policy was asked since the last wait
	first   time.Duration // the first wait for the clock that the policy agreed to
	agreed  time.Duration // the sum of such waits

	grant    *Grant             // of the lease, in the last step
	expired  *LeaseExpiredError // if not nil, ask the lease to extend grant; the error if it does not
	extended *Grant             // the grant that the lease was last asked to extend
}

// join puts c at the tail. now is the clock's reading.
func (q *queue) join(c *caller, now instant) {
	c.queued, c.prev = true, q.tail
	if q.tail == nil {
		q.head, q.tick = c, -1
		q.since, q.reading = time.Now(), now
	} else {
		q.tail.next = c
	}
	q.tail = c
}

// leave takes c out.
func (q *queue) leave(c *caller) {
	if !c.queued {
		return
	}
	if c.prev == nil {
		q.head, q.wake = c.next, time.Time{}
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.next, c.prev, c.queued, q.known = nil, nil, false, false
}

// head returns the head of the queue, or nil. g.mu must be held.
func (g *Generator) head() *caller {
	if g.queue == nil {
		return nil
	}
	return g.queue.head
}

// note records what the caller of r waits for, and whether it is the head.
func (q *queue) note(r *reservation, p plan) {
	c := r.caller
	if r.first = q.head == c; r.first {
		q.wake = time.Time{}
	}
	if r.behind == nil {
		q.tick, q.behind = p.tick, time.Time{}
		return
	}
	if q.behind.IsZero() {
		q.behind = time.Now()
	}
	since := q.behind
	if c.since.After(since) {
		since = c.since
	}
	r.stuck = time.Since(since)
}

// maxEarly is how much sooner a tick may begin than the head expects.
const maxEarly = time.Millisecond

// expect records when the head will wake. The caller of r has read the clock later
// than the head. If it finds that the tick begins much sooner, the clock was set
// forward: then the head takes its next step at once.
func (q *queue) expect(r reservation) {
	wake := time.Now().Add(r.wait)
	switch {
	case r.first:
		q.wake = wake
	case q.wake.Sub(wake) > maxEarly:
		q.wake = time.Time{}
		q.call(nil)
	}
}

// agreeToWait adds a wait that the policy agreed to to c's waits for the clock, and
// reports whether their sum is within the bound that ActionWait documents.
func (c *caller) agreeToWait(r reservation) bool {
	if c.agreed == 0 {
		c.first = r.wait
	}
	c.agreed = max(c.agreed, r.stuck) + r.wait
	return c.agreed <= maxStall || c.agreed/2 <= c.first
}

// call makes the head take its next step at once, unless it is c.
func (q *queue) call(c *caller) {
	if q.head == nil || q.head == c {
		return
	}
	select {
	case q.head.turn <- struct{}{}:
	default: // the head was called before
	}
}

// place returns the plan from which c will get its IDs, if the next ID comes from p
// and no caller leaves.
func (g *Generator) place(c *caller, p plan) plan {
	q := g.queue
	if q == nil {
		return p
	}
	if !c.queued && q.known && q.base == p {
		return q.end
	}
	end := p
	for o := q.head; o != nil && o != c; o = o.next {
		end = g.following(end, o.n)
	}
	if !c.queued {
		q.base, q.end, q.known = p, end, true
	}
	return end
}

// following returns the plan for the next caller, after a caller has taken up to n
// IDs from p.
func (g *Generator) following(p plan, n int) plan {
	p.left -= min(int64(n), p.left)
	if p.left == 0 && p.tick < g.layout.maxTick() {
		p = g.next(p.tick + 1)
	}
	return p
}

// join makes c wait in the queue, unless it does already, and returns the caller
// that waits. p is the plan of the next ID. g.mu must be held.
func (g *Generator) join(c *caller, p plan, now instant) *caller {
	if c.queued {
		return c
	}
	waiting := *c // a copy, so that c stays on the stack in calls that need not wait
	waiting.since, waiting.turn = time.Now(), make(chan struct{}, 1)
	if g.queue == nil {
		g.queue = new(queue)
	}
	if q := g.queue; q.known && q.base == p {
		q.end = g.following(q.end, c.n)
	} else {
		q.known = false
	}
	g.queue.join(&waiting, now)
	return &waiting
}

// give gives the IDs of the open tick to the queue, in order. opener is the caller
// that opened it. g.mu must be held.
func (g *Generator) give(opener *caller, reading instant) {
	q := g.queue
	if q == nil || q.head == nil {
		return
	}
	now := time.Now()
	for c := q.head; c != nil && g.left > 0; c = q.head {
		c.ids = g.draw(c.n)
		if c != opener { // which has counted its wait
			g.count(c, now)
		}
		q.answer(c)
	}
	q.since, q.reading = now, reading
}

// answer takes c, which has its IDs or an error, out of the queue.
func (q *queue) answer(c *caller) {
	q.leave(c)
	if q.answered == nil {
		q.answered = c
	} else {
		q.last.next = c
	}
	q.last = c
}

// share gives the error that c got from the lease to all callers that wait for the
// same grant to grow. So they need not ask the lease one after the other.
func (g *Generator) share(c *caller) {
	g.mu.Lock()
	defer g.unlock()
	if c.grant == g.window.grant {
		g.queue.refuse(c.expired)
	}
}

// refuse answers all callers with an error.
func (q *queue) refuse(err error) {
	for q.head != nil {
		q.head.err = err
		q.answer(q.head)
	}
}

// count adds the time that c has waited to the statistics.
func (g *Generator) count(c *caller, now time.Time) {
	waited := now.Sub(c.since)
	g.stats.Waits++
	g.stats.Waited += waited - c.waited
	c.waited = waited
}

// quit takes c out of the queue because of err. If c was served meanwhile, it
// returns the IDs and no error.
func (g *Generator) quit(c *caller, err error) (run, error) {
	g.mu.Lock()
	defer g.unlock()
	if c.ids.n > 0 {
		return c.ids, nil
	}
	g.dismiss(c)
	return run{}, err
}

// dismiss takes c out of the queue, if it is there. g.mu must be held.
func (g *Generator) dismiss(c *caller) {
	if !c.queued {
		return
	}
	q := g.queue
	first := q.head == c
	q.leave(c)
	if first {
		q.call(nil)
	}
}

// unlock gives the lock back, and tells the callers that were answered.
func (g *Generator) unlock() {
	var c, next *caller
	if g.queue != nil {
		c, g.queue.answered = g.queue.answered, nil
	}
	g.mu.Unlock()
	for ; c != nil; c = next {
		next = c.next
		close(c.turn)
	}
}

// tooLate returns an error if c's deadline is less than due away. c's turn does not
// come before due.
func (c *caller) tooLate(due time.Duration) error {
	if c.limited && time.Until(c.deadline) < due {
		return fmt.Errorf("snowflake: a wait of %v would outlast the deadline, %s: %w", due, formatTime(c.deadline), context.DeadlineExceeded)
	}
	return nil
}

// wait waits for c's turn, or until ctx is done, and reports whether c was answered.
// The head of the queue sleeps for r.wait at most.
func (c *caller) wait(ctx context.Context, r reservation) (answered bool, err error) {
	if err := c.tooLate(r.due); err != nil {
		return false, err
	}
	c.woken, c.asks = true, 0
	var wake <-chan time.Time
	if r.first {
		timer := newTimer(r.wait)
		defer timer.Stop()
		wake = timer.C
	}
	select {
	case _, called := <-c.turn:
		return !called, nil
	case <-wake:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
