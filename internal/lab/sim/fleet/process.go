//go:build go1.25

package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/seam"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// node is a host.
type node struct {
	Node
	w       *world
	id      int
	owner   string
	machine *machine
	faults  faults // the network's

	mu          sync.Mutex
	process     *process      // the current process
	runs        int           // the number of processes so far
	down        time.Duration // the time until the next process starts
	asked       []Event       // the queued load
	wake        chan struct{}
	lastID      snowflake.ID // the largest ID
	issuedAt    time.Time    // the time of the last ID
	backAt      time.Time    // the time of the first ID after the last gap
	lastErr     error        // the last call's
	pausedUntil time.Time
	first       *process // the first process of a clone
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

// run runs one process after another.
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
			down = n.w.up(n.w.Window)
			if n.w.troubled.Load() {
				down /= 8
			}
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
	n.w.count("processes", 1)
	return p
}

func (n *node) current() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

func (n *node) pause(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if until := time.Now().Add(d); until.After(n.pausedUntil) {
		n.pausedUntil = until
	}
}

func (n *node) paused() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Until(n.pausedUntil)
}

// recover ends the node's random faults.
func (n *node) recover() {
	n.mu.Lock()
	n.pausedUntil = time.Time{}
	p := n.process
	n.mu.Unlock()
	if p != nil {
		p.armed.Store("")
	}
	switch {
	case n.w.OneHost && n.id > 0:
	case n.Stays, n.Spared:
		n.machine.change(func(s *segment) { s.rate, s.asleep = million, false })
	default:
		n.machine.right(n.Offset / 4) // an error that a time daemon leaves
	}
}

// end ends the current process as an event says.
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
		p.armed.Store(e.point())
	case Exit:
		p.exit()
	case Release:
		p.release()
	}
}

// clone adds a node with a copy of n's machine and process.
func (n *node) clone() {
	p := n.current()
	if p == nil || p.isDead() || n.paused() > 0 {
		return
	}
	l, g := p.has()
	if l == nil || g == nil || p.releasing.Load() || l.Err() != nil {
		return
	}
	c := &node{Node: n.Node, w: n.w, owner: n.owner, machine: n.machine.clone(), wake: make(chan struct{}, 1)}
	q := newProcess(c, 0)
	q.isClone = true
	clock := seam.CloneClock(l.Clock(), c.machine)
	if n.w.Guarded {
		c.machine.generation.Store(uint64(len(n.w.snapshotNodes())))
	}
	leaseClone, seq, bound := seam.CloneLease(l, client{p: q}, clock, &c.machine.generation)
	if leaseClone == nil {
		return
	}
	if n.w.Guarded && n.w.chance(50) { // the original resumes from the snapshot, too
		n.machine.generation.Store(uint64(len(n.w.snapshotNodes())) + 1<<32)
	}
	q.lease, q.worker = leaseClone.(*lease.Lease), l.Worker()
	q.grant, q.replacements = q.lease.Grant(), q.lease.Stats().Replacements
	n.w.store.sharesAll(p, q)
	q.gen = seam.CloneGenerator(g, q.lease, clock).(*snowflake.Generator)
	p.mu.Lock()
	q.lastID = p.lastID
	p.mu.Unlock()
	n.mu.Lock()
	c.lastID = n.lastID
	n.mu.Unlock()
	c.first = q
	n.w.mu.Lock()
	c.id = len(n.w.nodes)
	q.name = fmt.Sprintf("node %d (clone of %d)", c.id, n.id)
	n.w.nodes = append(n.w.nodes, c)
	if n.w.Guarded {
		bound = time.Time{} // the copies have no window in common
	}
	n.w.clones = append(n.w.clones, cloned{worker: l.Worker(), seq: seq, bound: bound, at: n.machine.Wall()})
	n.w.totals["clones"]++
	n.w.mu.Unlock()
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

	// armed is the point at which the process crashes: one of callPoints.
	armed atomic.Value

	gatedFor  atomic.Int64 // the total duration of its pauses
	inCall    atomic.Bool  // of the generator
	releasing atomic.Bool
	acquiring atomic.Bool

	mu   sync.Mutex
	once sync.Once // guards its death

	second   time.Duration // the beginning of the current second
	requests int           // the requests to the store in the current second

	lease *lease.Lease
	gen   *snowflake.Generator

	// The store's lock guards these:
	took  map[int]bool // the worker IDs that it has had
	heard time.Time    // the time of its last save
	late  time.Time    // the time of its last save that came after more than a window

	// The caller's goroutine alone uses these:
	worker  int
	robbed  bool // a clone of an earlier holder may take its worker ID
	lastID  snowflake.ID
	isClone bool
	top     int64 // the last tick
	life
}

