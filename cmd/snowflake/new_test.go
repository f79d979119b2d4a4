//go:build go1.25

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func TestNewPrintsIncreasingIDs(t *testing.T) {
	var last snowflake.ID
	out := lines(succeed(t, "new", "-n", "10000", "--worker", "7"))
	assert.Len(t, out, 10000)
	for _, line := range out {
		id, err := snowflake.ParseID(line)
		require.NoError(t, err)
		require.Greater(t, id, last)
		require.Equal(t, 7, snowflake.Decode(id).Worker)
		last = id
	}
	assert.WithinDuration(t, time.Now(), snowflake.Decode(last).Time, time.Minute)
	assert.Len(t, lines(succeed(t, "new", "-n", "3", "--layout", "41/10/0")), 3, "one ID a tick")
}

func TestNewDecodes(t *testing.T) {
	out := lines(succeed(t, "new", "-n", "3", "--decode", "--layout", "twitter", "--worker", "3", "--datacenter", "4"))
	assert.Len(t, out, 3)
	for _, line := range out {
		assert.Regexp(t, `^\d+ time=\S+ datacenter=4 worker=3 sequence=\d+$`, line)
		text, fields, _ := strings.Cut(line, " ")
		id, err := snowflake.ParseID(text)
		require.NoError(t, err)
		assert.Equal(t, fields, layouts.Twitter().Decode(id).String())
	}
	assert.Regexp(t, `^\{"id":"\d+","form":"decimal",.*\n\{"id":".*\n$`, succeed(t, "new", "-n", "2", "--json"))
}

// states returns what "worker" says of each worker of dir.
func states(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	for _, line := range lines(succeed(t, "workers", "--store", dir))[2:] {
		all = append(all, strings.Fields(line)[1])
	}
	return strings.Join(all, " ")
}

func TestNewWithALease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	l, err := lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Owner: "other", Layout: layouts.Twitter(), First: 1, Count: 1})
	require.NoError(t, err)
	defer l.Release(context.Background())

	out := lines(succeed(t, "new", "-n", "3", "--decode", "--store", dir, "--layout", "twitter", "--datacenter", "4"))
	require.Len(t, out, 3)
	text, fields, _ := strings.Cut(out[2], " ")
	assert.Contains(t, fields, "datacenter=4")
	last, err := snowflake.ParseID(text)
	require.NoError(t, err)
	parts := layouts.Twitter().Decode(last)
	assert.NotEqual(t, 1, parts.Worker)

	// The next holder may begin in the tick after the last ID.
	records, err := lease.Holders(t.Context(), lease.File(dir))
	require.NoError(t, err)
	require.Len(t, records, 2)
	for _, r := range records {
		assert.Equal(t, r.Worker == 1, r.State == lease.StateHeld)
		assert.True(t, r.Worker == 1 || r.To.Equal(parts.Time.Add(time.Millisecond)))
	}

	want := fmt.Sprintf(`^layout: 41/0/5/5/12@.*\nworker +state .*\n(.*\n)*1 +held +20\S+ +0 +%d +\S+ +other\n`, os.Getpid())
	assert.Regexp(t, want, succeed(t, "workers", "--store", dir))
	assert.Contains(t, succeed(t, "workers", "--store", dir, "--json"), `"state":"free"`)
	assert.Regexp(t, fmt.Sprintf(`^%s owner=\S+ host=\S+ pid=%d worker=%d clockSeq=0 grantedFrom=20\S+ grantedTo=20\S+\n$`,
		text, os.Getpid(), parts.Worker),
		succeed(t, "whois", "--store", dir, text))
	issuers, errs, status := runCLI("whois", "--store", dir, "--json", "7", text)
	assert.Equal(t, exitFailure, status)
	assert.Equal(t, "snowflake: one of the IDs has no known issuer\n", errs)
	assert.Regexp(t, `^\{"id":"7","error":"[^"]+"\}\n\{"id":"`+text+`","holder":\{"worker":.*\n$`, issuers)

	ids, errs, status := runCLI("new", "--store", dir)
	assert.Equal(t, exitUsage, status, "the layout is another")
	assert.Empty(t, ids)
	assert.Contains(t, errs, layouts.Twitter().String())
}

