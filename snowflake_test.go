package snowflake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

func newIssuer(t *testing.T, opts *Options) *issuer {
	t.Helper()
	g, err := New(1, opts)
	require.NoError(t, err)
	return &issuer{g, t, map[ID]bool{}}
}

func (i *issuer) keep(id ID) Parts {
	i.t.Helper()
	require.Falsef(i.t, i.seen[id], "ID %d is issued twice", id)
	i.seen[id] = true
	require.NoError(i.t, i.seq.layout.Check(id))
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

// spend issues n IDs, which must all fall into the tick at.
func (i *issuer) spend(n int, at time.Time) {
	i.t.Helper()
	for range n {
		require.Equal(i.t, at, i.next().Time)
	}
}

// refused checks that NextID issues nothing, that no time passes, and that the
// generator does not change.
func (i *issuer) refused(want error) error {
	i.t.Helper()
	before, start := i.state(), time.Now()
	id, err := i.NextID()
	require.ErrorIs(i.t, err, want)
	require.Zero(i.t, id)
	require.Equal(i.t, before, i.state())
	require.Zero(i.t, time.Since(start))
	return err
}

// state is all that IDs come from.
type state struct {
	tick, left    int64
	nextID, fixed ID
	past          past
	back          []run
}

func (g *Generator) state() state {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := &g.seq
	s := state{q.tick, q.left, q.nextID, q.fixed, past{}, slices.Clone(q.waiting().back)}
	if q.past != nil {
		s.past = *q.past
		s.past.seqs.last, s.past.ring.marks = slices.Clone(s.past.seqs.last), slices.Clone(s.past.ring.marks)
	}
	return s
}

// elapsed returns how long f took, in the bubble's time.
func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

const ms = time.Millisecond

// What calls do when ticks are spent, the clock goes back or a lease changes is told by TestModel and
// TestEveryStateOfAFewBits. The tests here and in call_test.go and lease_test.go hold what these two do not see:
// options, texts, panics, costs, concurrent use, ends of layouts and combinations that they do not reach.

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

func always(a Action) BackwardPolicy { return BackwardFunc(func(Backward) Action { return a }) }

// A policy's choice for one step back is not used for a larger step.
func TestPolicyIsAskedAgainForALargerStep(t *testing.T) {
	readings := []time.Duration{0, 0, -2 * ms, -900 * ms, -900 * ms, -900 * ms}
	var asked []time.Duration
	g, err := New(1, &Options{
		Clock: ClockFunc(func() time.Time {
			now := noon.Add(readings[0])
			readings = readings[1:]
			return now
		}),
		RewindTicks: 1000,
		OnBackward: BackwardFunc(func(b Backward) Action {
			asked = append(asked, b.By())
			if b.By() < 10*ms {
				return ActionRewind
			}
			return ActionFail
		}),
	})
	require.NoError(t, err)
	_, err = g.NextID()
	require.NoError(t, err)
	_, err = g.NextID()
	require.ErrorIs(t, err, ErrClockBackward)
	assert.Equal(t, []time.Duration{2 * ms, 900 * ms}, asked)
}

// A policy may look at the generator: it is called without the lock.
func TestPolicyMayCallGenerator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		var i *issuer
		i = newIssuer(t, &Options{Clock: c, OnBackward: BackwardFunc(func(Backward) Action {
			assert.EqualValues(t, 1, i.Stats().Issued)
			return ActionFail
		})})
		i.spend(1, noon)
		c.step(-ms)
		_, err := i.NextID()
		assert.ErrorIs(t, err, ErrClockBackward)
	})
}

func TestWaitPolicyAcceptsASlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		offset := time.Duration(0)
		half := ClockFunc(func() time.Time { return noon.Add(offset + time.Since(start)*6/10) })
		i := newIssuer(t, &Options{Clock: half, OnBackward: WaitPolicy(time.Second)})
		i.spend(1, noon)
		offset = -time.Second
		d := elapsed(func() { i.next() })
		assert.Less(t, d, 2*time.Second)
		assert.Greater(t, d, 3*time.Second/2)
		assert.Equal(t, d, i.Stats().Waited)
		assert.Greater(t, i.Stats().Waits, uint64(2))
	})
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

