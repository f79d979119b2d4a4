package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// TestFleets runs fleets that fail in all ways, and finds nothing.
func TestFleets(t *testing.T) {
	s := settings{seeds: 150, procs: runtime.NumCPU()}
	if testing.Short() {
		s.seeds = 30
	}
	var out bytes.Buffer
	begun := time.Now()
	reports, err := run(program, s, &out)
	require.NoError(t, err, out.String())
	t.Log(summary(reports, time.Since(begun)))
	var total fleet.Totals
	for _, r := range reports {
		total.Add(r.Totals)
	}
	if testing.Short() {
		return
	}
	for what, n := range map[string]int{
		"IDs": total.IDs, "faults": total.Faults, "leases": total.Leases, "lost leases": total.Lost, "replaced worker IDs": total.Replaced, "issuers": total.Named, "errors": total.Errors, "clones": total.Clones,
		"bumps": int(total.Bumps), "rewinds": int(total.Rewinds), "borrowed ticks": int(total.Borrowed), "waits": int(total.Waits),
	} {
		assert.NotZerof(t, n, "%s never happened", what)
	}
}

// TestManyNodes runs a fleet that has all worker IDs of ten bits.
func TestManyNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long with the race detector")
	}
	var out bytes.Buffer
	_, err := run(program, settings{from: 7, seeds: 1, nodes: 1024, procs: 1}, &out)
	require.NoError(t, err, out.String())
}

// TestReplays: a seed decides all that happens, but where two things happen at
// one time. Crowds are among them: no two of their callers begin at one time, and with
// one thread those who are served together go on in the order in which they are told.
func TestReplays(t *testing.T) {
	s := settings{seeds: 40, procs: runtime.NumCPU(), twice: true}
	if testing.Short() {
		s.seeds = 10
	}
	var out bytes.Buffer
	reports, err := run(program, s, &out)
	require.NoError(t, err, out.String())
	different := 0
	for _, r := range reports {
		different += r.Different
	}
	assert.LessOrEqual(t, different, 3, "of %d seeds", s.seeds)
}

var all = flag.Bool("all", false, "TestMutants takes the mutants that need more than quick seeds, too")

// quick is how many seeds a mutant may need for TestMutants to take it without -all.
const quick = 50

// TestMutants: the simulator finds each deliberate defect within the seeds that
// its table says.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("runs without the race detector")
	}
	var wg sync.WaitGroup
	work := make(chan mutant)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for m := range work {
				var out bytes.Buffer
				reports, err := run(program, settings{seeds: uint64(m.seeds), procs: 1, mutant: m.name, brief: true}, &out)
				if !assert.NoErrorf(t, err, "%s: %s", m.name, out.String()) || !assert.Len(t, reports, 1) {
					continue
				}
				r := reports[0]
				if assert.Truef(t, r.Failed, "%s: not found within %d seeds", m.name, m.seeds) {
					t.Logf("%-62s seed %3d: %s", m.name, r.Seed, r.Failure.Promise)
				}
			}
		})
	}
	for _, m := range slices.SortedFunc(slices.Values(mutants), func(a, b mutant) int { return b.seeds - a.seeds }) {
		if *all || m.seeds <= quick {
			work <- m
		}
	}
	close(work)
	wg.Wait()
}

// TestRegressions: the seeds that found mistakes of ours, which find nothing now.
func TestRegressions(t *testing.T) {
	for _, r := range regressions {
		for _, name := range []string{"", r.name} {
			var out bytes.Buffer
			reports, err := run(program, settings{from: r.seed, seeds: 1, procs: 1, mutant: name, brief: true}, &out)
			require.NoError(t, err, out.String())
			require.Len(t, reports, 1)
			assert.Equalf(t, name != "", reports[0].Failed, "seed %d, mutant %q: %v", r.seed, name, reports[0].Failure)
		}
	}
}

// TestMutantsAreDifferent: their names are what switches them.
func TestMutantsAreDifferent(t *testing.T) {
	names := map[string]bool{}
	check := func(name string, patches []patch) {
		assert.Falsef(t, names[name], "%s", name)
		names[name] = true
		for _, p := range patches {
			assert.Containsf(t, p.new, `on("`+name+`")`, "in %s", p.file)
		}
	}
	for _, m := range mutants {
		check(m.name, m.patches)
	}
	for _, r := range regressions {
		check(r.name, r.patches)
	}
	assert.GreaterOrEqual(t, len(mutants), 25)
}

// TestFailureIsExplained: the line that replays it, and a short trace.
func TestFailureIsExplained(t *testing.T) {
	if testing.Short() {
		t.Skip("runs without the race detector")
	}
	var out bytes.Buffer
	_, err := run(program, settings{seeds: 400, procs: 1, mutant: "the token is not compared"}, &out)
	require.Error(t, err)
	assert.Contains(t, out.String(), `go run ./internal/sim -seed `)
	assert.Contains(t, out.String(), `-mutant "the token is not compared"`)
	assert.Contains(t, out.String(), "in short, with ")
	assert.Contains(t, out.String(), "BROKEN: ")
	assert.Less(t, strings.Count(out.String(), "\n"), 100)
}
