package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/sim/seam"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// node is a host.
type node struct {
	Node
	w       *world
	id      int
	owner   string
	machine *machine

	mu          sync.Mutex
	process     *process // the current one
	runs        int
	down        time.Duration // before the next one starts
	net         network
	asked       []Event // load
	wake        chan struct{}
	lastID      snowflake.ID // the largest
	issuedAt    time.Time    // the last one
	lastErr     error
	pausedUntil time.Time
	wakesAt     time.Time // when the last of its goroutines goes on, though it is no longer paused
	faultAt     time.Time // when one of the network began or ended last
	first       *process  // a clone begins with this one
}

// network is how a node reaches the store.
type network struct {
	loseRequests, loseAnswers, resend int // percent
	delay                             time.Duration
}

func newNode(w *world, id int, c Node) *node {
	n := &node{Node: c, w: w, id: id, owner: fmt.Sprintf("owner-%d", id), wake: make(chan struct{}, 1)}
	if w.OneHost && id > 0 {
		n.machine = w.nodes[0].machine
	} else {
		n.machine = newMachine(w.Start, w.begun, c.Offset, c.Drift)
	}
	return n
}

func (n *node) copyDir() string {
	if !n.w.LocalCopy {
		return ""
	}
	return filepath.Join(n.w.dir, n.owner)
}

// run runs one process after the other.
func (n *node) run() {
	if n.first == nil && !n.w.sleep(n.Begin) {
		return
	}
	for {
		p := n.start()
		n.w.wg.Go(p.run)
		select {
		case <-p.dead:
		case <-n.w.done:
			p.kill("the run ends")
			return
		}
		n.mu.Lock()
		down := n.down
		n.down = 0
		n.mu.Unlock()
		if down == 0 {
			down = n.w.up(n.w.Window / 2)
		}
		if !n.w.sleep(down) {
			return
		}
	}
}

func (n *node) start() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs++
	p := n.first
	if p == nil {
		p = newProcess(n, n.runs)
	}
	n.first, n.process = nil, p
	n.w.count(func(t *Totals) { t.Processes++ })
	return p
}