func TestAfterWithWorkerLast(t *testing.T) {
	layout := Layout{Epoch: DefaultEpoch, Unit: ms, TimeBits: 41, DatacenterBits: 2, WorkerBits: 2, SequenceBits: 2, WorkerLast: true}
	for datacenter := range 4 {
		for worker := range 4 {
			for seq := range 4 {
				synctest.Test(t, func(t *testing.T) {
					after, err := layout.Encode(Parts{Time: noon, Datacenter: datacenter, Worker: worker, Sequence: seq})
					require.NoError(t, err)
					g, err := New(1, &Options{Layout: layout, Clock: newTestClock(), After: after, Datacenter: 1})
					require.NoError(t, err)
					id, err := g.NextID()
					require.NoError(t, err)
					require.Greater(t, id, after)
					// It is the first ID of this worker above after.
					for s := range 4 {
						lower, err := layout.Encode(Parts{Time: noon, Datacenter: 1, Worker: 1, Sequence: s})
						require.NoError(t, err)
						require.Falsef(t, lower > after && lower < id, "%v is skipped", lower)
					}
				})
			}
		}
	}
}

func TestEpochInTheFuture(t *testing.T) {
	layout := DefaultLayout()
	layout.Epoch = EpochAt(time.Now().Add(time.Hour))
	_, err := New(1, &Options{Layout: layout})
	assert.ErrorIs(t, err, ErrBeforeEpoch)

	// The clock goes back to before the epoch later on.
	c := &stopped{now: noon}
	layout.Epoch = EpochAt(noon)
	i := newIssuer(t, &Options{Layout: layout, Clock: c})
	i.spend(1, noon)
	c.now = noon.Add(-1)
	_, err = i.NextID()
	assert.ErrorIs(t, err, ErrBeforeEpoch)
	assert.ErrorContains(t, err, "2026-11-21T11:59:59.999999999Z is before 2026-11-21T12:00:00.000Z")
}

func TestLayoutThatRanOut(t *testing.T) {
	_, err := New(1, &Options{Layout: Layout{Epoch: 1463673600000, Unit: time.Second, TimeBits: 28, WorkerBits: 22, SequenceBits: 13}}) // Baidu's
	require.ErrorIs(t, err, ErrTimeExhausted)
	assert.ErrorContains(t, err, "it ended at 2024-11-20T13:24:16.000Z")
}

// The last tick of a layout, in layouts that leave bits free and in a layout that
// does not. In the second kind, the next ID would be negative.
func TestTimeRunsOut(t *testing.T) {
	for _, layout := range []Layout{
		{Epoch: DefaultEpoch, Unit: ms, TimeBits: 10, WorkerBits: 4, SequenceBits: 2},
		{Epoch: DefaultEpoch, Unit: ms, TimeBits: 57, WorkerBits: 4, SequenceBits: 2},
		{Epoch: DefaultEpoch, Unit: ms, TimeBits: 57, WorkerBits: 4, SequenceBits: 2, WorkerLast: true},
		{Epoch: UnixEpoch, Unit: 1, TimeBits: 60, WorkerBits: 1, SequenceBits: 2},
	} {
		for _, borrow := range []time.Duration{0, 10 * ms} {
			t.Run(fmt.Sprint(layout, borrow), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					end := layout.Expires()
					c := &stopped{now: end.Add(-layout.Unit)}
					i := newIssuer(t, &Options{Layout: layout, Clock: c, BorrowAhead: borrow})
					i.spend(4, c.now)
					i.refused(ErrTimeExhausted)
					c.now = end
					i.refused(ErrTimeExhausted)
				})
			})
		}
	}
}

