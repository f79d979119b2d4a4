package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// suspend is what a machine's suspension looks like: the clock goes on, and no timer
// does.
func (c *clock) suspend(d time.Duration) { c.step(d) }

// expired is the error of a call that is refused, at once or after no more than d.
func (h *holder) expired(d time.Duration) error {
	h.t.Helper()
	begun := time.Now()
	_, err := h.g.NextID()
	require.ErrorIs(h.t, err, snowflake.ErrLeaseExpired)
	require.LessOrEqual(h.t, time.Since(begun), d)
	return err.(*snowflake.LeaseExpiredError).Cause
}

// The window ended although the last renewal had succeeded.
func TestOversleptWindowIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		for range 10 {
			h.c.suspend(2 * span)
			time.Sleep(100 * ms) // not long enough for a regular renewal
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

// A process that was paused, and lost its worker ID meanwhile: the call waits for the
// replacement.
func TestCallWaitsForTheReplacement(t *testing.T) {
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

// So it is with a store that has a clock of its own, which is asked for the time once.
func TestOversleptWindowOfAStoreWithAClock(t *testing.T) {
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

// A renewal that was under way when the process was paused has failed, and says
// nothing of the store.
func TestPauseDuringARenewal(t *testing.T) {
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

// A call that comes while the renewal that was cut short is still under way
// waits for the next one.
func TestCallDuringARenewalThatWasPaused(t *testing.T) {
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
		assert.LessOrEqual(t, h.Stats().Failures, tries+1, "calls do not hurry it")
		m.set(func() { m.down = false })
		time.Sleep(span / 3)
		h.next()
	})
}

// A call waits for a third of a window at most, and not past its context.
func TestCallsWaitForARenewalWithinBounds(t *testing.T) {
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
		assert.Error(t, h.expired(0), "now it has been failing")
		m.set(func() { m.slow = 0 })
		time.Sleep(span / 3)
		h.next()
	})
}

// Borrowing that meets the window's end waits for the regular renewal.
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

// A clock that is behind what the generator read gets nothing by renewals.
func TestExtendWithAClockThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.c.step(-time.Hour)
		saves := m.saved()
		require.ErrorIs(t, h.extend(t.Context(), h.Grant(), h.Grant().To), snowflake.ErrClockBackward)
		assert.LessOrEqual(t, m.saved(), saves+2)
	})
}

func TestWhyALeaseExpired(t *testing.T) {
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

// A time-out says less than what was wrong before it.
func TestLastErrorIsTheRealOne(t *testing.T) {
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
		m.set(func() { m.slow = time.Hour })
		time.Sleep(10 * span)
		assert.Equal(t, errDown, h.Stats().LastError)
		assert.Equal(t, errDown, h.expired(0))
		m.set(func() { m.down, m.slow = false, 0 })
		time.Sleep(span)
		assert.NoError(t, h.Stats().LastError)
		m.set(func() { m.slow = time.Hour })
		time.Sleep(2 * span)
		assert.False(t, errors.Is(h.Stats().LastError, errDown), "that is over")
	})
}

// While a lost worker ID is being replaced, calls know as soon as with a renewal that the
// store does not answer: they fail at once, and the cause says what hangs.
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
				m.take(0, "b")
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
				m.set(func() { m.hangs, m.slow = false, 0 })
				time.Sleep(time.Minute)
				h.next()
			})
		})
	}
}

// Calls that give up one after the other do not make a later call wait for longer: the
// patience begins with the first.
func TestCallsShareTheirPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		m.take(0, "b")
		for range 3 { // the holder lives: the store answers, and nothing comes of it
			m.set(func() {
				r := m.records[0]
				r.Renewed = m.now()
				m.records[0] = r
			})
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
