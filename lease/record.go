package lease

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// record is what the store keeps for a worker ID.
type record struct {
	Worker int    `json:"worker"`
	Saves  uint64 `json:"saves"` // counts the saves, from 1; an unused worker ID has 0
	Token  string `json:"token"` // of the acquisition: no two acquisitions have the same
	State  State  `json:"state"`
	Reuse  Reuse  `json:"reuse"` // of the last holder; the next holder keeps to it
	Owner  string `json:"owner"` // Options.Owner of the last holder
	Host   string `json:"host"`  // on which host the last holder ran, for people
	PID    int    `json:"pid"`

	// Layout is the layout of the IDs. Bounds are in its ticks, so all holders must have
	// the same.
	Layout snowflake.Layout `json:"layout"`

	// Bounds has, for each clock sequence up to the highest one used, the time up to which
	// IDs may have been issued. The next holder begins there. A zero time means that the
	// clock sequence has not been used since Floor. If the layout has no clock sequences, there
	// is one bound.
	Bounds []time.Time `json:"bounds"`

	// Floor is the time before which no clock sequence may be stamped, because an earlier
	// record was lost. The zero time means that none was lost.
	Floor time.Time `json:"floor,omitzero"`

	// ClockSeq is the clock sequence of the holder's IDs, since From: [From, Bound()) is
	// its current Holding.
	ClockSeq int       `json:"clockSeq"`
	From     time.Time `json:"from"`

	// Store is the name of the store when the worker ID was taken. A store that has lost all
	// of its entries gets another name.
	Store string `json:"store"`

	// Marked says that the worker ID has a mark, from which others learn if its record is
	// lost.
	Marked bool `json:"marked"`

	// Copy says that the holder has a LocalCopy.
	Copy bool `json:"copy,omitempty"`

	// Ended has the latest of the holdings that have ended, and Chunks says where the
	// earlier holdings are.
	Ended  []Holding `json:"ended,omitempty"`
	Chunks chunks    `json:"chunks,omitzero"`

	// Forgotten is the time before which holders may be missing from the history. The zero
	// time means that the history is complete.
	Forgotten time.Time `json:"forgotten,omitzero"`

	// Window is the holder's Options.Window. The holder renews three times in each window,
	// so it is taken for dead after a whole window without a renewal.
	Window time.Duration `json:"window"`

	// FloorEvery is the holder's Options.FloorEvery.
	FloorEvery time.Duration `json:"floorEvery,omitzero"`

	// Waited is how long a record whose State is StateLost is known to have been lost.
	Waited waited `json:"waited,omitzero"`

	// Least is the time before which the holder stamps nothing any more, and none of its open Holds
	// has stamped anything: see [Watermark]. If NoFloor is set, Least does not rise, because the
	// holder has no generator, or one that may go back.
	Least   time.Time `json:"least,omitzero"`
	NoFloor bool      `json:"noFloor,omitempty"`

	// To is the time up to which the holder may stamp: its bound, and while it changes its clock
	// sequence also the bound of the sequence before.
	To time.Time `json:"to,omitzero"`

	// Prior is what may still be stamped by earlier holders that were taken for dead, or whose
	// generators were not stopped.
	Prior prior `json:"prior,omitzero"`

	// Renewed is the time of the last save by the engine's clock; zero if it has no clock.
	Renewed time.Time `json:"renewed,omitzero"`

	version    string // Entry.Version; empty if there is no entry
	unreadable error  // why the entry cannot be read
}

// Holding is a span of ID time, [From, To), that one holder was granted with a worker ID and clock
// sequence. No other holder has issued IDs with them in this span. It may begin up to a window
// before the holder's process, because the process's clock may be set back, and end after it.
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

// Bound returns the bound of the current clock sequence: every ID issued so far is before
// it.
func (r record) Bound() time.Time { return r.bound(r.ClockSeq) }

func (r record) bound(seq int) time.Time {
	if seq < len(r.Bounds) {
		return times.Later(r.Bounds[seq], r.Floor)
	}
	return r.Floor
}

// last returns the latest bound of all clock sequences. If the answer to a change of the clock
// sequence was lost, the holder goes on with the sequence before.
func (r record) last() time.Time {
	last := r.Floor
	for seq := range r.Bounds {
		last = times.Later(last, r.Bounds[seq])
	}
	return last
}

// ends returns the time up to which the holder may stamp.
func (r record) ends() time.Time {
	if r.To.IsZero() { // it does not say
		return r.last()
	}
	return r.To
}

// holding returns the current Holding.
func (r record) holding() Holding {
	return Holding{
		Worker: r.Worker, ClockSeq: r.ClockSeq, From: r.From, To: r.Bound(),
		Token: r.Token, Owner: r.Owner, Host: r.Host, PID: r.PID,
	}
}

// withBound returns r with seq as its clock sequence and bound as the bound of seq. It does
// not change r's own Bounds.
func (r record) withBound(seq int, bound time.Time) record {
	bounds := make([]time.Time, max(len(r.Bounds), seq+1))
	copy(bounds, r.Bounds)
	bounds[seq] = bound.UTC()
	r.ClockSeq, r.Bounds = seq, bounds
	return r
}

