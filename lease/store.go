package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Store keeps one Record per worker ID. Its two methods are all that the
// protocol asks for; package leasetest checks an implementation.
//
// Implementations are safe for concurrent use, and keep what was saved across
// crashes of the clients and, as far as their makers promise, of the server. When
// the context is done beforehand they do nothing and return its error. What goes
// in and comes out shares no memory with the store. Texts are UTF-8 without NUL;
// numbers and times come back exactly.
//
// A Store may also have a method Locate(worker int) string, which says where a
// record is kept, for errors.
type Store interface {
	// Load returns the records of the worker IDs from first to last, with every
	// Save that had returned before it, by whichever client. Acquire asks for all
	// of them, from 0 to math.MaxInt, and a holder for its own. It fails as a
	// whole when any of them cannot be read: one that is taken for missing could
	// be issued again.
	Load(ctx context.Context, first, last int) (Snapshot, error)

	// Save writes r when the stored record of r.Worker has Version r.Version-1,
	// or when there is none and r.Version is 1. It does so atomically: of two
	// that carry the same Version one is written, and the other one gets an
	// error that matches ErrConflict, however late it arrives. It returns when
	// the record will survive a crash, with Renewed set to the store's time.
	// Where the stored record cannot be read, a Save with Version 1 fails.
	//
	// After any other error it is unknown whether r was or will be written.
	Save(ctx context.Context, r Record) (Record, error)
}

// Snapshot is what a Store holds of a range of worker IDs. Its records need not be
// of one moment; each of them was the stored one at some moment after Load was
// called.
type Snapshot struct {
	Records []Record // at most one of each worker, in any order

	// Now is the store's time, by the clock that Record.Renewed comes from, read
	// after the records. Its steps must be much smaller than a window.
	Now time.Time

	// OwnClock is whether that clock is another one than the clients', so that
	// it can tell a client that its clock has leapt.
	OwnClock bool
}

// ErrConflict is returned by Store.Save when another record was saved first.
var ErrConflict = errors.New("lease: the record was changed by another")

// State is what a Record says of its worker ID.
type State string

const (
	Held  State = "held"  // by Owner, while it renews
	Free  State = "free"  // released
	Spent State = "spent" // used once, and never again
)

// Record is what is stored of a worker ID.
type Record struct {
	Worker  int    `json:"worker"`
	Version uint64 `json:"version"` // counts the saves, from 1 on
	Token   string `json:"token"`   // of the acquisition: no two have the same
	State   State  `json:"state"`
	Reuse   Reuse  `json:"reuse"` // the last holder's; whoever comes next keeps to it
	Owner   string `json:"owner"` // Options.Owner, of the last holder
	Host    string `json:"host"`  // where the last holder ran, for people
	PID     int    `json:"pid"`

	// Layout is that of the IDs. Bounds are in its time, so that no holder may
	// have another.
	Layout snowflake.Layout `json:"layout"`

	// Bounds has, for each clock sequence up to the highest one used, the time
	// up to which IDs may have been stamped: whoever stamps next begins there.
	// The zero time is that of one that was not used. A layout without clock
	// sequences has one.
	Bounds []time.Time `json:"bounds"`

	// ClockSeq is the clock sequence that the holder stamps.
	ClockSeq int `json:"clock_seq"`

	// Window is the holder's. It renews three times in each, so that one that
	// has not done so for a whole one is taken for dead.
	Window time.Duration `json:"window"`

	// Renewed is the store's time of the last save. Where the engine itself
	// watches the holders, Load may know better: it returns the zero time of one
	// that has gone, and Snapshot.Now of one that is there.
	Renewed time.Time `json:"renewed"`
}

// Bound returns the bound of the current clock sequence: what was stamped last
// lies before it.
func (r Record) Bound() time.Time { return r.bound(r.ClockSeq) }

func (r Record) bound(seq int) time.Time {
	if seq < len(r.Bounds) {
		return r.Bounds[seq]
	}
	return time.Time{}
}

// withBound returns r stamping seq up to bound. It leaves r's own Bounds alone.
func (r Record) withBound(seq int, bound time.Time) Record {
	bounds := make([]time.Time, max(len(r.Bounds), seq+1))
	copy(bounds, r.Bounds)
	bounds[seq] = bound.UTC()
	r.ClockSeq, r.Bounds = seq, bounds
	return r
}

// same reports whether r is what other became when it was saved.
func (r Record) same(other Record) bool {
	return r.Worker == other.Worker && r.Version == other.Version && r.Token == other.Token && r.State == other.State &&
		r.ClockSeq == other.ClockSeq && slices.EqualFunc(r.Bounds, other.Bounds, time.Time.Equal)
}

// Live reports whether r is held by one that renewed it within a window of now,
// a time of the store's clock. Where that clock was set back by more than a
// window since, r is not live until it is renewed again.
func (r Record) Live(now time.Time) bool {
	age := now.Sub(r.Renewed)
	return r.State == Held && -r.Window < age && age <= r.Window
}

// Validate returns an error that matches [ErrBadRecord] when r cannot have been
// saved by this package. A Store calls it on what it reads.
func (r Record) Validate() error {
	var why string
	switch err := r.Layout.Validate(); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBadRecord, err)
	case r.Version == 0:
		why = "its version is 0"
	case r.Token == "":
		why = "it has no token"
	case r.State != Held && r.State != Free && r.State != Spent:
		why = fmt.Sprintf("its state is %q", r.State)
	case r.Worker < 0 || r.Worker > 1<<r.Layout.WorkerBits-1:
		why = fmt.Sprintf("worker %d does not fit its layout", r.Worker)
	case r.ClockSeq < 0 || r.ClockSeq >= len(r.Bounds) || len(r.Bounds) > 1<<r.Layout.ClockSeqBits:
		why = fmt.Sprintf("clock sequence %d of %d does not fit its layout", r.ClockSeq, len(r.Bounds))
	case r.Reuse > Once:
		why = fmt.Sprintf("its reuse is %d", r.Reuse)
	case r.Window <= 0:
		why = fmt.Sprintf("its window is %v", r.Window)
	default:
		return nil
	}
	return fmt.Errorf("%w: worker %d: %s", ErrBadRecord, r.Worker, why)
}

// String describes r on one line.
func (r Record) String() string {
	state := string(r.State)
	if r.State == Free && r.Reuse == Keep {
		state = "kept for"
	} else {
		state += " by"
	}
	return fmt.Sprintf("worker %d %s %s (%s, pid %d) until %s",
		r.Worker, state, r.Owner, r.Host, r.PID, formatTime(r.Bound()))
}

// free finds the clock sequence with which a new holder whose clock reads now
// can go on soonest, and from when on: the one that was in use last of those
// that are behind now, else one that was not used yet, else the one that is
// ahead of now by the least.
func (r Record) free(now time.Time) (seq int, from time.Time) {
	size := 1 << r.Layout.ClockSeqBits
	seq = -1
	for i, bound := range r.Bounds {
		if !bound.IsZero() && !bound.After(now) && (seq < 0 || bound.After(r.Bounds[seq])) {
			seq = i
		}
	}
	for i := 0; seq < 0 && i < size; i++ {
		if r.bound(i).IsZero() {
			seq = i
		}
	}
	if seq < 0 {
		seq = 0
		for i, bound := range r.Bounds {
			if bound.Before(r.Bounds[seq]) {
				seq = i
			}
		}
	}
	return seq, r.bound(seq)
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
