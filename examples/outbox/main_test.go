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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

func TestMain(m *testing.M) {
	if os.Getenv("OUTBOX_CHILD") != "" {
		main()
		return
	}
	os.Exit(servertest.Main(m, nil))
}

// program returns the command that runs this test binary as the outbox program.
func program(t *testing.T, args ...string) *exec.Cmd {
	path := servertest.Must(os.Executable())(t)
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "OUTBOX_CHILD=1"), os.Stderr
	return cmd
}

// Every event of two writers is delivered, including those written while the deliverer was dead.
func TestEveryEventIsDelivered(t *testing.T) {
	addr, _ := servertest.Postgres(t, "", nil)
	url := servertest.PostgresURL(addr)
	db := servertest.Open(t, "pgx", url)
	// As an init leaves it that failed after this statement.
	servertest.Must(db.Exec(`CREATE TABLE outbox (id bigint PRIMARY KEY, event text NOT NULL)`))(t)
	require.NoError(t, program(t, url, "init").Run())

	deliver := func() (events *bufio.Scanner, kill func()) {
		cmd := program(t, url+"&application_name=killed", "deliver")
		out := servertest.Must(cmd.StdoutPipe())(t)
		require.NoError(t, cmd.Start())
		kill = func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			require.Eventually(t, func() bool { // until no statement of it runs any more
				sessions := 1
				err := db.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE application_name = 'killed'`).Scan(&sessions)
				return err == nil && sessions == 0
			}, time.Minute, 10*time.Millisecond)
		}
		t.Cleanup(kill)
		return bufio.NewScanner(out), kill
	}
	var writers [2]io.WriteCloser
	for i := range writers {
		cmd := program(t, url, "write")
		in := servertest.Must(cmd.StdinPipe())(t)
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
				servertest.Must(fmt.Fprintln(w, event))(t)
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
	page := servertest.Must(os.ReadFile("../../docs/operations.md"))(t)
	_, lag, _ := strings.Cut(string(page), "```sql\n")
	lag, _, _ = strings.Cut(lag, "```")
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		var seconds float64
		var first snowflake.ID
		require.NoError(t, db.QueryRow(lag).Scan(&seconds))
		require.NoError(t, db.QueryRow(`SELECT min(id) FROM outbox WHERE id > (SELECT id FROM outbox_cursor)`).Scan(&first))
		require.Positive(t, seconds)
		require.InDelta(t, time.Since(snowflake.Decode(first).Time).Seconds(), seconds, 60)
	}, time.Minute, 100*time.Millisecond)
	events, kill = deliver()
	await(events)
	kill()

	// The database is restored to the first event, whose neighbor is then committed late.
	servertest.Must(db.Exec(`UPDATE outbox_fence SET id = (SELECT min(id) FROM outbox);
		SELECT setval('outbox_fence_mark', id) FROM outbox_fence;
		INSERT INTO outbox SELECT min(id) + 1, 'late' FROM outbox`))(t)
	for range 2 { // it cannot print, and so dies before it has stored a cursor
		cmd := program(t, url, "deliver")
		in, out, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, in.Close())
		cmd.Stdout = out
		require.NoError(t, cmd.Start())
		silent := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		require.ErrorContains(t, cmd.Wait(), "broken pipe")
		silent.Stop()
		require.NoError(t, out.Close())
	}
	missing["late"] = true
	events, kill = deliver()
	await(events)
	kill()

	// If there are two deliverers, one ends.
	ended := make(chan error, 2)
	for range 2 {
		cmd := program(t, url, "deliver")
		require.NoError(t, cmd.Start())
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
	}
	for deadline := time.Now().Add(time.Minute); len(ended) == 0; time.Sleep(100 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "two deliverers share a cursor")
		write("third")
	}
	require.ErrorContains(t, <-ended, "exit status 1")
}

// A writer whose event cannot be stored gives its worker ID back before it ends.
func TestWriterThatFailsReleasesItsWorkerID(t *testing.T) {
	addr, _ := servertest.Postgres(t, "", nil)
	url := servertest.PostgresURL(addr)
	db := servertest.Open(t, "pgx", url)
	require.NoError(t, program(t, url, "init").Run())
	servertest.Must(db.Exec(`DROP TABLE outbox`))(t)
	cmd := program(t, url, "write")
	cmd.Stdin = strings.NewReader("an event\n")
	require.Error(t, cmd.Run())
	store := servertest.Must(sqllease.New(db, sqllease.PostgreSQL, nil))(t)
	holders := servertest.Must(lease.Holders(t.Context(), store))(t)
	require.Len(t, holders, 1)
	require.Equal(t, lease.StateFree, holders[0].State)
}
