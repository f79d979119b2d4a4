package snowflake

import (
	"bytes"
	"context"
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

// The tick begins while the head still sleeps, and a newcomer is the first to see
// it.
func TestNewcomerDoesNotOvertake(t *testing.T) {
	queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
		waiting := i.startAll(6)
		c.step(ms)
		newcomer := i.start(t.Context(), 1)
		assert.False(t, newcomer.done.Load(), "it takes its place behind the others")
		time.Sleep(ms)
		synctest.Wait()
		for k, p := range append(waiting, newcomer) {
			assert.Equal(t, []int{4 + k}, i.places(p))
		}
	})
}

// The newcomer that opens the tick serves all waiting callers, at once.
func TestNewcomerServesTheQueueFirst(t *testing.T) {
	queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
		waiting := i.startAll(3)
		c.step(ms)
		newcomer := i.start(t.Context(), 1)
		for k, p := range append(waiting, newcomer) {
			assert.Equal(t, []int{4 + k}, i.places(p))
			assert.Zero(t, p.took)
		}
	})
}

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
		time.Sleep(ms)
		synctest.Wait()
		next := i.start(t.Context(), 1)
		for k, p := range []*pending{first, last, next} {
			assert.Equal(t, []int{4 + k}, i.places(p))
		}
		assert.EqualValues(t, 7, i.Stats().Issued)
	})
}

func TestNextCallerTakesOverWhenTheHeadGivesUp(t *testing.T) {
	for _, limit := range []time.Duration{0, 500 * time.Microsecond} { // at once, or later
		queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
			ctx, cancel := context.WithCancel(t.Context())
			head := i.start(ctx, 1)
			next := i.startAll(5)
			time.AfterFunc(limit, cancel)
			time.Sleep(3 * ms)
			synctest.Wait()
			assert.ErrorIs(t, head.err, context.Canceled)
			assert.Equal(t, limit, head.took)
			for k, p := range next {
				assert.Equal(t, []int{4 + k}, i.places(p))
				assert.Equal(t, time.Duration(1+k/4)*ms, p.took)
			}
		})
	}
}

// A Fill takes one tick at its turn, and joins the end of the queue again.
func TestFillTakesTurnsWithOthers(t *testing.T) {
	queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
		first := i.startAll(2)
		fill := i.start(t.Context(), 8)
		others := i.startAll(5)
		time.Sleep(10 * ms)
		synctest.Wait()
		for k, place := range []int{4, 5} {
			assert.Equal(t, []int{place}, i.places(first[k]))
		}
		for k, place := range []int{8, 9, 10, 11, 12} {
			assert.Equal(t, []int{place}, i.places(others[k]), "a Fill ahead takes what one tick has left")
		}
		assert.Equal(t, []int{6, 7, 13, 14, 15, 16, 17, 18}, i.places(fill), "5 calls behind a Fill wait for it no longer than it for them")
	})
}

// However many calls for one ID come, a Fill has its turn.
func TestFillIsNotStarved(t *testing.T) {
	queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
		ctx, cancel := context.WithCancel(t.Context())
		for range 8 {
			go func() {
				for ctx.Err() == nil {
					_, _ = i.NextIDContext(ctx)
				}
			}()
		}
		synctest.Wait()
		fill := i.start(t.Context(), 40)
		time.Sleep(100 * ms)
		synctest.Wait()
		assert.Len(t, i.places(fill), 40)
		assert.Equal(t, 30*ms, fill.took, "ten turns, each behind 8 others")
		cancel()
		synctest.Wait()
	})
}

// endless has a deadline, and is not done when the deadline has passed: only the
// place in the queue can say that a call is too late.
type endless struct {
	context.Context
	deadline time.Time
}

func (e endless) Deadline() (time.Time, bool) { return e.deadline, true }

// A call is refused at once if, and only if, its turn comes after its deadline. A
// tick has 4 IDs.
func TestDeadlineIsJudgedByThePlaceInTheQueue(t *testing.T) {
	for _, test := range []struct {
		name  string
		ahead []int // how many IDs the calls ahead want
		turn  time.Duration
	}{
		{"nobody ahead", nil, ms},
		{"the last of a tick", []int{1, 1, 1}, ms},
		{"the first of the next tick", []int{1, 1, 1, 1}, 2 * ms},
		{"a third tick", []int{1, 1, 1, 1, 1, 1, 1, 1}, 3 * ms},
		{"a Fill of half a tick", []int{2}, ms},
		{"a Fill, of which one tick counts", []int{100}, 2 * ms},
		{"a Fill, of which the rest of a tick counts", []int{1, 1, 100}, 2 * ms},
		{"two Fills", []int{1, 100, 100}, 3 * ms},
	} {
		for _, slack := range []time.Duration{-1, 0, 1} {
			t.Run(test.name, func(t *testing.T) {
				queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
					ctx, cancel := context.WithCancel(t.Context())
					for _, n := range test.ahead {
						i.start(ctx, n)
					}
					p := i.start(endless{t.Context(), time.Now().Add(test.turn + slack)}, 1)
					if slack < 0 {
						require.True(t, p.done.Load(), "it is refused at once")
						assert.ErrorIs(t, p.err, context.DeadlineExceeded)
					} else {
						time.Sleep(test.turn)
						synctest.Wait()
						i.places(p)
						assert.Equal(t, test.turn, p.took)
					}
					cancel()
					synctest.Wait()
				})
			})
		}
	}
}

