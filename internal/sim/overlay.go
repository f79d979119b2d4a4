package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The simulator runs the real code, but for the lines below: those that ask the
// computer for the time, for random numbers or for a sleep ask the simulator, and
// those of the mutants can be switched to be wrong. They are changed in the copy
// that the compiler gets (go build -overlay), so that the code itself, and builds
// of it, know nothing of all this.

// patch replaces a text that a file has once.
type patch struct{ file, old, new string }

// change is some patches, and what they are for.
type change struct {
	what    string
	patches []patch
}

const seamImport = `"github.com/seed-5394e6b1/snowflake/internal/sim/seam"`

var seams = []patch{
	{"snowflake.go", "read := time.Since(started) // before", "read := g.wall.read() // before"},
	{"snowflake.go", "\tread := time.Since(started)\n", "\tread := g.wall.read()\n"},
	{"snowflake.go", "\t\tread = time.Since(started)\n", "\t\tread = g.wall.read()\n"},
	{"clock.go", "return wall{steady: c.wall.steady}", "return wall{steady: c.wall.steady, m: machine{Machine: c.wall.m.Machine}}"},
	{"clock.go", "w.drop(time.Now())", "w.drop(w.look())"},
	{"clock.go", "now.Sub(started), 0", "w.begun(now), 0"},
	{"clock.go", "w.passed = time.Since(w.anchor)", "w.passed = w.since()"},
	{"clock.go", "\t\tnow := time.Now()\n\t\tw.reanchor(now, now.Sub(w.anchor))\n", "\t\tpassed := w.since()\n\t\tw.reanchor(w.look(), passed)\n"},
	{"clock.go", "\tsteady bool ", "\tm machine\n\tsteady bool "},
	{"reserve.go", `"math/rand/v2"`, "rand " + seamImport},
	{"queue.go", "\t\"time\"\n", "\t\"time\"\n\t" + seamImport + "\n"},
	{"queue.go", "time.NewTimer(r.wait)", "time.NewTimer(r.wait + seam.Late())"},
	{"lease/acquire.go", `"crypto/rand"`, "rand " + seamImport},
	{"lease/choose.go", `"math/rand/v2"`, "rand " + seamImport},
	{"lease/renew.go", `"math/rand/v2"`, "rand " + seamImport},
	{"lease/lease.go", "\t\"time\"\n", "\t\"time\"\n\t" + seamImport + "\n"},
	{"lease/lease.go", "time.NewTimer(d)", "time.NewTimer(d + seam.Late())"},
	{"lease/wiped.go", `"crypto/rand"`, "rand " + seamImport},
	{"lease/wiped.go", `mathrand "math/rand/v2"`, "mathrand " + seamImport},
	{"lease/file.go", `"math/rand/v2"`, "rand " + seamImport},
	{"lease/disk.go", "\t\"sync/atomic\"\n", "\t\"sync/atomic\"\n\t" + seamImport + "\n"},
	{"lease/disk.go", "{ f, err = o.disk.open(path); return err })", "{ seam.Step(filepath.Dir(path), \"create\"); f, err = o.disk.open(path); return err })"},
	{"lease/disk.go", "\t\tif err := f.Truncate(at); err", "\t\tseam.Step(filepath.Dir(path), \"write\")\n\t\tif err := f.Truncate(at); err"},
	{"lease/disk.go", "o.ask(\"sync\", path, f.Sync)", "o.ask(\"sync\", path, func() error { seam.Step(filepath.Dir(path), \"sync\"); return f.Sync() })"},
	{"lease/disk.go", "func() error { return o.disk.rename(aside, path) }", "func() error { seam.Step(filepath.Dir(path), \"rename\"); return o.disk.rename(aside, path) }"},
	{"lease/disk.go", "func() error { return o.disk.syncDir(dir) }", "func() error { seam.Step(dir, \"sync directory\"); return o.disk.syncDir(dir) }"},
}

//go:embed added/snowflake.go.txt
var addedSnowflake string

//go:embed added/lease.go.txt
var addedLease string

// overlay writes the changed files to dir, and the file that names them for the
// go command.
func overlay(root, dir string, changes []change) (string, error) {
	texts := map[string]string{"sim.go": addedSnowflake, "lease/sim.go": addedLease}
	var errs []error
	for _, c := range changes {
		for _, p := range c.patches {
			text, ok := texts[p.file]
			if !ok {
				b, err := os.ReadFile(filepath.Join(root, p.file))
				if err != nil {
					return "", err
				}
				text = string(b)
			}
			if n := strings.Count(text, p.old); n != 1 {
				errs = append(errs, fmt.Errorf("%s has a text that %s changes %d times, not once; "+
					"where the code was changed, change internal/sim with it:\n%s", p.file, c.what, n, p.old))
				continue
			}
			texts[p.file] = strings.Replace(text, p.old, p.new, 1)
		}
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
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

// build builds the simulator into dir, and returns its program.
func build(dir string, race bool) (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/seed-5394e6b1/snowflake").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	root := strings.TrimSpace(string(out))
	changes := []change{{"seams, in overlay.go,", seams}}
	for _, m := range mutants {
		changes = append(changes, change{fmt.Sprintf("mutant %q, in mutants.go,", m.name), m.patches})
	}
	for _, r := range regressions {
		changes = append(changes, change{fmt.Sprintf("regression %q, in mutants.go,", r.name), r.patches})
	}
	name, err := overlay(root, dir, changes)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "fleet.test")
	cmd := exec.Command("go", "test", "-c", "-overlay", name, "-o", program, fmt.Sprintf("-race=%t", race), "./internal/sim/fleet")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	return program, cmd.Run()
}
