//go:build unix && !linux

package serverbench

import (
	"testing"
	"time"
)

func newSleep(testing.TB) func(time.Duration) { return time.Sleep }
