// Package leases finds IDs that no holder of a lease can have issued, by the history of the leases.
package leases

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/jsontime"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Options are the settings of a comparison with the leases.
type Options struct {
	KeptOut     []int     // worker IDs that are kept out of the leases, such as a database function's
	Datacenters []int     // the datacenters whose leases are in the store; required if the layout has datacenters
	Since       time.Time // the time before which IDs are skipped
}

// Report is the result of a comparison with the leases.
type Report struct {
	IDs         int      `json:"ids"`         // of the layout, with duplicates
	Held        int      `json:"held"`        // issued by a holder of their worker ID
	Strangers   []Group  `json:"strangers"`   // issued without a lease
	NotReported []Group  `json:"notReported"` // perhaps of a LocalCopy that has not reported yet
	Forgotten   []Group  `json:"forgotten"`   // older than the history, or their records were lost
	Earlier     []Group  `json:"earlier"`     // before the first lease that the store knows
	KeptOut     []Group  `json:"keptOut"`     // of worker IDs that are kept out of the leases
	Elsewhere   []Group  `json:"elsewhere"`   // of other datacenters
	Foreign     int      `json:"foreign"`     // not of the layout; not counted in IDs
	Passed      int      `json:"passed"`      // before Options.Since; not counted in IDs
	Leased      []Group  `json:"leased"`      // of KeptOut, but leased; Before is the holder
	Problems    []string `json:"problems"`    // errors of parts of the store that cannot be read
}

const (
	strange    = "IDs that no process with a lease can have issued"
	notKeptOut = "IDs of worker IDs that should be kept out of the leases, but were leased"
	unfitting  = "IDs that are not of the layout of the leases"
)

// Wrong returns the number of IDs with a fault.
func (r *Report) Wrong() (n int) {
	for _, f := range r.Faults() {
		n += f.Count
	}
	return n
}

// Faults returns the faults that the comparison found.
func (r *Report) Faults() (all []audit.Fault) {
	for _, f := range []audit.Fault{{What: strange, Count: Count(r.Strangers)}, {What: notKeptOut, Count: Count(r.Leased)},
		{What: unfitting, Count: r.Foreign}} {
		if f.Count > 0 {
			f.First = []audit.Finding{} // in JSON []; the groups have the IDs
			all = append(all, f)
		}
	}
	return all
}

// Count returns the number of IDs in groups.
func Count(groups []Group) (n int) {
	for _, g := range groups {
		n += g.IDs
	}
	return n
}

// Group are IDs of one worker ID and clock sequence. Strangers of one group have the same holders
// before and after them.
type Group struct {
	Worker     int            `json:"worker"`
	ClockSeq   int            `json:"clockSeq"`
	Datacenter int            `json:"datacenter"`
	IDs        int            `json:"ids"`
	FirstID    snowflake.ID   `json:"firstId"` // the least
	LastID     snowflake.ID   `json:"lastId"`
	First      jsontime.Time  `json:"first"` // the time of FirstID
	Last       jsontime.Time  `json:"last"`
	Before     *lease.Holding `json:"before,omitempty"`
	After      *lease.Holding `json:"after,omitempty"`
}

// kind is the result of judging an ID.
type kind int

const (
	held kind = iota
	stranger
	notReported
	forgotten
	early
	keptOut
	leased
	elsewhere
)

// place has the properties that the IDs of a group share.
type place struct {
	kind                         kind
	worker, clockSeq, datacenter int
	after                        time.Time // the beginning of the holding before; zero if there is none
}

// Comparison compares IDs, in any order, with the leases of a store, and finds those that no holder
// of a lease can have issued.
type Comparison struct {
	read    func() (*lease.History, error)
	h       *lease.History
	young   snowflake.ID // the least ID that may have been issued after h was read
	since   snowflake.ID
	keptOut map[int]bool
	here    map[int]bool // datacenters; nil: all
	waiting []snowflake.ID
	groups  map[place]*Group
	r       Report
}

// New returns a comparison. read reads the history of the store.
//
// An ID without a known issuer may be newer than the history that was read. So it waits until the
// history has been read again, and only then counts as a stranger. An ID in a holder's window
// waits, too, if the holder may have released its worker ID since.
func New(read func() (*lease.History, error), o Options) (*Comparison, error) {
	a := &Comparison{read: read, groups: map[place]*Group{}, keptOut: set(o.KeptOut)}
	if err := a.readAgain(); err != nil {
		return nil, err
	}
	l := a.h.Layout()
	for _, worker := range o.KeptOut {
		if err := command.Fits(l, snowflake.Parts{Worker: worker}); err != nil {
			return nil, err
		}
	}
	for _, datacenter := range o.Datacenters {
		if err := command.Fits(l, snowflake.Parts{Datacenter: datacenter}); err != nil {
			return nil, err
		}
	}
	if l.DatacenterBits > 0 {
		if len(o.Datacenters) == 0 {
			return nil, command.Refused("the layout %v has datacenters: name those whose leases are in this store with --datacenter", l)
		}
		a.here = set(o.Datacenters)
	}
	if !o.Since.IsZero() {
		first, _, err := l.Range(o.Since, o.Since)
		if err != nil {
			return nil, err
		}
		a.since = first
	}
	return a, nil
}

