package lease

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// The context bounds Acquire only. The lease lives on after cancel.
func TestContextEndsAcquireButNotTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		l, err := Acquire(ctx, m, &Options{Layout: plain, Clock: clockAt(0), NewStore: true})
		require.NoError(t, err)
		cancel()
		g, err := snowflake.NewLeased(l, nil)
		require.NoError(t, err)
		for range 100 {
			time.Sleep(time.Second)
			_, err := g.NextID()
			require.NoError(t, err)
		}
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
		saves := m.saved()
		time.Sleep(time.Minute)
		assert.Equal(t, saves, m.saved())
		// synctest checks that no goroutine is left.
	})
}

// crash leaves a held record whose holder has ended.
func crash(t *testing.T, m *memory, layout snowflake.Layout, c *clock, change ...func(*Options)) {
	t.Helper()
	o := &Options{Layout: layout, Owner: "a", Clock: c, NewStore: true}
	for _, f := range change {
		f(o)
	}
	l, err := Acquire(t.Context(), m, o)
	require.NoError(t, err)
	stopRenewing(l)
}

// stopRenewing ends a lease as a crash does.
func stopRenewing(l *Lease) {
	l.cancel()
	<-l.ended
}

func TestOptionAfterHoldsWithALease(t *testing.T) {
	for _, policy := range []snowflake.BackwardPolicy{snowflake.FailPolicy(), snowflake.ClockSeqPolicy()} {
		for seq := range 3 {
			synctest.Test(t, func(t *testing.T) {
				after, err := seqs.Encode(snowflake.Parts{Time: time.Now().Add(time.Hour), ClockSeq: seq})
				require.NoError(t, err)
				c := clockAt(0)
				l, err := Acquire(t.Context(), newMemory(), &Options{Layout: seqs, Clock: c, MaxLeap: 24 * time.Hour})
				require.NoError(t, err)
				defer l.Release(context.Background())
				g, err := snowflake.NewLeased(l, &snowflake.Options{Clock: c, After: after, OnBackward: policy})
				require.NoError(t, err)
				_, err = g.NextID()
				require.ErrorIs(t, err, snowflake.ErrClockBackward)
				c.step(time.Hour + ms)
				time.Sleep(span)
				id, err := g.NextID()
				require.NoError(t, err)
				require.Greater(t, id, after)
				c.step(-2 * time.Hour)
				_, err = g.NextID()
				require.ErrorIs(t, err, snowflake.ErrClockBackward)
			})
		}
	}
}

// A newcomer whose clock is ahead does not take a holder for dead.
func TestStoresClockSaysWhoIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ownClock = true
		h := mustAcquire(t, m, plain, clockAt(0))
		_, err := acquire(t, m, plain, clockAt(30*time.Second), named("b"))
		require.ErrorIs(t, err, ErrExhausted)
		h.next()
	})
}

func TestManyAtOnceGetDifferentWorkerIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.slow = ms // so that many want the same worker ID
		workers := make(chan int, 256)
		var wg sync.WaitGroup
		for k := range 256 {
			wg.Go(func() {
				h, err := acquire(t, m, fleet, clockAt(0), named(fmt.Sprint(k)))
				if assert.NoError(t, err) {
					workers <- h.Worker()
				}
			})
		}
		wg.Wait()
		close(workers)
		seen := map[int]bool{}
		for w := range workers {
			assert.False(t, seen[w])
			seen[w] = true
		}
		assert.Len(t, seen, 256)
		_, err := acquire(t, m, fleet, clockAt(0), named("one more"))
		assert.ErrorIs(t, err, ErrExhausted)
	})
}

// A process to which others are quicker each time waits like one that finds no worker ID free.
func TestAcquireWaitsAfterItLostAllRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.slow = ms // so that they want the same worker IDs
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				h, err := acquire(t, m, fleet, clockAt(0), named(fmt.Sprint(i)), func(o *Options) { o.Count = 2 })
				if assert.NoError(t, err) {
					time.Sleep(span / 4)
					assert.NoError(t, h.Release(t.Context()))
				}
			})
		}
		all.Wait()
	})
}

func TestRecordsOfAnotherLayoutAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		mustAcquire(t, m, fleet, clockAt(0))
		other := fleet
		other.Epoch++
		_, err := acquire(t, m, other, clockAt(0))
		var layout *LayoutError
		require.ErrorAs(t, err, &layout)
		assert.ErrorIs(t, err, ErrLayout)
		assert.Equal(t, LayoutError{Worker: none, Where: "the store", Has: fleet, Want: other}, *layout)
	})
}

func TestLeaseServesOneGeneratorOfItsLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mustAcquire(t, newMemory(), plain, clockAt(0))
		assert.Equal(t, plain, h.g.Layout(), "NewLeased takes the lease's layout")
		_, err := snowflake.NewLeased(h, nil)
		assert.ErrorIs(t, err, ErrInUse)
		_, err = snowflake.NewLeased(h, &snowflake.Options{Layout: seqs})
		assert.ErrorIs(t, err, ErrLayout)
		require.NoError(t, h.Release(t.Context()))
		_, err = snowflake.NewLeased(h, nil)
		assert.ErrorIs(t, err, ErrReleased)
	})
}

func TestAcquireRefusesOptionsOutOfRange(t *testing.T) {
	for name, o := range map[string]Options{
		"range beyond layout": {Layout: fleet, Count: 257},
		"range past the last": {Layout: fleet, First: 255, Count: 2},
		"range huge":          {Layout: fleet, First: 1, Count: math.MaxInt},
		"first beyond layout": {Layout: fleet, First: 256},
		"range negative":      {Layout: fleet, First: -1},
		"range empty":         {Layout: fleet, First: 2, Count: -1},
		"history":             {Layout: fleet, History: -1},
		"window negative":     {Layout: fleet, Window: -1},
		"window short":        {Layout: fleet, Window: ms - 1},
		"window under a tick": {Layout: snowflake.JSSafeLayout(), Window: time.Second - 1},
		"max leap":            {Layout: fleet, MaxLeap: -1},
		"floor negative":      {Layout: fleet, FloorEvery: -1},
		"floor too often":     {Layout: fleet, FloorEvery: ms - 1},
		"floor in a tick":     {Layout: snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: 10 * ms, TimeBits: 41, SequenceBits: 4}, FloorEvery: 9 * ms},
		"floor too seldom":    {Layout: fleet, FloorEvery: ms + 1, Window: 3 * ms},
		"reuse":               {Layout: fleet, Reuse: 3},
	} {
		_, err := Acquire(t.Context(), newMemory(), &o)
		assert.ErrorIs(t, err, ErrInvalidOptions, name)
	}
	for _, store := range []Store{nil, File("")} {
		_, err := Acquire(t.Context(), store, nil)
		assert.ErrorIs(t, err, ErrInvalidOptions)
	}
	_, err := Acquire(t.Context(), newMemory(), &Options{Layout: snowflake.Layout{Unit: ms}})
	assert.ErrorIs(t, err, snowflake.ErrInvalidLayout)
}

func TestCloneIsRefusedAtItsNextRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a := mustAcquire(t, m, fleet, clockAt(0), stops)
		time.Sleep(2*span + 123*ms)
		b := mustAcquire(t, m, fleet, clockAt(0), stops)
		a.op <- struct{}{}
		r, w := *a.record.Load(), a.window // as if the machine had been cloned
		a.unlock()
		b.op <- struct{}{}
		b.record.Store(&r)
		b.window = w
		b.publish()
		b.unlock()
		time.Sleep(span)
		alive, dead := a, b
		if a.Err() != nil {
			alive, dead = b, a
		}
		require.ErrorIs(t, dead.Err(), ErrLost)
		time.Sleep(2 * span)
		require.NoError(t, alive.Err())
		alive.next()
		dead.refused(snowflake.ErrLeaseExpired)
	})
}

// The bound is ahead of the clock by a little more than a window.
func TestAcquireWaitsForClocksThatDifferALittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		crash(t, m, plain, clockAt(0))
		time.Sleep(span / 2) // while the clocks agree less
		h := mustAcquire(t, m, plain, clockAt(-span/3))
		h.next()

		_, err := acquire(t, m, plain, clockAt(-2*span))
		require.Error(t, err)
	})
}

func TestGeneratorUsesTheLeasesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Acquire(t.Context(), newMemory(), &Options{Layout: plain, Clock: clockAt(time.Hour)})
		require.NoError(t, err)
		defer l.Release(context.Background())
		g, err := snowflake.NewLeased(l, nil)
		require.NoError(t, err)
		id, err := g.NextID()
		require.NoError(t, err)
		assert.Equal(t, time.Now().Add(time.Hour).UTC(), g.Decode(id).Time)
	})
}

func TestFailedAcquireDoesNotMoveTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		require.NoError(t, h.Release(t.Context()))
		bound := m.record(0).Bound()
		stopped := time.Now().Add(-time.Second)
		for range 3 {
			_, err := Acquire(t.Context(), m, &Options{Layout: plain, Clock: snowflake.ClockFunc(func() time.Time { return stopped })})
			require.ErrorIs(t, err, snowflake.ErrClockBackward)
			assert.Equal(t, bound, m.record(0).Bound())
			assert.Equal(t, Free, m.record(0).State)
		}
	})
}

func TestNoBumpAfterRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mustAcquire(t, newMemory(), seqs, clockAt(0))
		require.NoError(t, h.Release(t.Context()))
		assert.ErrorIs(t, h.bump(t.Context(), h.Grant(), time.Now().Add(-time.Hour)), ErrReleased)
	})
}

// Whoever asked for the lease may have stamped IDs without a Generator.
func TestReleaseWithoutAGeneratorKeepsTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l, err := Acquire(t.Context(), m, &Options{Layout: plain, NewStore: true})
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
		assert.Equal(t, Free, m.record(0).State)
		assert.Equal(t, l.Grant().To, m.record(0).Bound())
	})
}

func TestFreeClockSequenceHasTheLatestBoundBeforeTheClock(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(hours ...int) (bounds []time.Time) {
		for _, h := range hours {
			bounds = append(bounds, now.Add(time.Duration(h)*time.Hour))
		}
		return bounds
	}
	for _, test := range []struct {
		name   string
		bounds []time.Time
		seq    int
		from   time.Time
	}{
		{"no clock sequence used", nil, 0, time.Time{}},
		{"the latest bound before the clock", at(-3, -1, -2), 1, now.Add(-time.Hour)},
		{"a bound that is now", at(1, 0), 1, now},
		{"an unused clock sequence if all bounds are ahead", at(1, 2), 2, time.Time{}},
		{"an unused clock sequence between others", []time.Time{now.Add(time.Hour), {}, now.Add(time.Hour)}, 1, time.Time{}},
		{"the earliest bound if all are ahead", at(4, 2, 1, 3), 2, now.Add(time.Hour)},
	} {
		t.Run(test.name, func(t *testing.T) {
			seq, from := Record{Layout: seqs, Bounds: test.bounds}.start(now)
			assert.Equal(t, test.seq, seq)
			assert.Equal(t, test.from, from)
		})
	}
}

func TestRecordIsLiveForAWindowAfterRenewal(t *testing.T) {
	held := Record{State: Held, Window: span}
	assert.True(t, held.live(0))
	assert.True(t, held.live(span))
	assert.False(t, held.live(span+1))
	assert.True(t, held.live(1-span), "the engine's clock was set back a little")
	assert.False(t, held.live(-span))
	held.State = Free
	assert.False(t, held.live(0))
}

// slowly is a store that takes long to read and to remove.
type slowly struct {
	*memory
	takes time.Duration
}

func (s slowly) Get(ctx context.Context, key string) (Entry, error) {
	if err := sleep(ctx, s.takes); err != nil {
		return Entry{}, err
	}
	return s.memory.Get(ctx, key)
}

func (s slowly) Delete(ctx context.Context, key, old string) error {
	if err := sleep(ctx, s.takes); err != nil {
		return err
	}
	return s.memory.Delete(ctx, key, old)
}

func TestAcquireReturnsWithMostOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		require.NoError(t, mustAcquire(t, m, plain, clockAt(0)).Release(t.Context()))
		b := mustAcquire(t, slowly{m, span * 3 / 10}, plain, clockAt(0), named("b"))
		assert.GreaterOrEqual(t, time.Until(b.Grant().To), span/2)
	})
}
