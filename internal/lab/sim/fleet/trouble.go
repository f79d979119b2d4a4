//go:build go1.25

package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// When the random faults are over and all is well, a run has a few troubles, one after the other.
// After the end of each cause, all has to be well within the bounds of its kind. During a deployment
// and growth, all has to be well.

// Plan is a trouble that is to come.
type Plan struct {
	Trouble Trouble
	Node    int           // whose it is, if it is of one process
	For     time.Duration // how long its cause lasts
	By      time.Duration // by how much a clock is wrong
	N       int           // how many, or which
}

func (t Plan) String() string {
	return fmt.Sprintf("%s (node %d, for %v, by %v, %d)", t.Trouble, t.Node, t.For, t.By, t.N)
}

// plan returns the troubles of a scenario. They have dice of their own.
func (s *Scenario) plan(n int) (all []Plan) {
	r := rand.New(rand.NewPCG(s.Seed, 4))
	lost := slices.ContainsFunc(s.Events, func(e Event) bool { return e.Kind == StoreWiped })
	single := slices.DeleteFunc(slices.Clone(Bounds), func(l Limits) bool { return l.Watermark.Lag })
	for len(all) < n {
		t := Plan{Trouble: single[r.IntN(len(single))].Trouble, Node: r.IntN(len(s.Nodes)), N: r.IntN(300),
			For: s.Window/4 + randomTime(r, 3*s.Window), By: time.Duration(1+r.IntN(7200)) * time.Second}
		if r.IntN(2) == 0 {
			t.By = s.Window/4 + randomTime(r, 2*s.Window)
		}
		if r.IntN(3) == 0 {
			t.By = -t.By
		}
		possible := true
		switch t.Trouble {
		case Wipe, WipeOutage, WipePause, OutageWipe, Unreadable, WipeClock: // they take long
			possible = r.IntN(3) == 0 && s.Window >= time.Second && (t.Trouble != WipeClock || s.OwnClock)
			if lost { // all: nothing is promised if a mark is lost alone and its record after that
				t.N -= t.N % 3
			}
			lost = lost || possible
		case EngineClock:
			possible = s.OwnClock
		case HolderClock, ReaderClock:
			possible = !s.OneHost
		case FullRange, ShortStarts:
			// Otherwise a start has no time for its requests.
			possible = s.Reuse == lease.ReuseAny && s.Last < 16 && s.Window >= max(time.Second, 200*(s.Network+s.Late))
		}
		if possible {
			all = append(all, t)
		}
	}
	return all
}

// Troubled takes the random faults out of a scenario, so that most of what happens are troubles,
// and gives it more of these.
func (s *Scenario) Troubled() {
	s.Events, s.Faults = nil, s.Window
	for i := range s.Nodes {
		s.Nodes[i].Stays = false
	}
	s.Troubles = s.plan(6)
}

const (
	rolled       = 30 // processes are replaced, or start, in a deployment or growth
	everyRolling = 10 // one of so many runs with troubles has these
)

// Rolling returns a scenario of a deployment and growth, in which a process starts each second, or
// each 5 s. The fleet has as many processes as are replaced, with windows of 30 s.
func Rolling(seed uint64) *Scenario {
	s := New(seed, rolled)
	s.Layout, s.Last, s.LocalCopy = snowflake.DefaultLayout(), 1023, false
	s.Window, s.Floors = 30*time.Second, 0
	s.Events, s.Faults = nil, s.Window
	for i := range s.Nodes { // the rest of a node may not suit the layout
		n := &s.Nodes[i]
		n.Window, n.Gap = s.Window, time.Second
		n.Bumps = false
		n.Stops, n.Stays, n.Spared = false, false, false
	}
	by := []time.Duration{time.Second, 5 * time.Second}[seed/everyRolling/2%2]
	s.Troubles = []Plan{{Trouble: Deployment, By: by}, {Trouble: Growth, By: by}}
	if seed/everyRolling%2 == 0 {
		s.Floors = int(s.Window / time.Second)
		s.Troubles = []Plan{{Trouble: DeploymentFloor, By: by}, {Trouble: GrowthFloor, By: by}}
	}
	return s
}

// victim returns the node whose trouble it is.
func (w *world) victim(t Plan) *node {
	var present []*node
	for _, n := range w.snapshotNodes() {
		if !n.Absent {
			present = append(present, n)
		}
	}
	return present[t.Node%len(present)]
}