func (n *node) current() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// network returns how the store is reached now.
func (n *node) network() network {
	if n.w.isOver() {
		return network{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.net
}

// fault lets the network misbehave for a while.
func (n *node) fault(e Event) {
	change := func(sign int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.faultAt = time.Now()
		switch e.Kind {
		case LoseRequests:
			n.net.loseRequests += sign * e.N
		case LoseAnswers:
			n.net.loseAnswers += sign * e.N
		case Resend:
			n.net.resend += sign * e.N
		case Delay:
			n.net.delay += time.Duration(sign) * e.By
		default:
			panic("unknown kind of event: " + e.Kind)
		}
	}
	change(1)
	n.w.sleep(e.For)
	change(-1)
}

func (n *node) pause(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if until := time.Now().Add(d); until.After(n.pausedUntil) {
		n.pausedUntil, n.wakesAt = until, until.Add(10*ms)
	}
}

func (n *node) paused() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Until(n.pausedUntil)
}

// recover ends the faults.
func (n *node) recover() {
	n.mu.Lock()
	n.pausedUntil = time.Time{}
	p := n.process
	n.mu.Unlock()
	if p != nil {
		p.arm(nowhere, "")
	}
	switch {
	case n.w.OneHost && n.id > 0:
	case n.Stays:
		n.machine.change(func(s *segment) { s.rate, s.asleep = million, false })
	default:
		n.machine.right(n.Offset / 4) // which is as good as a time daemon gets it
	}
}

// end ends the process.
func (n *node) end(e Event) {
	p := n.current()
	if p == nil {
		return
	}
	n.mu.Lock()
	n.down = e.By
	n.mu.Unlock()
	switch e.Kind {
	case Crash:
		p.kill("crash")
	case CrashInCall:
		p.arm(e.N%4, "")
	case CrashInFile:
		p.arm(nowhere, fileSteps[e.N])
	case Exit:
		p.exit()
	case Release:
		p.release()
	}
}

func (n *node) crashInFile(step string) {
	p := n.current()
	p.mu.Lock()
	hit := p.armedStep == step
	p.mu.Unlock()
	if hit || p.isDead() {
		p.kill("crash in a file: " + step)
		runtime.Goexit()
	}
}

// clone makes another node of n, with a copy of its process.
func (n *node) clone() {
	p := n.current()
	if p == nil || p.isDead() || n.paused() > 0 {
		return
	}
	p.mu.Lock()
	l, g := p.lease, p.gen
	ready := l != nil && g != nil && !p.releasing && p.gatedInGenerator == 0
	p.mu.Unlock()
	if !ready || l.Err() != nil {
		return
	}
	c := &node{Node: n.Node, w: n.w, owner: n.owner, machine: n.machine.clone(), wake: make(chan struct{}, 1)}
	q := newProcess(c, 0)
	q.isClone = true
	clock := q.newClock(false)
	if n.Clock != "custom" {
		clock = seam.CloneClock(l.Terms().Clock, setOnce{c.machine, q}).(snowflake.Clock)
	}
	if n.w.Guarded {
		c.machine.generation.Store(uint64(n.w.totals.Clones + 1))
	}
	leaseClone, seq, bound := seam.CloneLease(l, q.store(), clock, &c.machine.generation)
	if leaseClone == nil {
		return
	}
	if n.w.Guarded && n.w.chance(50) { // the original was started from the snapshot, too
		n.machine.generation.Store(uint64(n.w.totals.Clones) + 1<<32)
	}
	q.lease, q.worker = leaseClone.(*lease.Lease), l.Worker()
	q.grant, q.replacements = q.lease.Grant(), q.lease.Stats().Replacements
	n.w.store.sharesAll(p, q)
	q.gen = seam.CloneGenerator(g, q.lease, q.newClock(true)).(*snowflake.Generator)
	p.mu.Lock()
	q.offset, q.changes, q.after, q.lastID = p.offset, -1, p.after, p.lastID
	p.mu.Unlock()
	stats := q.gen.Stats()
	q.got, q.shuffles = stats.Issued, stats.Bumps+stats.Rewinds
	n.mu.Lock()
	c.lastID = n.lastID
	n.mu.Unlock()
	c.first = q
	n.w.mu.Lock()
	c.id = len(n.w.nodes)
	q.name = fmt.Sprintf("node %d (clone of %d)", c.id, n.id)
	n.w.nodes = append(n.w.nodes, c)
	if n.w.Guarded {
		bound = time.Time{} // they have nothing in common
	}
	n.w.clones = append(n.w.clones, cloned{worker: l.Worker(), seq: seq, bound: bound, at: n.machine.Wall()})
	n.w.totals.Clones++
	n.w.mu.Unlock()
	if most := n.machine.Wall().Add(n.w.Window + maxSlew); p.changes == n.machine.changes() && bound.After(most) {
		n.w.fail("clone", "%v and its clone have a window until %v in common, more than a window", p, bound)
	}
	n.w.model.leave("a machine was cloned")
	n.w.logf("%v: cloned as node %d, worker %d, clock sequence %d until %v", p, c.id, l.Worker(), seq, bound.Format(timeFormat))
	n.w.wg.Go(c.run)
}

const timeFormat = "15:04:05.000000"

// process is one run of the program on a node.
type process struct {
	*node
	name   string
	ctx    context.Context // of the lease
	cancel context.CancelFunc
	dead   chan struct{}

	mu               sync.Mutex
	isOut            bool // dead
	armed            int  // the point of a store call at which it crashes
	armedStep        string
	bound            bound // the highest that it wanted to save
	gatedFor         time.Duration
	gatedInGenerator int
	solo             bool   // one caller is in the generator, and nobody else comes
	overtaker        func() // what happens while a caller reads the clock
	releasing        bool
	acquiring        bool
	readings         // of a clock that is not built in
	lease            *lease.Lease
	gen              *snowflake.Generator

	took  map[int]int // how often it took each worker ID; of the store
	heard time.Time   // when it last saved a record; of the store
	late  time.Time   // when it last did after more than a window; of the store

	// Of the caller:
	worker   int
	after    snowflake.ID
	offset   time.Duration // of the wall clock from the monotonic one, when its clock was set
	changes  int           // of the machine, when the process began; -1 if it was not even then
	lastID   snowflake.ID
	shuffles uint64 // bumps and rewinds, that may put IDs out of order
	got      uint64 // IDs
	erring   time.Time
	copied   map[int]time.Time // the bounds in the local copy, when it was last read
	isClone  bool
	inCall   bool
	stamped  map[int64]bool // ticks
	tops     map[int]int64  // the last tick, of each clock sequence
	top      int64          // of all
	oldest   int64          // the first tick
	putBack  bool           // a call has taken IDs of ticks that nobody knows, and put them back
	lastTick int64
	lastSeq  int
	idleAt   time.Duration // the monotonic clock's reading when the last call has ended, and each tick has begun whose IDs were put back
	life
	starts int // ticks that were begun,
	zeros  int // and how many of these ticks began with sequence 0
}

// readings are what the generator's clock told it during a call.
type readings struct{ lo, hi, last time.Time }

const nowhere = -1

func newProcess(n *node, run int) *process {
	p := &process{node: n, name: fmt.Sprintf("node %d (run %d)", n.id, run), dead: make(chan struct{}), armed: nowhere, lastID: -1,
		took: map[int]int{}, life: life{left: map[int]uint64{}},
		stamped: map[int64]bool{}, tops: map[int]int64{}, top: -1, oldest: -1, lastTick: -1, idleAt: -time.Hour}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.changes = n.machine.changes()
	if !n.machine.isEven() {
		p.changes = -1
	}
	return p
}

func (p *process) String() string { return p.name }

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isOut
}

