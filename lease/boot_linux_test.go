//go:build go1.25

package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// A program's fake time does not look like a suspended host.
func TestFakeTimeDoesNotLookLikeASuspendedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine.BootClock = bootOfKernel
		defer func() { machine.BootClock = noBoot }()
		h := mustAcquire(t, newMemory(), fleet, clockAt(0))
		time.Sleep(time.Hour)
		h.next()
		assert.NoError(t, h.Stats().LastError)
	})
}
