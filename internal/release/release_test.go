package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// repository returns the tree that this package is in. If it is not a clone of the repository, repository skips the
// test, or fails it in CI.
func repository(t *testing.T) *tree {
	t.Helper()
	if _, err := os.Stat("../../.git"); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the other modules are not here: run this test in a clone of the repository")
	}
	tree, err := readTree("../..")
	require.NoError(t, err)
	return tree
}

func TestEveryModuleRequiresItsSiblingsAtTheNextVersion(t *testing.T) {
	require.NoError(t, repository(t).check())
}

func TestCheckNamesEachWrongRequirement(t *testing.T) {
	tree := repository(t)
	metrics := tree.mods["metrics"]
	metrics.Require = slices.Clone(metrics.Require)
	for i, r := range metrics.Require {
		if r.Path == root {
			metrics.Require[i].Version = "v0.0.0"
		}
	}
	metrics.Replace = nil
	tree.mods["metrics"] = metrics
	redis := tree.mods["lease/redislease"]
	redis.Replace = slices.Clone(redis.Replace)
	redis.Replace[0].Old.Path = "example.com/driver"
	tree.mods["lease/redislease"] = redis
	tree.mods["lease/zklease"] = goMod{Module: tree.mods["lease/zklease"].Module}
	tree.mods["lease/newlease"] = goMod{}

	err := tree.check()
	assert.ErrorContains(t, err, "metrics/go.mod requires "+root+" v0.0.0, not "+version)
	assert.ErrorContains(t, err, "metrics/go.mod replaces "+root+` by "", not by ".."`)
	assert.ErrorContains(t, err, "lease/redislease/go.mod replaces example.com/driver: ")
	assert.ErrorContains(t, err, "but its go.mod does not require "+root)
	assert.Equal(t, 1, strings.Count(err.Error(), "does not require"), err)
	assert.ErrorContains(t, err, "lease/newlease is a new module")
}

func TestSharedPackagesAreInternalOnesOfOtherModules(t *testing.T) {
	shared, err := repository(t).shared()
	require.NoError(t, err)
	assert.Equal(t, "holding jsontime shown sqltext texts vmclock", strings.ReplaceAll(strings.Join(shared, " "), root+"/internal/", ""),
		"internal/servertest is for tests, and internal/link for the root module alone")
}

func TestArchiveHasTheFilesOfOneModule(t *testing.T) {
	tree := &tree{dir: "../..", mods: repository(t).mods}
	files := []string{"README.md", "go.mod", "lease/doc.go", "lease/redislease/README.md", "lease/redislease/go.mod", "x/vendor/y.go"}
	for module, want := range map[string][]string{
		".":                {"README.md", "go.mod", "lease/doc.go", "LICENSE"},
		"lease/redislease": {"README.md", "go.mod", "LICENSE"},
	} {
		mod, err := tree.publishedMod(module)
		require.NoError(t, err)
		assert.NotContains(t, string(mod), "replace")
		archive, err := tree.zip(module, mod, files)
		require.NoError(t, err)
		r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		require.NoError(t, err)
		var got []string
		for _, f := range r.File {
			name, ok := strings.CutPrefix(f.Name, modulePath(module)+"@"+version+"/")
			require.True(t, ok, f.Name)
			got = append(got, name)
		}
		assert.Equal(t, want, got, module)
	}
}

func TestProgramsOfREADMEAreTakenAndFragmentsAreNot(t *testing.T) {
	page := "```go\npackage main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(1) }\n```\n" +
		"```go\nid, err := gen.NextID()\n```\n" +
		"```go\npackage main\n\nimport _ \"net/http\"\n\nfunc main() {}\n```\n"
	programs := readmePrograms("README.md", page, t.TempDir())
	require.Len(t, programs, 2)
	assert.True(t, programs[0].runs)
	assert.False(t, programs[1].runs, "it may serve for ever")
}

func TestLastReleaseIsTheGreatestVersion(t *testing.T) {
	tags := []string{"v0.0.9", "v0.0.10", "v0.0.11-rc.1", "vnext"}
	last, ok := lastRelease(tags, nil)
	assert.True(t, ok)
	assert.Equal(t, "v0.0.10", last)
	_, ok = lastRelease(nil, nil)
	assert.False(t, ok)
}

func TestLastReleaseIsTheNextVersionOnceItHasATag(t *testing.T) {
	tags := []string{"v0.0.10", version}
	last, ok := lastRelease(slices.Clone(tags), nil)
	assert.True(t, ok)
	assert.Equal(t, version, last, "a later commit without a new version")
	last, ok = lastRelease(slices.Clone(tags), []string{version})
	assert.True(t, ok)
	assert.Equal(t, "v0.0.10", last, "the release's own commit")
	_, ok = lastRelease([]string{version}, []string{version})
	assert.False(t, ok)
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

// A release's programs come with checksums and with the modules that are in them.
func TestBinariesHaveChecksumsAndTheirModules(t *testing.T) {
	tree, dir := repository(t), t.TempDir()
	was := commands
	defer func() { commands = was }()
	commands = []string{"cmd/snowflake"} // the other one is large
	host := runtime.GOOS + "/" + runtime.GOARCH
	require.NoError(t, tree.binaries(dir, []string{host}))
	name := "snowflake-" + version + "-" + strings.ReplaceAll(host, "/", "-")
	program := name
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	want := ""
	for _, file := range []string{program, name + ".cdx.json"} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256(b), file)
	}
	assert.Equal(t, want, string(sums))
	out, err := exec.Command(filepath.Join(dir, program), "new").Output()
	require.NoError(t, err)
	assert.Regexp(t, `^\d+\n$`, string(out))

	b, err := os.ReadFile(filepath.Join(dir, name+".cdx.json"))
	require.NoError(t, err)
	var bill struct {
		BomFormat, SpecVersion string
		Metadata               struct{ Component component }
		Components             []component
	}
	require.NoError(t, json.Unmarshal(b, &bill))
	assert.Equal(t, "pkg:golang/"+root+"/cmd/snowflake@"+version, bill.Metadata.Component.PURL)
	std := strings.TrimPrefix(runtime.Version(), "go")
	assert.Equal(t, component{"library", "pkg:golang/stdlib@" + std, "stdlib", std, "pkg:golang/stdlib@" + std}, bill.Components[0])
	for _, c := range bill.Components {
		assert.Regexp(t, `^v?\d+\.\d+`, c.Version, c.Name)
	}
	_, err = billOf("release_test.go")
	require.Error(t, err)
}
