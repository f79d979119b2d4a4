//go:build go1.25

package lease

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// A fleet of 30 with windows of 30 s is replaced one after the other, or grows by 30, while the
// watermark is read twice a second. The longest lag is at most FloorEvery and 3 s or, without
// FloorEvery, two thirds of a window.
func TestStartsAndReleasesKeepNoReaderBack(t *testing.T) {
	const window, size = 30 * time.Second, 30
	for _, floor := range []time.Duration{time.Second, 0} {
		most := floor + 3*time.Second
		if floor == 0 {
			most = window * 2 / 3
		}
		for _, pause := range []time.Duration{time.Second, 5 * time.Second} {
			for name, grows := range map[string]bool{"deployment": false, "growth": true} {
				t.Run(fmt.Sprintf("%s/FloorEvery=%v/pause=%v", name, floor, pause), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m := newMemory()
						m.ownClock = grows
						starts := func(i int) *holder {
							return mustAcquire(t, m, fleet, clockAt(0), named(fmt.Sprint("pod-", i)), floorEvery(floor), lasting(window))
						}
						var all []*holder
						for i := range size {
							all = append(all, starts(i))
							time.Sleep(100 * ms)
						}
						lag := time.Duration(0)
						reads := func(d time.Duration) {
							for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * ms) {
								lag = max(lag, m.ago(t))
							}
						}
						reads(2 * window) // until all holders have noticed
						lag = 0
						for i := range size {
							if !grows {
								require.NoError(t, all[i].Release(t.Context()))
							}
							starts(size + i)
							reads(pause)
						}
						reads(window)
						assert.LessOrEqual(t, lag, most)
						t.Logf("at most %v behind", lag.Round(ms))
					})
				})
			}
		}
	}
}

// The generator's clock lags behind the lease's by less than clockLag. The first IDs of a newcomer
// are above a watermark that was read before, at every instant since the newcomer's save.
func TestNewcomerWhoseGeneratorLagsIssuesNothingBelowTheWatermark(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		mustAcquire(t, m, fleet, clockAt(time.Second), named("ahead"))
		for i := range 20 {
			l, err := Acquire(t.Context(), m, &Options{Layout: fleet, Owner: fmt.Sprint(i), Clock: clockAt(0)})
			require.NoError(t, err)
			mark, err := m.Read(t.Context())
			require.NoError(t, err)
			lags := clockAt(-time.Duration(i) * ms)
			g, err := snowflake.NewLeased(l, &snowflake.Options{Clock: lags, OnBackward: snowflake.FailPolicy()})
			require.NoError(t, err)
			id, err := g.NextID()
			require.NoError(t, err, "it lags by %d ms", i)
			require.Greater(t, id, mark.ID)
			require.NoError(t, l.Release(t.Context()))
			time.Sleep(span)
		}
	})
}

// Holders notice a reader within a third of a window. Until then the watermark lags by that time, and
// nobody is to blame.
func TestReaderThatBeginsBlamesNobody(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		for i := range 3 {
			mustAcquire(t, m, fleet, clockAt(0), named(fmt.Sprint(i)), floorEvery(time.Second), lasting(30*time.Second))
		}
		for range 3 {
			time.Sleep(10*time.Minute + 9*time.Second)
			for range 60 {
				mark, err := m.Read(t.Context())
				require.NoError(t, err)
				require.Nil(t, mark.HeldBy, mark.Why)
				time.Sleep(time.Second)
			}
		}
	})
}

func lasting(window time.Duration) func(*Options) { return func(o *Options) { o.Window = window } }
