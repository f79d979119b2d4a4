//go:build go1.25

package snowflake

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/contract"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/times"
)

var (
	seeds = flag.Int("seeds", depth.Of(400, 2000), "how many random histories TestModel runs")
	seed  = flag.Int("seed", -1, "the one random history that TestModel runs")
)

// TestModel compares the generator with the reference of reference_test.go, with
// random layouts, clocks, policies, leases and callers. For each call, the reference
// says which IDs or which error it gets, and when it returns. The test also checks,
// without the reference, that every ID is new, above Options.After and within the
// lease's grants.
//
// No two things happen at the same instant: of two alarms, the second is delayed by a nanosecond.
// So there is one right answer for each call.
//
// A history has several lives: after each, a new generator resumes with After or
// with the next window of the lease, as after a crash.
func TestModel(t *testing.T) {
	from, to := 0, *seeds
	if *seed >= 0 {
		from, to = *seed, *seed+1
	}
	defer func(dice func(int64) int64, nap func(time.Duration), timer func(time.Duration) *time.Timer) {
		randomN, sleep, newTimer = dice, nap, timer
	}(randomN, sleep, newTimer)
	total := outcomes{}
	for s := from; s < to && !t.Failed(); s++ {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("replay with: go test -run TestModel -seed %d", s)
				}
			}()
			h := newHistory(t, s)
			defer func() { // also if the test has failed
				if h.clock != nil {
					h.clock.set(time.Hour, 100)
				}
				h.wg.Wait()
			}()
			for h.begin() {
				h.live()
			}
			total.add(h.outcomes)
		})
	}
	t.Logf("%+v", total)
	if *seed < 0 && !t.Failed() {
		total.requireAll(t)
	}
}

// outcomes counts events, to show that the test covered them.
type outcomes map[string]int

var expected = []string{
	"ids", "deadline", "canceled", "clock backward", "time exhausted", "before epoch", "lease expired", "bumps",
	"rewinds", "bumps and rewinds after After", "borrowed", "waits", "asked to extend", "worker replaced",
	"stopped", "skips", "floors", "looks", "built-in clock", "random start",
}

func (o outcomes) add(p outcomes) {
	for name, n := range p {
		o[name] += n
	}
}

func (o outcomes) requireAll(t *testing.T) {
	for _, name := range expected {
		require.Greaterf(t, o[name], *seeds/20, "%s: hardly happened", name)
	}
}

// alarms are the instants at which a sleep, a context or another wait ends.
type alarms struct {
	mu  sync.Mutex
	set map[time.Time]bool
}

// next returns the first instant from at on that has no alarm yet, and sets one.
func (a *alarms) next(at time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.set[at] {
		at = at.Add(1)
	}
	a.set[at] = true
	return at
}

// after returns the length of a wait of d, up to its alarm.
func (a *alarms) after(d time.Duration) time.Duration {
	now := time.Now()
	return a.next(now.Add(d)).Sub(now)
}

// skewedClock runs at rate percent of the bubble's time, from reading at since.
type skewedClock struct {
	mu      sync.Mutex
	since   time.Time
	reading time.Time
	rate    time.Duration
}

func (c *skewedClock) Now() time.Time { return c.at(time.Now()) }

// at returns the clock's reading at a time of the bubble.
func (c *skewedClock) at(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reading.Add(now.Sub(c.since) * c.rate / 100)
}

// set makes it read now plus d, and run at rate from here on.
func (c *skewedClock) set(d, rate time.Duration) {
	reading := c.Now().Add(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading, c.since, c.rate = reading, time.Now(), rate
}

// builtinModel is a built-in clock. If the wall clock was set back, it is ahead of the bubble's time
// until it has absorbed the difference, or has noticed a step.
type builtinModel struct {
	steady bool
	anchor time.Time
	ahead  time.Duration
}

func (c *builtinModel) at(now time.Time) time.Time {
	passed := now.Sub(c.anchor)
	ahead := max(0, c.ahead-passed/4)
	if !c.steady && passed >= 50*ms {
		if ahead > 10*ms {
			ahead = 0
		}
		c.anchor, c.ahead = now, ahead
	}
	return now.Add(ahead).Round(0).UTC()
}

// script is a lease that makes its grants, step by step, from its seed.
type script struct {
	seed    uint64
	layout  Layout
	grant   Grant
	extends int  // of ten requests, those that extend the window; 0 if it is not an Extender
	bumps   bool // it can change the clock sequence
	workers int  // the number of worker IDs so far
	seqs    int  // the number of clock sequences of the worker ID so far
}

// hash is the script's choice of a number below n, for a grant.
func (s *script) hash(n uint64, g Grant, what string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, s.seed, g.To.UnixNano(), g.From.UnixNano(), g.Worker, g.ClockSeq, what)
	return h.Sum64() % n
}

