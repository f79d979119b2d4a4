//go:build go1.25

package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Scenario is everything that a run depends on.
type Scenario struct {
	Seed  uint64
	Start time.Time // a right clock's reading at the start of the run
	Leases
	Surroundings
	Nodes    []Node
	Faults   time.Duration // the span of the random faults
	Events   []Event
	Troubles []Event // after the recovery from the random faults
}

// Leases are the options of all leases.
type Leases struct {
	Layout  snowflake.Layout
	Last    int // the last worker ID
	Reuse   lease.Reuse
	Window  time.Duration // the longest of the nodes' windows
	Floors  int           // Options.FloorEvery is this part of a window; 0: it is not set
	MaxLeap time.Duration
	History time.Duration
}

// Surroundings are the properties of the hosts, the network and the store.
type Surroundings struct {
	OwnClock bool          // the store has a clock
	Guarded  bool          // the hypervisor reports clones
	OneHost  bool          // all nodes and the store share one machine's clocks
	Late     time.Duration // the longest delay of a timer
	Network  time.Duration // the longest way of a message without Delay
}

// Node is a host, which runs one process after another.
type Node struct {
	Begin  time.Duration // the start of its first process
	Offset time.Duration // the initial error of its wall clock
	Drift  int64         // the wall clock's drift, in parts per million
	Window time.Duration // Options.Window
	Bumps  bool          // the policy is ClockSeqPolicy rather than WaitPolicy
	Gap    time.Duration // the average time between calls
	Stays  bool          // the wall clock is not set right when the faults end
	Spared bool          // has no faults, except that the store loses entries
	Absent bool          // left out by Shrink
}

// Event is a fault, load, or a trouble.
type Event struct {
	At   time.Duration // since the start of the run; a trouble comes when all is well
	Node int           // the node, if the event affects one
	Kind Kind
	For  time.Duration // the duration of the fault, or of the trouble's cause
	By   time.Duration // distance, delay, or the error of a clock
	N    int           // depends on the Kind
}

// Kind is a kind of Event. Bounds has the kinds of troubles.
type Kind string

// The kinds of faults and of load.
const (
	Step         Kind = "the wall clock steps"                // By: distance
	Rate         Kind = "the wall clock runs at another rate" // N: parts per million
	Crash        Kind = "crash"                               // By: time until the restart
	CrashInCall  Kind = "crash in a store call"               // N: index of callPoints
	Exit         Kind = "exit without release"                // By: time until the restart
	Release      Kind = "release, and restart"                // By: time until the restart
	Pause        Kind = "pause"                               // as by SIGSTOP
	Suspend      Kind = "suspend"                             // a pause with a stopped monotonic clock
	Clone        Kind = "clone"                               // of the machine, with its process
	LoseRequests Kind = "requests are lost"                   // N: percent
	LoseAnswers  Kind = "answers are lost"                    // N: percent
	Delay        Kind = "requests and answers wait"           // By: the longest delay
	Resend       Kind = "requests arrive twice"               // N: percent
	StoreDown    Kind = "the store is down"
	StoreWiped   Kind = "entries are gone"            // N%3 is 0: all; 1: those of a kind; 2: one
	StoreStep    Kind = "the store's clock steps"     // By: distance
	Lie          Kind = "live holders are taken dead" // N: percent
	Saturate     Kind = "saturation"                  // calls without a gap
	FillMany     Kind = "fill"                        // N: IDs, in ticks
)

// String describes an event on one line.
func (e Event) String() string {
	s := fmt.Sprintf("node %d: %s", e.Node, e.Kind)
	if e.Kind == CrashInCall {
		s += ": " + e.point()
	} else if e.N != 0 {
		s += fmt.Sprintf(", %d", e.N)
	}
	if e.By != 0 {
		s += fmt.Sprintf(", by %v", e.By)
	}
	if e.For != 0 {
		s += fmt.Sprintf(", for %v", e.For)
	}
	return s
}

