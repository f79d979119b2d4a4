package book

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Line carries one request at a time to a store, and the answer back. Wire is one; a
// test answers from a table.
type Line interface {
	Get(key string) (driver.Entry, error)
	List(prefix string) ([]driver.Entry, error)
	Put(key, old string, value []byte) (driver.Entry, error)
	Delete(key, old string) error

	// Engine returns the time of the engine's clock; zero if it has none that clients can ask.
	Engine() (time.Time, error)

	// Trace returns what tells that the store was used before it lost its entries, or "". told is
	// true if the store can have such a trace.
	Trace() (of string, told bool, err error)

	// Rest returns after d, or with an error if the time for all requests ends first.
	Rest(d time.Duration) error

	Read() Reading        // this host's clocks
	Unstamped() Unstamped // the times that the generator may still stamp
	Away() error          // why the store was not told of the last save: see Offline; nil if it was
	Restored(worker int)  // notes that the record was lost, and was put back
}

// Reading is a reading of this host's clocks.
type Reading struct {
	Own time.Time // Options.Clock, without its monotonic part
	protocol.Moment
	End  time.Time // when the time for requests is over; zero if it has no end
	Over bool      // whether it is
}

// Steady returns the reading of a clock that no one sets, and that runs on while the host is
// suspended, if the system has one: without it the clock would seem to leap when the host wakes up.
func (r Reading) Steady() time.Time { return r.At.Add(r.Asleep) }

// Unstamped describes the times that a holder may still stamp. From it each save gets its floor:
// see Least.
type Unstamped struct {
	Granted bool      // a window was granted; then Next and Fixed are set
	Next    time.Time // the first instant that the generator may still stamp
	Fixed   bool      // Next does not rise

	// Open is the first instant that may have been stamped under an open Lease.Hold; zero if none is
	// open.
	Open time.Time
}

// Least returns the floor that a save with the window w records: the first instant that this holder
// may stamp, or may have stamped under an open Lease.Hold. If noFloor is set, it does not rise.
// granted says that w is the window that was granted: until then, the generator stamps the previous
// window.
func (u Unstamped) Least(w protocol.Window, granted bool) (at time.Time, noFloor bool) {
	at = w.Begin()
	if u.Granted {
		next := u.Next
		if noFloor = u.Fixed; !granted || noFloor {
			next = times.Earlier(at, next)
		}
		at = next
	}
	if !u.Open.IsZero() {
		at = times.Earlier(at, u.Open)
	}
	return at.UTC(), noFloor
}

// Ended returns err. If the time for requests is over, whether one was under way or not, Ended adds
// waits: the purpose of the wait, or nil.
func Ended(s Line, waits, err error) error {
	if err == nil || waits == nil || errors.Is(err, waits) || !s.Read().Over {
		return err
	}
	return Once(fmt.Errorf("%w: %w", waits, err))
}

// BeforeEnd shortens a wait that begins now and ends after the time for requests, so that there is
// time to save how long it was.
func (now Reading) BeforeEnd(wait time.Duration) time.Duration {
	if left := now.End.Sub(now.At); left > protocol.Progress/8 {
		return min(wait, left-left/8)
	}
	return wait
}
