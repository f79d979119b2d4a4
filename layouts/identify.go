package layouts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Match says how well IDs fit a known layout.
type Match struct {
	Known
	Share       float64   // the probability of this layout, 0 to 1: against the other layouts of the table, and random numbers
	First, Last time.Time // the times of the first and the last ID, if they have this layout
	Why         []string  // the evidence for the layout, for people to read

	// Twins are the names of the other layouts that the IDs may have and that divide an ID
	// in the same way. Only the epoch, or the names of the fields, tell them apart. So if
	// nothing is known of the IDs but the IDs, each of the twins remains possible.
	Twins []string

	// Not says why the layout is ruled out. Then Share is 0, and First, Last, Why and Twins are empty.
	Not string

	log float64 // of the probability, up to a factor
}

// tolerance is how far ahead of now an ID's time may lie.
const tolerance = 24 * time.Hour

// most is how many IDs Identify looks at. More IDs would not change the answer.
const most = 10_000

// Identify returns all known layouts, the most likely layout of the IDs first. All IDs
// should have one layout; a few strangers among them do no harm. If there are more than
// 10,000 IDs, it looks at the first 10,000.
//
// A layout is ruled out if more than half of the IDs do not fit: they have too many bits,
// or a time before there were such IDs, or a time more than a day after now. The
// others are compared by how common each is, and by how likely its generators issue
// exactly these IDs: recent times, few and small worker IDs, and sequences that begin
// with 0 in each tick are likely. Many layouts differ in nothing but the epoch or the names of the
// fields, such as Twitter's and Discord's: such layouts are twins, and each names the others.
//
// How often it is right, if twins count as one guess:
//
//	IDs                           how many   right first   among the first two
//	published, alone                    66            61                    66
//	simulated, alone                  1920          1758                  1903
//	simulated, 20 together              96            95                    96
//	simulated, 1,000 together           72            70                    72
//
// So ask with twenty IDs if you can. The published IDs are in testdata, with their sources. The simulated IDs are
// such as one process, many workers, bursts and quiet fleets of each layout would issue. A single ID
// of Hazelcast from within a burst reads as well as an ID of CockroachDB or of Twitter: most of the
// 17 that are not among the first two are such.
func Identify(ids []snowflake.ID, now time.Time) []Match {
	ids = slices.Clone(ids[:min(len(ids), most)])
	slices.Sort(ids)
	ids = slices.Compact(ids)
	// The IDs may also be random numbers.
	random := -float64(min(len(ids), enough)) * maxBits * math.Ln2
	best := random
	var matches []Match
	for _, k := range All() {
		m := k.judge(ids, now)
		best = max(best, m.log)
		matches = append(matches, m)
	}
	sum := math.Exp(random - best)
	for i := range matches {
		matches[i].Share = math.Exp(matches[i].log - best)
		sum += matches[i].Share
	}
	for i := range matches {
		matches[i].Share /= sum
	}
	slices.SortStableFunc(matches, func(a, b Match) int { return cmp.Compare(b.Share, a.Share) })
	for i := range matches {
		matches[i].findTwins(matches)
	}
	return matches
}

// division is how a layout divides an ID: all but the epoch and the names of the fields.
type division struct {
	unit           time.Duration
	node, sequence uint8 // bits
	workerLast     bool
}

func (k *Known) division() division {
	l := k.Layout
	return division{l.Unit, l.ClockSeqBits + l.DatacenterBits + l.WorkerBits, l.SequenceBits, l.WorkerLast}
}

// impossible is the share of a layout that is not named as a twin: for example, sequences that count up from 0 are not
// of a layout with random sequences.
const impossible = 1e-12

