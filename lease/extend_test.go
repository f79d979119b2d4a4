package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

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

		m.becomes(down)
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
