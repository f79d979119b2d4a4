//go:build unix && !linux

package serverbench

import "time"

func newSleep() func(time.Duration) { return time.Sleep }
