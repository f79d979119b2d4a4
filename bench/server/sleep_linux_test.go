package serverbench

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// spinning is for pauses that are shorter than a sleep and a wake-up.
const spinning = 20 * time.Microsecond

// newSleep returns a sleep function for one goroutine that is late by microseconds. time.Sleep may
// be late by a millisecond.
func newSleep() func(time.Duration) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	check(err)
	timer := os.NewFile(uintptr(fd), "timer")
	expirations := make([]byte, 8)
	return func(d time.Duration) {
		if d < spinning {
			for begun := time.Now(); time.Since(begun) < d; {
			}
			return
		}
		check(unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil))
		_, err := timer.Read(expirations)
		check(err)
	}
}
