package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// version is the version of all modules in the next release. After a change, run go run
// ./internal/lab/release set.
const version = "v0.1.0"

const root = "github.com/seed-5394e6b1/snowflake"

// unpublished has the folders of the modules that are not released: benchmarks, tests, and programs
// to copy.
var unpublished = []string{
	"bench",
	"examples",
	"internal/lab/drivers",
}

// A goMod is a go.mod as go mod edit -json prints it, as far as this program needs it.
type goMod struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
	Replace []struct{ Old, New struct{ Path string } }
}

// A tree is a copy of the repository.
type tree struct {
	dir  string
	mods map[string]goMod // by the module's folder
}

// readTree reads the modules that go.work lists.
func readTree(dir string) (*tree, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var work struct{ Use []struct{ DiskPath string } }
	if err := readJSON(&work, dir, "go", "work", "edit", "-json", filepath.Join(dir, "go.work")); err != nil {
		return nil, err
	}
	t := &tree{dir: dir, mods: make(map[string]goMod)}
	for _, use := range work.Use {
		var mod goMod
		if err := readJSON(&mod, dir, "go", "mod", "edit", "-json", filepath.Join(dir, use.DiskPath, "go.mod")); err != nil {
			return nil, err
		}
		t.mods[path.Clean(use.DiskPath)] = mod
	}
	return t, nil
}

// folders returns the sorted folders of all modules.
func (t *tree) folders() []string { return slices.Sorted(maps.Keys(t.mods)) }

// published returns the sorted folders of the published modules, the root first.
func (t *tree) published() []string {
	return slices.DeleteFunc(t.folders(), func(dir string) bool { return slices.Contains(unpublished, dir) })
}

// modulePath returns the path of the module in a folder.
func modulePath(dir string) string { return path.Join(root, dir) }

// folder returns the folder of a module of this repository.
func folder(modulePath string) string { return path.Join(".", strings.TrimPrefix(modulePath, root)) }

func isSibling(p string) bool { return p == root || strings.HasPrefix(p, root+"/") }

// closure returns the folders of the siblings that the module in a folder requires, directly or
// indirectly.
func (t *tree) closure(dir string) []string {
	var found []string
	var add func(dir string)
	add = func(dir string) {
		for _, r := range t.mods[dir].Require {
			if sibling := folder(r.Path); isSibling(r.Path) && !slices.Contains(found, sibling) {
				found = append(found, sibling)
				add(sibling)
			}
		}
	}
	add(dir)
	return found
}

// siblings returns the arguments of go mod edit that set the version and the folder of each
// required sibling, and remove the folders of other siblings.
func (t *tree) siblings(dir string) []string {
	var args []string
	for _, r := range t.mods[dir].Require {
		if isSibling(r.Path) {
			args = append(args, "-require="+r.Path+"@"+version)
		}
	}
	needed := t.closure(dir)
	for _, r := range t.mods[dir].Replace {
		if isSibling(r.Old.Path) && !slices.Contains(needed, folder(r.Old.Path)) {
			args = append(args, "-dropreplace="+r.Old.Path)
		}
	}
	for _, sibling := range needed {
		to, err := filepath.Rel(dir, sibling)
		if err != nil {
			panic(err) // both are relative
		}
		args = append(args, "-replace="+modulePath(sibling)+"="+filepath.ToSlash(to))
	}
	return args
}

// check returns an error with all wrong requirements between the modules. Whether a module requires
// what it imports is checked by go mod tidy.
func (t *tree) check() error {
	var wrong []error
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for _, dir := range unpublished {
		if _, ok := t.mods[dir]; !ok {
			report("internal/lab/release/modules.go lists %s, but go.work does not", dir)
		}
	}
	for dir, mod := range t.mods {
		if mod.Module.Path != modulePath(dir) {
			report("%s/go.mod: the module is called %s, not %s", dir, mod.Module.Path, modulePath(dir))
		}
		now, err := os.ReadFile(filepath.Join(t.dir, dir, "go.mod"))
		if err != nil {
			return err
		}
		set, err := t.edit(dir, append([]string{"-print"}, t.siblings(dir)...)...)
		if err != nil {
			return err
		}
		if !bytes.Equal(bytes.ReplaceAll(now, []byte("\r\n"), []byte("\n")), set) {
			report("%s/go.mod does not have its siblings at %s and in their folders: go run ./internal/lab/release set", dir, version)
		}
	}
	for _, dir := range t.published() {
		for _, r := range t.mods[dir].Replace {
			if !isSibling(r.Old.Path) {
				report("%s/go.mod replaces %s: users would get another module than the tests", dir, r.Old.Path)
			}
		}
		for _, sibling := range t.closure(dir) {
			if slices.Contains(unpublished, sibling) {
				report("%s requires %s, which internal/lab/release/modules.go does not publish", dir, sibling)
			}
		}
	}
	return errors.Join(wrong...)
}

// set writes the version of the siblings, and their folders, into every go.mod.
func (t *tree) set() error {
	for dir := range t.mods {
		if args := t.siblings(dir); args != nil {
			if _, err := t.edit(dir, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// strip removes the replace lines for siblings from the published modules, because go install
// refuses modules with such lines.
func (t *tree) strip() error {
	for _, dir := range t.published() {
		for _, r := range t.mods[dir].Replace {
			if !isSibling(r.Old.Path) {
				continue
			}
			if _, err := t.edit(dir, "-dropreplace="+r.Old.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// edit changes a module's go.mod with go mod edit.
func (t *tree) edit(dir string, args ...string) ([]byte, error) {
	return output(filepath.Join(t.dir, dir), nil, "go", slices.Concat([]string{"mod", "edit"}, args, []string{"go.mod"})...)
}

// readJSON decodes a program's standard output.
func readJSON(to any, dir, name string, args ...string) error {
	text, err := output(dir, nil, name, args...)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// output runs a program and returns its standard output.
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
