package lease

import (
	"fmt"
	"time"
)

// ClockSync is the kernel's report on the host's clock.
type ClockSync struct {
	Known        bool          // the kernel was asked: on Linux, if Options.Clock is nil
	Synchronized bool          // a time service (NTP or PTP) sets the clock
	MaxError     time.Duration // the time service's bound; it grows while nothing sets the clock
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
