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
	Share float64  `json:"share"`         // the probability of this layout, 0 to 1: against the other layouts of the table, and random numbers
	Why   []string `json:"why,omitempty"` // the evidence for the layout

	// Not says why the layout is ruled out; then Share is 0.
	Not string `json:"not,omitempty"`
}

// Tolerance is how far ahead of now an ID's time may lie.
const Tolerance = 24 * time.Hour

// most is how many IDs Rank looks at. More IDs would not change the answer.
const most = 10_000

// Rank returns all known layouts, the most likely layout of the IDs first.
//
// The measure is the probability that a generator of the layout issues exactly
// these IDs. It is higher if times are recent and near each other, if worker IDs
// are few and small, and if sequences count up from 0 in each tick. So a layout
// loses if its fields have unusual values and another layout explains them.
func Rank(ids []snowflake.ID, now time.Time) []Match {
	ids = slices.Clone(ids[:min(len(ids), most)])
	slices.Sort(ids)
	ids = slices.Compact(ids)
	matches := make([]Match, len(table))
	logs := make([]float64, len(table))
	best := math.Inf(-1)
	for i, k := range table {
		matches[i].Known = k
		logs[i], matches[i].Why, matches[i].Not = k.judge(ids, now)
		if matches[i].Not == "" {
			best = max(best, logs[i])
		}
	}
	// The IDs may also be random numbers.
	random := -float64(len(ids)) * maxBits * math.Ln2
	best = max(best, random)
	sum := math.Exp(random - best)
	for i := range matches {
		if matches[i].Not == "" {
			matches[i].Share = math.Exp(logs[i] - best)
			sum += matches[i].Share
		}
	}
	for i := range matches {
		matches[i].Share /= sum
	}
	twins(matches)
	slices.SortStableFunc(matches, func(a, b Match) int { return cmp.Compare(b.Share, a.Share) })
	return matches
}

// mostOfTwins bounds the share of a layout if other layouts differ from it in the
// epoch only: it gets at most this part of the sum of their shares.
const mostOfTwins = 0.8

// twins caps the share of a layout if other layouts differ from it in the epoch
// only, and names these layouts. Only the time tells such layouts apart, and the age
// of IDs is no more than a hint.
func twins(matches []Match) {
	type rest struct { // all but the epoch
		snowflake.Layout
		random bool
	}
	groups := map[rest][]int{}
	for i, m := range matches {
		if m.Not == "" {
			m.Layout.Epoch = 0
			key := rest{m.Layout, m.Random}
			groups[key] = append(groups[key], i)
		}
	}
	for _, group := range groups {
		if len(group) < 2 {
			continue
		}
		sum, best := 0.0, group[0]
		for _, i := range group {
			sum += matches[i].Share
			if matches[i].Share > matches[best].Share {
				best = i
			}
		}
		if excess := matches[best].Share - mostOfTwins*sum; excess > 0 {
			matches[best].Share -= excess
			share(matches, group, best, excess)
		}
		for _, i := range group {
			var names []string
			for _, j := range group {
				if j != i {
					names = append(names, matches[j].Name)
				}
			}
			matches[i].Why = append(matches[i].Why, "only the epoch tells it from "+strings.Join(names, ", "))
		}
	}
}

// share divides an excess among the others of a group, by how common each is.
func share(matches []Match, group []int, best int, excess float64) {
	weights := 0.0
	for _, i := range group {
		if i != best {
			weights += matches[i].Weight()
		}
	}
	for _, i := range group {
		if i != best {
			matches[i].Share += excess * matches[i].Weight() / weights
		}
	}
}

// Refuse says why an ID cannot be of the layout. It returns "" if it can.
func (k *Known) Refuse(id snowflake.ID, now time.Time) string {
	if k.Layout.Check(id) != nil {
		return "it has more bits than the layout"
	}
	switch t := k.Layout.Decode(id).Time; {
	case t.Before(k.since()):
		return fmt.Sprintf("its time, %s, is before there were such IDs", date(t))
	case t.After(now.Add(Tolerance)):
		return fmt.Sprintf("its time, %s, lies in the future", date(t))
	}
	return ""
}

func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// evidence is what is counted of IDs if they are of one layout.
type evidence struct {
	refused, counted, ticks int
	first, last             time.Time
	workers                 map[fields]int
	clockSeqs               map[int]bool
	starts, zeros           int // ticks of a generator, and how many of them begin with sequence number 0
	maxSequence             int
}

// fields name a generator.
type fields struct{ clockSeq, datacenter, worker int }

