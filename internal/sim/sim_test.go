package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
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

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/sim/fleet"
)

var program string // the simulator

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "sim")
	if err == nil {
		program, err = build(dir, raceDetector)
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

// seeds returns how many seeds a test runs. If the race detector is on, it is fewer, because a seed takes ten
// times as long.
func seeds(quick, full uint64) uint64 {
	if raceDetector {
		return quick / 4
	}
	return depth.Of(quick, full)
}

func TestFleetsWithAllFaultsKeepEveryPromise(t *testing.T) {
	s := settings{seeds: seeds(16, 150), procs: runtime.NumCPU()}
	var out bytes.Buffer
	begun := time.Now()
	reports, err := run(program, s, &out)
	require.NoError(t, err, out.String())
	t.Log(summary(reports, time.Since(begun)))
	if !depth.Full() || raceDetector {
		return
	}
	var total fleet.Totals
	for _, r := range reports {
		total.Add(r.Totals)
	}
	for what, n := range map[string]int{
		"IDs": total.IDs, "faults": total.Faults, "leases": total.Leases, "lost leases": total.Lost, "replaced worker IDs": total.Replaced, "issuers": total.Named, "errors": total.Errors, "clones": total.Clones,
		"bumps": int(total.Bumps), "rewinds": int(total.Rewinds), "borrowed ticks": int(total.Borrowed), "waits": int(total.Waits),
	} {
		assert.NotZerof(t, n, "%s never happened", what)
	}
}

func TestFleetThatHasAllWorkerIDsKeepsEveryPromise(t *testing.T) {
	if raceDetector {
		t.Skip("takes long with the race detector")
	}
	t.Parallel()
	var out bytes.Buffer
	_, err := run(program, settings{from: 7, seeds: 1, nodes: depth.Of(64, 1024), procs: 1}, &out)
	require.NoError(t, err, out.String())
}

// The runs have crowds, too. Two callers of a crowd never begin at the same time. If there is one thread, callers
// that are served together continue in the order in which they are told.
func TestSeedDecidesEverythingExceptTheOrderWithinAnInstant(t *testing.T) {
	s := settings{seeds: seeds(4, 40), procs: runtime.NumCPU(), twice: true}
	var out bytes.Buffer
	reports, err := run(program, s, &out)
	require.NoError(t, err, out.String())
	different := 0
	for _, r := range reports {
		different += r.Different
	}
	assert.LessOrEqual(t, different, 3, "of %d seeds", s.seeds)
}

var update = flag.Bool("update", false, "TestSimulatorFindsEachMutant searches from seed 0 on, and writes the seeds that it finds into the mutants' files")

// The quick run looks for a mutant of each folder. The seed that showed a mutant before is tried first,
// and -update searches from seed 0 on.
func TestSimulatorFindsEachMutant(t *testing.T) {
	if raceDetector {
		t.Skip("runs without the race detector")
	}
	var wg sync.WaitGroup
	work := make(chan mutant)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for m := range work {
				r, begun := fleet.Report{}, time.Now()
				if !*update {
					r = find(t, m, m.seed, 1)
				}
				if !r.Failed {
					r = find(t, m, 0, uint64(m.seeds))
				}
				if !assert.Truef(t, r.Failed, "%s: not found within %d seeds", m.name, m.seeds) {
					continue
				}
				t.Logf("%-66s seed %3d in %.1f s: %s", m.name, r.Seed, time.Since(begun).Seconds(), r.Failure.Promise)
				if *update {
					assert.NoError(t, writeSeed(m, r.Seed))
				}
			}
		})
	}
	for _, m := range depth.Of(ofEachFolder(mutants), mutants) {
		work <- m
	}
	close(work)
	wg.Wait()
}

// ofEachFolder returns the first mutant of each folder. The mutants are in order of their files.
func ofEachFolder(mutants []mutant) []mutant {
	return slices.CompactFunc(slices.Clone(mutants), func(a, b mutant) bool { return path.Dir(a.path) == path.Dir(b.path) })
}

// find runs seeds with a mutant.
func find(t *testing.T, m mutant, from, seeds uint64) fleet.Report {
	var out bytes.Buffer
	reports, err := run(program, settings{from: from, seeds: seeds, nodes: m.nodes, procs: 1, mutant: m.name, brief: true}, &out)
	if !assert.NoErrorf(t, err, "%s: %s", m.name, out.String()) || !assert.Len(t, reports, 1) {
		return fleet.Report{}
	}
	return reports[0]
}

var seedLine = regexp.MustCompile(`(?m)^seeds: (\d+)\n(seed: \d+\n)?`)

