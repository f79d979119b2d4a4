package lease

import (
	"errors"
	"fmt"
	"time"
)

// ClockSync is what the kernel says of the host's clock.
type ClockSync struct {
	Known        bool // the kernel was asked: on Linux, if Options.Clock is nil
	Synchronized bool // a time service (NTP or PTP) sets the clock

	// MaxError is how far the clock may be off, according to the time service. It grows while
	// nothing sets the clock.
	MaxError time.Duration
}

// String returns a text such as "synchronized, off by 12ms at most".
func (c ClockSync) String() string {
	switch {
	case !c.Known:
		return "unknown"
	case !c.Synchronized:
		return "not synchronized"
	}
	return fmt.Sprintf("synchronized, off by %v at most", c.MaxError)
}

// ErrClockUnsynchronized is returned by Acquire if the clock may be off by more than
// Options.MaxClockError.
var ErrClockUnsynchronized = errors.New("lease: the clock is not known to be right")
