package lease

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// If no bound has passed, but one will within a window, choose waits for the worker ID with the earliest
// bound. It prefers worker IDs that the owner had before.
func TestChooseTakesBoundThatPassesSoon(t *testing.T) {
	for _, test := range []struct {
		name   string
		ours   []time.Duration // how far ahead the bounds are of the worker IDs that the owner had
		others []time.Duration // the same for other owners; they have the next worker IDs
		worker int             // -1: no worker ID
		wait   time.Duration   // until choose may find one
	}{
		{"the soonest", nil, []time.Duration{2 * time.Second, time.Second, 3 * time.Second}, 1, 0},
		{"our own", []time.Duration{2 * time.Second}, []time.Duration{time.Second}, 0, 0},
		{"the soonest of our own", []time.Duration{2 * time.Second, time.Second}, []time.Duration{ms}, 1, 0},
		{"another's, because our own is too late", []time.Duration{span + 1}, []time.Duration{span}, 1, 0},
		{"at the end of a window", nil, []time.Duration{span}, 0, 0},
		{"no bound within a window", nil, []time.Duration{span + time.Second, span + 2*time.Second}, -1, time.Second},
		{"a bound just after a window", nil, []time.Duration{span + 1}, -1, ms},
		{"bounds far ahead", nil, []time.Duration{2 * span, 3 * span}, -1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, err := (&Options{Layout: fleet, Owner: "a", Clock: clockAt(0), Count: len(test.ours) + len(test.others)}).withDefaults(3 * time.Second)
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

// Acquire does not wait longer than until the earliest bound passes.
func TestAcquireWaitsForTheEarliestBound(t *testing.T) {
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

func TestExhaustedErrorNamesUnusableWorkerIDs(t *testing.T) {
	o, err := (&Options{Layout: fleet, Owner: "a", Clock: clockAt(0), Count: 3}).withDefaults(3 * time.Second)
	require.NoError(t, err)
	now := o.now()
	held := Record{Worker: 0, Version: 1, Token: "b", State: Held, Owner: "b", Window: time.Hour, Renewed: now, Layout: fleet}
	why := errors.New("delete the object x")
	snap := Snapshot{Records: []Record{held}, Now: now, Lost: map[int]error{1: why, 2: why, 9: why}}
	_, _, err = choose(&o, snap, nil, 0)
	var e *ExhaustedError
	require.ErrorAs(t, err, &e)
	require.Equal(t, map[int]error{1: why, 2: why}, e.Lost)
	require.ErrorContains(t, err, "2 unusable, such as worker 1: delete the object x")
}
