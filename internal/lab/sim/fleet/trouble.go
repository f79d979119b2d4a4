//go:build go1.25

package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// After the recovery from the random faults a run has a few troubles, one after another. From the
// end of each cause, all is well within the bounds of its kind. During a deployment and growth, all
// is well throughout.

// plan returns n random troubles. Their dice do not depend on the rest of the scenario.
func (s *Scenario) plan(n int) (all []Event) {
	r := rand.New(rand.NewPCG(s.Seed, 4))
	lost := slices.ContainsFunc(s.Events, func(e Event) bool { return e.Kind == StoreWiped })
	single := slices.DeleteFunc(slices.Clone(Bounds), func(l Limits) bool { return l.Watermark.Lag })
	for len(all) < n {
		t := Event{Kind: single[r.IntN(len(single))].Trouble, Node: r.IntN(len(s.Nodes)), N: r.IntN(300),
			For: s.Window/4 + randomTime(r, 3*s.Window), By: time.Duration(1+r.IntN(7200)) * time.Second}
		if r.IntN(2) == 0 {
			t.By = s.Window/4 + randomTime(r, 2*s.Window)
		}
		if r.IntN(3) == 0 {
			t.By = -t.By
		}
		possible := true
		switch t.Kind {
		case Wipe, WipeOutage, WipePause, OutageWipe, Unreadable, WipeClock:
			// These take three minutes, so they are rare, and not of short windows.
			possible = r.IntN(3) == 0 && s.Window >= time.Second && (t.Kind != WipeClock || s.OwnClock)
			if lost { // nothing is promised if a mark is lost alone, and later its record: lose all
				t.N -= t.N % 3
			}
			lost = lost || possible
		case EngineClock:
			possible = s.OwnClock
		case HolderClock, ReaderClock:
			possible = !s.OneHost
		case FullRange, ShortStarts:
			// Shorter windows leave a start no time for its requests.
			possible = s.Reuse == lease.ReuseAny && s.Last < 16 && s.Window >= max(time.Second, 200*(s.Network+s.Late))
		}
		if possible {
			all = append(all, t)
		}
	}
	return all
}

// Troubled replaces the random faults of a scenario by more troubles.
func (s *Scenario) Troubled() {
	s.Events, s.Faults = nil, s.Window
	for i := range s.Nodes {
		s.Nodes[i].Stays = false
	}
	s.Troubles = s.plan(6)
}

const (
	rolled       = 30 // the number of processes that a deployment replaces, or that growth starts
	everyRolling = 10 // one of this number of seeds has them in a run with troubles
)

// Rolling returns a scenario of a deployment and growth, in which a process starts each second or
// each 5 s. The deployment replaces the whole fleet. Windows are 30 s.
func Rolling(seed uint64) *Scenario {
	s := New(seed, rolled)
	s.Layout, s.Last = snowflake.DefaultLayout(), 1023
	s.Window, s.Floors = 30*time.Second, 0
	s.Events, s.Faults = nil, s.Window
	for i := range s.Nodes { // the rest of a node may not suit the layout
		n := &s.Nodes[i]
		n.Window, n.Gap = s.Window, time.Second
		n.Bumps = false
		n.Stays, n.Spared = false, false
	}
	by := []time.Duration{time.Second, 5 * time.Second}[seed/everyRolling/2%2]
	s.Troubles = []Event{{Kind: Deployment, By: by}, {Kind: Growth, By: by}}
	if seed/everyRolling%2 == 0 {
		s.Floors = int(s.Window / time.Second)
		s.Troubles = []Event{{Kind: DeploymentFloor, By: by}, {Kind: GrowthFloor, By: by}}
	}
	return s
}

// victim returns the node that a trouble affects.
func (w *world) victim(t Event) *node {
	var present []*node
	for _, n := range w.snapshotNodes() {
		if !n.Absent {
			present = append(present, n)
		}
	}
	return present[t.Node%len(present)]
}

// befalls applies a trouble, and returns at the end of its cause. It returns false if the run ends
// first.
func (w *world) befalls(v *vigil) bool {
	t, n, s := v.trouble, v.victim, w.store
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
	switch t.Kind {
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
		return wrong(v.reader.machine, t.By, lasts)
	case HolderClock:
		if most := w.maxLeap() - ms; !w.OwnClock { // a longer leap is accepted
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

// rolls calls start for each process of a deployment or growth. Before, it gives all holders a
// window to notice the reader.
func (w *world) rolls(v *vigil, start func(i int)) bool {
	if !w.sleep(w.Window) {
		return false
	}
	v.restart()
	for i := range rolled {
		if start(i); !w.sleep(v.trouble.By) {
			return false
		}
	}
	return true
}

// grows starts one more process.
func (w *world) grows(v *vigil, i int) {
	p := w.stranger(fmt.Sprintf("occupant-%d", i))
	l, err := p.acquire(w.slack())
	if err != nil {
		w.fail("bound", "%s: process %d has no worker ID after %v: %v", v.trouble.Kind, i, w.slack(), err)
		return
	}
	p.generates(l)
	v.others = append(v.others, p)
}

// fills starts processes that take all free worker IDs. Then one of them dies, or all.
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
	if v.trouble.Kind == FullRange && v.filled {
		v.others, all = all[1:], all[:1]
		v.comes(w, w.longest())
		if !w.sleep(v.trouble.For) {
			return false
		}
		if v.isIn() {
			v.nobody() // a process that restarts has left a worker ID free for a moment
		}
	}
	for _, p := range all {
		p.kill("crash")
	}
	return !w.isEnded()
}

// stranger returns a process on a host of its own, outside the fleet.
func (w *world) stranger(owner string) *process {
	n := newNode(w, len(w.Nodes)+100, Node{Window: w.Window})
	n.owner = owner
	p := newProcess(n, 0)
	p.name = owner
	return p
}

// generates makes a generator, without which a lease delays the watermark.
func (p *process) generates(l *lease.Lease) {
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		p.w.fail("error", "%v: no generator: %v", p, err)
	}
	p.gets(l, g)
}

// garble makes one entry unreadable. It spares worker IDs that the processes need.
func (s *store) garble(n int) {
	spare := s.w.mayStart(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := slices.DeleteFunc(s.list(""), func(e lease.Entry) bool {
		kind, _, _ := strings.Cut(e.Key, "/")
		return kind == "history" || (kind == "worker" || kind == "mark") && !spare
	})
	is := entries[n%len(entries)]
	_, _ = s.memory.Put(context.Background(), is.Key, is.Version, []byte("?"))
	if id, ok := workerOf(is.Key); ok {
		s.worker(id).record = record{}
	}
	s.wiped.Store(true)
	s.w.logf("store: %s cannot be read", is.Key)
}

// mayStart reports whether there are worker IDs for a newcomer and more others.
func (w *world) mayStart(more int) bool {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	unused, bad, kept := 0, 0, false
	for id := range w.Last + 1 {
		e := s.get("worker/" + fmt.Sprint(id))
		is := e.Version != ""
		switch {
		case !is && s.get("mark/"+fmt.Sprint(id)).Version == "":
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

// newcomer is the owner of the process that asks for a worker ID after a trouble.
const newcomer = "newcomer"
