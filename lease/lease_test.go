package lease

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

func TestBoundIsRecordedBeforeItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		for range 1000 {
			p := h.next()
			require.True(t, p.Time.Before(m.record(0).Bound()))
			time.Sleep(17 * ms)
		}
		assert.InDelta(t, 17, h.Stats().Renewals, 1)
		assert.Zero(t, h.Stats().Failures)
		assert.Equal(t, 1000, len(h.seen))
	})
}

func TestHolderIssuesUntilWindowEndsAndRecoversIfStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		time.Sleep(10*time.Second + 7*ms)
		m.set(func() { m.down = true })
		end := h.Grant().To
		for time.Now().Before(end) {
			h.next()
			time.Sleep(ms)
		}
		h.refused(snowflake.ErrLeaseExpired)
		assert.ErrorIs(t, h.Stats().LastError, errDown)
		assert.Greater(t, h.Stats().Failures, uint64(3), "it retries")
		time.Sleep(time.Minute)
		h.refused(snowflake.ErrLeaseExpired)
		require.NoError(t, h.Err(), "nobody else has it")

		m.set(func() { m.down = false })
		time.Sleep(span / 3)
		h.next()
		assert.NoError(t, h.Stats().LastError)
	})
}

// If a request arrives after its sender has saved again or lost the worker ID, it changes nothing.
func TestDelayedRequestsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ownClock = true
		h := mustAcquire(t, m, plain, clockAt(0), stops)
		m.set(func() { m.delay = time.Hour })
		time.Sleep(span) // renewals are under way, and will arrive in an hour
		m.set(func() { m.delay, m.down = 0, true })
		time.Sleep(2 * span)
		m.set(func() { m.down = false })
		other := mustAcquire(t, m, plain, clockAt(0), named("b"))
		time.Sleep(span)
		assert.ErrorIs(t, h.Err(), ErrLost)
		bound := m.record(0)
		for range 4000 {
			time.Sleep(time.Second)
			r := m.record(0)
			require.Equal(t, "b", r.Owner)
			require.False(t, r.Bound().Before(bound.Bound()))
			bound = r
			other.next()
		}
	})
}

func TestHolderThatLostItsWorkerIDStopsAtItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ownClock = true
		slow := clockAt(-time.Second) // so that its window has not ended when b takes the worker ID
		a := mustAcquire(t, m, plain, slow, stops)
		m.set(func() { m.offset = -time.Hour }) // by the store's clock, a looks dead
		b := mustAcquire(t, m, plain, clockAt(0), named("b"), maxLeap(2*time.Hour))
		b.seen = a.seen
		end := a.Grant().To
		for slow.Now().Before(end) {
			a.next()
			b.next()
			time.Sleep(ms)
		}
		a.refused(snowflake.ErrLeaseExpired)
		assert.ErrorIs(t, a.Err(), ErrLost)
		assert.ErrorContains(t, a.Err(), "worker 0 went to another")
		<-a.Done()
		require.NoError(t, a.Release(t.Context()))
		assert.ErrorIs(t, a.Err(), ErrLost)
		b.next()
	})
}

func TestReleaseRecordsTheEndOfTheLastTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		time.Sleep(time.Second)
		last := h.next()
		require.NoError(t, h.Release(t.Context()))
		h.refused(snowflake.ErrLeaseExpired)
		assert.ErrorIs(t, h.Err(), ErrReleased)
		r := m.record(0)
		assert.Equal(t, Free, r.State)
		assert.Equal(t, last.Time.Add(ms), r.Bound())
		require.NoError(t, h.Release(t.Context()), "again")
		assert.Equal(t, r, m.record(0))

		start := time.Now()
		next := mustAcquire(t, m, plain, clockAt(0), named("b"))
		next.seen = h.seen
		assert.Less(t, time.Since(start), 2*ms, "a restart is immediate")
		next.next()
	})
}

