package main

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// mutant is a deliberate defect: another library's mistake, or a mistake that this library
// could make. The simulator's program contains all of them, each switched off.
type mutant struct {
	path   string // of its file
	name   string
	why    string   // what goes wrong with it
	always []killer // what finds it on every run, without luck
	guard  string   // the guard of internal/proof/steps/lease.smt2 that it removes
	edits  []edit
}

// killer is a test that fails with a mutant on every run.
type killer struct {
	pkg, test string
	scope     string // of TestEveryInterleaving; else empty
}

func (k killer) String() string {
	if k.scope != "" {
		return "scope " + k.scope
	}
	return k.test
}

// edit replaces a text that a file of the source contains once. In new, MUTANT stands for
// the condition that the mutant is switched on.
type edit struct{ file, old, new string }

// mutantFiles are the mutants, a file for each. A file has a line for each of name and why.
// Then it has lines that say what finds it on every run: "always: PACKAGE TEST" or "scope: NAME", also several, and
// perhaps a line for guard. Then there is for each edit
//
//	-- file --
//	old text
//	-- becomes --
//	new text
//
// White space around the texts does not count.
//
//go:embed mutants
var mutantFiles embed.FS

var mutants = must(readMutants(mutantFiles))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// readMutants returns the mutants in order of their files.
func readMutants(files fs.FS) (all []mutant, err error) {
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		m, err := parseMutant(string(text))
		if err != nil {
			return fmt.Errorf("internal/sim/%s: %w", name, err)
		}
		m.path = name
		if i := slices.IndexFunc(all, func(o mutant) bool { return o.name == m.name }); i >= 0 {
			return fmt.Errorf("internal/sim/%s: %s has the same name, %q", name, all[i].path, m.name)
		}
		all = append(all, m)
		return nil
	})
	return all, err
}

func parseMutant(text string) (m mutant, err error) {
	head, body, _ := strings.Cut(text, "\n-- ")
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "name":
			m.name = value
		case "why":
			m.why = value
		case "always":
			pkg, test, ok := strings.Cut(value, " ")
			if !ok {
				err = errors.New("always needs a package and a test")
			}
			m.always = append(m.always, killer{pkg: pkg, test: test})
		case "scope":
			m.always = append(m.always, killer{"./lease", "TestEveryInterleaving", value})
		case "guard":
			m.guard = value
		case "":
		default:
			err = fmt.Errorf("unknown line %q", line)
		}
		if err != nil {
			return m, err
		}
	}
	if m.name == "" || m.why == "" || m.always == nil {
		return m, errors.New("it needs a name, why, and always or scope")
	}
	m.edits, err = parseEdits(body)
	return m, err
}

func parseEdits(text string) (edits []edit, err error) {
	for part := range strings.SplitSeq(text, "\n-- ") {
		marker, text, _ := strings.Cut(part, " --\n")
		text = strings.TrimSpace(text)
		last := len(edits) - 1
		switch {
		case marker == "":
			return nil, errors.New("it changes nothing")
		case text == "":
			return nil, fmt.Errorf("-- %s -- has no text after it", marker)
		case marker != "becomes":
			edits = append(edits, edit{file: marker, old: text})
		case last < 0 || edits[last].new != "":
			return nil, errors.New("a text becomes another one, but the file is not named")
		default:
			edits[last].new = text
		}
	}
	for _, e := range edits {
		if !strings.Contains(e.new, "MUTANT") {
			return nil, fmt.Errorf("the new text in %s does not contain MUTANT", e.file)
		}
	}
	return edits, nil
}

// splice is the part of an edit in which its texts differ: it replaces the bytes from
// start to end of a file.
type splice struct {
	mutant     *mutant
	start, end int
	new        string
}

// spliceOf finds the text of an edit in its file.
func spliceOf(m *mutant, e edit, source string) (splice, error) {
	if n := strings.Count(source, e.old); n != 1 {
		return splice{}, fmt.Errorf("internal/sim/%s replaces a text that %s contains %d times, not once; if the code has changed, change the mutant with it:\n%s",
			m.path, e.file, n, e.old)
	}
	start := strings.Index(source, e.old)
	end := start + len(e.old)
	text := strings.ReplaceAll(e.new, "MUTANT", fmt.Sprintf("on(%q)", m.name))
	for start < end && text != "" && source[start] == text[0] {
		start, text = start+1, text[1:]
	}
	for start < end && text != "" && source[end-1] == text[len(text)-1] {
		end, text = end-1, text[:len(text)-1]
	}
	return splice{m, start, end, text}, nil
}

// mutate makes all the splices in a source. If two of them replace the same bytes, it returns an error.
func mutate(source string, splices []splice) (string, error) {
	slices.SortStableFunc(splices, func(a, b splice) int { return cmp.Or(a.start-b.start, a.end-b.end) })
	var b strings.Builder
	end := 0
	for i, s := range splices {
		if s.start < end {
			return "", fmt.Errorf("internal/sim/%s and %s replace the same text; make one of them replace less:\n%s",
				splices[i-1].mutant.path, s.mutant.path, source[s.start:end])
		}
		b.WriteString(source[end:s.start] + s.new)
		end = s.end
	}
	return b.String() + source[end:], nil
}
