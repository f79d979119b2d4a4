//go:build go1.25

package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The simulator runs the real code with these changes:
//   - The files by which packages snowflake and lease/internal/machine use the computer's clocks,
//     timers, random numbers and disk are replaced by files that use the simulator's.
//   - The two files limits.go are replaced by files with lower limits.
//   - A file is added with which a lease can be cloned, and probes report grants.
//   - Each record is decoded once.
//   - The code contains the mutants.
//
// The compiler gets the changed files by go build -overlay, so the source and all other builds stay
// free of the simulator.

// seamFiles has the simulator's own files: replaced/F.txt in place of the source's F, and
// added/F.txt as a new file F.
//
//go:embed replaced added
var seamFiles embed.FS

// probes are edits that report grants to the simulator, and remember decoded records.
var probes = must(parseMutants("overlay.go", `
name: probes
+++ lease/lease.go
 func (l *Lease) grantWindow(t *tenure.Tenure) {
+	l.grants(t)
+++ lease/internal/protocol/record.go
-func DecodeRecord(worker int, e driver.Entry) (Record, error) {
+func DecodeRecord(worker int, e driver.Entry) (Record, error) { return decodeOnce(worker, e) }
+
+func decodeRecord(worker int, e driver.Entry) (Record, error) {
`))

// switches is the text of a file that is added to each package with mutants.
const switches = `package %s

import "github.com/seed-5394e6b1/snowflake/internal/lab/sim/seam"

func on(mutant string) bool { return seam.Mutant == mutant }
`

// packageOf returns the package name in a source.
func packageOf(source string) string {
	_, after, _ := strings.Cut("\n"+source, "\npackage ")
	name, _, _ := strings.Cut(after, "\n")
	return name
}

// overlay writes the changed files to dir, and returns the file that the flag -overlay names.
func overlay(root, dir string, mutants []mutant) (string, error) {
	texts, err := mutated(root, slices.Concat(mutants, probes))
	if err != nil {
		return "", err
	}
	for _, file := range slices.Collect(maps.Keys(texts)) {
		texts[path.Join(path.Dir(file), "mutant_is_on.go")] = fmt.Sprintf(switches, packageOf(texts[file]))
	}
	err = fs.WalkDir(seamFiles, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		how, file, _ := strings.Cut(strings.TrimSuffix(name, ".txt"), "/")
		if _, err := os.Stat(filepath.Join(root, file)); (err == nil) != (how == "replaced") {
			return fmt.Errorf("internal/lab/sim/%s: the source must have the file if it is replaced, and must not have it if it is added", name)
		}
		b, err := seamFiles.ReadFile(name)
		texts[file] = string(b)
		return err
	})
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o644)
}

// mutated returns the files that the mutants change, with all mutants in them.
func mutated(root string, mutants []mutant) (map[string]string, error) {
	texts, splices := map[string]string{}, map[string][]splice{}
	var errs []error
	for i := range mutants {
		for _, e := range mutants[i].edits {
			if _, ok := texts[e.file]; !ok {
				b, err := os.ReadFile(filepath.Join(root, e.file))
				if err != nil {
					return nil, fmt.Errorf("internal/lab/sim/%s: %w", mutants[i].path, err)
				}
				texts[e.file] = string(b)
			}
			s, err := spliceOf(&mutants[i], e, texts[e.file])
			errs = append(errs, err)
			splices[e.file] = append(splices[e.file], s)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for file, text := range texts {
		var err error
		texts[file], err = mutate(text, splices[file])
		errs = append(errs, err)
	}
	return texts, errors.Join(errs...)
}

// root returns the directory of the root module.
func root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/seed-5394e6b1/snowflake").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// simulator is the package whose tests are the simulator.
const simulator = "./internal/lab/sim/fleet"

// build builds the tests of packages into dir with the overlay. programIn names their programs.
func build(dir string, race bool, packages ...string) error {
	root, err := root()
	if err != nil {
		return err
	}
	name, err := overlay(root, dir, mutants)
	if err != nil {
		return err
	}
	args := []string{"test", "-c", "-ldflags=-s -w", "-overlay", name, "-o", dir + "/", fmt.Sprintf("-race=%t", race)}
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	return cmd.Run()
}

// programIn returns the program of a package's tests in a directory.
func programIn(dir, pkg string) string {
	return filepath.Join(dir, path.Base(path.Join("/snowflake", pkg))+".test")
}
