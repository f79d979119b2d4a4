//go:build go1.25

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// answer is what z3 says to one question.
type answer struct{ question, says string }

// without returns the script with a guard left out.
func without(text, guard string) string {
	return strings.Replace(text, "(define-fun "+guard+" () Bool true)", "(define-fun "+guard+" () Bool false)", 1)
}

// split returns the script with a question for each line of the invariant, because z3 answers
// many small questions sooner than a large question.
func split(text string) string {
	var out strings.Builder
	var lines []string
	skip := false
	for _, t := range parse(text) {
		if t.head("define-fun") && len(t.parts) == 5 && t.parts[2].String() == "((z State))" && t.parts[3].word == "Bool" {
			name, body := t.parts[1].word, t.parts[4]
			switch {
			case name == "invariant" || name == "twice":
			case body.head("and"):
				all := "(and"
				for i, p := range body.parts[1:] {
					line := fmt.Sprintf("%s-%d", name, i+1)
					lines = append(lines, line)
					fmt.Fprintf(&out, "(define-fun %s ((z State)) Bool %v)\n", line, p)
					all += " (" + line + " z)"
				}
				fmt.Fprintf(&out, "(define-fun %s ((z State)) Bool %s))\n", name, all)
				continue
			default:
				lines = append(lines, name)
			}
		}
		switch text := t.String(); {
		case text == "(assert (not (invariant y)))" || text == "(assert (not (invariant x)))":
			of := text[len(text)-4 : len(text)-3]
			for _, line := range lines {
				fmt.Fprintf(&out, "(push)(assert (not (%s %s)))(check-sat)(pop)\n", line, of)
			}
			skip = true
		case skip && text == "(check-sat)":
			skip = false
		default:
			out.WriteString(text + "\n")
		}
	}
	return out.String()
}

// scopes are how many things there are of each sort, in worlds that are small enough to try
// everything.
var scopes = []map[string]int{
	{"Worker": 1, "Holder": 2, "ClockSeq": 1, "Save": 3},
	{"Worker": 1, "Holder": 2, "ClockSeq": 2, "Save": 3},
}

// small returns the script without quantifiers, for the worlds of a scope. Then z3 always finds
// a counterexample if there is one.
func small(text string, scope map[string]int) string {
	var out strings.Builder
	for _, t := range parse(text) {
		n := 0
		if t.head("declare-sort") {
			n = scope[t.parts[1].word]
		}
		if n == 0 {
			out.WriteString(expand(t, scope, nil).String() + "\n")
			continue
		}
		sort := t.parts[1].word
		fmt.Fprintf(&out, "(declare-datatypes ((%s 0)) ((", sort)
		for i := range n {
			fmt.Fprintf(&out, "(%s%d)", sort, i)
		}
		out.WriteString(")))\n")
	}
	return out.String()
}

// expand replaces each forall by what it says of each thing, and each variable by its value.
func expand(t *term, scope map[string]int, values map[string]string) *term {
	if t.parts == nil {
		if v, ok := values[t.word]; ok {
			return &term{word: v}
		}
		return t
	}
	if t.head("forall") {
		all := []map[string]string{values}
		for _, v := range t.parts[1].parts {
			var more []map[string]string
			for _, values := range all {
				for i := range scope[v.parts[1].word] {
					with := map[string]string{v.parts[0].word: fmt.Sprint(v.parts[1].word, i)}
					for name, value := range values {
						if _, ok := with[name]; !ok {
							with[name] = value
						}
					}
					more = append(more, with)
				}
			}
			all = more
		}
		and := &term{parts: []*term{{word: "and"}}}
		for _, values := range all {
			and.parts = append(and.parts, expand(t.parts[2], scope, values))
		}
		return and
	}
	to := &term{parts: []*term{}}
	for _, p := range t.parts {
		to.parts = append(to.parts, expand(p, scope, values))
	}
	return to
}

// ask runs z3 and returns its answers.
func ask(ctx context.Context, z3, script string) ([]answer, error) {
	cmd := exec.CommandContext(ctx, z3, "-in", "-t:10000")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("(error")) || len(out) == 0 {
		return nil, fmt.Errorf("%s: %w\n%s", z3, err, out)
	}
	var answers []answer
	question := ""
	for line := range strings.Lines(string(out)) {
		switch line = strings.TrimSpace(line); line {
		case "sat", "unsat", "unknown", "timeout":
			answers = append(answers, answer{question, line})
		default:
			question = line
		}
	}
	return answers, nil
}
