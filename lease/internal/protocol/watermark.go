package protocol

import (
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
)

// Watermark is the entry of the watermark. Neither time falls.
type Watermark struct {
	Proposed  time.Time `json:"proposed"`  // who takes a worker ID or clock sequence begins here
	Published time.Time `json:"published"` // nothing before it is stamped any more

	Version string `json:"-"` // of the entry
	Bad     bool   `json:"-"` // the entry cannot be read
}

// Lost reports whether the entry is not there, or cannot be read.
func (m Watermark) Lost() bool { return m.Version == "" || m.Bad }

// Publish returns what may be published if no holder stamps anything before low any more, and all
// others begin at m.Proposed.
func (m Watermark) Publish(low time.Time) time.Time {
	return times.Later(m.Published, times.Earlier(m.Proposed, low))
}
