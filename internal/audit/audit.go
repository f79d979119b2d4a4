// Package audit finds duplicates, disorder, rounding and gaps in a list of many IDs, without a
// store. Package audit/leases compares the IDs with the leases of a store. The report is the same.
package audit

import (
	"cmp"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/input"
	"github.com/seed-5394e6b1/snowflake/internal/jsontime"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
)

// mostTwice bounds the repeated IDs that are examined for rounding of a part of a table.
const mostTwice = 10_000

// Most bounds the IDs of an audit.
const Most = 100_000_000

// Report is the result of an audit.
type Report struct {
	Layout  string        `json:"layout"`
	IDs     int           `json:"ids"` // of the layout, with duplicates
	First   jsontime.Time `json:"first,omitzero"`
	Last    jsontime.Time `json:"last,omitzero"`
	Passed  []string      `json:"passed,omitempty"` // skipped without a fault: headers, NULLs
	Wrong   []Fault       `json:"wrong"`
	Workers []Worker      `json:"workers"`
	Gaps    []Gap         `json:"gaps"`  // the longest times without an ID, the longest first
	Notes   []string      `json:"notes"` // possible faults

	Leases Comparison   `json:"leases,omitempty"` // nil without a comparison
	UpTo   snowflake.ID `json:"upTo,omitzero"`    // the last ID that was read, of a table in the order of its IDs

	Unread int `json:"-"` // the number of lines that are not an ID; Wrong includes them
}

// Comparison is the result of a comparison of the IDs with the leases of a store.
type Comparison interface {
	Faults() []Fault
	Write(out io.Writer, most int) // for people, with at most most groups of each kind
}

// Fault is a kind of fault, the number of lines with it, and the first of them.
type Fault struct {
	What  string    `json:"what"`
	Count int       `json:"count"`
	First []Finding `json:"first"`
}

// Finding is a line of the input and its fault.
type Finding struct {
	File string `json:"file,omitempty"` // if there are several
	Line int    `json:"line"`
	Text string `json:"text"`
}

// Worker has the findings about one worker or, if the layout has clock sequences, about one worker
// and clock sequence.
type Worker struct {
	ClockSeq   int           `json:"clockSeq"`
	Datacenter int           `json:"datacenter"`
	Worker     int           `json:"worker"`
	IDs        int           `json:"ids"` // without duplicates
	First      jsontime.Time `json:"first"`
	Last       jsontime.Time `json:"last"`
	PerSecond  float64       `json:"perSecond"`  // the most IDs in a second
	Ticks      int           `json:"ticks"`      // with an ID
	Spent      int           `json:"spent"`      // ticks whose last sequence number was issued
	StepsBack  int           `json:"stepsBack"`  // from an ID to a smaller ID
	Duplicates int           `json:"duplicates"` // IDs that occur more than once
	Turns      int           `json:"turns"`      // returns to an earlier run of sequence numbers within a tick

	// In the order of the input, as are StepsBack and Turns:
	before     snowflake.ID // the last ID
	run, other run          // the run of the last ID, and the run before it

	// In the order of the IDs:
	tick, second, inSecond int64 // of the last ID
}

// run is a run of sequence numbers within a tick, each close to the previous one. It has the last
// one.
type run struct {
	time     time.Time
	sequence int
}

// near bounds the distance of two successive sequence numbers of a run: the callers of one process
// may write their IDs a little out of order.
const near = 64

func (r run) goesOn(p snowflake.Parts) bool {
	return r.time.Equal(p.Time) && r.sequence-near <= p.Sequence && p.Sequence <= r.sequence+near
}

// Gap is a time without an ID.
type Gap struct {
	From jsontime.Time `json:"from"`
	To   jsontime.Time `json:"to"`
}

func (g Gap) length() time.Duration { return g.To.Sub(g.From.Time) }

// Options are the settings of an audit.
type Options struct {
	// Ordered makes it a fault that an ID is more than a second older than the previous ID of its
	// worker. The input must be in the order of issue.
	Ordered bool

	Listed int // bounds the findings of each kind
	Input  input.Options
}

// Flags defines the flags of o.
func (o *Options) Flags(fs command.FlagSet) {
	o.Input.Flags(fs)
	fs.BoolVar(&o.Ordered, "order", false, "the IDs are in the order of issue: an older one is a fault")
	fs.IntVarP(&o.Listed, "count", "n", 20, "list at most `N` of each kind")
}