// callPoints are the points of a store call at which a process may crash.
var callPoints = []string{"before a request is sent", "while it is on its way", "when its answer is there", "as it is made"}

// point returns the point at which the process crashes.
func (e Event) point() string { return callPoints[e.N%len(callPoints)] }

// isLoad reports whether an event is load rather than a fault.
func (e Event) isLoad() bool { return e.Kind == Saturate || e.Kind == FillMany }

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// New returns the scenario of a seed. If nodes is 0, the seed decides the number of nodes.
func New(seed uint64, nodes int) *Scenario {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &Scenario{Seed: seed, Start: time.Date(2026, 11, 21, 12, 0, 0, r.IntN(1e9), time.UTC)}
	s.OwnClock = r.IntN(3) > 0
	s.Guarded = r.IntN(2) == 0
	r.IntN(12) // decides nothing any more, as below: so each seed keeps its world
	s.Reuse = oneOf(r, lease.ReuseAny, lease.ReuseAny, lease.ReuseAny, lease.ReuseKeep, lease.ReuseOnce)
	s.MaxLeap = oneOf(r, 0, time.Second, 10*time.Second)
	s.Network = oneOf(r, us, ms, 20*ms)
	s.Late = oneOf(r, 0, 0, 0, ms, 3*ms, 20*ms)
	s.OneHost = r.IntN(4) == 0 && !s.OwnClock
	if nodes == 0 {
		nodes = 1 + r.IntN(6)
		if r.IntN(40) == 0 {
			nodes = 20 + r.IntN(40)
		}
	}
	s.Layout = randomLayout(r, nodes)
	s.Window = max(3*s.Layout.Unit, oneOf(r, 300*ms, time.Second, 3*time.Second))
	s.History = oneOf(r, 0, 0, s.Window, 5*s.Window)
	s.Faults = time.Duration(4+r.IntN(10)) * s.Window
	if seed%3 == 0 {
		s.Floors = 8
	}
	s.Last = 1<<s.Layout.WorkerBits - 1
	if r.IntN(3) == 0 { // a worker ID for each node, and at most two more
		s.Last = min(s.Last, nodes+r.IntN(2))
	}
	for range nodes {
		s.Nodes = append(s.Nodes, randomNode(r, s))
	}
	defer func() { s.Troubles = s.plan(1 + int(seed%2)) }()
	n := 2 + r.IntN(6)
	if r.IntN(8) == 0 {
		n = 0
	}
	for range n * nodes {
		e := randomEvent(r, s)
		s.Events = append(s.Events, e)
		if r.IntN(2) == 0 {
			s.Events = append(s.Events, companion(r, s, e)...)
		}
	}
	if r.IntN(4) == 0 {
		addWipes(r, s)
		spare(s)
		return s
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		r.IntN(6)
		n.Stays = r.IntN(4) == 0
		if n.Stays && r.IntN(2) == 0 {
			s.Events = append(s.Events, Event{
				At:   randomTime(r, s.Faults),
				Node: i,
				Kind: Step,
				By:   time.Duration(1+r.IntN(300)) * time.Second,
			})
		}
	}
	return s
}

// randomTime returns a time below d.
func randomTime(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(d)))
}