func TestReleaseWithoutIDsKeepsTheOldBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		first := mustAcquire(t, m, plain, clockAt(0))
		first.next()
		require.NoError(t, first.Release(t.Context()))
		bound := m.record(0).Bound()
		for range 3 {
			require.NoError(t, mustAcquire(t, m, plain, clockAt(0)).Release(t.Context()))
			assert.Equal(t, bound, m.record(0).Bound())
			time.Sleep(time.Hour)
		}
	})
}

func TestFailedReleaseCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		m.set(func() { m.down = true })
		require.ErrorIs(t, h.Release(t.Context()), errDown)
		h.refused(snowflake.ErrLeaseExpired)
		m.set(func() { m.down = false })
		require.NoError(t, h.Release(t.Context()))
		assert.Equal(t, Free, m.record(0).State)
	})
}

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

// After a crash the bound is ahead by up to a window.
func TestRestartAfterCrashWaitsForTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		crash(t, m, plain, clockAt(0))
		bound := m.record(0).Bound()
		start := time.Now()
		h := mustAcquire(t, m, plain, clockAt(0))
		assert.LessOrEqual(t, time.Since(start), span+2*ms)
		assert.False(t, h.next().Time.Before(bound))
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

func TestRestartAfterCrashPrefersBoundThatHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		crash(t, m, fleet, clockAt(0))
		start := time.Now()
		was := m.records()
		assert.NotContains(t, was, mustAcquire(t, m, fleet, clockAt(0)).Worker())
		assert.Zero(t, time.Since(start))
	})
}

func TestRestartWithClockBehind(t *testing.T) {
	for _, test := range []struct {
		name   string
		layout snowflake.Layout
		back   time.Duration
		waits  bool
		want   error
	}{
		{"without clock sequences, within a window", plain, time.Second, true, nil},
		{"without clock sequences, further", plain, time.Hour, false, snowflake.ErrClockBackward},
		{"with clock sequences", seqs, time.Hour, false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				before := mustAcquire(t, m, test.layout, clockAt(0))
				time.Sleep(time.Second)
				before.next()
				require.NoError(t, before.Release(t.Context()))
				record := m.record(0)

				start := time.Now()
				h, err := acquire(t, m, test.layout, clockAt(-test.back))
				if test.want != nil {
					require.ErrorIs(t, err, test.want)
					var back *snowflake.ClockBackwardError
					require.ErrorAs(t, err, &back)
					assert.Equal(t, test.back+ms, back.By())
					assert.Equal(t, record, m.record(0), "nothing was changed")
					return
				}
				require.NoError(t, err)
				assert.Equal(t, test.waits, time.Since(start) > 0)
				assert.LessOrEqual(t, time.Since(start), span)
				h.seen = before.seen
				h.next()
			})
		})
	}
}

// With four clock sequences, a process can restart four times with its clock set back further each time,
// and issues IDs at once. Then all clock sequences are used.
func TestRestartsWithClockFurtherBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := clockAt(0)
		seen := map[snowflake.ID]bool{}
		for restart := range 4 {
			h := mustAcquire(t, m, seqs, c)
			h.seen = seen
			assert.Equal(t, restart, h.next().ClockSeq)
			require.NoError(t, h.Release(t.Context()))
			c.step(-time.Hour)
		}
		_, err := acquire(t, m, seqs, c)
		require.ErrorIs(t, err, snowflake.ErrClockBackward)
		// If the clock is right again, the clock sequence with the latest bound is used.
		c.step(90 * time.Minute)
		h := mustAcquire(t, m, seqs, c)
		h.seen = seen
		assert.Equal(t, 3, h.next().ClockSeq)
	})
}

func TestBumpIsRecordedBeforeItIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := clockAt(0)
		h := mustAcquire(t, m, seqs, c)
		h.next()
		for bump := 1; bump < 4; bump++ {
			c.step(-time.Hour)
			p := h.next()
			assert.Equal(t, bump, p.ClockSeq)
			r := m.record(0)
			assert.Equal(t, bump, r.ClockSeq)
			assert.True(t, p.Time.Before(r.Bound()))
			for range 100 {
				time.Sleep(100 * ms)
				h.next()
			}
		}
		c.step(-time.Hour)
		h.refused(snowflake.ErrClockBackward)
		assert.EqualValues(t, 3, h.g.Stats().Bumps)
		c.step(time.Hour)
		h.next()
	})
}

func TestClockSequenceIsUsedAgainFromItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := clockAt(0)
		h := mustAcquire(t, m, seqs, c)
		h.next()
		bound := m.record(0).Bound()
		c.step(-time.Hour)
		h.next()
		c.step(bound.Add(time.Second).Sub(c.Now()))
		assert.Equal(t, 1, h.next().ClockSeq)
		c.step(-time.Second / 2)
		assert.Equal(t, 0, h.next().ClockSeq)
		assert.Equal(t, bound, h.Grant().From)
	})
}

func TestBumpFailsWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := clockAt(0)
		h := mustAcquire(t, m, seqs, c)
		h.next()
		m.set(func() { m.down = true })
		c.step(-time.Hour)
		h.refused(errDown)
		h.refused(snowflake.ErrClockBackward)
		m.set(func() { m.down, m.slow = false, time.Hour }) // the save's own time-out does not look like the caller's, either
		h.refused(snowflake.ErrClockBackward)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(ms, cancel)
		_, err := h.g.NextIDContext(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, snowflake.ErrClockBackward, "it is the caller's")
		m.set(func() { m.slow = 0 })
		assert.Equal(t, 1, h.next().ClockSeq)
		// If many callers find the clock behind, one of them bumps.
		c.step(-time.Hour)
		m.set(func() { m.slow = 10 * ms })
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, err := h.g.NextID()
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.Equal(t, 2, m.record(0).ClockSeq)
	})
}

// If answers are lost, the record is renewed all the same. A later bound may be ahead of the last
// renewal by the time that has passed, but not by the time since the last answer.
func TestLeapIsRefusedAfterLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ownClock = true
		c := clockAt(0)
		mustAcquire(t, m, plain, c, func(o *Options) { o.MaxLeap = time.Second })
		time.Sleep(10 * time.Second)
		m.set(func() { m.loseAnswer = true })
		time.Sleep(10 * time.Minute)
		c.set(9 * time.Minute)
		m.set(func() { m.loseAnswer = false })
		time.Sleep(20 * time.Second)
		assert.LessOrEqual(t, time.Until(m.record(0).Bound()), span+time.Second)
	})
}

func TestClockLeapDoesNotMoveTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := clockAt(0)
		h := mustAcquire(t, m, plain, c)
		time.Sleep(time.Second)
		end := h.Grant().To

		c.set(time.Hour)
		time.Sleep(10 * span)
		h.refused(snowflake.ErrLeaseExpired)
		var leap *ClockLeapError
		require.ErrorAs(t, h.Stats().LastError, &leap)
		assert.ErrorIs(t, leap, ErrClockLeap)
		assert.InDelta(t, time.Hour, leap.Bound.Sub(leap.Expected), float64(11*span))
		assert.WithinDuration(t, end, m.record(0).Bound(), span)
		require.NoError(t, h.Err())

		c.set(0) // right again
		time.Sleep(span)
		h.next()

		c.set(time.Hour)
		h.AcceptLeap()
		time.Sleep(span)
		h.next()
		c.step(time.Minute) // less than MaxLeap
		time.Sleep(span)
		h.next()
	})
}

func TestHolderContinuesWhenClockIsRightAgain(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		for _, layout := range []snowflake.Layout{plain, seqs} {
			t.Run(fmt.Sprint(name, layout.ClockSeqBits), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := clockAt(0)
					m := newMemory()
					m.ownClock = true // otherwise a leap that lasts is accepted, and the floor follows it
					h := mustAcquire(t, m, layout, c)
					h.next()
					c.set(off)
					_, _ = h.g.NextID() // if there are clock sequences, it bumps
					time.Sleep(10 * time.Minute)
					c.set(0)
					time.Sleep(span)
					h.next()
				})
			})
		}
	}
}

