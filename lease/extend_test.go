package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// suspend does what a suspension of the machine does: the clock runs on, but timers do not.
func (c *clock) suspend(d time.Duration) { c.step(d) }

// expired calls NextID, which must fail within d because the lease expired, and returns the cause.
func (h *holder) expired(d time.Duration) error {
	h.t.Helper()
	begun := time.Now()
	_, err := h.g.NextID()
	require.ErrorIs(h.t, err, snowflake.ErrLeaseExpired)
	require.LessOrEqual(h.t, time.Since(begun), d)
	return err.(*snowflake.LeaseExpiredError).Cause
}

// If the window ended because the machine was suspended, a call renews the lease and then succeeds. Calls
// at the same time share one renewal.
func TestCallAfterSuspensionRenewsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		for range 10 {
			h.c.suspend(2 * span)
			time.Sleep(100 * ms) // too short for a regular renewal
			m.set(func() { m.slow = 20 * ms })
			saves, begun := m.saved(), time.Now()
			var calls sync.WaitGroup
			for range 15 {
				calls.Go(func() {
					_, err := h.g.NextID()
					assert.NoError(t, err)
				})
			}
			calls.Wait()
			assert.Less(t, time.Since(begun), 23*ms, "as long as a renewal takes")
			assert.Equal(t, saves+1, m.saved(), "one renewal for all")
			m.set(func() { m.slow = 0 })
			time.Sleep(20 * ms)
			assert.Equal(t, saves+1, m.saved())
		}
		assert.Zero(t, h.Stats().Failures)
	})
}

// A process is paused in a renewal. A call that begins after the pause waits for the next renewal, although others
// have waited before it.
func TestCallAfterAPauseInARenewalWaitsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		store := &paused{memory: m}
		h := mustAcquire(t, store, plain, clockAt(0))
		h.next()
		h.c.suspend(2 * span) // the window is over
		store.next.Store(true)
		_, err := h.g.NextID()
		assert.ErrorIs(t, err, snowflake.ErrLeaseExpired)
		for h.Stats().Failures == 0 {
			time.Sleep(ms)
		}
		_, err = h.g.NextID()
		assert.NoError(t, err, "the store answers")
	})
}

// paused is a store of a process that is paused in its next save.
type paused struct {
	*memory
	next atomic.Bool
}

func (s *paused) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	if s.next.Swap(false) {
		time.Sleep(2 * span)
		return Entry{}, ctx.Err()
	}
	return s.memory.Put(ctx, key, old, value)
}

// If a process was paused and lost its worker ID meanwhile, a call waits for the replacement.
func TestCallAfterSuspensionWaitsForReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, fleet, clockAt(0))
		h.next()
		for range 5 {
			was := h.Worker()
			m.take(was, "b")
			m.set(func() { m.slow = 20 * ms })
			h.c.suspend(2 * span)
			begun := time.Now()
			id, err := h.g.NextID()
			require.NoError(t, err)
			assert.NotEqual(t, was, h.g.Decode(id).Worker)
			assert.LessOrEqual(t, time.Since(begun), 60*ms)
			m.set(func() { m.slow = 0 })
		}
		m.take(h.Worker(), "b")
		m.set(func() { m.hangs = true })
		h.c.suspend(2 * span)
		assert.Error(t, h.expired(span/3), "and no longer than for a renewal")
	})
}

// If the store has a clock, the renewal after a suspension takes two saves: the first one reads the
// store's clock.
func TestCallAfterSuspensionReadsTheStoresClockOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ownClock = true
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		for range 3 {
			h.c.suspend(time.Hour)
			m.set(func() { m.offset += time.Hour })
			saves := m.saved()
			h.next()
			assert.Equal(t, saves+2, m.saved())
		}
	})
}

// If the process is paused during a renewal, the renewal fails. That does not mean that the store is
// away, so the next call renews.
func TestCallAfterPauseDuringRenewalRenewsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		m.set(func() { m.slow = time.Hour })
		time.Sleep(span / 3) // a renewal is under way
		h.c.suspend(5 * span)
		for h.Stats().Failures == 0 {
			time.Sleep(ms)
		}
		m.set(func() { m.slow = 0 })
		h.next()
	})
}

// If a call comes while that renewal is still under way, it waits for the next renewal.
func TestCallDuringPausedRenewalWaitsForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		m.set(func() { m.slow = time.Hour })
		time.Sleep(span / 3)
		m.set(func() { m.slow = 0 })
		h.c.suspend(5 * span)
		_, err := h.g.NextID()
		require.NoError(t, err)
	})
}

func TestCallsFailAtOnceWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		m.set(func() { m.down = true })
		time.Sleep(2 * span)
		for range 100 {
			assert.Equal(t, errDown, h.expired(0))
		}
		tries := h.Stats().Failures
		for range 100 {
			_ = h.expired(0)
			time.Sleep(ms)
		}
		assert.LessOrEqual(t, h.Stats().Failures, tries+1, "calls do not hurry the renewal")
		m.set(func() { m.down = false })
		time.Sleep(span / 3)
		h.next()
	})
}

// A call waits for a renewal until its context ends, but for no longer than a third of a window.
func TestCallsWaitForRenewalForAThirdOfAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		m.set(func() { m.slow = time.Hour })
		h.c.suspend(2 * span)
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		begun := time.Now()
		_, err := h.g.NextIDContext(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, snowflake.ErrLeaseExpired)
		assert.Equal(t, 50*ms, time.Since(begun))
		assert.ErrorContains(t, h.expired(span/3), "the store did not answer in time")
		assert.GreaterOrEqual(t, time.Since(begun), span/3-span/48)
		assert.Error(t, h.expired(0), "now renewals have been failing")
		m.set(func() { m.slow = 0 })
		time.Sleep(span / 3)
		h.next()
	})
}

