// Package audit checks many IDs for duplicates and other faults.
package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/jsontime"
)

// Options are the settings of an audit.
type Options struct {
	Layout snowflake.Layout
	Now    time.Time                    // an ID more than a minute after Now is of the future
	Dir    string                       // for the temporary file; "" is the system's
	Memory int                          // how many IDs are kept in memory at once, 16 bytes each; 0: two million
	Listed int                          // how many findings of each kind are listed; 0: 20
	Where  func(at int64) string        // names a place
	Holder func(id snowflake.ID) string // names the issuer of an ID; nil if issuers are not known
}

// ahead is how far an ID may be ahead of now.
const ahead = time.Minute

// Report is the result of an audit. Wrong is empty if nothing is wrong.
type Report struct {
	Layout string        `json:"layout"`
	IDs    int64         `json:"ids"` // of the layout, with duplicates
	First  jsontime.Time `json:"first,omitzero"`
	Last   jsontime.Time `json:"last,omitzero"`

	Wrong []string `json:"wrong"`
	Notes []string `json:"notes"` // findings that may be harmless

	Unreadable  Some        `json:"unreadable"`  // lines that are not a number
	Strangers   Some        `json:"strangers"`   // IDs that are not of the layout
	BeforeEpoch Some        `json:"beforeEpoch"` // negative IDs
	Future      Some        `json:"future"`
	Duplicates  int64       `json:"duplicates"` // IDs that come more than once
	Repeated    []Duplicate `json:"repeated,omitempty"`

	StepsBack Some        `json:"stepsBack"` // IDs that are smaller than the ID before of the same generator
	FarBack   Some        `json:"farBack"`   // by more than a second
	Workers   []Generator `json:"workers"`
	Others    int64       `json:"others,omitempty"` // IDs of workers that Workers does not list
	Gaps      []Gap       `json:"gaps"`
	LowBits   []LowBits   `json:"lowBits"`
}

// Some counts lines, and lists the first of them.
type Some struct {
	Count int64     `json:"count"`
	First []Finding `json:"first,omitempty"`
}

// Finding is a line and a text about it.
type Finding struct {
	At   string `json:"at"`
	Text string `json:"text"`
}

// Duplicate is an ID that comes more than once.
type Duplicate struct {
	ID     snowflake.ID  `json:"id"`
	Time   jsontime.Time `json:"time"`
	Count  int64         `json:"count"`
	At     []string      `json:"at"`
	Holder string        `json:"holder,omitempty"`
}

// Generator is what the audit found about one worker or, if the layout has clock
// sequences, about one worker and clock sequence.
type Generator struct {
	ClockSeq    int           `json:"clockseq"`
	Datacenter  int           `json:"datacenter"`
	Worker      int           `json:"worker"`
	IDs         int64         `json:"ids"`
	First       jsontime.Time `json:"first"`
	Last        jsontime.Time `json:"last"`
	PerSecond   float64       `json:"perSecond"`      // the most IDs in a second; if a tick is longer, the most in a tick, divided by its seconds
	Ticks       int64         `json:"ticks"`          // with an ID
	Spent       int64         `json:"spent"`          // ticks whose last sequence number was issued
	StepsBack   int64         `json:"stepsBack"`      // from an ID to the next, in the order given
	Back        string        `json:"back,omitempty"` // the furthest step back
	Duplicates  int64         `json:"duplicates"`     // IDs that come more than once
	Interleaved int64         `json:"interleaved"`    // times that one tick went on with another run of sequence numbers
	Gap         string        `json:"gap,omitempty"`  // the longest time without an ID
	Holder      string        `json:"holder,omitempty"`
}

// Gap is a time without an ID of any worker.
type Gap struct {
	From jsontime.Time `json:"from"`
	To   jsontime.Time `json:"to"`
}

// LowBits says how evenly ID mod Shards would spread rows.
type LowBits struct {
	Shards  int     `json:"shards"`
	Fullest int     `json:"fullest"` // the shard that gets the most IDs
	Share   float64 `json:"share"`   // the share of that shard; 1/Shards if IDs are spread evenly
}

