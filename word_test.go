//go:build go1.25

package snowflake

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

// A call that takes IDs of the open tick without the lock may stop after each of its steps, for any
// time. The test tries every order of its steps and of other acts.
func TestCallWithoutTheLockMayStopAnywhere(t *testing.T) {
	if depth.Race {
		t.Skip("one goroutine runs at a time; the other tests look for races")
	}
	for name, s := range map[string]struct {
		policy BackwardPolicy
		lease  bool
		acts   string
	}{
		"two calls":           {FailPolicy(), false, "a step of A, a step of B, a locked call, an unlocked call, a tick passes"},
		"a clock set back":    {RewindPolicy(), false, "a step of A, a locked call, an unlocked call, a tick passes, the clock goes back"},
		"a lease":             {FailPolicy(), true, "a step of A, a locked call, a tick passes, a floor, a smaller window, a stop"},
		"a cloned machine":    {FailPolicy(), true, "a step of A, an unlocked call, a look, a clone, another worker ID"},
		"a clone and a floor": {FailPolicy(), true, "a step of A, a locked call, a tick passes, a floor, a clone, another worker ID"},
	} {
		for _, n := range []int64{1, 2} {
			t.Run(fmt.Sprintf("%s, batches of %d", name, n), func(t *testing.T) {
				acts, stories := strings.Split(s.acts, ", "), 0
				var try func(story []string)
				try = func(story []string) {
					w := newWordWorld(t, s.policy, s.lease, n)
					for i, act := range story {
						w.does(act, story[:i+1])
					}
					if stories++; w.idle || len(story) == depth.Of(7, 8) {
						return
					}
					for _, act := range acts {
						try(append(slices.Clip(story), act))
					}
				}
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Until(noon))
					try([]string{"a locked call"})
				})
				t.Logf("%d stories", stories)
			})
		}
	}
}

// wordWorld is a generator with a built-in clock, and calls that take IDs step by step.
type wordWorld struct {
	t          *testing.T
	g          *Generator
	lease      *testLease    // nil without a lease
	binding    *binding      // of the lease
	generation atomic.Uint64 // of the machine
	born       uint64        // the generation when the lease asked for the worker ID
	a, b       unlockedCall
	acts       map[string]func()
	story      []string // the acts so far

	idle    bool // the last act did nothing
	ordered bool
	stopped bool
	seen    map[ID]bool
	max     ID        // the greatest ID that was returned
	floor   time.Time // IDs before it may no longer be claimed
}

// unlockedCall is a call that takes n IDs without the lock. Its steps are those of inTick.
type unlockedCall struct {
	n, got   int64
	step     string // the last step
	sight    sight
	above    ID    // the greatest ID that was returned before the call
	from, to int64 // the first and the last tick that the clock has read during the call
}

func newWordWorld(t *testing.T, policy BackwardPolicy, leased bool, n int64) *wordWorld {
	w := &wordWorld{t: t, seen: map[ID]bool{}, ordered: policy == FailPolicy(), a: unlockedCall{n: n}, b: unlockedCall{n: n}}
	opts := &Options{Clock: MonotonicClock(), OnBackward: policy,
		Layout: Layout{Epoch: DefaultEpoch, Unit: maxLag, TimeBits: 41, WorkerBits: 2, SequenceBits: 2}}
	if !w.ordered {
		opts.RewindTicks = 3
	}
	var err error
	if leased {
		w.lease = newTestLease(noon.Add(-time.Hour), noon.Add(24*time.Hour))
		w.lease.terms.Generation = func() *atomic.Uint64 { return &w.generation }
		w.lease.terms.Born = func() uint64 { return w.born }
		w.binding = w.lease.bind()
		w.g, err = NewLeased(wordLease{w.lease, w}, opts)
	} else {
		w.g, err = New(1, opts)
	}
	require.NoError(t, err)
	w.acts = map[string]func(){
		"a step of A":         func() { w.goOn(&w.a) },
		"a step of B":         func() { w.goOn(&w.b) },
		"a locked call":       w.lockedCall,
		"an unlocked call":    func() { w.returns(w.g.inTick(1), w.max) },
		"a tick passes":       func() { time.Sleep(maxLag) },
		"the clock goes back": w.goBack,
		"a floor":             func() { w.floor = w.binding.Floor() },
		"a look":              func() { w.binding.Look() },
		"a smaller window":    func() { w.lease.change(func(g *Grant) { g.To = time.Now() }); w.binding.Look() },
		"a stop":              func() { w.idle, w.stopped = w.stopped, true; w.binding.Stop(errAway) },
		"a clone":             func() { w.idle = w.generation.Swap(1) == 1 },
		"another worker ID":   w.replace,
	}
	return w
}

// wordLease is the lease of a wordWorld. It is asked for its grant while the lock is held.
type wordLease struct {
	*testLease
	w *wordWorld
}

func (l wordLease) Grant() Grant {
	l.w.isSealed()
	return l.testLease.Grant()
}

func (w *wordWorld) require(ok bool, format string, args ...any) {
	if !ok {
		require.FailNow(w.t, fmt.Sprintf(format, args...), strings.Join(w.story, "\n"))
	}
}

