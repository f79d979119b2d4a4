//go:build go1.25

package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The kernel's clock advances as the monotonic one does, and a program's fake time does not look
// like a suspended host.
func TestKernelTellsSinceWhenItWasBooted(t *testing.T) {
	host, boot, asleep := kernelBoot()
	require.NotEmpty(t, host)
	require.Positive(t, boot)
	begun := time.Now()
	time.Sleep(20 * ms)
	same, later, still := kernelBoot()
	assert.Equal(t, host, same)
	assert.InDelta(t, float64(time.Since(begun)), float64(later-boot), float64(10*time.Second))
	assert.GreaterOrEqual(t, later-boot, 20*ms)
	assert.InDelta(t, float64(asleep), float64(still), float64(time.Second))

	synctest.Test(t, func(t *testing.T) {
		bootClock = kernelBoot
		defer func() { bootClock = noBoot }()
		h := mustAcquire(t, newMemory(), fleet, clockAt(0))
		time.Sleep(time.Hour)
		h.next()
		assert.NoError(t, h.Stats().LastError)
	})
}
