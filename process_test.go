//go:build go1.25

package snowflake

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var epochs atomic.Int64

// unusedLayout returns a layout whose epoch no other test has, nor another run of this test.
func unusedLayout() Layout {
	l := DefaultLayout()
	l.Epoch -= Epoch(epochs.Add(1))
	return l
}

// A generator for each call is the commonest cause of duplicates in the field.
func TestGeneratorForEachCallRepeatsNoID(t *testing.T) {
	opts := &Options{Layout: unusedLayout()}
	const goroutines, calls = 100, 1000
	all := make([][]ID, goroutines)
	var wg sync.WaitGroup
	for k := range all {
		wg.Go(func() {
			for range calls {
				g, err := New(7, opts)
				if !assert.NoError(t, err) {
					return
				}
				id, err := g.NextID()
				assert.NoError(t, err)
				all[k] = append(all[k], id)
			}
		})
	}
	wg.Wait()
	for _, own := range all {
		assert.True(t, slices.IsSorted(own))
	}
	ids := slices.Concat(all...)
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), goroutines*calls)
}

// A program that has dropped its generator does not start again at the same tick's first ID.
func TestGeneratorThatIsGarbageIsNotForgotten(t *testing.T) {
	opts := &Options{Layout: unusedLayout()}
	last := ID(-1)
	for range 100 {
		for range 100 {
			id, err := mustNew(t, 7, opts).NextID()
			require.NoError(t, err)
			require.Greater(t, id, last)
			last = id
		}
		runtime.GC()
	}
}

// A program may make a generator for each topic of a queue, and a plugin may make each shard's
// twice.
func TestProcessHasOneGeneratorForTheSameFields(t *testing.T) {
	log := logged(t)
	layout := unusedLayout()
	layout.WorkerBits, layout.DatacenterBits = 8, 2
	first := mustNew(t, 7, &Options{Layout: layout})
	seen := map[*Generator]bool{first: true}
	apart := func(worker int, o Options) {
		t.Helper()
		g := mustNew(t, worker, &o)
		require.False(t, seen[g], "the IDs are not equal")
		seen[g] = true
		for range 3 {
			require.Same(t, g, mustNew(t, worker, &o))
		}
	}
	apart(8, Options{Layout: layout})
	apart(7, Options{Layout: layout, Datacenter: 1})
	for _, change := range []func(*Layout){
		func(l *Layout) { l.Epoch = unusedLayout().Epoch }, func(l *Layout) { l.Unit++ }, func(l *Layout) { l.SequenceBits-- },
	} {
		other := layout
		change(&other)
		apart(7, Options{Layout: other})
	}
	require.Same(t, first, mustNew(t, 7, &Options{Layout: layout, OnBackward: WaitPolicy(10 * ms)}), "the default")
	require.Same(t, mustNew(t, 7, nil), mustNew(t, 7, &Options{Layout: DefaultLayout()}), "the default")
	require.Empty(t, log.String())
}

func TestGeneratorWithAClockIsNotShared(t *testing.T) {
	layout := unusedLayout()
	seen := map[*Generator]bool{}
	for range 2 {
		seen[mustNew(t, 7, &Options{Layout: layout, Clock: SystemClock()})] = true
		seen[mustNew(t, 7, &Options{Layout: layout, Clock: MonotonicClock(), RandomStart: true})] = true
		seen[mustNew(t, 7, &Options{Layout: layout, Clock: newTestClock(), RewindTicks: 1})] = true
		g, err := NewLeased(newTestLease(time.Now().Add(-time.Hour), time.Now().Add(time.Hour)), &Options{Layout: layout, BorrowAhead: ms})
		require.NoError(t, err)
		seen[g] = true
	}
	require.Len(t, seen, 8)
	require.False(t, seen[mustNew(t, 7, &Options{Layout: layout})])
}

// hooked is a policy that can be compared, unless its hook cannot.
type hooked struct{ hook any }

func (hooked) OnBackward(Backward) Action { return ActionFail }

