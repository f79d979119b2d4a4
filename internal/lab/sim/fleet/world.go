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
	Promise string // its name
	Detail  string
}

func (f *Failure) Error() string { return f.Promise + ": " + f.Detail }

// Result is what a run found.
type Result struct {
	Failure *Failure
	Trace   []string // empty without tracing
	Totals  Totals
	Worst   Worst
}

// Settings are the arguments of a process that runs seeds.
type Settings struct {
	From, To, Every uint64 // the seeds from From to To-1, in steps of Every
	Nodes           int    // the nodes of each fleet; 0: the seed decides

	Troubles bool   // more troubles, and no random faults
	Trouble  Kind   // with Troubles: this trouble alone, and no seeds without it
	Mutant   string // the mutant that is switched on
	Trace    bool   // print the trace of each run
	Brief    bool   // do not explain a failure
	Twice    bool   // run each seed twice, and count those with two traces
	Report   string // the file to which the Report is appended
}

// Report is the result of many seeds.
type Report struct {
	Seeds   int
	Seed    uint64   // the first seed that failed
	Failure *Failure // nil: none failed
	Totals  Totals
	Worst   Worst
}

// Totals counts events by name. Counted has the names.
type Totals map[string]uint64

// TwoTraces counts the seeds whose runs differ, with Settings.Twice.
const TwoTraces = "seeds with two traces"

// Counted has the names whose counts are not zero after many seeds.
var Counted = []string{
	"node-seconds", "IDs", "faults", "processes", "leases", "worker IDs replaced", "clones", "IDs with an issuer",
	"calls found the clock behind",
	"bumps", "waits", "errors", "watermarks",
}

// Add adds the counts of another run.
func (t Totals) Add(o Totals) {
	for what, n := range o {
		t[what] += n
	}
}

// world is the state of a run.
type world struct {
	*Scenario
	begun    time.Time // the virtual time of the start
	store    *store
	ids      ledger
	wg       sync.WaitGroup
	gates    atomic.Int64  // the number of pauses so far
	over     atomic.Bool   // the random faults have ended
	troubled atomic.Bool   // the troubles have begun
	done     chan struct{} // closed at the end of the run
	end      func()        // ends the run, as the first failure does
	tracing  bool
	slowest  time.Duration // the longest Node.Gap

	mu    sync.Mutex // guards the rest
	rand  *rand.Rand // decides about the network and the load
	nodes []*node
	found Result
}

// Run runs a scenario. It must be called in a synctest bubble.
func Run(s *Scenario, tracing bool) *Result {
	w := &world{
		Scenario: s,
		begun:    time.Now(),
		done:     make(chan struct{}),
		ids:      ledger{issued: map[snowflake.ID]issue{}, last: map[[2]int]int64{}},
		rand:     rand.New(rand.NewPCG(s.Seed, 3)),
		tracing:  tracing,
		found:    Result{Totals: Totals{}, Worst: Worst{}},
	}
	w.end = sync.OnceFunc(func() { close(w.done) })
	seam.Reset(s.Seed, w.late)
	for i, c := range s.Nodes {
		w.nodes, w.slowest = append(w.nodes, newNode(w, i, c)), max(w.slowest, c.Gap)
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
	for range 1 + s.Seed%2 {
		w.wg.Go(w.poll)
	}
	if w.play() {
		w.finish()
	}
	w.end()
	w.wg.Wait()
	took := time.Since(w.begun)
	time.Sleep(24 * time.Hour) // until all pauses have ended
	w.count("node-seconds", uint64(took.Seconds()*float64(len(w.nodes))))
	return &w.found
}

// settling returns the time within which the effects of the random faults end: ten windows and ten
// seconds or, if windows are long, three windows and 40 s.
func (w *world) settling() time.Duration {
	return min(10*w.Window, 3*w.Window+30*time.Second) + 10*time.Second + 20*w.Layout.Unit + w.healing()
}

// healing returns the longest wait of newcomers for entries that the store has lost, also twice.
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

// play applies the events, and returns when the random faults end. It returns false if the run
// ends.
func (w *world) play() bool {
	for i, e := range w.Events {
		at := e.At + time.Duration(i)*us // no two events at the same time
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

// finish ends the random faults, checks the recovery, and applies the troubles.
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
	if !w.sleep(settle) || !w.recovers() {
		return
	}
	if len(w.Troubles) > 0 {
		w.endures()
	}
	w.checkHistory()
}

// sleep returns false if the run ends during the sleep.
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

// after calls f in its own goroutine after d, unless the run has ended.
func (w *world) after(d time.Duration, f func()) {
	w.wg.Add(1)
	time.AfterFunc(d+1, func() {
		defer w.wg.Done()
		if !w.isEnded() {
			f()
		}
	})
}

func (w *world) isEnded() bool { return isClosed(w.done) }

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// chance returns true with a probability in percent.
func (w *world) chance(percent int) bool { return percent > 0 && w.intN(100) < percent }

func (w *world) intN(n int) int { return int(w.up(time.Duration(n))) }

// up returns a random duration below d.
func (w *world) up(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rand.Int64N(int64(max(d, 1))))
}

// late returns the delay of a timer.
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
		w.found.Trace = append(w.found.Trace, fmt.Sprintf("%11v  ", time.Since(w.begun).Round(time.Microsecond))+fmt.Sprintf(format, args...))
	}
}

// fail ends the run with a broken promise. The first one counts.
func (w *world) fail(promise, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	w.logf("BROKEN: %s: %s", promise, detail)
	w.mu.Lock()
	if w.found.Failure == nil && !w.isEnded() {
		w.found.Failure = &Failure{promise, detail}
	}
	w.mu.Unlock()
	w.end()
}

func (w *world) count(what string, n uint64) {
	if n == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found.Totals[what] += n
}

// apply applies an event, and returns at its end.
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
	case Crash, CrashInCall, Exit, Release:
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

// faults are the lasting faults of a node's network or of the store.
type faults struct {
	mu   sync.Mutex
	on   map[Kind]int // percent, or the longest Delay, or the number of faults at once
	lied bool         // there was a Lie
}

// last applies a fault for its duration.
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

// of returns the current extent of a fault.
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
