//go:build go1.25

package lease

import (
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// exploration is what was found of a scope.
type exploration struct {
	scope
	seen       map[[16]byte]bool // states
	moves      []move            // all steps, if the scope is exact
	steps      int               // number of steps
	continued  int               // number of states that checkRecovery continued
	broken     string            // how the story breaks an invariant; empty if none does
	story      []step
	recovering bool // whether checkRecovery broke it, after the story
}

// node is a step from a state.
type node struct {
	before *node // nil at the beginning
	step   step
	world  *world   // world before the step
	from   [16]byte // state before the step, if the scope is exact
}

// move is a step between two states of an exact scope.
type move struct {
	from, to [16]byte
	step     step
	reduced  [16]byte // hash of all states that count as the same as to
	outcome  string   // world.outcome, if no step can follow
}

// explore finds all states of a scope, up to limit, or a story that breaks an invariant. If deep is
// set, it continues from the state found last: that needs little memory, but the story may be long.
// Otherwise the story is a shortest one.
func (s scope) explore(t *testing.T, deep bool, limit int) (e *exploration) {
	s.hooked(t, func() { e = s.search(deep, limit) })
	return e
}

func (s scope) search(deep bool, limit int) *exploration {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	e := &exploration{scope: s, seen: map[[16]byte]bool{}, steps: -1}
	w := newWorld(&e.scope)
	defer w.end()
	todo := []*node{{world: w}}
	for len(todo) > 0 && len(e.seen) < limit {
		var n *node
		if deep && e.steps%50 != 49 { // because a story may have no end
			n, todo = todo[len(todo)-1], todo[:len(todo)-1]
		} else {
			n, todo = todo[0], todo[1:]
		}
		w := n.world
		if n.before != nil {
			w = w.clone()
			w.take(n.step)
		}
		e.steps++
		if w.broken != "" {
			e.broken, e.story = w.broken, n.story()
			return e
		}
		choices := w.choices()
		key, exact := w.state()
		if s.exact {
			m := move{n.from, exact, n.step, key, ""}
			if len(choices) == 0 {
				m.outcome = w.outcome()
			}
			e.moves, key = append(e.moves, m), exact
		}
		if e.seen[key] {
			continue
		}
		e.seen[key] = true
		if s.every > 0 && len(e.seen)%s.every == 0 {
			e.continued++
			c := w.clone()
			if c.checkRecovery(); c.broken != "" {
				e.broken, e.story, e.recovering = c.broken, n.story(), true
				return e
			}
		}
		for _, step := range choices {
			todo = append(todo, &node{n, step, w, exact})
		}
		n.world = nil
	}
	return e
}

// story returns the steps up to n.
func (n *node) story() (story []step) {
	for ; n.before != nil; n = n.before {
		story = append(story, n.step)
	}
	slices.Reverse(story)
	return story
}

// hooked calls f while the package is connected with the world in place of the computer. The time
// of contexts stands still, so none of them ends by itself.
func (s scope) hooked(t *testing.T, f func()) {
	clock, timer, text, dice, free := machine.Now, machine.NewTimer, machine.RandomText, machine.Dice, freeLater
	defer func() {
		machine.Now, machine.NewTimer, machine.RandomText, machine.Dice, freeLater = clock, timer, text, dice, free
	}()
	machine.Now = func() time.Time { return now.reading.At }
	machine.NewTimer = func(d time.Duration) *time.Timer { return now.rest(d) }
	machine.RandomText, machine.Dice, freeLater = newText, throw, freeInWorld
	synctest.Test(t, func(*testing.T) { f() })
}

// outcome describes how a story has ended: the IDs, the windows and the entries.
func (w *world) outcome() string {
	var b strings.Builder
	fmt.Fprintln(&b, w.mark, w.ids)
	for _, p := range w.procs {
		fmt.Fprintln(&b, p.name, p.begun, p.dead, p.err != nil, p.offset, p.windows)
	}
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		if strings.TrimPrefix(key, copyPrefix) != book.SilenceKey { // how much was shared is no outcome
			fmt.Fprintln(&b, key, string(w.entries[key].Value))
		}
	}
	return b.String()
}

