package protocol

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// None stands for no worker ID.
const None = -1

// Record is the store's entry of a worker ID.
type Record struct {
	Worker  int    `json:"worker"`
	Saves   uint64 `json:"saves"` // counts the saves, from 1; an unused worker ID has 0
	State   State  `json:"state"`
	Holder         // the last one
	History        // of those before

	// Layout is the layout of the IDs. Bounds are in its ticks, so all holders must have the same.
	Layout snowflake.Layout `json:"layout"`

	// Bounds has, for each clock sequence up to the highest one used, the time up to which IDs may
	// have been issued. The next holder begins there. A zero time means that the clock sequence has
	// not been used since NotBefore. If the layout has no clock sequences, there is one bound.
	Bounds []time.Time `json:"bounds"`

	// NotBefore is the time before which no clock sequence may be stamped, because an earlier
	// record was lost. The zero time means that none was lost.
	NotBefore time.Time `json:"notBefore,omitzero"`

	// ClockSeq is the clock sequence of the holder's IDs, since From: [From, Bound()) is
	// its current holding.
	ClockSeq int       `json:"clockSeq"`
	From     time.Time `json:"from"`

	// Marked says that the worker ID has a mark, from which others learn if its record is lost.
	Marked bool `json:"marked"`

	// Waited is the time for which a record whose State is StateLost is known to have been lost.
	Waited Waited `json:"waited,omitzero"`

	// Least is the holder's floor: the time before which it stamps nothing any more, and has stamped
	// nothing under an open Lease.Hold. See [Watermark]. If NoFloor is set, Least does not rise,
	// because the holder has no generator, or one that may go back.
	Least   time.Time `json:"least,omitzero"`
	NoFloor bool      `json:"noFloor,omitempty"`

	// To is the time up to which the holder may stamp: its bound, and while it changes its clock
	// sequence also the bound of the previous sequence.
	To time.Time `json:"to,omitzero"`

	// Prior is what may still be stamped by earlier holders that were taken for dead, or whose
	// generators were not stopped.
	Prior Prior `json:"prior,omitzero"`

	// Renewed is the time of the last save by the engine's clock; zero if it has no clock.
	Renewed time.Time `json:"renewed,omitzero"`

	Version    string `json:"-"` // of the entry; empty if there is no entry
	Unreadable error  `json:"-"` // why the entry cannot be read
}

// Holder describes the process that takes a worker ID.
type Holder struct {
	Token string `json:"token"` // of the acquisition: no two acquisitions have the same
	Owner string `json:"owner"` // Options.Owner
	Host  string `json:"host"`  // where the process runs, for people
	PID   int    `json:"pid"`
	Reuse Reuse  `json:"reuse"` // Options.Reuse, or that of an earlier holder if that is stricter

	// Window is Options.Window. The holder renews three times in each window, so it counts as dead
	// after a whole window without a renewal.
	WindowLength time.Duration `json:"window"`
	FloorEvery   time.Duration `json:"floorEvery,omitzero"` // Options.FloorEvery

	// Store is the name of the store when the worker ID was taken. A store that has lost all of its
	// entries gets another name.
	Store string `json:"store"`

	// Offline says that the holder continues while the store is away, and then stamps what the store
	// does not know.
	Offline bool `json:"offline,omitempty"`
}

// who names the holder, for people.
func (h Holder) who() string { return Who(h.Owner, h.Host, h.PID) }

// History has the holdings of a worker ID that have ended.
type History struct {
	Ended  []Holding `json:"ended,omitempty"` // the latest
	Chunks Chunks    `json:"chunks,omitzero"` // where the earlier ones are

	// Forgotten is the time before which holdings may be missing; zero if none is.
	Forgotten time.Time `json:"forgotten,omitzero"`
}

