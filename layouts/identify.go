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
//	simulated, alone                  1920          1748                  1903
//	simulated, 20 together              96            93                    96
//	simulated, 1,000 together           72            70                    72
//
// So ask with twenty IDs if you can. The IDs are in testdata: published IDs with their sources, and
// IDs that one process, many workers, bursts and quiet fleets of each layout would issue. A single ID
// of Hazelcast from within a burst reads as well as an ID of CockroachDB or of Twitter: most of the
// 17 that are not among the first two are such.
func Identify(ids []snowflake.ID, now time.Time) []Match {
	ids = slices.Clone(ids[:min(len(ids), most)])
	slices.Sort(ids)
	ids = slices.Compact(ids)
	known := All()
	matches := make([]Match, len(known))
	logs := make([]float64, len(known)) // logarithms of probabilities, up to a factor
	for i, k := range known {
		matches[i], logs[i] = k.judge(ids, now)
	}
	groupTwins(matches, logs)
	// The IDs may also be random numbers.
	random := -float64(min(len(ids), enough)) * maxBits * math.Ln2
	best := random
	for i, m := range matches {
		if m.Not == "" {
			best = max(best, logs[i]+m.prior(now))
		}
	}
	sum := math.Exp(random - best)
	for i := range matches {
		if m := &matches[i]; m.Not == "" {
			m.Share = math.Exp(logs[i] + m.prior(now) - best)
			sum += m.Share
		}
	}
	for i := range matches {
		matches[i].Share /= sum
	}
	slices.SortStableFunc(matches, func(a, b Match) int { return cmp.Compare(b.Share, a.Share) })
	for i := range matches {
		matches[i].explainTwins(matches)
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

// mostOfNames bounds what the names of the fields can tell: twins differ by this factor at most.
const mostOfNames = 4

// twinsUpTo is by which factor the evidence for one twin may exceed the evidence for the other: a random
// sequence number tells a layout apart once there are some IDs.
const twinsUpTo = 1000

// groupTwins names each layout's twins. What tells twins apart is how common they are and
// their times. Whether a worker ID is small for one name and large for another is but a hint.
func groupTwins(matches []Match, logs []float64) {
	groups := map[division][]int{}
	for i, m := range matches {
		if m.Not == "" {
			groups[m.division()] = append(groups[m.division()], i)
		}
	}
	for _, group := range groups {
		first := slices.MaxFunc(group, func(i, j int) int { return cmp.Compare(logs[i], logs[j]) })
		best, random := logs[first], matches[first].random
		group = slices.DeleteFunc(group, func(i int) bool { return matches[i].random != random && logs[i] < best-math.Log(twinsUpTo) })
		for _, i := range group {
			logs[i] = max(logs[i], best-math.Log(mostOfNames))
		}
		for _, i := range group {
			for _, j := range group {
				if i != j {
					matches[i].Twins = append(matches[i].Twins, matches[j].Name)
				}
			}
		}
	}
}

// explainTwins adds to a match what tells it from its twins, if they are not very unlikely.
func (m *Match) explainTwins(all []Match) {
	var epochs, names []string
	for _, o := range all {
		switch {
		case o.Share < 0.01 || !slices.Contains(m.Twins, o.Name):
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
func (m *Match) prior(now time.Time) float64 {
	const day = 24 * 3600
	age := now.Sub(m.Last).Seconds()
	life := max(day, now.Sub(m.begin()).Seconds())
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
	return math.Log(m.common) + math.Log(density*m.Layout.Unit.Seconds())
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
	log         float64 // of the probability of the runs
	new         float64 // of the probability of the generators' numbers
	runs        int
	ticks       int
	refused     int
	first, last time.Time
	before      map[fields]issued // the last ID of each generator
	starts      map[int]int       // how many runs begin with a sequence number
	clockSeqs   map[int]bool
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

// judge says how well IDs, which are sorted, fit the layout. The second result is the logarithm of their
// probability, without what prior adds.
func (k *Known) judge(ids []snowflake.ID, now time.Time) (Match, float64) {
	e := evidence{before: map[fields]issued{}, starts: map[int]int{}, clockSeqs: map[int]bool{}}
	reason := ""
	for _, id := range ids {
		if r := k.refuse(id, now); r != "" {
			// One in a hundred is a random number instead of an ID.
			e.log += math.Log(0.01) - maxBits*math.Ln2
			e.refused++
			reason = cmp.Or(reason, r)
			continue
		}
		e.add(k, k.Layout.Decode(id))
	}
	switch {
	case len(ids) == 0:
		return Match{Known: *k, Not: "there are no IDs"}, 0
	case 2*e.refused > len(ids) && len(ids) > 1:
		return Match{Known: *k, Not: fmt.Sprintf("%d of %d: %s", e.refused, len(ids), reason)}, 0
	case 2*e.refused > len(ids):
		return Match{Known: *k, Not: reason}, 0
	}
	scale := min(1, enough/float64(len(ids)))
	log := e.log*scale + e.new*math.Sqrt(scale)
	return Match{Known: *k, First: e.first, Last: e.last, Why: k.why(&e, len(ids), now)}, log
}

// add counts an ID.
func (e *evidence) add(k *Known, p snowflake.Parts) {
	l := k.Layout
	g := fields{p.ClockSeq, p.Datacenter, p.Worker}
	last := e.before[g]
	e.maxSequence = max(e.maxSequence, p.Sequence)
	switch {
	case last.runs == 0 || !last.Time.Equal(p.Time):
		e.log += e.time(l.Unit, p.Time) + e.generator(k, g, last.runs) + e.start(k, p.Sequence)
		e.runs++
		last.runs++
	case p.Sequence != last.Sequence+1:
		e.log += math.Log(0.1) - float64(l.SequenceBits)*math.Ln2
	}
	last.Parts = p
	e.before[g] = last
	e.last = p.Time
}

// time returns the logarithm of the probability of a run's tick, after the tick of the run before. It
// leaves out the first tick.
func (e *evidence) time(unit time.Duration, t time.Time) float64 {
	if e.runs == 0 {
		e.first, e.ticks = t, 1
		return 0
	}
	if t.Equal(e.last) {
		return math.Log(0.2)
	}
	e.ticks++
	// The bound is the same for layouts of every age. If it were each layout's age,
	// many IDs would favour the youngest layout.
	const longest = 20 * 365 * 24 * 3600
	delta := math.Round(t.Sub(e.last).Seconds() / unit.Seconds())
	return math.Log(0.8 / (delta * (math.Log(longest/unit.Seconds()) + 1)))
}

// generator returns the logarithm of the probability that a run is of its generator. The probability of
// a new generator's numbers is in e.new.
func (e *evidence) generator(k *Known, g fields, runs int) float64 {
	if runs > 0 {
		return math.Log(again(runs, e.runs))
	}
	l := k.Layout
	// Few clocks step back: a clock sequence costs something when it first comes.
	if !e.clockSeqs[g.clockSeq] {
		e.clockSeqs[g.clockSeq] = true
		e.new += math.Log(mixed(g.clockSeq, l.ClockSeqBits, 0.9))
	}
	ofSmall := 0.6
	switch {
	case k.random && l.SequenceBits == 0:
		ofSmall = 0
	case k.anyWorker:
		ofSmall = 0.1
	}
	e.new += math.Log(mixed(g.datacenter, l.DatacenterBits, 0.5)) + math.Log(mixed(g.worker, l.WorkerBits, ofSmall))
	return math.Log(another(len(e.before), e.runs))
}

// start returns the logarithm of the probability of the sequence number with which a run begins. It learns from the
// runs before: most begin with 0, some with another number, some with any.
func (e *evidence) start(k *Known, sequence int) float64 {
	bits := k.Layout.SequenceBits
	switch {
	case bits == 0:
		return 0
	case k.random:
		return -float64(bits) * math.Ln2
	case k.countsOn:
		return math.Log(mixed(sequence, bits, 0.6))
	}
	p := 0.6
	if sequence > 0 {
		p = 0.4 * mixed(sequence-1, bits, 0.6)
	}
	p *= another(len(e.starts), e.runs)
	if n := e.starts[sequence]; n > 0 {
		p += again(n, e.runs)
	}
	e.starts[sequence]++
	return math.Log(p)
}

// again is the probability that the value after all values has come n times before, and another that it is new. It is a
// Pitman-Yor process: the more different values came, the likelier is a new value.
func again(n, all int) float64        { return (float64(n) - 0.5) / float64(all+1) }
func another(values, all int) float64 { return (1 + 0.5*float64(values)) / float64(all+1) }

// mixed returns the probability of a field's value: with the probability ofSmall, small values are likelier;
// else each value is as likely.
func mixed(v int, bits uint8, ofSmall float64) float64 {
	if bits == 0 {
		return 1
	}
	size := math.Ldexp(1, int(bits))
	return ofSmall/((float64(v)+1)*(math.Log(size)+0.6)) + (1-ofSmall)/size
}

// why puts the evidence in words.
func (k *Known) why(e *evidence, n int, now time.Time) []string {
	if n == 1 {
		why := []string{fmt.Sprintf("its time is %s, %s", e.first.UTC().Format("2006-01-02T15:04:05.000Z"), ago(now.Sub(e.first)))}
		for g := range e.before {
			if k.Layout.ClockSeqBits > 0 {
				why = append(why, fmt.Sprintf("clock sequence %d", g.clockSeq))
			}
			if k.Layout.DatacenterBits > 0 {
				why = append(why, fmt.Sprintf("datacenter %d", g.datacenter))
			}
			if k.Layout.WorkerBits > 0 {
				why = append(why, fmt.Sprintf("worker %d", g.worker))
			}
		}
		if k.Layout.SequenceBits > 0 {
			why = append(why, fmt.Sprintf("sequence %d", e.maxSequence))
		}
		return why
	}
	why := []string{
		fmt.Sprintf("times from %s to %s", e.first.UTC().Format("2006-01-02T15:04:05.000Z"), e.last.UTC().Format("2006-01-02T15:04:05.000Z")),
	}
	if k.Layout.ClockSeqBits+k.Layout.DatacenterBits+k.Layout.WorkerBits > 0 {
		why = append(why, count(len(e.before), "generator"))
	}
	why = append(why, count(e.ticks, "tick"))
	if k.Layout.SequenceBits > 0 {
		why = append(why, fmt.Sprintf("sequences up to %d", e.maxSequence))
	}
	if e.refused > 0 {
		why = append(why, fmt.Sprintf("but %d of %d IDs are not of it", e.refused, n))
	}
	return why
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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
		return count(int(d/day), "day") + " ago"
	}
	return fmt.Sprintf("%.1f years ago", d.Hours()/24/365.25)
}
