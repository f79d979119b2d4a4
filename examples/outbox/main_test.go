//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
)

func TestMain(m *testing.M) {
	if os.Getenv("OUTBOX_CHILD") != "" {
		main()
		return
	}
	os.Exit(servertest.Main(m, nil))
}

// program is this test binary as the program.
func program(t *testing.T, args ...string) *exec.Cmd {
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "OUTBOX_CHILD=1"), os.Stderr
	return cmd
}

// Every event of two writers is delivered, also those of the time while the deliverer was dead.
func TestEveryEventIsDelivered(t *testing.T) {
	url := func(addr string) string { return "postgres://owner@" + addr + "/postgres?sslmode=disable" }
	addr, _ := servertest.Postgres(t, "", func(addr string) error { return servertest.Open(t, "pgx", url(addr)).Ping() })
	require.NoError(t, program(t, url(addr), "init").Run())

	deliver := func() (events *bufio.Scanner, kill func()) {
		cmd := program(t, url(addr), "deliver")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		kill = func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		t.Cleanup(kill)
		return bufio.NewScanner(out), kill
	}
	var writers [2]io.WriteCloser
	for i := range writers {
		cmd := program(t, url(addr), "write")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = in.Close()
			require.NoError(t, cmd.Wait())
		})
		writers[i] = in
	}
	missing := map[string]bool{}
	write := func(what string) {
		for i, w := range writers {
			for n := range 10 {
				event := fmt.Sprintf("%s %d %d", what, i, n)
				missing[event] = true
				_, err := fmt.Fprintln(w, event)
				require.NoError(t, err)
			}
		}
	}
	await := func(events *bufio.Scanner) {
		for len(missing) > 0 && events.Scan() {
			id, event, _ := strings.Cut(events.Text(), " ")
			require.Regexp(t, `^\d{15,}$`, id)
			delete(missing, event)
		}
		require.Empty(t, missing)
	}
	write("first")
	events, kill := deliver()
	await(events)
	kill()
	write("second")
	events, _ = deliver()
	await(events)
}
