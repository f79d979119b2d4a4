package steps

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
)

// Model is lease.smt2.
//
//go:embed lease.smt2
var Model string

// Term is a word, if it has no parts, or a list.
type Term struct {
	Word  string
	Parts []*Term
}

func (t *Term) String() string {
	if t.Parts == nil {
		return t.Word
	}
	words := make([]string, len(t.Parts))
	for i, p := range t.Parts {
		words[i] = p.String()
	}
	return "(" + strings.Join(words, " ") + ")"
}

// first returns the word of t, or the first word of its list.
func (t *Term) first() string {
	for len(t.Parts) > 0 {
		t = t.Parts[0]
	}
	return t.Word
}

// Head reports whether t is a list that begins with these words.
func (t *Term) Head(words ...string) bool {
	return len(t.Parts) >= len(words) && !slices.ContainsFunc(words,
		func(w string) bool { return t.Parts[slices.Index(words, w)].Word != w })
}

var token = regexp.MustCompile(`;[^\n]*|"[^"]*"|[()]|[^\s()";]+`)

// Parse returns the commands of a script.
func Parse(text string) []*Term {
	stack := []*Term{{}}
	for _, w := range token.FindAllString(text, -1) {
		top := stack[len(stack)-1]
		switch {
		case w[0] == ';':
		case w == "(":
			stack = append(stack, &Term{Parts: []*Term{}})
		case w == ")":
			stack = stack[:len(stack)-1]
			below := stack[len(stack)-1]
			below.Parts = append(below.Parts, top)
		default:
			top.Parts = append(top.Parts, &Term{Word: w})
		}
	}
	return stack[0].Parts
}

// Guards returns the names of the guards, each of which the script defines to be true.
func Guards(text string) (names []string) {
	for _, t := range Parse(text) {
		if isGuard(t) {
			names = append(names, t.Parts[1].Word)
		}
	}
	return names
}

func isGuard(t *Term) bool {
	return t.Head("define-fun") && len(t.Parts) == 5 && t.Parts[4].Word == "true"
}
