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

// Ranking is the result of Identify. The Shares of all matches, OtherEpoch and None add up to 1.
type Ranking struct {
	Matches    []Match // all known layouts, the most likely first
	OtherEpoch float64 // the probability of the fields of a known layout with another epoch
	None       float64 // the probability of everything else: another layout, a counter, random numbers

	// Mixture has the parts of the IDs if they probably have several layouts, each in its own range;
	// otherwise it is nil. The other fields are then about all IDs together, and mean little.
	Mixture []Part
}

// Part is a range of IDs that probably have one layout.
type Part struct {
	First, Last snowflake.ID
	IDs         int
	Best        Match // without Why
}

// IsKnown reports whether the part may well have a known layout.
func (p Part) IsKnown() bool { return p.Best.Share >= 0.05 }

// Match is a known layout, and its fit to IDs.
type Match struct {
	Known
	Share       float64   // the probability of this layout, 0 to 1
	Sure        float64   // the probability of all layouts with these times; 0 in a mixture
	First, Last time.Time // the times of the first and the last ID, if they have this layout
	Why         []string  // the evidence for the layout, for people

	// Grid is more than 0 if all times are multiples of it, and it is much longer than the tick:
	// the times came from a coarse clock, or from a column of whole seconds.
	Grid time.Duration

	// Twins are the names of the other possible layouts that divide an ID in the same way or give it
	// the same time. Only the epoch, or the names or the order of the fields, tell them apart, so the
	// IDs alone cannot.
	Twins []string

	// Not is the reason why the layout is ruled out. Share and Sure are 0 then, and First, Last, Why
	// and Twins are empty.
	Not string

	log float64 // of the probability, up to a factor
}

// Likely reports whether the times of the IDs by this layout are probably right: of a hundred such
// answers, about 95 are.
func (m Match) Likely() bool { return m.Sure >= 0.9 }

// tolerance bounds the lead of an ID's time over now.
const tolerance = 24 * time.Hour

// Identify returns the probability of each known layout, given the IDs. All IDs should have one
// layout; a few others do no harm. Of more than 500 IDs, it looks at 500, including the smallest
// and the greatest.
//
// A layout is ruled out if more than half of the IDs do not fit: they have too many bits, or a time
// before the first such IDs or more than a day after now. The others are compared by their
// frequency, and by the probability that their generators issue exactly these IDs: recent times,
// few and small worker IDs, and sequences that begin with 0 in each tick are likely. They are also
// compared with the same divisions under another epoch, and with numbers that merely grow.
//
// Many layouts, such as Twitter's and Discord's, differ in nothing but the epoch or the names of
// the fields. They are twins, and each names the others. Only an ID of a known time, or one just
// made, tells them apart. Otherwise the twins are ranked by the frequency of their IDs (Twitter's
// 50, Discord's 40, TSIDs 10, this library's 5, ShardingSphere's 1 and so on), by the age of the
// last ID (people ask about IDs that are 6 years old on average), and by the fields of Twitter's
// and Discord's published IDs. So the true layout is the first for 108 of 125 published IDs that
// stand alone, and one of the first three for 118.
//
// The columns count the IDs or sets of IDs for which the first guess is right, or one of the first
// three, if twins count as one guess; the first guess is Likely, and is Likely and right; and None
// is above a half:
//
//	IDs                            count  first  in three  likely  right  None
//	published, alone                 124    118       124      43     43    11
//	published, together               19     19        19       2      2     6
//	simulated, alone                1215   1132      1215     102    102   109
//	simulated, 20 together           243    237       243      60     59    34
//	simulated, 200 together          243    223       238      41     41    60
//	simulated, 1,000 together        203    185       196      33     33    50
//	unknown systems, alone           300      0         0       0      0   139
//	unknown systems, 20              150      0         0       0      0    95
//
// "SNOWFLAKE_FULL=1 go test ./layouts -run Calibration -v" prints these figures by system. The
// published IDs are in testdata, with their sources. The simulated IDs are those of one process,
// many workers, bursts, and quiet and large fleets of each layout, and of this library with
// RandomStart. The unknown systems are layouts that are not in the table, layouts with other
// epochs, counters, dates and random numbers.
func Identify(ids []snowflake.ID, now time.Time) Ranking {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = sample(slices.Compact(ids), 500)
	r := rank(ids, now, min(1, enough/float64(len(ids)))).Ranking
	if len(ids) > 1 {
		r.Mixture = mixture(ids, now)
	}
	for i := range r.Matches {
		r.Matches[i].findTwins(r.Matches)
		if r.Mixture != nil {
			r.Matches[i].Sure = 0
		}
	}
	return r
}

