package snowflake

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pending is a call that may have to wait.
type pending struct {
	ids  []ID
	err  error
	took time.Duration
	done atomic.Bool // set last
}

// start begins a call for n IDs, and returns when it waits or is done.
func (i *issuer) start(ctx context.Context, n int) *pending {
	i.t.Helper()
	p := new(pending)
	go func() {
		p.took = elapsed(func() {
			if n > 1 {
				dst := make([]ID, n)
				n, p.err = i.Fill(ctx, dst)
				p.ids = dst[:n]
				return
			}
			var id ID
			if id, p.err = i.NextIDContext(ctx); p.err == nil {
				p.ids = []ID{id}
			}
		})
		p.done.Store(true)
	}()
	synctest.Wait()
	return p
}

// startAll begins n calls for one ID each.
func (i *issuer) startAll(n int) []*pending {
	i.t.Helper()
	all := make([]*pending, n)
	for k := range all {
		all[k] = i.start(i.t.Context(), 1)
	}
	return all
}

// places returns the places of a call's IDs: 4 for each tick from noon on, with
// small's layout.
func (i *issuer) places(p *pending) []int {
	i.t.Helper()
	require.True(i.t, p.done.Load(), "the call has not returned")
	require.NoError(i.t, p.err)
	places := make([]int, len(p.ids))
	for k, id := range p.ids {
		parts := i.keep(id)
		places[k] = int(parts.Time.Sub(noon)/ms)*4 + parts.Sequence
	}
	return places
}

// queueTest runs test in a bubble, with a generator whose tick at noon is spent.
func queueTest(t *testing.T, test func(t *testing.T, c *testClock, i *issuer)) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		i := newIssuer(t, &Options{Layout: small, Clock: c})
		i.spend(4, noon)
		test(t, c, i)
	})
}

// The next caller gets the IDs of a caller that gave up, if every ID returned since is less.
func TestNoIDIsLostToACallerThatLeft(t *testing.T) {
	queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
		ctx, cancel := context.WithCancel(t.Context())
		first := i.start(t.Context(), 1)
		left := i.start(ctx, 1)
		last := i.start(t.Context(), 1)
		cancel()
		synctest.Wait()
		assert.ErrorIs(t, left.err, context.Canceled)
		assert.Zero(t, left.took)
		next := i.start(t.Context(), 1)
		time.Sleep(ms)
		synctest.Wait()
		later := i.start(t.Context(), 1)
		for k, p := range []*pending{first, next, last, later} {
			assert.Equal(t, []int{4 + k}, i.places(p))
		}
		assert.EqualValues(t, 8, i.Stats().Issued)
	})
}

// A caller whose context ends when its tick has begun, though its timer has not fired,
// gets its IDs.
func TestCancelledCallerWhoseTickHasBegunGetsItsID(t *testing.T) {
	queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
		ctx, cancel := context.WithCancel(t.Context())
		p := i.start(ctx, 1)
		c.step(ms)
		cancel()
		synctest.Wait()
		assert.Equal(t, []int{4}, i.places(p))
		assert.Zero(t, p.took)
	})
}

// goroutinesInBubble counts the goroutines of the bubble that the test runs in.
func goroutinesInBubble(t *testing.T) int {
	t.Helper()
	stacks := make([]byte, 16<<20)
	n := runtime.Stack(stacks, true)
	require.Less(t, n, len(stacks), "not all stacks have room")
	stacks = stacks[:n]
	own, _, _ := bytes.Cut(stacks, []byte(":\n")) // the first stack is the caller's
	_, bubble, found := bytes.Cut(own, []byte("synctest bubble "))
	require.Truef(t, found, "no bubble: %s", own)
	return bytes.Count(stacks, []byte(", synctest bubble "+string(bubble)))
}

// A caller that waits has no goroutine besides its own, and reads the clock when it
// comes and when it wakes.
func TestWaitingCallersAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		c := newTestClock()
		i := newIssuer(t, &Options{Layout: small, Clock: ClockFunc(func() time.Time { reads.Add(1); return c.Now() })})
		i.spend(4, noon)
		goroutines := goroutinesInBubble(t)
		const callers = 400
		reads.Store(0)
		waiting := i.startAll(callers)
		assert.Equal(t, goroutines+callers, goroutinesInBubble(t))
		time.Sleep(time.Hour)
		assert.LessOrEqual(t, reads.Load(), int64(3*callers))
		for k, p := range waiting {
			assert.Equal(t, []int{4 + k}, i.places(p))
			assert.Equal(t, time.Duration(1+k/4)*ms, p.took)
		}
	})
}

// A call reads the clock, and waits for the lock while another call opens a later
// tick. Then the reading is stale. It must not look as if the clock had gone back.
func TestCallReadsTheClockAgainAfterItWaitedForTheLock(t *testing.T) {
	for name, take := range map[string]func(*Generator) error{
		"NextID":        func(g *Generator) error { _, err := g.NextID(); return err },
		"NextIDContext": func(g *Generator) error { _, err := g.NextIDContext(t.Context()); return err },
		"Fill":          func(g *Generator) error { _, err := g.Fill(t.Context(), make([]ID, 2)); return err },
		"take":          func(g *Generator) error { _, err := g.take(t.Context(), 1); return err }, // what they do if the tick is spent
	} {
		t.Run(name, func(t *testing.T) {
			layout := Layout{Epoch: UnixEpoch, Unit: time.Microsecond, TimeBits: 60, SequenceBits: 1}
			g, err := New(0, &Options{Layout: layout, OnBackward: FailPolicy()})
			require.NoError(t, err)
			done := make(chan error)
			g.mu.Lock()
			go func() { done <- take(g) }()
			for start := time.Now(); time.Since(start) < ms; {
				runtime.Gosched() // until the call waits for the lock
			}
			v, err := g.stepLocked(&call{n: 2})
			g.mu.Unlock()
			require.NoError(t, err)
			require.EqualValues(t, 2, v.ids.n)
			require.NoError(t, <-done)
		})
	}
}

