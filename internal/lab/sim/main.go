//go:build go1.25

// Command sim runs simulated fleets, and fails if an ID is issued twice or another promise is
// broken. Package fleet says what happens in a fleet.
//
//	go run ./internal/lab/sim -seeds 10000
//	go run ./internal/lab/sim -nodes 1024 -seeds 2
//	go run ./internal/lab/sim -seed 42 -v
//	go run ./internal/lab/sim -troubles -seeds 4000
//	go run ./internal/lab/sim -mutants
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
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

	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/fleet"
	"github.com/seed-5394e6b1/snowflake/internal/lab/sim/seam"
)

func main() {
	var s fleet.Settings
	flag.Uint64Var(&s.From, "from", 0, "the first seed")
	seeds := flag.Uint64("seeds", 1000, "the number of seeds")
	seed := flag.Uint64("seed", 0, "run this seed alone")
	flag.IntVar(&s.Nodes, "nodes", 0, "the number of nodes of each fleet, up to 1024; 0: each seed decides")
	flag.BoolVar(&s.Trace, "v", false, "print the trace of each run")
	flag.StringVar(&s.Mutant, "mutant", "", "switch on this deliberate defect; -mutants lists them")
	flag.BoolVar(&s.Troubles, "troubles", false,
		"run fleets with more troubles and without random faults, and print the longest recovery from each kind")
	flag.StringVar((*string)(&s.Trouble), "trouble", "", "with -troubles: run this trouble alone, by its name in docs/operations.md")
	list := flag.Bool("mutants", false, "list the deliberate defects")
	flag.Parse()
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "seed" {
			s.From, *seeds = *seed, 1
		}
	})
	s.To = s.From + *seeds
	if *list {
		printMutants()
		return
	}
	err := check(s)
	if err == nil {
		err = simulate(s)
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

// check returns an error if the settings are invalid.
func check(s fleet.Settings) error {
	known := s.Mutant == "" || slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == s.Mutant })
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected arguments: %q", flag.Args())
	case !known:
		return fmt.Errorf("there is no mutant %q; -mutants lists them", s.Mutant)
	case s.Nodes < 0 || s.Nodes > 1024:
		return fmt.Errorf("-nodes %d is not within 0 to 1024", s.Nodes)
	case s.To <= s.From:
		return errors.New("-seeds is 0, or too large")
	}
	return nil
}

// simulate builds the simulator, runs it and prints the result.
func simulate(s fleet.Settings) error {
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := build(dir, false, simulator); err != nil {
		return err
	}
	procs := runtime.NumCPU()
	if s.Trace || s.To == s.From+1 {
		procs = 1
	}
	interrupts := make(chan os.Signal, 1)
	// An interrupt ends the programs, which then write their reports.
	signal.Notify(interrupts, os.Interrupt)
	begun := time.Now()
	reports, err := run(programIn(dir, simulator), procs, s, os.Stdout)
	fmt.Println(summary(reports, time.Since(begun)))
	if s.Troubles {
		fmt.Print(worst(reports))
	}
	return err
}

// run divides the seeds among processes with one thread each, and returns their reports. If a
// process fails, run ends the others.
func run(program string, procs int, s fleet.Settings, out io.Writer) ([]fleet.Report, error) {
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	cmds := make([]*exec.Cmd, procs)
	outputs := make([]bytes.Buffer, procs)
	s.Every, s.Report = uint64(procs), filepath.Join(dir, "report")
	for i := range cmds {
		args, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(program, "-test.run=^TestSeeds$", "-test.timeout=0", "-sim="+string(args))
		cmd.Env = withMutant(s.Mutant)
		cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
		if procs == 1 {
			cmd.Stdout, cmd.Stderr = out, out
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		cmds[i] = cmd
		s.From++
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
	reports, err := read(s.Report)
	return reports, cmp.Or(failed, err)
}

// withMutant returns the environment of a program with a mutant switched on.
func withMutant(name string) []string { return append(os.Environ(), seam.Variable+"="+name) }

// read returns the reports in a file.
func read(name string) (reports []fleet.Report, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := json.NewDecoder(f); lines.More(); {
		var r fleet.Report
		if err := lines.Decode(&r); err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// sum returns the totals of all reports, and their number of seeds.
func sum(reports []fleet.Report) (t fleet.Totals, seeds int) {
	t = fleet.Totals{}
	for _, r := range reports {
		t.Add(r.Totals)
		seeds += r.Seeds
	}
	return t, seeds
}

// summary describes the totals of the reports.
func summary(reports []fleet.Report, took time.Duration) string {
	t, seeds := sum(reports)
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds in %v, with", seeds, took.Round(time.Millisecond))
	for _, what := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, "\n%12d %s (%.0f a minute)", t[what], what, float64(t[what])/took.Minutes())
	}
	return b.String()
}

// worst describes the longest recovery from each kind of trouble.
func worst(reports []fleet.Report) string {
	all := fleet.Worst{}
	for _, r := range reports {
		all.Add(r.Worst)
	}
	var b strings.Builder
	fmt.Fprintln(&b, "the longest times, with windows of 3 s, until all issue IDs, a newcomer has a worker ID, "+
		"and the watermark lags by less than two windows\n(in deployments and growth, with windows of 30 s: the watermark's longest lag):")
	for _, l := range fleet.Bounds {
		t := all[l.Trouble]
		fmt.Fprintf(&b, "%-38s %6.1f s %6.1f s %6.1f s in %d runs\n", l.Trouble, t.Issue.Seconds(), t.Start.Seconds(),
			t.Watermark.Seconds(), t.Runs)
	}
	return b.String()
}
