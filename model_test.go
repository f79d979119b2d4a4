package snowflake

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seeds = flag.Int("seeds", 2000, "how many random histories TestModel runs")
	seed  = flag.Int("seed", -1, "the one random history that TestModel runs")
)

// TestModel holds the generator against the reference below, under random
// layouts, clocks, policies and calls. What the reference says of each call is
// compared: the IDs, the error and the time that passed. Beside that, and
// without the reference, every ID is checked to be new, in order where that is
// promised, within its fields and true to the clock, and every call that is
// refused to have changed nothing.
func TestModel(t *testing.T) {
	from, to := 0, *seeds
	if *seed >= 0 {
		from, to = *seed, *seed+1
	}
	var total outcomes
	for s := from; s < to; s++ {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("replay with: go test -run TestModel -seed %d", s)
				}
			}()
			h := newHistory(t, s)
			for range 100 {
				h.call()
			}
			total.add(h.outcomes)
		})
	}
	t.Logf("%+v", total)
	if *seed < 0 {
		total.requireAll(t)
	}
}

// outcomes counts what happened, so that a test of nothing is noticed.
type outcomes struct {
	ids, refused, deadline, backward, exhausted, beforeEpoch int
	bumps, rewinds, borrowed, waits                          uint64
}

func (o *outcomes) add(p outcomes) {
	o.ids += p.ids
	o.refused += p.refused
	o.deadline += p.deadline
	o.backward += p.backward
	o.exhausted += p.exhausted
	o.beforeEpoch += p.beforeEpoch
	o.bumps += p.bumps
	o.rewinds += p.rewinds
	o.borrowed += p.borrowed
	o.waits += p.waits
}

func (o *outcomes) requireAll(t *testing.T) {
	for name, n := range map[string]int{
		"ids": o.ids, "refused": o.refused, "deadline": o.deadline, "backward": o.backward,
		"exhausted": o.exhausted, "beforeEpoch": o.beforeEpoch, "bumps": int(o.bumps),
		"rewinds": int(o.rewinds), "borrowed": int(o.borrowed), "waits": int(o.waits),
	} {
		require.Greaterf(t, n, *seeds/10, "%s: hardly happened", name)
	}
}

// skewedClock runs at rate percent of the bubble's time, from reading at since.
type skewedClock struct {
	since   time.Time
	reading time.Time
	rate    time.Duration
}

func (c *skewedClock) Now() time.Time { return c.in(0) }

// in returns what the clock will read d from now.
func (c *skewedClock) in(d time.Duration) time.Time {
	return c.reading.Add((time.Since(c.since) + d) * c.rate / 100)
}

// set makes it read now plus d, and run at rate from here on.
func (c *skewedClock) set(d, rate time.Duration) {
	c.reading, c.since, c.rate = c.Now().Add(d), time.Now(), rate
}

// history is one random run.
type history struct {
	t     *testing.T
	r     *rand.Rand
	opts  Options
	clock *skewedClock
	g     *Generator
	ref   *reference
	seen  map[ID]bool
	last  ID
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
	low := layout.bits()
	layout.TimeBits = uint8(4 + r.IntN(42))
	if r.IntN(4) == 0 {
		layout.TimeBits = uint8(63 - low)
		layout.Unit = min(layout.Unit, ms)
	}
	// The epoch is such that noon comes early, late or anywhere in the layout.
	start := noon.Add(time.Duration(r.Int64N(1e9)))
	span := min(layout.Expires().Sub(layout.Epoch.Time()), 100*365*24*time.Hour)
	back := time.Duration(r.Int64N(int64(span)/2 + 1))
	switch r.IntN(4) {
	case 0:
		back = min(span/2, randomDuration(r))
	case 1:
		back = max(span/2, span-randomDuration(r))
	}
	layout.Epoch = EpochAt(start.Add(-back)) - 1

	h := &history{t: t, r: r, seen: map[ID]bool{}, last: -1, clock: &skewedClock{time.Now(), start, 100}}
	h.opts = Options{Layout: layout, Clock: h.clock, OnBackward: randomPolicy(r), RandomStart: layout.SequenceBits > 0 && r.IntN(4) == 0}
	if r.IntN(3) == 0 {
		h.opts.BorrowAhead = min(randomDuration(r), 50*layout.Unit)
	}
	if r.IntN(2) == 0 {
		h.opts.RewindTicks = 1 + r.IntN(20)
	}
	if layout.DatacenterBits > 0 {
		h.opts.Datacenter = 1
	}
	if r.IntN(3) == 0 {
		h.opts.After = h.randomAfter(start)
	}
	// What New refuses, because it would have no effect.
	switch h.opts.OnBackward.(type) {
	case clockSeqPolicy:
		if layout.ClockSeqBits == 0 {
			h.opts.OnBackward = FailPolicy()
		}
	case rewindPolicy:
		h.opts.RewindTicks = max(h.opts.RewindTicks, 1)
	}
	h.opts.BorrowAhead = min(h.opts.BorrowAhead, layout.until(instant{}, layout.maxTick()))
	g, err := New(testWorker, &h.opts)
	if errors.Is(err, ErrTimeExhausted) || errors.Is(err, ErrBeforeEpoch) {
		return newHistory(t, s+1_000_000) // noon fell outside
	}
	require.NoErrorf(t, err, "seed %d, %+v", s, h.opts)
	h.g, h.ref = g, newReference(&h.opts)
	return h
}