// Audit takes IDs in the order of the input.
type Audit struct {
	o      Options
	report Report
	sorter *sorter

	bits, seqBits, seqShift, timeShift int
	keyLowBits, keyHigh                int // the places of the fields that name a generator
	keyBits                            int
	latest                             snowflake.ID   // of now
	odd                                []snowflake.ID // see Odd

	gens   map[int64]*generator // by key; mostGenerators at most
	others generator            // the counts of all further generators
	low    [64]int64
}

// generator has the counts of a key.
type generator struct {
	// Counted in the order of the input, but not for others: the ID before is another generator's.
	seen        bool
	before      int64 // the last ID
	head, other int64 // the last IDs of two runs in one tick
	back        int64 // the furthest step back, in ticks
	steps       int64
	interleaved int64

	// Counted in the order of the IDs.
	count, ticks, spent, duplicates int64
	first, last                     int64
	second, inSecond, perSecond     int64
	gap                             int64 // in ticks
}

// mostGenerators bounds the memory of gens: some 12 MB.
const mostGenerators = 1 << 16

// New returns an audit. The caller must call Close in the end.
func New(o Options) (*Audit, error) {
	if err := o.Layout.Validate(); err != nil {
		return nil, err
	}
	if o.Memory == 0 {
		o.Memory = 2 << 20
	}
	if o.Listed == 0 {
		o.Listed = 20
	}
	l := o.Layout
	a := &Audit{o: o, sorter: newSorter(o.Dir, o.Memory), gens: map[int64]*generator{}}
	a.report.Layout = l.String()
	a.report.Workers, a.report.Gaps, a.report.LowBits = []Generator{}, []Gap{}, []LowBits{} // [] in JSON
	a.seqBits = int(l.SequenceBits)
	if l.WorkerLast {
		a.keyLowBits = int(l.WorkerBits)
		a.seqShift = a.keyLowBits
		a.keyHigh = a.keyLowBits + a.seqBits
		a.keyBits = a.keyLowBits + int(l.DatacenterBits+l.ClockSeqBits)
	} else {
		a.keyHigh = a.seqBits
		a.keyBits = int(l.WorkerBits + l.DatacenterBits + l.ClockSeqBits)
	}
	a.timeShift = a.seqBits + a.keyBits
	a.bits = a.timeShift + int(l.TimeBits)
	a.latest = latest(l, o.Now.Add(ahead))
	return a, nil
}

// latest returns the greatest ID at a time.
func latest(l snowflake.Layout, t time.Time) snowflake.ID {
	switch id, err := l.Encode(snowflake.Parts{Time: t, ClockSeq: 1<<l.ClockSeqBits - 1, Datacenter: 1<<l.DatacenterBits - 1,
		Worker: 1<<l.WorkerBits - 1, Sequence: 1<<l.SequenceBits - 1}); {
	case err == nil:
		return id
	case errors.Is(err, snowflake.ErrBeforeEpoch):
		return -1
	}
	return 1<<63 - 1
}

// Close removes the temporary file.
func (a *Audit) Close() { a.sorter.close() }

// Unreadable counts a line that is not a number.
func (a *Audit) Unreadable(at int64, err error) {
	a.report.Unreadable.add(a, at, err.Error())
}

// Negative counts a negative number.
func (a *Audit) Negative(at int64, text string) {
	a.report.BeforeEpoch.add(a, at, text)
}

func (s *Some) add(a *Audit, at int64, text string) {
	if s.Count++; s.Count <= int64(a.o.Listed) {
		s.First = append(s.First, Finding{a.o.Where(at), text})
	}
}

// Add takes an ID that is not negative, and its place in the input. Places must
// increase.
func (a *Audit) Add(id snowflake.ID, at int64) error {
	if id > a.latest || id>>a.bits != 0 {
		a.unusual(id, at)
		if id>>a.bits != 0 {
			return nil
		}
	}
	a.report.IDs++
	a.low[id&63]++
	if g := a.generator(int64(id)); g != &a.others {
		a.inOrder(g, int64(id), at)
	}
	return a.sorter.add(record{int64(id), at})
}