// Check returns an error if a flag is wrong.
func (o *Options) Check() error {
	if err := o.Input.Check(); err != nil {
		return command.Refused("%w", err)
	}
	return command.AtLeast("count", o.Listed, 1)
}

// Audit collects IDs in the order of the input, and finds faults.
type Audit struct {
	Options

	// Also is called with each ID that is added. Its errors are returned. It may be nil.
	Also func(snowflake.ID) error

	layout snowflake.Layout
	latest time.Time // later IDs are from the future
	most   int       // bounds the IDs

	ids     stretches
	files   []file
	exact   int                      // IDs that a float64 holds
	large   int                      // IDs over 2^53, of which a float64 holds only some
	workers map[snowflake.ID]*Worker // by the bits of an ID that name its worker
	fields  snowflake.ID             // these bits
	low     [64]int                  // IDs by their lowest bits

	unreadable, strangers, future, old, repeated Fault

	twice []snowflake.ID // the first IDs that occur more than once
}

// placed is an ID and its line, counted through all files.
type placed struct {
	id   snowflake.ID
	line int
}

func comparePlaced(x, y placed) int {
	if x.id != y.id { // cmp.Or would compare twice
		return cmp.Compare(x.id, y.id)
	}
	return cmp.Compare(x.line, y.line)
}

// file is an input.
type file struct {
	name   string
	before int // the lines of the files before it
}

// ahead bounds the time by which an ID may be ahead of now.
const ahead = time.Minute

// New returns an audit of IDs of a layout, which must be valid.
func New(l snowflake.Layout, now time.Time, o Options) *Audit {
	return &Audit{
		layout: l, latest: now.Add(ahead), most: Most, Options: o,
		workers: map[snowflake.ID]*Worker{}, fields: fieldsOf(l),
		files:      []file{{}},
		unreadable: Fault{What: "lines that are not an ID"},
		strangers:  Fault{What: "IDs that are not of the layout (snowflake identify may know theirs)"},
		future:     Fault{What: "IDs from the future (snowflake identify may know their layout)"},
		old:        Fault{What: "IDs more than a second older than the previous ID of their worker"},
		repeated:   Fault{What: "IDs that occur more than once"},
	}
}

// File begins a file, to which the lines after linesBefore belong.
func (a *Audit) File(name string, linesBefore int) {
	a.files = append(a.files, file{name, linesBefore})
}

// place returns the file of a line that is counted through all files, and its number there.
func (a *Audit) place(line int) (name string, n int) {
	for _, f := range slices.Backward(a.files) {
		if line > f.before {
			return f.name, line - f.before
		}
	}
	return "", line
}

// add counts a finding. It calls text only if the finding is listed.
func (a *Audit) add(f *Fault, line int, text func() string) {
	if f.Count++; f.Count <= a.Listed {
		name, n := a.place(line)
		f.First = append(f.First, Finding{name, n, text()})
	}
}

// of returns an ID with its time.
func of(id snowflake.ID, p snowflake.Parts) string {
	return fmt.Sprintf("%d of %s", id, p.Time.Format(time.RFC3339Nano))
}

// Skip counts a line that has no ID. why is the reason.
func (a *Audit) Skip(why string, line int) {
	a.add(&a.unreadable, line, func() string { return why })
}

// Add adds an ID and its line, which must be greater than the last. It returns an error if there
// are too many IDs.
func (a *Audit) Add(id snowflake.ID, line int) error {
	if a.Also != nil {
		if err := a.Also(id); err != nil {
			return err
		}
	}
	if a.layout.Check(id) != nil {
		a.add(&a.strangers, line, id.String)
		return nil
	}
	if a.ids.n == a.most {
		return fmt.Errorf("there are more than %d IDs: audit a part of the table at a time, by ranges of IDs", a.most)
	}
	a.ids.add(placed{id, line})
	if snowflake.ID(float64(id)) == id {
		a.exact++
	}
	if id > 1<<53 {
		a.large++
	}
	p := a.layout.Decode(id)
	if p.Time.After(a.latest) {
		a.add(&a.future, line, func() string { return of(id, p) })
	}
	w := a.worker(id, p)
	if id < w.before {
		w.StepsBack++
		if back := a.layout.Decode(w.before).Time.Sub(p.Time); back > time.Second {
			before := w.before
			a.add(&a.old, line, func() string { return fmt.Sprintf("%s, %v older than %d", of(id, p), back, before) })
		}
	}
	w.before = id
	a.low[id%64]++
	if again := w.other.goesOn(p) && w.run.time.Equal(p.Time); !w.run.goesOn(p) {
		w.other = w.run
		if again {
			w.Turns++
		}
	}
	w.run = run{p.Time, p.Sequence}
	return nil
}

