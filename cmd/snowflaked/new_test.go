//go:build unix && go1.25

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// runCLI runs a command, without its environment and the log of its lease.
func runCLI(args ...string) (stdout, stderr string, status int) {
	var out, errs strings.Builder
	status = called(context.Background(), args, func(string) (string, bool) { return "", false }, &out, &errs)
	return out.String(), withoutLog(errs.String()), status
}

var logLine = regexp.MustCompile(`(?m)^(time=|snowflaked: waiting for ).*\n`)

// withoutLog returns what a command wrote to standard error, except what depends on the time: the
// log of its lease, which has a warning if the disk is slow, and that it waits for the store.
func withoutLog(errs string) string { return logLine.ReplaceAllString(errs, "") }

// succeed runs a command, which must not complain, and returns what it printed.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, status := runCLI(args...)
	require.Empty(t, errs)
	require.Equal(t, command.OK, status)
	return out
}

func lines(s string) []string {
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
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
	hold(t, lease.File(dir), lease.Options{Owner: "other", Layout: layouts.Twitter(), First: 1, Count: 1})
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
	assert.Equal(t, command.Failure, status)
	assert.Equal(t, "snowflaked: one of the IDs has no known issuer\n", errs)
	assert.Regexp(t, `^\{"id":"7","error":"[^"]+"\}\n\{"id":"`+text+`","holder":\{"worker":.*\n$`, issuers)

	ids, errs, status := runCLI("new", "--store", dir)
	assert.Equal(t, command.Failure, status, "the layout is another")
	assert.Empty(t, ids)
	assert.Contains(t, errs, layouts.Twitter().String())
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
		assert.Equal(t, command.Usage, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, says)
		assert.NoDirExists(t, dir)
	}
}

// The worker IDs that are kept out of the leases are kept out of these, too: the variables are the
// server's. The flags with a short form, which are not the server's, have none.
func TestNewKeepsToTheServersRange(t *testing.T) {
	env := map[string]string{"SNOWFLAKED_STORE": t.TempDir(), "SNOWFLAKED_FIRST": "5", "SNOWFLAKED_COUNT": "1", "SNOWFLAKED_IDS": "9"}
	var out, errs strings.Builder
	require.Zero(t, called(t.Context(), []string{"new", "--decode"}, lookupIn(env), &out, &errs), &errs)
	require.Len(t, lines(out.String()), 1)
	assert.Contains(t, out.String(), "worker=5 ")
}

func TestBrokenDirectories(t *testing.T) {
	dir := t.TempDir()
	succeed(t, "new", "--store", dir)
	paths, err := filepath.Glob(filepath.Join(dir, "worker", "*[0-9]"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	text, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(paths[0], text[:len(text)/2], 0o644))
	for _, args := range [][]string{{"workers", "--store", dir}, {"workers", "--json", "--store", dir}} {
		out, errs, status := runCLI(args...)
		assert.Equal(t, command.Failure, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, paths[0])
	}
}

func TestProcessesThatIssueIDs(t *testing.T) {
	// start starts a process that prints IDs for ever, and returns when it has
	// begun.
	start := func(t *testing.T, dir string) (cmd *exec.Cmd, out io.ReadCloser) {
		cmd = exec.Command(os.Args[0], "new", "-n", "1000000000", "--decode", "--store", dir)
		cmd.Env = append(os.Environ(), "SNOWFLAKED_TEST_PROGRAM=1")
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
		assert.Equal(t, command.Failure, exit.ExitCode())
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
		dir := t.TempDir()
		cmd, out := start(t, dir)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_, err := io.Copy(io.Discard, out)
		require.NoError(t, err)
		failed(t, cmd, "snowflaked: interrupted\n")
		assert.Equal(t, "free", states(t, dir))
	})

	t.Run("release when their reader has gone", func(t *testing.T) {
		dir := t.TempDir()
		cmd, out := start(t, dir)
		require.NoError(t, out.Close())
		failed(t, cmd, "")
		assert.Equal(t, "free", states(t, dir))
	})
}
