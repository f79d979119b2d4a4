// Command report measures this library beside its peers and writes the results to
// docs/. Run it from the root of the repository.
//
//	go run ./bench/report          # measure all, write docs/benchmarks.md, docs/benchmarks-all.md and the charts
//	go run ./bench/report -check   # compare a few ratios with bench/baseline.json
//	go run ./bench/report -update  # measure them, and make them the baseline
//	go run ./bench/report -server  # measure snowflaked, write docs/server-figures.md
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

const module = "github.com/seed-5394e6b1/snowflake/bench"

func main() {
	rounds := flag.Int("rounds", 7, "how often to run each benchmark")
	benchtime := flag.Duration("benchtime", 100*time.Millisecond, "how long to run one, each time")
	check := flag.Bool("check", false, "compare ratios with bench/baseline.json, and fail if one is worse")
	update := flag.Bool("update", false, "measure the ratios and write bench/baseline.json")
	server := flag.Bool("server", false, "measure snowflaked beside Redis and PostgreSQL, and write docs/server-figures.md")
	flag.Parse()
	if *rounds < 1 || *benchtime <= 0 {
		fmt.Fprintf(os.Stderr, "report: -rounds %d -benchtime %v: both must be more than 0\n", *rounds, *benchtime)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do := func() error { return run(ctx, *rounds, *benchtime, *check, *update) }
	if *server {
		do = func() error { return reportServer(ctx, *rounds, *benchtime) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, benchtime time.Duration, compare, update bool) error {
	dir, err := moduleDir(ctx, module)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "baseline.json")
	var base baseline
	var checks []check
	if compare && !update {
		checks = measurable(cpuKnown)
		if base, err = readBaseline(path, checks); err != nil {
			return err
		}
	}
	temp, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	bin, err := build(ctx, dir, temp)
	if err != nil {
		return err
	}
	switch {
	case update:
		return updateBaseline(ctx, bin, path)
	case compare:
		return checkBaseline(ctx, bin, base, checks)
	}
	return report(ctx, bin, dir, rounds, benchtime)
}

// moduleDir returns the folder of a module's source.
func moduleDir(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list %s, which finds it from within the repository only: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// build compiles the benchmarks.
func build(ctx context.Context, dir, temp string) (bin string, err error) {
	bin = filepath.Join(temp, "bench.test.exe")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", bin, ".")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return bin, cmd.Run()
}

// report runs everything and writes the document and its charts.
func report(ctx context.Context, bin, dir string, rounds int, benchtime time.Duration) error {
	m, err := describe(ctx, dir)
	if err != nil {
		return err
	}
	start := time.Now()
	all, err := measure(ctx, bin, rounds, benchtime)
	if err != nil {
		return err
	}
	m.rounds, m.took = rounds, time.Since(start)
	m.command = fmt.Sprintf("go run ./bench/report -rounds %d -benchtime %v", rounds, benchtime)
	docs := filepath.Join(dir, "..", "docs")
	if err := os.MkdirAll(docs, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"benchmarks.md":            document(m, all),
		"benchmarks-all.md":        details(all),
		"benchmarks-next.svg":      nextChart(all),
		"benchmarks-saturated.svg": saturatedChart(all),
	} {
		if err := os.WriteFile(filepath.Join(docs, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
