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

// apidiff writes a module's API into a file, and compares two such files.
const apidiff = "golang.org/x/exp/cmd/apidiff@v0.0.0-20251023183803-a4bb9ffd2546"

// api compares the API of each published module, and of the internal packages that another one needs, with the last
// release. If a change breaks users, it is an error, unless the next version has a greater minor version (before 1.0)
// or a greater major version.
func (t *tree) api() error {
	tags, err := output(t.dir, nil, "git", "tag", "--list", "v*")
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
	dir, err := os.MkdirTemp("", "snowflake-api")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	old := filepath.Join(dir, "old")
	if _, err := output(t.dir, nil, "git", "clone", "--quiet", "--shared", "--branch", last, ".", old); err != nil {
		return err
	}

	broken, err := t.broken(dir, last)
	if err != nil {
		return err
	}
	switch {
	case broken == "":
		fmt.Println("no incompatible changes since", last)
	case mayBreak(last, version):
		fmt.Printf("incompatible changes since %s; %s may have them if CHANGELOG.md names them:\n%s", last, version, broken)
	default:
		return fmt.Errorf("incompatible changes since %s; %s must not have them:\n%s", last, version, broken)
	}
	return nil
}

// broken returns the changes since the last release that break users. The release's copy is in the folder old of dir.
func (t *tree) broken(dir, last string) (string, error) {
	old, err := readTree(filepath.Join(dir, "old"))
	if err != nil {
		return "", err
	}
	var broken strings.Builder
	compare := func(mode, importPath string) error {
		changes, err := incompatible(dir, old.dir, t.dir, mode, importPath)
		if len(changes) > 0 {
			fmt.Fprintf(&broken, "%s:\n%s", importPath, changes)
		}
		return err
	}
	for _, module := range published {
		if _, ok := old.mods[module]; !ok {
			fmt.Printf("%s is new since %s\n", modulePath(module), last)
		} else if err := compare("-m", modulePath(module)); err != nil {
			return "", err
		}
	}
	shared, err := old.shared()
	if err != nil {
		return "", err
	}
	for _, pkg := range shared {
		if _, err := os.Stat(filepath.Join(t.dir, folder(pkg))); err != nil {
			fmt.Fprintf(&broken, "%s: removed\n", pkg)
		} else if err := compare("-allow-internal", pkg); err != nil {
			return "", err
		}
	}
	return broken.String(), nil
}

// incompatible returns the changes from the old tree to the new one that break users. With mode -m it compares all
// packages of a module that are not internal, with -allow-internal one package.
func incompatible(dir, oldDir, newDir, mode, importPath string) ([]byte, error) {
	var files []string
	for i, from := range []string{oldDir, newDir} {
		file := filepath.Join(dir, strconv.Itoa(i))
		module := filepath.Join(from, folder(importPath))
		if _, err := output(module, []string{"GOFLAGS="}, "go", "run", apidiff, mode, "-w", file, importPath); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	changes, err := output(dir, nil, "go", "run", apidiff, mode, "-incompatible", files[0], files[1])
	return bytes.TrimLeft(changes, "\n"), err
}

// lastRelease returns the greatest version of tags. If the next version is among the tags of this commit, this is its
// release, and lastRelease returns an earlier one. If there is none, it returns false.
func lastRelease(tags, here []string) (string, bool) {
	released := slices.Contains(here, version)
	tags = slices.DeleteFunc(tags, func(tag string) bool { return tag == version && released || len(numbers(tag)) != 3 })
	if len(tags) == 0 {
		return "", false
	}
	return slices.MaxFunc(tags, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }), true
}

// mayBreak reports whether a version may break users of the last one.
func mayBreak(last, next string) bool {
	from, to := numbers(last), numbers(next)
	return to[0] > from[0] || to[0] == 0 && to[1] > from[1]
}

// numbers returns the numbers of a text such as v1.2.3. If the text has another form, it returns nil.
func numbers(version string) []int {
	var all []int
	for text := range strings.SplitSeq(strings.TrimPrefix(version, "v"), ".") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return all
}
