//go:build go1.25

package snowflake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestModel checks calls whose ticks are spent, whose clock goes back or whose lease changes;
// word_test.go checks calls without the lock. The tests here and in call_test.go and lease_test.go
// check the rest: options, texts, panics, costs, concurrent use, the ends of layouts, and
// combinations that those do not reach.

const ms = time.Millisecond

// noon is the time at which the tests' clocks start.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// testClock reads noon, plus the time that has passed in the synctest bubble, plus an
// offset that the test sets.
type testClock struct {
	start  time.Time
	offset atomic.Int64
}

func newTestClock() *testClock { return &testClock{start: time.Now()} }

func (c *testClock) Now() time.Time {
	return noon.Add(time.Since(c.start) + time.Duration(c.offset.Load()))
}

func (c *testClock) step(d time.Duration) { c.offset.Add(int64(d)) }

// stopped is a clock that always reads the time that the test sets.
type stopped struct{ now time.Time }

func (c *stopped) Now() time.Time { return c.now }

// small has 4 IDs a millisecond, so that ticks are soon spent.
var small = Layout{Epoch: DefaultEpoch, Unit: time.Millisecond, TimeBits: 41, ClockSeqBits: 2, WorkerBits: 4, SequenceBits: 2}

// issuer issues IDs and fails the test if one repeats.
type issuer struct {
	*Generator
	t    *testing.T
	seen map[ID]bool
}

// apart returns opts with a clock of its own, so that the generator is not the process's.
func apart(opts *Options) *Options {
	o := *opts
	if o.Clock == nil {
		o.Clock = SystemClock()
	}
	return &o
}

func newIssuer(t *testing.T, opts *Options) *issuer {
	t.Helper()
	g, err := New(1, apart(opts))
	require.NoError(t, err)
	return &issuer{g, t, map[ID]bool{}}
}

func (i *issuer) keep(id ID) Parts {
	i.t.Helper()
	require.Falsef(i.t, i.seen[id], "ID %d is issued twice", id)
	i.seen[id] = true
	p := i.Decode(id)
	require.Equal(i.t, 1, p.Worker)
	return p
}

// next issues an ID.
func (i *issuer) next() Parts {
	i.t.Helper()
	id, err := i.NextID()
	require.NoError(i.t, err)
	return i.keep(id)
}

// spend issues n IDs, which must all fall into the tick that begins at at.
func (i *issuer) spend(n int, at time.Time) {
	i.t.Helper()
	for range n {
		require.Equal(i.t, at, i.next().Time)
	}
}

// refused checks that NextID returns an error at once.
func (i *issuer) refused(want error) error {
	i.t.Helper()
	start := time.Now()
	id, err := i.NextID()
	require.ErrorIs(i.t, err, want)
	require.Zero(i.t, id)
	require.Zero(i.t, time.Since(start))
	return err
}

func TestIDsIncreaseAndCarryTheirTime(t *testing.T) {
	g, err := New(7, nil)
	require.NoError(t, err)
	assert.Equal(t, DefaultLayout(), g.Layout())
	assert.Equal(t, 7, g.Worker())
	last := ID(-1)
	for range 10_000 {
		before := time.Now()
		id, err := g.NextID()
		require.NoError(t, err)
		require.Greater(t, id, last)
		last = id
		p := Decode(id)
		require.Equal(t, p, g.Decode(id))
		require.Equal(t, 7, p.Worker)
		require.WithinRange(t, p.Time, before.Add(-maxLag-2*ms), time.Now())
	}
}

