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

// process is one run of the program on a node.
type process struct {
	*node
	name   string
	ctx    context.Context // of the lease
	cancel context.CancelFunc
	dead   chan struct{}
	once   sync.Once // guards its death

	isClone   bool
	armed     atomic.Value // the point of callPoints at which it crashes
	gatedFor  atomic.Int64 // the total duration of its pauses
	inCall    atomic.Bool  // of the generator
	releasing atomic.Bool
	acquiring atomic.Bool

	mu       sync.Mutex
	lease    *lease.Lease
	gen      *snowflake.Generator
	requests requests

	saves
	caller
}

// requests counts a process's requests to the store in the current second.
type requests struct {
	second time.Duration // its beginning
	n      int
}

// saves is what the store has heard of a process. The store's lock guards it.
type saves struct {
	took  map[int]bool // the worker IDs that the process has had
	heard time.Time    // the time of its last save
	late  time.Time    // the time of its last save that came after more than a window
}

// caller is what the goroutine that calls the generator has seen. No other goroutine uses it.
type caller struct {
	worker       int
	robbed       bool         // a clone of an earlier holder may take the worker ID
	lastID       snowflake.ID // the last ID, or -1 if the next may be less
	top          int64        // the last tick
	grant        snowflake.Grant
	began        time.Time // the beginning of the first grant, below which no ID is issued
	replacements uint64
}

func newProcess(n *node, run int) *process {
	p := &process{node: n, name: fmt.Sprintf("node %d (run %d)", n.id, run), dead: make(chan struct{}),
		saves: saves{took: map[int]bool{}}, caller: caller{lastID: -1, top: -1}}
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
		p.worker, p.grant, p.began = l.Worker(), l.Grant(), l.Grant().From
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
