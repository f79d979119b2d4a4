//go:build !linux

package lease

import "time"

var kernelClock = func() ClockSync { return ClockSync{} }

func kernelBoot() (host string, boot, asleep time.Duration) { return "", 0, 0 }