// New names the option that is out of range or would have no effect.
func TestNewRefuses(t *testing.T) {
	twitter := Layout{Epoch: 1288834974657, Unit: ms, TimeBits: 41, DatacenterBits: 5, WorkerBits: 5, SequenceBits: 12}
	baidu := Layout{Epoch: 1463673600000, Unit: time.Second, TimeBits: 28, WorkerBits: 22, SequenceBits: 13}
	bits := Layout{Epoch: UnixEpoch, Unit: ms, TimeBits: 41, WorkerBits: 10}
	all := bits.Expires().Sub(bits.Epoch.Time()) - ms
	ahead := func(d time.Duration) ID {
		id, err := DefaultLayout().Encode(Parts{Time: noon.Add(d)})
		require.NoError(t, err)
		return id
	}
	for _, tt := range []struct {
		worker int
		opts   Options
		want   error // nil if New accepts the options
		text   string
	}{
		{1024, Options{}, ErrWorkerRange, "worker 1024 does not fit the layout, which has room for 0 to 1023"},
		{-1, Options{}, ErrWorkerRange, "worker -1"},
		{1, Options{Layout: Layout{Unit: ms, TimeBits: 41}}, ErrWorkerRange, "only 0 fits"},
		{1, Options{Layout: twitter, Datacenter: 32}, ErrWorkerRange, "datacenter 32 does not fit the layout, which has room for 0 to 31"},
		{1, Options{Layout: twitter, Datacenter: -1}, ErrWorkerRange, "datacenter -1"},
		{1, Options{Datacenter: 1}, ErrWorkerRange, "datacenter 1"},
		{1, Options{Layout: Layout{Unit: ms, TimeBits: 42, WorkerBits: 10, SequenceBits: 12}}, ErrInvalidLayout, "64 bits in all"},
		{1, Options{Layout: Layout{Epoch: EpochAt(noon) + 1, Unit: ms, TimeBits: 41, WorkerBits: 1}},
			ErrBeforeEpoch, "2026-11-21T12:00:00.000Z is before 2026-11-21T12:00:00.001Z"},
		{1, Options{Layout: baidu}, ErrTimeExhausted, "it ended at 2024-11-20T13:24:16.000Z"},
		{1, Options{BorrowAhead: -1}, ErrInvalidOptions, "BorrowAhead -1ns is not within 0 to"},
		{1, Options{BorrowAhead: math.MaxInt64}, ErrInvalidOptions, "the time that the layout lasts"},
		{1, Options{Layout: bits, BorrowAhead: all}, nil, ""},
		{1, Options{Layout: bits, BorrowAhead: all + 1}, ErrInvalidOptions, "the time that the layout lasts"},
		{1, Options{RewindTicks: -1}, ErrInvalidOptions, "RewindTicks -1"},
		{1, Options{RewindTicks: 1 << 20}, nil, ""},
		{1, Options{RewindTicks: 1<<20 + 1}, ErrInvalidOptions, "RewindTicks 1048577 is not within 0 to 1048576"},
		{1, Options{After: -1}, ErrInvalidID, "-1 is negative"},
		{1, Options{Layout: small, After: 1 << 50}, ErrInvalidID, "51 bits"},
		{1, Options{After: ahead(24 * time.Hour)}, nil, ""},
		{1, Options{After: ahead(24*time.Hour + ms)}, ErrInvalidOptions, "either the clock is wrong, or it is an ID of a layout other than 41/10/12@"},
		{1, Options{Layout: bits, RandomStart: true}, ErrInvalidOptions, "RandomStart has no effect: the layout has no sequence bits"},
		{1, Options{OnBackward: ClockSeqPolicy()}, ErrInvalidOptions, "no clock-sequence bits"},
		{1, Options{OnBackward: ClockSeqPolicy(), Layout: ClockSeqLayout()}, nil, ""},
		{1, Options{OnBackward: RewindPolicy()}, ErrInvalidOptions, "without RewindTicks"},
		{1, Options{OnBackward: RewindPolicy(), RewindTicks: 1}, nil, ""},
		{1, Options{OnBackward: WaitPolicy(-1)}, ErrInvalidOptions, "WaitPolicy(-1ns) is negative"},
		{1, Options{OnBackward: WaitPolicy(0)}, nil, ""},
		{1, Options{OnBackward: BackwardFunc(nil)}, ErrInvalidOptions, "nil BackwardFunc"},
		{1, Options{Clock: ClockFunc(nil)}, ErrInvalidOptions, "nil ClockFunc"},
	} {
		if tt.opts.Clock == nil {
			tt.opts.Clock = &stopped{noon}
		}
		g, err := New(tt.worker, &tt.opts)
		require.ErrorIs(t, err, tt.want, "%+v", tt.opts)
		require.Equal(t, tt.want == nil, g != nil)
		if tt.want != nil {
			assert.ErrorContains(t, err, tt.text)
		}
	}
}

