//go:build go1.25

package lease

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
)

// Holders shows who no longer renews as dead: by the engine's clock or, if it has none, when the
// bound has passed.
func TestHoldersShowsWhoIsDead(t *testing.T) {
	withEngine(t, func(t *testing.T, m *memory) {
		var all []*holder
		for n := range 4 {
			all = append(all, mustAcquire(t, m, fleet, clockAt(0), named(fmt.Sprint(n))))
		}
		dead, free, lost := all[0], all[1], all[2]
		states := func() map[int]State {
			synctest.Wait()
			holders, err := Holders(t.Context(), m)
			require.NoError(t, err)
			of := map[int]State{}
			for _, h := range holders {
				of[h.Worker] = h.State
				assert.Equal(t, fleet, h.Layout)
			}
			return of
		}
		want := map[int]State{}
		for _, h := range all {
			want[h.Worker()] = StateHeld
		}
		require.NoError(t, free.Release(t.Context()))
		want[free.Worker()] = StateFree
		stopRenewing(dead.Lease)
		stopRenewing(lost.Lease)
		m.set(func() { delete(m.entries, book.RecordKey(lost.Worker())) })
		want[lost.Worker()] = StateLost
		time.Sleep(time.Until(dead.Grant().To))
		assert.Equal(t, want, states())
		time.Sleep(time.Nanosecond)
		want[dead.Worker()] = StateDead
		assert.Equal(t, want, states())
	})
}