// does lets the last act of a story happen.
func (w *wordWorld) does(act string, story []string) {
	w.idle, w.story = false, story
	w.acts[act]()
	issued := uint64(len(w.seen))
	for _, c := range w.calls() {
		c.from, c.to = min(c.from, w.tick()), max(c.to, w.tick())
		if c.step == "claims" {
			issued += uint64(c.got)
		}
	}
	w.require(issued == w.g.Stats().Issued, "Stats counts %d IDs, and %d are claimed", w.g.Stats().Issued, issued)
}

func (w *wordWorld) calls() []*unlockedCall { return []*unlockedCall{&w.a, &w.b} }

func (w *wordWorld) tickOf(id ID) int64 { return int64(id) >> w.g.seq.layout.timeShift() }

// tick returns the tick that the clock reads.
func (w *wordWorld) tick() int64 {
	clock := w.g.wall
	now, err := w.g.seq.layout.instant(clock.now())
	w.require(err == nil, "%v", err)
	return now.tick
}

// isSealed checks that no call claims IDs while the lock is held.
func (w *wordWorld) isSealed() {
	for _, c := range w.calls() {
		w.require(c.step != "reads" || !w.g.claim(c.sight, sealed), "a call takes ID %d while the lock is held", c.sight.id())
	}
}

// lockedCall takes an ID with the lock, or gives up if it would have to wait.
func (w *wordWorld) lockedCall() {
	c := call{n: 1}
	w.g.lock()
	w.isSealed()
	m, err := w.g.advanceLocked(&c)
	w.isSealed()
	w.g.unlock()
	if err == nil && m.kind == asks {
		c.progress.agreed, c.progress.by = w.g.policy.OnBackward(*m.back), m.back.By()
		m, _ = w.g.advance(&c)
	}
	w.returns(m.ids, w.max)
	w.g.finish(&c)
}

// goBack sets the clock back by a tick, and the generator notices it.
func (w *wordWorld) goBack() {
	w.g.lock()
	defer w.g.unlock()
	w.g.wall.anchor = w.g.wall.anchor.Add(-maxLag)
	w.g.until.Store(noTick)
}

// replace lets the lease of a machine that was cloned take another worker ID.
func (w *wordWorld) replace() {
	if w.idle = w.generation.Load() == w.born; !w.idle {
		w.born = w.generation.Load()
		w.lease.change(func(g *Grant) { g.Worker = 2 })
		w.binding.Look()
	}
}

// goOn makes a call take its next step.
func (w *wordWorld) goOn(c *unlockedCall) {
	was := c.step
	c.step = ""
	switch was {
	case "":
		c.sight, c.above, c.from, c.to = w.g.sight(), w.max, w.tick(), w.tick()
		if w.idle = c.sight.word == sealed; !w.idle {
			c.step = "sees"
		}
	case "sees":
		if w.g.inTime() {
			c.step = "reads"
		}
	case "reads":
		got, next := w.g.seq.following(c.sight.word, c.n)
		if w.g.claim(c.sight, next) {
			c.step, c.got = "claims", got
			w.mayClaim(c)
		}
	case "claims":
		if w.g.confirm(c.sight, c.got) {
			w.returns(run{first: c.sight.id(), n: c.got}, c.above)
		}
	}
}

// mayClaim checks that the clock has read the tick of the IDs that a call claims since the call
// began, or less than maxLag before, and that the lease grants the tick.
func (w *wordWorld) mayClaim(c *unlockedCall) {
	id := c.sight.id()
	tick := w.tickOf(id)
	w.require(c.from-1 <= tick && tick <= c.to, "a call claims ID %d of tick %d; since it began, the clock read %d to %d", id, tick, c.from, c.to)
	if w.lease != nil {
		at := w.g.Decode(id).Time
		w.require(!w.stopped && !at.Before(w.floor) && at.Before(w.lease.grant.Load().To), "a call claims ID %d, which is not granted", id)
	}
}

// returns checks IDs that a call returns. They are above an ID, unless the clock goes back.
func (w *wordWorld) returns(r run, above ID) {
	w.idle = r.n == 0
	for i := range r.n {
		id := r.first + ID(i)*w.g.seq.stride()
		worker := w.g.Decode(id).Worker
		w.require(!w.seen[id], "ID %d is returned twice", id)
		w.require(!w.ordered || id > above, "ID %d is not above %d", id, above)
		w.require(worker == 1+int(w.generation.Load()), "ID %d, of worker %d, is returned in generation %d", id, worker, w.generation.Load())
		w.seen[id], w.max = true, max(w.max, id)
	}
}

// A call that gives up puts its IDs back, and another call may get them. So the floor that a lease
// saves is at most their tick.
func TestFloorIsAtMostTheTickOfIDsThatWerePutBack(t *testing.T) {
	s := newSequence(DefaultLayout(), 0, 0)
	waits := func(tick int64) run {
		r := s.take(s.from(tick, tick), s.layout.sequences(), 0, 10)
		s.waiting().count(r.tick, r.n)
		return r
	}
	first := waits(11)
	waits(12)
	s.putBack(first)
	require.EqualValues(t, 11, s.closeBefore(11))
	require.Equal(t, place{tick: 11, left: first.n, kind: leftover}, s.next(10, 11))
	require.EqualValues(t, 12, s.closeBefore(12))
	require.Equal(t, forward, s.next(12, 12).kind)
}
