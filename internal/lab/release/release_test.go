package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"
)

// repository returns this package's repository. If there is no clone, it skips the test, or fails
// it in CI.
func repository(t *testing.T) *tree {
	t.Helper()
	if _, err := os.Stat("../../../.git"); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the other modules are not here: run this test in a clone of the repository")
	}
	tree, err := readTree("../../..")
	require.NoError(t, err)
	return tree
}

func TestEveryModuleRequiresItsSiblingsAtTheNextVersion(t *testing.T) {
	require.NoError(t, repository(t).check())
}

// modules writes modules to a folder, with the lines of their go.mod.
func modules(t *testing.T, mods map[string]string) *tree {
	t.Helper()
	dir, work := t.TempDir(), "go 1.26.0\n"
	for name, lines := range mods {
		work += "use ./" + name + "\n"
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "go.mod"), []byte("module "+modulePath(name)+"\n"+lines), 0o600))
	}
	for _, name := range unpublished {
		work += "use ./" + name + "\n"
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "go.mod"), []byte("module "+modulePath(name)+"\n"), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.work"), []byte(work), 0o600))
	tree, err := readTree(dir)
	require.NoError(t, err)
	return tree
}

func TestSetMendsWhatCheckReports(t *testing.T) {
	tree := modules(t, map[string]string{
		".":          "",
		"metrics":    "\nrequire " + root + " v0.0.9\n",
		"server/cmd": "\nrequire " + root + "/metrics " + version + "\n\nreplace " + root + "/metrics => ../../metrics\n",
	})
	err := tree.check()
	assert.ErrorContains(t, err, "metrics/go.mod does not have its siblings at "+version)
	assert.ErrorContains(t, err, "server/cmd/go.mod does not have its siblings", "the root, which metrics requires")
	require.NoError(t, tree.set())
	tree, err = readTree(tree.dir)
	require.NoError(t, err)
	require.NoError(t, tree.check())
	assert.Equal(t, version, tree.mods["metrics"].Require[0].Version)
	assert.Equal(t, "../..", tree.mods["server/cmd"].Replace[1].New.Path)

	require.NoError(t, tree.strip())
	tree, err = readTree(tree.dir)
	require.NoError(t, err)
	assert.Empty(t, tree.mods["metrics"].Replace)
	assert.Empty(t, tree.mods["server/cmd"].Replace)
}

func TestCheckNamesWhatSetCannotMend(t *testing.T) {
	tree := modules(t, map[string]string{
		".":       "",
		"metrics": "\nrequire " + root + "/bench " + version + "\n\nreplace example.com/driver => ../driver\n",
	})
	require.NoError(t, tree.set())
	delete(tree.mods, "examples")
	lost := tree.mods["bench"]
	lost.Module.Path = "example.com/bench"
	tree.mods["bench"] = lost
	err := tree.check()
	assert.ErrorContains(t, err, "metrics/go.mod replaces example.com/driver: ")
	assert.ErrorContains(t, err, "metrics requires bench, which internal/lab/release/modules.go does not publish")
	assert.ErrorContains(t, err, "bench/go.mod: the module is called example.com/bench, not "+root+"/bench")
	assert.ErrorContains(t, err, "internal/lab/release/modules.go lists examples, but go.work does not")
	assert.NotContains(t, err.Error(), "siblings")
}

func TestSharedPackagesAreInternalOnesOfOtherModules(t *testing.T) {
	shared, err := repository(t).shared()
	require.NoError(t, err)
	assert.Equal(t, "answers audit audit/leases cause command idle input jsontime randtext sqltext texts vmclock",
		strings.ReplaceAll(strings.Join(shared, " "), root+"/internal/", ""),
		"internal/lab/servertest is for tests, and internal/netcut for the root module alone")
}

func TestLastReleaseIsNotTheReleaseOfThisCommit(t *testing.T) {
	tree := &tree{dir: t.TempDir()}
	git := func(args ...string) {
		t.Helper()
		_, err := output(tree.dir, author, "git", args...)
		require.NoError(t, err)
	}
	lastIs := func(want string) {
		t.Helper()
		last, err := tree.lastRelease()
		require.NoError(t, err)
		assert.Equal(t, want, last)
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message", "release")
	git("tag", "v0.1.9")
	lastIs("")
	git("commit", "--quiet", "--allow-empty", "--message", "release")
	git("tag", "v0.1.10")
	git("tag", "v0.1.11-rc.1")
	git("tag", "metrics/v0.1.10")
	lastIs("v0.1.9")
	git("commit", "--quiet", "--allow-empty", "--message", "a later commit")
	lastIs("v0.1.10")
}

func TestOnlyAGreaterMinorOrMajorVersionMayBreak(t *testing.T) {
	for _, v := range []struct {
		last, next string
		may        bool
	}{
		{"v0.1.0", "v0.1.1", false},
		{"v0.1.9", "v0.2.0", true},
		{"v0.9.0", "v1.0.0", true},
		{"v1.0.0", "v1.1.0", false},
		{"v1.9.0", "v2.0.0", true},
	} {
		assert.Equal(t, v.may, mayBreak(v.last, v.next), v)
	}
}

// Each action of a workflow is pinned by its commit, with the version in a comment, and the image
// that builds snowflaked by its digest. A workflow may only read, unless one of its jobs needs
// more. Dependabot proposes versions only for snowflaked and the unpublished modules, because
// programs import the others.
func TestWorkflowsTrustLittle(t *testing.T) {
	tree := repository(t)
	read := func(path string) string {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(content)
	}
	pinned := regexp.MustCompile(`uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+\n`)
	workflows, err := filepath.Glob(tree.dir + "/.github/workflows/*")
	require.NoError(t, err)
	require.NotEmpty(t, workflows)
	for _, name := range workflows {
		text := read(name)
		var w struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Timeout int `yaml:"timeout-minutes"`
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &w), name)
		assert.Len(t, pinned.FindAllString(text, -1), strings.Count(text, "uses:"), "%s: an action without a commit and a version", name)
		assert.Equal(t, strings.Count(text, "actions/checkout@"), strings.Count(text, "persist-credentials: false"), name)
		require.NotNil(t, w.Permissions, "%s: the repository's settings give the permissions", name)
		assert.Subset(t, map[string]string{"contents": "read"}, w.Permissions, name)
		for job, j := range w.Jobs {
			assert.Positive(t, j.Timeout, "%s: the job %s has no timeout", name, job)
		}
	}
	assert.Regexp(t, `golang:[\d.]+@sha256:[0-9a-f]{64} AS build\n`, read(tree.dir+"/deploy/docker/Dockerfile"))
	modules := regexp.MustCompile(`directories: \[(.*)\]\n`).FindStringSubmatch(read(tree.dir + "/.github/dependabot.yml"))
	require.NotNil(t, modules)
	assert.ElementsMatch(t, append([]string{"cmd/snowflaked"}, unpublished...),
		strings.Split(strings.ReplaceAll(modules[1], " /", "")[1:], ","))
}
