//go:build !linux

package lease

import "time"

var kernelClock = func() ClockSync { return ClockSync{} }

func kernelBoot() (host string, boot time.Duration) { return "", 0 }
