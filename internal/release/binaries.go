package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// commands are the packages of the programs that a release has.
var commands = []string{"cmd/snowflake", "server/cmd/snowflaked"}

// platforms are the systems and processors that a release has programs for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

// binaries builds each program for each platform into a folder, with a list of the modules in each program, and the
// checksums of all these files.
func (t *tree) binaries(dir string, platforms []string) error {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, command := range commands {
		for _, platform := range platforms {
			goos, arch, _ := strings.Cut(platform, "/")
			name := fmt.Sprintf("%s-%s-%s-%s", filepath.Base(command), version, goos, arch)
			program := name
			if goos == "windows" {
				program += ".exe"
			}
			build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, program), "./"+command)
			build.Dir, build.Env = t.dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=", "GOOS="+goos, "GOARCH="+arch)
			if out, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("%v for %s: %w\n%s", build, platform, err, out)
			}
			bill, err := billOf(filepath.Join(dir, program))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name+".cdx.json"), bill, 0o644)
			}
			if err != nil {
				return err
			}
			for _, file := range []string{program, name + ".cdx.json"} {
				b, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					return err
				}
				fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), file)
			}
		}
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// A component is a module or a program, in the form of CycloneDX.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

func componentOf(kind string, path, version string) component {
	purl := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}

// billOf returns the software bill of materials of a program, in the form of CycloneDX: the modules that Go wrote into
// the program. Modules of this repository have the release's version.
func billOf(program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	modules := []component{componentOf("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		m = cmp.Or(m.Replace, m)
		modules = append(modules, componentOf("library", m.Path, versionOf(m)))
	}
	type metadata struct {
		Component component `json:"component"`
	}
	return json.MarshalIndent(struct {
		Format      string      `json:"bomFormat"`
		SpecVersion string      `json:"specVersion"`
		Version     int         `json:"version"`
		Metadata    metadata    `json:"metadata"`
		Components  []component `json:"components"`
	}{"CycloneDX", "1.6", 1, metadata{componentOf("application", info.Path, version)}, modules}, "", "\t")
}

func versionOf(m *debug.Module) string {
	if isSibling(m.Path) {
		return version
	}
	return m.Version
}