func TestTimeRunsOutOf63TimeBits(t *testing.T) {
	layout := Layout{Epoch: UnixEpoch, Unit: 1, TimeBits: 63}
	for name, policy := range map[string]BackwardPolicy{"wait": nil, "bump": always(ActionBump), "rewind": RewindPolicy(), "fail": FailPolicy()} {
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

// The limit that borrowing allows may lie past all ticks.
func TestBorrowAheadOfTheWholeLayout(t *testing.T) {
	layout := Layout{Epoch: UnixEpoch, Unit: 1, TimeBits: 61, SequenceBits: 2}
	g, err := New(0, &Options{Layout: layout, Clock: &stopped{noon}, BorrowAhead: 1<<61 - 1})
	require.NoError(t, err)
	for range 100 {
		_, err := g.NextID()
		require.NoError(t, err)
	}
}

// If an option would silently do nothing, or never work, New refuses it with the
// reason.
func TestNewRefusesOptionsWithoutEffect(t *testing.T) {
	clock := &stopped{noon}
	bits := Layout{Epoch: UnixEpoch, Unit: ms, TimeBits: 41}
	ahead := func(d time.Duration) ID {
		id, err := DefaultLayout().Encode(Parts{Time: noon.Add(d)})
		require.NoError(t, err)
		return id
	}
	tests := map[string]struct {
		opts Options
		text string // "": it is taken
	}{
		"ClockSeqPolicy without bits":          {Options{OnBackward: ClockSeqPolicy()}, "no clock-sequence bits"},
		"ClockSeqPolicy with bits":             {Options{OnBackward: ClockSeqPolicy(), Layout: ClockSeqLayout()}, ""},
		"RewindPolicy without RewindTicks":     {Options{OnBackward: RewindPolicy()}, "without RewindTicks"},
		"RewindPolicy with RewindTicks":        {Options{OnBackward: RewindPolicy(), RewindTicks: 1}, ""},
		"RandomStart without sequence bits":    {Options{Layout: bits, RandomStart: true}, "no sequence bits"},
		"a negative WaitPolicy":                {Options{OnBackward: WaitPolicy(-1)}, "WaitPolicy(-1ns) is negative"},
		"WaitPolicy(0)":                        {Options{OnBackward: WaitPolicy(0)}, ""},
		"a nil function":                       {Options{OnBackward: BackwardFunc(nil)}, "nil BackwardFunc"},
		"BorrowAhead of all the layout's time": {Options{Layout: bits, BorrowAhead: bits.Expires().Sub(bits.Epoch.Time()) - ms}, ""},
		"BorrowAhead of more":                  {Options{Layout: bits, BorrowAhead: bits.Expires().Sub(bits.Epoch.Time()) - ms + 1}, "is all the time of the layout"},
		"After a day ahead":                    {Options{After: ahead(24 * time.Hour)}, ""},
		"After more than a day ahead":          {Options{After: ahead(24*time.Hour + ms)}, "it is probably an ID of another layout than time=41"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.opts.Clock = clock
			_, err := New(0, &test.opts)
			if test.text == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrInvalidOptions)
			require.ErrorContains(t, err, test.text)
		})
	}
	_, err := NewLeased(newFakeLease(noon, noon), &Options{Layout: ClockSeqLayout(), Clock: clock, OnBackward: ClockSeqPolicy()})
	require.ErrorIs(t, err, ErrInvalidOptions)
	require.ErrorContains(t, err, "the lease cannot change its clock sequence")
}