// randomDuration is from a microsecond to half an hour, each magnitude alike.
func randomDuration(r *rand.Rand) time.Duration {
	return time.Duration(1+r.Int64N(1999)) * []time.Duration{time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond, ms, 10 * ms, time.Second}[r.IntN(6)]
}

func randomPolicy(r *rand.Rand) BackwardPolicy {
	s := r.Uint64()
	return []BackwardPolicy{
		nil,
		FailPolicy(),
		WaitPolicy(randomDuration(r)),
		ClockSeqPolicy(),
		RewindPolicy(),
		BackwardFunc(func(b Backward) Action { // any, but the same for the same question
			a := Action(rand.New(rand.NewPCG(s, uint64(b.Now.UnixNano()))).IntN(5))
			if a == ActionWait && b.By() > time.Hour {
				return ActionFail
			}
			return a
		}),
	}[r.IntN(6)]
}

// randomAfter is an ID of any worker from around start.
func (h *history) randomAfter(start time.Time) ID {
	at := start.Add(randomDuration(h.r) * time.Duration(h.r.IntN(3)-1))
	id, err := h.opts.Layout.Encode(Parts{Time: at})
	if err != nil {
		return 0
	}
	return id + ID(h.r.Int64N(1<<h.opts.Layout.timeShift()))
}

func (h *history) call() {
	switch h.r.IntN(20) {
	case 0:
		h.clock.set(-randomDuration(h.r), h.clock.rate)
	case 1:
		h.clock.set(randomDuration(h.r), h.clock.rate)
	case 2:
		h.clock.set(0, []time.Duration{0, 30, 60, 100, 100, 200}[h.r.IntN(6)])
	case 3:
		time.Sleep(time.Duration(h.r.Int64N(int64(3 * h.opts.Layout.Unit))))
	case 4, 5, 6:
		h.clock.set(-time.Duration(h.r.Int64N(int64(5*h.opts.Layout.Unit))), h.clock.rate)
	}
	n, left := 1, time.Duration(-1)
	if kind := h.r.IntN(4); kind >= 2 {
		left = randomDuration(h.r) + 1 // off any tick, so that no two timers are due at once
		if kind == 3 {
			n = h.r.IntN(40)
		}
	}

	before := h.g.state()
	stats := h.g.Stats()
	want := h.ref.fill(n, h.clock.in, left)
	start := time.Now()
	ids, err := h.issue(n, left)
	took := time.Since(start)

	for _, id := range ids {
		h.check(id)
	}
	h.note(err)
	if len(ids) == 0 {
		h.refused += min(n, 1)
		require.Equal(h.t, before, h.g.state(), "a refused call changed something")
	}
	after := h.g.Stats()
	h.bumps += after.Bumps - stats.Bumps
	h.rewinds += after.Rewinds - stats.Rewinds
	h.borrowed += after.Borrowed - stats.Borrowed
	h.waits += after.Waits - stats.Waits
	require.EqualValues(h.t, len(ids), after.Issued-stats.Issued)
	if n == 1 && len(ids) == 1 {
		h.checkTime(ids[0])
	}
	if h.opts.RandomStart {
		return // the reference cannot tell
	}
	require.Equalf(h.t, want.ids, ids, "%v, %+v: %v", h.opts.Layout, h.opts, err)
	require.ErrorIs(h.t, err, want.err)
	require.Equalf(h.t, want.took, took, "%v, %+v, left %v, rate %d: %v", h.opts.Layout, h.opts, left, h.clock.rate, err)
}