// befalls lets a trouble happen, and returns when its cause is over. It is false when the run ends
// meanwhile.
func (w *world) befalls(v *vigil) bool {
	t, n, s := v.plan, v.victim, w.store
	down := func(d time.Duration) bool {
		s.faults.last(w, Event{Kind: StoreDown, For: d})
		return !w.isEnded()
	}
	wipe := func(n int) { s.wipe(Event{Kind: StoreWiped, N: n}) }
	wrong := func(m *machine, by time.Duration, f func() bool) bool {
		m.change(func(s *segment) { s.wall += by })
		defer m.change(func(s *segment) { s.wall -= by })
		return f()
	}
	lasts := func() bool { return w.sleep(t.For) }
	kill := func() { n.end(Event{Kind: Crash, By: us}) }
	switch t.Trouble {
	case OneCrash:
		kill()
	case Kills:
		for range 3 + t.N%6 {
			if kill(); !w.sleep(w.Window * 4 / 5) {
				return false
			}
		}
	case OnePause:
		n.pause(t.For)
		return lasts()
	case Outage:
		return down(t.For)
	case Wipe:
		wipe(t.N)
	case WipeOutage:
		wipe(t.N)
		return w.sleep(w.up(w.Window)) && down(t.For)
	case WipePause:
		wipe(t.N)
		n.pause(t.For)
		return lasts()
	case WipeClock:
		return wrong(s.machine, t.By, func() bool { wipe(t.N); return lasts() })
	case EngineClock:
		return wrong(s.machine, t.By, lasts)
	case ReaderClock:
		return wrong(w.reader.machine, t.By, lasts)
	case HolderClock:
		if most := w.maxLeap() - ms; !w.OwnClock { // it is accepted if it lasts
			t.For = min(t.For, most)
		}
		return wrong(n.machine, t.By, lasts)
	case LostAnswers:
		n.faults.last(w, Event{Kind: LoseAnswers, N: 100, For: t.For})
	case FullRange, ShortStarts:
		return w.fills(v)
	case OutageWipe:
		s.faults.change(StoreDown, 1)
		defer s.faults.change(StoreDown, -1)
		defer wipe(0)
		return w.sleep(w.Window + t.For)
	case Unreadable:
		s.garble(t.N)
	case Deployment, DeploymentFloor:
		return w.rolls(v, func(i int) {
			nodes := w.snapshotNodes()
			w.wg.Go(func() { nodes[i%len(nodes)].end(Event{Kind: Release, By: us}) })
		})
	case Growth, GrowthFloor:
		return w.rolls(v, func(i int) { w.grows(v, i) })
	}
	return !w.isEnded()
}

// rolls lets processes be replaced, or start, one after the other. It begins when all have noticed
// the reader.
func (w *world) rolls(v *vigil, start func(i int)) bool {
	if !w.sleep(w.Window) {
		return false
	}
	v.restart()
	for i := range rolled {
		if start(i); !w.sleep(v.plan.By) {
			return false
		}
	}
	return true
}

// grows lets another process start, at once.
func (w *world) grows(v *vigil, i int) {
	p := w.stranger(fmt.Sprintf("occupant-%d", i))
	l, err := p.acquire(w.slack())
	if err != nil {
		w.fail("bound", "%s: process %d has no worker ID after %v: %v", v.plan.Trouble, i, w.slack(), err)
		return
	}
	p.generates(l)
	v.others = append(v.others, p)
}

// fills lets other processes take all worker IDs that are free. Then one of them dies, or all.
func (w *world) fills(v *vigil) bool {
	var all []*process
	for i := 0; !w.isEnded(); i++ {
		p := w.stranger(fmt.Sprintf("occupant-%d", i))
		l, err := p.acquire(w.Window * 3 / 2)
		if err != nil {
			break
		}
		p.generates(l)
		all = append(all, p)
	}
	v.filled = len(all) > 0
	if v.plan.Trouble == FullRange && v.filled {
		v.others, all = all[1:], all[:1]
		v.comes(w, 0)
		if !w.sleep(v.plan.For) {
			return false
		}
		if v.isIn() {
			v.nobody() // somebody who starts anew has left a worker ID for a moment
		}
	}
	for _, p := range all {
		p.kill("crash")
	}
	return !w.isEnded()
}

// stranger returns a process of a host that is none of the fleet's.
func (w *world) stranger(owner string) *process {
	n := newNode(w, len(w.Nodes)+100, Node{Window: w.Window})
	n.owner = owner
	p := newProcess(n, 0)
	p.name = owner
	return p
}

// generates makes a generator, without which a lease keeps the watermark back.
func (p *process) generates(l *lease.Lease) {
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		p.w.fail("error", "%v: no generator: %v", p, err)
	}
	p.gets(l, g)
}

// garble lets one entry be unreadable. If its worker ID would be missed, it is another entry.
func (s *store) garble(n int) {
	spare := s.w.mayStart(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key := range s.entries {
		kind, _, _ := strings.Cut(key, "/")
		if kind != "history" && (kind != "worker" && kind != "mark" || spare) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	key := keys[n%len(keys)]
	s.puts++
	e := lease.Entry{Key: key, Version: fmt.Sprint(s.puts), Value: []byte("?")}
	if s.w.OwnClock {
		e.Time = s.machine.Wall()
	}
	if id, ok := workerOf(key); ok {
		s.worker(id).record = record{}
	}
	s.entries[key] = e
	s.wiped.Store(true)
	s.w.logf("store: %s cannot be read", key)
}

// mayStart reports whether there is a worker ID for a newcomer, and some more.
func (w *world) mayStart(more int) bool {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	unused, bad, kept := 0, 0, false
	for id := range w.Last + 1 {
		e, is := s.entries["worker/"+fmt.Sprint(id)]
		switch {
		case !is && s.entries["mark/"+fmt.Sprint(id)].Version == "":
			unused++
		case string(e.Value) == "?":
			bad++
		}
		kept = kept || is && s.worker(id).record.Owner == newcomer
	}
	if w.Reuse == lease.ReuseAny {
		return w.Last+1-bad-more > len(w.nodes)
	}
	return unused > more || w.Reuse == lease.ReuseKeep && kept && more == 0
}

const newcomer = "newcomer"
