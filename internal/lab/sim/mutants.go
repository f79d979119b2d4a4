//go:build go1.25

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
	path   string // its file
	name   string
	why    string   // its effect
	always []killer // the tests and scopes that find it on every run
	guard  string   // the guard of internal/lab/proof/lease.smt2 that it removes
	edits  []edit
}

// killer is a test that fails with a mutant on every run.
type killer struct {
	pkg, test string
	scope     string // the scope, if the test is TestEveryInterleaving
}

func (k killer) String() string {
	if k.scope != "" {
		return "scope " + k.scope
	}
	return k.test
}

// edit replaces lines that a file of the source contains once. In new, MUTANT is the condition that
// the mutant is switched on.
type edit struct{ file, old, new string }

// mutantFiles has the mutants, in the form that mutants/README.md describes.
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

// readMutants returns the mutants, in the order of their files.
func readMutants(files fs.FS) (all []mutant, err error) {
	names := map[string]string{}
	err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".diff") {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		some, err := parseMutants(path, string(text))
		for _, m := range some {
			if other, ok := names[m.name]; ok {
				err = cmp.Or(err, fmt.Errorf("%s has one, too", other))
			}
			names[m.name] = path
			if err = cmp.Or(err, m.check()); err != nil {
				return fmt.Errorf("internal/lab/sim/%s: mutant %q: %w", path, m.name, err)
			}
		}
		all = append(all, some...)
		return err
	})
	return all, err
}

// parseMutants returns the mutants of a file.
func parseMutants(path, text string) (all []mutant, err error) {
	var m *mutant
	var e *edit // nil: the next line of the diff begins an edit
	file := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		key, value, _ := strings.Cut(line, ": ")
		if key == "name" {
			all = append(all, mutant{path: path, name: value})
			m, e, file = &all[len(all)-1], nil, strings.TrimSuffix(strings.TrimPrefix(path, "mutants/"), ".diff")
			continue
		}
		switch {
		case line == "":
		case m == nil:
			return nil, fmt.Errorf("internal/lab/sim/%s: the first line is not a name", path)
		case line == "@@":
			e = nil
		case strings.HasPrefix(line, "+++ "):
			e, file = nil, line[4:]
		case strings.Contains(" +-", line[:1]):
			if e == nil {
				m.edits = append(m.edits, edit{file: file})
				e = &m.edits[len(m.edits)-1]
			}
			if line[0] != '+' {
				e.old += line[1:] + "\n"
			}
			if line[0] != '-' {
				e.new += line[1:] + "\n"
			}
		case key == "why":
			m.why = value
		case key == "always":
			pkg, test, _ := strings.Cut(value, " ")
			m.always = append(m.always, killer{pkg: pkg, test: test})
		case key == "scope":
			m.always = append(m.always, killer{"./lease", "TestEveryInterleaving", value})
		case key == "guard":
			m.guard = value
		default:
			return nil, fmt.Errorf("internal/lab/sim/%s: mutant %q: unknown line %q", path, m.name, line)
		}
	}
	return all, nil
}

// check returns an error if a part of the mutant is missing.
func (m mutant) check() error {
	if m.why == "" || m.always == nil || m.edits == nil {
		return errors.New("needs a line for why, a line for always or scope, and a diff")
	}
	for _, k := range m.always {
		if k.test == "" {
			return errors.New("always needs a package and a test")
		}
	}
	for _, e := range m.edits {
		if e.old == "" || !strings.Contains(e.new, "MUTANT") {
			return fmt.Errorf("an edit of %s needs old lines, and MUTANT in a new line", e.file)
		}
	}
	return nil
}

// splice is the part of an edit in which its texts differ. It replaces the bytes from start to end.
type splice struct {
	mutant     *mutant
	start, end int
	new        string
}

// spliceOf finds the lines of an edit in its file.
func spliceOf(m *mutant, e edit, source string) (splice, error) {
	text, old := "\n"+source, "\n"+e.old
	start := strings.Index(text, old)
	if start < 0 || start != strings.LastIndex(text, old) {
		return splice{}, fmt.Errorf("internal/lab/sim/%s: mutant %q changes lines that %s does not contain once; if the code has changed, change the mutant with it:\n%s",
			m.path, m.name, e.file, e.old)
	}
	end := start + len(e.old)
	text = strings.ReplaceAll(e.new, "MUTANT", fmt.Sprintf("on(%q)", m.name))
	for start < end && text != "" && source[start] == text[0] {
		start, text = start+1, text[1:]
	}
	for start < end && text != "" && source[end-1] == text[len(text)-1] {
		end, text = end-1, text[:len(text)-1]
	}
	return splice{m, start, end, text}, nil
}

// mutate returns a source with all splices made. If two of them replace the same bytes, it returns
// an error.
func mutate(source string, splices []splice) (string, error) {
	slices.SortStableFunc(splices, func(a, b splice) int { return cmp.Or(a.start-b.start, a.end-b.end) })
	var b strings.Builder
	end := 0
	for i, s := range splices {
		if s.start < end {
			return "", fmt.Errorf("mutants %q and %q change the same text; let one of them change less:\n%s",
				splices[i-1].mutant.name, s.mutant.name, source[s.start:end])
		}
		b.WriteString(source[end:s.start] + s.new)
		end = s.end
	}
	return b.String() + source[end:], nil
}