// Odd returns the first IDs that are not of the layout or from the future, 20 at most. They may be
// of another layout.
func (a *Audit) Odd() []snowflake.ID { return a.odd }

func (a *Audit) unusual(id snowflake.ID, at int64) {
	if len(a.odd) < 20 {
		a.odd = append(a.odd, id)
	}
	if err := a.o.Layout.Check(id); err != nil {
		a.report.Strangers.add(a, at, id.String())
		return
	}
	a.report.Future.add(a, at, fmt.Sprintf("%d of %s", id, a.o.Layout.Decode(id).Time.Format(time.RFC3339Nano)))
}

// key returns the bits of an ID that name its generator.
func (a *Audit) key(id int64) int64 {
	high := id >> a.keyHigh & (1<<(a.keyBits-a.keyLowBits) - 1)
	return high<<a.keyLowBits | id&(1<<a.keyLowBits-1)
}

// generator returns the counts of an ID's generator. If there are too many
// generators, it returns the counts that all further generators share.
func (a *Audit) generator(id int64) *generator {
	key := a.key(id)
	g := a.gens[key]
	switch {
	case g != nil:
		return g
	case len(a.gens) == mostGenerators:
		return &a.others
	}
	g = &generator{}
	a.gens[key] = g
	return g
}

// near is how far apart sequence numbers of one run may be: the callers of one
// process may write their IDs a little out of order.
const near = 64

// inOrder counts an ID in the order of the input.
func (a *Audit) inOrder(g *generator, id, at int64) {
	if !g.seen {
		g.seen, g.before, g.head, g.other = true, id, id, -1
		return
	}
	if id < g.before {
		a.stepBack(g, id, at)
	}
	g.before = id
	switch {
	case a.run(id, g.head):
		g.head = id
	case a.run(id, g.other) && g.head>>a.timeShift == id>>a.timeShift:
		g.interleaved++
		g.head, g.other = id, g.head
	default:
		g.head, g.other = id, g.head
	}
}

// stepBack counts an ID that is less than the ID before of its generator.
func (a *Audit) stepBack(g *generator, id, at int64) {
	back := g.before>>a.timeShift - id>>a.timeShift
	g.steps++
	g.back = max(g.back, back)
	far := back > int64(time.Second/a.o.Layout.Unit)
	text := ""
	if a.report.StepsBack.Count < int64(a.o.Listed) || far && a.report.FarBack.Count < int64(a.o.Listed) { // else nobody sees it
		text = fmt.Sprintf("%d of %s, %s older than %d", id, a.timeOf(id).Format(time.RFC3339Nano), a.duration(back), g.before)
	}
	a.report.StepsBack.add(a, at, text)
	if far {
		a.report.FarBack.add(a, at, text)
	}
}

// run reports whether two IDs of a generator belong to one run: they have one tick,
// and sequence numbers near each other.
func (a *Audit) run(x, y int64) bool {
	d := (x - y) >> a.seqShift
	return y >= 0 && x>>a.timeShift == y>>a.timeShift && -near <= d && d <= near
}

