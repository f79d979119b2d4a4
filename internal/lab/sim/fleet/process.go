//go:build go1.25

package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
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
	faults  faults // of the network

	mu          sync.Mutex
	process     *process // the current one
	runs        int
	down        time.Duration // before the next one starts
	asked       []Event       // load
	wake        chan struct{}
	lastID      snowflake.ID // the largest
	issuedAt    time.Time    // the last one
	backAt      time.Time    // the first one after a gap
	lastErr     error
	pausedUntil time.Time
	first       *process // a clone begins with this one
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

// recover ends the faults.
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
	case CrashInCall, CrashInFile:
		p.armed.Store(e.point())
	case Exit:
		p.exit()
	case Release:
		p.release()
	}
}

// clone makes another node of n, with a copy of its process.
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
	if n.w.Guarded && n.w.chance(50) { // the original was started from the snapshot, too
		n.machine.generation.Store(uint64(len(n.w.snapshotNodes())) + 1<<32)
	}
	q.lease, q.worker = leaseClone.(*lease.Lease), l.Worker()
	q.grant, q.replacements = q.lease.Grant(), q.lease.Stats().Replacements
	n.w.store.sharesAll(p, q)
	q.gen = seam.CloneGenerator(g, q.lease, clock).(*snowflake.Generator)
	p.mu.Lock()
	q.changes, q.lastID = -1, p.lastID
	p.mu.Unlock()
	q.got = q.gen.Stats().Issued
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
	n.w.totals["clones"]++
	n.w.mu.Unlock()
	if most := n.machine.Wall().Add(n.w.Window + maxSlew); p.changes == n.machine.changes() && bound.After(most) {
		n.w.fail("clone", "%v and its clone have a window until %v in common, more than a window", p, bound)
	}
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

	// armed is where the process crashes: a point of a store call, or a step of a save to a file.
	armed atomic.Value

	gatedFor  atomic.Int64
	inCall    atomic.Bool
	releasing atomic.Bool
	acquiring atomic.Bool

	mu    sync.Mutex
	once  sync.Once // it dies
	bound bound     // the highest that it wanted to save

	second   time.Duration // the beginning of a second,
	requests int           // and the requests to the store since then

	lease *lease.Lease
	gen   *snowflake.Generator

	took  map[int]bool // the worker IDs that it has had; of the store
	heard time.Time    // when it last saved a record; of the store
	late  time.Time    // when it last did after more than a window; of the store

	// Of the caller:
	worker int

	// robbed says that a clone of an earlier holder of its worker ID was there, and may take it.
	robbed bool

	changes int // of the machine, when the process began; -1 if it was not even then
	lastID  snowflake.ID
	got     uint64            // IDs
	copied  map[int]time.Time // the bounds in the local copy, when it was last read
	isClone bool
	top     int64 // the last tick
	life
}

func newProcess(n *node, run int) *process {
	p := &process{node: n, name: fmt.Sprintf("node %d (run %d)", n.id, run), dead: make(chan struct{}), lastID: -1,
		took: map[int]bool{}, top: -1}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.changes = n.machine.changes()
	if !n.machine.isEven() {
		p.changes = -1
	}
	return p
}

func (p *process) String() string { return p.name }

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// has returns the lease and the generator, if the process has them already.
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

// kill ends the process at once: nothing that it does later has any effect.
func (p *process) kill(why string) {
	p.once.Do(func() {
		p.w.logf("%v: %s", p, why)
		close(p.dead)
		p.cancel()
		p.killLease()
	})
}

// killLease ends the lease of a dead process, without a word to the store.
func (p *process) killLease() {
	if l, _ := p.has(); l != nil && p.isDead() {
		seam.KillLease(l)
	}
}

// exit ends the program without a release. If it is acquiring a lease, it gives
// up, and ends after that.
func (p *process) exit() {
	if p.acquiring.Load() {
		p.cancel()
	} else {
		p.kill("exits")
	}
}

// quiet is a logger that discards everything.
var quiet = slog.New(slog.DiscardHandler)

// crashAt kills the process if it is to crash at this point.
func (p *process) crashAt(point string) bool {
	hit := p.armed.Load() == point
	if hit {
		p.kill("crash " + point)
	}
	return hit
}

// crashHere is crashAt in a goroutine of the process.
func (p *process) crashHere(point string) {
	if p.crashAt(point) || p.isDead() {
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
		p.gatedFor.Add(int64(d))
		time.Sleep(d)
	}
}

func (p *process) gated() time.Duration { return time.Duration(p.gatedFor.Load()) }

// sleep returns false if the process has died meanwhile.
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

// run is the program: it makes a generator, and calls it until it gives up.
func (p *process) run() {
	defer p.kill("ends")
	if p.gen == nil && !p.begin() {
		return
	}
	time.Sleep(time.Nanosecond) // the renewal begins first, too
	for p.sleep(p.w.up(2*p.gap())) && !p.hasEnded() {
		err := p.load()
		if p.isDead() {
			return
		}
		p.note(err)
	}
}

// gap is how long there is between calls: longer when the faults are over, and
// only recovery is waited for.
func (p *process) gap() time.Duration {
	switch {
	case !p.w.over.Load():
		return p.Gap
	case p.w.isWiped():
		return max(p.Gap, time.Second)
	}
	return max(p.Gap, min(10*p.Gap, 200*ms))
}

// issues notes that a call has got IDs.
func (n *node) issues() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if now.Sub(n.issuedAt) > n.tolerance() {
		n.backAt = now
	}
	n.issuedAt = now
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
		p.checkBegun()
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

// release releases the lease, while callers may be in the generator.
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