func TestSecondGeneratorWithOtherOptionsIsRefused(t *testing.T) {
	policy := BackwardFunc(func(Backward) Action { return ActionFail })
	other := policy
	for _, test := range []struct {
		first, second Options
		differs       string // the option that differs, or ""
	}{
		{Options{}, Options{BorrowAhead: time.Second}, "whose BorrowAhead is 0s, not 1s: "},
		{Options{RandomStart: true}, Options{}, "whose RandomStart is true, not false: "},
		{Options{}, Options{RewindTicks: 5}, "whose RewindTicks is 0, not 5: "},
		{Options{OnBackward: WaitPolicy(time.Second)}, Options{}, "whose OnBackward is WaitPolicy(1s), not WaitPolicy(10ms): "},
		{Options{OnBackward: RewindPolicy(), RewindTicks: 5}, Options{OnBackward: FailPolicy()},
			"whose OnBackward is RewindPolicy(), not FailPolicy(), and whose RewindTicks is 5, not 0: "},
		{Options{OnBackward: policy}, Options{OnBackward: policy}, "whose OnBackward is a snowflake.BackwardFunc, which cannot be compared (set OnBackward to a pointer to it): "},
		{Options{OnBackward: &policy}, Options{OnBackward: &policy}, ""},
		{Options{OnBackward: &policy}, Options{OnBackward: &other}, "whose OnBackward is a *snowflake.BackwardFunc, not this one: "},
		{Options{OnBackward: hooked{1}}, Options{OnBackward: hooked{1}}, ""},
		{Options{OnBackward: hooked{1}}, Options{OnBackward: hooked{"1"}}, "whose OnBackward is a snowflake.hooked, not this one: "},
		{Options{OnBackward: hooked{policy}}, Options{OnBackward: hooked{policy}}, "whose OnBackward is "},
		{Options{OnBackward: hooked{1}}, Options{OnBackward: hooked{policy}}, "whose OnBackward is "},
		{Options{OnBackward: hooked{policy}}, Options{OnBackward: hooked{1}}, "whose OnBackward is "},
	} {
		test.first.Layout = unusedLayout()
		test.second.Layout = test.first.Layout
		g := mustNew(t, 7, &test.first)
		second, err := New(7, &test.second)
		if test.differs == "" {
			require.NoError(t, err)
			require.Same(t, g, second)
			continue
		}
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorContains(t, err, "this process has a Generator for worker 7, "+test.differs)
		require.ErrorContains(t, err, "; in a test or a simulation, whose IDs are stored nowhere, set Options.Clock")
		require.Nil(t, second)
	}
}

// Layouts may divide the same bits in several ways.
func TestLayoutThatSharesIDsWithAnotherIsRefused(t *testing.T) {
	for _, test := range []struct {
		change     func(*Layout)
		datacenter int
		meets      []int // of all workers, those whose IDs may be IDs of worker 33
	}{
		{func(l *Layout) { l.DatacenterBits, l.WorkerBits = 5, 5 }, 1, []int{1}},
		{func(l *Layout) { l.TimeBits-- }, 0, []int{33}},
		{func(l *Layout) { l.ClockSeqBits, l.WorkerBits = 3, 7 }, 0, []int{33}},
		{func(l *Layout) { l.WorkerBits, l.SequenceBits = 9, 13 }, 0, []int{16}},
		{func(l *Layout) { l.WorkerBits, l.SequenceBits = 11, 11 }, 0, []int{66, 67}},
		{func(l *Layout) { l.WorkerBits, l.SequenceBits, l.WorkerLast = 3, 19, true }, 0, []int{0, 1, 2, 3, 4, 5, 6, 7}},
	} {
		first := unusedLayout()
		mustNew(t, 33, &Options{Layout: first})
		second := first
		test.change(&second)
		var met []int
		for worker := range 1 << second.WorkerBits {
			if _, err := New(worker, &Options{Layout: second, Datacenter: test.datacenter}); err != nil {
				require.ErrorIs(t, err, ErrInUse)
				require.ErrorContains(t, err, "worker 33, whose Layout is "+first.String()+", not "+second.String())
				met = append(met, worker)
			}
		}
		require.Equal(t, test.meets, met, second)
	}
}

func TestAfterMovesTheGeneratorOfTheProcessForward(t *testing.T) {
	layout := unusedLayout()
	next := func(g *Generator) ID {
		t.Helper()
		id, err := g.NextID()
		require.NoError(t, err)
		return id
	}
	g := mustNew(t, 7, &Options{Layout: layout, After: 5, OnBackward: FailPolicy()})
	first := next(g)
	again := func(after ID) error {
		h, err := New(7, &Options{Layout: layout, After: after, OnBackward: FailPolicy()})
		if err == nil {
			require.Same(t, g, h)
		}
		return err
	}
	require.NoError(t, again(first-1<<22), "behind")
	second := next(g)
	require.Greater(t, second, first)

	for after, want := range map[ID]error{-1: ErrInvalidID, first + 25*3600*1000<<22: ErrInvalidOptions} {
		require.ErrorIs(t, again(after), want)
	}
	third := next(g)
	require.Greater(t, third, second, "nothing has changed")

	ahead := third + 50<<22
	require.NoError(t, again(ahead))
	require.NoError(t, again(third), "never backward")
	_, err := g.NextID()
	require.ErrorIs(t, err, ErrClockBackward)
	require.Eventually(t, func() bool {
		id, err := g.NextID()
		return err == nil && id > ahead
	}, 10*time.Second, ms)
}

