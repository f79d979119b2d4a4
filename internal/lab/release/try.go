package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// try tags a clone of the repository, and uses its modules as users do: it gets and builds each
// module alone, and all modules together, and installs the commands. (docs_test.go builds the
// programs of the READMEs.)
func (t *tree) try() error {
	dir, err := os.MkdirTemp("", "snowflake-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	clone := filepath.Join(dir, "clone")
	if err := t.tag(clone); err != nil {
		return err
	}
	env, err := t.userEnv(dir, clone)
	if err != nil {
		return err
	}
	for _, module := range t.published() {
		if err := use(filepath.Join(dir, "alone", module), env, module); err != nil {
			return err
		}
	}
	if err := use(filepath.Join(dir, "all"), env, t.published()...); err != nil {
		return err
	}
	for _, command := range []string{"cmd/snowflake", "cmd/snowflaked"} {
		if _, err := output(dir, env, "go", "install", modulePath(command)+"@"+version); err != nil {
			return err
		}
		if _, err := output(dir, nil, filepath.Join(dir, "bin", path.Base(command)), "-h"); err != nil {
			return err
		}
	}
	return nil
}

// author has the environment variables of a commit's author.
var author = []string{"GIT_AUTHOR_NAME=try", "GIT_AUTHOR_EMAIL=try", "GIT_COMMITTER_NAME=try", "GIT_COMMITTER_EMAIL=try"}

// tag makes a clone of the repository, with its uncommitted changes, and tags it as a release.
func (t *tree) tag(clone string) error {
	git := func(dir string, args ...string) (string, error) {
		text, err := output(dir, author, "git", args...)
		return strings.TrimSpace(string(text)), err
	}
	// This makes a commit of the changes, and leaves the work tree unchanged.
	commit, err := git(t.dir, "stash", "create")
	if err != nil {
		return err
	}
	if commit == "" {
		commit = "HEAD"
	}
	if _, err := git(t.dir, "clone", "--quiet", "--shared", "--no-tags", ".", clone); err != nil {
		return err
	}
	if _, err := git(clone, "checkout", "--quiet", "--detach", commit); err != nil {
		return err
	}
	cloned, err := readTree(clone)
	if err != nil {
		return err
	}
	if err := cloned.strip(); err != nil {
		return err
	}
	if _, err := git(clone, "-c", "commit.gpgsign=false", "commit", "--quiet", "--all", "--message", "release"); err != nil {
		return err
	}
	for _, module := range t.published() {
		if _, err := git(clone, "tag", path.Join(module, version)); err != nil {
			return err
		}
	}
	return nil
}

// userEnv returns the environment of a user's go command that gets this repository from a clone. It
// has a separate module cache, so that no other program sees this release. Each copy of the
// repository has its own cache, because go reuses compiled packages only in the same folder. Other
// modules come from the usual module cache or, if it does not have them, from the usual proxy.
func (t *tree) userEnv(dir, clone string) ([]string, error) {
	var usual struct{ GOMODCACHE, GOPROXY, GONOSUMDB string }
	if err := readJSON(&usual, t.dir, "go", "env", "-json"); err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	hash := fnv.New32a()
	hash.Write([]byte(t.dir))
	mod := filepath.Join(cache, "snowflake", fmt.Sprintf("release-%08x", hash.Sum32()))
	owner := path.Dir(root)
	for _, old := range []string{owner, "cache/download/" + owner, "cache/vcs"} {
		if err := os.RemoveAll(filepath.Join(mod, filepath.FromSlash(old))); err != nil {
			return nil, err
		}
	}
	file := func(dir string) string { return "file://" + filepath.ToSlash(dir) }
	return []string{
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + file(clone) + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + root,
		"GOPRIVATE=", "GONOPROXY=" + root, "GONOSUMDB=" + strings.Trim(usual.GONOSUMDB+","+root, ","),
		"GOPROXY=" + file(filepath.Join(usual.GOMODCACHE, "cache", "download")) + "," + usual.GOPROXY,
		"GOWORK=off", "GOMODCACHE=" + mod, "GOFLAGS=-mod=mod -modcacherw", "GOBIN=" + filepath.Join(dir, "bin"),
		// Go's index of the modules in the cache would be wrong: this release's files change.
		"GODEBUG=goindex=0",
	}, nil
}

// use gets modules into a new module, and builds all their packages there.
func use(dir string, env []string, modules ...string) error {
	start := time.Now()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// list -export compiles packages without linking programs.
	get, build := []string{"get"}, []string{"list", "-export"}
	for _, module := range modules {
		get = append(get, modulePath(module)+"/...@"+version)
		build = append(build, modulePath(module)+"/...")
	}
	var failed error
	for _, args := range [][]string{{"mod", "init", "example.com/user"}, get, build} {
		if _, err := output(dir, env, "go", args...); err != nil {
			failed = errors.Join(failed, err)
			break
		}
	}
	fmt.Printf("%.1fs  %s\n", time.Since(start).Seconds(), strings.Join(modules, " "))
	return failed
}