func TestAcceptLeapHoldsForOneSuccessfulRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := clockAt(0)
		h := mustAcquire(t, m, plain, c, func(o *Options) { o.MaxLeap = 30 * time.Minute }) // it does not last so long
		h.AcceptLeap()                                                                      // although there is no leap
		time.Sleep(time.Minute)
		c.set(time.Hour)
		time.Sleep(span)
		assert.ErrorIs(t, h.Stats().LastError, ErrClockLeap)

		m.set(func() { m.down = true })
		h.AcceptLeap()
		time.Sleep(time.Minute)
		m.set(func() { m.down = false })
		time.Sleep(span)
		h.next()
	})
}

// If the store hangs, a call returns when its context ends.
func TestCallsEndWithTheirContextIfStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := clockAt(0)
		h := mustAcquire(t, m, seqs, c)
		h.next()
		m.set(func() { m.slow = time.Hour })
		c.step(-time.Hour)

		start := time.Now()
		h.refused(context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(start), span/3, "a bump")
		time.Sleep(span / 3) // a renewal is under way
		ctx, cancel := context.WithTimeout(t.Context(), 10*ms)
		defer cancel()
		start = time.Now()
		_, err := h.g.NextIDContext(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 10*ms, time.Since(start))

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		assert.ErrorIs(t, h.Release(ctx), context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(start), time.Second)
		h.refused(snowflake.ErrLeaseExpired)

		m.set(func() { m.slow = 0 })
		require.NoError(t, h.Release(t.Context()))
		assert.Equal(t, Free, m.record(0).State)
	})
}

// If a request is not answered, the lease gives it up in time for another one.
func TestHangingRenewalIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		m.set(func() { m.slow = time.Hour })
		time.Sleep(span/3 + ms) // a renewal is under way
		m.set(func() { m.slow = 0 })
		for range 3000 {
			time.Sleep(ms)
			h.next()
		}
		assert.Positive(t, h.Stats().Renewals)
	})
}

func TestAcquireAfterASlowAnswerReturnsAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.slow = span - ms
		time.AfterFunc(span, func() { m.set(func() { m.slow = 0 }) })
		h := mustAcquire(t, m, plain, clockAt(0))
		time.Sleep(span / 3) // past the end of the window that came late
		h.next()
		require.NoError(t, h.Release(t.Context()))
		m.set(func() { m.slow = span / 4 })
		mustAcquire(t, m, plain, clockAt(0)).next()
	})
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

// After rewinding, the last ID is not the one with the latest time. Release records the latest time.
func TestReleaseAfterRewindingRecordsTheLatestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := clockAt(0)
		l, err := Acquire(t.Context(), m, &Options{Layout: plain, Clock: c})
		require.NoError(t, err)
		g, err := snowflake.NewLeased(l, &snowflake.Options{Clock: c, OnBackward: snowflake.RewindPolicy(), RewindTicks: 100})
		require.NoError(t, err)
		time.Sleep(50 * ms)
		top, err := g.NextID()
		require.NoError(t, err)
		c.step(-20 * ms)
		lower, err := g.NextID()
		require.NoError(t, err)
		require.Less(t, lower, top)
		require.NoError(t, l.Release(t.Context()))
		assert.Equal(t, g.Decode(top).Time.Add(ms), m.record(0).Bound())
	})
}

func TestStoreWithAClockRefusesClientsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ownClock = true
		_, err := acquire(t, m, plain, clockAt(time.Hour))
		require.ErrorIs(t, err, ErrClockLeap)
		assert.ErrorContains(t, err, "worker 0 would stamp up to 2000-01-01T01:00:03.000Z, 1h0m0s ahead of 2000-01-01T00:00:03.000Z; MaxLeap allows 1m0s")
		assert.Zero(t, m.saved())
		h := mustAcquire(t, m, plain, clockAt(time.Hour), func(o *Options) { o.MaxLeap = 2 * time.Hour })
		h.next()
	})
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

func TestOwnerGetsItsWorkerIDBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		two := func(o *Options) { o.Count = 2 }
		a, b := mustAcquire(t, m, fleet, clockAt(0), two), mustAcquire(t, m, fleet, clockAt(0), two, named("b"))
		assert.NotEqual(t, a.Worker(), b.Worker())
		require.NoError(t, a.Release(t.Context()))
		require.NoError(t, b.Release(t.Context()))
		for range 10 {
			again := mustAcquire(t, m, fleet, clockAt(0), named("b"))
			assert.Equal(t, b.Worker(), again.Worker())
			require.NoError(t, again.Release(t.Context()))
		}
		mustAcquire(t, m, fleet, clockAt(0), two, named("b"))
		assert.Equal(t, a.Worker(), mustAcquire(t, m, fleet, clockAt(0), two, named("c")).Worker(), "recycled")
		assert.NotContains(t, m.entries, ownerKey("a"), "a's went to c")
	})
}

func TestKeptWorkerIDsGoToNoOtherOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		three := func(o *Options) { o.Reuse, o.Count = ReuseKeep, 3 }
		a := mustAcquire(t, m, fleet, clockAt(0), three)
		require.NoError(t, a.Release(t.Context()))
		for _, owner := range []string{"b", "c"} {
			assert.NotEqual(t, a.Worker(), mustAcquire(t, m, fleet, clockAt(0), named(owner), three).Worker())
		}
		_, err := acquire(t, m, fleet, clockAt(0), named("d"), three)
		assert.ErrorIs(t, err, ErrExhausted)
		assert.Equal(t, a.Worker(), mustAcquire(t, m, fleet, clockAt(0), three).Worker())
	})
}

func TestOwnerWaitsForItsKeptWorkerID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		two := func(o *Options) { o.Count = 2 }
		for range 3 {
			crash(t, m, fleet, clockAt(0), reuse(ReuseKeep), two)
			require.Equal(t, 1, m.count())
		}
		time.Sleep(2 * span)
		kept := slices.Collect(maps.Keys(m.records()))[0]
		assert.NotEqual(t, kept, mustAcquire(t, m, fleet, clockAt(0), named("b"), two).Worker())
		_, err := acquire(t, m, fleet, clockAt(0), named("c"), two)
		assert.ErrorIs(t, err, ErrExhausted, "an owner that may reuse worker IDs does not get it")
		h := mustAcquire(t, m, fleet, clockAt(0), two)
		assert.Equal(t, kept, h.Worker())
		require.NoError(t, h.Release(t.Context()))
		_, err = acquire(t, m, fleet, clockAt(0), named("d"), two)
		assert.ErrorIs(t, err, ErrExhausted, "it stays kept when its owner recycles")
		assert.Equal(t, kept, mustAcquire(t, m, fleet, clockAt(0), reuse(ReuseKeep)).Worker())
	})
}

func TestWorkerIDsUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		three := func(o *Options) { o.Reuse, o.First, o.Count = ReuseOnce, 5, 3 }
		for range 3 {
			h := mustAcquire(t, m, fleet, clockAt(0), three)
			require.NoError(t, h.Release(t.Context()))
			assert.Equal(t, Spent, m.record(h.Worker()).State)
		}
		assert.Len(t, m.records(), 3)
		_, err := acquire(t, m, fleet, clockAt(0), three)
		require.ErrorIs(t, err, ErrExhausted)
		_, err = acquire(t, m, fleet, clockAt(0), func(o *Options) { o.First, o.Count = 5, 3 })
		require.ErrorIs(t, err, ErrExhausted, "what is spent is not recycled by another either")
	})
}

func TestExhaustedErrorNamesAllHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		two := func(o *Options) { o.First, o.Count = 3, 2 }
		mustAcquire(t, m, fleet, clockAt(0), two)
		b := mustAcquire(t, m, fleet, clockAt(0), two, named("b"))
		start := time.Now()
		_, err := acquire(t, m, fleet, clockAt(0), two, named("c"))
		require.ErrorIs(t, err, ErrExhausted)
		var exhausted *ExhaustedError
		require.ErrorAs(t, err, &exhausted)
		require.Len(t, exhausted.Records, 2)
		assert.ErrorContains(t, err, fmt.Sprintf("of 3 to 4: %v; %v", exhausted.Records[0], exhausted.Records[1]))
		assert.ErrorContains(t, err, fmt.Sprintf("worker %d is held by b (", b.Worker()))
		assert.LessOrEqual(t, time.Since(start), span*3/2)

		// If a worker ID becomes free meanwhile, it is taken.
		time.AfterFunc(time.Second, func() { _ = b.Release(context.Background()) })
		assert.Equal(t, b.Worker(), mustAcquire(t, m, fleet, clockAt(0), two, named("c")).Worker())
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

// A save that succeeded, although it seemed to fail or to conflict with itself, is not made again.
func TestAcquireAdoptsItsSave(t *testing.T) {
	for _, test := range []struct {
		failSaves, resends int
		reuse              Reuse
	}{{1, 0, ReuseAny}, {1, 0, ReuseKeep}, {1, 0, ReuseOnce}, {0, 1, ReuseKeep}, {0, 1, ReuseOnce}} {
		synctest.Test(t, func(t *testing.T) {
			m, begun := newMemory(), time.Now()
			m.failSaves, m.resends = test.failSaves, test.resends
			h := mustAcquire(t, m, fleet, clockAt(0), reuse(test.reuse))
			assert.Zero(t, time.Since(begun))
			assert.Equal(t, 1, m.count())
			h.next()
			time.Sleep(10 * span)
			h.next()
		})
	}
}

func TestAcquireTriesOtherWorkerIDsAfterAFailedSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		three := func(o *Options) { o.Count = 3 }
		m.refuses = map[int]bool{0: true, 1: true}
		assert.Equal(t, 2, mustAcquire(t, m, fleet, clockAt(0), three).Worker())
		_, err := acquire(t, m, fleet, clockAt(0), three, named("b"))
		require.ErrorIs(t, err, errDown)
		time.Sleep(2 * span) // it tries to give back what it may have taken
	})
}

func TestAcquireEndsSoonWhenSavesHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []Reuse{ReuseAny, ReuseKeep, ReuseOnce} {
			m := newMemory()
			m.slow = time.Hour
			begun := time.Now()
			_, err := acquire(t, m, fleet, clockAt(0), reuse(r))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.LessOrEqual(t, time.Since(begun), crowded+3*span)
			time.Sleep(2 * span) // it tries to give back what it may have taken
		}
	})
}

// If the store takes longer than a renewal may take, Acquire fails.
func TestAcquireWithASlowStoreUsesOneWorkerIDOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []Reuse{ReuseAny, ReuseKeep, ReuseOnce} {
			m := newMemory()
			m.slow = span/3 + 200*ms
			_, err := acquire(t, m, fleet, clockAt(0), reuse(r))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(2 * span) // it gives back what it took
			assert.Equal(t, 1, m.count())
			for _, is := range m.records() {
				assert.Equal(t, Free, is.State)
				assert.Empty(t, is.Owner)
				assert.Equal(t, ReuseAny, is.Reuse)
			}
		}
	})
}

func TestHolderContinuesAfterStoreLosesRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		old := m.record(0)
		time.Sleep(3 * span)
		m.set(func() { m.change(0, func(r *Record) { *r = old }) })
		time.Sleep(span)
		require.NoError(t, h.Err())
		h.next()
		assert.Equal(t, h.Stats().Bound, m.record(0).Bound())
	})
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