// While others draw, each ID that is drawn after New has returned is greater than its After.
func TestAfterMovesForwardWhileOthersDraw(t *testing.T) {
	layout := Layout{Epoch: DefaultEpoch, Unit: ms, TimeBits: 41, WorkerBits: 4, SequenceBits: 6}
	layout.Epoch -= Epoch(epochs.Add(1))
	opts := Options{Layout: layout}
	g := mustNew(t, 7, &opts)
	var passed atomic.Int64 // the greatest After of the calls of New that have returned
	all := make([][]ID, 8)
	var wg sync.WaitGroup
	for k := range all {
		wg.Go(func() {
			dst := make([]ID, 1+k*k)
			for range 300 {
				above := ID(passed.Load())
				n, err := g.Fill(context.Background(), dst[:1+k])
				assert.NoError(t, err)
				for _, id := range dst[:n] {
					assert.Greater(t, id, above)
				}
				all[k] = append(all[k], dst[:n]...)
			}
		})
		wg.Go(func() {
			for range 100 {
				id, err := g.NextID()
				assert.NoError(t, err)
				o := opts
				o.After = id + ID(k)<<layout.timeShift() + 40<<layout.sequenceShift()
				h, err := New(7, &o)
				assert.NoError(t, err)
				assert.Same(t, g, h)
				for was := passed.Load(); was < int64(o.After) && !passed.CompareAndSwap(was, int64(o.After)); was = passed.Load() {
				}
			}
		})
	}
	wg.Wait()
	ids := slices.Concat(all...)
	slices.Sort(ids)
	require.Len(t, slices.Compact(slices.Clone(ids)), len(ids))
}

// Under the policies that go back, nothing goes back to an ID at or below After.
func TestNothingGoesBackBelowAfter(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newTestClock()
		seen, above := map[ID]bool{}, ID(-1)
		o := Options{Layout: small, Clock: c, RewindTicks: 1 + r.IntN(8), OnBackward: BackwardFunc(func(b Backward) Action {
			switch {
			case b.CanBump && r.IntN(2) == 0:
				return ActionBump
			case b.CanRewind:
				return ActionRewind
			}
			return ActionFail
		})}
		g := mustNew(t, 1, &o)
		for range 60 {
			c.step(time.Duration(r.IntN(12)-5) * ms)
			if r.IntN(8) == 0 {
				at := c.Now().Add(time.Duration(r.IntN(9)-5) * ms)
				after, err := small.Encode(Parts{Time: at, ClockSeq: r.IntN(4), Worker: r.IntN(3), Sequence: r.IntN(4)})
				require.NoError(t, err)
				require.NoError(t, g.continueAfter(&Options{Layout: small, After: after}))
				above = max(above, after)
			}
			for range r.IntN(4) {
				id, err := g.NextID()
				if errors.Is(err, ErrClockBackward) {
					break
				}
				if err != nil || seen[id] || id <= above {
					require.FailNowf(t, "An ID is issued twice, or is not above After", "seed %d: %d, above %d: %v", seed, id, above, err)
				}
				seen[id] = true
			}
		}
	}
}

// Code under test may call New in one bubble after another, and outside: a reading of one clock says
// nothing about the others. Without a Clock, the order of the bubbles' times matters.
func TestGeneratorOfTheProcessReadsEachBubblesClock(t *testing.T) {
	opts := &Options{Layout: unusedLayout()}
	opts.Layout.Epoch -= 1 << 40 // long before the bubbles' time
	in := func(d time.Duration) (id ID, err error) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(d)
			id, err = mustNew(t, 7, opts).NextID()
			if err == nil {
				require.Equal(t, time.Now().UTC().Truncate(ms), opts.Layout.Decode(id).Time)
			}
		})
		return id, err
	}
	first, err := in(time.Hour)
	require.NoError(t, err)
	second, err := in(time.Hour)
	require.NoError(t, err)
	require.Greater(t, second, first)
	_, err = in(time.Minute)
	require.ErrorIs(t, err, ErrClockBackward)
	now := time.Now()
	id, err := mustNew(t, 7, opts).NextID()
	require.NoError(t, err)
	require.WithinDuration(t, now, opts.Layout.Decode(id).Time, time.Minute)
}