// kill ends the process at once: nothing that it does later has any effect.
func (p *process) kill(why string) {
	p.mu.Lock()
	again := p.isOut
	p.isOut = true
	p.mu.Unlock()
	if !again {
		p.w.logf("%v: %s", p, why)
		close(p.dead)
		p.cancel()
		p.killLease()
	}
}

// killLease ends the lease of a dead process, without a word to the store.
func (p *process) killLease() {
	p.mu.Lock()
	l := p.lease
	p.mu.Unlock()
	if l != nil && p.isDead() {
		seam.KillLease(l)
	}
}

// exit ends the program without a release. If it is acquiring a lease, it gives
// up, and ends after that.
func (p *process) exit() {
	p.mu.Lock()
	acquiring := p.acquiring
	p.mu.Unlock()
	if acquiring {
		p.cancel()
		return
	}
	p.kill("exits")
}

// quiet is a logger for nobody.
var quiet = slog.New(slog.DiscardHandler)

func (p *process) arm(point int, step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.armedStep = point, step
}

// crashAt kills the process if it is to crash at this point of a store call.
func (p *process) crashAt(point int) bool {
	p.mu.Lock()
	hit := p.armed == point
	p.mu.Unlock()
	if hit {
		p.kill(fmt.Sprintf("crash at point %d of a store call", point))
	}
	return hit
}

// crashHere is crashAt in a goroutine of the process.
func (p *process) crashHere(point int) {
	if p.crashAt(point) {
		runtime.Goexit()
	}
}

// gate stops while the process is paused.
func (p *process) gate() {
	for !p.isDead() {
		d := p.paused()
		if d <= 0 {
			return
		}
		d += time.Duration(p.w.gates.Add(1)%10000) * 1013 // no two open at one time
		p.mu.Lock()
		p.gatedFor += d
		inGenerator := 0
		if p.solo {
			inGenerator = 1
		}
		p.gatedInGenerator += inGenerator
		p.mu.Unlock()
		time.Sleep(d)
		p.mu.Lock()
		p.gatedInGenerator -= inGenerator
		p.mu.Unlock()
	}
}

func (p *process) isSolo() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.solo && !p.releasing
}

// takeOvertaker returns what is to be done while a caller reads the clock, once.
func (p *process) takeOvertaker() (f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, p.overtaker = p.overtaker, nil
	return f
}

func (p *process) noteReading(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &p.readings
	if r.lo.IsZero() || t.Before(r.lo) {
		r.lo = t
	}
	if t.After(r.hi) {
		r.hi = t
	}
	r.last = t
}

// sleep is false when the process has died meanwhile.
func (p *process) sleep(d time.Duration) bool {
	timer := time.NewTimer(d + 1)
	defer timer.Stop()
	select {
	case <-timer.C:
		p.gate()
		return !p.isDead()
	case <-p.wake:
		p.gate()
		return !p.isDead()
	case <-p.dead:
		return false
	}
}

// setOnce is the machine of a clock that reads the wall clock once.
type setOnce struct {
	*machine
	p *process
}

// Wall returns the wall clock's reading, and notes that the process goes by it.
func (m setOnce) Wall() time.Time {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.offset = m.machine.offset()
	return m.machine.Wall()
}

func (p *process) newClock(generator bool) snowflake.Clock {
	switch p.Clock {
	case "system":
		return seam.NewClock(p.machine, false).(snowflake.Clock)
	case "monotonic":
		return seam.NewClock(setOnce{p.machine, p}, true).(snowflake.Clock)
	}
	return &clock{p: p, generator: generator}
}

// run is the program: it makes a generator, and calls it until it gives up.
func (p *process) run() {
	defer p.kill("ends")
	if p.gen == nil && !p.begin() {
		return
	}
	time.Sleep(time.Nanosecond) // the renewal begins first, too
	for p.sleep(p.w.up(2 * p.gap())) {
		if p.hasEnded() {
			return
		}
		err := p.load()
		if p.isDead() {
			return
		}
		p.note(err)
		switch {
		case err == nil:
			p.erring = time.Time{}
		case p.erring.IsZero():
			p.erring = time.Now()
		case time.Since(p.erring) > p.Patience && (p.lease == nil || p.Stops):
			p.w.logf("%v: gives up: %v", p, err)
			if p.lease != nil && p.w.chance(50) {
				p.release()
			}
			p.countLoss()
			return
		}
	}
}

