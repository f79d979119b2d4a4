//go:build unix && go1.25

package steps

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// sizes are how many things of each sort z3 is told of.
var sizes = map[string]int{"Worker": 1, "Holder": 5, "ClockSeq": clockSeqs, "Save": 8}

// language returns what the model declares and defines, for finite sorts.
func language() string {
	var text strings.Builder
	for _, t := range Parse(Model) {
		switch {
		case t.Head("declare-sort"):
			fmt.Fprintf(&text, "(declare-datatypes ((%s 0)) ((", t.Parts[1])
			for i := range sizes[t.Parts[1].Word] {
				fmt.Fprintf(&text, "(%s%d)", t.Parts[1], i)
			}
			text.WriteString(")))\n")
		case strings.HasPrefix(t.Parts[0].Word, "declare-"), t.Head("define-fun"):
			text.WriteString(t.String() + "\n")
		}
	}
	return text.String()
}

// facts returns what a run says before the step that it judges, and after it.
func facts(r *Run) string {
	var text strings.Builder
	for _, t := range Parse(Model) {
		sort, args := "", []*Term{}
		switch {
		case t.Head("declare-const"):
			sort = t.Parts[2].Word
		case t.Head("declare-fun"):
			sort, args = t.Parts[3].Word, t.Parts[2].Parts
		default:
			continue
		}
		name, f := t.Parts[1].Word, r.functions[t.Parts[1].Word]
		calls := [][]int64{{}}
		states := []string{""}
		for _, a := range args {
			if a.Word == "State" {
				states = []string{" x", " y"}
				continue
			}
			var more [][]int64
			for _, c := range calls {
				for i := range sizes[a.Word] {
					more = append(more, append(slices.Clone(c), int64(i)))
				}
			}
			calls = more
		}
		for state, which := range states {
			for _, c := range calls {
				call := name
				if len(args) > 0 {
					call = "(" + name + which
					for i, v := range c {
						call += fmt.Sprintf(" %s%d", sorts[f.sorts[i]], v)
					}
					call += ")"
				}
				fmt.Fprintf(&text, "(assert (= %s %s))\n", call, shown(sort, at(r.tables[f.index][state], r.index(f, c))))
			}
		}
	}
	return text.String()
}

// shown returns a value as z3 writes it.
func shown(sort string, v int64) string {
	switch sort {
	case "Int":
		if v < 0 {
			return fmt.Sprintf("(- %d)", -v)
		}
		return fmt.Sprint(v)
	case "Bool":
		return fmt.Sprint(v == 1)
	case "Kind":
		return []string{"take", "move", "release", "restore"}[v]
	}
	return fmt.Sprint(sort, v)
}

// The evaluator of this package and z3 agree on what is a step.
func TestZ3AgreesOnWhatIsAStep(t *testing.T) {
	z3 := servertest.Program(t, "z3", "z3")
	var script strings.Builder
	script.WriteString(language())
	var is []bool
	asked := map[string]int{} // of each step, and verdict
	for seed := range uint64(300) {
		w := newWalk(seed)
		w.run.judged = func(name string, holds bool) {
			if key := fmt.Sprint(name, holds); w.run.saves < int64(sizes["Save"]) && asked[key] < depth.Of(4, 40) {
				asked[key]++
				is = append(is, holds)
				script.WriteString("(push)\n" + facts(w.run))
				for _, t := range w.run.steps[name].terms {
					fmt.Fprintf(&script, "(assert %s)\n", t)
				}
				script.WriteString("(check-sat)\n(pop)\n")
			}
		}
		for range 40 {
			_ = w.act(t)
		}
	}
	cmd := exec.CommandContext(t.Context(), z3, "-in", "-t:10000")
	cmd.Stdin = strings.NewReader(script.String())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out[:min(len(out), 1000)]))
	answers := strings.Fields(string(out))
	require.Len(t, answers, len(is))
	for i, a := range answers {
		assert.Equal(t, map[bool]string{true: "sat", false: "unsat"}[is[i]], a)
	}
	assert.Greater(t, len(asked), 25, "steps, true and not")
	t.Log(len(is), "questions")
}
