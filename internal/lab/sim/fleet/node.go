//go:build go1.25

package fleet

import (
	"fmt"
	"sync"
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
	faults  faults        // the network's
	wake    chan struct{} // has an element if load is queued

	mu          sync.Mutex    // guards the rest
	process     *process      // the current process
	runs        int           // the number of processes so far
	down        time.Duration // the time until the next process starts
	pausedUntil time.Time
	asked       []Event // the queued load
	output
}

// output is what the calls on a node have returned.
type output struct {
	lastID   snowflake.ID // the largest ID
	issuedAt time.Time    // the time of the last ID
	backAt   time.Time    // the time of the first ID after the last gap
	lastErr  error        // the last call's
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
	if n.current() == nil && !n.w.sleep(n.Begin) {
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

// start returns the next process. A clone begins with the process that it has.
func (n *node) start() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs++
	if n.runs > 1 || n.process == nil {
		n.process = newProcess(n, n.runs)
	}
	n.w.count("processes", 1)
	return n.process
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
	if n.w.Guarded {
		bound = time.Time{} // the copies have no window in common
	}
	n.w.ids.share(cloned{l.Worker(), seq, bound})
	n.w.count("clones", 1)
	q.lastID, c.process = p.lastID, q
	n.mu.Lock()
	c.lastID = n.lastID
	n.mu.Unlock()
	n.w.mu.Lock()
	c.id = len(n.w.nodes)
	q.name = fmt.Sprintf("node %d (clone of %d)", c.id, n.id)
	n.w.nodes = append(n.w.nodes, c)
	n.w.mu.Unlock()
	n.w.logf("%v: cloned as node %d, worker %d, clock sequence %d until %v", p, c.id, l.Worker(), seq, bound.Format(timeFormat))
	n.w.wg.Go(c.run)
}

const timeFormat = "15:04:05.000000"

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
