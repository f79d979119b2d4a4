package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/holding"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// record returns worker's record at noon, held by a live holder.
func record(worker int) lease.Record {
	return lease.Record{
		Worker: worker, Saves: 1, Token: "token", State: lease.Held, Owner: "web-7", Host: "node-1", PID: 4711,
		Layout: snowflake.ClockSeqLayout(), Bounds: []time.Time{noon.Add(3 * time.Second)},
		Window: 3 * time.Second, Renewed: noon,
	}
}

func TestListOfWorkers(t *testing.T) {
	live, dead, free, spent, strange := record(0), record(2), record(9), record(10), record(127)
	live.Bounds, live.ClockSeq = append(live.Bounds, noon.Add(time.Hour).In(time.FixedZone("", 3600))), 1
	dead.State = lease.Dead
	free.State = lease.Free
	spent.State = lease.Spent
	spent.Host, spent.PID = "", 0
	strange.Owner, strange.Host = "a b", "x\ny"

	var b strings.Builder
	holding.Write(&b, []lease.Record{live, dead, free, spent, strange})
	assert.Equal(t, `layout: time=41 clockseq=3 worker=7 sequence=12 unit=1ms epoch=2026-01-01T00:00:00.000Z
worker  state  until                     clockseq  pid   host    owner
0       held   2026-06-01T13:00:00.000Z  1         4711  node-1  web-7
2       dead   2026-06-01T12:00:03.000Z  0         4711  node-1  web-7
9       free   2026-06-01T12:00:03.000Z  0         4711  node-1  web-7
10      spent  2026-06-01T12:00:03.000Z  0         0     ""      web-7
127     held   2026-06-01T12:00:03.000Z  0         4711  "x\ny"  "a b"
`, b.String())
}

func TestListOfWorkersOfTwoLayouts(t *testing.T) {
	first, second, third := record(0), record(1), record(2)
	second.Layout, third.Layout = snowflake.DefaultLayout(), snowflake.DefaultLayout()
	var b strings.Builder
	holding.Write(&b, []lease.Record{first, second, third})
	out := lines(b.String())
	require.Len(t, out, 7)
	for i, prefix := range []string{"layout: time=41 clockseq=3 ", "worker ", "0 ", "layout: time=41 worker=10 ", "worker ", "1 ", "2 "} {
		assert.True(t, strings.HasPrefix(out[i], prefix), out[i])
	}
}

// only checks that "worker" lists n worker IDs of dir, all in one state.
func only(t *testing.T, dir string, n int, state string) {
	t.Helper()
	assert.Equal(t, slices.Repeat([]string{state}, n), slices.Collect(maps.Values(states(t, dir))))
}

// states returns what "worker" says of each worker of dir.
func states(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, line := range lines(succeed(t, "worker", "--dir", dir))[2:] {
		fields := strings.Fields(line)
		m[fields[0]] = fields[1]
	}
	return m
}

func TestWorkerReadsWhatLeasesWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	var held []*lease.Lease
	for i := range 2 {
		l, err := lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Owner: fmt.Sprintf("web-%d", i), First: i, Count: 1})
		require.NoError(t, err)
		held = append(held, l)
	}
	require.NoError(t, held[0].Release(t.Context()))
	defer held[1].Release(context.Background())

	out := lines(succeed(t, "worker", "--dir", dir))
	require.Len(t, out, 4)
	const until = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`
	assert.Equal(t, "layout: "+snowflake.DefaultLayout().String(), out[0])
	assert.Regexp(t, fmt.Sprintf(`^0 +free +%s +0 +%d +\S+ +web-0$`, until, os.Getpid()), out[2])
	assert.Regexp(t, fmt.Sprintf(`^1 +held +%s +0 +%d +\S+ +web-1$`, until, os.Getpid()), out[3])
}

func TestWorkerOfAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, "no worker ID was ever leased from "+dir+"\n", succeed(t, "worker", "--dir", dir))
}

func TestWorkerRefusesInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	missing := filepath.Join(t.TempDir(), "missing")
	for _, test := range []struct {
		args  []string
		names string
	}{
		{[]string{"worker"}, "--dir"},
		{[]string{"worker", "--dir", ""}, "--dir"},
		{[]string{"worker", "leases"}, `"leases"`},
		{[]string{"worker", "--dir", missing}, missing},
		{[]string{"worker", "--dir", file}, "is not a directory"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			out, errs, status := runCLI(test.args...)
			assert.Equal(t, exitUsage, status)
			assert.Empty(t, out)
			requireOneLine(t, errs)
			assert.Contains(t, errs, test.names)
		})
	}
	assert.NoDirExists(t, missing)
}

func TestBadRecord(t *testing.T) {
	dir := t.TempDir()
	succeed(t, "new", "--dir", dir)
	paths, err := filepath.Glob(filepath.Join(dir, "worker", "*[0-9]"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	text, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(paths[0], text[:len(text)/2], 0o644))
	for _, args := range [][]string{{"worker", "--dir", dir}, {"worker", "--json", "--dir", dir}} {
		out, errs, status := runCLI(args...)
		assert.Equal(t, exitFailure, status)
		assert.Empty(t, out)
		requireOneLine(t, errs)
		assert.Contains(t, errs, paths[0])
	}
}

func TestWorkerReportsFailingOutput(t *testing.T) {
	dir := t.TempDir()
	succeed(t, "new", "--dir", dir)
	var errs strings.Builder
	status := run([]string{"worker", "--dir", dir}, strings.NewReader(""), brokenWriter{errors.New("disk full")}, &errs)
	assert.Equal(t, exitFailure, status)
	assert.Equal(t, "snowflake: disk full\n", withoutLog(errs.String()))
}

func TestNewWithALease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	l, err := lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Owner: "other", Layout: layouts.Twitter()})
	require.NoError(t, err)
	defer l.Release(context.Background())

	out := lines(succeed(t, "new", "-n", "3", "--decode", "--dir", dir, "--layout", "twitter", "--datacenter", "4"))
	assert.Len(t, out, 3)
	text, _, _ := strings.Cut(out[2], " ")
	last, err := snowflake.ParseID(text)
	require.NoError(t, err)
	parts := layouts.Twitter().Decode(last)
	assert.Equal(t, 4, parts.Datacenter)
	assert.NotEqual(t, l.Worker(), parts.Worker)
	assert.Equal(t, map[string]string{fmt.Sprint(l.Worker()): "held", fmt.Sprint(parts.Worker): "free"}, states(t, dir))

	// The next holder may begin in the tick after the last ID.
	records, err := lease.Holders(t.Context(), lease.File(dir))
	require.NoError(t, err)
	for _, r := range records {
		if r.Worker == parts.Worker {
			assert.Equal(t, parts.Time.Add(time.Millisecond), r.Bound())
		}
	}
}

// The layout has one ID a second. Without the lease, invocations within one second
// would issue the same ID.
func TestNewWithALeaseInvokedOftenInATick(t *testing.T) {
	dir := t.TempDir()
	seen := map[string]bool{}
	for range 5 {
		seen[succeed(t, "new", "--dir", dir, "--layout", "33/4/0", "--unit", "1s")] = true
	}
	assert.Len(t, seen, 5)
}

// A window is a tick at least.
func TestNewWithALeaseOfLongTicks(t *testing.T) {
	assert.Len(t, lines(succeed(t, "new", "--dir", t.TempDir(), "--unit", "1h")), 1)
}

func TestNewWithALeaseAtTheSameTime(t *testing.T) {
	const runs, n = 8, 3000
	dir := t.TempDir()
	var outs [runs]string
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			var errs string
			outs[i], errs, _ = runCLI("new", "-n", fmt.Sprint(n), "--dir", dir)
			assert.Empty(t, errs)
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, out := range outs {
		for _, line := range lines(out) {
			seen[line] = true
		}
	}
	assert.Len(t, seen, runs*n)
}

func TestNewWithALeaseRefusesInput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	for _, test := range []struct {
		args  []string
		names string
	}{
		{[]string{"--worker", "0"}, "exclude each other"},
		{[]string{"--dir", ""}, "--dir"},
		{[]string{"-n", "0"}, "-n 0"},
		{[]string{"--datacenter", "1"}, "datacenter 1"},
		{[]string{"--layout", "baidu"}, "2024-11-20"},
		{[]string{"--epoch", "9999-01-01"}, "9999-01-01"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			out, errs, status := runCLI(append([]string{"new", "--dir", dir}, test.args...)...)
			assert.Equal(t, exitUsage, status)
			assert.Empty(t, out)
			requireOneLine(t, errs)
			assert.Contains(t, errs, test.names)
			assert.NoDirExists(t, dir, "nothing was leased")
		})
	}

	succeed(t, "new", "--dir", dir)
	out, errs, status := runCLI("new", "--dir", dir, "--layout", "twitter")
	assert.Equal(t, exitUsage, status)
	assert.Empty(t, out)
	requireOneLine(t, errs)
	assert.Contains(t, errs, snowflake.DefaultLayout().String())
}

func TestNewWithALeaseReleasesItIfOutputFails(t *testing.T) {
	dir := t.TempDir()
	var errs strings.Builder
	status := run([]string{"new", "--dir", dir}, strings.NewReader(""), brokenWriter{errors.New("disk full")}, &errs)
	assert.Equal(t, exitFailure, status)
	assert.Equal(t, "snowflake: disk full\n", withoutLog(errs.String()))
	only(t, dir, 1, "free")
}

func TestProcessesWithLeases(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "snowflake.exe")
	text, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", text)

	// start starts a process that prints IDs for ever, and returns when it has
	// begun.
	start := func(t *testing.T, dir string) (cmd *exec.Cmd, out io.ReadCloser, first string) {
		cmd = exec.Command(bin, "new", "-n", "1000000000", "--decode", "--dir", dir)
		cmd.Stderr = new(strings.Builder)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill() })
		first, err = bufio.NewReaderSize(out, 256).ReadString('\n')
		require.NoError(t, err)
		return cmd, out, first
	}

	t.Run("have different workers", func(t *testing.T) {
		dir := t.TempDir()
		for range 3 {
			_, out, _ := start(t, dir)
			go io.Copy(io.Discard, out)
		}
		only(t, dir, 3, "held")
	})

	t.Run("release when interrupted", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("a process cannot be interrupted")
		}
		dir := t.TempDir()
		cmd, out, _ := start(t, dir)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_, err := io.Copy(io.Discard, out)
		require.NoError(t, err)
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		assert.Equal(t, exitFailure, exit.ExitCode())
		assert.Equal(t, "snowflake: interrupted\n", withoutLog(fmt.Sprint(cmd.Stderr)))
		only(t, dir, 1, "free")
	})

	t.Run("release when their reader has gone", func(t *testing.T) {
		dir := t.TempDir()
		cmd, out, _ := start(t, dir)
		require.NoError(t, out.Close())
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		assert.Equal(t, exitFailure, exit.ExitCode())
		assert.Empty(t, withoutLog(fmt.Sprint(cmd.Stderr)))
		only(t, dir, 1, "free")
	})
}
