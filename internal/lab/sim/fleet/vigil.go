//go:build go1.25

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// vigil is the watch over a fleet during a trouble and until it is well again.
type vigil struct {
	trouble Event
	victim  *node
	reader  *reader
	begun   time.Time     // the beginning of the cause
	over    time.Time     // the end of the cause
	others  []*process    // processes outside the fleet, which end with the vigil
	filled  bool          // processes outside the fleet hold all free worker IDs
	ends    chan struct{} // closed at the end of the vigil

	mu      sync.Mutex
	awaited bool          // a newcomer is waiting for a worker ID, or has got it
	started time.Time     // the time at which the newcomer got its worker ID
	why     error         // of the newcomer's last attempt that failed
	lag     time.Duration // the watermark's longest lag
	late    time.Time     // the last reading of a late watermark
	because string        // the reason of that lag
}

// restart discards what was seen so far.
func (v *vigil) restart() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.begun, v.late, v.lag = time.Now(), time.Time{}, 0
}

// endures applies the troubles one after another, each when all is well.
func (w *world) endures() {
	w.troubled.Store(true)
	r := newReader(w)
	for _, t := range w.Troubles {
		if !w.settles() || !w.endure(t, r) {
			return
		}
	}
}

// settles waits until all is well: all nodes issue IDs, all clocks are right and nothing in the
// store is in the future. It returns false if the effects of the random faults do not end soon.
func (w *world) settles() bool {
	for end := time.Now().Add(w.maxLeap() + 5*w.Window + 5*time.Second + w.healing()); ; {
		why, least := w.unsettled()
		if why == "" {
			return true
		}
		if least >= time.Until(end) {
			w.count("troubles left out", 1)
			w.logf("no more troubles: %s", why)
			return false
		}
		if !w.sleep(w.Window / 2) {
			return false
		}
	}
}

// now returns true time.
func (w *world) now() time.Time { return w.Start.Add(time.Since(w.begun)) }

// lasting is the duration of a state that does not end within a run.
const lasting = time.Duration(math.MaxInt64)

// unsettled returns a reason why all is not well, and how long it lasts at least. If all is well,
// the reason is empty.
func (w *world) unsettled() (why string, least time.Duration) {
	now := w.now()
	if ahead := w.proposed().Sub(now); ahead > time.Second {
		return "the watermark is ahead", ahead - time.Second
	}
	var door struct{ Open bool }
	if json.Unmarshal(w.store.get("store").Value, &door) != nil || !door.Open {
		return "the store waits for what it lost", 0
	}
	if why, least := w.store.unsettled(now); why != "" {
		return why, least
	}
	present := 0
	for _, n := range w.snapshotNodes() {
		if n.Absent {
			continue
		}
		present++
		if off := n.machine.Wall().Sub(now); off.Abs() > time.Second {
			return fmt.Sprintf("the clock of node %d is off by %v", n.id, off), lasting
		}
		if !n.isAlive() {
			return fmt.Sprintf("node %d issues no IDs", n.id), 0
		}
	}
	if present == 0 {
		return "there are no nodes", lasting
	}
	return "", 0
}

// unsettled is world.unsettled for the records in the store.
func (s *store) unsettled(now time.Time) (why string, least time.Duration) {
	w := s.w
	unused, nodes := w.Last+1, len(w.snapshotNodes())
	engine, most := s.machine.Wall(), now.Add(2*w.Window+time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.workers)) { // in order, so that each run returns the same
		is := s.workers[id]
		switch bound := last(is.record); {
		case is.record.renewed.After(engine) && is.record.State == lease.StateHeld:
			// A new reader would count its holder as alive.
			return fmt.Sprintf("worker ID %d was saved when the store's clock was ahead", id), 0
		case is.record.State == lease.StateLost:
			return fmt.Sprintf("worker ID %d is lost", id), 0
		case bound.After(most):
			return fmt.Sprintf("worker ID %d is ahead", id), bound.Sub(most)
		}
		if is.saved.Token != "" {
			unused--
		}
	}
	switch {
	case w.Reuse == lease.ReuseOnce && unused < 16+nodes:
		return "worker IDs are used up", lasting
	case w.Reuse == lease.ReuseKeep && (unused < 2 || nodes > len(w.Nodes)):
		return "worker IDs are kept", lasting
	}
	return "", 0
}

