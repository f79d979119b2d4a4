//go:build go1.25

package main

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed lease.smt2
var lease string

// term is a word, if it has no parts, or a list.
type term struct {
	word  string
	parts []*term
}

func (t *term) String() string {
	if t.parts == nil {
		return t.word
	}
	words := make([]string, len(t.parts))
	for i, p := range t.parts {
		words[i] = p.String()
	}
	return "(" + strings.Join(words, " ") + ")"
}

// head reports whether t is a list that begins with this word.
func (t *term) head(word string) bool { return len(t.parts) > 0 && t.parts[0].word == word }

var token = regexp.MustCompile(`;[^\n]*|"[^"]*"|[()]|[^\s()";]+`)

// parse returns the commands of a script.
func parse(text string) []*term {
	stack := []*term{{}}
	for _, w := range token.FindAllString(text, -1) {
		top := stack[len(stack)-1]
		switch {
		case w[0] == ';':
		case w == "(":
			stack = append(stack, &term{parts: []*term{}})
		case w == ")":
			stack = stack[:len(stack)-1]
			below := stack[len(stack)-1]
			below.parts = append(below.parts, top)
		default:
			top.parts = append(top.parts, &term{word: w})
		}
	}
	return stack[0].parts
}

// guards returns the names of the guards, each of which the script defines to be true.
func guards(text string) (names []string) {
	for _, t := range parse(text) {
		if t.head("define-fun") && len(t.parts) == 5 && t.parts[4].word == "true" {
			names = append(names, t.parts[1].word)
		}
	}
	return names
}