// withWindow returns r with w as its only window, and its bound at bound.
func (r record) withWindow(w window, bound time.Time) record {
	r = r.withBound(w.seq, bound)
	r.From = w.from
	r.To = r.bound(w.seq)
	return r
}

// withBoundsOf returns r with the later bound, of both records, for each clock sequence.
func (r record) withBoundsOf(other record) record {
	seq := r.ClockSeq
	for i := range other.Bounds {
		r = r.withBound(i, times.Later(r.bound(i), other.bound(i)))
	}
	r.ClockSeq, r.Floor = seq, times.Later(r.Floor, other.Floor)
	return r
}

// sorted returns records in the order of their worker IDs.
func sorted(records iter.Seq[record]) []record {
	return slices.SortedFunc(records, func(a, b record) int { return a.Worker - b.Worker })
}

// same reports whether r is the record that other became when it was saved.
func (r record) same(other record) bool {
	return r.Worker == other.Worker && r.Saves == other.Saves && r.Token == other.Token && r.State == other.State &&
		r.ClockSeq == other.ClockSeq && slices.EqualFunc(r.Bounds, other.Bounds, time.Time.Equal)
}

// String describes r on one line.
func (r record) String() string { return r.held().String() }

// decodeRecord returns the record in an entry. Its error matches ErrBadRecord.
func decodeRecord(worker int, e Entry) (record, error) {
	r := record{Worker: worker}
	if e.Version == "" {
		return r, nil
	}
	if err := json.Unmarshal(e.Value, &r); err != nil {
		return r, fmt.Errorf("%w: %s: %w", ErrBadRecord, e.Key, err)
	}
	if r.Worker != worker {
		return r, fmt.Errorf("%w: %s: it is of worker %d", ErrBadRecord, e.Key, r.Worker)
	}
	r.version, r.Renewed = e.Version, e.Time
	return r, r.validate()
}

// encode returns the value of r's entry.
func (r record) encode() ([]byte, error) {
	r.Renewed = time.Time{}
	return json.Marshal(r)
}

// validate returns an error that matches ErrBadRecord if this package cannot have saved r.
func (r record) validate() error {
	var why string
	switch err := r.Layout.Validate(); {
	case err != nil:
		return fmt.Errorf("%w: worker %d: %w", ErrBadRecord, r.Worker, err)
	case r.State != StateHeld && r.State != StateFree && r.State != StateSpent && r.State != StateLost:
		why = fmt.Sprintf("its state is %q", r.State)
	case r.Worker < 0 || r.Worker > 1<<r.Layout.WorkerBits-1:
		why = fmt.Sprintf("worker %d does not fit its layout", r.Worker)
	case r.State == StateLost:
		return nil
	case r.Saves == 0 || r.Token == "" || r.Window <= 0 || r.Window > maxWindow(r.Layout.Unit):
		why = fmt.Sprintf("it has %d saves, token %q and window %v", r.Saves, r.Token, r.Window)
	case r.ClockSeq < 0 || r.ClockSeq >= len(r.Bounds) || len(r.Bounds) > 1<<r.Layout.ClockSeqBits:
		why = fmt.Sprintf("clock sequence %d of %d does not fit its layout", r.ClockSeq, len(r.Bounds))
	default:
		return nil
	}
	return fmt.Errorf("%w: worker %d: %s", ErrBadRecord, r.Worker, why)
}

// held returns what users see of r.
func (r record) held() Holder {
	return Holder{r.Worker, r.ClockSeq, r.State, r.Owner, r.Host, r.PID, r.From, r.Bound(), r.Renewed, r.Window, r.Reuse, r.Layout}
}

// chunks are the numbers of the entries that keep the earlier holdings of a worker ID.
type chunks struct {
	First int `json:"first"`
	Next  int `json:"next"`
}

// prior is a span of times that earlier holders of a worker ID may still stamp, or commit, if they
// were taken for dead and are alive.
type prior struct {
	Least time.Time `json:"least"`
	To    time.Time `json:"to"`
}

// still returns p or, if it has ended by both clocks, no span.
func (p prior) still(c clocks) prior {
	if c.early().Before(p.To) {
		return p
	}
	return prior{}
}

// and returns the span from the earlier beginning of p and q to their later end.
func (p prior) and(q prior) prior {
	switch {
	case q.To.IsZero():
		return p
	case !p.To.IsZero():
		q = prior{times.Earlier(p.Least, q.Least), times.Later(p.To, q.To)}
	}
	return prior{q.Least.UTC(), q.To.UTC()}
}

// window has the times that may be stamped.
type window struct {
	seq      int
	from, to time.Time
	before   time.Time // the stored bound of the previous holder; not after from
	above    time.Time // the watermark when the window was saved: nothing is stamped before it
}

// begin returns the first instant that may be stamped.
func (w window) begin() time.Time { return times.Later(w.from, w.above) }