// last returns the latest bound of a record.
func last(r record) (bound time.Time) {
	for _, b := range r.Bounds {
		bound = times.Later(bound, b)
	}
	return bound
}

// slack is the time that a step of the protocol may take in addition to windows: for the network,
// for timers, and for the gaps between a node's calls.
func (w *world) slack() time.Duration {
	slowest := max(w.slowest, 200*ms)
	if w.isWiped() {
		slowest = max(slowest, time.Second)
	}
	return time.Second + 20*w.Layout.Unit + 4*slowest + 40*(w.Network+w.Late)
}

// endure applies a trouble and checks its limits. It returns false if the run ends.
func (w *world) endure(t Event, r *reader) bool {
	v := &vigil{trouble: t, victim: w.victim(t), reader: r, begun: time.Now(), ends: make(chan struct{})}
	w.logf("EVENT: trouble: %v", t)
	w.count("troubles", 1)
	w.wg.Go(func() { r.reads(v) })
	defer func() {
		close(v.ends)
		for _, p := range v.others {
			if t.Kind == FullRange {
				p.kill("crash")
			} else {
				w.wg.Go(p.release)
			}
		}
	}()
	if !w.befalls(v) {
		return false
	}
	v.mu.Lock()
	v.over = time.Now()
	v.mu.Unlock()
	w.logf("EVENT: node %d: the cause of the trouble is over", v.victim.id)
	switch {
	case t.Kind == ShortStarts && v.filled:
		v.comes(w, w.Window/2)
	case t.Kind != FullRange && t.Kind != ShortStarts && w.mayStart(0):
		v.comes(w, w.longest())
	}
	l := limitsOf(t.Kind)
	most := max(l.Issue.of(w), l.Start.of(w), l.Watermark.of(w)) + w.more(l) + 3*w.slack()
	for {
		if !w.sleep(w.Window / 4) {
			return false
		}
		if why := v.lateness(w, l); why != "" {
			w.fail("bound", "%s: %s", t.Kind, why)
			return false
		}
		if v.isWell(w) || time.Since(v.over) > most+2*w.Window {
			break
		}
	}
	v.measure(w)
	return true
}

// comes starts a newcomer, which asks for a worker ID until it gets one. limit bounds each attempt.
func (v *vigil) comes(w *world, limit time.Duration) {
	v.mu.Lock()
	v.awaited = true
	v.mu.Unlock()
	owner := newcomer
	if w.Reuse != lease.ReuseKeep {
		owner = fmt.Sprintf("%s-%d", newcomer, len(v.trouble.Kind)+int(time.Since(w.begun)/time.Second))
	}
	w.wg.Go(func() {
		for !v.hasEnded() {
			p := w.stranger(owner)
			l, err := p.acquire(limit)
			if err == nil {
				v.mu.Lock()
				v.started = time.Now()
				v.mu.Unlock()
				w.logf("%v: has worker %d", p, l.Worker())
				p.generates(l)
				ctx, cancel := context.WithTimeout(context.Background(), w.Window)
				defer cancel()
				_ = l.Release(ctx)
				p.kill("ends")
				return
			}
			w.logf("%v: cannot begin: %v", p, err)
			p.kill("ends")
			v.mu.Lock()
			v.why = err
			v.mu.Unlock()
			if !w.sleep(w.up(w.Window / 8)) {
				return
			}
		}
	})
}

func (v *vigil) hasEnded() bool { return isClosed(v.ends) }

// isIn reports whether the newcomer has got a worker ID.
func (v *vigil) isIn() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.started.IsZero()
}

// nobody ends the wait for a newcomer.
func (v *vigil) nobody() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.awaited = false
}

// steady returns the time since which a node has issued IDs without a gap, or zero if it issues
// none now; the time of its last ID; and the error of its last call.
func (n *node) steady(w *world) (since, last time.Time, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	since, last = n.backAt, n.issuedAt
	if time.Since(last) > n.tolerance() {
		since = time.Time{}
	}
	return since, last, n.lastErr
}

// tolerance is the longest time between IDs that is not a gap.
func (n *node) tolerance() time.Duration { return n.w.Window/3 + n.w.slack() }

// afterwards returns the time from one instant to another, or 0 if at is the earlier one.
func afterwards(at, from time.Time) time.Duration { return max(0, at.Sub(from)) }