// If borrowed ticks reach the window's end, the call waits for the regular renewal.
func TestBorrowingDoesNotHurryTheRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		g := h.Grant()
		saves, begun := m.saved(), time.Now()
		require.NoError(t, h.extend(t.Context(), g, h.c.Now()))
		assert.Equal(t, saves+1, m.saved())
		assert.GreaterOrEqual(t, time.Since(begun), span/3-span/24-ms)
		assert.True(t, h.Grant().To.After(g.To))

		m.set(func() { m.down = true })
		g = h.Grant()
		require.Equal(t, errDown, h.extend(t.Context(), g, h.c.Now()))
		assert.WithinDuration(t, g.To, time.Now(), 0, "the clock has reached the end")
		ctx, cancel := context.WithTimeout(t.Context(), ms)
		defer cancel()
		require.ErrorIs(t, h.extend(ctx, g, g.To.Add(-time.Second)), context.DeadlineExceeded)
	})
}

// If the lease's clock is far behind the generator's reading, extend gives up after two renewals.
func TestExtendGivesUpIfTheClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.c.step(-time.Hour)
		saves := m.saved()
		require.ErrorIs(t, h.extend(t.Context(), h.Grant(), h.Grant().To), snowflake.ErrClockBackward)
		assert.Equal(t, saves+2, m.saved())
	})
}

func TestExpiredErrorHasTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		require.NoError(t, h.Release(t.Context()))
		assert.Equal(t, ErrReleased, h.expired(0))

		h = mustAcquire(t, m, plain, clockAt(0), stops)
		m.take(0, "b")
		time.Sleep(2 * span)
		assert.ErrorIs(t, h.expired(0), ErrLost)
		assert.ErrorContains(t, h.expired(0), "worker 0 went to another")
		m.give(0)

		h = mustAcquire(t, m, plain, clockAt(0))
		m.set(func() { m.down = true })
		time.Sleep(2 * span)
		assert.Equal(t, errDown, h.expired(0))
		m.set(func() { m.down = false })
		time.Sleep(span)

		h.c.step(time.Hour)
		time.Sleep(span)
		assert.ErrorIs(t, h.expired(0), ErrClockLeap)
	})
}

// If an error is followed by a time-out, LastError stays the error, because it says more.
func TestTimeOutDoesNotReplaceLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		m.set(func() { m.slow = time.Hour })
		time.Sleep(2 * span)
		assert.ErrorIs(t, h.Stats().LastError, context.DeadlineExceeded)
		assert.ErrorContains(t, h.Stats().LastError, "the store did not answer in time")
		m.set(func() { m.down, m.slow = true, 0 })
		time.Sleep(span)
		assert.Equal(t, errDown, h.Stats().LastError)
		m.set(func() { m.down, m.slow = false, time.Hour })
		time.Sleep(10 * span)
		assert.Equal(t, errDown, h.Stats().LastError)
		assert.Equal(t, errDown, h.expired(0))
		m.set(func() { m.slow = 0 })
		time.Sleep(span)
		assert.NoError(t, h.Stats().LastError)
		m.set(func() { m.slow = time.Hour })
		time.Sleep(2 * span)
		assert.False(t, errors.Is(h.Stats().LastError, errDown), "that is over")
	})
}

// If the store stops answering while a lost worker ID is being replaced, calls fail at once, and the
// cause says what hangs.
func TestCallsFailAtOnceWhileTheReplacementHangs(t *testing.T) {
	for name, hang := range map[string]func(m *memory){
		"loads": func(m *memory) { m.hangs = true },
		"saves": func(m *memory) { m.slow = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				log := new(logged)
				log.hook = func(message string) {
					if message == "lease: worker ID lost" {
						m.set(func() { hang(m) })
					}
				}
				h := mustAcquire(t, m, fleet, clockAt(0), func(o *Options) { o.Logger = slog.New(log) })
				h.next()
				log.take()
				m.take(h.Worker(), "b")
				end := h.Grant().To
				for range 30 {
					time.Sleep(time.Until(end))
					for range 10 {
						err := h.expired(0)
						assert.ErrorIs(t, err, ErrLost)
						assert.ErrorIs(t, err, context.DeadlineExceeded)
						assert.ErrorContains(t, err, "the store did not answer in time")
					}
					end = end.Add(span / 3)
				}
				assert.Equal(t, "WARN lease: the lost worker ID could not be replaced yet", log.take()[1])
				answers := func() { m.set(func() { m.hangs, m.slow = false, 0 }) }
				answers()
				time.Sleep(time.Minute)
				h.next()

				m.take(h.Worker(), "c")
				h.c.step(span) // so the loss is found while a call waits
				assert.ErrorIs(t, h.expired(h.o.trip()), ErrLost, "it does not wait for a third of a window")
				answers()
				time.Sleep(time.Minute)
				h.next()
			})
		})
	}
}

// Calls wait for a third of a window, counted from the first call. If earlier calls gave up, a later call
// does not wait longer.
func TestLaterCallsDoNotWaitLongerThanTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		m.take(0, "b")
		for range 3 { // the other holder lives, so the store answers but has no free worker ID
			m.touch(0)
			time.Sleep(span / 3)
		}
		begun := time.Now()
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*span/12)
				defer cancel()
				_, err := h.g.NextIDContext(ctx)
				assert.Error(t, err)
			})
		}
		calls.Wait()
		assert.LessOrEqual(t, time.Since(begun), span/3)
		assert.ErrorIs(t, h.expired(0), ErrLost)
	})
}
