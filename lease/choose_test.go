package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// When no bound has passed, choose takes the one that passes soonest, the owner's own
// before others, if that is within a window.
func TestChooseABoundThatPassesSoon(t *testing.T) {
	for _, test := range []struct {
		name   string
		ours   []time.Duration // the bounds of the worker IDs that the owner had, from now on
		others []time.Duration // those of others; their worker IDs are the next ones
		worker int             // -1: none
		wait   time.Duration   // until it is worth another look
	}{
		{"the soonest", nil, []time.Duration{2 * time.Second, time.Second, 3 * time.Second}, 1, 0},
		{"our own", []time.Duration{2 * time.Second}, []time.Duration{time.Second}, 0, 0},
		{"the soonest of our own", []time.Duration{2 * time.Second, time.Second}, []time.Duration{ms}, 1, 0},
		{"another's, because our own is too late", []time.Duration{span + 1}, []time.Duration{span}, 1, 0},
		{"at the end of a window", nil, []time.Duration{span}, 0, 0},
		{"none yet", nil, []time.Duration{span + time.Second, span + 2*time.Second}, -1, time.Second},
		{"none yet, but nearly", nil, []time.Duration{span + 1}, -1, ms},
		{"none", nil, []time.Duration{2 * span, 3 * span}, -1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, err := (&Options{Layout: fleet, Owner: "a", Clock: clockAt(0), Count: len(test.ours) + len(test.others)}).withDefaults()
				require.NoError(t, err)
				now := o.now()
				var snap Snapshot
				soonest := time.Duration(1 << 62)
				for i, d := range append(test.ours[:len(test.ours):len(test.ours)], test.others...) {
					r := Record{Worker: i, Layout: fleet, State: Free, Owner: "a"}.withBound(0, now.Add(d))
					if i >= len(test.ours) {
						r.Owner = "b"
					}
					snap.Records = append(snap.Records, r)
					soonest = min(soonest, d)
				}
				c, wait, err := choose(&o, snap, nil, 0)
				assert.Equal(t, test.wait, wait)
				if test.worker >= 0 {
					require.NoError(t, err)
					assert.Equal(t, test.worker, c.record.Worker)
					assert.True(t, c.from.Equal(snap.Records[c.record.Worker].Bound()))
					return
				}
				var back *snowflake.ClockBackwardError
				require.ErrorAs(t, err, &back)
				assert.Equal(t, soonest, back.By())
			})
		})
	}
}

// What a bound that passes soon is waited for is not longer than that.
func TestAcquireWaitsForTheBoundThatPassesSoonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		for i, d := range []time.Duration{2 * time.Second, time.Second, 3 * time.Second} {
			r := Record{Worker: i, Version: 1, Token: "b's", State: Free, Owner: "b", Layout: fleet, Window: span}
			m.records[i] = r.withBound(0, time.Now().Add(d))
		}
		begun := time.Now()
		h := mustAcquire(t, m, fleet, clockAt(0), func(o *Options) { o.Count = 3 })
		assert.Equal(t, 1, h.Worker())
		assert.Equal(t, time.Second, time.Since(begun))
		h.next()
	})
}
