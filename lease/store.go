package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Store keeps one Record per worker ID. Its three methods are all that the
// protocol asks for; package leasetest checks an implementation.
//
// Implementations are safe for concurrent use, and keep what was saved across
// crashes of the clients and, as far as their makers promise, of the server. When
// the context is done beforehand they do nothing and return its error. What goes
// in and comes out shares no memory with the store. Texts are UTF-8 without NUL;
// numbers and times come back exactly.
//
// A store that lost its records while they were in use must not pass for a new
// one: as far as its engine can tell the two apart, its methods return
// [ErrWiped].
//
// A Store may also be a [Locator] and a [Historian].
type Store interface {
	// Load returns all records, with every Save that had returned before Load was
	// called, by whichever client. It fails as a whole if any record cannot be
	// read: a record that is taken for missing could be issued again.
	Load(ctx context.Context) (Snapshot, error)

	// LoadWorker is Load for one worker ID: a Snapshot with one record or none.
	// A record of another worker ID that cannot be read is no obstacle.
	LoadWorker(ctx context.Context, worker int) (Snapshot, error)

	// Save writes r if the stored record of r.Worker has Version r.Version-1,
	// or if there is none and r.Version is 1. It does so atomically: of two
	// that carry the same Version one is written, and the other one gets an
	// error that matches ErrConflict, however late it arrives. It returns when
	// the record will survive a crash, with Renewed set to the store's time.
	// If the stored record cannot be read, a Save with Version 1 fails.
	//
	// After any other error it is unknown whether r was or will be written.
	Save(ctx context.Context, r Record) (Record, error)
}

// Locator is a Store that can say where a record is kept, for errors.
type Locator interface {
	// Locate returns the place of a worker ID's record, such as its file.
	Locate(worker int) string
}

// Historian is a Store that keeps what is replaced, so that [Whois] finds the
// issuer of an ID whose worker ID has gone to another since.
type Historian interface {
	Store

	// SaveEnding is Save, and in the same step (transaction, script,
	// multi-operation) it keeps ended in the history of r.Worker and drops from
	// that history each Holding whose To is before forget. Either all of it
	// happens or nothing. If the history has a Holding with the same Token,
	// ClockSeq and From, ended replaces it.
	SaveEnding(ctx context.Context, r Record, ended Holding, forget time.Time) (Record, error)

	// History returns what is kept of a worker ID, in any order. It fails if
	// any of it cannot be read.
	History(ctx context.Context, worker int) ([]Holding, error)
}

// Holding is a stretch of ID time in which one holder had a worker ID and clock
// sequence: no other holder stamped them in [From, To).
type Holding struct {
	Worker   int       `json:"worker"`
	ClockSeq int       `json:"clock_seq"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Token    string    `json:"token"` // of the acquisition
	Owner    string    `json:"owner"` // Options.Owner
	Host     string    `json:"host"`  // where the holder ran
	PID      int       `json:"pid"`
}

// same reports whether h and other are one stretch, whose end may have moved.
func (h Holding) same(other Holding) bool {
	return h.Worker == other.Worker && h.ClockSeq == other.ClockSeq && h.Token == other.Token && h.From.Equal(other.From)
}

// Snapshot is what a Store holds. Its records need not be of one moment; each of
// them was the stored one at some moment after Load was called.
type Snapshot struct {
	Records []Record // at most one of each worker, in any order

	// Now is the store's time, by the clock that Record.Renewed comes from, read
	// after the records. Its steps must be much smaller than a window.
	Now time.Time

	// Lost has the worker IDs whose records the store has lost, though it still has
	// others, and why. Nobody gets these worker IDs: Acquire passes them by, with a
	// warning. It is nil for a store that cannot tell.
	Lost map[int]error

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

	// ClockSeq is the clock sequence that the holder stamps, and From the time
	// from which on it stamps it: [From, Bound()) is its current Holding.
	ClockSeq int       `json:"clock_seq"`
	From     time.Time `json:"from"`

	// Forgotten is the time before which holders of this worker ID may be missing
	// from the store's history. The zero time means that all are there.
	Forgotten time.Time `json:"forgotten"`

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

// holding returns what r says of its holder.
func (r Record) holding() Holding {
	return Holding{
		Worker: r.Worker, ClockSeq: r.ClockSeq, From: r.From, To: r.Bound(),
		Token: r.Token, Owner: r.Owner, Host: r.Host, PID: r.PID,
	}
}

// replace saves r in place of old. If another holding begins with r, it keeps
// old's in the history, and drops what ended longer than o.History ago.
func replace(ctx context.Context, s Store, o *Options, old, r Record) (Record, error) {
	ended := old.holding()
	empty := !ended.From.Before(ended.To) && len(old.Bounds) == 1 // with more, one of the same name may be kept that is not
	if old.Version == 0 || ended.same(r.holding()) || empty {
		return s.Save(ctx, r)
	}
	if h, ok := s.(Historian); ok {
		forget := o.now().Add(-o.History).UTC()
		r.Forgotten = later(r.Forgotten, forget)
		return h.SaveEnding(ctx, r, ended, forget)
	}
	r.Forgotten = later(r.Forgotten, ended.To)
	return s.Save(ctx, r)
}

// withBound returns r stamping seq up to bound. It leaves r's own Bounds alone.
func (r Record) withBound(seq int, bound time.Time) Record {
	bounds := make([]time.Time, max(len(r.Bounds), seq+1))
	copy(bounds, r.Bounds)
	bounds[seq] = bound.UTC()
	r.ClockSeq, r.Bounds = seq, bounds
	return r
}

// withWindow returns r stamping what w has, up to bound.
func (r Record) withWindow(w window, bound time.Time) Record {
	r = r.withBound(w.seq, bound)
	r.From = w.from
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
	case r.Reuse > ReuseOnce:
		why = fmt.Sprintf("its reuse is %d", r.Reuse)
	case r.Window <= 0:
		why = fmt.Sprintf("its window is %v", r.Window)
	default:
		return nil
	}
	return fmt.Errorf("%w: worker %d: %s", ErrBadRecord, r.Worker, why)
}

// holder names the last holder.
func (r Record) holder() string { return fmt.Sprintf("%s (%s, pid %d)", r.Owner, r.Host, r.PID) }

// String describes r on one line.
func (r Record) String() string {
	by, bound := r.holder(), formatTime(r.Bound())
	switch {
	case r.State == Free && r.Reuse == ReuseKeep:
		return fmt.Sprintf("worker %d is kept for %s, from %s on", r.Worker, by, bound)
	case r.State == Free:
		return fmt.Sprintf("worker %d is free from %s on, and was held by %s", r.Worker, bound, by)
	case r.State == Spent:
		return fmt.Sprintf("worker %d is spent, and was held by %s until %s", r.Worker, by, bound)
	}
	return fmt.Sprintf("worker %d is held by %s until %s", r.Worker, by, bound)
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
