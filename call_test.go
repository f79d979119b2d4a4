//go:build go1.25

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

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

// pending is a call that may have to wait.
type pending struct {
	id   ID
	err  error
	took time.Duration
	done atomic.Bool // set last
}

// start begins a call, and returns when it waits or is done.
func (i *issuer) start(ctx context.Context) *pending {
	p := new(pending)
	go func() {
		start := time.Now()
		p.id, p.err = i.NextIDContext(ctx)
		p.took = time.Since(start)
		p.done.Store(true)
	}()
	synctest.Wait()
	return p
}

// startAll begins n calls.
func (i *issuer) startAll(n int) (all []*pending) {
	for range n {
		all = append(all, i.start(i.t.Context()))
	}
	return all
}

// place returns the place of a call's ID: 4 for each tick from noon on, with small's layout.
func (i *issuer) place(p *pending) int {
	i.t.Helper()
	require.True(i.t, p.done.Load(), "the call has not returned")
	require.NoError(i.t, p.err)
	parts := i.keep(p.id)
	return int(parts.Time.Sub(noon)/ms)*4 + parts.Sequence
}

// The next caller gets the ID of a caller that gave up, if every ID returned since is less, even if
// the clock goes back after another caller has waited for a later ID.
func TestNoIDIsLostToACallerThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClock()
		i := newIssuer(t, &Options{Layout: small, Clock: c})
		i.spend(4, noon)
		i.startAll(1)
		ctx, cancel := context.WithCancel(t.Context())
		left := []*pending{i.start(ctx)} // for 5, in the tick after noon's
		i.startAll(6)
		left = append(left, i.start(ctx)) // for 12, two ticks later
		cancel()
		synctest.Wait()
		c.step(2 * ms)
		ctx, cancel = context.WithCancel(t.Context())
		left = append(left, i.start(ctx)) // for 12
		cancel()
		synctest.Wait()
		for _, p := range left {
			assert.ErrorIs(t, p.err, context.Canceled)
			assert.Zero(t, p.took)
		}
		c.step(-ms)
		assert.Equal(t, 5, i.place(i.start(t.Context())))
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

// A waiting caller has no goroutine but its own, and reads the clock when it arrives and when it
// wakes.
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
			assert.Equal(t, 4+k, i.place(p))
			assert.Equal(t, time.Duration(1+k/4)*ms, p.took)
		}
	})
}

// A call reads the clock, and waits for the lock while another call opens a later tick. Its stale
// reading must not look like a step back of the clock.
func TestCallReadsTheClockAgainAfterItWaitedForTheLock(t *testing.T) {
	for name, take := range map[string]func(*Generator) error{
		"NextID":        func(g *Generator) error { _, err := g.NextID(); return err },
		"NextIDContext": func(g *Generator) error { _, err := g.NextIDContext(t.Context()); return err },
		"Fill":          func(g *Generator) error { _, err := g.Fill(t.Context(), make([]ID, 2)); return err },
		// The other three call obtain if the tick is spent.
		"obtain": func(g *Generator) error { _, err := g.obtain(t.Context(), 1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			layout := Layout{Epoch: UnixEpoch, Unit: time.Microsecond, TimeBits: 60, SequenceBits: 1}
			g, err := New(0, &Options{Layout: layout, Clock: SystemClock(), OnBackward: FailPolicy()})
			require.NoError(t, err)
			done := make(chan error)
			g.lock()
			go func() { done <- take(g) }()
			for start := time.Now(); time.Since(start) < ms; {
				runtime.Gosched() // until the call waits for the lock
			}
			next, err := g.advanceLocked(&call{n: 2})
			g.unlock()
			require.NoError(t, err)
			require.EqualValues(t, 2, next.ids.n)
			require.NoError(t, <-done)
		})
	}
}

// With a built-in clock, calls take IDs of the open tick before anything else, but a context that
// is done comes first.
func TestDoneContextIssuesNothing(t *testing.T) {
	for _, clock := range []Clock{SystemClock(), MonotonicClock(), &stopped{noon}} {
		g, err := New(1, &Options{Clock: clock})
		require.NoError(t, err)
		_, err = g.NextID() // opens the tick
		require.NoError(t, err)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		expired, cancel := context.WithDeadline(t.Context(), time.Now())
		defer cancel()
		for _, ctx := range []context.Context{canceled, expired} {
			_, err := g.NextIDContext(ctx)
			assert.Equal(t, ctx.Err(), err)
			n, err := g.Fill(ctx, make([]ID, 3))
			assert.Equal(t, ctx.Err(), err)
			assert.Zero(t, n)
		}
		assert.EqualValues(t, 1, g.Stats().Issued)
	}
}

// However many calls arrive while the clock stands still, none waits longer than the docs say.
func TestStoppedClockUnderSteadyArrivals(t *testing.T) {
	for name, opts := range map[string]Options{
		"default":      {},
		"fail":         {OnBackward: FailPolicy()},
		"always wait":  {OnBackward: always(ActionWait)},
		"rewind":       {OnBackward: RewindPolicy(), RewindTicks: 10},
		"borrow ahead": {BorrowAhead: 3 * ms},
	} {
		for _, every := range []time.Duration{depth.Of(ms, ms/10), 10 * ms} {
			// If zigzag is not 0, the clock runs, and goes back by zigzag each time.
			for _, zigzag := range []time.Duration{0, ms / 2, 10 * ms} {
				t.Run(fmt.Sprintf("%s/every %v/zigzag %v", name, every, zigzag), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						start := time.Now()
						opts.Layout, opts.Clock = small, ClockFunc(func() time.Time { return noon.Add(time.Since(start) % max(zigzag, 1)) })
						i := newIssuer(t, &opts)
						_, _ = i.Fill(t.Context(), make([]ID, 3*4))
						var all []*pending
						var turns []time.Duration // the wait of each, if the clock ran
						for range 500 * ms / every {
							i.mu.Lock()
							ahead := time.Duration(i.seq.waiting().total)
							i.mu.Unlock()
							turns = append(turns, (ahead/4+2)*ms)
							all = append(all, i.start(t.Context()))
							time.Sleep(every)
						}
						time.Sleep(time.Hour)
						for k, p := range all {
							require.True(t, p.done.Load())
							// In order: the time to find that the clock stands still, and the
							// wait that the policy agrees to.
							require.LessOrEqual(t, p.took, maxStall+max(maxStall, 2*turns[k])+maxRetry)
						}
					})
				})
			}
		}
	}
}

func TestActionsHaveNames(t *testing.T) {
	assert.Equal(t, "fail wait bump rewind Action(4)",
		fmt.Sprint(ActionFail, " ", ActionWait, " ", ActionBump, " ", ActionRewind, " ", Action(4)))
}
