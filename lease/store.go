package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Store keeps one Record for each worker ID. Package leasetest checks an implementation.
//
// Implementations are safe for concurrent use. They keep what was saved across crashes of
// the clients and, as far as the engine promises, of the server. If the context is done
// beforehand, a method does nothing and returns the context's error. Arguments and results
// share no memory with the store. Texts are UTF-8 without NUL; numbers and times come back
// exactly.
//
// A store that lost its records while they were in use must not pass for a new one: as far
// as its engine can tell the two apart, its methods return [ErrWiped].
//
// A Store may also be a [Locator], a [Windower] and a [Historian].
type Store interface {
	// Load returns all records, including every Save, by any client, that had returned
	// before Load was called. If any record cannot be read, Load fails as a whole: if it
	// left the record out, the worker ID would look unused and be given out twice.
	Load(ctx context.Context) (Snapshot, error)

	// LoadWorker returns a Snapshot with the record of one worker ID, or without a record
	// if the worker ID has never had one. It succeeds even if the record of another worker
	// ID cannot be read.
	LoadWorker(ctx context.Context, worker int) (Snapshot, error)

	// Save writes r if the stored record of r.Worker has Version r.Version-1, or if there
	// is no record and r.Version is 1. Otherwise it returns an error that matches
	// ErrConflict. It is atomic: of two Saves with the same Version only one succeeds,
	// however late the other one arrives. Save returns r with Renewed set to the store's
	// time, once the record will survive a crash. If the stored record cannot be read, a
	// Save with Version 1 fails.
	//
	// After any other error nobody knows whether r was written, or will be.
	Save(ctx context.Context, r Record) (Record, error)
}

// Locator is a Store that can say in which place a record is kept, for errors and logs.
type Locator interface {
	// Locate returns the place of a worker ID's record, such as its file.
	Locate(worker int) string
}

// Windower is a Store that chooses the window of leases whose Options.Window is 0. A store
// whose server must not be asked often is a Windower. A store that wraps another store passes
// its DefaultWindow on.
type Windower interface {
	// DefaultWindow returns the window. If it is 0 or less, Acquire takes 3 s.
	DefaultWindow() time.Duration
}

// Historian is a Store that keeps the earlier holders of a worker ID, so that [Whois] finds
// the issuer of an ID after its worker ID has gone to another holder.
type Historian interface {
	Store

	// SaveEnding is Save and, in the same step (transaction, script, multi-operation), adds
	// ended to the history of r.Worker and drops each Holding whose To is before forget.
	// Either all of it happens or nothing. If the history already has a Holding with the
	// same Token, ClockSeq and From, ended replaces it.
	SaveEnding(ctx context.Context, r Record, ended Holding, forget time.Time) (Record, error)

	// History returns the history of a worker ID, in any order. It fails if a part of it
	// cannot be read.
	History(ctx context.Context, worker int) ([]Holding, error)
}

