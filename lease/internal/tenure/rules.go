package tenure

import (
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Rules are the options that a tenure follows.
type Rules struct {
	Layout       snowflake.Layout
	WindowLength time.Duration
	MaxLeap      time.Duration
	History      time.Duration
	Reuse        protocol.Reuse
}

// WindowFrom returns where a window begins if nothing was stamped at or after from and the clock
// reads now: at from or, if that is later, at the tick that was open clockLag ago.
func (r Rules) WindowFrom(from, now time.Time) time.Time {
	now = now.Add(-clockLag)
	if id, err := r.Layout.Encode(snowflake.Parts{Time: now}); err == nil {
		now = r.Layout.Decode(id).Time
	}
	return times.Later(from, now).UTC()
}

// clockLag is the largest lag of the generator's clock behind a reading of the lease's that causes
// no wait for the beginning of the window. It allows for a clock that is slewed and for late
// wake-ups. It is short, because the watermark stands at the beginning of the window until the
// first renewal.
const clockLag = 20 * time.Millisecond