// takes returns the length of a call that extends g.
func (s *script) takes(g Grant) time.Duration {
	if s.hash(2, g, "at once") == 0 {
		return 0
	}
	return 1 + time.Duration(s.hash(uint64(30*ms), g, "takes"))
}

var errAway = errors.New("the store is away")

func (s *script) extend(g Grant, now time.Time) error {
	if s.grant != g {
		return nil
	}
	switch s.hash(10, g, "extend") {
	case 0:
		return errAway
	case 1:
		return nil // although it has not extended
	case 2:
		s.replace(now)
	default:
		s.grant.To = times.Later(g.To, now).Add(time.Duration(s.hash(uint64(20*s.layout.Unit), g, "grow")))
	}
	return nil
}

// replace changes to a worker ID that was not used before, if there is one.
func (s *script) replace(now time.Time) {
	if s.workers == 1<<s.layout.WorkerBits {
		return
	}
	from := now.Add(time.Duration(s.hash(uint64(10*ms), s.grant, "from")) - 5*ms)
	if s.hash(8, s.grant, "far") == 0 {
		from = from.Add(time.Hour)
	}
	s.grant = Grant{
		Worker:   (s.grant.Worker + 1) % (1 << s.layout.WorkerBits),
		ClockSeq: 0,
		From:     from,
		To:       from.Add(time.Duration(s.hash(uint64(20*s.layout.Unit), s.grant, "to"))),
	}
	s.workers++
	s.seqs = 1
}

func (s *script) canBump(now time.Time) bool { return s.seqs < 1<<s.layout.ClockSeqBits }

func (s *script) bump(g Grant, now time.Time) {
	if s.grant != g || !s.canBump(now) {
		return
	}
	s.grant.ClockSeq = (g.ClockSeq + 1) % (1 << s.layout.ClockSeqBits)
	s.grant.From = now
	s.grant.To = now.Add(time.Duration(s.hash(uint64(20*s.layout.Unit), g, "bump")))
	s.seqs++
}

// scripted is the Lease that plays a script.
type scripted struct {
	contract.Private[Layout]
	mu    sync.Mutex
	s     script
	given []Grant // all grants
	asked int     // requests to extend
	bound binding
}

func (l *scripted) Grant() Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.given, l.s.grant) {
		l.given = append(l.given, l.s.grant)
	}
	return l.s.grant
}

func (l *scripted) do(f func(*script)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.s)
}

