package lease

import (
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// line carries one request at a time to a store, and the answer back. Behind it are the store,
// contexts, patience and the local copy.
type line interface {
	get(key string) (Entry, error)
	list(prefix string) ([]Entry, error)
	put(key, old string, value []byte) (Entry, error)
	delete(key, old string) error

	// engine returns the time of the engine's clock; zero if it has none that clients can ask.
	engine() (time.Time, error)

	// trace returns what tells that the store was used before it lost its entries, or "". told is
	// true if the store can have such a trace.
	trace() (of string, told bool, err error)

	// rest returns after d, or with an error if the time for all requests ends before.
	rest(d time.Duration) error

	read() reading       // this host's clocks
	floor() floor        // what the generator may still stamp
	away() error         // with a LocalCopy, why the store was not told of the last save; else nil
	restored(worker int) // notes that the record was lost, and was put back
}

// reading is a reading of this host's clocks.
type reading struct {
	own time.Time // Options.Clock, without its monotonic part
	protocol.Moment
	end  time.Time // when the time for requests is over; zero if it has no end
	over bool      // whether it is
}

// steady returns the reading of a clock that no one sets, and that runs on while the host is
// suspended, if the system has one: without it the clock would seem to leap when the host wakes up.
func (r reading) steady() time.Time { return r.At.Add(r.Asleep) }

// floor is what a holder may still stamp.
type floor struct {
	granted bool      // a window was granted; then next and fixed are set
	next    time.Time // the first instant that the generator may still stamp
	fixed   bool      // next does not rise
	open    time.Time // the first instant that an open Hold may have stamped; zero if none is open
}

// least returns what a save says of the window w: the first instant that this holder may stamp, or
// that a Hold may have stamped. If noFloor is set, it does not rise. granted says that w is the
// window that was granted: until then, the generator stamps the window before.
func (f floor) least(w protocol.Window, granted bool) (at time.Time, noFloor bool) {
	at = w.Begin()
	if f.granted {
		next := f.next
		if noFloor = f.fixed; !granted || noFloor {
			next = times.Earlier(at, next)
		}
		at = next
	}
	if !f.open.IsZero() {
		at = times.Earlier(at, f.open)
	}
	return at.UTC(), noFloor
}

// beforeEnd shortens a wait that begins now and ends after the time for requests, so that there is
// time to save how long it was.
func (now reading) beforeEnd(wait time.Duration) time.Duration {
	if left := now.end.Sub(now.At); left > protocol.Progress/8 {
		return min(wait, left-left/8)
	}
	return wait
}