// more returns the additional time of a trouble if there are few more worker IDs than processes. A
// holder that could not put its record back may leave the mark, and the wait for that record only
// begins when the store is open again.
func (w *world) more(l Limits) time.Duration {
	if l.Issue.Plus > 0 && w.Last+1 < 2*len(w.snapshotNodes())+2 {
		return healed
	}
	return 0
}

// lateness returns the limit that is broken, if any.
func (v *vigil) lateness(w *world, l Limits) string {
	since, slack := time.Since(v.over), w.slack()
	for _, n := range w.snapshotNodes() {
		if n.Absent {
			continue
		}
		most := l.Issue.of(w) + w.more(l) + slack
		if l.Alone && n.machine != v.victim.machine {
			most = 0
		}
		steady, last, err := n.steady(w)
		switch {
		case steady.IsZero() && since > most, steady.After(v.begun) && (steady.Sub(v.over) > most || l.Watermark.Lag):
			return fmt.Sprintf("%v after the cause's end, node %d has issued without a gap since %v, and last %v ago (0: it does not issue): %v",
				since, n.id, afterwards(steady, w.begun), time.Since(last), err)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if started := v.started; v.awaited && started.IsZero() && since > l.Start.of(w)+w.more(l)+slack {
		return fmt.Sprintf("%v after the cause's end, no newcomer has a worker ID: %v; %s", since, v.why, w.holders())
	}
	from, most := v.over, l.Watermark.of(w)+slack
	switch {
	case l.Watermark.Lag:
		from, most = v.begun, 0
	case v.trouble.Kind == Kills:
		from = v.begun
	}
	if v.late.Sub(from) > most {
		return fmt.Sprintf("%v after the cause's end, the watermark was late %v ago: %s; %s", since, time.Since(v.late),
			v.because, w.holders())
	}
	return ""
}

// holders describes the records in the store.
func (w *world) holders() string {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	var all []string
	for id, is := range w.store.workers {
		if is.record.State == lease.StateHeld || is.record.State == lease.StateLost {
			all = append(all, fmt.Sprintf("worker %d: %v, last saved %v ago", id, is.record, w.store.machine.Wall().Sub(is.record.renewed)))
		}
	}
	slices.Sort(all)
	return fmt.Sprintf("in the store, where it is %s: %v", w.store.machine.Wall().Format(timeFormat), all)
}

// isWell reports whether all has been well for two windows.
func (v *vigil) isWell(w *world) bool {
	before := time.Now().Add(-2*w.Window - w.slack())
	if v.over.After(before) {
		return false
	}
	for _, n := range w.snapshotNodes() {
		if since, _, _ := n.steady(w); !n.Absent && (since.IsZero() || since.After(before)) {
			return false
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return (!v.awaited || !v.started.IsZero()) && v.late.Before(before)
}

// measure records the times of a trouble, if the run is comparable: with windows of 3 s, short
// ticks and a fast network.
func (v *vigil) measure(w *world) {
	rolls := limitsOf(v.trouble.Kind).Watermark.Lag
	if w.Window != 3*time.Second && !rolls || w.Layout.Unit > 10*ms || w.Network > ms || w.Late > ms {
		return
	}
	worst := Took{}
	for _, n := range w.snapshotNodes() {
		if since, _, _ := n.steady(w); !n.Absent && since.After(v.begun) {
			worst.Issue = max(worst.Issue, since.Sub(v.over))
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	worst.Runs = 1
	worst.Start = afterwards(v.started, v.over)
	from := v.over
	if v.trouble.Kind == Kills {
		from = v.begun
	}
	worst.Watermark = afterwards(v.late, from)
	if rolls {
		worst.Watermark = v.lag
	}
	w.found.Worst.add(v.trouble.Kind, worst)
}

// Took has the longest times measured of a trouble, as in Limits, with windows of 3 s or, in
// deployments and growth, 30 s.
type Took struct {
	Runs                    int // the number of measurements
	Issue, Start, Watermark time.Duration
}

// Worst has the longest times of each trouble.
type Worst map[Kind]Took

func (m Worst) add(t Kind, o Took) {
	is := m[t]
	m[t] = Took{is.Runs + o.Runs, max(is.Issue, o.Issue), max(is.Start, o.Start), max(is.Watermark, o.Watermark)}
}

// Add adds the measurements of other runs.
func (m Worst) Add(o Worst) {
	for t, took := range o {
		m.add(t, took)
	}
}
