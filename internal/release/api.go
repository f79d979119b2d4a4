package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// apidiff writes a module's API into a file, and compares two such files.
const apidiff = "golang.org/x/exp/cmd/apidiff@v0.0.0-20251023183803-a4bb9ffd2546"

// api compares the API of each published module, and of the internal packages that another one needs, with the last
// release. If a change breaks users, it is an error, unless the next version has a greater minor version (before 1.0)
// or a greater major version.
func (t *tree) api() error {
	tags, err := output(t.dir, nil, "git", "tag", "--list", "v*.*.*", "--sort=-version:refname")
	if err != nil {
		return err
	}
	here, err := output(t.dir, nil, "git", "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	last, ok := lastRelease(strings.Fields(string(tags)), strings.Fields(string(here)))
	if !ok {
		fmt.Println("no release yet: there is no API to keep")
		return nil
	}
	broken, err := t.broken(last)
	switch {
	case err != nil:
		return err
	case broken == "":
		fmt.Println("no incompatible changes since", last)
	case mayBreak(last, version):
		fmt.Printf("incompatible changes since %s; %s may have them if CHANGELOG.md names them:\n%s", last, version, broken)
	default:
		return fmt.Errorf("incompatible changes since %s; %s must not have them:\n%s", last, version, broken)
	}
	return nil
}

// broken returns the changes since a release that break users.
func (t *tree) broken(last string) (string, error) {
	dir, err := os.MkdirTemp("", "snowflake-api")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if _, err := output(t.dir, nil, "git", "clone", "--quiet", "--shared", "--branch", last, ".", filepath.Join(dir, "old")); err != nil {
		return "", err
	}
	old, err := readTree(filepath.Join(dir, "old"))
	if err != nil {
		return "", err
	}
	shared, err := old.shared()
	if err != nil {
		return "", err
	}
	var broken strings.Builder
	compare := func(mode, importPath string) error {
		if _, err := os.Stat(filepath.Join(t.dir, folder(importPath))); err != nil {
			fmt.Fprintf(&broken, "%s: removed\n", importPath)
			return nil
		}
		var files []string
		for i, from := range []string{old.dir, t.dir} {
			files = append(files, filepath.Join(dir, strconv.Itoa(i)))
			in := filepath.Join(from, folder(importPath))
			if _, err := output(in, []string{"GOFLAGS="}, "go", "run", apidiff, mode, "-w", files[i], importPath); err != nil {
				return err
			}
		}
		changes, err := output(dir, nil, "go", "run", apidiff, mode, "-incompatible", files[0], files[1])
		if changes = bytes.TrimLeft(changes, "\n"); len(changes) > 0 {
			fmt.Fprintf(&broken, "%s:\n%s", importPath, changes)
		}
		return err
	}
	for _, module := range old.published() {
		if err := compare("-m", modulePath(module)); err != nil { // all packages that are not internal
			return "", err
		}
	}
	for _, pkg := range shared {
		if err := compare("-allow-internal", pkg); err != nil {
			return "", err
		}
	}
	return broken.String(), nil
}

// shared returns the internal packages that a user's build of one published module needs from another module. They
// must stay compatible, because the user may update the other module alone.
func (t *tree) shared() ([]string, error) {
	lines, err := output(t.dir, nil, "go", "list", "-f", `{{.ImportPath}}|{{join .Imports " "}}|{{join .Deps " "}}`, root+"/...")
	if err != nil {
		return nil, err
	}
	isInternal := func(pkg string) bool { return slices.Contains(strings.Split(pkg, "/"), "internal") }
	imports, needed := make(map[string]string), make(map[string]bool) // needed by a package that users import or install
	for line := range strings.Lines(string(lines)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		imports[f[0]] = f[1]
		if !isInternal(f[0]) && slices.Contains(t.published(), t.owner(f[0])) {
			for _, pkg := range append(strings.Fields(f[2]), f[0]) {
				needed[pkg] = true
			}
		}
	}
	var shared []string
	for by := range needed {
		for _, pkg := range strings.Fields(imports[by]) {
			if isSibling(pkg) && isInternal(pkg) && t.owner(pkg) != t.owner(by) {
				shared = append(shared, pkg)
			}
		}
	}
	slices.Sort(shared)
	return slices.Compact(shared), nil
}

// owner returns the folder of the module that a package belongs to.
func (t *tree) owner(pkg string) string {
	dir := folder(pkg)
	for ; dir != "."; dir = path.Dir(dir) {
		if _, ok := t.mods[dir]; ok {
			break
		}
	}
	return dir
}

// lastRelease returns the first of tags, the greatest version. If the next version is among the tags of this commit,
// this is its release, and lastRelease returns an earlier one. If there is none, it returns false.
func lastRelease(tags, here []string) (string, bool) {
	for _, tag := range tags {
		if !strings.Contains(tag, "-") && (tag != version || !slices.Contains(here, version)) {
			return tag, true
		}
	}
	return "", false
}

// mayBreak reports whether a version may break users of the last one.
func mayBreak(last, next string) bool {
	from, to := strings.Split(last, "."), strings.Split(next, ".")
	return to[0] != from[0] || to[0] == "v0" && to[1] != from[1]
}