// Holding is lease.Holding.
type Holding struct {
	Worker   int       `json:"worker"`
	ClockSeq int       `json:"clockSeq"`
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

// Bound returns the bound of the current clock sequence: every ID issued so far is before it.
func (r Record) Bound() time.Time { return r.BoundOf(r.ClockSeq) }

func (r Record) BoundOf(seq int) time.Time {
	if seq < len(r.Bounds) {
		return times.Later(r.Bounds[seq], r.NotBefore)
	}
	return r.NotBefore
}

// Last returns the latest bound of all clock sequences. If the answer to a change of the clock
// sequence was lost, the holder keeps the previous sequence.
func (r Record) Last() time.Time {
	last := r.NotBefore
	for seq := range r.Bounds {
		last = times.Later(last, r.Bounds[seq])
	}
	return last
}

// Ends returns the time up to which the holder may stamp.
func (r Record) Ends() time.Time {
	if r.To.IsZero() { // it does not say
		return r.Last()
	}
	return r.To
}

// Holding returns the current holding.
func (r Record) Holding() Holding {
	return Holding{
		Worker: r.Worker, ClockSeq: r.ClockSeq, From: r.From, To: r.Bound(),
		Token: r.Token, Owner: r.Owner, Host: r.Host, PID: r.PID,
	}
}

// WithBound returns r with seq as its clock sequence and bound as the bound of seq. It does
// not change r's own Bounds.
func (r Record) WithBound(seq int, bound time.Time) Record {
	bounds := make([]time.Time, max(len(r.Bounds), seq+1))
	copy(bounds, r.Bounds)
	bounds[seq] = bound.UTC()
	r.ClockSeq, r.Bounds = seq, bounds
	return r
}

// withWindow returns r with w as its only window, and its bound at bound.
func (r Record) withWindow(w Window, bound time.Time) Record {
	r = r.WithBound(w.Seq, bound)
	r.From = w.From
	r.To = r.BoundOf(w.Seq)
	return r
}

// WithBoundsOf returns r with the later bound, of both records, for each clock sequence.
func (r Record) WithBoundsOf(other Record) Record {
	seq := r.ClockSeq
	for i := range other.Bounds {
		r = r.WithBound(i, times.Later(r.BoundOf(i), other.BoundOf(i)))
	}
	r.ClockSeq, r.NotBefore = seq, times.Later(r.NotBefore, other.NotBefore)
	return r
}

// Sorted returns records in the order of their worker IDs.
func Sorted(records iter.Seq[Record]) []Record {
	return slices.SortedFunc(records, func(a, b Record) int { return a.Worker - b.Worker })
}

// same reports whether r is the record that other became when it was saved.
func (r Record) same(other Record) bool {
	return r.Worker == other.Worker && r.Saves == other.Saves && r.Token == other.Token && r.State == other.State &&
		r.ClockSeq == other.ClockSeq && slices.EqualFunc(r.Bounds, other.Bounds, time.Time.Equal)
}

// Who names a process, for people.
func Who(owner, host string, pid int) string { return fmt.Sprintf("%s (%s, pid %d)", owner, host, pid) }

// DecodeRecord returns the record in an entry. Its error matches ErrBadRecord.
func DecodeRecord(worker int, e driver.Entry) (Record, error) {
	r := Record{Worker: worker}
	if e.Version == "" {
		return r, nil
	}
	if err := json.Unmarshal(e.Value, &r); err != nil {
		return r, fmt.Errorf("%w: %s: %w", driver.ErrBadRecord, e.Key, err)
	}
	if r.Worker != worker {
		return r, fmt.Errorf("%w: %s: it is the record of worker %d", driver.ErrBadRecord, e.Key, r.Worker)
	}
	r.Version, r.Renewed = e.Version, e.Time
	return r, r.validate()
}

// Encode returns the value of r's entry.
func (r Record) Encode() ([]byte, error) {
	r.Renewed = time.Time{}
	return json.Marshal(r)
}

// validate returns an error that matches ErrBadRecord if this package cannot have saved r.
func (r Record) validate() error {
	var why string
	switch err := r.Layout.Validate(); {
	case err != nil:
		return fmt.Errorf("%w: worker %d: %w", driver.ErrBadRecord, r.Worker, err)
	case r.State != StateHeld && r.State != StateFree && r.State != StateSpent && r.State != StateLost:
		why = fmt.Sprintf("its state is %q", r.State)
	case r.Worker < 0 || r.Worker > 1<<r.Layout.WorkerBits-1:
		why = fmt.Sprintf("worker %d does not fit its layout", r.Worker)
	case r.State == StateLost:
		return nil
	case r.Saves == 0 || r.Token == "" || r.WindowLength <= 0 || r.WindowLength > MaxWindow(r.Layout.Unit):
		why = fmt.Sprintf("it has %d saves, token %q and window %v", r.Saves, r.Token, r.WindowLength)
	case r.ClockSeq < 0 || r.ClockSeq >= len(r.Bounds) || len(r.Bounds) > 1<<r.Layout.ClockSeqBits:
		why = fmt.Sprintf("clock sequence %d of %d does not fit its layout", r.ClockSeq, len(r.Bounds))
	default:
		return nil
	}
	return fmt.Errorf("%w: worker %d: %s", driver.ErrBadRecord, r.Worker, why)
}

// Chunks are the numbers of the entries that keep the earlier holdings of a worker ID.
type Chunks struct {
	First int `json:"first"`
	Next  int `json:"next"`
}

// Prior is a span of times that earlier holders of a worker ID may still stamp, or commit, if they
// were taken for dead and are alive.
type Prior struct {
	Least time.Time `json:"least"`
	To    time.Time `json:"to"`
}

// unlessEnded returns p or, if it has ended by both clocks, no span.
func (p Prior) unlessEnded(c Clocks) Prior {
	if c.Early().Before(p.To) {
		return p
	}
	return Prior{}
}

// And returns the span from the earlier beginning of p and q to their later end.
func (p Prior) And(q Prior) Prior {
	switch {
	case q.To.IsZero():
		return p
	case !p.To.IsZero():
		q = Prior{times.Earlier(p.Least, q.Least), times.Later(p.To, q.To)}
	}
	return Prior{q.Least.UTC(), q.To.UTC()}
}

// Window has the times that may be stamped.
type Window struct {
	Seq      int
	From, To time.Time
	Before   time.Time // the stored bound of the previous holder; not after From
	Above    time.Time // the watermark when the window was saved: nothing is stamped before it
}

// Begin returns the first instant that may be stamped.
func (w Window) Begin() time.Time { return times.Later(w.From, w.Above) }
