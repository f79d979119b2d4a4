//go:build unix

// Package generate_test tests the function that "snowflake sql --generate" prints, on real servers.
package generate_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m, nil)) }

// server is a database of a running server.
type server struct {
	*servertest.Process
	addr, database string
}

func start(t testing.TB, args ...string) server {
	addr, p := servertest.Postgres(t, "", nil, append([]string{"-c", "max_connections=200"}, args...)...)
	return server{p, addr, "postgres"}
}

// url returns the database's address for a user, with a search_path.
func (s server) url(user, path string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&statement_timeout=60000&search_path=%s", user, s.addr, s.database, path)
}

var shared = servertest.Shared(func(t testing.TB) server { return start(t) })

// function is a function that the script has created, in its own schema.
type function struct {
	*sql.DB // its search_path has the schema
	sqltext.Generator
	server
	path string
}

// install runs the script twice in a new schema of a new database of the same name, with the worker
// ID 5 or, if that is too large, the layout's last one.
func install(t testing.TB, s server, l snowflake.Layout) function {
	t.Helper()
	schema := servertest.NewSpace()
	servertest.Must(servertest.Open(t, "pgx", s.url("owner", "")).Exec(`CREATE DATABASE ` + schema))(t)
	s.database = schema
	f := function{servertest.Open(t, "pgx", s.url("owner", schema)),
		sqltext.Generator{Layout: l, Worker: min(5, 1<<l.WorkerBits-1), Datacenter: 1<<l.DatacenterBits - 1, Schema: schema,
			Prefix: "snowflake_"}, s, schema}
	f.exec(t, `CREATE SCHEMA `+schema)
	f.run(t)
	f.run(t)
	return f
}

// run runs the script.
func (f function) run(t testing.TB) {
	t.Helper()
	script := servertest.Must(f.Script())(t)
	f.exec(t, script)
}

func (f function) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := f.Exec(query, args...)
	require.NoError(t, err, query)
}

// state returns the name of the sequence.
func (f function) state() string {
	script, err := f.Script()
	if err != nil {
		panic(err)
	}
	_, after, _ := strings.Cut(script, "CREATE UNLOGGED SEQUENCE ")
	name, _, _ := strings.Cut(after, " ")
	return name
}

// withClock lets a test set the clock. The script is unchanged: a function clock_timestamp in a
// schema that comes before pg_catalog in the search_path, also in that of open, returns the
// server's clock and an offset, or a fixed time.
func (f function) withClock(t testing.TB) function {
	t.Helper()
	f.path = fmt.Sprintf("clock_%[1]s,pg_catalog,%[1]s", f.Schema)
	f.DB = servertest.Open(t, "pgx", f.url("owner", f.path))
	f.setClock(t)
	return f
}

func (f function) setClock(t testing.TB) {
	t.Helper()
	f.exec(t, fmt.Sprintf(`CREATE SCHEMA clock_%[1]s;
		CREATE TABLE clock_%[1]s.clock (fixed timestamptz, ahead interval NOT NULL, pause bool NOT NULL);
		INSERT INTO clock_%[1]s.clock VALUES (NULL, '0', false);
		CREATE FUNCTION clock_%[1]s.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
		BEGIN
			WHILE (SELECT pause FROM clock_%[1]s.clock) LOOP
				PERFORM pg_sleep(0.01);
			END LOOP;
			RETURN (SELECT coalesce(fixed, pg_catalog.clock_timestamp()) + ahead FROM clock_%[1]s.clock);
		END $$`, f.Schema))
	f.useClock(t)
}

// useClock makes the function open use the clock, after the script has replaced it.
func (f function) useClock(t testing.TB) {
	t.Helper()
	f.exec(t, fmt.Sprintf(`ALTER FUNCTION %[1]s.%[2]sopen(bigint) SET search_path = clock_%[1]s, pg_catalog, pg_temp`, f.Schema, f.Prefix))
}

// ahead sets the clock by an offset to the server's.
func (f function) ahead(t testing.TB, by time.Duration) {
	t.Helper()
	f.exec(t, `UPDATE clock SET fixed = NULL, ahead = make_interval(secs => $1)`, by.Seconds())
}

// fixed stops the clock at a time.
func (f function) fixed(t testing.TB, at time.Time) {
	t.Helper()
	f.exec(t, `UPDATE clock SET fixed = $1, ahead = '0'`, at)
}

// draw returns n new IDs, or the error of the statement.
func (f function) draw(n int) (ids []snowflake.ID, err error) {
	return draw(f.DB, fmt.Sprintf(`SELECT %s.%sids(%d)`, f.Schema, f.Prefix, n))
}

type queryer interface {
	Query(query string, args ...any) (*sql.Rows, error)
}

