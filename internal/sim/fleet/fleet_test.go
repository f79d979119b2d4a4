package fleet

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/sim/seam"
)

var (
	from   = flag.Uint64("sim.from", 0, "the first seed")
	to     = flag.Uint64("sim.to", 0, "the seed after the last one")
	every  = flag.Uint64("sim.every", 1, "take only each so many-th")
	nodes  = flag.Int("sim.nodes", 0, "nodes of each fleet; 0: as many as the seed says")
	trace  = flag.Bool("sim.trace", false, "print what happened, whether it fails or not")
	twice  = flag.Bool("sim.twice", false, "run each seed twice, and compare what happened")
	report = flag.String("sim.report", "", "write a Report to this file")
	leases = flag.Bool("sim.leases", false, "take only the seeds of fleets that the model of the leases describes, with less load")
	brief  = flag.Bool("sim.brief", false, "do not say what failed, but for the report")
)

// TestSeeds is what the simulator's command runs, in a build with its overlay.
func TestSeeds(t *testing.T) {
	if seam.NewClock == nil || seam.CloneLease == nil {
		t.Skip("run by the tests of ./internal/sim, which build it with their overlay")
	}
	runtime.GOMAXPROCS(1) // so that the order of what happens at one time is the same again
	debug.SetGCPercent(400)
	r := search(t)
	if *report != "" {
		appendReport(t, r)
	}
	if r.Failed && !*brief {
		explain(t, r)
	}
}

// search runs seeds until one fails, or until it is interrupted.
func search(t *testing.T) Report {
	report := Report{Mutant: seam.Mutant, Totals: Totals{}}
	interrupted, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	for seed := *from; seed < *to && interrupted.Err() == nil; seed += *every {
		s := scenario(seed)
		if s == nil {
			continue
		}
		report.Seeds++
		r := run(t, s, *trace || *twice)
		report.Totals.Add(r.Totals)
		if *twice {
			if difference := compare(r, run(t, scenario(seed), true)); difference != "" {
				report.Totals["seeds not the same twice"]++
				t.Logf("seed %d is not the same twice: %s", seed, difference)
			}
		}
		if *trace {
			fmt.Println(strings.Join(r.Trace, "\n"))
		}
		if r.Failure != nil {
			report.Failed, report.Seed, report.Failure = true, seed, r.Failure
			break
		}
	}
	return report
}

// scenario returns the scenario of a seed, or nil if the seed is left out.
func scenario(seed uint64) *Scenario {
	s := New(seed, *nodes)
	if *leases {
		if !s.Leased || s.LocalCopy {
			return nil
		}
		s.Calm()
	}
	return s
}

func run(t *testing.T, s *Scenario, tracing bool) (r *Result) {
	dir := ""
	if s.LocalCopy {
		dir = memoryDir(t)
		defer os.RemoveAll(dir)
	}
	defer func() {
		if e := recover(); e != nil { // synctest's, when callers wait for ever
			r = &Result{Failure: &Failure{"wait", fmt.Sprint(e)}}
		}
	}()
	synctest.Test(t, func(*testing.T) { r = Run(s, dir, tracing) })
	return r
}

// memoryDir returns a directory in memory, if the system has one, and else on the disk.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "sim")
	if err != nil {
		if dir, err = os.MkdirTemp("", "sim"); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// compare says in which line two runs of one seed differ first. The order of what happened
// at one time does not count.
func compare(a, b *Result) string {
	x, y := slices.Sorted(slices.Values(a.Trace)), slices.Sorted(slices.Values(b.Trace))
	for i := range max(len(x), len(y)) {
		if i == min(len(x), len(y)) || x[i] != y[i] {
			return fmt.Sprintf("of %d and %d lines the first to differ are\n%s", len(x), len(y),
				strings.Join(slices.Concat(x[i:min(i+1, len(x))], y[i:min(i+1, len(y))]), "\n"))
		}
	}
	return ""
}

const (
	patience = 30 * time.Second // with the search for a shorter scenario that fails
	most     = 80               // lines of its nodes and its trace
	replays  = 20               // runs at most: a failure can hang on the order of what happens at one instant
)

// replay runs a scenario that has failed until it fails again.
func replay(t *testing.T, s *Scenario) *Result {
	var result *Result
	for range replays {
		if result = run(t, s, true); result.Failure != nil {
			break
		}
	}
	return result
}

// explain prints the line that replays a failure, and what happened in a smaller
// scenario that fails in the same way.
func explain(t *testing.T, r Report) {
	flags := fmt.Sprintf("-seed %d", r.Seed)
	if *nodes > 0 {
		flags += fmt.Sprintf(" -nodes %d", *nodes)
	}
	if *leases {
		flags += " -leases"
	}
	if r.Mutant != "" {
		flags += fmt.Sprintf(" -mutant %q", r.Mutant)
	}
	t.Errorf("%v\nreplay with: go run ./internal/sim %s", r.Failure, flags)
	begun := time.Now()
	s := Shrink(scenario(r.Seed), r.Failure.Promise, func(s *Scenario) *Result {
		if time.Since(begun) > patience {
			return &Result{}
		}
		return run(t, s, false)
	})
	small := replay(t, s)
	if small.Failure == nil {
		t.Log("the shorter scenario does not replay; this is the whole one")
		s = scenario(r.Seed)
		small = replay(t, s)
	}
	require.NotNil(t, small.Failure, "it does not replay in %d runs", replays)
	var present []string
	for i, n := range s.Nodes {
		if !n.Absent {
			present = append(present, fmt.Sprintf("node %d: %+v", i, n))
		}
	}
	trace := digest(small)
	trace = trace[max(0, len(trace)-max(0, most-len(present))):]
	var b strings.Builder
	fmt.Fprintf(&b, "in short, with %d of %d nodes and %d events: %v\n", len(present), len(s.Nodes), len(s.Events), small.Failure)
	fmt.Fprintf(&b, "%v\nleased: %t; worker IDs 0 to %d, %v; window %v; all on one host: %t; with local copies: %t\n",
		s.Layout, s.Leased, s.Last, []string{"recycled", "kept", "used once"}[s.Reuse], s.Window, s.OneHost, s.LocalCopy)
	for _, line := range slices.Concat(present, trace) {
		fmt.Fprintln(&b, line)
	}
	t.Log(b.String())
}

// digest returns the lines of a trace that lead to its failure: the events, what
// the store did, and the last calls of the nodes that the failure names.
func digest(r *Result) (lines []string) {
	names := regexp.MustCompile(`node \d+`).FindAllString(r.Failure.Detail, -1)
	calls := 0
	for i := len(r.Trace) - 1; i >= 0; i-- {
		line := r.Trace[i]
		named := slices.ContainsFunc(names, func(n string) bool { return strings.Contains(line, n+" ") })
		call := strings.Contains(line, ", from ")
		switch {
		case strings.Contains(line, "BROKEN"):
			lines, calls = nil, 0
		case !named && !strings.Contains(line, "EVENT"), call && calls == 20:
			continue
		case call:
			calls++
		}
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	return lines
}

func appendReport(t *testing.T, r Report) {
	f, err := os.OpenFile(filepath.Clean(*report), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	require.NoError(t, errors.Join(json.NewEncoder(f).Encode(r), f.Close()))
}