// addWipes adds losses of entries. Nothing is promised after a loss if clocks differ by a minute,
// so the steps of clocks are cut to two seconds.
func addWipes(r *rand.Rand, s *Scenario) {
	for i := range s.Events {
		if e := &s.Events[i]; e.Kind == Step || e.Kind == StoreStep {
			e.By = max(-2*time.Second, min(e.By, 2*time.Second))
		}
	}
	s.Last = min(s.Last, len(s.Nodes)-1+r.IntN(2))
	if r.IntN(2) == 0 {
		mixWindows(r, s)
	}
	if r.IntN(2) == 0 {
		for i := range s.Nodes {
			n := &s.Nodes[i]
			n.Spared = (i == 0 || r.IntN(2) == 0) && n.Window/3 > 8*s.Network+4*s.Late+8*ms
		}
	}
	for again := range 1 + r.IntN(2) {
		at := randomTime(r, s.Faults)
		wipe := Event{At: at, Kind: StoreWiped, N: r.IntN(300)}
		if again > 0 { // nothing is promised if a mark is lost alone, and later its record: lose all
			wipe.N -= wipe.N % 3
		}
		s.Events = append(s.Events, wipe)
		for i, n := range s.Nodes { // some are paused, and others restart
			window := min(n.Window, s.Faults)
			e := Event{At: max(0, at-window/4+randomTime(r, window/2)), Node: i}
			switch r.IntN(3) {
			case 0:
				e.Kind, e.For = Pause, n.Window/2+randomTime(r, n.Window)
			case 1:
				e.Kind, e.By = Crash, us
			default:
				continue
			}
			s.Events = append(s.Events, e)
		}
	}
}

// mixWindows gives the nodes different windows, up to lease.MaxWindow.
func mixWindows(r *rand.Rand, s *Scenario) {
	shortest := s.Window
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Window = oneOf(r, shortest, min(10*shortest, lease.MaxWindow), lease.MaxWindow)
		s.Window = max(s.Window, n.Window)
		if s.MaxLeap == 0 {
			n.Offset = randomTime(r, 40*time.Second) - 20*time.Second
		}
	}
}

// spare removes the faults that would affect the spared nodes.
func spare(s *Scenario) {
	if !slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Spared }) {
		return
	}
	s.Events = slices.DeleteFunc(s.Events, func(e Event) bool {
		switch e.Kind {
		case Saturate, FillMany, StoreWiped:
			return false
		case StoreDown, StoreStep, Lie:
			return true
		case Step, Rate, Suspend:
			return s.OneHost || s.Nodes[e.Node].Spared
		}
		return s.Nodes[e.Node].Spared
	})
}

// floorEvery returns Options.FloorEvery of a lease with this window.
func (s *Scenario) floorEvery(window time.Duration) time.Duration {
	if s.Floors == 0 || s.Layout.Unit > window/time.Duration(s.Floors) {
		return 0
	}
	return window / time.Duration(s.Floors)
}

func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// randomLayout returns a layout with worker IDs for all nodes. TestModel tries layouts of all
// kinds.
func randomLayout(r *rand.Rand, nodes int) snowflake.Layout {
	l := oneOf(r, snowflake.DefaultLayout(), layouts.Redis(), snowflake.ClockSeqLayout(), snowflake.JSSafeLayout(), layouts.Sonyflake(),
		snowflake.Layout{Epoch: snowflake.DefaultLayout().Epoch, Unit: ms, TimeBits: 41, ClockSeqBits: 1, WorkerBits: 6, SequenceBits: 2},
		snowflake.Layout{Epoch: snowflake.DefaultLayout().Epoch, Unit: 10 * ms, TimeBits: 38, ClockSeqBits: 2, WorkerBits: 7, SequenceBits: 4, WorkerLast: true})
	if 1<<l.WorkerBits < nodes {
		return snowflake.DefaultLayout()
	}
	return l
}

func randomNode(r *rand.Rand, s *Scenario) Node {
	n := Node{
		Begin:  randomTime(r, s.Window),
		Offset: randomTime(r, 100*ms) - 50*ms,
		Drift:  r.Int64N(2*maxDrift+1) - maxDrift,
		Window: s.Window,
		Bumps:  s.Layout.ClockSeqBits > 0 && r.IntN(4) > 0,
		Gap:    min(time.Second, oneOf(r, 5*ms, 50*ms, 200*ms)*time.Duration(1+len(s.Nodes)/8)),
	}
	return n
}

