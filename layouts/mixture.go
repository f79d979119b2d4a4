package layouts

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

const (
	commonMixture = 0.05 // the share of questions that are about IDs of several layouts
	mostSampled   = 100  // IDs that are searched for a mixture
	mostCuts      = 4    // places between IDs where a part may end
)

// mixture returns the parts of sorted IDs if they more likely have several layouts, each in its own
// range, than one. Otherwise it returns nil.
func mixture(ids []snowflake.ID, now time.Time) []Part {
	ids = sample(ids, mostSampled)
	scale := min(1, mostCuts*enough/float64(len(ids)))
	cuts := append(cutsOf(ids), len(ids))
	// Each part after the first costs the probability of its layout and its place.
	cost := math.Log(commonMixture/mostCuts) - math.Log(commonAll)
	parts := [][]Part{nil} // the likeliest parts up to each cut
	logs := []float64{0}   // the logarithm of their probability
	starts := append([]int{0}, cuts...)
	for _, end := range cuts {
		best, log := []Part(nil), math.Inf(-1)
		for i, before := range logs {
			r := rank(ids[starts[i]:end], now, scale)
			if i > 0 {
				before += cost
			}
			if before+r.log > log {
				log = before + r.log
				best = append(slices.Clone(parts[i]), partOf(ids[starts[i]:end], r.Ranking))
			}
		}
		logs, parts = append(logs, log), append(parts, best)
	}
	found := parts[len(parts)-1]
	if !slices.ContainsFunc(found, func(p Part) bool { return !p.like(found[0]) }) {
		return nil
	}
	return found
}

// like reports whether two parts may have the same layout, or none.
func (p Part) like(o Part) bool {
	if p.IsKnown() && o.IsKnown() {
		return p.Best.Name == o.Best.Name || slices.Contains(p.Best.Twins, o.Best.Name)
	}
	return p.IsKnown() == o.IsKnown()
}

func partOf(ids []snowflake.ID, r Ranking) Part {
	best := r.Matches[0]
	best.findTwins(r.Matches)
	best.Why = nil
	return Part{ids[0], ids[len(ids)-1], len(ids), best}
}

// cutsOf returns the places of the largest growth of sorted IDs, in order.
func cutsOf(ids []snowflake.ID) (cuts []int) {
	for i := 1; i < len(ids); i++ {
		cuts = append(cuts, i)
	}
	growth := func(i int) float64 { return float64(ids[i]) / (float64(ids[i-1]) + 1) }
	slices.SortStableFunc(cuts, func(a, b int) int { return cmp.Compare(growth(b), growth(a)) })
	cuts = cuts[:min(mostCuts, len(cuts))]
	slices.Sort(cuts)
	return cuts
}