// A policy that panics, as under net/http's recover, leaves the queue in order.
func TestCallersQueuedAfterAPanicAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		asked := 0
		i := newIssuer(t, &Options{Layout: small, Clock: c, OnBackward: BackwardFunc(func(Backward) Action {
			if asked++; asked == 1 {
				time.Sleep(ms) // others come
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
		d := elapsed(func() { i.spend(3, noon) })
		assert.Equal(t, 10*ms, d)
	})
}

func TestZeroGeneratorSaysThatItWasNotMade(t *testing.T) {
	var g Generator
	_, err := g.NextID()
	require.ErrorIs(t, err, ErrInvalidOptions)
	require.ErrorContains(t, err, "make one with New")
	_, err = g.Fill(context.Background(), make([]ID, 3))
	require.ErrorIs(t, err, ErrInvalidOptions)
}

func TestOptionsOutOfRange(t *testing.T) {
	twitter := Layout{Epoch: TwitterEpoch, Unit: ms, TimeBits: 41, DatacenterBits: 5, WorkerBits: 5, SequenceBits: 12}
	tooWide := Layout{Unit: ms, TimeBits: 42, WorkerBits: 10, SequenceBits: 12}
	for _, test := range []struct {
		name   string
		worker int
		opts   *Options
		want   error
		text   string
	}{
		{"worker", 1024, nil, ErrWorkerRange, "worker 1024 does not fit the layout, which has room for 0 to 1023"},
		{"worker negative", -1, nil, ErrWorkerRange, "worker -1"},
		{"worker without bits", 1, &Options{Layout: Layout{Unit: ms, TimeBits: 41}}, ErrWorkerRange, "only 0 does"},
		{"datacenter", 1, &Options{Layout: twitter, Datacenter: 32}, ErrWorkerRange, "datacenter 32 does not fit the layout, which has room for 0 to 31"},
		{"datacenter negative", 1, &Options{Layout: twitter, Datacenter: -1}, ErrWorkerRange, "datacenter -1"},
		{"datacenter without bits", 1, &Options{Datacenter: 1}, ErrWorkerRange, "datacenter 1"},
		{"64 bits", 1, &Options{Layout: tooWide}, ErrInvalidLayout, "64 bits in all"},
		{"borrow negative", 1, &Options{BorrowAhead: -1}, ErrInvalidOptions, "BorrowAhead -1ns"},
		{"borrow for ever", 1, &Options{BorrowAhead: math.MaxInt64}, ErrInvalidOptions, "BorrowAhead"},
		{"rewind negative", 1, &Options{RewindTicks: -1}, ErrInvalidOptions, "RewindTicks -1"},
		{"after negative", 1, &Options{After: -1}, ErrInvalidID, "-1 is negative"},
		{"after of another layout", 1, &Options{Layout: small, After: 1 << 50}, ErrInvalidID, "51 bits"},
		{"rewind too many", 1, &Options{RewindTicks: 1<<20 + 1}, ErrInvalidOptions, "1048576"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, err := New(test.worker, test.opts)
			assert.Nil(t, g)
			assert.ErrorIs(t, err, test.want)
			assert.ErrorContains(t, err, test.text)
		})
	}
}

func TestFillReturnsWhatItHasOnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t, &Options{Layout: small, Clock: newTestClock()})
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Microsecond)
		defer cancel()
		dst := make([]ID, 100)
		n, err := i.Fill(ctx, dst)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 12, n)
		for _, id := range dst[:n] {
			i.keep(id)
		}
		assert.Equal(t, make([]ID, 88), dst[n:], "the rest is untouched")
		i.next()
	})
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

func TestFillIncreasesWhileTheClockGoesBack(t *testing.T) {
	for name, policy := range map[string]BackwardPolicy{"bump": ClockSeqPolicy(), "rewind": RewindPolicy()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newTestClock()
				reads := 0
				layout := small
				layout.ClockSeqBits = 6
				i := newIssuer(t, &Options{Layout: layout, OnBackward: policy, RewindTicks: 10, Clock: ClockFunc(func() time.Time {
					if reads++; reads%3 == 0 {
						c.step(-5 * ms)
					} else {
						c.step(3 * ms)
					}
					return c.Now()
				})})
				dst := make([]ID, 40)
				n, err := i.Fill(t.Context(), dst)
				require.NoError(t, err)
				require.Equal(t, len(dst), n)
				assert.True(t, slices.IsSorted(dst))
				for _, id := range dst {
					i.keep(id)
				}
				s := i.Stats()
				assert.Positive(t, s.Bumps+s.Rewinds)
				assert.EqualValues(t, 40, s.Issued)
			})
		})
	}
}

func TestRandomStart(t *testing.T) {
	for bits := uint8(1); bits < 13; bits++ {
		t.Run(fmt.Sprint(bits), func(t *testing.T) {
			layout := Layout{Epoch: DefaultEpoch, Unit: ms, TimeBits: 41, WorkerBits: 1, SequenceBits: bits}
			c := &stopped{now: noon}
			i := newIssuer(t, &Options{Layout: layout, Clock: c, RandomStart: true})
			size := 1 << bits
			most := max(size/2, min(size, 2)) // starts are below this
			seen := map[int]int{}
			for range 20 * size {
				c.now = c.now.Add(ms)
				start := i.next().Sequence
				if start >= most {
					t.Fatalf("the sequence started at %d, not below %d", start, most)
				}
				seen[start]++
			}
			assert.Greater(t, len(seen), most*9/10, "nearly all starts occur")
		})
	}
}

