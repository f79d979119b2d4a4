package layouts

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/times"
)

// The frequency of questions about numbers of each kind, in the unit of Known.frequency.
const (
	commonNone  = 60  // numbers without a time
	commonOther = 40  // IDs of layouts whose division of the bits is not in the table
	commonAll   = 400 // all numbers

	// IDs of a shape with an epoch that is not in the table, relative to IDs of that shape with a
	// known epoch. commonFixed is for shapes without worker or sequence bits, or with a random
	// sequence, whose epoch is rarely chosen by users.
	commonShape = 0.5
	commonFixed = 0.05
)

const (
	day     = 24 * time.Hour
	justNow = 10 * time.Minute
	aged    = 20 * 365 * day // the age of the oldest IDs, as a rule
	recent  = 6 * 365 * day  // the mean age of the IDs that people ask about
)

// prior returns the logarithm of the frequency of a layout, times the probability of the tick of
// its last ID.
func (k *Known) prior(last, now time.Time) float64 {
	age := now.Sub(last).Seconds()
	density := 0.6 / recent.Seconds() * math.Exp(-max(age, 0)/recent.Seconds()) // most questions are about IDs of any age
	switch {
	case age < 0:
		density = 0.01 / day.Seconds()
	case age < justNow.Seconds(): // some are about an ID that was made for the question
		density += 0.1 / justNow.Seconds()
	case age < day.Seconds():
		density += 0.005 / day.Seconds()
	}
	return math.Log(k.frequency) + math.Log(density*k.Layout.Unit.Seconds())
}

// shape returns a layout without its own epoch.
func (k *Known) shape() Known {
	l := k.Layout
	l.Epoch = snowflake.UnixEpoch
	return Known{Layout: l, since: snowflake.UnixEpoch.Time(), random: k.random, countsOn: k.countsOn, anyWorker: k.anyWorker}
}

// shapes returns the shapes of the table, each with its frequency under all known epochs.
var shapes = sync.OnceValue(func() (all []Known) {
	for _, k := range table {
		s := k.shape()
		same := func(o Known) bool {
			return o.Layout == s.Layout && o.random == s.random && o.countsOn == s.countsOn
		}
		if i := slices.IndexFunc(all, same); i < 0 {
			s.frequency = k.frequency
			all = append(all, s)
		} else {
			all[i].frequency += k.frequency
		}
	}
	return all
})

// judgeShape returns the logarithm of the probability that the IDs have a shape with an epoch that
// is not in the table.
func (k *Known) judgeShape(ids []snowflake.ID, now time.Time, scale float64) float64 {
	// With any epoch, the time of the IDs' median is before now.
	o := *k
	elapsed := o.Layout.Decode(ids[len(ids)/2]).Time.Sub(snowflake.UnixEpoch.Time())
	if elapsed > now.Sub(snowflake.UnixEpoch.Time()) {
		return math.Inf(-1)
	}
	o.Layout.Epoch = snowflake.EpochAt(now.Add(-elapsed).Truncate(time.Millisecond))
	e := o.evidence(ids, now.Add(aged))
	if 2*e.refused > len(ids) {
		return math.Inf(-1)
	}
	common := commonShape * k.frequency
	if l := k.Layout; k.random || l.SequenceBits == 0 || l.WorkerBits == 0 {
		common = commonFixed * k.frequency
	}
	density := 0.6 / aged.Seconds()
	if elapsed > aged {
		density /= 4
	}
	return e.total(scale, false) + math.Log(common) + math.Log(density*k.Layout.Unit.Seconds())
}

// otherShapes are layouts that are not in the table, by their bits below the time. Their time may
// have any unit.
var otherShapes = sync.OnceValue(func() (all []Known) {
	for bits := uint8(8); bits <= 24; bits++ {
		for _, sequence := range []uint8{0, 8, 12} {
			if sequence <= bits {
				k := Known{Layout: timestamps(time.Nanosecond, maxBits-bits)}
				k.Layout.WorkerBits, k.Layout.SequenceBits = bits-sequence, sequence
				all = append(all, k)
			}
		}
	}
	return all
})