func TestZeroGeneratorReturnsErrors(t *testing.T) {
	for _, g := range []*Generator{nil, {}} {
		_, err := g.NextID()
		assert.ErrorIs(t, err, ErrInvalidOptions)
		assert.ErrorContains(t, err, "was not made by New or NewLeased")
		_, err = g.NextIDContext(t.Context())
		assert.ErrorIs(t, err, ErrInvalidOptions)
		for _, dst := range [][]ID{nil, make([]ID, 2)} {
			n, err := g.Fill(t.Context(), dst)
			assert.ErrorIs(t, err, ErrInvalidOptions)
			assert.Zero(t, n)
		}
		assert.Zero(t, g.Layout())
		assert.Zero(t, g.Worker())
		assert.Zero(t, g.Decode(7).Worker)
		assert.Zero(t, g.Stats().Issued)
	}
}

// A tick of 292 years, less a second, plus a day is more than a Duration can hold.
func TestAfterMayBeOfTheTickOfALongUnit(t *testing.T) {
	long := Layout{Epoch: EpochAt(noon), Unit: math.MaxInt64, TimeBits: 2, WorkerBits: 4, SequenceBits: 2}
	end := noon.Add(math.MaxInt64)
	i := newIssuer(t, &Options{Layout: long, After: 1 << 2, Clock: &stopped{end.Add(-time.Second)}})
	i.spend(3, noon)
	mustNew(t, 1, &Options{Layout: long, After: 1 << 6, Clock: &stopped{end.Add(-24 * time.Hour)}})
	_, err := New(1, &Options{Layout: long, After: 1 << 6, Clock: &stopped{end.Add(-24*time.Hour - 1)}})
	assert.ErrorIs(t, err, ErrInvalidOptions)
}

// logged sends slog.Default to the buffer that it returns.
func logged(t *testing.T) *bytes.Buffer {
	t.Helper()
	was, b := slog.Default(), new(bytes.Buffer)
	slog.SetDefault(slog.New(slog.NewTextHandler(b, nil)))
	t.Cleanup(func() { slog.SetDefault(was) })
	return b
}

func mustNew(t *testing.T, worker int, opts *Options) *Generator {
	t.Helper()
	g, err := New(worker, opts)
	require.NoError(t, err)
	return g
}

func always(a Action) BackwardPolicy { return BackwardFunc(func(Backward) Action { return a }) }

func TestPoliciesChooseByWhatIsPossible(t *testing.T) {
	b := Backward{Last: noon, Now: noon.Add(-ms)}
	bump, rewind := b, b
	bump.CanBump, rewind.CanRewind = true, true
	for _, tt := range []struct {
		policy BackwardPolicy
		told   Backward
		want   Action
	}{
		{FailPolicy(), bump, ActionFail},
		{WaitPolicy(ms - 1), rewind, ActionFail},
		{WaitPolicy(ms), b, ActionWait},
		{ClockSeqPolicy(), bump, ActionBump},
		{ClockSeqPolicy(), rewind, ActionFail},
		{RewindPolicy(), rewind, ActionRewind},
		{RewindPolicy(), bump, ActionFail},
	} {
		assert.Equal(t, tt.want, tt.policy.OnBackward(tt.told), "%T %+v", tt.policy, tt.told)
	}
}

// A policy's choice for one step back is not used for a larger step. A policy may look at the
// generator: it is called without the lock.
func TestPolicyIsAskedAgainForALargerStep(t *testing.T) {
	readings := []time.Duration{0, 0, -2 * ms, -900 * ms, -900 * ms, -900 * ms}
	var asked []time.Duration
	var i *issuer
	i = newIssuer(t, &Options{
		Clock: ClockFunc(func() time.Time {
			now := noon.Add(readings[0])
			readings = readings[1:]
			return now
		}),
		RewindTicks: 1000,
		OnBackward: BackwardFunc(func(b Backward) Action {
			asked = append(asked, b.By())
			assert.EqualValues(t, 1, i.Stats().Issued)
			if b.By() < 10*ms {
				return ActionRewind
			}
			return ActionFail
		}),
	})
	i.spend(1, noon)
	_, err := i.NextID()
	require.ErrorIs(t, err, ErrClockBackward)
	assert.Equal(t, []time.Duration{2 * ms, 900 * ms}, asked)
}