// A call that returns an error counts once, by its error.
func TestRefusedCallsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &stopped{noon}
		end := noon.Add(ms)
		l := newFakeLease(noon.Add(-time.Second), end)
		i := newLeasedIssuer(t, l, &Options{Layout: small, Clock: c, OnBackward: FailPolicy()})
		i.next()
		assert.Zero(t, i.Stats().Refused)

		c.now = noon.Add(-ms)
		i.refused(ErrClockBackward)
		c.now = end
		i.refused(ErrLeaseExpired)
		c.now = small.Expires()
		i.refused(ErrTimeExhausted)
		c.now = small.Epoch.Time().Add(-ms)
		i.refused(ErrBeforeEpoch)
		assert.Equal(t, Refused{ClockBackward: 1, LeaseExpired: 1, TimeExhausted: 1, BeforeEpoch: 1}, i.Stats().Refused)

		c.now = noon
		short, cancel := context.WithTimeout(t.Context(), ms/2)
		defer cancel()
		n, err := i.Fill(short, make([]ID, 9)) // the tick has three IDs left
		assert.Equal(t, 3, n)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = i.NextIDContext(gone)
		require.ErrorIs(t, err, context.Canceled)
		n, err = i.Fill(gone, nil)
		assert.Zero(t, n)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, Refused{ClockBackward: 1, LeaseExpired: 1, TimeExhausted: 1, BeforeEpoch: 1, Deadline: 1, Canceled: 2}, i.Stats().Refused)

		g, err := NewLeased(&otherLease{Lease: l}, &Options{Layout: small, Clock: c})
		require.NoError(t, err)
		c.now = end
		_, err = g.NextID()
		require.ErrorIs(t, err, ErrWorkerRange)
		assert.Equal(t, Refused{Other: 1}, g.Stats().Refused)
	})
	var r Refused
	assert.Same(t, &r.LeaseExpired, r.field(&LeaseExpiredError{Cause: context.DeadlineExceeded}), "a deadline of the store's")
}

// otherLease grants a worker ID that does not fit, from its third grant on.
type otherLease struct {
	Lease
	grants int
}

func (l *otherLease) Grant() Grant {
	grant := l.Lease.Grant()
	if l.grants++; l.grants > 2 {
		grant.Worker = 1 << 20
	}
	return grant
}

// Callers that waited for a tick and wake late get that tick's IDs, within maxLag, and
// so do the callers after them.
func TestCallersThatWakeLateCatchUp(t *testing.T) {
	layout := Layout{Epoch: UnixEpoch, Unit: ms, TimeBits: 41, WorkerBits: 4, SequenceBits: 2}
	for _, test := range []struct {
		late  time.Duration
		ticks []int // of the IDs that follow, counted from the tick waited for
	}{
		{0, []int{0, 0, 0, 0, 1}},
		{ms / 2, []int{0, 0, 0, 0, 1}},
		{2 * ms, []int{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3}},
		{maxLag + ms - 1, []int{0, 0, 0, 0, 1}},
		{maxLag + ms, []int{0, 6, 6, 6, 6, 7}},
	} {
		t.Run(test.late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := newIssuer(t, &Options{Layout: layout})
				start := time.Now().UTC()
				i.spend(4, start)
				c := call{n: 1}
				v, err := i.step(&c)
				require.NoError(t, err)
				require.Equal(t, ms, v.wait)
				time.Sleep(v.wait + test.late)
				v, err = i.step(&c)
				require.NoError(t, err)
				require.EqualValues(t, 1, v.ids.n)
				got := []int{int(i.keep(v.ids.first).Time.Sub(start)/ms) - 1}
				for range len(test.ticks) - 1 {
					got = append(got, int(i.next().Time.Sub(start)/ms)-1)
				}
				assert.Equal(t, test.ticks, got)
			})
		})
	}
}

