package serverbench

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// spinning is for pauses that are shorter than it takes to fall asleep and wake up.
const spinning = 20 * time.Microsecond

// newSleep returns a sleep for one goroutine that wakes within microseconds. time.Sleep may wake a
// millisecond late.
func newSleep(t testing.TB) func(time.Duration) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	require.NoError(t, err)
	timer := os.NewFile(uintptr(fd), "timer")
	t.Cleanup(func() { _ = timer.Close() })
	expirations := make([]byte, 8)
	return func(d time.Duration) {
		if d < spinning {
			for begun := time.Now(); time.Since(begun) < d; {
			}
			return
		}
		assert.NoError(t, unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil))
		if _, err := timer.Read(expirations); err != nil {
			t.Error(err)
		}
	}
}