// findTwins names a match's twins, and adds to it what tells it from the twins that are not very unlikely.
func (m *Match) findTwins(all []Match) {
	var epochs, names []string
	for _, o := range all {
		if m.Not != "" || o.Share < impossible || o.Name == m.Name || o.division() != m.division() {
			continue
		}
		m.Twins = append(m.Twins, o.Name)
		switch {
		case o.Share < 0.01:
		case o.Layout.Epoch == m.Layout.Epoch:
			names = append(names, o.Name)
		default:
			epochs = append(epochs, fmt.Sprintf("%s (%s)", o.Name, date(o.Last)))
		}
	}
	if len(epochs) > 0 {
		m.Why = append(m.Why, "only the epoch tells it from "+strings.Join(epochs, ", "))
	}
	if len(names) > 0 {
		m.Why = append(m.Why, "only the names of the fields tell it from "+strings.Join(names, ", "))
	}
}

// prior returns the logarithm of how likely the layout and the time of the last ID are, before
// anything else is known of the IDs.
func (k *Known) prior(last, now time.Time) float64 {
	const day = 24 * 3600
	age := now.Sub(last).Seconds()
	life := max(day, now.Sub(k.begin()).Seconds())
	density := 0.6 / life // most questions are about an ID of any age
	if age < 0 {
		density = 0.01 / day
	} else {
		if age < day {
			density += 0.3 / day
		}
		if age < 30*day {
			density += 0.1 / (30 * day)
		}
	}
	return math.Log(k.common) + math.Log(density*k.Layout.Unit.Seconds())
}

