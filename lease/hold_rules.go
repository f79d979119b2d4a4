package lease

import (
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// rules are the options that a hold goes by.
type rules struct {
	layout  snowflake.Layout
	window  time.Duration
	maxLeap time.Duration
	history time.Duration
	reuse   Reuse
}

// begin returns where a window begins if nothing was stamped at or after from and the clock reads
// now: at from or, if that is later, at the tick that was open clockLag ago.
func (r rules) begin(from, now time.Time) time.Time {
	now = now.Add(-clockLag)
	if id, err := r.layout.Encode(snowflake.Parts{Time: now}); err == nil {
		now = r.layout.Decode(id).Time
	}
	return times.Later(from, now).UTC()
}

// clockLag is how far the generator's clock may lag behind a reading of the lease's without a wait
// for the beginning of the window. It allows for a clock that is slewed and for late wake-ups. The
// watermark stands there until the first renewal, so it is short.
const clockLag = 20 * time.Millisecond
