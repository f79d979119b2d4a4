//go:build go1.25

package lease

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// atlas has the states of a scope that were found.
type atlas struct {
	scope
	nodes     []node            // the states,
	seen      map[[16]byte]bool // and what stands for them
	todo      []node            // the steps that were not made yet
	ends      []ending          // if the scope is exact, what the steps led to
	steps     int               // that were made
	continued int               // states from which world.ends went on
	broken    string            // how an invariant is broken, after
	story     []step
	ended     bool // and then without faults (world.ends)
}

// node is a step, and the number of the state before it. The first state has the number 0, and there is no state before it.
type node struct {
	before int32
	step   step
}

// ending is what a story leads to.
type ending struct {
	by      node // the last step
	state   [16]byte
	reduced [16]byte // the same for states that are taken for the same
	choices []step
	broken  string
	outcome string // what was issued, and by whom, if nothing can happen any more
}

// explore finds all states of a scope, up to so many, or a story that breaks an invariant. Each story is told from its beginning. If far is set, a
// story that leads to a new state goes on from there, which is five times as fast. Else the story that is found is a shortest story.
func (s scope) explore(t *testing.T, far bool, limit int) *atlas {
	timer, text, die := newTimer, randomText, dice
	defer func() { newTimer, randomText, dice = timer, text, die }()
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	a := &atlas{scope: s, seen: map[[16]byte]bool{}, todo: []node{{before: -1}}, steps: -1}
	for len(a.todo) > 0 && a.broken == "" && len(a.nodes) < limit {
		n := a.todo[0]
		a.todo = a.todo[1:]
		went := 0
		s.tell(t, a.storyTo(n), false, func(w *world) *step {
			end := w.ending()
			a.steps++
			if end.broken != "" {
				a.broken, a.story = end.broken, a.storyTo(n)
				return nil
			}
			if end.by = n; s.exact {
				a.ends = append(a.ends, end)
			}
			went++ // a story may have no end
			isNew := a.add(n, end)
			if isNew && s.every > 0 && len(a.nodes)%s.every == 0 {
				a.continued++
				if w.ends(); w.broken != "" {
					a.broken, a.story, a.ended = w.broken, a.storyTo(n), true
				}
				return nil
			}
			if !isNew || !far || len(end.choices) == 0 || len(a.nodes) == limit || went == 50 {
				return nil
			}
			last := len(a.todo) - 1
			n, a.todo = a.todo[last], a.todo[:last]
			return &n.step
		})
	}
	return a
}

// add adds a state if it is new.
func (a *atlas) add(n node, end ending) bool {
	key := end.reduced
	if a.exact {
		key = end.state
	}
	if a.seen[key] {
		return false
	}
	a.seen[key] = true
	a.nodes = append(a.nodes, n)
	for _, s := range end.choices {
		a.todo = append(a.todo, node{int32(len(a.nodes) - 1), s})
	}
	return true
}

// storyTo returns the steps up to n.
func (a *atlas) storyTo(n node) (story []step) {
	for ; n.before >= 0; n = a.nodes[n.before] {
		story = append(story, n.step)
	}
	slices.Reverse(story)
	return story
}

// tell tells a story, and goes on as long as next says which step is next. If aloud is set, it returns the story in words.
func (s scope) tell(t *testing.T, story []step, aloud bool, next func(*world) *step) (words []string) {
	synctest.Test(t, func(*testing.T) {
		time.Sleep(tick / 2) // the windows end within ticks
		w := newWorld(s)
		w.telling = aloud
		newTimer, randomText, dice = w.newTimer, w.randomText, w.dice
		if s.held {
			w.take(step{begin, 0, 0})
			for w.procs[0].gen == nil {
				w.take(step{answer, 0, 0})
			}
			w.order = 0
		}
		for _, s := range story {
			w.take(s)
		}
		for step := next(w); step != nil; step = next(w) {
			w.take(*step)
		}
		words = w.words
		w.end()
	})
	return words
}

func (w *world) ending() (end ending) {
	if w.broken != "" {
		return ending{broken: w.broken}
	}
	text := w.state()
	end.choices, end.reduced = w.choices(), hash(w.reduced(text))
	if w.exact {
		end.state = hash(text + w.sights())
	}
	if len(end.choices) == 0 {
		end.outcome = w.outcome()
	}
	return end
}

// outcome says how a story has ended.
func (w *world) outcome() string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(w.ids)) {
		fmt.Fprintln(&b, id, w.ids[id].name)
	}
	for _, p := range w.procs {
		fmt.Fprintln(&b, p.name, p.begun, p.dead, p.err != nil, p.offset, p.windows)
	}
	for _, key := range slices.Sorted(maps.Keys(w.store.entries)) {
		if e := w.store.entries[key]; e.Key != silenceKey { // how much was shared is no outcome
			fmt.Fprintln(&b, e.Key, string(e.Value))
		}
	}
	fmt.Fprintln(&b, w.mark)
	return b.String()
}

// words returns the story that breaks an invariant.
func (a *atlas) words(t *testing.T) []string {
	return a.tell(t, a.story, true, func(w *world) *step {
		if a.ended {
			w.ends()
		}
		return nil
	})
}
