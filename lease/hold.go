package lease

import (
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// hold is what a holder knows of its worker ID. It has no store, clock, context, lock or goroutine:
// what a method does depends on the hold, the arguments, and what comes over the line. Whoever has
// taken it out of Lease.slot owns it.
type hold struct {
	rules   rules
	own     protocol.Record // as last known to be stored
	window  protocol.Window // what may be stamped
	granted bool            // window is in the grant, because the clock has reached it
	born    uint64          // the machine's generation before the store was asked for the worker ID
	doubt   doubt           // whether the stored record is own

	tried []protocol.Record // by saves without an answer: each may have been stored, or may be yet
	freed bool              // a release has had no answer: others may have the worker ID by now
	heard heard             // when own was saved

	// overdue says that a save came so late that the holder may have counted as dead, and that the
	// holder has not looked at the watermark since.
	overdue bool

	passed time.Time // what the watermark had passed when the holder looked last

	// lowered is the floor before changes of the clock sequence since which the holder has not
	// looked at the watermark; zero if there are none.
	lowered time.Time

	horizon horizon
}

// doubt is what a holder does not know of its record.
type doubt uint8

const (
	sure      doubt = iota // the stored record is own, or another holder's
	unsure                 // a save failed, so the stored record has to be read before the next one
	returning              // unsure, and the record was sent to be put back, perhaps too late
)

// heard is when a record was last saved.
type heard struct {
	renewed time.Time // when the last save began, by the monotonic clock,
	read    time.Time // and what the clock read then

	// at is when the last save had been made, by the steady clock. It is not before record.Renewed,
	// so that no leap hides in the time that the save took.
	at time.Time
}

// silence returns how long a holder whose last save was own had not been heard of at now: the
// longest time by any clock that can tell. engine is the engine's time.
func (h heard) silence(own protocol.Record, now book.Reading, engine time.Time) time.Duration {
	longest := max(now.At.Sub(h.renewed), now.Own.Sub(h.read))
	if !engine.IsZero() && !own.Renewed.IsZero() {
		longest = max(longest, engine.Sub(own.Renewed))
	}
	return longest
}

// published returns an instant after which nothing was published while the holder counted as alive;
// zero if it may have counted as dead, so that this is not known.
func (h *hold) published() time.Time {
	if h.overdue {
		return time.Time{}
	}
	return times.Later(h.own.Least, times.Later(h.passed, h.lowered))
}