func TestPanicInClockLeavesGeneratorUsable(t *testing.T) {
	broken := false
	i := newIssuer(t, &Options{Clock: ClockFunc(func() time.Time {
		if broken {
			panic("no clock")
		}
		return noon
	})})
	broken = true
	assert.Panics(t, func() { i.NextID() })
	broken = false
	i.spend(1, noon)
}

// An ID of another epoch may have a time years ago. The keys of an auto-increment have a time in the
// layout's first seconds.
func TestAfterOfYearsAgoIsLogged(t *testing.T) {
	log := logged(t)
	twitter := Layout{Epoch: 1288834974657, Unit: ms, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
	at := func(back time.Duration) ID {
		id, err := twitter.Encode(Parts{Time: noon.Add(-back)})
		require.NoError(t, err)
		return id
	}
	for after, warns := range map[ID]bool{
		0: false, 4_000_000_000: false, at(oldAfter): false, at(oldAfter + ms): true,
		117919502066282496: true,
	} {
		log.Reset()
		_, err := New(1, &Options{Layout: twitter, After: after, Clock: &stopped{noon}})
		require.NoError(t, err)
		assert.Equal(t, warns, strings.Contains(log.String(), "it may be an ID of another epoch"), "%d: %s", after, log.String())
	}
}

// A policy that panics, as under net/http's recover, leaves the queue in order.
func TestCallersQueuedAfterAPanicAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		asked := 0
		i := newIssuer(t, &Options{Layout: small, Clock: c, OnBackward: BackwardFunc(func(Backward) Action {
			if asked++; asked == 1 {
				time.Sleep(ms) // until other calls have arrived
				panic("the policy is broken")
			}
			return ActionWait
		})})
		i.spend(1, noon)
		c.step(-10 * ms)
		go func() {
			defer func() { assert.NotNil(t, recover()) }()
			_, _ = i.NextID()
		}()
		synctest.Wait()
		start := time.Now()
		i.spend(3, noon)
		assert.Equal(t, 10*ms, time.Since(start))
	})
}

// If all 63 bits are time, an int64 cannot hold the tick after the last one.
func TestTimeRunsOutOf63TimeBits(t *testing.T) {
	layout := Layout{Epoch: UnixEpoch, Unit: 1, TimeBits: 63}
	for name, policy := range map[string]BackwardPolicy{
		"wait": nil, "bump": always(ActionBump), "rewind": RewindPolicy(), "fail": FailPolicy(),
	} {
		t.Run(name, func(t *testing.T) {
			g, err := New(0, &Options{Layout: layout, Clock: &stopped{layout.Expires().Add(-1)}, OnBackward: policy, RewindTicks: 3})
			require.NoError(t, err)
			id, err := g.NextID()
			require.NoError(t, err)
			assert.EqualValues(t, int64(math.MaxInt64), id)
			for range 3 {
				_, err = g.NextID()
				require.ErrorIs(t, err, ErrTimeExhausted)
			}
		})
	}
}

// Borrowing may allow ticks past the layout's last one.
func TestBorrowAheadOfTheWholeLayout(t *testing.T) {
	layout := Layout{Epoch: UnixEpoch, Unit: 1, TimeBits: 61, SequenceBits: 2}
	g, err := New(0, &Options{Layout: layout, Clock: &stopped{noon}, BorrowAhead: 1<<61 - 1})
	require.NoError(t, err)
	n, err := g.Fill(t.Context(), make([]ID, 100))
	require.NoError(t, err)
	assert.Equal(t, 100, n)
}

func TestFillReturnsNoErrorIfItHasAllIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newTestClock()
		i := newIssuer(t, &Options{Layout: small, Clock: ClockFunc(func() time.Time {
			if c.Now().After(noon) {
				cancel()
			}
			return c.Now()
		})})
		n, err := i.Fill(ctx, make([]ID, 6))
		assert.NoError(t, err)
		assert.Equal(t, 6, n)
		assert.Error(t, ctx.Err())
	})
}