func draw(q queryer, query string, args ...any) (ids []snowflake.ID, err error) {
	rows, err := q.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id snowflake.ID
		if err := rows.Scan(&id); err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// must returns n new IDs, which increase.
func (f function) must(t testing.TB, n int) []snowflake.ID {
	t.Helper()
	ids := servertest.Must(f.draw(n))(t)
	require.Len(t, ids, n)
	for i, id := range ids {
		f.hold(t, id)
		require.True(t, i == 0 || id > ids[i-1], "%v", ids)
	}
	return ids
}

// hold checks the fields of an ID, and returns its time.
func (f function) hold(t testing.TB, id snowflake.ID) time.Time {
	t.Helper()
	require.NoError(t, f.Layout.Check(id))
	p := f.Layout.Decode(id)
	require.Equal(t, []int{f.Worker, f.Datacenter, 0}, []int{p.Worker, p.Datacenter, p.ClockSeq})
	return p.Time
}

// clock returns the server's time.
func (f function) clock(t testing.TB) (at time.Time) {
	t.Helper()
	require.NoError(t, f.QueryRow(`SELECT pg_catalog.clock_timestamp()`).Scan(&at))
	return at
}

// locks returns the number of advisory locks that sessions of this schema's function hold or wait
// for.
func (f function) locks(t testing.TB) (n int) {
	t.Helper()
	require.NoError(t, f.QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1::regclass`, f.state()).Scan(&n))
	return n
}

// For every layout that is not refused, IDs carry the worker and the time of the draw.
func TestEveryLayout(t *testing.T) {
	t.Parallel()
	nanos := layouts.Known{
		Name:   "100 ns",
		Layout: snowflake.Layout{Epoch: snowflake.DefaultEpoch - 1500, Unit: 100, TimeBits: 41, WorkerBits: 5, SequenceBits: 3},
	}
	one := layouts.Known{
		Name: "one ID a tick",
		Layout: snowflake.Layout{
			Epoch:          snowflake.DefaultEpoch,
			Unit:           7 * time.Millisecond,
			TimeBits:       40,
			ClockSeqBits:   2,
			DatacenterBits: 2,
			WorkerBits:     8,
			WorkerLast:     true,
		},
	}
	for _, k := range append(layouts.All(), nanos, one) {
		t.Run(k.Name, func(t *testing.T) {
			l := k.Layout
			if _, err := (sqltext.Generator{Layout: l}).Script(); err != nil {
				require.ErrorIs(t, err, sqltext.ErrState)
				require.True(t, l.TimeBits > 41 || l.SequenceBits > 20)
				return
			}
			f := install(t, shared(t), l)
			if now := f.clock(t); !now.Before(l.Expires()) || now.Before(l.Epoch.Time()) {
				_, err := f.draw(1)
				require.ErrorContains(t, err, "SNF0")
				return
			}
			before := f.clock(t)
			ids := f.must(t, 300)
			f.exec(t, `CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_id(), n int)`)
			more := servertest.Must(draw(f, `INSERT INTO orders (n) SELECT * FROM generate_series(1, 300) RETURNING id`))(t)
			require.Greater(t, more[0], ids[len(ids)-1])
			after := f.clock(t)
			for _, id := range append(ids, more...) {
				at := f.hold(t, id)
				require.False(t, at.Add(l.Unit).Before(before.Truncate(time.Microsecond)), "%v: %v, %v", id, at, before)
				require.False(t, at.After(after.Add(10*time.Second)), "%v: %v, %v", id, at, after)
			}
			require.WithinDuration(t, before, f.Layout.Decode(ids[0]).Time, after.Sub(before)+l.Unit, "the first is not ahead")
		})
	}
}

// To insert, a role needs the right to use the sequence, as for a column of type bigserial, with
// which it cannot set the sequence, and no search_path.
func TestRights(t *testing.T) {
	t.Parallel()
	f := install(t, shared(t), snowflake.DefaultLayout())
	f.exec(t, fmt.Sprintf(`CREATE ROLE writer_%[1]s LOGIN; CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_id(), n int);
		GRANT USAGE ON SCHEMA %[1]s TO writer_%[1]s; GRANT INSERT ON orders TO writer_%[1]s`, f.Schema))
	writer := servertest.Open(t, "pgx", f.url("writer_"+f.Schema, "pg_temp"))
	insert := func() error {
		_, err := writer.Exec(`INSERT INTO ` + f.Schema + `.orders (n) SELECT * FROM generate_series(1, 5000)`)
		return err
	}
	require.ErrorContains(t, insert(), "permission denied for sequence")
	f.exec(t, fmt.Sprintf(`GRANT USAGE ON SEQUENCE %s TO writer_%s`, f.state(), f.Schema))
	require.ErrorContains(t, insert(), "permission denied for function snowflake_open")
	f.exec(t, fmt.Sprintf(`GRANT EXECUTE ON FUNCTION %[1]s.snowflake_open(bigint) TO writer_%[1]s`, f.Schema))
	f.run(t) // keeps the rights
	require.NoError(t, insert())
	_, err := writer.Exec(fmt.Sprintf(`SELECT setval('%s', 1)`, f.state()))
	require.ErrorContains(t, err, "permission denied for sequence")
	_, err = writer.Exec(`SET TRANSACTION READ ONLY; SELECT ` + f.Schema + `.snowflake_id()`)
	require.ErrorContains(t, err, "read-only transaction")
}