func set(all []int) map[int]bool {
	is := map[int]bool{}
	for _, n := range all {
		is[n] = true
	}
	return is
}

// Layout returns the layout of the store.
func (a *Comparison) Layout() snowflake.Layout { return a.h.Layout() }

// First returns the first ID that is not skipped.
func (a *Comparison) First() snowflake.ID { return a.since }

func (a *Comparison) readAgain() error {
	now := time.Now()
	h, err := a.read()
	if h == nil {
		return err
	}
	a.young, _, _ = h.Layout().Range(now, now) // if the clock is out of its range, all IDs wait
	a.h, a.r.Problems = h, []string{}
	if err != nil { // the rest was read
		a.r.Problems = append(a.r.Problems, err.Error())
	}
	return nil
}

// mostWaiting bounds the IDs that wait: at this number, the history is read again.
const mostWaiting = 1 << 20

// Add adds an ID, which must have been issued before the call.
func (a *Comparison) Add(id snowflake.ID) error {
	if id < a.since && id >= 0 {
		a.r.Passed++
		return nil
	}
	by, err := a.h.Whois(id)
	if err == nil && id < a.young && a.here == nil && len(a.keptOut) == 0 {
		a.r.IDs++
		a.r.Held++
		return nil
	}
	return a.lookAt(id, by, err)
}

// lookAt adds an ID that may not have been issued by its holder, or has none.
func (a *Comparison) lookAt(id snowflake.ID, by *lease.Holding, err error) error {
	if errors.Is(err, snowflake.ErrInvalidID) {
		a.r.Foreign++
		return nil
	}
	a.r.IDs++
	if k := a.judge(id, by, err); k != stranger && (k != held || id < a.young) {
		a.put(k, id)
		return nil
	}
	if a.waiting = append(a.waiting, id); len(a.waiting) >= mostWaiting {
		return a.Settle()
	}
	return nil
}

// judge returns the kind of an ID of the layout, by the history as it was read last.
func (a *Comparison) judge(id snowflake.ID, by *lease.Holding, err error) kind {
	p := a.h.Layout().Decode(id)
	switch {
	case a.here != nil && !a.here[p.Datacenter]:
		return elsewhere
	case a.keptOut[p.Worker] && by != nil:
		return leased
	case a.keptOut[p.Worker]:
		return keptOut
	case err == nil:
		return held
	case errors.Is(err, lease.ErrForgotten):
		return forgotten
	case errors.Is(err, lease.ErrNotReported):
		return notReported
	case p.Time.Before(a.h.Begins()):
		return early
	}
	return stranger
}

// Settle reads the history again if IDs are waiting, and judges them.
func (a *Comparison) Settle() error {
	if len(a.waiting) == 0 {
		return nil
	}
	if err := a.readAgain(); err != nil {
		return err
	}
	for _, id := range a.waiting {
		by, err := a.h.Whois(id)
		a.put(a.judge(id, by, err), id)
	}
	a.waiting = a.waiting[:0]
	return nil
}

// put counts an ID in its group.
func (a *Comparison) put(k kind, id snowflake.ID) {
	if k == held {
		a.r.Held++
		return
	}
	p := a.h.Layout().Decode(id)
	at := place{kind: k, worker: p.Worker, clockSeq: p.ClockSeq, datacenter: p.Datacenter}
	var before, after *lease.Holding
	switch k {
	case stranger:
		if before, after = a.h.Around(id); before != nil {
			at.after = before.From.UTC()
		}
	case leased:
		before, _ = a.h.Whois(id)
	}
	g := a.groups[at]
	if g == nil {
		g = &Group{Worker: p.Worker, ClockSeq: p.ClockSeq, Datacenter: p.Datacenter, FirstID: id, LastID: id}
		a.groups[at] = g
	}
	g.IDs++
	g.FirstID, g.LastID = min(g.FirstID, id), max(g.LastID, id)
	g.Before = before
	if g.After == nil || after != nil && after.From.Before(g.After.From) {
		g.After = after
	}
}

// Strangers returns the number of strangers found so far.
func (a *Comparison) Strangers() (n int) {
	for at, g := range a.groups {
		if at.kind == stranger {
			n += g.IDs
		}
	}
	return n
}

// Report returns the result so far.
func (a *Comparison) Report() (*Report, error) {
	if err := a.Settle(); err != nil {
		return nil, err
	}
	r := a.r
	for k, groups := range map[kind]*[]Group{
		stranger: &r.Strangers, notReported: &r.NotReported, forgotten: &r.Forgotten, early: &r.Earlier,
		keptOut: &r.KeptOut, leased: &r.Leased, elsewhere: &r.Elsewhere,
	} {
		*groups = a.sorted(k)
	}
	return &r, nil
}

func (a *Comparison) sorted(k kind) []Group {
	groups := []Group{} // [] in JSON
	l := a.h.Layout()
	for at, g := range a.groups {
		if at.kind == k {
			g.First.Time, g.Last.Time = l.Decode(g.FirstID).Time, l.Decode(g.LastID).Time
			groups = append(groups, *g)
		}
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.FirstID, b.FirstID))
	})
	return groups
}