// gap is how long there is between calls: longer when the faults are over, and
// only recovery is waited for.
func (p *process) gap() time.Duration {
	if p.w.isOver() && p.w.isWiped() {
		return max(p.Gap, time.Second)
	}
	if p.w.isOver() {
		return max(p.Gap, min(10*p.Gap, 200*ms))
	}
	return p.Gap
}

func (p *process) countLoss() {
	if p.lease != nil && errors.Is(p.lease.Err(), lease.ErrLost) {
		p.w.count(func(t *Totals) { t.Lost++ })
	}
}

// note keeps what the last call returned.
func (n *node) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastErr = err
}

// begin makes the generator.
func (p *process) begin() bool {
	o := &snowflake.Options{
		Layout:      p.w.Layout,
		Datacenter:  p.Datacenter,
		Clock:       p.newClock(true),
		OnBackward:  p.policy(),
		BorrowAhead: p.Borrow,
		RewindTicks: p.Rewind,
		RandomStart: p.Random,
	}
	var g *snowflake.Generator
	var l *lease.Lease
	var err error
	if p.w.Leased {
		if p.Clock != "custom" {
			o.Clock = nil // the lease's
		}
		if p.id%3 == 2 {
			p.node.mu.Lock()
			o.After = p.node.lastID
			p.node.mu.Unlock()
			p.after = o.After
		}
		l, err = p.acquire()
		if err == nil {
			p.worker, p.grant = l.Worker(), l.Grant()
			p.w.count(func(t *Totals) { t.Leases++ })
			p.mu.Lock()
			p.lease = l
			p.mu.Unlock()
			p.killLease()
			p.checkWindow()
			if from := l.Grant().From; p.Clock == "custom" && p.changes == p.machine.changes() && p.machine.Wall().Before(from) {
				p.w.fail("window", "%v: Acquire returned before %v", p, from)
			} else if to := l.Grant().To; p.Clock == "custom" && p.changes == p.machine.changes() && p.gatedFor == 0 && to.Sub(p.machine.Wall()) < p.Window/2 {
				p.w.fail("window", "%v: Acquire returned with a window until %v", p, to)
			}
			p.gate()
			g, err = snowflake.NewLeased(l, o)
		}
	} else {
		p.worker = p.id
		p.node.mu.Lock()
		o.After = p.node.lastID
		p.node.mu.Unlock()
		p.after = o.After
		p.gate()
		g, err = snowflake.New(p.worker, o)
	}
	if p.isDead() {
		return false
	}
	p.mu.Lock()
	p.lease, p.gen = l, g
	p.mu.Unlock()
	if err != nil {
		p.note(err)
		p.w.logf("%v: cannot begin: %v", p, err)
		p.checkBeginError(err)
		if l != nil {
			p.release()
		}
		return false
	}
	p.w.logf("%v: begins as worker %d (%s clock, policy %s)", p, p.worker, p.Clock, p.Policy)
	return true
}

func (p *process) setAcquiring(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acquiring = is
}

func (p *process) policy() snowflake.BackwardPolicy {
	switch p.Policy {
	case "fail":
		return snowflake.FailPolicy()
	case "wait":
		return snowflake.WaitPolicy(p.MaxWait)
	case "clockseq":
		return snowflake.ClockSeqPolicy()
	case "rewind":
		return snowflake.RewindPolicy()
	case "mixed":
		return snowflake.BackwardFunc(func(b snowflake.Backward) snowflake.Action {
			if b.CanBump && (!b.CanRewind || p.w.intN(2) == 0) {
				return snowflake.ActionBump
			}
			return snowflake.ActionRewind
		})
	}
	return snowflake.BackwardFunc(func(b snowflake.Backward) snowflake.Action { // any, and some that there are not
		a := snowflake.Action(p.w.intN(5))
		if a == snowflake.ActionWait && b.By() > p.MaxWait {
			return snowflake.ActionFail
		}
		return a
	})
}

// release releases the lease, while callers may be in the generator.
func (p *process) release() {
	p.gate()
	p.mu.Lock()
	p.releasing = true
	l := p.lease
	p.mu.Unlock()
	for p.isGatedInGenerator() { // it has the generator's lock
		time.Sleep(us)
	}
	if l != nil && !p.isDead() {
		ctx, cancel := context.WithTimeout(p.ctx, p.w.Window)
		defer cancel()
		err := l.Release(ctx)
		p.w.logf("%v: releases: %v", p, err)
		p.checkRelease(l, err)
	}
	p.kill("ends after release")
}

func (p *process) isGatedInGenerator() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gatedInGenerator > 0
}