// words returns the story that breaks an invariant.
func (e *exploration) words(t *testing.T) (words []string) {
	e.hooked(t, func() {
		w := newWorld(&e.scope)
		defer w.end()
		w.words = &words
		for _, s := range e.story {
			w.take(s)
		}
		if e.recovering {
			w.checkRecovery()
		}
	})
	return words
}

// reducible are small scopes that have all that the reductions look at.
var reducible = []scope{
	{name: "faults", workers: 1, processes: 2, held: true, ticks: 1, faults: 1, most: perKind{crash: 1, delay: 1, fail: 1, lose: 1}},
	{name: "losses", workers: 1, processes: 2, held: true, faults: 2, most: perKind{lose: 1, pause: 1}, silence: true, heals: true},
	{name: "two", workers: 2, processes: 2, held: true, ticks: 1},
	{name: "two ticks", workers: 2, processes: 2, held: true, ticks: 2},
	{name: "IDs", workers: 1, seqBits: 1, processes: 1, held: true, ticks: 1, ids: 2, releases: 1, faults: 1, most: perKind{forward: 1}, by: 1},
	{name: "reader", workers: 1, processes: 1, readers: 1, held: true, ticks: 1, ids: 1},
	{name: "copy", workers: 1, processes: 2, held: true, clockless: true, copies: true, ticks: 1, faults: 1, most: perKind{outage: 1, crash: 1}},
}

// States that count as the same lead to the same states: each step from one of them is possible
// from the other, and leads to a state that counts as the same. So it is enough to continue from
// one of them. However the steps are ordered, a story ends with IDs, windows and records that a
// story with the usual orders has, too. And deep stories find as many states as shortest ones.
func TestWhatIsLeftOutChangesNothing(t *testing.T) {
	oneStepAtATime(t)
	for _, s := range reducible {
		t.Run(s.name, func(t *testing.T) {
			reduced := s.explore(t, true, math.MaxInt)
			require.Empty(t, reduced.broken)
			if depth.Full() {
				assert.Equal(t, reduced.seen, s.explore(t, false, math.MaxInt).seen)
			}
			s.exact = true
			exact := s.explore(t, true, math.MaxInt)
			require.Empty(t, exact.broken)
			type future = map[string]bool
			futures := map[[16]byte]future{} // by exact state
			for _, m := range exact.moves {
				if futures[m.from] == nil {
					futures[m.from] = future{}
				}
				futures[m.from][fmt.Sprint(m.step.kind, m.step.p, m.reduced)] = true
			}
			shared, seen := map[[16]byte]future{}, map[[16]byte]bool{} // by reduced state
			for _, m := range exact.moves {
				if seen[m.reduced] {
					require.Equal(t, shared[m.reduced], futures[m.to])
				}
				shared[m.reduced], seen[m.reduced] = futures[m.to], true
			}
			assert.Equal(t, reduced.seen, seen)
			t.Logf("%d of %d states", len(reduced.seen), len(exact.seen))

			if s.ticks > 1 {
				return // it would take long
			}
			s.unordered = true
			unordered := s.explore(t, true, math.MaxInt)
			require.Empty(t, unordered.broken)
			assert.NotEmpty(t, unordered.outcomes())
			assert.Subset(t, exact.outcomes(), unordered.outcomes())
			t.Logf("%d of %d states in any order", len(exact.seen), len(unordered.seen))
		})
	}
}

// outcomes returns how the stories have ended.
func (e *exploration) outcomes() []string {
	all := map[string]bool{}
	for _, m := range e.moves {
		all[m.outcome] = true
	}
	delete(all, "")
	return slices.Collect(maps.Keys(all))
}