func (l *scripted) extend(ctx context.Context, g Grant, now time.Time) (err error) {
	if d := l.s.takes(g); d > 0 {
		timer := newTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.do(func(s *script) { l.asked++; err = s.extend(g, now) })
	return err
}

func (l *scripted) canBump(now time.Time) (can bool) {
	l.do(func(s *script) { can = s.canBump(now) })
	return can
}

func (l *scripted) bump(g Grant, now time.Time) error {
	l.do(func(s *script) { s.bump(g, now) })
	return nil
}

// able returns l as a Lease that has only the methods that the script allows.
func (l *scripted) able() Lease {
	l.Private = contract.Keep(&terms{Bind: func(b binding) error { l.bound = b; return nil }})
	switch {
	case l.s.extends > 0 && l.s.bumps:
		return struct {
			*scripted
			scriptedExtender
			scriptedBumper
		}{l, scriptedExtender{l}, scriptedBumper{l}}
	case l.s.extends > 0:
		return struct {
			*scripted
			scriptedExtender
		}{l, scriptedExtender{l}}
	case l.s.bumps:
		return struct {
			*scripted
			scriptedBumper
		}{l, scriptedBumper{l}}
	}
	return l
}

type scriptedExtender struct{ l *scripted }

func (e scriptedExtender) Extend(ctx context.Context, g Grant, now time.Time) error {
	return e.l.extend(ctx, g, now)
}

type scriptedBumper struct{ l *scripted }

func (b scriptedBumper) CanBump(now time.Time) bool { return b.l.canBump(now) }

func (b scriptedBumper) Bump(_ context.Context, g Grant, now time.Time) error {
	return b.l.bump(g, now)
}

// modelCall is a call of the real generator, and of the reference.
type modelCall struct {
	n        int
	granted  int             // the grants before this one were taken back before it began
	above    ID              // the Options.After of the last New before it began
	ctx      context.Context // nil: NextID
	began    time.Time
	ids      []ID
	err      error
	done     atomic.Bool // set last of these
	returned time.Time
	want     refCall
}

// history is one random run.
type history struct {
	t    *testing.T
	r    *rand.Rand
	s    int
	opts Options

	clock   *skewedClock  // if it is the user's own
	builtin *builtinModel // else
	lease   *scripted     // or nil
	g       *Generator
	ref     *reference
	alarms  alarms // of the generator's calls, and of the test
	wg      sync.WaitGroup

	mu    sync.Mutex // guards asked
	asked []Backward

	lives   int
	calls   []*modelCall // of this life
	open    []*modelCall // the calls that have not returned
	seen    map[ID]bool
	max     ID
	skips   *rand.Rand
	above   ID   // the Options.After of the last New
	failed  bool // the last call got no IDs
	granted int  // the lease has taken back the grants before this one
	outcomes
}

const testWorker = 1

func newHistory(t *testing.T, s int) *history {
	r := rand.New(rand.NewPCG(uint64(s), 1))
	pick := func(n int) uint8 { return uint8(r.IntN(n + 1)) }
	layout := Layout{
		Unit:           []time.Duration{300 * time.Microsecond, ms, ms, ms, 7 * ms / 2, 10 * ms, time.Second}[r.IntN(7)],
		ClockSeqBits:   pick(3),
		DatacenterBits: pick(2),
		WorkerBits:     1 + pick(3),
		SequenceBits:   pick(4),
		WorkerLast:     r.IntN(3) == 0,
	}
	mixed := r.IntN(5) < 2
	if mixed {
		layout.ClockSeqBits = max(layout.ClockSeqBits, 1)
	}
	layout.TimeBits = uint8(20 + r.IntN(26))
	if r.IntN(8) == 0 {
		layout.TimeBits = uint8(5 + r.IntN(10))
	}
	if r.IntN(4) == 0 {
		layout.TimeBits = uint8(63 - layout.bits() + int(layout.TimeBits))
		layout.Unit = min(layout.Unit, ms)
	}
	h := &history{t: t, r: r, s: s, seen: map[ID]bool{}, max: -1, lives: 1 + r.IntN(3), outcomes: outcomes{}}
	h.skips = rand.New(rand.NewPCG(uint64(s), 2))
	start := noon.Add(time.Duration(r.Int64N(1e9)))
	if r.IntN(4) == 0 {
		start = time.Now()
		h.builtin = &builtinModel{steady: r.IntN(3) == 0}
		h.opts.Clock = SystemClock()
		if h.builtin.steady {
			h.opts.Clock = MonotonicClock()
		}
	} else {
		h.clock = &skewedClock{since: time.Now(), reading: start, rate: 100}
		h.opts.Clock = h.clock
	}
	// The epoch is such that the start comes early, late or anywhere in the layout.
	span := min(layout.Expires().Sub(layout.Epoch.Time()), 100*365*24*time.Hour)
	back := time.Duration(r.Int64N(int64(span)/2 + 1))
	switch r.IntN(8) {
	case 0:
		back = min(span/2, randomDuration(r))
	case 1:
		back = max(span/2, span-min(span, randomDuration(r)*time.Duration(1+r.IntN(2)*1000)))
	}
	layout.Epoch = EpochAt(start.Add(-back)) - 1
	h.opts.Layout = layout
	h.opts.RandomStart = layout.SequenceBits > 0 && r.IntN(8) == 0
	if r.IntN(3) == 0 {
		h.opts.BorrowAhead = min(randomDuration(r), 50*layout.Unit, span/2)
	}
	if r.IntN(2) == 0 {
		h.opts.RewindTicks = 1 + r.IntN(20)
	}
	if layout.DatacenterBits > 0 {
		h.opts.Datacenter = 1
	}
	if r.IntN(3) == 0 {
		h.opts.After = h.randomAfter(start, r)
	}
	if r.IntN(3) == 0 {
		from := start.Add(-randomDuration(r))
		h.lease = &scripted{s: script{
			seed:    r.Uint64(),
			layout:  layout,
			grant:   Grant{Worker: testWorker, From: from.Round(0).UTC(), To: start.Add(h.randomSpan()).Round(0).UTC()},
			extends: r.IntN(3) % 2,
			workers: 1,
			seqs:    1,
		}}
		h.lease.s.bumps = h.lease.s.extends > 0 && layout.ClockSeqBits > 0 && r.IntN(2) == 0
	}
	if mixed {
		h.opts.RewindTicks = 1 + r.IntN(50)
		h.lease = nil
	}
	h.randomPolicy(mixed)
	return h
}

// randomDuration returns a microsecond to half an hour, each order of magnitude equally likely, and
// never a whole number of ticks.
func randomDuration(r *rand.Rand) time.Duration {
	const µs = time.Microsecond
	n := 1 + r.Int64N(1999)
	magnitude := []time.Duration{µs, 10 * µs, 100 * µs, ms, 10 * ms, time.Second}[r.IntN(6)]
	return time.Duration(n)*magnitude + time.Duration(r.Int64N(999))
}

// randomSpan returns a few ticks, and never a whole number of them.
func (h *history) randomSpan() time.Duration {
	return 1 + time.Duration(h.r.Int64N(int64(h.opts.Layout.Unit)*int64(1+h.r.IntN(20))))
}

// maxAgreed is the longest wait that a policy agrees to. If the clock stops during the wait, it is
// read 10,000 times a second for as long again.
const maxAgreed = 300 * ms

// randomPolicy chooses a policy. Some policies answer at random, but always give the same answer to
// the same question.
func (h *history) randomPolicy(mixed bool) {
	s := h.r.Uint64()
	var policy BackwardPolicy
	kind := h.r.IntN(7)
	if mixed {
		kind = 6
	}
	switch kind {
	case 0:
		policy = defaultPolicy
	case 1:
		policy = FailPolicy()
	case 2, 3:
		policy = WaitPolicy(min(randomDuration(h.r), maxAgreed))
	case 4:
		policy = ClockSeqPolicy()
		if h.opts.Layout.ClockSeqBits == 0 || h.lease != nil && !h.lease.s.bumps {
			policy = nil
		}
	case 5:
		policy = RewindPolicy()
		h.opts.RewindTicks = max(h.opts.RewindTicks, 1)
	default:
		policy = BackwardFunc(func(b Backward) Action {
			if b.By() < 0 {
				panic("the clock is not behind")
			}
			choice := rand.New(rand.NewPCG(s, uint64(b.Now.UnixNano()))).IntN(10)
			switch {
			case choice < 4 && b.CanBump:
				return ActionBump
			case choice < 7 && b.CanRewind:
				return ActionRewind
			case choice < 9 && b.By() < maxAgreed:
				return ActionWait
			}
			return ActionFail
		})
	}
	h.opts.OnBackward = policy
}

// randomAfter returns an ID of any worker, with a time near start.
func (h *history) randomAfter(start time.Time, r *rand.Rand) ID {
	at := start.Add(randomDuration(r) * time.Duration(r.IntN(3)-1))
	id, err := h.opts.Layout.Encode(Parts{Time: at})
	if err != nil {
		return 0
	}
	return id + ID(r.Int64N(1<<h.opts.Layout.timeShift()))
}

// begin makes a generator, after a crash the next one, if the history has one more life.
func (h *history) begin() bool {
	if h.lives--; h.lives < 0 {
		return false
	}
	if h.max >= 0 {
		h.opts.After = h.max
	}
	h.asked, h.calls = nil, nil
	opts := h.opts
	if asked := opts.OnBackward; asked != nil {
		opts.OnBackward = BackwardFunc(func(b Backward) Action {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.asked = append(h.asked, b)
			return asked.OnBackward(b)
		})
	}
	var err error
	if h.lease == nil {
		h.g, err = New(testWorker, &opts)
	} else {
		if g := &h.lease.s.grant; h.g != nil { // the next holder's
			from := g.To
			for _, given := range h.lease.given {
				from = times.Later(from, given.To)
			}
			g.From, g.To = from, from.Add(h.randomSpan())
			if h.r.IntN(2) == 0 {
				opts.After = 0
				h.opts.After = 0
			}
		}
		h.g, err = NewLeased(h.lease.able(), &opts)
	}
	if errors.Is(err, ErrTimeExhausted) || errors.Is(err, ErrBeforeEpoch) {
		return false
	}
	require.NoErrorf(h.t, err, "%+v", h.opts)
	h.above = opts.After
	read := func(at time.Time) time.Time { return h.clock.at(at) }
	if h.builtin != nil {
		h.builtin.anchor, h.builtin.ahead = time.Now(), 0
		read = h.builtin.at
		h.outcomes["built-in clock"]++
	}
	worker := testWorker
	var lease *script
	if h.lease != nil {
		s := h.lease.s
		lease, worker = &s, s.grant.Worker
	}
	dice := func() func(int64) int64 { return rand.New(rand.NewPCG(uint64(h.s), uint64(h.lives))).Int64N }
	randomN = dice()
	h.alarms = alarms{set: map[time.Time]bool{}}
	sleep = func(d time.Duration) { time.Sleep(h.alarms.after(d)) }
	newTimer = func(d time.Duration) *time.Timer { return time.NewTimer(h.alarms.after(d)) }
	h.ref = newReference(&h.opts, worker, lease, read, dice())
	if opts.RandomStart {
		h.outcomes["random start"]++
	}
	h.outcomes["lives"]++
	return true
}

// live is the life of one generator.
func (h *history) live() {
	restless := []int{0, 6, 12, 18}[h.r.IntN(4)] // of 30
	for range 40 {
		gap := 1 + time.Duration(h.r.Int64N(int64(h.opts.Layout.Unit))/[]int64{1, 8, 64}[h.r.IntN(3)])
		if h.r.IntN(6) == 0 {
			gap = randomDuration(h.r)
		}
		h.pass(gap)
		switch kind := h.r.IntN(30); {
		case kind < restless:
			h.skew(kind % 6)
		case kind < restless+3 && restless > 0 && h.failed:
			h.skew(5)
		case kind > 24 && h.lease != nil:
			h.renew()
		}
		if h.s%4 == 1 && h.lease == nil && h.skips.IntN(8) == 0 {
			h.skip()
		}
		for range []int{0, 1, 1, 2, 4, 8}[h.r.IntN(6)] {
			h.call()
		}
	}
	for n := 1; len(h.open) > 0; n++ {
		if n%1000 == 0 && h.clock != nil {
			// Otherwise calls would wait for a slow clock for hours.
			h.clock.set(time.Second, 100)
		}
		next, more := h.ref.next()
		require.True(h.t, more, "the reference leaves somebody waiting")
		h.pass(time.Until(next) + 1)
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	h.end()
}

// pass lets time pass.
func (h *history) pass(d time.Duration) {
	d = h.alarm(d)
	h.ref.advance(time.Now().Add(d))
	time.Sleep(d)
	synctest.Wait()
	h.compare()
}

// alarm returns the length of a wait of the test, d or a little more.
func (h *history) alarm(d time.Duration) time.Duration {
	d = h.alarms.after(d)
	h.ref.alarms.set[time.Now().Add(d)] = true
	return d
}

// compare compares the calls with the reference's.
func (h *history) compare() {
	h.open = slices.DeleteFunc(h.open, func(c *modelCall) bool {
		w := &c.want
		agree := c.done.Load() == w.done
		if agree && w.done {
			agree = errors.Is(c.err, w.err) && (w.err != nil || c.err == nil) &&
				c.returned.Equal(w.returned) && slices.Equal(c.ids, w.ids)
		}
		if !agree {
			require.FailNowf(h.t, "The reference says otherwise",
				"of call %d, for %d IDs, %v after it began:\n%v after %v: %v, %v\n%v after %v: %v, %v\n%v\n%+v",
				slices.Index(h.calls, c), c.n, time.Since(c.began),
				w.done, w.returned.Sub(c.began), w.err, w.ids, c.done.Load(), c.returned.Sub(c.began), c.err, c.ids, h.opts.Layout, h.opts)
		}
		return c.done.Load()
	})
}

// skew sets the clock.
func (h *history) skew(kind int) {
	unit := int64(h.opts.Layout.Unit)
	if h.builtin != nil {
		h.builtin.ahead = min(randomDuration(h.r), 2*time.Second)
		h.g.lock()
		h.g.wall.ahead = int32(h.builtin.ahead)
		h.g.until.Store(noTick)
		h.g.unlock()
		return
	}
	switch kind {
	case 0:
		h.clock.set(-randomDuration(h.r), h.clock.rate)
	case 1:
		h.clock.set(randomDuration(h.r), h.clock.rate)
	case 2:
		h.clock.set(0, []time.Duration{0, 30, 60, 100, 100, 200}[h.r.IntN(6)])
	case 3, 4:
		h.clock.set(-time.Duration(h.r.Int64N(5*unit)), h.clock.rate)
	case 5: // the clock is right again
		to := h.opts.Layout.Decode(h.g.seq.nextID).Time
		if d := to.Sub(h.clock.Now()); max(d, -d) < 24*time.Hour {
			h.clock.set(d+time.Duration(h.r.Int64N(3*unit)), 100)
		}
	}
}

// skip does what New does with Options.After if the process has the generator.
func (h *history) skip() {
	o := h.opts
	reading := time.Now()
	if h.clock != nil {
		reading = h.clock.Now()
	}
	o.After = h.randomAfter(reading, h.skips)
	err := h.g.continueAfter(&o)
	if o.After > 0 && h.ref.continueAfter(o.After) {
		require.NoError(h.t, err)
		h.above = max(h.above, o.After)
		h.outcomes["skips"]++
	}
}

// renew changes the lease, or asks the generator as a lease does.
func (h *history) renew() {
	if h.ref.stopped {
		return
	}
	now := time.Now()
	if h.clock != nil {
		now = h.clock.Now()
	}
	now = now.Round(0).UTC()
	d, look := h.randomSpan(), h.r.IntN(4) == 0
	change := func(s *script) { s.grant.To = times.Later(s.grant.To, now).Add(d) }
	switch h.r.IntN(10) {
	case 0:
		change = func(s *script) { s.replace(now) }
	case 1: // lost, and taken again
		change = func(s *script) { s.grant.From, s.grant.To = s.grant.To, s.grant.To.Add(d) }
	case 2: // part of the window is closed
		look = true
		change = func(s *script) { s.grant.From, s.grant.To = s.grant.From.Add(d/2), s.grant.To.Add(d) }
	case 3:
		if h.r.IntN(2) == 0 {
			h.outcomes["stopped"]++
			end := h.lease.bound.Stop(errAway)
			require.Equal(h.t, h.ref.start(h.ref.stamped+1), end, "when the generator says that it stopped")
			h.ref.stop()
			h.pass(1)
			return
		}
	case 4, 5:
		h.outcomes["floors"]++
		require.Equal(h.t, h.ref.floor(), h.lease.bound.Floor(), "the floor")
		return
	}
	h.lease.do(change)
	change(h.ref.lease)
	if look {
		h.outcomes["looks"]++
		h.lease.bound.Look()
		h.granted = slices.Index(h.lease.given, h.lease.s.grant)
		h.ref.look(nil)
		h.ref.newEra()
	}
}

// call begins a call.
func (h *history) call() {
	c := &modelCall{n: 1, granted: h.granted, above: h.above, began: time.Now()}
	kind := h.r.IntN(6)
	if kind == 3 || kind < 3 && h.r.IntN(3) == 0 {
		c.n = h.r.IntN(40)
	}
	if kind < 4 {
		c.ctx = context.Background()
	}
	cancel := func() {}
	switch limit := h.alarm(h.randomLimit()); kind {
	case 0, 1:
		c.ctx, cancel = context.WithTimeout(c.ctx, limit)
		c.want = refCall{ends: c.began.Add(limit), with: context.DeadlineExceeded, deadline: true}
	case 2:
		c.ctx, cancel = context.WithCancel(c.ctx)
		time.AfterFunc(limit, cancel)
		c.want = refCall{ends: c.began.Add(limit), with: context.Canceled}
	}
	c.want.want = c.n
	h.calls, h.open = append(h.calls, c), append(h.open, c)
	h.wg.Go(func() {
		defer cancel()
		c.ids, c.err = h.issue(c)
		c.returned = time.Now()
		c.done.Store(true)
	})
	synctest.Wait()
	h.failed = c.done.Load() && len(c.ids) == 0
	h.ref.call(&c.want)
	h.compare()
}

// randomLimit returns the time until a call's deadline.
func (h *history) randomLimit() time.Duration {
	if h.r.IntN(3) == 0 {
		return randomDuration(h.r)
	}
	return 1 + time.Duration(h.r.Int64N(int64(8*h.opts.Layout.Unit)))
}

// issue calls one of the generator's methods.
func (h *history) issue(c *modelCall) ([]ID, error) {
	if c.n != 1 {
		dst := make([]ID, c.n)
		n, err := h.g.Fill(c.ctx, dst)
		return dst[:n:n], err
	}
	var id ID
	var err error
	if c.ctx == nil {
		id, err = h.g.NextID()
	} else {
		id, err = h.g.NextIDContext(c.ctx)
	}
	if err != nil {
		return nil, err
	}
	return []ID{id}, nil
}

// end checks all that a generator has done.
func (h *history) end() {
	h.open = nil
	stats := h.g.Stats()
	if h.opts.OnBackward != nil {
		require.Equal(h.t, len(h.ref.asked), len(h.asked))
		require.Equal(h.t, fmt.Sprint(h.ref.asked), fmt.Sprint(h.asked), "what the policy was asked")
	}
	require.Equal(h.t, []any{h.ref.bumps, h.ref.rewinds, h.ref.borrowed, h.ref.waits, h.ref.waited},
		[]any{stats.Bumps, stats.Rewinds, stats.Borrowed, stats.Waits, stats.Waited})
	if h.lease != nil {
		require.Equal(h.t, h.ref.lease.grant, h.lease.s.grant)
		h.outcomes["worker replaced"] += h.lease.s.workers - 1
		h.outcomes["asked to extend"] += h.lease.asked
	}
	if h.opts.OnBackward != nil {
		require.EqualValues(h.t, len(h.asked), stats.Backward)
	}
	h.outcomes["bumps"] += int(stats.Bumps)
	h.outcomes["rewinds"] += int(stats.Rewinds)
	h.outcomes["borrowed"] += int(stats.Borrowed)
	h.outcomes["waits"] += int(stats.Waits)
	if stats.Bumps*stats.Rewinds > 0 && h.opts.After > 0 {
		h.outcomes["bumps and rewinds after After"]++
	}
	if w := h.g.seq.slots; w != nil {
		require.Zero(h.t, w.total, "IDs are held for nobody")
	}
	total := 0
	for _, c := range h.calls {
		require.True(h.t, c.done.Load(), "a call waits without end")
		for name, err := range map[string]error{
			"deadline": context.DeadlineExceeded, "canceled": context.Canceled, "clock backward": ErrClockBackward,
			"time exhausted": ErrTimeExhausted, "before epoch": ErrBeforeEpoch, "lease expired": ErrLeaseExpired,
		} {
			if errors.Is(c.err, err) {
				h.outcomes[name]++
			}
		}
		for _, id := range c.ids {
			h.check(c, id)
		}
		total += len(c.ids)
	}
	require.EqualValues(h.t, total, stats.Issued)
}

func (h *history) check(c *modelCall, id ID) {
	if h.seen[id] || id <= c.above {
		require.FailNowf(h.t, "An ID is issued twice, or is not above After", "%d, above %d", id, c.above)
	}
	h.seen[id] = true
	h.outcomes["ids"]++
	h.max = max(h.max, id)
	if h.lease == nil {
		return
	}
	p := h.g.Decode(id)
	given := h.lease.given[c.granted:]
	if !slices.ContainsFunc(given, func(g Grant) bool {
		return g.Worker == p.Worker && g.ClockSeq == p.ClockSeq && !p.Time.Before(g.From) && p.Time.Before(g.To)
	}) {
		require.FailNowf(h.t, "An ID was not granted, or was taken back before the call began", "%+v: %+v", p, given)
	}
}
