//go:build unix

package generate_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// both returns the number of IDs in both a and b.
func both(a, b []snowflake.ID) (n int) {
	for _, id := range a {
		if slices.Contains(b, id) {
			n++
		}
	}
	return n
}

// setAbove runs the statements of the script's head that set the state above an ID.
func (f function) setAbove(t testing.TB, id snowflake.ID) {
	t.Helper()
	script := servertest.Must(f.Script())(t)
	statements := script[strings.Index(script, "--   BEGIN;"):strings.Index(script, "--   COMMIT;")]
	for range 2 { // the second time has no effect
		f.exec(t, strings.NewReplacer("--   ", "", "THE_ID", fmt.Sprint(id)).Replace(statements)+"COMMIT")
	}
}

// at returns the same function on another server, or in another database.
func (f function) at(t testing.TB, url string) function {
	f.DB = servertest.Open(t, "pgx", url)
	return f
}

// HAZARD: a replica that is promoted without the primary's last commits, and whose clock is behind,
// repeats IDs that clients have seen. With another worker ID, or with the state above every ID, it
// does not. If its clock is right, it repeats none, however far the primary's IDs were ahead of it.
func TestPromotionThatLosesCommits(t *testing.T) {
	t.Parallel()
	primary := start(t, "-c", "synchronous_commit=local")
	f, right := install(t, primary, snowflake.DefaultLayout()).withClock(t), install(t, primary, layouts.Sonyflake())
	f.must(t, 10)
	right.must(t, 1)
	addr, p := servertest.PostgresStandby(t, primary.addr, nil, "-c", "max_connections=200")
	on := func(f function) function {
		return f.at(t, server{addr: addr, database: f.database}.url("owner", f.path))
	}
	replica := on(f)
	var at string
	require.NoError(t, f.QueryRow(`SELECT pg_current_wal_insert_lsn()::text`).Scan(&at))
	servertest.Await(t, func() error {
		var there bool
		if err := replica.QueryRow(`SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn`, at).Scan(&there); err != nil || !there {
			return fmt.Errorf("the replica is behind: %v", err)
		}
		return nil
	})
	p.Kill()
	noon := time.Now().Add(2 * time.Hour).Truncate(time.Hour)
	f.fixed(t, noon)
	seen, ahead := f.must(t, 100), right.must(t, 30_000)
	primary.Kill()
	p.Restart()
	servertest.Reconnect(replica.DB)
	replica.exec(t, `SELECT pg_promote()`)
	require.Greater(t, on(right).must(t, 1)[0], ahead[len(ahead)-1])
	require.Greater(t, replica.must(t, 1)[0], snowflake.ID(0))
	replica.fixed(t, noon)
	got := replica.must(t, 100)
	require.Positive(t, both(seen, got), "nothing repeats: what is the remedy for?")
	t.Logf("%d of 100 IDs repeat", both(seen, got))

	replica.setAbove(t, seen[99])
	replica.fixed(t, noon.Add(time.Minute))
	require.Zero(t, both(seen, replica.must(t, 100)))
	other := replica
	other.Worker = 6
	other.run(t)
	other.useClock(t)
	replica.fixed(t, noon)
	require.Zero(t, both(seen, other.must(t, 100)))
}

// HAZARD: a dump of a table has neither the function nor its state. A dump of the database has
// both, and must omit the state's value: the database may have drawn IDs ahead of the clock.
func TestDump(t *testing.T) {
	t.Parallel()
	s := shared(t)
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	f := install(t, s, snowflake.DefaultLayout()).withClock(t)
	f.fixed(t, noon)
	f.exec(t, fmt.Sprintf(`CREATE TABLE %s.orders (id bigint PRIMARY KEY DEFAULT %[1]s.snowflake_id(), n int)`, f.Schema))
	const insert = `INSERT INTO orders (n) SELECT * FROM generate_series(1, 100)`
	f.exec(t, insert)
	var last snowflake.ID
	require.NoError(t, f.QueryRow(`SELECT max(id) FROM orders`).Scan(&last))
	url := func(name string) string { return fmt.Sprintf("postgres://owner@%s/%s?sslmode=disable", s.addr, name) }
	// restore restores a dump, made with some options, into a new database, which may have the
	// function of a worker.
	restore := func(name string, worker int, options ...string) (in function, says string) {
		f.exec(t, `CREATE DATABASE `+name)
		in = f
		in.DB, in.Worker = servertest.Open(t, "pgx", url(name)+"&search_path="+f.path), worker
		if worker > 0 {
			in.exec(t, `CREATE SCHEMA `+f.Schema)
			in.run(t)
			in.setClock(t)
			in.fixed(t, noon)
		}
		pgDump, psql := servertest.Program(t, "postgresql", "pg_dump"), servertest.Program(t, "postgresql", "psql")
		dump := servertest.Must(exec.Command(pgDump, append(options, "-d", url(f.database))...).Output())(t)
		command := exec.Command(psql, "-q", "-d", url(name))
		command.Stdin = bytes.NewReader(dump)
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return in, string(out)
	}
	table := []string{"-t", f.Schema + ".orders"}
	_, says := restore("bare", 0, table...)
	require.Contains(t, says, "does not exist")

	same, says := restore("same", f.Worker, table...)
	require.NotContains(t, says, "ERROR")
	_, err := same.Exec(insert)
	require.ErrorContains(t, err, "duplicate key", "nothing repeats: what is the remedy for?")
	same.setAbove(t, last)
	same.fixed(t, noon.Add(time.Minute))
	same.exec(t, insert)

	other, says := restore("other", 6, table...)
	require.NotContains(t, says, "ERROR")
	other.exec(t, insert)

	kept, says := restore("kept", 0)
	require.NotContains(t, says, "ERROR")
	whole, says := restore("whole", 0, "--no-unlogged-table-data")
	require.NotContains(t, says, "ERROR")
	kept.Worker, whole.Worker = f.Worker, f.Worker
	f.fixed(t, noon.Add(6*time.Second)) // as 6 s ahead of the clock
	drawn := f.must(t, 1)[0]
	kept.fixed(t, noon.Add(time.Second))
	require.Less(t, kept.must(t, 1)[0], drawn, "nothing repeats: what is the option for?")
	whole.fixed(t, noon.Add(time.Second))
	require.Greater(t, whole.must(t, 1)[0], drawn)
}