// Holding is a stretch of ID time, [From, To), in which one holder had a worker ID and clock
// sequence. No other holder has issued IDs with them in this time.
type Holding struct {
	Worker   int       `json:"worker"`
	ClockSeq int       `json:"clock_seq"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Token    string    `json:"token"` // of the acquisition, unique
	Owner    string    `json:"owner"` // Options.Owner
	Host     string    `json:"host"`  // where the holder ran
	PID      int       `json:"pid"`
}

// same reports whether h and other have the same beginning; their ends may differ.
func (h Holding) same(other Holding) bool {
	return h.Worker == other.Worker && h.ClockSeq == other.ClockSeq && h.Token == other.Token && h.From.Equal(other.From)
}

// Snapshot is what a Store holds. The records may be of different moments: each was the
// stored record at some moment after Load was called.
type Snapshot struct {
	Records []Record // at most one for each worker, in any order

	// Now is the store's time, read after the records, by the clock that sets
	// Record.Renewed. The steps of this clock must be much smaller than a window.
	Now time.Time

	// Lost has the worker IDs that are unusable, and why: the store has lost the record but
	// still has other records, or something else is in the record's place. Acquire gives
	// these worker IDs to nobody, and logs a warning. It is nil if the store cannot tell.
	Lost map[int]error

	// OwnClock says that Now comes from another clock than the clients', so that it can
	// tell a client that its clock has leapt.
	OwnClock bool
}

// ErrConflict is returned by Store.Save if another record was saved first.
var ErrConflict = errors.New("lease: the record was changed by another save")

// State says whether the worker ID of a Record is in use.
type State string

const (
	Held  State = "held"  // by Owner, as long as it renews
	Free  State = "free"  // released
	Spent State = "spent" // never given out again
)

// Record is what a store keeps for a worker ID.
type Record struct {
	Worker  int    `json:"worker"`
	Version uint64 `json:"version"` // counts the saves, from 1
	Token   string `json:"token"`   // of the acquisition: no two acquisitions have the same
	State   State  `json:"state"`
	Reuse   Reuse  `json:"reuse"` // of the last holder; the next holder keeps to it
	Owner   string `json:"owner"` // Options.Owner of the last holder
	Host    string `json:"host"`  // on which host the last holder ran, for people
	PID     int    `json:"pid"`

	// Layout is the layout of the IDs. Bounds are in its ticks, so all holders must have
	// the same.
	Layout snowflake.Layout `json:"layout"`

	// Bounds has, for each clock sequence up to the highest one used, the time up to which
	// IDs may have been issued. The next holder begins there. A zero time means that the
	// clock sequence was never used. If the layout has no clock sequences, there is one
	// bound.
	Bounds []time.Time `json:"bounds"`

	// ClockSeq is the clock sequence of the holder's IDs, since From: [From, Bound()) is
	// its current Holding.
	ClockSeq int       `json:"clock_seq"`
	From     time.Time `json:"from"`

	// Forgotten is the time before which holders may be missing from the store's history.
	// The zero time means that the history is complete.
	Forgotten time.Time `json:"forgotten"`

	// Window is the holder's Options.Window. The holder renews three times in each window,
	// so it is taken for dead after a whole window without a renewal.
	Window time.Duration `json:"window"`

	// Renewed is the store's time of the last save. If the engine itself watches the
	// holders, Load may know better: then it returns the zero time for a holder that has
	// gone, and Snapshot.Now for a holder that is there.
	Renewed time.Time `json:"renewed,omitzero"`
}

// Bound returns the bound of the current clock sequence: every ID issued so far is before
// it.
func (r Record) Bound() time.Time { return r.bound(r.ClockSeq) }

func (r Record) bound(seq int) time.Time {
	if seq < len(r.Bounds) {
		return r.Bounds[seq]
	}
	return time.Time{}
}

// holding returns the current Holding.
func (r Record) holding() Holding {
	return Holding{
		Worker: r.Worker, ClockSeq: r.ClockSeq, From: r.From, To: r.Bound(),
		Token: r.Token, Owner: r.Owner, Host: r.Host, PID: r.PID,
	}
}

// replace saves r in place of old. If r begins another holding, replace puts old's holding
// into the history, and drops the holdings that ended longer than o.History ago.
func replace(ctx context.Context, s Store, o *Options, old, r Record) (Record, error) {
	ended := old.holding()
	empty := !ended.From.Before(ended.To) && len(old.Bounds) == 1 // with several clock sequences, the history may have a longer holding with the same beginning
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

// withBound returns r with seq as its clock sequence and bound as the bound of seq. It does
// not change r's own Bounds.
func (r Record) withBound(seq int, bound time.Time) Record {
	bounds := make([]time.Time, max(len(r.Bounds), seq+1))
	copy(bounds, r.Bounds)
	bounds[seq] = bound.UTC()
	r.ClockSeq, r.Bounds = seq, bounds
	return r
}

// withWindow returns r with w as its window, and its bound at bound.
func (r Record) withWindow(w window, bound time.Time) Record {
	r = r.withBound(w.seq, bound)
	r.From = w.from
	return r
}

// same reports whether r is the record that other became when it was saved.
func (r Record) same(other Record) bool {
	return r.Worker == other.Worker && r.Version == other.Version && r.Token == other.Token && r.State == other.State &&
		r.ClockSeq == other.ClockSeq && slices.EqualFunc(r.Bounds, other.Bounds, time.Time.Equal)
}

// Live reports whether r is held, and was renewed within a window before now, a time by the
// store's clock. If this clock was set back by more than a window, r is not live until its
// holder renews again.
func (r Record) Live(now time.Time) bool {
	age := now.Sub(r.Renewed)
	return r.State == Held && -r.Window < age && age <= r.Window
}

// Validate returns an error that matches [ErrBadRecord] if this package cannot have saved
// r. A Store calls it on each record that it reads.
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

// free finds the clock sequence with which a new holder whose clock reads now can go on
// soonest, and the time from which it may. It prefers, among the sequences with bounds that
// have passed, the one with the latest bound; then a sequence that was never used; then the
// one with the earliest bound.
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
