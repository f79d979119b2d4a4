package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// served are the tables of bench/server/figures.txt. Call is a table of docs/benchmarks.md.
var served = []subject{
	{"Call", []string{"call"}, "goroutines", "", []unit{{"ns/op", "µs a call", micros, true}, {"IDs/s", "IDs/s", count, false}}},
	{"Batch", []string{"call", "n"}, "goroutines", "", []unit{{"ns/op", "µs a call", micros, true}, {"IDs/s", "IDs/s", count, false}}},
	{"Half", []string{"call"}, "", "", []unit{{"calls/s", "calls/s", count, false}, {"p50-ns", "p50", shortTime, true}, {"p99.9-ns", "p99.9", shortTime, true}}},
	{"Overhead", []string{"access-log"}, "", "", []unit{{"cpu-ratio", "processor time, ratio", hundredths, true}, {"rate-ratio", "requests a second, ratio", hundredths, true},
		{"cpu-ns/request", "µs of a request", micros, false}, {"cpu-ns/constant", "µs of a constant", micros, false}}},
}

// reportServer measures snowflaked, and writes its tables.
func reportServer(ctx context.Context, bin string, rounds int, benchtime time.Duration) error {
	for name, value := range map[string]string{
		"SNOWFLAKE_FULL": "1", // the servers' data is on disk
		"CI":             "1", // all servers must be installed
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	s, start := newSamples(), time.Now()
	for range rounds {
		if err := s.run(ctx, bin, ".", benchtime.String(), "-load", (8 * benchtime).String()); err != nil {
			return err
		}
	}
	all := tables(s, served)
	all["server-machine"] = machine(s, fmt.Sprintf("go run ./bench/report -server -rounds %d -benchtime %v", rounds, benchtime), start,
		"servers", "Redis "+version(ctx, "redis-server")+", PostgreSQL "+version(ctx, "/usr/lib/postgresql/*/bin/postgres"))
	return writeTables(all, "../../docs/benchmarks.md", "figures.txt")
}

// version returns the version of a program, which is a name or a pattern. The last match counts.
func version(ctx context.Context, program string) string {
	if found, err := filepath.Glob(program); err == nil && len(found) > 0 {
		program = found[len(found)-1]
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "of an unknown version"
	}
	return regexp.MustCompile(`[0-9]+(\.[0-9]+)*`).FindString(string(out))
}
