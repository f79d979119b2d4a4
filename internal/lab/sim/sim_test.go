//go:build go1.25

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/fleet"
)

var program string // the simulator

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "sim")
	if err == nil {
		program = programIn(dir, simulator)
		err = build(dir, depth.Race, simulator)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// seeds returns the number of seeds of a test. It is small with the race detector, which slows a
// seed down tenfold.
func seeds(full uint64) uint64 {
	if depth.Race {
		return 4
	}
	return depth.Of(4, full)
}

// simulated runs seeds, of which none may fail.
func simulated(t *testing.T, s fleet.Settings) []fleet.Report {
	var out bytes.Buffer
	begun := time.Now()
	reports, err := run(program, int(min(s.To-s.From, uint64(runtime.NumCPU()))), s, &out)
	require.NoError(t, err, out.String())
	t.Log(summary(reports, time.Since(begun)))
	return reports
}

func TestFleetsWithAllFaultsKeepEveryPromise(t *testing.T) {
	reports := simulated(t, fleet.Settings{To: seeds(100)})
	if !depth.Full() || depth.Race {
		return
	}
	total, _ := sum(reports)
	for _, what := range fleet.Counted {
		assert.NotZerof(t, total[what], "%s never happened", what)
	}
}

// Random faults mostly leave effects behind, such as a wrong clock, after which no trouble is
// tried. These runs have none.
func TestEachTroubleIsOverWithinItsBound(t *testing.T) {
	reports := simulated(t, fleet.Settings{To: seeds(120), Troubles: true})
	t.Log(worst(reports))
	total, _ := sum(reports)
	assert.Greater(t, total["troubles"], 2*seeds(120))
}

func TestBoundsStandInTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	for _, l := range fleet.Bounds {
		assert.Contains(t, string(page), fmt.Sprintf("\n| %s | %v | %v | %v |", l.Trouble, l.Issue, l.Start, l.Watermark))
	}
}

// The simulator finds each of these mutants within a number of seeds, by the promise that it breaks
// first, and not only by a repeated ID. The quick run tries three of them.
func TestSimulatorFindsDefects(t *testing.T) {
	if depth.Race {
		t.Skip("runs without the race detector")
	}
	quick := []defect{defects[0], defects[1], defects[13]}
	each(depth.Of(quick, defects), func(d defect) {
		var out bytes.Buffer
		begun := time.Now()
		reports, err := run(program, 1, fleet.Settings{To: d.seeds, Mutant: d.mutant,
			Troubles: d.trouble != "", Trouble: d.trouble, Brief: true}, &out)
		if !assert.NoErrorf(t, err, "%s: %s", d.mutant, out.String()) || !assert.Len(t, reports, 1) {
			return
		}
		if r := reports[0]; assert.NotNilf(t, r.Failure, "%s: not found within %d seeds", d.mutant, d.seeds) {
			t.Logf("%-66s seed %3d in %.1f s: %v", d.mutant, r.Seed, time.Since(begun).Seconds(), r.Failure)
			assert.Contains(t, r.Failure.Error(), d.says+string(d.trouble), d.mutant)
		}
	})
}

// defect is a mutant that the simulator finds.
type defect struct {
	mutant  string
	seeds   uint64 // the most that may be needed
	says    string // a part of the failure
	trouble fleet.Kind
}

var defects = []defect{
	{mutant: "the bound is recorded after its use", seeds: 20, says: "grant: "},
	{mutant: "a batch crosses the end of its tick", seeds: 20, says: ": "},
	{mutant: "a store that lost its entries is new", seeds: 40, says: "window: "},
	{mutant: "the token is not compared", seeds: 40, says: "window: "},
	{mutant: "the wall clock is not looked at again", seeds: 20, says: "truth: "},
	{mutant: "a lost lease goes on", seeds: 40, says: "grant: "},
	{mutant: "a save that failed is taken for made", seeds: 20, says: "grant: "},
	{mutant: "release records nothing", seeds: 20, says: "release: "},
	{mutant: "a clock sequence is used before that is recorded", seeds: 40, says: "grant: "},
	{mutant: "a new holder forgets the other clock sequences", seeds: 20, says: "bound: "},
	{mutant: "bounds follow the clock back", seeds: 40, says: "bound: "},
	{mutant: "history is forgotten too soon", seeds: 40, says: "history: "},
	{mutant: "a reader forgets what was seen", seeds: 100, says: "bound: ", trouble: fleet.OneCrash},
	{mutant: "a dead holder counts for ever", seeds: 100, says: "bound: ", trouble: fleet.OneCrash},
	{mutant: "a window that has ended counts again", seeds: 100, says: "bound: ", trouble: fleet.Kills},
	{mutant: "an unreadable record keeps the watermark for ever", seeds: 100, says: "bound: ", trouble: fleet.Unreadable},
	{mutant: "a lost worker ID is never replaced", seeds: 40, says: "bound: "},
	{mutant: "a window begins a window before its holder's clock", seeds: 100, says: "bound: ", trouble: fleet.GrowthFloor},
	{mutant: "whoever may take a lost worker ID waits for it again", seeds: 40, says: "requests: "},
	{mutant: "a reader is not noticed", seeds: 100, says: "bound: ", trouble: fleet.DeploymentFloor},
}