// With a built-in clock, calls take IDs of the open tick before anything else. A
// context that is done comes first.
func TestDoneContextIssuesNothing(t *testing.T) {
	for name, clock := range map[string]func() Clock{
		"system": SystemClock, "monotonic": MonotonicClock, "own": func() Clock { return newTestClock() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := New(1, &Options{Clock: clock(), Layout: oldLayout()})
				require.NoError(t, err)
				_, err = g.NextID() // opens the tick
				require.NoError(t, err)
				before := g.state()
				canceled, cancel := context.WithCancel(t.Context())
				cancel()
				expired, cancel := context.WithDeadline(t.Context(), time.Now())
				defer cancel()
				for _, ctx := range []context.Context{canceled, expired} {
					id, err := g.NextIDContext(ctx)
					assert.Equal(t, ctx.Err(), err)
					assert.Zero(t, id)
					n, err := g.Fill(ctx, make([]ID, 3))
					assert.Equal(t, ctx.Err(), err)
					assert.Zero(t, n)
				}
				assert.Equal(t, before, g.state())
				assert.EqualValues(t, 1, g.Stats().Issued)
			})
		})
	}
}

// However many calls come while the clock stands still, none waits longer than the docs say.
func TestStoppedClockUnderSteadyArrivals(t *testing.T) {
	lease := func() *managed {
		return newManaged(noon.Add(-time.Hour), noon.Add(time.Hour), terms{Extend: func(context.Context, Grant, time.Time) error { return errAway }})
	}
	for name, test := range map[string]struct {
		opts  Options
		lease Lease
	}{
		"default":      {},
		"fail":         {opts: Options{OnBackward: FailPolicy()}},
		"always wait":  {opts: Options{OnBackward: always(ActionWait)}},
		"rewind":       {opts: Options{OnBackward: RewindPolicy(), RewindTicks: 10}},
		"borrow ahead": {opts: Options{BorrowAhead: 3 * ms}},
		"leased":       {lease: lease()},
	} {
		for _, every := range []time.Duration{100 * time.Microsecond, ms, 10 * ms} {
			for _, zigzag := range []time.Duration{0, ms / 2, 10 * ms} { // the clock runs, and goes back by as much each time
				t.Run(fmt.Sprintf("%s/every %v/zigzag %v", name, every, zigzag), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						start := time.Now()
						o := test.opts
						o.Layout, o.Clock = small, ClockFunc(func() time.Time { return noon.Add(time.Since(start) % max(zigzag, 1)) })
						var g *Generator
						var err error
						if test.lease == nil {
							g, err = New(1, &o)
						} else {
							g, err = NewLeased(test.lease, &o)
						}
						require.NoError(t, err)
						i := &issuer{g, t, map[ID]bool{}}
						_, _ = i.Fill(t.Context(), make([]ID, 3*4))
						var all []*pending
						var turns []time.Duration // how long each call would wait for its turn if the clock ran
						for range 500 * ms / every {
							i.mu.Lock()
							ahead := time.Duration(i.seq.waiting().held)
							i.mu.Unlock()
							turns = append(turns, (ahead/4+2)*ms)
							all = append(all, i.start(t.Context(), 1))
							time.Sleep(every)
						}
						time.Sleep(time.Hour)
						for k, p := range all {
							require.True(t, p.done.Load())
							// In order: to find that the clock stands still, and as long as the policy agrees to.
							require.LessOrEqual(t, p.took, maxStall+max(maxStall, 2*turns[k])+maxRetry)
						}
					})
				})
			}
		}
	}
}

// What calls only waited for was not stamped, also if its ticks were closed meanwhile.
func TestReleaseIsAfterTheLastIDThatWasReturned(t *testing.T) {
	for name, closes := range map[string]func(*testClock, *fakeLease, *issuer){
		"open":   func(*testClock, *fakeLease, *issuer) {},
		"floor":  func(c *testClock, _ *fakeLease, i *issuer) { c.step(5 * ms); i.floor() },
		"window": func(_ *testClock, l *fakeLease, i *issuer) { l.from.Store(new(noon.Add(9 * ms))); i.lookNow() },
	} {
		for _, opts := range []Options{{}, {OnBackward: RewindPolicy(), RewindTicks: 9}} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, l := newTestClock(), newFakeLease(noon.Add(-time.Second), noon.Add(time.Second))
					opts.Layout, opts.Clock = small, c
					i := newLeasedIssuer(t, l, &opts)
					i.spend(4, noon)
					all := i.startAll(9)
					closes(c, l, i)
					assert.Equal(t, noon.Add(ms), i.stop(ErrLeaseExpired))
					synctest.Wait()
					for _, p := range all {
						require.ErrorIs(t, p.err, ErrLeaseExpired)
					}
				})
			})
		}
	}
}
