package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// version is the version of all modules in the next release. If you change it, run: go run ./internal/release set.
const version = "v0.1.0"

const root = "github.com/seed-5394e6b1/snowflake"

// published are the folders of the modules that users get. If a module requires another one, it stands after it.
var published = []string{
	".",
	"cmd/snowflake",
	"metrics",
	"gormid",
	"lease/dynamolease",
	"lease/etcdlease",
	"lease/k8slease",
	"lease/natslease",
	"lease/redislease",
	"lease/s3lease",
	"lease/sqllease",
	"lease/zklease",
	"lease/urllease",
	"server",
	"server/cmd/snowflaked",
}

// unpublished are the folders of the other modules: benchmarks, tests, and programs to copy.
var unpublished = []string{
	"bench",
	"bench/database",
	"bench/server",
	"docs/recipes",
	"examples/outbox",
	"examples/serverless",
	"examples/service",
	"examples/sql",
	"server/page/browser",
}

// modulePath returns the path of the module in a folder.
func modulePath(dir string) string { return path.Join(root, dir) }

// tag returns the name of the git tag that publishes the module in a folder.
func tag(dir, version string) string { return path.Join(dir, version) }

// A goMod is what this program reads of a go.mod, in the form of go mod edit -json.
type goMod struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

// siblings returns the required modules of this repository.
func (m goMod) siblings() []string {
	var paths []string
	for _, r := range m.Require {
		if isSibling(r.Path) {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// replacements returns the folder that stands for each replaced module.
func (m goMod) replacements() map[string]string {
	folders := make(map[string]string)
	for _, r := range m.Replace {
		folders[r.Old.Path] = r.New.Path
	}
	return folders
}

func isSibling(p string) bool { return p == root || strings.HasPrefix(p, root+"/") }

// A tree is a copy of the repository.
type tree struct {
	dir  string
	mods map[string]goMod // by the module's folder
}

func readTree(dir string) (*tree, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	t := &tree{dir: dir, mods: make(map[string]goMod)}
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case entry.Name() != "go.mod":
			return nil
		}
		folder, err := filepath.Rel(dir, filepath.Dir(name))
		if err != nil {
			return err
		}
		text, err := output(dir, nil, "go", "mod", "edit", "-json", name)
		if err != nil {
			return err
		}
		var mod goMod
		if err := json.Unmarshal(text, &mod); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		t.mods[filepath.ToSlash(folder)] = mod
		return nil
	})
	if err == nil && t.mods["."].Module.Path != root {
		err = fmt.Errorf("%s is not the root of %s", dir, root)
	}
	return t, err
}

// folders returns the folders of all modules, in order.
func (t *tree) folders() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for dir := range t.mods {
			if !yield(dir) {
				return
			}
		}
	})
}

// closure returns the siblings that the module in a folder needs, directly or because another sibling needs them.
func (t *tree) closure(dir string) []string {
	var found []string
	var add func(dir string)
	add = func(dir string) {
		for _, p := range t.mods[dir].siblings() {
			if !slices.Contains(found, p) {
				found = append(found, p)
				add(folder(p))
			}
		}
	}
	add(dir)
	slices.Sort(found)
	return found
}

// folder returns the folder of a sibling.
func folder(modulePath string) string {
	if modulePath == root {
		return "."
	}
	return strings.TrimPrefix(modulePath, root+"/")
}

// relative returns a sibling's folder as a replace line of the module in dir names it.
func relative(dir, sibling string) string {
	rel, err := filepath.Rel(dir, folder(sibling))
	if err != nil {
		panic(err) // both are relative
	}
	return filepath.ToSlash(rel)
}