// judgeOther returns the logarithm of the probability that the IDs have the layout k, which is one
// of so many other layouts.
func (k *Known) judgeOther(ids []snowflake.ID, scale float64, of int) float64 {
	e := k.evidence(ids, time.Unix(1<<40, 0))
	first := math.Log((float64(e.first.UnixNano()) + 1) * float64(k.Layout.TimeBits) * math.Ln2)
	return e.total(scale, false) - first + math.Log(commonOther/float64(of))
}

// noneOf returns the logarithm of the probability of sorted IDs that have no time: numbers of any
// size that grow by steps of any size.
func noneOf(ids []snowflake.ID, scale float64) float64 {
	log, before := 0.0, snowflake.ID(0)
	for i, id := range ids {
		step := -math.Log(float64(id-before)*maxBits*math.Ln2 + 1)
		if before = id; i == 0 {
			// The numbers may also be random.
			step = math.Log(0.5*math.Exp(step) + 0.5*math.Exp(-maxBits*math.Ln2))
		}
		log += step
	}
	return math.Log(commonNone) + log*scale
}

// fits reports whether an ID can be of the layout.
func (k *Known) fits(id snowflake.ID, now time.Time) bool {
	t := k.Layout.Decode(id).Time
	return k.Layout.Check(id) == nil && !t.Before(k.earliest()) && !t.After(now.Add(tolerance))
}

