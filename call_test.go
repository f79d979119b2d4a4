package snowflake

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
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

// The clock is set forward to the tick that callers wait for. A newcomer takes its place
// behind them all the same.
func TestNewcomerDoesNotOvertake(t *testing.T) {
	queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
		waiting := i.startAll(6)
		c.step(ms)
		newcomer := i.start(t.Context(), 1)
		assert.False(t, newcomer.done.Load(), "it takes its place behind the others")
		time.Sleep(2 * ms)
		synctest.Wait()
		for k, p := range append(waiting, newcomer) {
			assert.Equal(t, []int{4 + k}, i.places(p))
			assert.LessOrEqual(t, p.took, 2*ms)
		}
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

// IDs that were put back are not issued after a greater ID was returned.
func TestIDsPutBackAreNotIssuedOutOfOrder(t *testing.T) {
	queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
		ctx, cancel := context.WithCancel(t.Context())
		first := i.start(ctx, 1)
		rest := i.startAll(4) // 5, 6, 7, and 8 in the next tick
		time.Sleep(ms / 2)
		cancel()
		time.Sleep(ms/2 + 1)
		synctest.Wait()
		assert.ErrorIs(t, first.err, context.Canceled)
		assert.Equal(t, ms/2, first.took)
		next := i.start(t.Context(), 1)
		time.Sleep(ms)
		synctest.Wait()
		for k, p := range append(rest, next) {
			assert.Equal(t, []int{5 + k}, i.places(p))
		}
		assert.EqualValues(t, 9, i.Stats().Issued)
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

// Callers that give up, in any order, and come again lose no ID.
func TestCancelsUnderOverloadLoseNoID(t *testing.T) {
	queueTest(t, func(t *testing.T, c *testClock, i *issuer) {
		const ticks = 1000
		var served, cancelled atomic.Int64
		ctx, stop := context.WithCancel(t.Context()) // without a deadline, which would refuse calls at once
		time.AfterFunc(ticks*ms, stop)
		for k := range uint64(100) {
			go func() {
				r := rand.New(rand.NewPCG(1, k))
				for ctx.Err() == nil {
					ctx, cancel := context.WithCancel(ctx)
					time.AfterFunc(time.Duration(r.Int64N(int64(20*ms))), cancel)
					if _, err := i.NextIDContext(ctx); err == nil {
						served.Add(1)
					} else {
						cancelled.Add(1)
					}
				}
			}()
		}
		time.Sleep(ticks*ms + ms/2)
		synctest.Wait()
		assert.GreaterOrEqual(t, served.Load(), int64(ticks*4*99/100))
		assert.Greater(t, cancelled.Load(), int64(ticks))
	})
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
		second := within()
		assert.ErrorIs(t, within().err, context.DeadlineExceeded, "the tick is given away again")
		time.Sleep(ms)
		synctest.Wait()
		for k, p := range append([]*pending{second}, others...) {
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
					require.LessOrEqual(t, p.took, test.most)
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

// The clock catches up for one caller, and goes back again before the others look.
func TestSecondStepBackIsWaitedForToo(t *testing.T) {
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
		took := map[time.Duration]int{}
		for k, p := range waiting {
			assert.Equal(t, []int{4 + k}, i.places(p))
			took[p.took]++
		}
		assert.Equal(t, map[time.Duration]int{61 * ms: 1, 101 * ms: 3, 102 * ms: 1}, took)
	})
}

// A call that woke late gives up after greater IDs of its tick were returned: its ID is
// lost.
func TestIDPutBackLateIsNotIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layout := small
		layout.Epoch = UnixEpoch
		i := newIssuer(t, &Options{Layout: layout})
		i.spend(4, time.Now().UTC())
		late, other := call{n: 1}, call{n: 1}
		_, err := i.step(&other)
		require.NoError(t, err)
		_, err = i.step(&late)
		require.NoError(t, err)
		time.Sleep(ms)
		v, err := i.step(&other)
		require.NoError(t, err)
		require.Equal(t, stepIssue, v.step)
		last, err := i.NextID()
		require.NoError(t, err)
		i.putBack(&late)
		for range 4 {
			id, err := i.NextID()
			require.NoError(t, err)
			require.Greater(t, id, last)
			last = id
		}
	})
}

// A call looks at the clock after 50 ms of a longer wait. If its tick has begun by then, it has waited all the same.
func TestWaitThatEndsEarlyIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		layout := small
		layout.Unit, layout.Epoch = time.Second, UnixEpoch
		i := newIssuer(t, &Options{Layout: layout, Clock: c})
		i.spend(4, noon)
		p := i.start(t.Context(), 1)
		c.step(time.Second)
		d := elapsed(func() { time.Sleep(maxStall); synctest.Wait() })
		require.True(t, p.done.Load())
		assert.Equal(t, Stats{Issued: 5, Waits: 1, Waited: d}, i.Stats())
	})
}

// The clock leaps to the tick that calls wait for, and back. Meanwhile a call returned an ID of this tick that was put
// back. This is no reason to lose greater IDs of the tick.
func TestIDsAboveAnIDThatWasPutBackAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layout := small
		layout.Epoch = UnixEpoch // before the bubble's time
		i := newIssuer(t, &Options{Layout: layout, Clock: SystemClock()})
		begun := time.Now().UTC()
		leap := func(d time.Duration) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.wall.ahead, i.fresh = int32(d), never
		}
		i.spend(4, begun)
		i.start(t.Context(), 1) // for sequence 0
		var cancels []func()
		for range 2 { // for sequences 1 and 2
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			i.start(ctx, 1)
		}
		for k, cancel := range cancels {
			cancel()
			synctest.Wait()
			leap(time.Duration(1-k) * ms)
			p := i.next()
			assert.Equal(t, begun.Add(ms), p.Time)
			assert.Equal(t, k+1, p.Sequence)
			leap(0)
		}
	})
}

// A tick is stamped if a call has returned an ID of it, and not if calls only waited for it.
func TestClockSequenceIsUsedWhereCallsOnlyWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		i := newIssuer(t, &Options{Layout: small, Clock: c, OnBackward: ClockSeqPolicy()})
		ctx, cancel := context.WithCancel(t.Context())
		i.spend(4, noon)
		for range 9 { // of three ticks
			i.start(ctx, 1)
		}
		cancel()
		synctest.Wait()
		c.step(-ms)
		assert.Equal(t, 1, i.next().ClockSeq)
		c.step(4 * ms)
		assert.Equal(t, 1, i.next().ClockSeq)
		c.step(-2 * ms)
		assert.Equal(t, Parts{Time: noon.Add(ms), Worker: 1}, i.next())
	})
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
