// Package tenure has a holder's knowledge of its worker ID, as one value, and its steps over a line
// to the store: it renews, changes its clock sequence, releases, looks at its record after a save
// whose result is not known, and puts the record back if it was lost.
package tenure

import (
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Tenure is a holder's knowledge of its worker ID. It has no store, clock, context, lock or
// goroutine: what a method does depends on the tenure, the arguments, and what comes over the line.
// Whoever has taken it out of the slot of its lease owns it.
type Tenure struct {
	Rules   Rules
	Record  protocol.Record // as last known to be stored
	Window  protocol.Window // what may be stamped
	Granted bool            // Window was granted, because the clock has reached it
	Born    uint64          // the machine's generation before the store was asked for the worker ID
	Doubt   Doubt           // whether the stored record is Record

	Tried []protocol.Record // by saves without an answer: each may have been stored, or may be yet
	Freed bool              // a release has had no answer: others may have the worker ID by now
	Heard Heard             // the time of Record's save

	// Overdue says that a save came so late that the holder may have counted as dead, and that the
	// holder has not looked at the watermark since.
	Overdue bool

	Passed time.Time // the instant that the watermark had passed at the holder's last look

	// Lowered is the floor before changes of the clock sequence since which the holder has not
	// looked at the watermark; zero if there are none.
	Lowered time.Time

	Horizon Horizon
}

// Doubt says whether a holder knows its stored record.
type Doubt uint8

const (
	Sure      Doubt = iota // the stored record is Record, or another holder's
	unsure                 // a save failed, so the stored record has to be read before the next one
	returning              // unsure, and the record was sent to be put back, perhaps too late
)

// Heard has the times of a record's last save.
type Heard struct {
	Renewed time.Time // the start of the last save, by the monotonic clock,
	Read    time.Time // and the clock's reading then

	// At is the end of the last save, by the steady clock. It is not before Record.Renewed,
	// so that no leap hides in the time that the save took.
	At time.Time
}

// silent returns the time at now since saved was saved: the longest time by any clock that
// can tell. engine is the engine's time.
func (h Heard) silent(saved protocol.Record, now book.Reading, engine time.Time) time.Duration {
	longest := max(now.At.Sub(h.Renewed), now.Own.Sub(h.Read))
	if !engine.IsZero() && !saved.Renewed.IsZero() {
		longest = max(longest, engine.Sub(saved.Renewed))
	}
	return longest
}

// Published returns an instant after which nothing was published while the holder counted as alive;
// zero if it may have counted as dead, so that this is not known.
func (t *Tenure) Published() time.Time {
	if t.Overdue {
		return time.Time{}
	}
	return times.Later(t.Record.Least, times.Later(t.Passed, t.Lowered))
}
