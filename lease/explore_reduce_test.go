//go:build go1.25

package lease

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

// reducible are small scopes that have all that the reductions look at.
var reducible = []scope{
	{name: "faults", workers: 1, processes: 2, held: true, ticks: 1, faults: 1, crashes: 1, delays: 1, fails: 1, losses: 1},
	{name: "two", workers: 2, processes: 2, held: true, ticks: 2},
	{name: "IDs", workers: 1, seqBits: 1, processes: 1, held: true, ticks: 1, ids: 2, releases: 1, faults: 1, sets: 1, by: 1},
	{name: "reader", workers: 1, processes: 1, readers: 1, held: true, ticks: 1, ids: 1},
	{name: "copy", workers: 1, processes: 2, held: true, clockless: true, copies: true, ticks: 1, faults: 1, outages: 1, crashes: 1},
}

// States that are taken for the same lead to the same states: each step from one of them is
// possible from the other, and leads to a state that is taken for the same. So to go on from one of
// them is enough. And a story that goes on as far as it can finds as many states as stories that
// are each told from the beginning, as the full run sees.
func TestStatesThatAreTakenForTheSameHaveTheSameFuture(t *testing.T) {
	oneStepAtATime(t)
	for _, s := range reducible {
		t.Run(s.name, func(t *testing.T) {
			reduced := s.explore(true, math.MaxInt)
			require.Empty(t, reduced.broken)
			if depth.Full() {
				assert.Equal(t, reduced.seen, s.explore(false, math.MaxInt).seen)
			}
			s.exact = true
			exact := s.explore(true, math.MaxInt)
			require.Empty(t, exact.broken)

			// What is taken for each state, by its number, and what comes after it.
			stands, futures := map[int][16]byte{}, map[int][]string{}
			for _, end := range exact.ends {
				stands[end.to] = end.reduced
				if end.to > 0 {
					futures[end.from] = append(futures[end.from], fmt.Sprintf("%d %d %x", end.step.kind, end.step.p, end.reduced))
				}
			}
			of, seen := map[[16]byte][]string{}, map[[16]byte]bool{}
			for i, key := range stands {
				future := slices.Compact(slices.Sorted(slices.Values(futures[i])))
				if seen[key] {
					require.Equal(t, of[key], future)
				}
				of[key], seen[key] = future, true
			}
			assert.Equal(t, reduced.seen, seen)
			assert.LessOrEqual(t, len(reduced.seen), len(exact.seen))
			t.Logf("%d of %d states", len(reduced.seen), len(exact.seen))
		})
	}
}

// However the steps are ordered, a story ends with IDs, windows and records that also a story with
// the usual orders has.
func TestOrdersThatAreLeftOutEndTheSame(t *testing.T) {
	oneStepAtATime(t)
	for _, s := range reducible {
		t.Run(s.name, func(t *testing.T) {
			s.exact, s.faults, s.ticks = true, min(s.faults, 1), 1
			ordered := s.explore(true, math.MaxInt)
			s.unordered = true
			unordered := s.explore(true, math.MaxInt)
			require.Empty(t, ordered.broken+unordered.broken)
			assert.NotEmpty(t, unordered.outcomes())
			assert.Subset(t, ordered.outcomes(), unordered.outcomes())
			t.Logf("%d of %d states", len(ordered.seen), len(unordered.seen))
		})
	}
}

func (a *atlas) outcomes() (all []string) {
	found := map[string]bool{}
	for _, end := range a.ends {
		found[end.outcome] = true
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}
