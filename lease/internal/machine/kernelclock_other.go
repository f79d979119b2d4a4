//go:build !linux

package machine

import "time"

var KernelClock = func() Sync { return Sync{} }

func kernelBoot() (host string, boot, asleep time.Duration) { return "", 0, 0 }