// Finish returns the report. If progress is not nil, it is called from time to time
// with the share that is done.
func (a *Audit) Finish(progress func(share float64)) (*Report, error) {
	var (
		last     = int64(-1)
		count    int64   // how often last came
		places   []int64 // the first places of last
		gaps     []gap
		inSecond = a.ticksPerSecond()
		done     int64
	)
	err := a.sorter.each(func(r record) {
		if done++; progress != nil && done&(1<<20-1) == 0 {
			progress(float64(done) / float64(a.report.IDs))
		}
		id := r.id
		if id == last {
			if count++; count <= mostPlaces {
				places = append(places, r.at)
			}
			return
		}
		if count > 1 {
			a.duplicate(snowflake.ID(last), count, places)
		}
		if last >= 0 {
			gaps = addGap(gaps, gap{last >> a.timeShift, id >> a.timeShift})
		} else {
			a.report.First = a.timeOf(id)
		}
		a.byID(a.generator(id), id, inSecond)
		last, count, places = id, 1, append(places[:0], r.at)
	})
	if err != nil {
		return nil, err
	}
	if count > 1 {
		a.duplicate(snowflake.ID(last), count, places)
	}
	if last >= 0 {
		a.report.Last = a.timeOf(last)
	}
	for _, g := range gaps {
		a.report.Gaps = append(a.report.Gaps, Gap{a.time(g.from), a.time(g.to)})
	}
	a.generators()
	a.lowBits()
	a.verdict()
	return &a.report, nil
}

// ticksPerSecond returns how many whole ticks a second has, but at least 1.
func (a *Audit) ticksPerSecond() int64 { return max(1, int64(time.Second/a.o.Layout.Unit)) }

// mostPlaces is how many places of one ID are listed.
const mostPlaces = 10

// duplicate records an ID that came count times.
func (a *Audit) duplicate(id snowflake.ID, count int64, places []int64) {
	a.report.Duplicates++
	a.generator(int64(id)).duplicates++
	if len(a.report.Repeated) == a.o.Listed {
		return
	}
	d := Duplicate{ID: id, Time: a.timeOf(int64(id)), Count: count, Holder: a.holder(id)}
	for _, at := range places {
		d.At = append(d.At, a.o.Where(at))
	}
	a.report.Repeated = append(a.report.Repeated, d)
}

func (a *Audit) holder(id snowflake.ID) string {
	if a.o.Holder == nil {
		return ""
	}
	return a.o.Holder(id)
}

// byID counts an ID in the order of the IDs.
func (a *Audit) byID(g *generator, id, ticksPerSecond int64) {
	tick := id >> a.timeShift
	if g.count == 0 {
		g.first, g.ticks, g.second = id, 1, tick/ticksPerSecond
	} else if before := g.last >> a.timeShift; before != tick {
		g.ticks++
		g.gap = max(g.gap, tick-before)
		if second := tick / ticksPerSecond; second != g.second {
			g.second, g.inSecond = second, 0
		}
	}
	g.count++
	g.inSecond++
	g.perSecond = max(g.perSecond, g.inSecond)
	if a.seqBits > 0 && id>>a.seqShift&(1<<a.seqBits-1) == 1<<a.seqBits-1 {
		g.spent++
	}
	g.last = id
}

// gap is two ticks in a row that have IDs.
type gap struct{ from, to int64 }

const mostGaps = 5

// addGap keeps the widest gaps, widest first.
func addGap(gaps []gap, g gap) []gap {
	if g.to-g.from < 2 || len(gaps) == mostGaps && gaps[mostGaps-1].to-gaps[mostGaps-1].from >= g.to-g.from {
		return gaps
	}
	at, _ := slices.BinarySearchFunc(gaps, g, func(a, b gap) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	gaps = slices.Insert(gaps, at, g)
	return gaps[:min(len(gaps), mostGaps)]
}

// time returns when a tick begins.
func (a *Audit) time(tick int64) jsontime.Time { return a.timeOf(tick << a.timeShift) }

func (a *Audit) timeOf(id int64) jsontime.Time {
	return jsontime.Time{Time: a.o.Layout.Decode(snowflake.ID(id)).Time}
}

// mostInterleaved is how often a tick may go on with an earlier run without a note.
const mostInterleaved = 10

// TakesTurns reports whether two runs of sequence numbers often take turns within
// a tick. This happens if two processes share the worker ID, but also if the callers
// of one process write batches line by line, or if the list is not sorted.
func (g Generator) TakesTurns() bool { return g.Interleaved >= mostInterleaved }

// generators puts the counts into the report, sorted by the fields.
func (a *Audit) generators() {
	l := a.o.Layout
	a.report.Others = a.others.count
	seconds := (time.Duration(a.ticksPerSecond()) * l.Unit).Seconds() // the span in which rates are counted: 1 unless ticks are long or do not divide a second
	for _, g := range a.gens {
		p := l.Decode(snowflake.ID(g.first))
		w := Generator{ClockSeq: p.ClockSeq, Datacenter: p.Datacenter, Worker: p.Worker,
			IDs: g.count, First: a.timeOf(g.first), Last: a.time(g.last >> a.timeShift), PerSecond: float64(g.perSecond) / seconds,
			Ticks: g.ticks, Spent: g.spent, StepsBack: g.steps, Duplicates: g.duplicates, Interleaved: g.interleaved}
		if g.back > 0 {
			w.Back = a.duration(g.back)
		}
		if g.gap > 1 {
			w.Gap = a.duration(g.gap)
		}
		first, last := a.holder(snowflake.ID(g.first)), a.holder(snowflake.ID(g.last))
		if w.Holder = first; last != first {
			w.Holder += " ... " + last
		}
		a.report.Workers = append(a.report.Workers, w)
	}
	slices.SortFunc(a.report.Workers, func(a, b Generator) int {
		return cmp.Or(cmp.Compare(a.Datacenter, b.Datacenter), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.ClockSeq, b.ClockSeq))
	})
}