// handler is a slog.Handler that calls a function for each record.
type handler func()

func (h handler) Enabled(context.Context, slog.Level) bool      { return true }
func (h handler) Handle(_ context.Context, _ slog.Record) error { h(); return nil }
func (h handler) WithAttrs([]slog.Attr) slog.Handler            { return h }
func (h handler) WithGroup(string) slog.Handler                 { return h }

// handle makes f the handler of the log.
func handle(t *testing.T, f func()) {
	was := slog.Default()
	t.Cleanup(func() { slog.SetDefault(was) })
	slog.SetDefault(slog.New(handler(f)))
}

// While New makes a generator, another call may make the same.
func TestGeneratorOfALaterCallIsDropped(t *testing.T) {
	layout := unusedLayout()
	layout.Epoch = EpochAt(time.Now().AddDate(-4, 0, 0)) - Epoch(epochs.Add(1))
	after, err := layout.Encode(Parts{Time: time.Now().AddDate(-3, 0, 0)})
	require.NoError(t, err)
	var first *Generator
	handle(t, func() {
		if first == nil {
			first = mustNew(t, 7, &Options{Layout: layout})
		}
	})
	require.Same(t, mustNew(t, 7, &Options{Layout: layout, After: after}), first)
}

// A handler of the log may call New.
func TestNewWarnsWithoutALock(t *testing.T) {
	now := time.Now()
	layout := unusedLayout()
	layout.Epoch = EpochAt(now.AddDate(-4, 0, 0)) - Epoch(epochs.Add(1))
	after, err := layout.Encode(Parts{Time: now.AddDate(-3, 0, 0)})
	require.NoError(t, err)
	handled := 0
	handle(t, func() {
		handled++
		mustNew(t, 8, &Options{Layout: layout})
	})
	g := mustNew(t, 7, &Options{Layout: layout, After: after})
	require.Equal(t, 1, handled)
	require.Same(t, g, mustNew(t, 7, &Options{Layout: layout, After: after}))
	require.Equal(t, 1, handled, "once for each ID")
	require.Same(t, g, mustNew(t, 7, &Options{Layout: layout, After: after + 1<<22}))
	require.Equal(t, 2, handled)
}

// An earlier process may have used a clock sequence that is new to this one.
func TestNewClockSequenceDoesNotRewindBelowAfter(t *testing.T) {
	c, action := &stopped{noon}, ActionBump
	after, err := small.Encode(Parts{Time: noon, Worker: 1})
	require.NoError(t, err)
	i := newIssuer(t, &Options{Layout: small, Clock: c, After: after, RewindTicks: 20,
		OnBackward: BackwardFunc(func(Backward) Action { return action })})
	for _, ahead := range []time.Duration{2 * ms, ms} {
		c.now = noon.Add(ahead)
		i.next()
	}
	require.EqualValues(t, 1, i.Stats().Bumps)
	action = ActionRewind
	c.now = noon.Add(-ms)
	_, err = i.NextID()
	require.ErrorIs(t, err, ErrClockBackward)
}

// When the clock sequence changes, calls wait for IDs of After's tick, and none has been returned.
func TestClockSequenceIsNotUsedAgainBelowAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layout := small
		layout.Unit = time.Second
		c := &skewedClock{since: time.Now(), reading: noon, rate: 100}
		i := newIssuer(t, &Options{Layout: layout, Clock: c, OnBackward: ClockSeqPolicy()})
		i.spend(4, noon)
		ctx, cancel := context.WithCancel(t.Context())
		for range 40 {
			go func() { _, _ = i.NextIDContext(ctx) }()
		}
		synctest.Wait() // the calls wait for ten ticks
		after, err := layout.Encode(Parts{Time: noon.Add(2 * time.Second)})
		require.NoError(t, err)
		require.NoError(t, i.continueAfter(&Options{Layout: layout, After: after}))
		time.Sleep(120 * ms)
		c.set(5*time.Second, 0) // the calls look at the clock again in 80 ms
		require.Equal(t, noon.Add(5*time.Second), i.next().Time, "after 50 ms")
		require.EqualValues(t, 1, i.Stats().Bumps)
		cancel()
		c.set(-4*time.Second, 0)
		i.refused(ErrClockBackward)
	})
}