// check returns an error for each wrong requirement between the modules, and nil if all are right.
func (t *tree) check() error {
	var wrong []error
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	for _, dir := range slices.Concat(published, unpublished) {
		if _, ok := t.mods[dir]; !ok {
			report("internal/release/modules.go lists %s, but it has no go.mod", dir)
		}
	}
	for _, dir := range t.folders() {
		mod := t.mods[dir]
		place := slices.Index(published, dir)
		if place < 0 && !slices.Contains(unpublished, dir) {
			report("%s is a new module: list it in internal/release/modules.go, as published or unpublished", dir)
		}
		if mod.Module.Path != modulePath(dir) {
			report("%s/go.mod: the module is called %s, not %s", dir, mod.Module.Path, modulePath(dir))
		}
		for _, r := range mod.Require {
			if !isSibling(r.Path) {
				continue
			}
			if r.Version != version {
				report("%s/go.mod requires %s %s, not %s: go run ./internal/release set", dir, r.Path, r.Version, version)
			}
			if place >= 0 && !slices.Contains(published[:place], folder(r.Path)) {
				report("%s requires %s, so it must stand after it in the list of published modules: internal/release/modules.go", dir, folder(r.Path))
			}
		}
		for _, r := range mod.Replace {
			if place >= 0 && !isSibling(r.Old.Path) {
				report("%s/go.mod replaces %s: users would get another module than the tests", dir, r.Old.Path)
			}
		}
		for _, sibling := range t.closure(dir) {
			got, want := mod.replacements()[sibling], relative(dir, sibling)
			if path.Clean(got) != want {
				report("%s/go.mod replaces %s by %q, not by %q: go run ./internal/release set", dir, sibling, got, want)
			}
		}
	}
	uses, err := t.uses()
	if err != nil {
		return err
	}
	type need struct{ dir, sibling string }
	checked := make(map[need]bool)
	for _, u := range uses {
		n := need{t.owner(u.by), modulePath(t.owner(u.of))}
		if modulePath(n.dir) != n.sibling && !slices.Contains(t.mods[n.dir].siblings(), n.sibling) && !checked[n] {
			report("%s imports %s, but its go.mod does not require %s", u.by, u.of, n.sibling)
		}
		checked[n] = true
	}
	return errors.Join(wrong...)
}

// set writes the next version of the siblings, and their folders, into every go.mod.
func (t *tree) set() error {
	for _, dir := range t.folders() {
		var args []string
		for _, sibling := range t.mods[dir].siblings() {
			args = append(args, "-require="+sibling+"@"+version)
		}
		for _, sibling := range t.closure(dir) {
			args = append(args, "-replace="+sibling+"="+relative(dir, sibling))
		}
		if err := edit(filepath.Join(t.dir, dir, "go.mod"), args); err != nil {
			return err
		}
	}
	return nil
}

// strip removes the replace lines for siblings from the modules that are published. If a module has such a line,
// go install refuses its commands.
func (t *tree) strip() error {
	for _, dir := range published {
		if err := edit(filepath.Join(t.dir, dir, "go.mod"), t.mods[dir].dropReplace()); err != nil {
			return err
		}
	}
	return nil
}

// dropReplace returns the arguments of go mod edit that remove the replace lines for siblings.
func (m goMod) dropReplace() []string {
	var args []string
	for _, r := range m.Replace {
		if isSibling(r.Old.Path) {
			args = append(args, "-dropreplace="+r.Old.Path)
		}
	}
	return args
}

// edit changes a go.mod by go mod edit.
func edit(name string, args []string) error {
	if len(args) == 0 {
		return nil
	}
	_, err := output(filepath.Dir(name), nil, "go", append([]string{"mod", "edit"}, append(args, name)...)...)
	return err
}

// output runs a program and returns what it writes to standard output.
func output(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var errText strings.Builder
	cmd.Stderr = &errText
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("in %s: %v: %w\n%s%s", dir, cmd, err, errText.String(), text)
	}
	return text, nil
}

// notes writes the CHANGELOG's entry for the next version.
func (t *tree) notes(w io.Writer) error {
	text, err := os.ReadFile(filepath.Join(t.dir, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	heading := "\n## " + strings.TrimPrefix(version, "v")
	_, rest, ok := strings.Cut(string(text), heading)
	if !ok {
		return fmt.Errorf("CHANGELOG.md has no entry for %s", version)
	}
	_, rest, _ = strings.Cut(rest, "\n")
	entry, _, _ := strings.Cut(rest, "\n## ")
	_, err = fmt.Fprintln(w, strings.TrimSpace(entry))
	return err
}
