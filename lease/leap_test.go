package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

func maxLeap(d time.Duration) func(*Options) { return func(o *Options) { o.MaxLeap = d } }

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