// companion returns events that make a fault worse: load while the clock steps, the end of a
// process before its clock has caught up, and a step of the clock while the process is down.
func companion(r *rand.Rand, s *Scenario, e Event) []Event {
	switch e.Kind {
	case Step, Rate, Suspend:
		all := []Event{{At: max(0, e.At-randomTime(r, 3*ms)), Node: e.Node, Kind: Saturate, For: time.Duration(1+r.IntN(15)) * ms}}
		// Saturating large ticks takes long. A few fills close to each other do.
		if load := &all[0]; s.Layout.SequenceBits > 8 {
			load.Kind, load.For, load.N = FillMany, 0, 6
		}
		again := e.At + randomTime(r, 70*ms)
		switch {
		case e.Kind == Step && r.IntN(2) == 0:
			all = append(all, Event{At: again, Node: e.Node, Kind: Step, By: e.By / time.Duration(1+r.IntN(4))},
				Event{At: again + ms, Node: e.Node, Kind: FillMany, N: 1})
		case e.Kind == Step && e.By < 0 && -e.By < s.Window:
			all = append(all, Event{At: e.At - e.By/2, Node: e.Node, Kind: Release, By: us})
		}
		return all
	case Crash, CrashInCall, Exit, Release:
		by := randomTime(r, 2*s.Window)
		if r.IntN(3) > 0 {
			by = -by
		} else {
			by *= 4
		}
		at := e.At + 500
		if r.IntN(2) == 0 { // or while the next process starts
			at = e.At + e.By + randomTime(r, 4*s.Network)
		}
		return []Event{{At: at, Node: e.Node, Kind: Step, By: by}}
	case StoreDown:
		return []Event{{At: e.At + e.For/2, Node: e.Node, Kind: Crash, By: us}}
	}
	return nil
}

// randomDistance returns a distance of microseconds to kiloseconds, in either direction.
func randomDistance(r *rand.Rand) time.Duration {
	d := time.Duration(1+r.IntN(999)) * us
	for range r.IntN(3) {
		d *= 1000
	}
	switch r.IntN(10) {
	case 0:
		d = time.Duration(1+r.IntN(5000)) * time.Second
	case 1, 2:
		d = time.Duration(1+r.IntN(9)) * ms
	}
	if r.IntN(3) > 0 {
		return -d
	}
	return d
}

func randomEvent(r *rand.Rand, s *Scenario) Event {
	kinds := []Kind{Step, Step, Step, Step, Rate, Crash, Crash, CrashInCall, CrashInCall, Exit, Release, Release, Pause, Pause, Suspend,
		LoseRequests, LoseAnswers, LoseAnswers, Delay, Delay, Resend, StoreDown, Lie, Lie, Saturate, FillMany}
	if s.OwnClock {
		kinds = append(kinds, StoreStep)
	}
	kinds = append(kinds, Clone)
	e := Event{At: randomTime(r, s.Faults), Node: r.IntN(len(s.Nodes)), Kind: oneOf(r, kinds...)}
	span := randomTime(r, 2*s.Window)
	switch e.Kind {
	case Step, StoreStep:
		e.By = randomDistance(r)
	case Rate:
		e.For, e.N = span, oneOf(r, 0, 0, 300_000, 900_000, 999_900, 1_000_100, 1_100_000, 3_000_000)
	case Crash, CrashInCall, Exit, Release:
		e.By = oneOf(r, 100, us, span)
		if e.Kind == CrashInCall {
			e.N = r.IntN(5)
		}
	case Pause, Suspend:
		e.For = oneOf(r, span/50, span, 2*span)
	case LoseRequests, LoseAnswers, Resend, Lie:
		e.For, e.N = span, oneOf(r, 10, 50, 100)
	case Delay:
		e.For, e.By = span, oneOf(r, s.Window/10, s.Window/2, 2*s.Window)
	case StoreDown:
		e.For = span
	case Saturate:
		e.For = min(time.Duration(1+r.IntN(30))*max(ms, s.Layout.Unit), 3*time.Second)
	case FillMany:
		e.N = 1 + r.IntN(8)
	}
	return e
}