func TestFleetThatHasAllWorkerIDsKeepsEveryPromise(t *testing.T) {
	if depth.Race {
		t.Skip("takes long with the race detector")
	}
	t.Parallel()
	simulated(t, fleet.Settings{From: 20, To: 21, Nodes: depth.Of(64, 256)})
}

func TestSeedDecidesEverythingExceptTheOrderWithinAnInstant(t *testing.T) {
	total, _ := sum(simulated(t, fleet.Settings{To: seeds(12), Twice: true}))
	assert.LessOrEqual(t, total[fleet.TwoTraces], uint64(1))
}

// some returns the first mutant of each file or, in the full run, all.
func some(mutants []mutant) []mutant {
	first := slices.CompactFunc(slices.Clone(mutants), func(a, b mutant) bool { return a.path == b.path })
	return depth.Of(first, mutants)
}

// each calls f for each element, on all processors.
func each[T any](all []T, f func(T)) {
	var wg sync.WaitGroup
	work := make(chan T)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for one := range work {
				f(one)
			}
		})
	}
	for _, one := range all {
		work <- one
	}
	close(work)
	wg.Wait()
}

// The killers of each mutant find it whatever chance decides. The full run also checks that they
// pass without a mutant.
func TestMutantsDieOnEveryRun(t *testing.T) {
	if depth.Race {
		t.Skip("runs without the race detector")
	}
	var tests []killer
	sought := some(mutants)
	for _, m := range sought {
		tests = append(tests, m.always...)
	}
	var packages []string
	for _, k := range tests {
		packages = append(packages, k.pkg)
	}
	dir := t.TempDir()
	require.NoError(t, build(dir, false, set(packages)...))
	for _, m := range sought {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, k := range m.always {
				assert.Falsef(t, passes(t, dir, k, m.name), "%s: %s passes with %q", m.path, k, m.name)
			}
		})
	}
	if !depth.Full() {
		return
	}
	slices.SortFunc(tests, func(a, b killer) int { return strings.Compare(a.pkg+a.test+a.scope, b.pkg+b.test+b.scope) })
	for _, k := range slices.Compact(tests) {
		t.Run("WithoutAMutant", func(t *testing.T) {
			t.Parallel()
			assert.Truef(t, k.scope != "" || passes(t, dir, k, ""), "%s fails without a mutant", k)
		})
	}
}

// passes reports whether a test passes with a mutant. A scope passes unless one of its stories is
// broken. A test that times out is an error, not a find.
func passes(t *testing.T, dir string, k killer, mutant string) bool {
	cmd := exec.Command(programIn(dir, k.pkg), "-test.v", "-test.failfast", "-test.timeout=9m", "-test.run=^"+k.test+"$")
	if k.scope != "" {
		cmd.Args = append(cmd.Args, "-scope="+k.scope)
	}
	cmd.Dir, cmd.Env = path.Join("../../..", k.pkg), append(withMutant(mutant), "SNOWFLAKE_FULL=0")
	out, err := cmd.CombinedOutput()
	assert.Containsf(t, string(out), "=== RUN   "+k.test+"\n", "%s: %s", mutant, out)
	assert.NotContainsf(t, string(out), "panic: test timed out", "%s: %s", mutant, k)
	if k.scope != "" {
		return !strings.Contains(string(out), "BROKEN: ")
	}
	return err == nil
}