// A call that returns an error is counted once, by its error.
func TestRefusedCallsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := &stopped{noon}, noon.Add(ms)
		l := newTestLease(noon.Add(-time.Second), end)
		i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: c, OnBackward: FailPolicy()})
		i.next()
		assert.Zero(t, i.Stats().Refused)
		for at, want := range map[time.Time]error{
			noon.Add(-ms): ErrClockBackward, end: ErrLeaseExpired, small.Expires(): ErrTimeExhausted,
			small.Epoch.Time().Add(-ms): ErrBeforeEpoch,
		} {
			c.now = at
			i.refused(want)
		}
		want := Stats{}.Refused
		want.ClockBackward, want.LeaseExpired, want.TimeExhausted, want.BeforeEpoch = 1, 1, 1, 1
		assert.Equal(t, want, i.Stats().Refused)

		c.now = noon
		short, cancel := context.WithTimeout(t.Context(), ms/2)
		defer cancel()
		n, err := i.Fill(short, make([]ID, 9)) // the tick has three IDs left
		assert.Equal(t, 3, n)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = i.NextIDContext(gone)
		require.ErrorIs(t, err, context.Canceled)
		n, err = i.Fill(gone, nil)
		assert.Zero(t, n)
		require.ErrorIs(t, err, context.Canceled)
		l.change(func(g *Grant) { g.Worker = 1 << 20 })
		c.now = end
		assert.ErrorContains(t, i.refused(ErrWorkerRange), "worker 1048576")
		want.Deadline, want.Canceled, want.Other = 1, 2, 1
		assert.Equal(t, want, i.Stats().Refused)
	})
	var s Stats
	assert.Same(t, &s.Refused.LeaseExpired, s.refused(&LeaseExpiredError{Cause: context.DeadlineExceeded}), "a deadline of the store's")
}

// wakeLate issues an ID to a call that waits for the next tick, and wakes late.
func (i *issuer) wakeLate(late time.Duration) time.Time {
	i.spend(4, time.Now().UTC())
	c := call{n: 1}
	next, err := i.advance(&c)
	require.NoError(i.t, err)
	require.Equal(i.t, ms, next.sleep)
	time.Sleep(next.sleep + late)
	next, err = i.advance(&c)
	require.NoError(i.t, err)
	require.EqualValues(i.t, 1, next.ids.n)
	return i.keep(next.ids.first).Time
}

func TestTickThatCallersWaitedForIsLeftAfterMaxLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layout := small
		layout.Epoch = UnixEpoch
		i := newIssuer(t, &Options{Layout: layout})
		tick := i.wakeLate(ms) // when the tick ends
		i.spend(1, tick)
		time.Sleep(maxLag - 1)
		i.spend(1, tick)
		time.Sleep(time.Nanosecond)
		i.spend(1, time.Now().UTC())
	})
}

// Callers that waited for a tick and wake late get that tick's IDs, within maxLag, and
// so do the callers after them.
func TestCallersThatWakeLateCatchUp(t *testing.T) {
	layout := Layout{Epoch: UnixEpoch, Unit: ms, TimeBits: 41, WorkerBits: 4, SequenceBits: 2}
	// ticks are those of the IDs that follow, counted from the tick that the call waited for.
	for late, ticks := range map[time.Duration][]int{
		0:               {0, 0, 0, 0, 1},
		ms / 2:          {0, 0, 0, 0, 1},
		2 * ms:          {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3},
		maxLag + ms - 1: {0, 0, 0, 0, 1},
		maxLag + ms:     {0, 6, 6, 6, 6, 7},
	} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, start := newIssuer(t, &Options{Layout: layout}), time.Now().UTC()
				got := []int{int(i.wakeLate(late).Sub(start)/ms) - 1}
				for range len(ticks) - 1 {
					got = append(got, int(i.next().Time.Sub(start)/ms)-1)
				}
				assert.Equal(t, ticks, got)
			})
		})
	}
}