// The layout is that of the leases, and the rest of the audit is as without them.
func TestAuditComparesWithTheLeases(t *testing.T) {
	dir, layout := t.TempDir(), layouts.Twitter()
	ids := succeed(t, "new", "-n", "3", "--store", dir, "--layout", "twitter")
	runInput := func(in io.Reader, args ...string) (string, string, int) {
		var out, errs strings.Builder
		status := run(args, in, &out, &errs, time.Now) // the leases have the real time
		return out.String(), errs.String(), status
	}
	out, errs, status := runInput(strings.NewReader(ids), "audit", "--store", dir, "--datacenter", "0")
	assert.Zero(t, status, errs)
	assert.Contains(t, out, "nothing is wrong\n")
	assert.Contains(t, out, "\n3 of 3 IDs were issued by a holder of their worker ID\n")

	holders, err := lease.Holders(t.Context(), lease.File(dir))
	require.NoError(t, err)
	parts := snowflake.Parts{Time: holders[0].To.Add(time.Second), Worker: holders[0].Worker}
	for range 2 { // after the last holder, and of a worker ID that was never leased
		rogue, err := layout.Encode(parts)
		require.NoError(t, err)
		ids += rogue.String() + "\n"
		parts.Worker ^= 1
	}
	out, _, status = runInput(strings.NewReader(ids), "audit", "--store", "file:"+dir, "--json", "--datacenter", "0")
	assert.Equal(t, exitFailure, status)
	var r audit.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Equal(t, 3, r.Leases.Held)
	require.Len(t, r.Leases.Strangers, 2)
	for _, g := range r.Leases.Strangers {
		assert.Equal(t, g.Worker == holders[0].Worker, g.Before != nil)
	}
	out, _, status = runInput(strings.NewReader(ids), "audit", "--store", dir, "--datacenter", "0", "-n", "1")
	assert.Equal(t, exitFailure, status)
	assert.NotContains(t, out, "nothing is wrong")
	assert.Contains(t, out, "WRONG: IDs that no process with a lease can have issued: 2\n  worker ")
	assert.Contains(t, out, "  and 1 more (-n)\n")
	_, _, status = runInput(strings.NewReader(ids), "audit", "--store", dir, "--datacenter", "0", "--worker",
		fmt.Sprint(holders[0].Worker^1), "--since", "2007-01-01")
	assert.Equal(t, exitFailure, status)

	for args, says := range map[string]string{
		"audit --store " + dir:                                 "has datacenters: name those",
		"audit --datacenter 0 --layout default --store " + dir: "--layout: the leases are of the layout " + layout.String(),
		"audit --datacenter 0 --since never --store " + dir:    "never",
		"audit --store " + t.TempDir():                         "the store has no entries",
		"audit --store " + filepath.Join(dir, "none"):          "no such file",
		"audit --store redis://x":                              "for other stores use snowflaked",
		"audit --worker 5":                                     "--worker, --datacenter and --since are for --store",
	} {
		_, errs, status := runInput(strings.NewReader(ids), strings.Fields(args)...)
		assert.NotZero(t, status, args)
		assert.Contains(t, errs, says)
	}
}

// The layout has one ID a second. Without the lease, invocations within one second
// would issue the same ID. A window is a tick at least.
func TestNewWithALeaseInvokedOftenInATick(t *testing.T) {
	dir := t.TempDir()
	seen := map[string]bool{}
	for range 5 {
		seen[succeed(t, "new", "--store", dir, "--layout", "33/4/0@2026-01-01,1s")] = true
	}
	assert.Len(t, seen, 5)
	assert.Len(t, lines(succeed(t, "new", "--store", t.TempDir(), "--layout", "default@2026-01-01,1h")), 1)
}

func TestNewWithALeaseAtTheSameTime(t *testing.T) {
	const runs, n = 8, 3000
	dir := t.TempDir()
	var outs [runs]string
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			var errs string
			outs[i], errs, _ = runCLI("new", "-n", fmt.Sprint(n), "--store", dir)
			assert.Empty(t, errs)
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, line := range lines(strings.Join(outs[:], "")) {
		seen[line] = true
	}
	assert.Len(t, seen, runs*n)
}

// If the input is refused, nothing is leased.
func TestNewWithALeaseRefusesInput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	for args, says := range map[string]string{
		"--datacenter 1":              "datacenter 1",
		"--layout baidu":              "2024-11-20",
		"--layout default@9999-01-01": "9999-01-01",
	} {
		out, errs, status := runCLI(strings.Fields("new --store " + dir + " " + args)...)
		assert.Equal(t, exitUsage, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, says)
		assert.NoDirExists(t, dir)
	}
}

