// Command report compares this library with its peers, and writes tables: those to decide by into
// docs/benchmarks.md, all others into plain text beside the benchmarks. Run it from the root of the
// repository.
//
//	go run ./bench/report          # write tables of docs/benchmarks.md, its chart, bench/figures.txt
//	go run ./bench/report -check   # compare a few ratios with bench/baseline.json
//	go run ./bench/report -update  # measure them, and make them the baseline
//	go run ./bench/report -server  # measure snowflaked: docs/benchmarks.md, bench/server/figures.txt
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
	rounds := flag.Int("rounds", 7, "the number of runs of each benchmark")
	benchtime := flag.Duration("benchtime", 100*time.Millisecond, "the duration of a run")
	check := flag.Bool("check", false, "compare ratios with bench/baseline.json, and fail if one is worse")
	update := flag.Bool("update", false, "measure the ratios and write bench/baseline.json")
	server := flag.Bool("server", false, "compare snowflaked with Redis and PostgreSQL, and write bench/server/figures.txt")
	flag.Parse()
	if *rounds < 1 || *benchtime <= 0 {
		fmt.Fprintf(os.Stderr, "report: -rounds %d -benchtime %v: both must be more than 0\n", *rounds, *benchtime)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *benchtime, *check, *update, *server); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, benchtime time.Duration, check, update, server bool) error {
	benchmarks := module
	if server {
		benchmarks += "/server"
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", benchmarks).Output()
	if err != nil {
		return fmt.Errorf("go list %s, which must run in the repository: %w", benchmarks, err)
	}
	// Benchmarks run in their package's directory, as with go test. The pages' paths are relative
	// to it, too.
	if err := os.Chdir(strings.TrimSpace(string(out))); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	bin := filepath.Join(temp, "bench.test.exe")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", bin, ".")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	switch {
	case server:
		return reportServer(ctx, bin, rounds, benchtime)
	case update:
		return updateBaseline(ctx, bin)
	case check:
		return checkBaseline(ctx, bin)
	}
	return report(ctx, bin, rounds, benchtime)
}

// report runs all benchmarks, and writes the tables and the chart.
func report(ctx context.Context, bin string, rounds int, benchtime time.Duration) error {
	peers, err := peers(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	s, err := measure(ctx, bin, rounds, benchtime)
	if err != nil {
		return err
	}
	all := tables(s, subjects)
	all["libraries"], all["goals"] = comparison(s), goalsTable(goals(s))
	for _, name := range []string{"libraries", "goals"} { // the page names the machine for the others
		all[name] = "On " + s.cpu + ":\n\n" + all[name]
	}
	page, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil {
		return err
	}
	all["makes"] = makes(string(page), s, start)
	all["machine"] = machine(s, fmt.Sprintf("go run ./bench/report -rounds %d -benchtime %v", rounds, benchtime), start, "peers", peers)
	if err := writeTables(all, "../docs/benchmarks.md", "figures.txt"); err != nil {
		return err
	}
	return os.WriteFile("../docs/benchmarks-next.svg", []byte(chart(s)), 0o644)
}