func newProcess(n *node, run int) *process {
	p := &process{node: n, name: fmt.Sprintf("node %d (run %d)", n.id, run), dead: make(chan struct{}), lastID: -1,
		took: map[int]bool{}, top: -1}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

func (p *process) String() string { return p.name }

func (p *process) isDead() bool { return isClosed(p.dead) }

// has returns the lease and the generator, which are nil until they are made.
func (p *process) has() (*lease.Lease, *snowflake.Generator) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lease, p.gen
}

func (p *process) gets(l *lease.Lease, g *snowflake.Generator) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lease, p.gen = l, g
}

// kill ends the process. Nothing that it does later has any effect.
func (p *process) kill(why string) {
	p.once.Do(func() {
		p.w.logf("%v: %s", p, why)
		close(p.dead)
		p.cancel()
		p.killLease()
	})
}

// killLease ends the lease of a dead process, without a request to the store.
func (p *process) killLease() {
	if l, _ := p.has(); l != nil && p.isDead() {
		seam.KillLease(l)
	}
}

// exit ends the program without a release. If it is acquiring a lease, it cancels that first.
func (p *process) exit() {
	if p.acquiring.Load() {
		p.cancel()
	} else {
		p.kill("exits")
	}
}

// quiet is a logger that discards everything.
var quiet = slog.New(slog.DiscardHandler)

// crashAt kills the process if it is due to crash at this point.
func (p *process) crashAt(point string) bool {
	hit := p.armed.Load() == point
	if hit {
		p.kill("crash " + point)
	}
	return hit
}

// crashHere is crashAt for a goroutine of the process, which it ends.
func (p *process) crashHere(point string) {
	if p.crashAt(point) || p.isDead() {
		runtime.Goexit()
	}
}

// gate blocks while the process is paused.
func (p *process) gate() {
	for !p.isDead() {
		d := p.paused()
		if d <= 0 {
			return
		}
		d += time.Duration(p.w.gates.Add(1)%10000) * 1013 // no two pauses end at the same time
		p.gatedFor.Add(int64(d))
		time.Sleep(d)
	}
}

func (p *process) gated() time.Duration { return time.Duration(p.gatedFor.Load()) }

// sleep returns false if the process has died. Queued load ends the sleep.
func (p *process) sleep(d time.Duration) bool {
	timer := time.NewTimer(d + 1)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.wake:
	case <-p.dead:
		return false
	}
	p.gate()
	return !p.isDead()
}

// run is the program: it makes a generator, and calls it until the lease ends.
func (p *process) run() {
	defer func() {
		if !p.releasing.Load() { // the release ends the process when it is done
			p.kill("ends")
		}
	}()
	if p.gen == nil && !p.begin() {
		return
	}
	time.Sleep(time.Nanosecond) // the lease's goroutine runs first
	for p.sleep(p.w.up(2*p.gap())) && !p.hasEnded() {
		err := p.load()
		if p.isDead() {
			return
		}
		p.note(err)
	}
}

// gap returns the average time between calls, which is longer after the random faults.
func (p *process) gap() time.Duration {
	switch {
	case !p.w.over.Load():
		return p.Gap
	case p.w.isWiped():
		return max(p.Gap, time.Second)
	}
	return max(p.Gap, min(10*p.Gap, 200*ms))
}

// issues records the time of a call that got IDs.
func (n *node) issues() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if now.Sub(n.issuedAt) > n.tolerance() {
		n.backAt = now
	}
	n.issuedAt = now
}

// note records the error of the last call.
func (n *node) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastErr = err
}

// begin makes the lease and the generator.
func (p *process) begin() bool {
	o := &snowflake.Options{
		Layout:     p.w.Layout,
		OnBackward: snowflake.WaitPolicy(10 * ms),
	}
	if p.Bumps {
		o.OnBackward = snowflake.ClockSeqPolicy()
	}
	var g *snowflake.Generator
	l, err := p.acquire(p.w.patience())
	if err == nil {
		p.worker, p.grant, p.life.begin = l.Worker(), l.Grant(), l.Grant().From
		p.w.count("leases", 1)
		p.gets(l, nil)
		p.killLease()
		p.checkWindow()
		p.gate()
		g, err = snowflake.NewLeased(l, o)
	}
	if p.isDead() {
		return false
	}
	p.gets(l, g)
	if err != nil {
		p.note(err)
		p.w.logf("%v: cannot begin: %v", p, err)
		p.checkBeginError(err)
		if l != nil {
			p.release()
		}
		return false
	}
	p.w.logf("%v: begins as worker %d", p, p.worker)
	return true
}

// release releases the lease, also during a call, and ends the process.
func (p *process) release() {
	p.gate()
	p.releasing.Store(true)
	if l, _ := p.has(); l != nil && !p.isDead() {
		ctx, cancel := context.WithTimeout(p.ctx, p.w.Window)
		defer cancel()
		err := l.Release(ctx)
		p.w.logf("%v: releases: %v", p, err)
		p.checkRelease(l, err)
	}
	p.kill("ends after release")
}