// judge returns the logarithm of the probability of the IDs, which are sorted.
func (k *Known) judge(ids []snowflake.ID, now time.Time) (log float64, why []string, not string) {
	l := k.Layout
	log = math.Log(k.Weight())
	e := evidence{workers: map[fields]int{}, clockSeqs: map[int]bool{}}
	before := map[fields]snowflake.Parts{} // the last ID of each generator
	reason := ""
	for _, id := range ids {
		if r := k.Refuse(id, now); r != "" {
			// One in a hundred is a random number instead of an ID.
			log += math.Log(0.01) - maxBits*math.Ln2
			e.refused++
			if reason == "" {
				reason = r
			}
			continue
		}
		p := l.Decode(id)
		log += k.time(p.Time, &e, now)
		g := fields{p.ClockSeq, p.Datacenter, p.Worker}
		log += worker(l, g, &e, len(ids))
		log += k.sequence(p, before, g, &e)
		before[g] = p
		e.last, e.maxSequence = p.Time, max(e.maxSequence, p.Sequence)
	}
	if len(ids) == 0 {
		return log, nil, "there are no IDs"
	}
	if 2*e.refused > len(ids) {
		if len(ids) > 1 {
			reason = fmt.Sprintf("%d of %d: %s", e.refused, len(ids), reason)
		}
		return log, nil, reason
	}
	return log, k.why(&e, len(ids), now), ""
}

// maxBits is the number of bits of an ID.
const maxBits = 63

// time returns the logarithm of the probability of a time, given the times before.
func (k *Known) time(t time.Time, e *evidence, now time.Time) float64 {
	unit := k.Layout.Unit.Seconds()
	span := max(1, now.Sub(k.since()).Seconds())
	if e.last.IsZero() {
		e.first = t
		e.ticks++
		// Half of all questions are about an ID of the last year.
		const year = 365 * 24 * 3600
		age := max(0, now.Sub(t).Seconds())
		return math.Log(unit / ((age + year) * math.Log((span+year)/year)))
	}
	delta := math.Round(t.Sub(e.last).Seconds() / unit)
	if delta > 0 {
		e.ticks++
	}
	// The bound is the same for layouts of every age. If it were each layout's age,
	// many IDs would favour the youngest layout.
	const longest = 20 * 365 * 24 * 3600
	return -math.Log((delta + 1) * (math.Log(longest/unit+1) + 1))
}

// worker returns the logarithm of the probability of a generator. A generator that
// was seen before is likely.
func worker(l snowflake.Layout, g fields, e *evidence, n int) float64 {
	seen, all := e.workers[g], e.counted
	e.workers[g]++
	e.counted++
	if seen > 0 {
		return math.Log(float64(seen) / float64(all+1))
	}
	// Few clocks step back: a clock sequence costs something when it first comes.
	clockSeq := 0.0
	if !e.clockSeqs[g.clockSeq] {
		e.clockSeqs[g.clockSeq] = true
		clockSeq = small(g.clockSeq, l.ClockSeqBits)
	}
	return -math.Log(float64(all+1)) + clockSeq + small(g.datacenter, l.DatacenterBits) + small(g.worker, l.WorkerBits)
}

// sequence returns the logarithm of the probability of a sequence number, given
// what the generator issued before.
func (k *Known) sequence(p snowflake.Parts, before map[fields]snowflake.Parts, g fields, e *evidence) float64 {
	bits := k.Layout.SequenceBits
	if bits == 0 {
		return 0
	}
	any := -float64(bits) * math.Ln2
	if last, ok := before[g]; ok && last.Time.Equal(p.Time) {
		if p.Sequence == last.Sequence+1 {
			return math.Log(0.9)
		}
		return math.Log(0.1) + any
	}
	if k.Random {
		return any
	}
	// How often a tick begins with 0 is learnt from the IDs. So a wide field, which is
	// 0 in each of many slow ticks, costs no more than a narrow field.
	zeros, starts := float64(e.zeros), float64(e.starts)
	e.starts++
	if p.Sequence == 0 {
		e.zeros++
		return math.Log((zeros + 1) / (starts + 2))
	}
	return math.Log((starts-zeros+1)/(starts+2)) + small(p.Sequence-1, bits)
}

// small returns the logarithm of the probability of a field's value: small values
// are likelier, but every value is possible.
func small(v int, bits uint8) float64 {
	if bits == 0 {
		return 0
	}
	size := math.Ldexp(1, int(bits))
	return math.Log(0.8/((float64(v)+1)*(math.Log(size)+0.6)) + 0.2/size)
}

// why puts the evidence in words.
func (k *Known) why(e *evidence, n int, now time.Time) []string {
	if n == 1 {
		why := []string{fmt.Sprintf("its time is %s, %s", e.first.UTC().Format("2006-01-02T15:04:05.000Z"), ago(now.Sub(e.first)))}
		for g := range e.workers {
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
		why = append(why, count(len(e.workers), "generator"))
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