// fieldsOf returns the bits of the fields that name a worker.
func fieldsOf(l snowflake.Layout) snowflake.ID {
	all, err := l.Encode(snowflake.Parts{
		Time:       l.Epoch.Time(),
		ClockSeq:   1<<l.ClockSeqBits - 1,
		Datacenter: 1<<l.DatacenterBits - 1,
		Worker:     1<<l.WorkerBits - 1,
	})
	if err != nil {
		panic(err) // the layout is valid
	}
	return all
}

func (a *Audit) worker(id snowflake.ID, p snowflake.Parts) *Worker {
	w := a.workers[id&a.fields]
	if w == nil {
		w = &Worker{ClockSeq: p.ClockSeq, Datacenter: p.Datacenter, Worker: p.Worker, tick: -1, second: -1}
		a.workers[id&a.fields] = w
	}
	return w
}

// Read adds the IDs of the inputs that args name, and returns the report.
func (a *Audit) Read(s *command.Streams, args []string) (*Report, error) {
	// The IDs have no pointers, so frequent garbage collection costs little.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	ids := input.IDs{Add: a.Add, Skip: a.Skip}
	err := s.EachInput(args, func(name string, in io.Reader) error {
		if len(args) > 1 {
			a.File(name, ids.Line)
		}
		return ids.Read(in, a.Input)
	})
	if err == nil {
		err = ids.Finish()
	}
	if err != nil {
		return nil, err
	}
	r := a.Finish()
	if ids.Form != command.Decimal && r.IDs > 0 {
		r.Passed = append(r.Passed, "read as "+ids.Form)
	}
	if len(ids.Headers) > 0 {
		r.Passed = append(r.Passed, "skipped the header "+strings.Join(ids.Headers, ", "))
	}
	if ids.Nulls > 0 {
		r.Passed = append(r.Passed, fmt.Sprintf("skipped NULL values: %d", ids.Nulls))
	}
	return r, nil
}

// NewReport returns a report without findings.
func NewReport(l snowflake.Layout, ids int) *Report {
	return &Report{
		Layout: l.String(), IDs: ids,
		Wrong: []Fault{}, Workers: []Worker{}, Gaps: []Gap{}, Notes: []string{}, // in JSON []
	}
}

// Finish returns the report.
func (a *Audit) Finish() *Report {
	r := NewReport(a.layout, a.ids.n)
	r.Unread = a.unreadable.Count
	rounded := a.findRounded(r)
	for same := range a.ids.sorted() {
		a.count(r, same)
	}
	merged := a.repeated.Count > 0 && a.exact == a.ids.n && a.large >= few // rounding may have made IDs equal
	// If a part of the IDs was rounded, most are exact, but those that became equal are not. Others
	// that occur twice may have many zeros, too, as IDs of a step of 8 in the sequence have.
	partly, inPart := texts.Rounded(slices.Values(a.twice))
	inPart = inPart && partly.Sure && !rounded && 10*partly.Count >= 9*partly.Of
	switch {
	case inPart:
		a.repeated.What += fmt.Sprintf(", because a part of the IDs was rounded %s (read the table from its source again, "+
			"with the IDs as text)", partly.By)
	case merged:
		a.repeated.What += ", perhaps because they were rounded"
	}
	for _, f := range []Fault{a.repeated, a.strangers, a.future, a.unreadable, a.old} {
		if f.Count > 0 && (a.Ordered || f.What != a.old.What) {
			r.Wrong = append(r.Wrong, f)
		}
	}
	for _, w := range a.workers {
		w.PerSecond /= (time.Duration(a.ticksPerSecond()) * a.layout.Unit).Seconds()
		r.Workers = append(r.Workers, *w)
	}
	slices.SortFunc(r.Workers, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Datacenter, b.Datacenter), cmp.Compare(a.Worker, b.Worker),
			cmp.Compare(a.ClockSeq, b.ClockSeq))
	})
	switch {
	case rounded || inPart: // rounding is the cause of all possible notes
	case merged:
		r.Notes = append(r.Notes, "a float64 holds each of the IDs: if they went through JavaScript, a spreadsheet or the like, "+
			"rounding may have made the IDs that occur more than once; compare some with their source")
	default:
		a.note(r)
	}
	return r
}

// few is a number of IDs that may all end in zeros by chance, as the first IDs of their ticks do.
const few = 10

