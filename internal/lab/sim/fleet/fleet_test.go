//go:build go1.25

package fleet

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var asked = flag.String("sim", "", "Settings, as JSON")

// TestSeeds is what the simulator's command runs, in a build with its overlay.
func TestSeeds(t *testing.T) {
	if *asked == "" {
		t.Skip("run by the tests of ./internal/lab/sim, which build it with their overlay")
	}
	var s Settings
	require.NoError(t, json.Unmarshal([]byte(*asked), &s))
	runtime.GOMAXPROCS(1) // so that the order of what happens at one time is the same again
	debug.SetGCPercent(400)
	r := s.search(t)
	s.append(t, r)
	if r.Failure != nil && !s.Brief {
		s.explain(t, r)
	}
}

// search runs seeds until one fails, or until it is interrupted.
func (s Settings) search(t *testing.T) Report {
	report := Report{Totals: Totals{}, Worst: Worst{}}
	interrupted, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	for seed := s.From; seed < s.To && interrupted.Err() == nil; seed += s.Every {
		one := s.scenario(seed)
		if one == nil {
			continue
		}
		report.Seeds++
		r := run(t, one, s.Trace || s.Twice)
		if s.Twice && !slices.Equal(slices.Sorted(slices.Values(r.Trace)), slices.Sorted(slices.Values(run(t, one, true).Trace))) {
			t.Logf("seed %d has two traces", seed)
			report.Totals[TwoTraces]++
		}
		report.Totals.Add(r.Totals)
		report.Worst.Add(r.Worst)
		if s.Trace {
			fmt.Println(strings.Join(r.Trace, "\n"))
		}
		if r.Failure != nil {
			report.Seed, report.Failure = seed, r.Failure
			break
		}
	}
	return report
}

// scenario returns the scenario of a seed, or nil if the settings leave the seed out.
func (s Settings) scenario(seed uint64) *Scenario {
	one := New(seed, s.Nodes)
	switch {
	case !s.Troubles:
		return one
	case s.Nodes == 0 && seed%everyRolling == 3:
		one = Rolling(seed)
	default:
		one.Troubled()
	}
	if s.Trouble != "" {
		one.Troubles = slices.DeleteFunc(one.Troubles, func(t Event) bool { return t.Kind != s.Trouble })
	}
	if len(one.Troubles) == 0 {
		return nil
	}
	return one
}

func run(t *testing.T, s *Scenario, tracing bool) (r *Result) {
	defer func() {
		if e := recover(); e != nil { // synctest's, if callers are deadlocked
			r = &Result{Failure: &Failure{"wait", fmt.Sprint(e)}}
		}
	}()
	synctest.Test(t, func(*testing.T) { r = Run(s, tracing) })
	return r
}

const (
	patience = 30 * time.Second // the longest search for a smaller scenario that fails
	most     = 80               // the most lines for its nodes and trace

	// replays is the most runs of a scenario: a failure may depend on the order of simultaneous
	// events.
	replays = 20
)

// explain prints the command that replays a failure, and the trace of a smaller scenario that
// breaks the same promise.
func (s Settings) explain(t *testing.T, r Report) {
	flags := fmt.Sprintf("-seed %d", r.Seed)
	if s.Nodes > 0 {
		flags += fmt.Sprintf(" -nodes %d", s.Nodes)
	}
	if s.Troubles {
		flags += " -troubles"
	}
	if s.Trouble != "" {
		flags += fmt.Sprintf(" -trouble %q", s.Trouble)
	}
	if s.Mutant != "" {
		flags += fmt.Sprintf(" -mutant %q", s.Mutant)
	}
	t.Errorf("%v\nreplay with: go run ./internal/lab/sim %s", r.Failure, flags)
	one, small := s.scenario(r.Seed), &Result{}
	for i := 0; i < replays && small.Failure == nil; i++ {
		small = run(t, one, true)
	}
	require.NotNil(t, small.Failure, "it does not replay in %d runs", replays)
	begun := time.Now()
	one, small = Shrink(one, small, func(one *Scenario) *Result {
		if time.Since(begun) > patience {
			return &Result{}
		}
		return run(t, one, true)
	})
	var present []string
	for i, n := range one.Nodes {
		if !n.Absent {
			present = append(present, fmt.Sprintf("node %d: %+v", i, n))
		}
	}
	trace := digest(small)
	trace = trace[max(0, len(trace)-max(0, most-len(present))):]
	var b strings.Builder
	fmt.Fprintf(&b, "in short, with %d of %d nodes and %d events: %v\n", len(present), len(one.Nodes), len(one.Events), small.Failure)
	fmt.Fprintf(&b, "%v\nworker IDs 0 to %d, %v; window %v; all on one host: %t\n",
		one.Layout, one.Last, []string{"recycled", "kept", "used once"}[one.Reuse], one.Window, one.OneHost)
	for _, line := range slices.Concat(present, trace) {
		fmt.Fprintln(&b, line)
	}
	t.Log(b.String())
}

// digest returns the events of a trace, and the saves and last calls of the nodes that the failure
// names.
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

// append appends a report to the file that all processes share.
func (s Settings) append(t *testing.T, r Report) {
	f, err := os.OpenFile(s.Report, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	require.NoError(t, errors.Join(json.NewEncoder(f).Encode(r), f.Close()))
}