// issue calls one of the generator's methods.
func (h *history) issue(n int, left time.Duration) ([]ID, error) {
	ctx := context.Background()
	if left >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	if n != 1 {
		dst := make([]ID, n)
		n, err := h.g.Fill(ctx, dst)
		return dst[:n:n], err
	}
	var id ID
	var err error
	if left >= 0 {
		id, err = h.g.NextIDContext(ctx)
	} else {
		id, err = h.g.NextID()
	}
	if err != nil {
		return []ID{}, err
	}
	return []ID{id}, nil
}

func (h *history) check(id ID) {
	require.Falsef(h.t, h.seen[id], "ID %d is issued twice", id)
	h.seen[id] = true
	h.ids++
	require.NoError(h.t, h.opts.Layout.Check(id))
	require.Greater(h.t, id, h.opts.After)
	p := h.g.Decode(id)
	require.Equal(h.t, testWorker, p.Worker)
	require.Equal(h.t, h.opts.Datacenter, p.Datacenter)
	if h.bumps+h.rewinds == 0 && h.g.Stats().Bumps+h.g.Stats().Rewinds == 0 {
		require.Greater(h.t, id, h.last)
	}
	h.last = id
}

// checkTime holds an ID just issued against the clock.
func (h *history) checkTime(id ID) {
	l, now, at := h.opts.Layout, h.clock.Now(), h.g.Decode(id).Time
	require.Less(h.t, now.Sub(at), l.Unit, "the timestamp is behind the clock")
	require.LessOrEqual(h.t, at.Sub(now), h.opts.BorrowAhead, "the timestamp is ahead of the clock")
}

// note counts an error, and sometimes mends the clock that is its cause.
func (h *history) note(err error) {
	if err != nil && h.r.IntN(3) == 0 {
		to := h.opts.Layout.Decode(max(h.last, 0)).Time
		h.clock.set(to.Sub(h.clock.Now())+time.Duration(h.r.Int64N(int64(3*h.opts.Layout.Unit))), 100)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		h.deadline++
	case errors.Is(err, ErrClockBackward):
		h.backward++
	case errors.Is(err, ErrTimeExhausted):
		h.exhausted++
	case errors.Is(err, ErrBeforeEpoch):
		h.beforeEpoch++
	}
}

// reference is the generator written down the slow and obvious way: it
// remembers all that was ever stamped.
type reference struct {
	o      *Options
	l      Layout
	policy BackwardPolicy
	used   map[place]int64 // sequence numbers used
	seqs   []int64         // the clock sequences used, in order of their first use
	seq    int64           // the current one
	head   int64           // the tick of the last ID
	since  int64           // ticks up to this one are closed for the current clock sequence
	after  int64           // and up to this one for those that are not in seqs
}

type place struct{ seq, tick int64 }

type result struct {
	ids  []ID
	err  error
	took time.Duration
}

func newReference(o *Options) *reference {
	r := &reference{o: o, l: o.Layout, policy: o.OnBackward, used: map[place]int64{}, seqs: []int64{0}, head: -1, since: -1, after: -1}
	if r.policy == nil {
		r.policy = WaitPolicy(10 * ms)
	}
	if o.After > 0 {
		p := r.l.Decode(o.After)
		r.seq, r.seqs = int64(p.ClockSeq), []int64{int64(p.ClockSeq)}
		r.head = r.tick(p.Time)
		r.since, r.after = r.head-1, r.head
		for at := (place{r.seq, r.head}); r.room(at) > 0 && r.id(at) <= o.After; {
			r.used[at]++
		}
		if r.used[place{r.seq, r.head}] == 0 {
			r.used[place{r.seq, r.head}] = 0 // it counts as stamped
		}
	}
	return r
}

func (r *reference) tick(t time.Time) int64 { // of a time that is not before the epoch
	return int64(t.Sub(r.l.Epoch.Time()) / r.l.Unit)
}

func (r *reference) start(tick int64) time.Time {
	return r.l.Epoch.Time().Add(time.Duration(tick) * r.l.Unit)
}

// id returns the next ID at a place.
func (r *reference) id(at place) ID {
	id, err := r.l.Encode(Parts{
		Time:       r.start(at.tick),
		ClockSeq:   int(at.seq),
		Datacenter: r.o.Datacenter,
		Worker:     testWorker,
		Sequence:   int(r.used[at]),
	})
	if err != nil {
		panic(err)
	}
	return id
}

func (r *reference) room(at place) int64 {
	if at.seq == r.seq && at.tick <= r.since {
		return 0
	}
	return 1<<r.l.SequenceBits - r.used[at]
}