func TestEmptyAndBrokenDirectories(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, "this store has never lent a worker ID: is it the right store?\n", succeed(t, "workers", "--store", dir))
	assert.Equal(t, "[]\n", succeed(t, "workers", "--store", dir, "--json"))
	_, errs, status := runCLI("watermark", "--store", dir)
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, errs, "the store is new, or has lost entries")

	succeed(t, "new", "--store", dir)
	paths, err := filepath.Glob(filepath.Join(dir, "worker", "*[0-9]"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	text, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(paths[0], text[:len(text)/2], 0o644))
	for _, args := range [][]string{{"workers", "--store", dir}, {"workers", "--json", "--store", dir}} {
		out, errs, status := runCLI(args...)
		assert.Equal(t, exitFailure, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, paths[0])
	}
}

func TestWorkersRetiresAWorkerID(t *testing.T) {
	dir := t.TempDir()
	l, err := lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Owner: "a", Reuse: lease.ReuseKeep, LocalCopy: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
	assert.Contains(t, succeed(t, "workers", "--store", dir, "--retire", strconv.Itoa(l.Worker()), "--json"), `"state":"spent"`)
	_, errs, status := runCLI("workers", "--store", dir, "--retire", strconv.Itoa(l.Worker()^1))
	assert.Equal(t, exitFailure, status)
	assert.Contains(t, errs, "nobody has it")
}

func TestWatermarkIsBelowTheNextID(t *testing.T) {
	dir := t.TempDir()
	l, err := lease.Acquire(t.Context(), lease.File(dir), nil)
	require.NoError(t, err)
	defer l.Release(context.Background())
	g, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	id, err := snowflake.ParseID(lines(succeed(t, "watermark", "--store", dir))[0])
	require.NoError(t, err)
	next, err := g.NextID()
	require.NoError(t, err)
	assert.Positive(t, id)
	assert.Greater(t, next, id)
}

// A holder without a generator may stamp any time since it began. The JSON is the server's.
func TestWatermarkNamesTheHolderThatKeepsItBack(t *testing.T) {
	dir := t.TempDir()
	l, err := lease.Acquire(t.Context(), lease.File(dir),
		&lease.Options{Owner: "idle-1", Window: 300 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer l.Release(context.Background())
	time.Sleep(700 * time.Millisecond)
	out, errs, code := runCLI("watermark", "--json", "--store", dir)
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "idle-1")
	assert.Regexp(t, `^\{"id":"\d+","heldBy":\{"worker":\d+,"owner":"idle-1","host":".+","pid":\d+,"behind":"\d+\.\d\d\ds","why":".+"\}\}\n$`, out)
}

func TestProcesses(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "snowflake.exe")
	text, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", text)

	// start starts a process that prints IDs for ever, and returns when it has
	// begun.
	start := func(t *testing.T, dir string) (cmd *exec.Cmd, out io.ReadCloser) {
		cmd = exec.Command(bin, "new", "-n", "1000000000", "--decode", "--store", dir)
		cmd.Stderr = new(strings.Builder)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill() })
		_, err = bufio.NewReaderSize(out, 256).ReadString('\n')
		require.NoError(t, err)
		return cmd, out
	}
	failed := func(t *testing.T, cmd *exec.Cmd, says string) {
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		assert.Equal(t, exitFailure, exit.ExitCode())
		assert.Equal(t, says, withoutLog(fmt.Sprint(cmd.Stderr)))
	}

	t.Run("have different workers", func(t *testing.T) {
		dir := t.TempDir()
		for range 3 {
			_, out := start(t, dir)
			go io.Copy(io.Discard, out)
		}
		assert.Equal(t, "held held held", states(t, dir))
	})

	t.Run("release when interrupted", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("a process cannot be interrupted")
		}
		dir := t.TempDir()
		cmd, out := start(t, dir)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_, err := io.Copy(io.Discard, out)
		require.NoError(t, err)
		failed(t, cmd, "snowflake: interrupted\n")
		assert.Equal(t, "free", states(t, dir))
	})

	t.Run("release when their reader has gone", func(t *testing.T) {
		dir := t.TempDir()
		cmd, out := start(t, dir)
		require.NoError(t, out.Close())
		failed(t, cmd, "")
		assert.Equal(t, "free", states(t, dir))
	})

	t.Run("follow their input line by line", func(t *testing.T) {
		cmd := exec.Command(bin, "decode", "-", "--layout", "twitter")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		r := bufio.NewReader(out)
		for range 3 {
			fmt.Fprintln(in, "line 1541815603606036480")
			line, err := r.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, "line 1541815603606036480 (time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0)\n", line)
		}
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	})
}
