package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// proxy publishes the modules into a folder, as https://go.dev/ref/mod#goproxy-protocol has it.
func (t *tree) proxy(dir string) error {
	files, err := t.files()
	if err != nil {
		return err
	}
	for _, module := range published {
		if err := t.publish(dir, module, files); err != nil {
			return fmt.Errorf("%s: %w", modulePath(module), err)
		}
	}
	return nil
}

// files returns the names of the files that git knows, if they exist.
func (t *tree) files() ([]string, error) {
	text, err := output(t.dir, nil, "git", "ls-files", "-z", "--cached")
	if err != nil {
		return nil, err
	}
	names := strings.Split(strings.Trim(string(text), "\x00"), "\x00")
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool {
		info, err := os.Lstat(filepath.Join(t.dir, name))
		return err != nil || !info.Mode().IsRegular()
	}), nil
}

// publish writes the proxy's files for one module. If the module's path had capitals, the protocol would
// escape them.
func (t *tree) publish(dir, module string, files []string) error {
	base := filepath.Join(dir, modulePath(module), "@v")
	mod, err := t.publishedMod(module)
	if err != nil {
		return err
	}
	archive, err := t.zip(module, mod, files)
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": info,
		version + ".mod":  mod,
		version + ".zip":  archive,
	} {
		if err := os.WriteFile(filepath.Join(base, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// publishedMod returns a module's go.mod as its tag has it: without replace lines for siblings.
func (t *tree) publishedMod(module string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(t.dir, module, "go.mod"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "snowflake-mod")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "go.mod")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		return nil, err
	}
	if err := edit(name, t.mods[module].dropReplace()); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// zip returns a module's archive. If the module has no license, zip adds the repository's, as the go
// command does.
func (t *tree) zip(module string, mod []byte, files []string) ([]byte, error) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	add := func(name string, content []byte) error {
		f, err := w.Create(modulePath(module) + "@" + version + "/" + name)
		if err == nil {
			_, err = f.Write(content)
		}
		return err
	}
	own := t.ownFiles(module, files)
	for _, name := range own {
		content, err := os.ReadFile(filepath.Join(t.dir, module, name))
		if err != nil {
			return nil, err
		}
		if name == "go.mod" {
			content = mod
		}
		if err := add(name, content); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(own, "LICENSE") {
		license, err := os.ReadFile(filepath.Join(t.dir, "LICENSE"))
		if err != nil {
			return nil, err
		}
		if err := add("LICENSE", license); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return io.ReadAll(&archive)
}

// ownFiles returns a module's files, relative to its folder. It leaves out a file if it belongs to a
// module within the folder, or if it is in a folder called vendor.
func (t *tree) ownFiles(module string, files []string) []string {
	var own []string
	for _, name := range files {
		if t.moduleOf(name) != module || slices.Contains(strings.Split(path.Dir(name), "/"), "vendor") {
			continue
		}
		if module != "." {
			name = strings.TrimPrefix(name, module+"/")
		}
		own = append(own, name)
	}
	return own
}

// moduleOf returns the folder of the module that a file belongs to.
func (t *tree) moduleOf(name string) string {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if _, ok := t.mods[dir]; ok {
			return dir
		}
	}
}
