package fleet

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/sim/seam"
)

// Failure is a broken promise.
type Failure struct {
	Promise string // which one
	Detail  string
}

func (f *Failure) Error() string { return f.Promise + ": " + f.Detail }

// Result is what a run found.
type Result struct {
	Failure *Failure
	Trace   []string // if it was asked for
	Totals
}

// Report is what a run of many seeds found.
type Report struct {
	Mutant  string
	Seeds   uint64
	Failed  bool
	Seed    uint64   // the first seed that failed
	Failure *Failure `json:",omitempty"`
	Totals
}

// Totals count what happened.
type Totals struct {
	IDs       int           // issued, and checked
	Different int           // seeds that were not the same twice
	Faults    int           // events, but for load
	NodeTime  time.Duration // virtual, of all nodes together
	Processes int
	Leases    int // acquired
	Errors    int // that callers got
	Backward  uint64
	Bumps     uint64
	Rewinds   uint64
	Borrowed  uint64
	Waits     uint64
	Lost      int // leases
	Replaced  int // worker IDs that were lost
	Named     int // IDs whose issuer was looked up
	Clones    int
	Repeated  int           // IDs that a clone and its original both issued
	Marks     int           // watermarks that rose
	Steps     int           // that were held against the model, but for stamps
	Stamps    int           // ticks that were stamped, and held against the model
	Overlap   time.Duration // by how much such an ID's time was ahead of the clock that was cloned, at most
}

// Add adds what another run counted.
func (t *Totals) Add(o Totals) {
	t.IDs += o.IDs
	t.Different += o.Different
	t.Faults += o.Faults
	t.NodeTime += o.NodeTime
	t.Processes += o.Processes
	t.Leases += o.Leases
	t.Errors += o.Errors
	t.Backward += o.Backward
	t.Bumps += o.Bumps
	t.Rewinds += o.Rewinds
	t.Borrowed += o.Borrowed
	t.Waits += o.Waits
	t.Lost += o.Lost
	t.Replaced += o.Replaced
	t.Named += o.Named
	t.Clones += o.Clones
	t.Repeated += o.Repeated
	t.Marks += o.Marks
	t.Steps += o.Steps
	t.Stamps += o.Stamps
	t.Overlap = max(t.Overlap, o.Overlap)
}

// world is a run.
type world struct {
	*Scenario
	begun time.Time // virtual
	store *store
	nodes []*node
	dir   string // for local copies
	wg    sync.WaitGroup
	gates atomic.Int64  // passed so far
	done  chan struct{} // closed when the run ends, which the first failure does

	mu      sync.Mutex
	rand    *rand.Rand // of the network and of the load
	trace   []string
	tracing bool
	totals  Totals
	failure *Failure
	over    bool // the faults are
	ended   bool
	model   *model
	issued  map[snowflake.ID]issue
	last    map[[2]int]int64 // the last tick issued, by worker and clock sequence
	clones  []cloned

	watermark snowflake.ID // the highest that was read
}

// issue is who issued an ID, and when.
type issue struct {
	by *process
	at time.Duration
}

// cloned is a window that two processes have in common.
type cloned struct {
	worker, seq int
	bound, at   time.Time // its end, and the clock's reading at the cloning
}

// Run runs a scenario. It has to be called in a synctest bubble. dir is an empty
// directory for local copies.
func Run(s *Scenario, dir string, tracing bool) *Result {
	w := &world{
		Scenario: s,
		begun:    time.Now(),
		dir:      dir,
		done:     make(chan struct{}),
		rand:     rand.New(rand.NewPCG(s.Seed, 3)),
		tracing:  tracing,
		issued:   map[snowflake.ID]issue{},
		last:     map[[2]int]int64{},
	}
	seam.Reset(s.Seed, w.late, w.fileStep)
	for i, c := range s.Nodes {
		w.nodes = append(w.nodes, newNode(w, i, c))
	}
	w.store = newStore(w)
	if w.Leased {
		if err := w.store.open(); err != nil {
			w.fail("acquisition", "the store cannot be made: %v", err)
		}
	}
	w.model = newModel(w)
	w.store.mu.Lock()
	w.model.named(w.store.entries["store"].Value)
	w.store.mu.Unlock()
	for _, n := range w.nodes {
		if !n.Absent {
			w.wg.Go(n.run)
		}
	}
	if w.Leased && !w.Calmed {
		for n := range 1 + s.Seed%2 {
			w.wg.Go(func() { w.poll(n) })
		}
	}
	if w.play() {
		w.finish()
	}
	w.end()
	w.wg.Wait()
	took := time.Since(w.begun)
	w.totals.Steps, w.totals.Stamps = w.model.steps()
	time.Sleep(24 * time.Hour) // until no goroutine is stopped any more
	w.totals.NodeTime = took * time.Duration(len(w.nodes))
	return &Result{Failure: w.failure, Trace: w.trace, Totals: w.totals}
}

