package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

func maxLeap(d time.Duration) func(*Options) { return func(o *Options) { o.MaxLeap = d } }

func TestLeapIsAcceptedIfItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0), maxLeap(time.Minute))
		h.next()
		end := h.Grant().To
		h.c.step(24 * time.Hour)
		time.Sleep(time.Minute)
		h.refused(ErrClockLeap)
		assert.WithinDuration(t, end, m.record(0).Bound(), span, "nothing was burnt")
		time.Sleep(span)
		h.next()
		require.NoError(t, h.Stats().LastError)
		time.Sleep(time.Hour)
		h.next()
		h.c.step(24 * time.Hour)
		time.Sleep(span)
		h.refused(ErrClockLeap) // for each leap the time begins again
	})
}

// If the clock does not run at the speed of the monotonic clock, the leap is not accepted yet.
func TestLeapOfAnUnsteadyClockIsNotAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		step  time.Duration
		every time.Duration
	}{
		"fast":  {100 * ms, 200 * ms},
		"slow":  {-100 * ms, 200 * ms},
		"jumpy": {10 * time.Minute, 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				h := mustAcquire(t, m, plain, clockAt(0), maxLeap(time.Minute))
				h.next()
				h.c.step(24 * time.Hour)
				for range int(10 * time.Minute / c.every) {
					time.Sleep(c.every)
					h.c.step(c.step)
				}
				h.refused(ErrClockLeap)
				time.Sleep(time.Minute + span) // steady now
				h.next()
			})
		})
	}
}

// A slewed clock runs a little fast or slow. It counts as steady.
func TestLeapOfASlewedClockIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mustAcquire(t, newMemory(), plain, clockAt(0), maxLeap(time.Minute))
		h.next()
		h.c.step(24 * time.Hour)
		for range 650 {
			time.Sleep(100 * ms)
			h.c.step(8 * ms)
		}
		h.next()
	})
}

func TestStoreWithAClockDecidesOnALeap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.ownClock = true
		h := mustAcquire(t, m, plain, clockAt(0), maxLeap(time.Minute))
		h.next()
		h.c.step(time.Hour)
		time.Sleep(24 * time.Hour)
		h.refused(ErrClockLeap)
		m.set(func() { m.offset = time.Hour })
		time.Sleep(span)
		h.next()
	})
}

// If a renewal refuses a leap, a replacement of the lost worker ID refuses it too.
func TestReplacementRefusesALeap(t *testing.T) {
	for _, ownClock := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			m.ownClock = ownClock
			h := mustAcquire(t, m, fleet, clockAt(0), maxLeap(time.Minute))
			h.next()
			h.c.step(24 * time.Hour)
			m.take(h.Worker(), "b")
			time.Sleep(50 * time.Second)
			h.refused(ErrClockLeap)
			h.refused(ErrLost)
			assert.Equal(t, 1, m.count())
			if ownClock {
				time.Sleep(time.Hour)
				h.refused(ErrClockLeap)
				m.set(func() { m.offset = 24 * time.Hour })
			}
			time.Sleep(time.Minute)
			h.next()
			time.Sleep(time.Minute)
			h.next()
		})
	}
}

// If the store is away until the leap has lasted long enough, the leap is accepted when the store is
// back.
func TestLeapIsAcceptedAfterTheStoreWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		h := mustAcquire(t, m, plain, clockAt(0))
		h.next()
		m.set(func() { m.down = true })
		h.c.step(24 * time.Hour)
		time.Sleep(2 * time.Minute)
		h.refused(snowflake.ErrLeaseExpired)
		m.set(func() { m.down = false })
		time.Sleep(span)
		h.next()
	})
}