// refuse says why an ID cannot be of the layout. It returns "" if it can.
func (k *Known) refuse(id snowflake.ID, now time.Time) string {
	if k.Layout.Check(id) != nil {
		return "it has more bits than the layout"
	}
	switch t := k.Layout.Decode(id).Time; {
	case t.Before(k.begin()):
		return fmt.Sprintf("its time, %s, is before there were such IDs", date(t))
	case t.After(now.Add(tolerance)):
		return fmt.Sprintf("its time, %s, lies in the future", date(t))
	}
	return ""
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// evidence is what is counted of IDs if they are of one layout. A run is the IDs of one
// generator in one tick. However many IDs it has, it is one observation if their sequence numbers
// have no gaps: otherwise, a burst would outweigh all else.
type evidence struct {
	*Known
	log         float64 // of the probability of the runs
	new         float64 // of the probability of the generators' numbers
	runs        int
	ticks       int
	first       time.Time
	last        snowflake.Parts
	before      map[fields]issued // the last ID of each generator
	starts      map[int]int       // how many runs begin with a sequence number
	maxSequence int
}

// fields name a generator.
type fields struct{ clockSeq, datacenter, worker int }

// issued is the last ID of a generator, and how many runs it has.
type issued struct {
	snowflake.Parts
	runs int
}

// enough is how many IDs, and how many generators, count in full. If there are more, their mean counts as often.
const enough = 20

// maxBits is the number of bits of an ID.
const maxBits = 63

// judge says how well IDs, which are sorted, fit the layout.
func (k *Known) judge(ids []snowflake.ID, now time.Time) Match {
	e := evidence{Known: k, before: map[fields]issued{}, starts: map[int]int{}}
	refused, reason := 0, "there are no IDs"
	for _, id := range ids {
		if r := k.refuse(id, now); r != "" {
			// One in a hundred is a random number instead of an ID.
			e.log += math.Log(0.01) - maxBits*math.Ln2
			if refused++; refused == 1 {
				reason = r
			}
		} else {
			e.add(k.Layout.Decode(id))
		}
	}
	if 2*refused > len(ids) && len(ids) > 1 {
		reason = fmt.Sprintf("%d of %d: %s", refused, len(ids), reason)
	}
	if 2*refused > len(ids) || len(ids) == 0 {
		return Match{Known: *k, Not: reason, log: math.Inf(-1)}
	}
	m := Match{Known: *k, First: e.first, Last: e.last.Time, Why: e.why(len(ids), now)}
	if refused > 0 {
		m.Why = append(m.Why, fmt.Sprintf("but %d of %d IDs are not of it", refused, len(ids)))
	}
	scale := min(1, enough/float64(len(ids)))
	m.log = e.log*scale + e.new*math.Sqrt(scale) + k.prior(m.Last, now)
	return m
}

// add counts an ID.
func (e *evidence) add(p snowflake.Parts) {
	g := fields{p.ClockSeq, p.Datacenter, p.Worker}
	last := e.before[g]
	e.maxSequence = max(e.maxSequence, p.Sequence)
	switch {
	case last.runs == 0 || !last.Time.Equal(p.Time):
		e.log += e.time(p.Time) + e.generator(g, last.runs) + e.start(p.Sequence)
		e.runs++
		last.runs++
	case p.Sequence != last.Sequence+1:
		e.log += math.Log(0.1) - float64(e.Layout.SequenceBits)*math.Ln2
	}
	last.Parts = p
	e.before[g] = last
	e.last = p
}

// time returns the logarithm of the probability of a run's tick, after the tick of the run before. It
// leaves out the first tick.
func (e *evidence) time(t time.Time) float64 {
	if e.runs == 0 {
		e.first, e.ticks = t, 1
		return 0
	}
	if t.Equal(e.last.Time) {
		return math.Log(0.2)
	}
	e.ticks++
	// The bound is the same for layouts of every age. If it were each layout's age,
	// many IDs would favour the youngest layout.
	const longest = 20 * 365 * 24 * 3600
	unit := e.Layout.Unit.Seconds()
	delta := math.Round(t.Sub(e.last.Time).Seconds() / unit)
	return math.Log(0.8 / (delta * (math.Log(longest/unit) + 1)))
}

// generator returns the logarithm of the probability that a run is of its generator, which has had some runs: as often as
// before, and once of a new generator. The probability of a new generator's numbers is in e.new.
func (e *evidence) generator(g fields, runs int) float64 {
	if runs == 0 {
		ofSmall := 0.6
		if e.anyWorker {
			ofSmall = 0.1
		}
		l := e.Layout
		e.new += math.Log(mixed(g.clockSeq, l.ClockSeqBits, 0.9)) + // few clocks step back
			math.Log(mixed(g.datacenter, l.DatacenterBits, 0.5)) + math.Log(mixed(g.worker, l.WorkerBits, ofSmall))
	}
	return math.Log(float64(max(runs, 1)) / float64(e.runs+1))
}

// start returns the logarithm of the probability of the sequence number with which a run begins: as often as before, and
// once as no run begins yet. Most runs begin with 0, some with another small number, some with any.
func (e *evidence) start(sequence int) float64 {
	bits := e.Layout.SequenceBits
	switch {
	case bits == 0:
		return 0
	case e.random:
		return -float64(bits) * math.Ln2
	case e.countsOn:
		return math.Log(mixed(sequence, bits, 0.6))
	}
	p := 0.6
	if sequence > 0 {
		p = 0.4 * mixed(sequence-1, bits, 0.6)
	}
	n := e.starts[sequence]
	e.starts[sequence]++
	return math.Log((p + float64(n)) / float64(e.runs+1))
}

// mixed returns the probability of a field's value: with the probability ofSmall, small values are likelier;
// else each value is as likely.
func mixed(v int, bits uint8, ofSmall float64) float64 {
	if bits == 0 {
		return 1
	}
	size := math.Ldexp(1, int(bits))
	return ofSmall/((float64(v)+1)*(math.Log(size)+0.6)) + (1-ofSmall)/size
}

// why puts the evidence of n IDs in words.
func (e *evidence) why(n int, now time.Time) []string {
	if n == 1 {
		return []string{e.last.String(), ago(now.Sub(e.last.Time))}
	}
	const moment = "2006-01-02T15:04:05.000Z"
	return []string{
		fmt.Sprintf("times from %s to %s", e.first.UTC().Format(moment), e.last.Time.UTC().Format(moment)),
		fmt.Sprintf("generators: %d", len(e.before)), fmt.Sprintf("ticks: %d", e.ticks), fmt.Sprintf("sequences up to %d", e.maxSequence),
	}
}

// ago says how long ago something was.
func ago(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "just ahead of now"
	case d < 2*day:
		return "in the last two days"
	case d < 365*day:
		return fmt.Sprintf("%d days ago", d/day)
	}
	return fmt.Sprintf("%.1f years ago", d.Hours()/24/365.25)
}