// healing is for how long newcomers may wait if the store has lost entries, also twice.
func (w *world) healing() time.Duration {
	if !w.isWiped() {
		return 0
	}
	return 5 * time.Minute
}

func (w *world) isWiped() bool { return w.store.wiped.Load() }

func (w *world) snapshotNodes() []*node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*node(nil), w.nodes...)
}

// play lets the events happen.
func (w *world) play() bool {
	for i, e := range w.Events {
		at := e.At + time.Duration(i)*us // no two at the same time
		w.wg.Go(func() {
			if !w.sleep(at) || w.isOver() || w.Nodes[e.Node].Absent {
				return
			}
			w.logf("EVENT: %v", e)
			w.apply(e)
		})
	}
	return w.sleep(w.Faults)
}

// finish ends the faults, and waits until all have recovered.
func (w *world) finish() {
	w.logf("all faults end")
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	w.store.recover()
	for _, n := range w.snapshotNodes() {
		n.recover()
	}
	if !w.sleep(10*w.Window+10*time.Second+20*w.Layout.Unit+w.healing()) || !w.awaitRecovery() {
		return
	}
	for _, n := range w.snapshotNodes() {
		if !n.Absent {
			n.checkAlive()
		}
	}
	if !w.Calmed {
		w.checkIssuers()
	}
}

// sleep is false when the run ends meanwhile.
func (w *world) sleep(d time.Duration) bool {
	timer := time.NewTimer(d + 1) // a timer of 0 would fire at once
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.done:
		return false
	}
}

// end ends the run.
func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		close(w.done)
	}
}

func (w *world) isEnded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

func (w *world) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// chance is true in so many of 100 cases.
func (w *world) chance(percent int) bool { return percent > 0 && w.intN(100) < percent }

func (w *world) intN(n int) int { return int(w.up(time.Duration(n))) }

// up returns a duration under d.
func (w *world) up(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rand.Int64N(int64(max(d, 1))))
}

// late says how much longer than asked for a sleep takes.
func (w *world) late(r *rand.Rand) time.Duration {
	if w.Late == 0 || r.IntN(4) == 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(w.Late)))
}

func (w *world) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tracing && !w.ended {
		w.trace = append(w.trace, fmt.Sprintf("%11v  ", time.Since(w.begun).Round(time.Microsecond))+fmt.Sprintf(format, args...))
	}
}

// fail notes the first broken promise.
func (w *world) fail(promise, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	w.logf("BROKEN: %s: %s", promise, detail)
	w.mu.Lock()
	if w.failure == nil && !w.ended {
		w.failure = &Failure{promise, detail}
	}
	w.mu.Unlock()
	w.end()
}

func (w *world) count(f func(*Totals)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.totals)
}

// apply lets an event happen.
func (w *world) apply(e Event) {
	n := w.snapshotNodes()[e.Node]
	switch e.Kind {
	case Burst, Saturate, FillMany:
		n.ask(e)
		return
	}
	w.count(func(t *Totals) { t.Faults++ })
	switch e.Kind {
	case Step:
		n.machine.change(func(s *segment) { s.wall += e.By })
	case Rate:
		n.machine.change(func(s *segment) { s.rate = int64(e.N) })
		if w.sleep(e.For) && !w.isOver() {
			n.machine.change(func(s *segment) { s.rate = million })
		}
	case Crash, CrashInCall, CrashInFile, Exit, Release:
		n.end(e)
	case Pause:
		n.pause(e.For)
	case Suspend:
		n.machine.change(func(s *segment) { s.asleep = true })
		for _, other := range w.snapshotNodes() {
			if other.machine == n.machine {
				other.pause(e.For)
			}
		}
		if w.sleep(e.For) && !w.isOver() {
			n.machine.change(func(s *segment) { s.asleep = false })
		}
	case Clone:
		n.clone()
	case StoreStep:
		w.store.machine.change(func(s *segment) { s.wall += e.By })
	case StoreWiped:
		w.store.wipe(e)
	case StoreDown, Lie:
		w.store.fault(e)
	default:
		n.fault(e)
	}
}

// fileStep crashes the process whose local copy is being saved, if it is to crash at this
// step.
func (w *world) fileStep(dir, step string) {
	for _, n := range w.snapshotNodes() {
		if n.copyDir() == dir {
			n.crashInFile(step)
		}
	}
}
