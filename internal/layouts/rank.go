package layouts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Match says how well IDs fit a known layout.
type Match struct {
	Known
	Share float64  `json:"share"`         // how likely it is this layout, and no other of the table nor any number: 0 to 1
	Why   []string `json:"why,omitempty"` // what speaks for it

	// Not says why the layout is out of the question; then Share is 0.
	Not string `json:"not,omitempty"`
}

// Tolerance is how far ahead of now an ID's time may lie.
const Tolerance = 24 * time.Hour

// most is how many IDs are looked at. More would not change the answer.
const most = 10_000

// Rank returns all known layouts, from the one that the IDs are most likely of.
//
// The measure is the probability that a generator of the layout issues just
// these IDs: times are recent rather than old, and near each other; worker IDs
// are few, and small; sequences count up from 0 in each tick. Layouts whose
// fields are uncommon values lose against a layout that explains them.
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
	// It may be any number, too.
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
	slices.SortStableFunc(matches, func(a, b Match) int { return cmp.Compare(b.Share, a.Share) })
	return matches
}

// Refuse says why an ID cannot be of the layout, or nothing.
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

// evidence is what is counted of IDs under one layout.
type evidence struct {
	refused, counted, ticks int
	first, last             time.Time
	workers                 map[fields]int
	maxSequence             int
}

// fields name a generator.
type fields struct{ clockSeq, datacenter, worker int }

// judge returns the logarithm of the probability of the IDs, which are sorted.
func (k *Known) judge(ids []snowflake.ID, now time.Time) (log float64, why []string, not string) {
	l := k.Layout
	log = math.Log(k.weight())
	e := evidence{workers: map[fields]int{}}
	before := map[fields]snowflake.Parts{} // the last ID of each generator
	reason := ""
	for _, id := range ids {
		if r := k.Refuse(id, now); r != "" {
			// Any number, instead of an ID: one in a hundred is.
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

// maxBits is what an ID has.
const maxBits = 63

// time returns the logarithm of the probability of a time, after those before it.
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
	return -math.Log((delta + 1) * (math.Log(span/unit+1) + 1))
}

// worker returns the logarithm of the probability of a generator, which is often
// one that was seen before.
func worker(l snowflake.Layout, g fields, e *evidence, n int) float64 {
	seen, all := e.workers[g], e.counted
	e.workers[g]++
	e.counted++
	if seen > 0 {
		return math.Log(float64(seen) / float64(all+1))
	}
	return -math.Log(float64(all+1)) +
		small(g.clockSeq, l.ClockSeqBits) + small(g.datacenter, l.DatacenterBits) + small(g.worker, l.WorkerBits)
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
	return small(p.Sequence, bits)
}

// small returns the logarithm of the probability of a value of a field: small ones
// are likelier, but any has some.
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