// findRounded reports whether the IDs were surely rounded. If they were, this is the cause of most
// other findings.
func (a *Audit) findRounded(r *Report) bool {
	rounding, ok := texts.Rounded(a.ids.all())
	switch {
	case ok && rounding.Sure:
		what := fmt.Sprintf("IDs that were rounded %s (read the table from its source again, with the IDs as text)", rounding.By)
		r.Wrong = append(r.Wrong, Fault{What: what, Count: rounding.Count})
	case ok:
		r.Notes = append(r.Notes, rounding.String())
	}
	return ok && rounding.Sure
}

// note adds the notes on possible faults.
func (a *Audit) note(r *Report) {
	if n := a.old.Count; n > 0 && !a.Ordered {
		r.Notes = append(r.Notes, fmt.Sprintf("%d IDs are more than a second older than the previous ID of their worker: "+
			"the list is not in the order of issue. If it should be, such as a log of one process, --order makes that a fault", n))
	}
	turns := 0
	for _, w := range r.Workers {
		if w.Turns >= 10 {
			turns++
		}
	}
	if turns > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the sequence numbers of %d workers take turns within a tick: "+
			"two processes may share a worker ID. "+
			"This is no fault if the list is not sorted, or if one process writes several batches at once", turns))
	}
	for bits := 1; bits <= 6; bits++ {
		shards := 1 << bits
		counts := make([]int, shards)
		for low, n := range a.low {
			counts[low%shards] += n
		}
		most := slices.Max(counts)
		share := float64(most) / float64(a.ids.n)
		// Fewer than 1,000 IDs may be uneven by chance.
		if a.ids.n >= 1000 && share >= min(2/float64(shards), 0.9) {
			r.Notes = append(r.Notes, fmt.Sprintf("%.0f%% of the IDs are %d modulo %d: "+
				"as many rows would lie on one of %d shards (Options.RandomStart spreads them)",
				100*share, slices.Index(counts, most), shards, shards))
			return
		}
	}
}

// ticksPerSecond returns the number of whole ticks in a second, or 1 if a tick is longer. PerSecond
// is the count in that many ticks, divided by their length in seconds.
func (a *Audit) ticksPerSecond() int64 { return max(1, int64(time.Second/a.layout.Unit)) }

// mostLines bounds the lines that are listed for one ID.
const mostLines = 10

// count counts an ID, which may occur several times. It must be called with increasing IDs.
func (a *Audit) count(r *Report, same []placed) {
	id := same[0].id
	p := a.layout.Decode(id)
	w := a.worker(id, p)
	if len(same) > 1 {
		w.Duplicates++
		if len(a.twice) < mostTwice {
			a.twice = append(a.twice, id)
		}
		a.add(&a.repeated, same[0].line, func() string {
			var lines []string
			for _, s := range same[:min(len(same), mostLines)] {
				name, line := a.place(s.line)
				lines = append(lines, strings.TrimSpace(fmt.Sprint(name, " ", line)))
			}
			return fmt.Sprintf("%s, %d times: lines %s", of(id, p), len(same), strings.Join(lines, ", "))
		})
	}
	now := jsontime.Time{Time: p.Time}
	if r.First.IsZero() {
		r.First = now
	} else if gap := (Gap{r.Last, now}); gap.length() > a.layout.Unit {
		r.Gaps = addGap(r.Gaps, gap)
	}
	r.Last = now
	if w.IDs++; w.IDs == 1 {
		w.First = now
	}
	w.Last = now

	l := a.layout
	tick := int64(id) >> (l.ClockSeqBits + l.DatacenterBits + l.WorkerBits + l.SequenceBits)
	if tick != w.tick {
		w.tick = tick
		w.Ticks++
	}
	if second := tick / a.ticksPerSecond(); second != w.second {
		w.second, w.inSecond = second, 0
	}
	w.inSecond++
	w.PerSecond = max(w.PerSecond, float64(w.inSecond))
	if l.SequenceBits > 0 && p.Sequence == 1<<l.SequenceBits-1 {
		w.Spent++
	}
}

const mostGaps = 5

// addGap keeps the longest gaps, the longest first.
func addGap(gaps []Gap, g Gap) []Gap {
	if len(gaps) == mostGaps && gaps[mostGaps-1].length() >= g.length() {
		return gaps
	}
	gaps = append(gaps, g)
	slices.SortStableFunc(gaps, func(a, b Gap) int { return cmp.Compare(b.length(), a.length()) })
	return gaps[:min(len(gaps), mostGaps)]
}