// duration returns the duration of a number of ticks.
func (a *Audit) duration(ticks int64) string {
	d := a.time(ticks).Sub(a.time(0).Time)
	if d >= 24*time.Hour {
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	}
	return d.String()
}

// lowBits counts how evenly IDs would spread over 2 to 64 shards.
func (a *Audit) lowBits() {
	if a.report.IDs == 0 {
		return
	}
	for bits := 1; bits <= 6; bits++ {
		counts := make([]int64, 1<<bits)
		for v, n := range a.low {
			counts[v&(1<<bits-1)] += n
		}
		fullest := 0
		for v, n := range counts {
			if n > counts[fullest] {
				fullest = v
			}
		}
		a.report.LowBits = append(a.report.LowBits,
			LowBits{1 << bits, fullest, float64(counts[fullest]) / float64(a.report.IDs)})
	}
}

// Uneven reports whether the fullest shard gets twice its share, and there are
// enough IDs that this is not chance.
func (b LowBits) Uneven(ids int64) bool {
	return ids >= 1000 && b.Share >= min(2/float64(b.Shards), 0.9)
}

// verdict writes the texts of Wrong and Notes.
func (a *Audit) verdict() {
	r := &a.report
	r.Wrong = []string{}
	wrong := func(n int64, one, many string) {
		if n == 1 {
			r.Wrong = append(r.Wrong, "1 "+one)
		} else if n > 1 {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%d %s", n, many))
		}
	}
	wrong(r.Duplicates, "ID comes more than once", "IDs come more than once")
	wrong(r.Strangers.Count, "ID is not of the layout", "IDs are not of the layout")
	wrong(r.Future.Count, "ID is from the future", "IDs are from the future")
	wrong(r.BeforeEpoch.Count, "number is negative, which is before the epoch", "numbers are negative, which is before the epoch")
	wrong(r.Unreadable.Count, "line is not an ID", "lines are not IDs")
	wrong(r.FarBack.Count, "ID is more than a second older than the ID before of its worker", "IDs are more than a second older than the ID before of their worker")
	r.Notes = []string{}
	if r.FarBack.Count > 0 {
		r.Notes = append(r.Notes, "an ID that is older than the ID before is wrong only if the list is in the order in which the IDs were issued")
	}
	if r.Others > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d IDs are of further workers than the first %d, and were not compared with the ID before", r.Others, mostGenerators))
	}
	var turns int64
	for _, w := range r.Workers {
		if w.TakesTurns() {
			turns++
		}
	}
	if turns > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of the worker IDs: runs of sequence numbers take turns within a tick. "+
			"The list may not be sorted, one process may write several batches at once, or two processes may share the worker ID", turns))
	}
}