func (r *reference) firstRoom(tick int64) int64 {
	for r.room(place{r.seq, tick}) == 0 && tick < r.l.maxTick() {
		tick++
	}
	return tick
}

// last returns the last tick stamped under seq.
func (r *reference) last(seq int64) int64 {
	last := r.after
	for at := range r.used {
		if at.seq == seq {
			last = max(last, at.tick)
		}
	}
	return last
}

// otherSeq returns the clock sequence to go over to at tick, or -1.
func (r *reference) otherSeq(tick int64) int64 {
	best := int64(-1)
	for _, seq := range r.seqs {
		if seq != r.seq && r.last(seq) < tick && (best < 0 || r.last(seq) > r.last(best)) {
			best = seq
		}
	}
	size := int64(1) << r.l.ClockSeqBits
	if best < 0 && int64(len(r.seqs)) < size && r.after < tick {
		best = (r.seqs[0] + int64(len(r.seqs))) % size
	}
	return best
}

func (r *reference) canRewind(tick int64) bool {
	return r.o.RewindTicks > 0 && tick < r.head && tick > r.since && tick >= max(r.last(r.seq), r.head)-int64(r.o.RewindTicks)
}

// fill says what a call for n IDs gives whose clock reads now(d) after a sleep
// of d, and that may sleep for left, or without limit if that is negative.
func (r *reference) fill(n int, now func(time.Duration) time.Time, left time.Duration) result {
	res := result{ids: []ID{}}
	for len(res.ids) < n && res.err == nil {
		res.err = r.take(&res, n-len(res.ids), now, left)
	}
	slices.Sort(res.ids)
	return res
}

func (r *reference) take(res *result, n int, now func(time.Duration) time.Time, left time.Duration) error {
	begin := res.took
	var waits []time.Duration // that the policy agreed to
	var before time.Time      // the reading before
	for {
		reading := now(res.took)
		least := time.Duration(0)
		if reading.Equal(before) {
			least = 100 * time.Microsecond
		}
		before = reading
		slept := res.took - begin
		if reading.Before(r.l.Epoch.Time()) {
			return ErrBeforeEpoch
		}
		if !reading.Before(r.l.Expires()) {
			return ErrTimeExhausted
		}
		halted := slept >= 50*ms && reading.Sub(now(begin)) < slept/2
		tick := r.tick(reading)
		limit := r.tick(reading.Add(r.o.BorrowAhead))
		target := r.firstRoom(max(tick, r.head))
		wait := max(least, r.start(target).Sub(reading)-r.o.BorrowAhead)

		near := limit + max(1, int64(50*ms/r.l.Unit))
		if r.head > limit || target > near || halted && target > limit {
			last := target
			if r.head > limit {
				last = r.head
			}
			b := Backward{
				Last:      r.start(last).Add(-r.o.BorrowAhead),
				Now:       reading,
				CanBump:   r.otherSeq(tick) >= 0,
				CanRewind: r.canRewind(tick) && r.firstRoom(tick) <= near && r.room(place{r.seq, r.firstRoom(tick)}) > 0,
			}
			switch action := r.policy.OnBackward(b); {
			case action == ActionBump && b.CanBump:
				r.goOver(r.otherSeq(tick))
				target = tick
			case action == ActionRewind && b.CanRewind:
				target = r.firstRoom(tick)
				if halted && target > limit {
					return ErrClockBackward
				}
				wait = max(least, r.start(target).Sub(reading)-r.o.BorrowAhead)
			case action == ActionWait:
				waits = append(waits, wait)
				var sum time.Duration
				for _, wait := range waits {
					sum += wait
				}
				if sum > 2*waits[0] && sum > 50*ms {
					return ErrClockBackward
				}
				if left >= 0 && wait > left-res.took {
					return context.DeadlineExceeded
				}
				res.took += wait
				continue
			default:
				return ErrClockBackward
			}
		}
		if r.room(place{r.seq, target}) == 0 {
			return ErrTimeExhausted
		}
		if target > limit {
			if left >= 0 && wait > left-res.took {
				return context.DeadlineExceeded
			}
			res.took += wait
			continue
		}
		r.head = target
		at := place{r.seq, target}
		for ; n > 0 && r.room(at) > 0; n-- {
			res.ids = append(res.ids, r.id(at))
			r.used[at]++
		}
		return nil
	}
}

func (r *reference) goOver(seq int64) {
	r.since = r.last(seq)
	r.seq = seq
	if !slices.Contains(r.seqs, seq) {
		r.seqs = append(r.seqs, seq)
	}
}
