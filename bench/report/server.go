package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// served are the tables of docs/server-figures.md.
var served = []subject{
	{
		bench: "Call", title: "One ID", rows: []string{"call"}, column: "goroutines",
		units: []unit{{"ns/op", "µs a call", micros, true, -1}, {"IDs/s", "IDs/s", count, false, 1}},
		text: `Goroutines that call again as soon as they are answered. "http1" is ` + "`GET /id`" + `, by HTTP/1.1 with a connection
for each goroutine; "connect-json" is the method NextID by POST; "grpc" is NextID by grpc-go, with one connection for all; "buffer" is
NextID of server/client, which takes 1,000 IDs ahead. "redis" is NextID of redislease's Sequencer. "postgres" is
` + "`SELECT nextval`" + ` by pgx, of a sequence with CACHE 1 and with CACHE 100: the call is the same, but the server writes less.`,
	},
	{
		bench: "Batch", title: "Many IDs at once", rows: []string{"call", "n"}, column: "goroutines",
		units: []unit{{"ns/op", "µs a call", micros, true, -1}, {"IDs/s", "IDs/s", count, false, 1}},
		text: `Calls that get n IDs. "http1" is ` + "`GET /ids?n=`" + `, whose lines the client parses; "grpc" is the method Batch; "redis" is Fill of
the Sequencer. "postgres,increment" is one nextval of a sequence with INCREMENT n: the client counts on from there by itself,
and so does the Sequencer's. snowflaked sends each ID. It issues no more than its layout has, which
is 4,096,000 a second by default, for all calls together: 10,000 IDs take 2.44 ms. The Sequencer's layout has
1,024,000 a second, and it runs up to a second ahead of its clock: with it, a short measurement shows more than it can keep up.`,
	},
	{
		bench: "Half", title: "Latency at half of the capacity", rows: []string{"call"},
		units: []unit{{"calls/s", "calls/s", count, false, 0}, {"p50-ns", "p50", shortTime, true, -1}, {"p99.9-ns", "p99.9", shortTime, true, -1}},
		text: `The capacity is what 8 goroutines get that call again at once (one goroutine for "buffer", so that the server has a core). Then calls
begin at fixed times, half as many a second, and a latency counts from the time at which the call should have
begun. So a pause shows in all calls that it delays. "none" is a call that does nothing: its latency is the load
generator's own, and is in every row.`,
	},
	{
		bench: "Overhead", title: "Beside a handler that returns a constant", rows: []string{"access-log"},
		units: []unit{
			{"cpu-ratio", "processor time, ratio", hundredths, true, -1}, {"rate-ratio", "requests a second, ratio", hundredths, true, -1},
			{"cpu-ns/request", "µs of a request", micros, false, 0}, {"cpu-ns/constant", "µs of a constant", micros, false, 0},
		},
		text: `` + "`GET /id`" + ` of snowflaked, and a handler of net/http that writes a constant of the same length, in a server with the same
limits: processes of their own, under load by the same client with 8 connections, in turns of 100 ms. The first ratio is snowflaked's processor time
(user and system) for a request over the constant's. The second is the constant's requests a second over
snowflaked's; the client has most of the processors' time, so it is nearer to 1. With the access log, which is on
by default, snowflaked also formats and writes a line of log for each request, to a file.`,
	},
}

func micros(v float64) string { return nanos(v / 1e3) }

const serverHead = `# How fast snowflaked is

Written by ` + "`%s`" + `, which anyone can repeat, on %s.

| | |
|---|---|
| processor | %s, %d cores |
| system | %s |
| Go | %s |
| servers | %s |

snowflaked with its defaults and a file store, beside what a client could use instead: the Sequencer of redislease, and a
sequence of PostgreSQL. All run on this machine, each server in a process of its own, all with their
default settings (Redis saves nothing), and the client has its part of the same processors. A figure is the median of
%s; in brackets are the lowest and the highest. %v in all. Compare figures of this page with each other only.
`

// reportServer measures snowflaked and writes docs/server-figures.md.
func reportServer(ctx context.Context, rounds int, benchtime time.Duration) error {
	dir, err := moduleDir(ctx, module+"/server")
	if err != nil {
		return err
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
	root := filepath.Join(dir, "..", "..")
	program := filepath.Join(temp, "snowflaked")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	cmd.Dir, cmd.Stderr = filepath.Join(root, "server", "cmd", "snowflaked"), os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%v: %w", cmd, err)
	}
	for name, value := range map[string]string{
		"SNOWFLAKE_BENCH_PROGRAM": program,
		"SNOWFLAKE_FULL":          "1", // the servers' data is on the disk
		"CI":                      "1", // all servers have to be there
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
	command := fmt.Sprintf("go run ./bench/report -server -rounds %d -benchtime %v", rounds, benchtime)
	head := fmt.Sprintf(serverHead, command, time.Now().UTC().Format(time.DateOnly), s.cpu, runtime.NumCPU(),
		runtime.GOOS+"/"+runtime.GOARCH+kernel(), runtime.Version(), versions(ctx), inRounds(rounds), time.Since(start).Round(time.Second))
	return os.WriteFile(filepath.Join(root, "docs", "server-figures.md"), []byte(head+serverDocument(s)), 0o644)
}

// serverDocument is the page without its head.
func serverDocument(s *samples) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Goals\n\n%s", goalsTable(serverGoals(s), ""))
	for _, sub := range served {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s", sub.title, sub.text, sub.table(s))
		fmt.Fprint(&b, faster(s, sub.bench))
	}
	return b.String()
}

func serverGoals(s *samples) (all []goal) {
	for _, g := range [][3]string{
		{"GET /id at most 1.25 times the processor time of a constant, without the access log", "false", "cpu-ratio"},
		{"the same processor time, with it", "true", "cpu-ratio"},
		{"a constant at most 1.25 times as often a second as GET /id, without the access log", "false", "rate-ratio"},
		{"the same rate, with it", "true", "rate-ratio"},
	} {
		all = append(all, atMost(s, g[0], "Overhead/access-log="+g[1], g[2], 1.25, hundredths, served[3].title))
	}
	return all
}

// faster names the calls of other servers that give more IDs a second than http1 and grpc, or says that there is none.
func faster(s *samples, bench string) string {
	var found []string
	measured := false
	for _, name := range s.names {
		call := key(name, "call")
		if !strings.HasPrefix(name, bench+"/") || !strings.HasPrefix(call, "redis") && !strings.HasPrefix(call, "postgres") {
			continue
		}
		ours := 0.0
		for _, way := range []string{"http1", "grpc"} {
			if v := s.median(strings.Replace(name, "call="+call, "call="+way, 1), "IDs/s"); known(v) {
				ours = max(ours, v)
			}
		}
		v := s.median(name, "IDs/s")
		if measured = measured || known(v, ours); v > ours {
			found = append(found, fmt.Sprintf("%s: %s IDs/s against %s", label(strings.TrimPrefix(name, bench+"/")), count(v), count(ours)))
		}
	}
	switch {
	case !measured:
		return ""
	case found == nil:
		return "\nNo other server gives more IDs a second than the better one of http1 and grpc.\n"
	}
	return "\nMore IDs a second than the better one of http1 and grpc: " + strings.Join(found, "; ") + ".\n"
}

// versions are what the servers say of themselves.
func versions(ctx context.Context) string {
	return "Redis " + version(ctx, "redis-server") + ", PostgreSQL " + version(ctx, "/usr/lib/postgresql/*/bin/postgres")
}

// version returns the version of a program: a name, or a pattern of which the last file counts.
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
