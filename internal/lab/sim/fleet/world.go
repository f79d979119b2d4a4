//go:build go1.25

package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/seam"
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
	Totals  Totals
	Worst   Worst
}

// Settings say what a process simulates.
type Settings struct {
	From, To, Every uint64 // the seeds: the first, the end, and one of how many
	Nodes           int    // of each fleet; 0: as many as the seed says

	Troubles bool    // take the seeds' fleets with more troubles and without other faults
	Trouble  Trouble // of these only the seeds with this trouble, and only this trouble
	Mutant   string  // the deliberate defect that is switched on
	Trace    bool    // print what happened, whether it fails or not
	Brief    bool    // do not say what failed, but for the report
	Report   string  // a file for a Report
}

// Report is what a run of many seeds found.
type Report struct {
	Seeds   int
	Failed  bool
	Seed    uint64   // the first seed that failed
	Failure *Failure `json:",omitempty"`
	Totals  Totals
	Worst   Worst
}

// Totals count what happened, by what it is: see Counted.
type Totals map[string]uint64

// Counted is what each sound run of many seeds counts.
var Counted = []string{
	"node-seconds", "IDs", "faults", "processes", "leases", "worker IDs replaced", "clones", "IDs with an issuer",
	"calls found the clock behind",
	"bumps", "waits", "errors", "watermarks",
}

// Add adds what another run counted.
func (t Totals) Add(o Totals) {
	for what, n := range o {
		t[what] += n
	}
}

// world is a run.
type world struct {
	*Scenario
	begun    time.Time // virtual
	store    *store
	nodes    []*node
	dir      string // for local copies
	wg       sync.WaitGroup
	gates    atomic.Int64  // passed so far
	over     atomic.Bool   // the random faults are,
	troubled atomic.Bool   // and the troubles have begun
	done     chan struct{} // closed when the run ends, which the first failure does
	end      func()        // ends the run

	mu      sync.Mutex
	rand    *rand.Rand // of the network and of the load
	trace   []string
	tracing bool
	totals  Totals
	failure *Failure
	issued  map[snowflake.ID]issue
	last    map[[2]int]int64 // the last tick issued, by worker and clock sequence
	clones  []cloned
	worst   Worst

	reader *reader // during the troubles

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
		totals:   Totals{},
		worst:    Worst{},
	}
	w.end = sync.OnceFunc(func() { close(w.done) })
	seam.Reset(s.Seed, w.late, w.fileStep)
	for i, c := range s.Nodes {
		w.nodes = append(w.nodes, newNode(w, i, c))
	}
	if s.OneHost {
		seam.BootClock = func() (string, time.Duration) { return "host", time.Since(w.begun) }
	}
	w.store = newStore(w)
	if err := w.store.open(); err != nil {
		w.fail("acquisition", "the store cannot be made: %v", err)
	}
	seam.Granted = w.store.checkGranted
	for _, n := range w.nodes {
		if !n.Absent {
			w.wg.Go(n.run)
		}
	}
	for n := range 1 + int(s.Seed%2) {
		w.wg.Go(func() { w.poll(n) })
	}
	if w.play() {
		w.finish()
	}
	w.end()
	w.wg.Wait()
	took := time.Since(w.begun)
	time.Sleep(24 * time.Hour) // until no goroutine is stopped any more
	w.count("node-seconds", uint64(took.Seconds()*float64(len(w.nodes))))
	return &Result{w.failure, w.trace, w.totals, w.worst}
}

// settling returns the time within which all effects of the faults end. It is ten windows and ten
// seconds, or less if windows are long: no bound is longer than three windows.
func (w *world) settling() time.Duration {
	return min(10*w.Window, 3*w.Window+30*time.Second) + 10*time.Second + 20*w.Layout.Unit + w.healing()
}

// healing is how long newcomers may wait if the store has lost entries, also twice.
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
	return slices.Clone(w.nodes)
}

// play lets the events happen.
func (w *world) play() bool {
	for i, e := range w.Events {
		at := e.At + time.Duration(i)*us // no two at the same time
		w.wg.Go(func() {
			if !w.sleep(at) || w.over.Load() || w.Nodes[e.Node].Absent {
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
	w.over.Store(true)
	w.store.machine.right(0)
	for _, n := range w.snapshotNodes() {
		n.recover()
	}
	settle := w.settling()
	if len(w.Events) == 0 {
		settle = 3*w.Window + w.slack()
	}
	if !w.sleep(settle) || !w.awaitRecovery() {
		return
	}
	for _, n := range w.snapshotNodes() {
		if !n.Absent {
			n.checkAlive()
		}
	}
	if len(w.Troubles) > 0 {
		w.endures()
	}
	w.checkHistory()
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

// after calls f in a goroutine of its own, unless the run ends before.
func (w *world) after(d time.Duration, f func()) {
	w.wg.Add(1)
	time.AfterFunc(d+1, func() {
		defer w.wg.Done()
		if !w.isEnded() {
			f()
		}
	})
}

func (w *world) isEnded() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
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
	if w.tracing && !w.isEnded() {
		w.trace = append(w.trace, fmt.Sprintf("%11v  ", time.Since(w.begun).Round(time.Microsecond))+fmt.Sprintf(format, args...))
	}
}

// fail notes the first broken promise.
func (w *world) fail(promise, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	w.logf("BROKEN: %s: %s", promise, detail)
	w.mu.Lock()
	if w.failure == nil && !w.isEnded() {
		w.failure = &Failure{promise, detail}
	}
	w.mu.Unlock()
	w.end()
}

func (w *world) count(what string, n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.totals[what] += n
}

// apply lets an event happen.
func (w *world) apply(e Event) {
	n := w.snapshotNodes()[e.Node]
	if e.isLoad() {
		n.ask(e)
		return
	}
	w.count("faults", 1)
	switch e.Kind {
	case Step:
		n.machine.change(func(s *segment) { s.wall += e.By })
	case Rate:
		n.machine.change(func(s *segment) { s.rate = int64(e.N) })
		if w.sleep(e.For) && !w.over.Load() {
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
		if w.sleep(e.For) && !w.over.Load() {
			n.machine.change(func(s *segment) { s.asleep = false })
		}
	case Clone:
		n.clone()
	case StoreStep:
		w.store.machine.change(func(s *segment) { s.wall += e.By })
	case StoreWiped:
		w.store.wipe(e)
	case StoreDown, Lie:
		w.store.faults.last(w, e)
	default:
		n.faults.last(w, e)
	}
}

// faults are the faults of the network or of the store that last for a while.
type faults struct {
	mu   sync.Mutex
	on   map[Kind]int // percent, or how many, or the longest Delay
	lied bool         // ever
}

// last lets a fault begin and end.
func (f *faults) last(w *world, e Event) {
	by := e.N
	switch e.Kind {
	case Delay:
		by = int(e.By)
	case StoreDown:
		by = 1
	}
	f.change(e.Kind, by)
	w.sleep(e.For)
	f.change(e.Kind, -by)
}

func (f *faults) change(k Kind, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.on == nil {
		f.on = map[Kind]int{}
	}
	f.on[k] += by
	f.lied = f.lied || k == Lie
}

// of returns how much of a fault there is now.
func (f *faults) of(w *world, k Kind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.over.Load() && !w.troubled.Load() {
		return 0
	}
	return f.on[k]
}

func (f *faults) everLied() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lied
}

// fileStep crashes the process whose local copy is being saved, if it is to crash at this
// step.
func (w *world) fileStep(dir, step string) {
	for _, n := range w.snapshotNodes() {
		if n.copyDir() == dir {
			n.current().crashHere(step)
		}
	}
}
