//go:build go1.25

package lease

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// atlas has the states of a scope that were found.
type atlas struct {
	scope
	seen      map[[16]byte]bool // what stands for them
	ends      []ending          // if the scope is exact, what the steps led to
	steps     int               // that were made
	continued int               // states from which world.ends went on
	broken    string            // how an invariant is broken, after
	story     []step
	ended     bool // and then without faults (world.ends)
}

// node is a state, and how it was found.
type node struct {
	world  *world
	before *node
	step   step
	number int // of the state
}

// ending is what a step leads to.
type ending struct {
	from, to int // the numbers of the states
	step     step
	reduced  [16]byte // what stands for the states that are taken for the same
	outcome  string   // what was issued, and by whom, if nothing can happen any more
}

// explore finds all states of a scope, up to so many, or a story that breaks an invariant. If far
// is set, it goes on from the last state that was found, so the story may be long, and there is not
// much to remember. Else it is a shortest story.
func (s scope) explore(far bool, limit int) *atlas {
	defer s.small()()
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	a := &atlas{scope: s, seen: map[[16]byte]bool{}, steps: -1}
	numbers := map[[16]byte]int{}
	todo := []*node{{world: newWorld(&a.scope)}}
	for len(todo) > 0 && a.broken == "" && len(a.seen) < limit {
		var n *node
		if far && a.steps%50 != 49 { // a story may have no end
			n, todo = todo[len(todo)-1], todo[:len(todo)-1]
		} else {
			n, todo = todo[0], todo[1:]
		}
		w := n.world
		if n.before != nil {
			if w = n.world.clone(); w.broken == "" {
				w.take(n.step)
			}
		}
		a.steps++
		if w.broken != "" {
			a.broken, a.story = w.broken, n.story()
			break
		}
		reduced, exact := w.state()
		choices := w.choices()
		key := reduced
		if s.exact {
			key = exact
			number, ok := numbers[key]
			if !ok {
				number = len(numbers)
				numbers[key] = number
			}
			end := ending{to: number, step: n.step, reduced: reduced}
			if n.before != nil {
				end.from = n.before.number
			}
			if len(choices) == 0 {
				end.outcome = w.outcome()
			}
			n.number, a.ends = number, append(a.ends, end)
		}
		if a.seen[key] {
			continue
		}
		a.seen[key] = true
		if s.every > 0 && len(a.seen)%s.every == 0 {
			a.continued++
			if c := w.clone(); c.broken == "" {
				if c.ends(); c.broken != "" {
					a.broken, a.story, a.ended = c.broken, n.story(), true
				}
			}
		}
		for _, step := range choices {
			todo = append(todo, &node{world: w, before: n, step: step})
		}
		n.world = nil
	}
	return a
}

// story returns the steps up to n.
func (n *node) story() (story []step) {
	for ; n.before != nil; n = n.before {
		story = append(story, n.step)
	}
	slices.Reverse(story)
	return story
}

// small lets the package see the small world in place of the computer, until the function that it
// returns is called.
func (s scope) small() (end func()) {
	clock, timer, text, die, free := machine.Now, machine.NewTimer, machine.RandomText, machine.Dice, freeLater
	machine.Now = func() time.Time { return now.reading.At }
	machine.NewTimer, machine.RandomText, machine.Dice, freeLater = newRest, newText, throw, freed
	return func() {
		machine.Now, machine.NewTimer, machine.RandomText, machine.Dice, freeLater = clock, timer, text, die, free
	}
}

// outcome says how a story has ended.
func (w *world) outcome() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(w.ids)) {
		fmt.Fprintln(&b, id, w.ids[id])
	}
	for _, p := range w.procs {
		fmt.Fprintln(&b, p.name, p.begun, p.dead, p.err != nil, p.offset, p.windows)
	}
	for _, key := range slices.Sorted(maps.Keys(w.entries)) {
		if e := w.entries[key]; strings.TrimPrefix(key, copyPrefix) != book.SilenceKey { // how much was shared is no outcome
			fmt.Fprintln(&b, e.Key, string(e.Value))
		}
	}
	fmt.Fprintln(&b, w.mark)
	return b.String()
}

// words returns the story that breaks an invariant.
func (a *atlas) words() (words []string) {
	defer a.small()()
	w := newWorld(&a.scope)
	w.words = &words
	for _, s := range a.story {
		w.take(s)
	}
	if a.ended {
		w.ends()
	}
	return words
}