// A place is not remembered beyond a call that leaves.
func TestDeadlineIsJudgedAgainAfterACallerLeaves(t *testing.T) {
	queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
		ctx, cancel := context.WithCancel(t.Context())
		first := i.start(ctx, 1)
		others := i.startAll(3)
		within := func() *pending {
			limited, stop := context.WithTimeout(t.Context(), ms+1)
			t.Cleanup(stop)
			return i.start(limited, 1)
		}
		assert.ErrorIs(t, within().err, context.DeadlineExceeded, "the tick is given away")
		cancel()
		synctest.Wait()
		assert.ErrorIs(t, first.err, context.Canceled)
		last := within()
		assert.ErrorIs(t, within().err, context.DeadlineExceeded, "the tick is given away again")
		time.Sleep(ms)
		synctest.Wait()
		for k, p := range append(others, last) {
			assert.Equal(t, []int{4 + k}, i.places(p))
		}
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

// Each caller that wakes reads the clock: the head at the start of a tick, and the
// next head, which sets the next timer.
func TestWaitingCallersShareOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		c := newTestClock()
		i := newIssuer(t, &Options{Layout: small, Clock: ClockFunc(func() time.Time { reads.Add(1); return c.Now() })})
		i.spend(4, noon)
		goroutines := goroutinesInBubble(t)
		const callers = 400
		waiting := i.startAll(callers)
		assert.Equal(t, goroutines+callers, goroutinesInBubble(t), "the queue has no goroutine")
		for range callers / 4 {
			reads.Store(0)
			time.Sleep(ms)
			synctest.Wait()
			assert.LessOrEqual(t, reads.Load(), int64(2))
		}
		for k, p := range waiting {
			assert.Equal(t, []int{4 + k}, i.places(p))
			assert.Equal(t, time.Duration(1+k/4)*ms, p.took)
		}
		reads.Store(0)
		time.Sleep(time.Hour)
		assert.Zero(t, reads.Load(), "nobody is left")
	})
}

// A call reads the clock, and waits for the lock while another call opens a later
// tick. Then the reading is stale. It must not look as if the clock had gone back.
func TestCallReadsTheClockAgainAfterItWaitedForTheLock(t *testing.T) {
	for name, call := range map[string]func(*Generator) error{
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
			go func() { done <- call(g) }()
			for start := time.Now(); time.Since(start) < ms; {
				runtime.Gosched() // until the call waits for the lock
			}
			r, err := g.step(&caller{n: 2}, consent{})
			g.unlock()
			require.NoError(t, err)
			require.Equal(t, 2, r.ids.n)
			require.NoError(t, <-done)
		})
	}
}

// Callers that wait for a clock that has stopped learn it together, and not one
// after the other.
func TestCallersWaitTogetherForAStoppedClock(t *testing.T) {
	for name, test := range map[string]struct {
		policy BackwardPolicy
		most   time.Duration
	}{
		"fail":   {FailPolicy(), maxStall},
		"rewind": {RewindPolicy(), maxStall},
		"wait":   {WaitPolicy(time.Second), 2 * maxStall},
		"always": {always(ActionWait), 2 * maxStall},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := newIssuer(t, &Options{Layout: small, Clock: &stopped{noon}, OnBackward: test.policy, RewindTicks: 10})
				i.spend(4, noon)
				waiting := i.startAll(100)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				for _, p := range waiting {
					require.True(t, p.done.Load())
					require.ErrorIs(t, p.err, ErrClockBackward)
					require.LessOrEqual(t, p.took, test.most+ms)
				}
			})
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
				g, err := New(1, &Options{Clock: clock(), Layout: RedisLayout()})
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

// If the clock catches up and goes back again, a caller's waiting time for the clock
// is counted anew.
func TestSecondStepBackStartsANewWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		again := noon.Add(ms) // after this reading the clock goes back again
		i := newIssuer(t, &Options{Layout: small, OnBackward: WaitPolicy(time.Second), Clock: ClockFunc(func() time.Time {
			now := c.Now()
			if now.Equal(again) {
				again = time.Time{}
				c.step(-40 * ms)
			}
			return now
		})})
		i.spend(4, noon)
		waiting := i.startAll(5)
		c.step(-60 * ms)
		time.Sleep(time.Second)
		synctest.Wait()
		for k, p := range waiting {
			assert.Equal(t, []int{4 + k}, i.places(p))
		}
		assert.Equal(t, 61*ms, waiting[3].took)
		assert.Equal(t, 102*ms, waiting[4].took)
	})
}

// A clock that is set forward within a long tick brings the next tick closer. The
// head learns it from whoever comes next, who may have a deadline that depends on it.
func TestNewcomerWakesTheHeadIfTheClockWasSetForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		seconds := small
		seconds.Unit = time.Second
		i := newIssuer(t, &Options{Layout: seconds, Clock: c})
		for range 4 {
			_, err := i.NextID()
			require.NoError(t, err)
		}
		head := i.start(t.Context(), 1)
		c.step(700 * ms)
		limited, stop := context.WithTimeout(t.Context(), 400*ms)
		defer stop()
		newcomer := i.start(limited, 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, p := range []*pending{head, newcomer} {
			assert.NoError(t, p.err)
			assert.Equal(t, 300*ms, p.took)
		}
	})
}
