package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The kernel's clock advances as the monotonic one does.
func TestKernelTellsSinceWhenItWasBooted(t *testing.T) {
	host, boot, asleep := kernelBoot()
	require.NotEmpty(t, host)
	require.Positive(t, boot)
	begun := time.Now()
	time.Sleep(20 * time.Millisecond)
	same, later, still := kernelBoot()
	assert.Equal(t, host, same)
	assert.InDelta(t, float64(time.Since(begun)), float64(later-boot), float64(10*time.Second))
	assert.GreaterOrEqual(t, later-boot, 20*time.Millisecond)
	assert.InDelta(t, float64(asleep), float64(still), float64(time.Second))
}
