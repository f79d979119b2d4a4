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

// api compares the API of each published module with the last release. If a change breaks users, it is an error,
// unless the next version has a greater minor version (before 1.0) or a greater major version.
func (t *tree) api() error {
	text, err := output(t.dir, nil, "git", "tag", "--list", "v*")
	if err != nil {
		return err
	}
	last, ok := lastRelease(strings.Fields(string(text)))
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

	broken := ""
	for _, module := range published {
		if _, err := os.Stat(filepath.Join(old, module, "go.mod")); err != nil {
			fmt.Printf("%s is new since %s\n", modulePath(module), last)
			continue
		}
		changes, err := incompatible(dir, filepath.Join(old, module), filepath.Join(t.dir, module), modulePath(module))
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			broken += fmt.Sprintf("%s:\n%s", modulePath(module), changes)
		}
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

// incompatible returns the changes from the old module to the new one that break users. It ignores internal
// packages.
func incompatible(dir, oldDir, newDir, module string) ([]byte, error) {
	var files []string
	for i, from := range []string{oldDir, newDir} {
		file := filepath.Join(dir, strconv.Itoa(i))
		if _, err := output(from, []string{"GOFLAGS="}, "go", "run", apidiff, "-m", "-w", file, module); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	changes, err := output(dir, nil, "go", "run", apidiff, "-m", "-incompatible", files[0], files[1])
	return bytes.TrimLeft(changes, "\n"), err
}

// lastRelease returns the greatest version of tags, except the next version. If there is no other, it returns false.
func lastRelease(tags []string) (string, bool) {
	tags = slices.DeleteFunc(tags, func(tag string) bool { return tag == version || len(numbers(tag)) != 3 })
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