func TestNoAllocs(t *testing.T) {
	ample := Layout{Epoch: DefaultEpoch, Unit: ms, TimeBits: 35, SequenceBits: 28}
	stopped := &stopped{now: noon}
	ctx := context.Background()
	dst := make([]ID, 64)
	for name, opts := range map[string]*Options{
		"system clock": {Layout: ample}, "monotonic clock": {Layout: ample, Clock: MonotonicClock()},
		"own clock": {Layout: ample, Clock: stopped}, "random start": {Layout: ample, RandomStart: true},
	} {
		g, err := New(0, opts)
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
	g, err := New(0, nil)
	require.NoError(t, err)
	spend := func() { _, _ = g.NextID() }
	assert.Zero(t, testing.AllocsPerRun(10_000, spend), "waiting for ticks")
}

func TestGeneratorIsSmall(t *testing.T) {
	assert.EqualValues(t, 1, testing.AllocsPerRun(100, func() { _, _ = New(0, nil) }))
	assert.LessOrEqual(t, unsafe.Sizeof(Generator{}), uintptr(256))
}

// The allocator puts 256 bytes at a multiple of 256, so that no other generator
// shares a cache line with this one.
func TestGeneratorFillsItsCacheLines(t *testing.T) {
	var g Generator
	assert.EqualValues(t, 256, unsafe.Sizeof(g), "whole lines")
	assert.LessOrEqual(t, unsafe.Offsetof(g.seq)+unsafe.Offsetof(g.seq.stride)+unsafe.Sizeof(g.seq.stride), uintptr(64), "NextID needs one")
}

// All calls mixed, by many goroutines, under clocks that jump.
func TestConcurrentUse(t *testing.T) {
	jumpy := func() Clock {
		var reads atomic.Int64
		start := time.Now()
		return ClockFunc(func() time.Time {
			jump := []time.Duration{0, 0, 3 * ms, 0, -2 * ms, time.Second, 0, -time.Second}[reads.Add(1)/50%8]
			return noon.Add(time.Since(start) + jump)
		})
	}
	layout := Layout{Epoch: DefaultEpoch, Unit: ms, TimeBits: 41, ClockSeqBits: 4, WorkerBits: 4, SequenceBits: 7}
	for name, opts := range map[string]func() *Options{
		"system clock":   func() *Options { return &Options{Layout: layout} },
		"borrow, random": func() *Options { return &Options{Layout: layout, BorrowAhead: 20 * ms, RandomStart: true} },
		"wait":           func() *Options { return &Options{Layout: layout, Clock: jumpy()} },
		"clock sequence": func() *Options { return &Options{Layout: layout, Clock: jumpy(), OnBackward: ClockSeqPolicy()} },
		"rewind": func() *Options {
			return &Options{Layout: layout, Clock: jumpy(), OnBackward: RewindPolicy(), RewindTicks: 2000}
		},
	} {
		for _, procs := range []int{1, 2, 4, 16} {
			t.Run(fmt.Sprintf("%s/GOMAXPROCS=%d", name, procs), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				o := opts()
				checkConcurrent(t, o, o.OnBackward == nil)
			})
		}
	}
}

func checkConcurrent(t *testing.T, opts *Options, ordered bool) {
	g, err := New(3, opts)
	require.NoError(t, err)
	const goroutines, calls = 16, 100
	all := make([][]ID, goroutines)
	var wg sync.WaitGroup
	for k := range all {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			var ids [9]ID
			for call := range calls {
				var n int
				var err error
				switch (call + k) % 3 {
				case 0:
					ids[0], err = g.NextID()
					n = 1
				case 1:
					ids[0], err = g.NextIDContext(ctx)
					n = 1
				case 2:
					n, err = g.Fill(ctx, ids[:])
				}
				if errors.Is(err, ErrClockBackward) && n < len(ids) {
					n = map[bool]int{true: 0, false: n}[n == 1 && (call+k)%3 != 2]
				} else {
					assert.NoError(t, err)
				}
				all[k] = append(all[k], ids[:n]...)
				_ = g.Stats()
				assert.Equal(t, 3, g.Worker())
			}
		})
	}
	wg.Wait()
	var ids []ID
	for _, own := range all {
		if ordered {
			assert.True(t, slices.IsSorted(own), "a goroutine's IDs are in order")
		}
		ids = append(ids, own...)
	}
	assert.EqualValues(t, len(ids), g.Stats().Issued)
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), len(ids), "an ID was issued twice")
	for _, id := range ids {
		require.NoError(t, g.Layout().Check(id))
		require.Equal(t, 3, g.Decode(id).Worker)
	}
}