// writeSeed writes the seed that shows a mutant into the mutant's file.
func writeSeed(m mutant, seed uint64) error {
	text, err := os.ReadFile(m.path)
	if err != nil {
		return err
	}
	return os.WriteFile(m.path, seedLine.ReplaceAll(text, fmt.Appendf(nil, "seeds: $1\nseed: %d\n", seed)), 0o644)
}

func TestMutantsAreApplied(t *testing.T) {
	assert.GreaterOrEqual(t, len(mutants), 100)
	dir, err := root()
	require.NoError(t, err)
	texts, err := mutated(dir, mutants)
	require.NoError(t, err)
	all := strings.Builder{}
	for _, text := range texts {
		all.WriteString(text)
	}
	for _, m := range mutants {
		assert.Containsf(t, all.String(), fmt.Sprintf("on(%q)", m.name), "%s", m.path)
	}
}

// a mutant of a source for tests.
func mutantOf(name string, edits ...string) mutant {
	m := mutant{name: name, path: "mutants/" + name + ".txt"}
	for i := 0; i < len(edits); i += 2 {
		m.edits = append(m.edits, edit{"f.go", edits[i], edits[i+1]})
	}
	return m
}

func TestMutantsDoNotDependOnEachOther(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/f.go", []byte("if a && b {\n\treturn c\n}\n"), 0o644))
	for name, test := range map[string]struct {
		mutants []mutant
		want    string // the source, or the error
	}{
		"on one line": {[]mutant{mutantOf("x", "a && b", "(MUTANT || a) && b"), mutantOf("y", "if a && b {", "if a && b && !MUTANT {")},
			"if (on(\"x\") || a) && b && !on(\"y\") {\n\treturn c\n}\n"},
		"at one place": {[]mutant{mutantOf("x", "&& b", "&& b && !MUTANT"), mutantOf("y", "a && b", "a && b || MUTANT")},
			"if a && b && !on(\"x\") || on(\"y\") {\n\treturn c\n}\n"},
		"the same text": {[]mutant{mutantOf("x", "return c", "return d(MUTANT)"), mutantOf("y", "c", "e(MUTANT)")},
			"mutants/x.txt and mutants/y.txt replace the same text"},
		"a text that is not there": {[]mutant{mutantOf("x", "a || b", "a || b || MUTANT")},
			"internal/sim/mutants/x.txt replaces a text that f.go contains 0 times, not once; if the code has changed, change the mutant with it:\na || b"},
		"a text that is there twice": {[]mutant{mutantOf("x", "\n", "\nMUTANT")}, "contains 3 times, not once"},
	} {
		t.Run(name, func(t *testing.T) {
			texts, err := mutated(dir, test.mutants)
			if err != nil {
				assert.ErrorContains(t, err, test.want)
				return
			}
			assert.Equal(t, test.want, texts["f.go"])
		})
	}
}

func TestInvalidMutantFileIsRefused(t *testing.T) {
	const head = "name: n\nwhy: w\nseeds: 20\n"
	for text, want := range map[string]string{
		"name: n\nwhy: w\n\n-- a.go --\nx\n-- becomes --\nMUTANT\n": "it needs a name, why and seeds",
		head + "size: 3\n":                 "unknown line",
		head:                               "it changes nothing",
		head + "\n-- becomes --\nMUTANT\n": "the file is not named",
		head + "\n-- a.go --\nx\n":         "does not contain MUTANT",
		head + "\n-- a.go --\n\n-- becomes --\nMUTANT\n": "-- a.go -- has no text after it",
	} {
		_, err := readMutants(fstest.MapFS{"mutants/m.txt": {Data: []byte(text)}})
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "internal/sim/mutants/m.txt")
	}
	good := []byte(head + "\n-- a.go --\nx\n-- becomes --\nMUTANT\n")
	_, err := readMutants(fstest.MapFS{"mutants/m.txt": {Data: good}, "mutants/p/o.txt": {Data: good}})
	assert.ErrorContains(t, err, `mutants/m.txt has the same name, "n"`)
}

func TestFailurePrintsItsReplayCommandAndAShortTrace(t *testing.T) {
	if raceDetector {
		t.Skip("runs without the race detector")
	}
	t.Parallel()
	var out bytes.Buffer
	_, err := run(program, settings{seeds: 400, procs: 1, mutant: "the token is not compared"}, &out)
	require.Error(t, err)
	assert.Contains(t, out.String(), `go run ./internal/sim -seed `)
	assert.Contains(t, out.String(), `-mutant "the token is not compared"`)
	assert.Contains(t, out.String(), "in short, with ")
	assert.Contains(t, out.String(), "BROKEN: ")
	assert.Less(t, strings.Count(out.String(), "\n"), 100)
}
