package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A trial is a folder outside of the repository, in which a user gets the published modules.
type trial struct {
	tree     *tree
	dir      string
	env      []string
	packages map[string][]string // the packages to import, by the module's folder
	commands []string            // the commands to install
}

// try publishes into a folder. Then it gets each module alone, and all modules together, as a user does. It
// builds the programs of their READMEs, runs a program if it needs no server, and installs the commands.
func (t *tree) try() error {
	dir, err := os.MkdirTemp("", "snowflake-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := t.proxy(filepath.Join(dir, "proxy")); err != nil {
		return err
	}
	u := &trial{tree: t, dir: dir}
	if err := errors.Join(u.prepare(), u.list()); err != nil {
		return err
	}
	for _, module := range published {
		if err := timed(modulePath(module), func() error { return u.use(path.Join("alone", module), module) }); err != nil {
			return err
		}
	}
	if err := timed("all together", func() error { return u.use("all", published...) }); err != nil {
		return err
	}
	for _, command := range u.commands {
		if err := timed("go install "+command, func() error { return u.install(command) }); err != nil {
			return err
		}
	}
	return nil
}

func timed(name string, f func() error) error {
	start := time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Printf("ok  %s  %.1fs\n", name, time.Since(start).Seconds())
	return nil
}

// prepare chooses the environment of the user's go command. The command has a separate module cache, so that no
// other program ever sees this release. Each copy of the repository has its own cache, because go finds compiled
// packages again only if they are in the same folder. If the usual module cache has the other modules, they come
// from there, else from the usual proxy.
func (u *trial) prepare() error {
	text, err := output(u.tree.dir, nil, "go", "env", "GOMODCACHE", "GOPROXY", "GONOSUMDB")
	if err != nil {
		return err
	}
	usual := strings.Split(string(text), "\n")
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	hash := fnv.New32a()
	hash.Write([]byte(u.tree.dir))
	mod := filepath.Join(cache, "snowflake", fmt.Sprintf("release-%08x", hash.Sum32()))
	owner := path.Dir(root)
	for _, old := range []string{filepath.Join(mod, owner), filepath.Join(mod, "cache", "download", owner)} {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	proxies := []string{
		"file://" + filepath.ToSlash(filepath.Join(u.dir, "proxy")),
		"file://" + filepath.ToSlash(filepath.Join(usual[0], "cache", "download")),
	}
	for _, proxy := range strings.FieldsFunc(usual[1], func(r rune) bool { return r == ',' || r == '|' }) {
		if proxy != "direct" && proxy != "off" { // the repository itself has no such tag yet
			proxies = append(proxies, proxy)
		}
	}
	u.env = []string{
		"GOWORK=off", "GOMODCACHE=" + mod, "GOPROXY=" + strings.Join(proxies, ","),
		"GONOSUMDB=" + strings.Trim(usual[2]+","+root, ","), "GOPRIVATE=", "GONOPROXY=",
		"GOFLAGS=-mod=mod -modcacherw", "GOBIN=" + filepath.Join(u.dir, "bin"),
		"GODEBUG=goindex=0", // go keeps an index of each module in the cache, and this release has other files each time
	}
	return nil
}

// list finds the packages and commands of the published modules.
func (u *trial) list() error {
	u.packages = make(map[string][]string)
	for _, module := range published {
		text, err := output(filepath.Join(u.tree.dir, module), nil, "go", "list", "-f", "{{.Name}} {{.ImportPath}} {{len .GoFiles}}", "./...")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			name, importPath, files := fields[0], fields[1], fields[2]
			elements := strings.Split(importPath, "/")
			switch {
			case name == "main" && slices.Contains(elements, "cmd"):
				u.commands = append(u.commands, importPath)
			case name != "main" && files != "0" && !slices.Contains(elements, "internal"):
				u.packages[module] = append(u.packages[module], importPath)
			}
		}
	}
	return nil
}

// use gets modules into a new module, and builds and runs programs there.
func (u *trial) use(name string, modules ...string) error {
	dir := filepath.Join(u.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	programs, err := u.programs(modules)
	if err != nil {
		return err
	}
	for _, p := range programs {
		if err := p.write(dir); err != nil {
			return err
		}
	}
	get := []string{"get"}
	for _, module := range modules {
		get = append(get, modulePath(module)+"@"+version)
	}
	for _, args := range [][]string{{"mod", "init", "example.com/user"}, get, {"mod", "tidy"}, {"build", "-o", os.DevNull, "./..."}} {
		if _, err := output(dir, u.env, "go", args...); err != nil {
			return err
		}
	}
	for _, p := range programs {
		if p.runs {
			if err := u.run(dir, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// programs returns the programs that are built with some modules: a package that imports all packages of the
// modules, and the programs of their READMEs.
func (u *trial) programs(modules []string) ([]program, error) {
	var imports strings.Builder
	for _, module := range modules {
		for _, importPath := range u.packages[module] {
			fmt.Fprintf(&imports, "import _ %q\n", importPath)
		}
	}
	programs := []program{{name: "imports", source: "package imports\n\n" + imports.String()}}
	for _, module := range modules {
		text, err := os.ReadFile(filepath.Join(u.tree.dir, module, "README.md"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		programs = append(programs, readmePrograms(path.Join(module, "README.md"), string(text), u.dir)...)
	}
	return programs, nil
}

// run runs a program of a README.
func (u *trial) run(dir string, p program) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	bin := filepath.Join(dir, "program")
	if _, err := output(dir, u.env, "go", "build", "-o", bin, "./"+p.name); err != nil {
		return err
	}
	text, err := exec.CommandContext(ctx, bin).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", p.origin, err, text)
	}
	fmt.Printf("    %s: ran, and wrote %d bytes\n", p.origin, len(text))
	return nil
}

// install installs a command as a user does, and asks it for its version if it has a command for that.
func (u *trial) install(command string) error {
	if _, err := output(u.dir, u.env, "go", "install", command+"@"+version); err != nil {
		return err
	}
	bin := filepath.Join(u.dir, "bin", path.Base(command))
	text, err := output(u.dir, nil, "go", "version", "-m", bin)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), version) {
		return fmt.Errorf("%s was not built of %s:\n%s", bin, version, text)
	}
	if _, err := output(u.dir, nil, bin, "-h"); err != nil {
		return err
	}
	return nil
}