func TestNoAllocs(t *testing.T) {
	ample := Layout{Epoch: DefaultEpoch, Unit: ms, TimeBits: 35, SequenceBits: 28}
	ctx := context.Background()
	dst := make([]ID, 64)
	for name, opts := range map[string]*Options{
		"system clock": {Layout: ample}, "monotonic clock": {Layout: ample, Clock: MonotonicClock()},
		"own clock": {Layout: ample, Clock: &stopped{now: noon}}, "random start": {Layout: ample, RandomStart: true},
		"waiting for ticks": {},
	} {
		g, err := New(0, apart(opts))
		require.NoError(t, err)
		for call, f := range map[string]func(){
			"NextID":        func() { _, _ = g.NextID() },
			"NextIDContext": func() { _, _ = g.NextIDContext(ctx) },
			"Fill":          func() { _, _ = g.Fill(ctx, dst) },
			"Decode":        func() { g.Decode(1 << 40) },
			"Stats":         func() { g.Stats() },
		} {
			assert.Zerof(t, testing.AllocsPerRun(1000, f), "%s, %s", name, call)
		}
	}
}

// The allocator puts 256 bytes at a multiple of 256, so that no other generator
// shares a cache line with this one.
func TestGeneratorFillsItsCacheLines(t *testing.T) {
	g, opts := Generator{}, apart(&Options{})
	assert.EqualValues(t, 256, unsafe.Sizeof(g), "whole lines")
	assert.LessOrEqual(t, unsafe.Offsetof(g.seq)+unsafe.Offsetof(g.seq.mask)+unsafe.Sizeof(g.seq.mask), uintptr(64), "NextID needs one")
	assert.EqualValues(t, 1, testing.AllocsPerRun(100, func() { _, _ = New(0, opts) }))
}

// Many goroutines make all kinds of calls, under clocks that leap.
func TestConcurrentUse(t *testing.T) {
	jumpy := func() Clock {
		var reads atomic.Int64
		start := time.Now()
		return ClockFunc(func() time.Time {
			jump := []time.Duration{0, 0, 3 * ms, 0, -2 * ms, time.Second, 0, -time.Second}[reads.Add(1)/50%8]
			return noon.Add(time.Since(start) + jump)
		})
	}
	for name, opts := range map[string]Options{
		"system clock":   {},
		"borrow, random": {BorrowAhead: 20 * ms, RandomStart: true},
		"wait":           {Clock: jumpy()},
		"clock sequence": {Clock: jumpy(), OnBackward: ClockSeqPolicy()},
		"rewind":         {Clock: jumpy(), OnBackward: RewindPolicy(), RewindTicks: 2000},
	} {
		opts.Layout = Layout{Epoch: DefaultEpoch, Unit: ms, TimeBits: 41, ClockSeqBits: 4, WorkerBits: 4, SequenceBits: 7}
		for _, procs := range []int{1, 2, 4, 16} {
			t.Run(fmt.Sprintf("%s/GOMAXPROCS=%d", name, procs), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				checkConcurrent(t, &opts)
			})
		}
	}
}

func checkConcurrent(t *testing.T, opts *Options) {
	g, err := New(3, apart(opts))
	require.NoError(t, err)
	const goroutines, calls = 16, 100
	all := make([][]ID, goroutines)
	var wg sync.WaitGroup
	for k := range all {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			for call := range calls {
				ids, n, err := make([]ID, 9), 1, error(nil)
				switch (call + k) % 3 {
				case 0:
					ids[0], err = g.NextID()
				case 1:
					ids[0], err = g.NextIDContext(ctx)
				case 2:
					n, err = g.Fill(ctx, ids)
				}
				if err != nil && (call+k)%3 < 2 {
					n = 0
				}
				if !errors.Is(err, ErrClockBackward) {
					assert.NoError(t, err)
				}
				all[k] = append(all[k], ids[:n]...)
				_ = g.Stats()
				assert.Equal(t, 3, g.Worker())
			}
		})
	}
	wg.Wait()
	for _, own := range all {
		assert.True(t, opts.OnBackward != nil || slices.IsSorted(own), "a goroutine's IDs are in order")
	}
	ids := slices.Concat(all...)
	assert.EqualValues(t, len(ids), g.Stats().Issued)
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), len(ids), "an ID was issued twice")
	for _, id := range ids {
		require.NoError(t, g.Layout().Check(id))
		require.Equal(t, 3, g.Decode(id).Worker)
	}
}