// refuse returns the reason why an ID does not fit the layout.
func (k *Known) refuse(id snowflake.ID) string {
	switch t := k.Layout.Decode(id).Time; {
	case k.Layout.Check(id) != nil:
		return "it has more bits than the layout"
	case t.Before(k.earliest()):
		return fmt.Sprintf("its time, %s, is before there were such IDs", date(t))
	default:
		return fmt.Sprintf("its time, %s, lies in the future", date(t))
	}
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// evidence has counts of IDs under the assumption that they have one layout. A run is the IDs of
// one generator in one tick. If the sequence numbers of a run have no gaps, it is one observation,
// because otherwise a burst would outweigh everything else.
type evidence struct {
	*Known
	log         float64 // the logarithm of the probability of the runs
	newFields   float64 // the same of the numbers of generators
	newStarts   float64 // the same of the numbers with which runs begin, each once
	runs        int
	ticks       int
	first       time.Time
	last        snowflake.Parts
	before      map[fields]issued // the last ID of each generator
	starts      map[int]int       // the number of runs that begin with each sequence number
	maxSequence int
	step        time.Duration // the greatest common divisor of the times between ticks
	refused     int           // IDs that cannot be of the layout
	reason      string        // the reason for the first of them
}

// fields name a generator.
type fields struct{ clockSeq, datacenter, worker int }

// issued is the last ID of a generator, and the number of its runs.
type issued struct {
	snowflake.Parts
	runs int
}

// enough is the number of IDs, and of new numbers, that count in full. If there are more, their
// mean counts so many times.
const enough = 20

// optional is the share of fleets that use a layout in one of its [Known.otherUses].
const optional = 0.05

// maxBits is the number of bits of an ID.
const maxBits = 63

// evidence counts IDs, which are sorted.
func (k *Known) evidence(ids []snowflake.ID, now time.Time) *evidence {
	if k.NodeFirst {
		ids = timeFirst(k.Layout, ids)
	}
	e := &evidence{Known: k, before: map[fields]issued{}, starts: map[int]int{}}
	for _, id := range ids {
		if k.fits(id, now) {
			e.add(k.Layout.Decode(id))
			continue
		}
		// One in a hundred numbers is random and not an ID.
		e.log += math.Log(0.01) - maxBits*math.Ln2
		if e.refused++; e.refused == 1 {
			e.reason = k.refuse(id)
		}
	}
	return e
}

// timeFirst returns IDs that have the worker above the time in the order of the layout's fields,
// sorted.
func timeFirst(l snowflake.Layout, ids []snowflake.ID) (sorted []snowflake.ID) {
	rest := l.TimeBits + l.SequenceBits
	for _, id := range ids {
		low := id & (1<<rest - 1)
		sorted = append(sorted, low>>l.SequenceBits<<(l.WorkerBits+l.SequenceBits)|id>>rest<<l.SequenceBits|low&(1<<l.SequenceBits-1))
	}
	slices.Sort(sorted)
	return sorted
}

// judge returns the fit of sorted IDs to the layout.
func (k *Known) judge(ids []snowflake.ID, now time.Time, scale float64) Match {
	e := k.evidence(ids, now)
	if 2*e.refused > len(ids) || len(ids) == 0 {
		reason := e.reason
		switch {
		case len(ids) == 0:
			reason = "there are no IDs"
		case len(ids) > 1:
			reason = fmt.Sprintf("%d of %d: %s", e.refused, len(ids), reason)
		}
		return Match{Known: *k, Not: reason, log: math.Inf(-1)}
	}
	m := Match{Known: *k, First: e.first, Last: e.last.Time, Grid: e.grid(), Why: e.why(len(ids), now)}
	if m.Grid > 0 {
		m.Why = append(m.Why, fmt.Sprintf("all times are multiples of %v", m.Grid))
	}
	if e.refused > 0 {
		m.Why = append(m.Why, fmt.Sprintf("but %d of %d IDs are not of it", e.refused, len(ids)))
	}
	logs := []float64{e.total(scale, true)}
	for _, use := range k.otherUses {
		k := *k
		k.use = use
		logs = append(logs, k.evidence(ids, now).total(scale, true)+math.Log(optional))
	}
	m.log = sumOf(logs) + k.prior(m.Last, now)
	return m
}

// total returns the logarithm of the probability of all IDs, without the time of the last. A coarse
// clock shows in the times if the epoch is known, and otherwise in the time between them.
func (e *evidence) total(scale float64, known bool) float64 {
	root := math.Sqrt(scale)
	log := e.log*scale + e.newStarts*root + e.newFields*min(root, enough/float64(max(len(e.before), 1)))
	if len(e.starts) > 0 && e.starts[0] == 0 && !e.countsOn && e.runs >= 5 {
		log += math.Log(0.1) // in few systems no run begins with 0
	}
	if !e.coarse() {
		return log
	}
	steps := float64(e.step / e.Layout.Unit)
	gain := float64(e.ticks-1) * scale * math.Log(steps)
	if known && !e.aligned() {
		return log
	}
	if known {
		gain += math.Log(steps)
	}
	likely := 0.001 / steps
	switch e.step {
	case time.Microsecond, time.Millisecond, time.Second, time.Minute, time.Hour, day:
		likely = 0.02
	}
	return sumOf([]float64{log, log + gain + math.Log(likely)})
}

// coarse reports whether the times between ticks may be those of a coarse clock. No clock ticks in
// powers of 2 of a unit, but fields that are 0 look like that, if they are read as a part of the
// time.
func (e *evidence) coarse() bool {
	steps := e.step / e.Layout.Unit
	return e.ticks >= 3 && steps > 1 && steps&(steps-1) != 0
}

// aligned reports whether all times are multiples of e.step.
func (e *evidence) aligned() bool { return e.first.UnixNano()%int64(e.step) == 0 }

// grid returns the time of which all times are multiples, or 0 if there is none.
func (e *evidence) grid() time.Duration {
	if !e.coarse() || e.step < 10*e.Layout.Unit || !e.aligned() {
		return 0
	}
	return e.step
}

// add counts an ID.
func (e *evidence) add(p snowflake.Parts) {
	g := fields{p.ClockSeq, p.Datacenter, p.Worker}
	last := e.before[g]
	e.maxSequence = max(e.maxSequence, p.Sequence)
	switch {
	case last.runs == 0 || !last.Time.Equal(p.Time):
		e.log += e.time(p.Time) + e.generator(g, p, last.runs) + e.start(p.Sequence)
		e.runs++
		last.runs++
	case p.Sequence != last.Sequence+1:
		e.log += math.Log(0.1) - float64(e.Layout.SequenceBits)*math.Ln2
	}
	last.Parts = p
	e.before[g] = last
	e.last = p
}

// time returns the logarithm of the probability of a run's tick, given the previous run's, and 0
// for the first run.
func (e *evidence) time(t time.Time) float64 {
	if e.runs == 0 {
		e.first, e.ticks = t, 1
		return 0
	}
	if t.Equal(e.last.Time) {
		return math.Log(0.2)
	}
	e.ticks++
	between := t.Sub(e.last.Time)
	e.step = divisor(between, e.step)
	// The bound is the same for layouts of every age. If it were each layout's age, many IDs would
	// favour the youngest layout.
	unit := e.Layout.Unit.Seconds()
	delta := math.Round(between.Seconds() / unit)
	return math.Log(0.8 / (delta * (math.Log(aged.Seconds()/unit) + 1)))
}

// divisor returns the greatest common divisor.
func divisor(a, b time.Duration) time.Duration {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// generator returns the logarithm of the probability of a run's generator, which has had some runs:
// its share of the runs, where a new generator counts as one run. The probability of a new
// generator's numbers is in e.newFields.
func (e *evidence) generator(g fields, p snowflake.Parts, runs int) float64 {
	if e.use.largeFleet { // each run may be of any generator
		return -float64(e.division().node) * math.Ln2
	}
	if runs == 0 {
		ofSmall := 0.6
		if e.anyWorker {
			ofSmall = 0.1
		}
		l := e.Layout
		likely := mixed(g.clockSeq, l.ClockSeqBits, 0.9) * // few clocks step back
			mixed(g.datacenter, l.DatacenterBits, 0.5) * mixed(g.worker, l.WorkerBits, ofSmall)
		if e.likelihood != nil {
			likely = (1-e.share)*likely + e.share*e.likelihood(p, likely)
		}
		e.newFields += math.Log(likely)
	}
	return math.Log(float64(max(runs, 1)) / float64(e.runs+1))
}

// start returns the logarithm of the probability of the sequence number with which a run begins:
// its share of the runs, where a new number counts as one run. Most runs begin with 0, some with
// another small number, some with any. The probability of a new number is in e.newStarts.
func (e *evidence) start(sequence int) float64 {
	bits := e.Layout.SequenceBits
	switch {
	case bits == 0:
		return 0
	case e.use.lowerHalf:
		half := 1 << (bits - 1)
		p := 0.99
		if sequence >= half { // of a tick whose first IDs are not among these
			p = 0.01
		}
		return math.Log(p / float64(half))
	case e.random:
		return -float64(bits) * math.Ln2
	case e.countsOn && sequence == 0: // it does not count on, after all
		return e.learn(0, 10, 0.2)
	case e.countsOn: // since the process began
		p := 0.4 * mixed(sequence, bits, 0.6)
		if few := min(256, 1<<bits); sequence < few {
			p += 0.6 / float64(few)
		}
		return e.learn(1, 10, 0.8) + math.Log(p)
	case sequence == 0:
		return e.learn(sequence, 1, 0.6)
	}
	if e.starts[sequence] == 0 {
		e.newStarts += math.Log(0.4 * mixed(sequence-1, bits, 0.9))
	}
	return e.learn(sequence, 1, 1)
}

// learn returns the logarithm of the probability of a sequence number whose probability was p
// before the first ID. p has the weight of the given number of runs.
func (e *evidence) learn(sequence int, runs, p float64) float64 {
	n := e.starts[sequence]
	e.starts[sequence]++
	return math.Log((runs*p + float64(n)) / (runs + float64(e.runs)))
}

// mixed returns the probability of a field's value: with the probability ofSmall, small values are
// likelier; otherwise all values are equally likely.
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
	return []string{
		fmt.Sprintf("times from %s to %s", times.Text(e.first), times.Text(e.last.Time)),
		fmt.Sprintf("generators: %d", len(e.before)), fmt.Sprintf("ticks: %d", e.ticks), fmt.Sprintf("sequences up to %d", e.maxSequence),
	}
}

// ago describes an age.
func ago(d time.Duration) string {
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
