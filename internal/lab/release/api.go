package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// apidiff is a program that writes a module's API to a file, and compares two such files.
const apidiff = "golang.org/x/exp/cmd/apidiff@v0.0.0-20251023183803-a4bb9ffd2546"

// api compares the API of each published module, and of the internal packages that other modules
// import, with the last release. It returns an error if a change breaks users, unless the next
// version has a greater major version or, before 1.0, a greater minor version.
func (t *tree) api() error {
	last, err := t.lastRelease()
	if err != nil {
		return err
	}
	if last == "" {
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

// broken returns the incompatible changes since a release.
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
		// With -m, apidiff compares all packages except internal ones.
		if err := compare("-m", modulePath(module)); err != nil {
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

// shared returns the internal packages of published modules that other ones import. They must stay
// compatible, because a user may update one module alone. Packages for tests, which import testing,
// do not count.
func (t *tree) shared() ([]string, error) {
	lines, err := output(t.dir, nil, "go", "list", "-f", `{{.Module.Path}} {{join .Imports " "}}`, root+"/...")
	if err != nil {
		return nil, err
	}
	var shared []string
	for _, line := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
		imports := strings.Fields(line)
		module := imports[0]
		if module == root || !slices.Contains(t.published(), folder(module)) || slices.Contains(imports, "testing") {
			continue
		}
		for _, pkg := range imports[1:] {
			if isSibling(pkg) && slices.Contains(strings.Split(pkg, "/"), "internal") && !strings.HasPrefix(pkg, module+"/") {
				shared = append(shared, pkg)
			}
		}
	}
	slices.Sort(shared)
	return slices.Compact(shared), nil
}

// lastRelease returns the greatest version with a tag, or "" if there is none. Releases that
// contain this commit do not count.
func (t *tree) lastRelease() (string, error) {
	tags, err := output(t.dir, nil, "git", "tag", "--list", "v*.*.*", "--no-contains", "HEAD", "--sort=-version:refname")
	for _, tag := range strings.Fields(string(tags)) {
		if !strings.Contains(tag, "-") {
			return tag, nil
		}
	}
	return "", err
}

// mayBreak reports whether a version may break users of the last one.
func mayBreak(last, next string) bool {
	from, to := strings.Split(last, "."), strings.Split(next, ".")
	return to[0] != from[0] || to[0] == "v0" && to[1] != from[1]
}