// sample returns at most the given number of sorted IDs, in blocks of neighbours, which show the
// runs of a tick. A block begins at the start of a run, and so shows the number with which runs
// begin.
func sample(ids []snowflake.ID, most int) (some []snowflake.ID) {
	const blocks = 20
	if len(ids) <= most {
		return ids
	}
	size := most / blocks
	for i := range blocks {
		at := i * (len(ids) - size) / (blocks - 1)
		for at > 0 && neighbours(ids[at-1], ids[at]) {
			at--
		}
		some = append(some, ids[at:at+size]...)
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// neighbours reports whether b may follow a in a run: the sequence is in the lowest bits, or above
// a worker of at most 16 bits.
func neighbours(a, b snowflake.ID) bool {
	step := b - a
	return step <= 1<<16 && step&(step-1) == 0
}

// ranked is a ranking, and the logarithm of the probability of the IDs.
type ranked struct {
	Ranking
	log float64
}

// rank ranks the layouts of sorted IDs. scale is the weight of each ID.
func rank(ids []snowflake.ID, now time.Time, scale float64) ranked {
	var r Ranking
	var known, epochs, others []float64 // logarithms
	for _, k := range slices.Concat(table, rearranged) {
		r.Matches = append(r.Matches, k.judge(ids, now, scale))
		known = append(known, r.Matches[len(r.Matches)-1].log)
	}
	others = append(others, noneOf(ids, scale))
	if len(ids) > 0 {
		for _, s := range shapes() {
			epochs = append(epochs, s.judgeShape(ids, now, scale))
		}
		all := otherShapes()
		for _, s := range all {
			others = append(others, s.judgeOther(ids, scale, len(all)))
		}
	}
	sum := sumOf(slices.Concat(known, epochs, others))
	r.OtherEpoch, r.None = math.Exp(sumOf(epochs)-sum), math.Exp(sumOf(others)-sum)
	for i := range r.Matches {
		r.Matches[i].Share = math.Exp(known[i] - sum)
	}
	for i := range r.Matches {
		for _, o := range r.Matches {
			if m := &r.Matches[i]; m.Not == "" && m.sameTime(&o.Known) {
				m.Sure += o.Share
			}
		}
	}
	slices.SortStableFunc(r.Matches, func(a, b Match) int { return cmp.Compare(b.Share, a.Share) })
	return ranked{r, sum}
}

// sumOf returns the logarithm of the sum of numbers whose logarithms are given.
func sumOf(logs []float64) float64 {
	best, sum := math.Inf(-1), 0.0
	for _, l := range logs {
		best = max(best, l)
	}
	if math.IsInf(best, -1) {
		return best
	}
	for _, l := range logs {
		sum += math.Exp(l - best)
	}
	return best + math.Log(sum)
}

// division is a layout without the epoch and the names of the fields.
type division struct {
	unit           time.Duration
	node, sequence uint8 // bits
	workerLast     bool
	nodeFirst      bool
}

func (k *Known) division() division {
	l := k.Layout
	return division{l.Unit, l.ClockSeqBits + l.DatacenterBits + l.WorkerBits, l.SequenceBits, l.WorkerLast, k.NodeFirst}
}

// sameTime reports whether both layouts give every ID the same time.
func (k *Known) sameTime(o *Known) bool {
	a, b := k.division(), o.division()
	return k.Layout.Epoch == o.Layout.Epoch && a.unit == b.unit && a.nodeFirst == b.nodeFirst && a.node+a.sequence == b.node+b.sequence
}

// impossible is the share below which a layout is not named as a twin, such as a layout with random
// sequences for sequences that count up from 0.
const impossible = 1e-12

// findTwins names a match's twins, and adds to Why the difference from those that are not very
// unlikely.
func (m *Match) findTwins(all []Match) {
	var epochs, names []string
	for _, o := range all {
		if m.Not != "" || o.Share < impossible || o.Name == m.Name || o.division() != m.division() && !o.sameTime(&m.Known) {
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
		m.Why = append(m.Why, "only the fields below the time tell it from "+strings.Join(names, ", "))
	}
}