func TestEachGuardOfTheProofHasAMutantThatRemovesIt(t *testing.T) {
	assert.Greater(t, len(mutants), 100)
	var guards []string
	for _, m := range mutants {
		if m.guard != "" {
			guards = append(guards, m.guard)
		}
	}
	model, err := os.ReadFile("../proof/lease.smt2")
	require.NoError(t, err)
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^\(define-fun (\S+) \(\) Bool true\)`).FindAllStringSubmatch(string(model), -1) {
		all = append(all, m[1])
	}
	assert.Len(t, all, 20)
	assert.Equal(t, set(all), set(guards))
}

// set returns each text once, in order.
func set(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

func TestMutantsDoNotDependOnEachOther(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/f.go", []byte("if a && b {\n\treturn c\n}\n"), 0o644))
	require.NoError(t, os.WriteFile(dir+"/g.go", []byte("x\nx\n"), 0o644))
	for name, test := range map[string]struct {
		x, y string // diffs
		want string // the source, or the error
	}{
		"on one line": {"-if a && b {\n+if (MUTANT || a) && b {", "-if a && b {\n+if a && b && !MUTANT {",
			"if (on(\"x\") || a) && b && !on(\"y\") {\n\treturn c\n}\n"},
		"at one place": {"-if a && b {\n+if a && b && !MUTANT {", "-if a && b {\n+if a && b || MUTANT {",
			"if a && b && !on(\"x\") || on(\"y\") {\n\treturn c\n}\n"},
		"between the same lines": {" if a && b {\n+\tx(MUTANT)", "+\ty(MUTANT)\n \treturn c",
			"if a && b {\n\tx(on(\"x\"))\n\ty(on(\"y\"))\n\treturn c\n}\n"},
		"the same text":              {"-\treturn c\n+\treturn d(MUTANT)", "-\treturn c\n+\treturn e(MUTANT)", `mutants "x" and "y" change the same text`},
		"a part of a line":           {" if a", "+MUTANT\n }", `mutant "x" changes lines that f.go does not contain once; if the code has changed, change the mutant with it`},
		"lines that are there twice": {"+++ g.go\n x\n+MUTANT", "", "g.go does not contain once"},
	} {
		t.Run(name, func(t *testing.T) {
			both, err := parseMutants("mutants/f.go.diff", "name: x\n"+test.x+"\n\nname: y\n"+test.y+"\n")
			require.NoError(t, err)
			texts, err := mutated(dir, both)
			if err != nil {
				assert.ErrorContains(t, err, test.want)
				return
			}
			assert.Equal(t, test.want, texts["f.go"])
		})
	}
}

func TestInvalidMutantIsRefused(t *testing.T) {
	const head, diff = "name: n\nwhy: w\nscope: s\n", " x\n+MUTANT\n"
	for text, want := range map[string]string{
		"why: w\n":                      "the first line is not a name",
		"name: n\nwhy: w\n" + diff:      "needs a line for why, a line for always or scope, and a diff",
		head:                            "needs a line for why, a line for always or scope, and a diff",
		head + "always: TestT\n" + diff: "always needs a package and a test",
		head + "size: 3\n":              "unknown line",
		head + "+MUTANT\n":              "an edit of a.go needs old lines, and MUTANT in a new line",
		head + " x\n":                   "an edit of a.go needs old lines, and MUTANT in a new line",
		head + diff + "\n" + head:       `mutant "n": mutants/a.go.diff has one, too`,
		head + diff + "+++ b.go\n y\n":  "an edit of b.go needs",
		head + diff + "@@\n y\n":        "an edit of a.go needs",
	} {
		_, err := readMutants(fstest.MapFS{"mutants/a.go.diff": {Data: []byte(text)}})
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "internal/lab/sim/mutants/a.go.diff")
	}
}

func TestFailurePrintsItsReplayCommandAndAShortTrace(t *testing.T) {
	if depth.Race {
		t.Skip("runs without the race detector")
	}
	t.Parallel()
	var out bytes.Buffer
	_, err := run(program, 1, fleet.Settings{To: 20, Mutant: "the bound is recorded after its use"}, &out)
	require.Error(t, err)
	assert.Contains(t, out.String(), `go run ./internal/lab/sim -seed `)
	assert.Contains(t, out.String(), ` -mutant "the bound is recorded after its use"`)
	assert.Contains(t, out.String(), "in short, with ")
	assert.Contains(t, out.String(), "BROKEN: ")
	assert.Less(t, strings.Count(out.String(), "\n"), 100)
}
