// Command sim runs simulated fleets, and fails if an ID is issued twice or another promise is broken. Package
// fleet says what happens in a fleet.
//
//	go run ./internal/sim -seeds 10000
//	go run ./internal/sim -nodes 1024 -seeds 2
//	go run ./internal/sim -seed 42 -v
//	go run ./internal/sim -mutants
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/sim/fleet"
	"github.com/seed-5394e6b1/snowflake/internal/sim/seam"
)

// settings are the simulator's flags.
type settings struct {
	from, seeds uint64
	nodes       int
	mutant      string
	procs       int
	verbose     bool
	twice       bool
	leases      bool
	brief       bool
}

func main() {
	s := settings{procs: runtime.NumCPU()}
	flag.Uint64Var(&s.from, "from", 0, "the first seed")
	flag.Uint64Var(&s.seeds, "seeds", 1000, "how many seeds")
	flag.IntVar(&s.nodes, "nodes", 0, "nodes of each fleet; 0: as many as the seed says")
	flag.BoolVar(&s.verbose, "v", false, "print all that happens")
	flag.BoolVar(&s.twice, "twice", false, "run each seed twice, and compare what happened")
	flag.StringVar(&s.mutant, "mutant", "", "the deliberate defect to switch on")
	flag.BoolVar(&s.leases, "leases", false, "run only the fleets that the model of the leases describes, with less load")
	seed := flag.Uint64("seed", 0, "run this one seed")
	race := flag.Bool("race", false, "build with the race detector")
	list := flag.Bool("mutants", false, "list the deliberate defects")
	flag.Parse()
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "seed" {
			s.from, s.seeds = *seed, 1
		}
	})
	if *list {
		printMutants()
		return
	}
	err := s.check()
	if err == nil {
		err = simulate(s, *race)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func printMutants() {
	for _, m := range mutants {
		var how []string
		for _, k := range m.always {
			how = append(how, k.String()+" of "+k.pkg)
		}
		fmt.Printf("%s\n\t%s\n\tfound on every run by %s; %s\n", m.name, m.why, strings.Join(how, ", "), m.path)
	}
}

// check returns an error if the settings make no sense.
func (s *settings) check() error {
	if s.verbose || s.seeds == 1 {
		s.procs = 1
	}
	known := s.mutant == "" || slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == s.mutant })
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected: %q", flag.Args())
	case !known:
		return fmt.Errorf("there is no mutant %q; -mutants lists them", s.mutant)
	case s.nodes < 0 || s.nodes > 1024:
		return fmt.Errorf("-nodes %d is not within 0 to 1024", s.nodes)
	case s.seeds == 0 || s.from+s.seeds < s.from:
		return fmt.Errorf("-seeds %d from %d is no seed, or too many", s.seeds, s.from)
	}
	return nil
}

// simulate builds the simulator, runs it and prints the result.
func simulate(s settings, race bool) error {
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := build(dir, "./internal/sim/fleet", race)
	if err != nil {
		return err
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt) // if one comes, the programs end and report what they have
	begun := time.Now()
	reports, err := run(program, s, os.Stdout)
	fmt.Println(summary(reports, time.Since(begun)))
	return err
}

// run divides the seeds among processes with one thread each, and returns their reports. If a process fails, run
// ends at once.
func run(program string, s settings, out io.Writer) ([]fleet.Report, error) {
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	cmds := make([]*exec.Cmd, s.procs)
	outputs := make([]bytes.Buffer, s.procs)
	report := filepath.Join(dir, "report")
	for i := range s.procs {
		cmd := exec.Command(program, "-test.run=^TestSeeds$", "-test.timeout=0",
			fmt.Sprintf("-sim.from=%d", s.from+uint64(i)), fmt.Sprintf("-sim.to=%d", s.from+s.seeds), fmt.Sprintf("-sim.every=%d", s.procs),
			fmt.Sprintf("-sim.nodes=%d", s.nodes),
			fmt.Sprintf("-sim.trace=%t", s.verbose), fmt.Sprintf("-sim.twice=%t", s.twice), fmt.Sprintf("-sim.brief=%t", s.brief), fmt.Sprintf("-sim.leases=%t", s.leases), "-sim.report="+report)
		cmd.Env = withMutant(s.mutant)
		cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
		if s.procs == 1 {
			cmd.Stdout, cmd.Stderr = out, out
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		cmds[i] = cmd
	}
	for i, cmd := range cmds {
		wg.Go(func() {
			err := cmd.Wait()
			mu.Lock()
			defer mu.Unlock()
			if err == nil || failed != nil {
				return
			}
			failed = err
			_, _ = io.Copy(out, &outputs[i])
			for _, other := range cmds {
				_ = other.Process.Kill()
			}
		})
	}
	wg.Wait()
	reports, err := read(report)
	if failed != nil {
		err = failed
	}
	return reports, err
}

// withMutant returns the environment of a program with this mutant switched on.
func withMutant(name string) []string { return append(os.Environ(), seam.Variable+"="+name) }

func read(name string) (reports []fleet.Report, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r fleet.Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, lines.Err()
}

// sum returns what all runs counted, and how many seeds they ran.
func sum(reports []fleet.Report) (t fleet.Totals, seeds int) {
	t = fleet.Totals{}
	for _, r := range reports {
		t.Add(r.Totals)
		seeds += r.Seeds
	}
	return t, seeds
}

// summary says what was simulated.
func summary(reports []fleet.Report, took time.Duration) string {
	t, seeds := sum(reports)
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds in %v, in which there were so many", seeds, took.Round(time.Millisecond))
	for _, what := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, "\n%12d %s (%.0f a minute)", t[what], what, float64(t[what])/took.Minutes())
	}
	return b.String()
}
