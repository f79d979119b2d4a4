//go:build unix

package sqllease_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// The command "snowflake sql" prints SQL functions. The tests compare their results with the
// library's. They are in this package because it starts the servers.

func functionsOfPostgreSQL(t *testing.T, s *server) {
	db := s.as(t, "app", password)
	holdFunctions(t, time.Microsecond, callerOf(db, sqltext.PostgreSQL))
	must(t, db, script(t, sqltext.PostgreSQL, snowflake.DefaultLayout(), "snowflake_")...)
	t.Run("GeneratedColumn", func(t *testing.T) {
		must(t, db, `CREATE TABLE generated (id bigint PRIMARY KEY, created timestamptz GENERATED ALWAYS AS (snowflake_time(id)) STORED)`)
		generatedColumn(t, db, "INSERT INTO generated (id) VALUES ($1)",
			`SELECT to_char(created AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') FROM generated WHERE id = $1`)
	})
	t.Run("Backfill", func(t *testing.T) { backfill(t, db) })
	t.Run("Check", func(t *testing.T) {
		must(t, db, script(t, sqltext.PostgreSQL, snowflake.JSSafeLayout(), "js_")...)
		must(t, db, `CREATE TABLE checked (id bigint PRIMARY KEY CHECK (js_valid(id)))`)
		holdCheck(t, db, "INSERT INTO checked VALUES ($1)")
	})
	t.Run("Partitions", func(t *testing.T) {
		must(t, db, `CREATE TABLE orders (id bigint PRIMARY KEY) PARTITION BY RANGE (id)`)
		for month := 1; month <= 12; month++ {
			first, next := bounds(t, month)
			must(t, db, fmt.Sprintf(`CREATE TABLE orders_%d PARTITION OF orders FOR VALUES FROM (%d) TO (%d)`, month, first, next))
		}
		partitions(t, db, `INSERT INTO orders VALUES ($1)`, `SELECT tableoid::regclass::text FROM orders WHERE id = $1`,
			`EXPLAIN (FORMAT JSON) SELECT * FROM orders WHERE id >= snowflake_first('2026-05-03 00:00:00+00') AND id < snowflake_first('2026-05-04 00:00:00+00')`)
	})
}

func functionsOfMariaDB(t *testing.T, s *server) {
	db := s.as(t, "app", password)
	holdFunctions(t, time.Microsecond, callerOf(db, sqltext.MySQL))
	t.Run("GeneratedColumn", func(t *testing.T) {
		created := bodies(t, sqltext.MySQL, snowflake.DefaultLayout())["time"]
		must(t, db, `CREATE TABLE generated (id BIGINT PRIMARY KEY, created DATETIME(6) AS (`+created+`) PERSISTENT, INDEX (created))`)
		generatedColumn(t, db, "INSERT INTO generated (id) VALUES (?)", `SELECT CAST(created AS CHAR) FROM generated WHERE id = ?`)
	})
	t.Run("Unsigned", func(t *testing.T) { unsigned(t, db) })
	t.Run("Check", func(t *testing.T) {
		must(t, db, `CREATE TABLE checked (id BIGINT PRIMARY KEY CHECK (`+bodies(t, sqltext.MySQL, snowflake.JSSafeLayout())["valid"]+`))`)
		holdCheck(t, db, "INSERT INTO checked VALUES (?)")
	})
	t.Run("Collation", func(t *testing.T) { collation(t, db) })
	t.Run("NoDefault", func(t *testing.T) { noDefault(t, db) })
	t.Run("Partitions", func(t *testing.T) {
		must(t, db, script(t, sqltext.MySQL, snowflake.DefaultLayout(), "p_")...)
		var parts []string
		for month := 1; month <= 12; month++ {
			_, next := bounds(t, month)
			parts = append(parts, fmt.Sprintf("PARTITION orders_%d VALUES LESS THAN (%d)", month, next))
		}
		must(t, db, `CREATE TABLE orders (id BIGINT PRIMARY KEY) PARTITION BY RANGE (id) (`+strings.Join(parts, ", ")+`)`)
		partitions(t, db, `INSERT INTO orders VALUES (?)`,
			`SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_NAME = 'orders' AND PARTITION_DESCRIPTION > ? ORDER BY CAST(PARTITION_DESCRIPTION AS SIGNED) LIMIT 1`,
			`EXPLAIN FORMAT=JSON SELECT * FROM orders WHERE id >= p_first('2026-05-03') AND id < p_first('2026-05-04')`)
	})
}

func TestExpressionsOfSQLite(t *testing.T) {
	t.Parallel()
	db := servertest.Must(sql.Open("sqlite", filepath.Join(t.TempDir(), "db")))(t)
	defer db.Close()
	holdFunctions(t, time.Millisecond, callerOf(db, sqltext.SQLite))
	created := bodies(t, sqltext.SQLite, snowflake.DefaultLayout())["time"]
	must(t, db, `CREATE TABLE generated (id INTEGER PRIMARY KEY, created TEXT AS (`+created+`) VIRTUAL)`,
		`CREATE INDEX by_time ON generated (created)`)
	generatedColumn(t, db, "INSERT INTO generated (id) VALUES (?)", `SELECT created FROM generated WHERE id = ?`)
	must(t, db, `CREATE TABLE checked (id INTEGER PRIMARY KEY CHECK (`+bodies(t, sqltext.SQLite, snowflake.JSSafeLayout())["valid"]+`))`)
	holdCheck(t, db, "INSERT INTO checked VALUES (?)")
}

// holdCheck inserts IDs into a table that checks whether they are of JSSafeLayout.
func holdCheck(t *testing.T, db *sql.DB, insert string) {
	t.Helper()
	for id, good := range map[int64]bool{0: true, 1<<52 - 1: true, -1: false, 1 << 52: false} {
		_, err := db.Exec(insert, id)
		assert.Equal(t, good, err == nil, "%d: %v", id, err)
	}
}

// unsigned queries numbers that only a BIGINT UNSIGNED can have. They are not IDs, and the query
// does not fail.
func unsigned(t *testing.T, db *sql.DB) {
	must(t, db, script(t, sqltext.MySQL, snowflake.DefaultLayout(), "u_")...)
	must(t, db, `CREATE TABLE u (id BIGINT UNSIGNED PRIMARY KEY)`,
		`INSERT INTO u VALUES (9223372036854775808), (18446744073709551615), (54901761638412289)`)
	rows := servertest.Must(db.Query(`SELECT u_valid(id), CAST(u_time(id) AS CHAR), u_worker(id), u_sequence(id) FROM u ORDER BY id`))(t)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var valid bool
		var at, worker, sequence sql.NullString
		servertest.Do(t, rows.Scan(&valid, &at, &worker, &sequence))
		got = append(got, fmt.Sprint(valid, " ", at.String, " ", worker.String, " ", sequence.String))
	}
	servertest.Do(t, rows.Err())
	assert.Equal(t, []string{"true 2026-06-01 12:00:00.000000 3 1", "false   ", "false   "}, got)
}

// collation inserts texts in base 58 and 62 into columns with the default collation, which loses
// rows, and with the script's collation.
func collation(t *testing.T, db *sql.DB) {
	text := servertest.Must(sqltext.Script(sqltext.MySQL, snowflake.DefaultLayout(), "c_"))(t)
	named := `VARCHAR(11) CHARACTER SET ascii COLLATE ascii_bin`
	require.Contains(t, text, "-- "+named+"\n")
	g := servertest.Must(snowflake.New(3, nil))(t)
	ids := make([]snowflake.ID, 10_000)
	servertest.Must(g.Fill(t.Context(), ids))(t)
	for name, write := range map[string]func(snowflake.ID) string{
		"base32": snowflake.ID.Base32,
		"base58": snowflake.ID.Base58,
		"base62": snowflake.ID.Base62,
	} {
		for column, kept := range map[string]bool{"VARCHAR(13)": name == "base32", strings.Replace(named, "11", "13", 1): true} {
			must(t, db, `CREATE OR REPLACE TABLE words (id `+column+` PRIMARY KEY)`)
			var values []string
			for _, id := range ids {
				values = append(values, "('"+write(id)+"')")
			}
			must(t, db, `INSERT IGNORE INTO words VALUES `+strings.Join(values, ","))
			var n int
			servertest.Do(t, db.QueryRow(`SELECT count(*) FROM words`).Scan(&n))
			t.Logf("%s as %s: %d of %d rows are kept", name, column, n, len(ids))
			assert.Equal(t, kept, n == len(ids), "%s as %s: %d", name, column, n)
		}
	}
}

// unusual are layouts with ticks, epochs and orders of fields that no known layout has.
var unusual = []layouts.Known{
	{Name: "nanoseconds", Layout: snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: 100 * time.Nanosecond, TimeBits: 50, WorkerBits: 5, SequenceBits: 4}},
	{Name: "one nanosecond", Layout: snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: 1, TimeBits: 55, WorkerBits: 3, SequenceBits: 4}},
	{Name: "hours", Layout: snowflake.Layout{Epoch: -1234567890123, Unit: time.Hour, TimeBits: 20, ClockSeqBits: 2, DatacenterBits: 3, WorkerBits: 4, SequenceBits: 5, WorkerLast: true}},
	{Name: "odd epoch", Layout: snowflake.Layout{Epoch: 1234567890123, Unit: 5 * time.Millisecond, TimeBits: 38, WorkerBits: 12, SequenceBits: 13}},
	{Name: "time only", Layout: snowflake.Layout{Unit: time.Millisecond, TimeBits: 47}},
}

// holdFunctions compares the engine's results with the library's for every known layout, at times
// that the engine can represent in units of step. define makes the functions of a layout.
func holdFunctions(t *testing.T, step time.Duration, define definer) {
	for i, k := range append(layouts.All(), unusual...) {
		t.Run(k.Name, func(t *testing.T) {
			l := k.Layout
			prefix := fmt.Sprintf("f%d_", i)
			call := define(t, l, prefix)
			r := rand.New(rand.NewPCG(uint64(i), 14))
			for n := range depth.Of(6, 60) {
				id := snowflake.ID(r.Int64() >> r.IntN(62))
				switch n {
				case 0:
					id = 0
				case 1:
					id = -1
				case 2:
					id = 1<<63 - 1
				case 3:
					id, _ = l.Encode(snowflake.Parts{Time: time.Date(2026, 11, 20, 12, 34, 56, 789123000, time.UTC)})
				}
				holdID(t, call, l, id)
			}
			for n := range depth.Of(4, 40) {
				at := l.Epoch.Time().Add(time.Duration(r.Int64() >> r.IntN(40))).Truncate(step)
				switch n {
				case 0:
					at = l.Epoch.Time()
				case 1:
					at = latest.AddDate(-1, 0, 0) // its nanoseconds do not fit an int64
				}
				holdFirst(t, call, l, at)
			}
		})
	}
}

// latest is later than the engines' latest times.
var latest = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func holdID(t *testing.T, call caller, l snowflake.Layout, id snowflake.ID) {
	t.Helper()
	good := l.Check(id) == nil
	if got := call("valid", int64(id)).String; (got == "1" || got == "true") != good {
		t.Errorf("valid(%d) is %q", id, got)
	}
	p := l.Decode(id)
	for _, f := range []struct {
		name  string
		bits  uint8
		value int
	}{{"worker", l.WorkerBits, p.Worker}, {"sequence", l.SequenceBits, p.Sequence}, {"datacenter", l.DatacenterBits, p.Datacenter}, {"clockseq", l.ClockSeqBits, p.ClockSeq}} {
		if f.bits == 0 {
			continue
		}
		want := sql.NullString{String: fmt.Sprint(f.value), Valid: good}
		if !good {
			want.String = ""
		}
		if got := call(f.name, int64(id)); got != want {
			t.Errorf("%s(%d) is %v, not %v", f.name, id, got, want)
		}
	}
	if good && p.Time.After(latest) {
		return
	}
	got := call("time", int64(id))
	assert.Equal(t, good, got.Valid, "time(%d) is %v", id, got)
	if want := p.Time.Truncate(time.Microsecond).Format("2006-01-02 15:04:05.000000"); good && got.String != want {
		t.Errorf("time(%d) is %s, not %s", id, got.String, want)
	}
}

func holdFirst(t *testing.T, call caller, l snowflake.Layout, at time.Time) {
	t.Helper()
	if at.After(latest) || at.Year() < 1000 {
		return
	}
	got := call("first", at).String
	want := "0"
	switch lo, _, err := l.Range(at, at); {
	case err == nil:
		want = fmt.Sprint(int64(lo))
	case at.Before(l.Epoch.Time()):
	default: // after the layout's end
		end := snowflake.ID(1<<63 - 1)
		if bits := l.TimeBits + l.ClockSeqBits + l.DatacenterBits + l.WorkerBits + l.SequenceBits; bits < 63 {
			end = 1 << bits
		}
		want = fmt.Sprint(int64(end))
	}
	assert.Equal(t, want, got, "first(%s) is %s, not %s", at, got, want)
}

// caller calls a function with an ID or a time. The result is text, with times in UTC.
type caller func(name string, value any) sql.NullString

// A definer creates the functions of a layout, with a prefix.
type definer func(t *testing.T, l snowflake.Layout, prefix string) caller

func callerOf(db *sql.DB, e sqltext.Engine) definer {
	return func(t *testing.T, l snowflake.Layout, prefix string) caller { return newCaller(t, db, e, l, prefix) }
}

func newCaller(t *testing.T, db *sql.DB, e sqltext.Engine, l snowflake.Layout, prefix string) caller {
	t.Helper()
	bodies := bodies(t, e, l)
	if e != sqltext.SQLite {
		must(t, db, script(t, e, l, prefix)...)
	}
	return func(name string, value any) (got sql.NullString) {
		t.Helper()
		var query string
		var mode []any
		if at, ok := value.(time.Time); ok {
			value = at.UTC().Format("2006-01-02 15:04:05.000000")
		}
		switch e {
		case sqltext.PostgreSQL:
			mode = []any{pgx.QueryExecModeSimpleProtocol} // does not prepare statements
			if value = fmt.Sprint(value); name == "first" {
				value = value.(string) + "+00"
			}
			query = fmt.Sprintf("SELECT %s%s('%v')::text", prefix, name, value)
			if name == "time" {
				query = fmt.Sprintf("SELECT to_char(%s%s('%v') AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')", prefix, name, value)
			}
		case sqltext.MySQL:
			query = fmt.Sprintf("SELECT CAST(%s%s('%v') AS CHAR)", prefix, name, value)
		default:
			// The parameter is a column, as in an application.
			column := fmt.Sprintf("%v AS id", value)
			if text, ok := value.(string); ok {
				column = fmt.Sprintf("'%s' AS t", text[:len(text)-3]) // keep milliseconds
			}
			query = fmt.Sprintf("SELECT CAST(%s AS TEXT) FROM (SELECT %s)", bodies[name], column)
		}
		if err := db.QueryRow(query, mode...).Scan(&got); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return got
	}
}

// script returns the statements of a script.
func script(t *testing.T, e sqltext.Engine, l snowflake.Layout, prefix string) (statements []string) {
	t.Helper()
	text := servertest.Must(sqltext.Script(e, l, prefix))(t)
	for _, s := range strings.SplitAfter(text, ";\n") {
		if strings.Contains(s, "CREATE") && strings.HasSuffix(s, ";\n") {
			statements = append(statements, s)
		}
	}
	return statements
}

// bodies maps the functions' names to their expressions.
func bodies(t *testing.T, e sqltext.Engine, l snowflake.Layout) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, f := range servertest.Must(sqltext.Functions(e, l))(t) {
		all[f.Name] = f.Body
	}
	return all
}

func must(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		_, err := db.Exec(statement)
		require.NoError(t, err, "%s: %v", statement, err)
	}
}

// generatedColumn inserts IDs, and selects the times that the table generates from them, as text.
func generatedColumn(t *testing.T, db *sql.DB, insert, query string) {
	t.Helper()
	g := servertest.Must(snowflake.New(3, nil))(t)
	for range 20 {
		id := servertest.Must(g.NextID())(t)
		servertest.Must(db.Exec(insert, int64(id)))(t)
		var got string
		servertest.Do(t, db.QueryRow(query, int64(id)).Scan(&got))
		assert.Equal(t, snowflake.Decode(id).Time.Format("2006-01-02 15:04:05.000000"), got, "%d", id)
	}
}

// bounds returns the first ID of a month of 2026, and of the month after it.
func bounds(t *testing.T, month int) (first, next snowflake.ID) {
	t.Helper()
	from := time.Date(2026, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
	first, next, err := snowflake.DefaultLayout().Range(from, from.AddDate(0, 1, 0))
	servertest.Do(t, err)
	return first, next
}

// noDefault shows why "snowflake sql --generate" is not for MariaDB: a column's default cannot call
// a stored function, and the value of SETVAL is a literal.
func noDefault(t *testing.T, db *sql.DB) {
	must(t, db, `CREATE FUNCTION one() RETURNS BIGINT DETERMINISTIC NO SQL RETURN 1`, `CREATE SEQUENCE state`)
	for statement, says := range map[string]string{
		`CREATE TABLE defaults (id BIGINT PRIMARY KEY DEFAULT (one()))`: "Function or expression '`one`()' cannot be used in the DEFAULT clause",
		`SELECT SETVAL(state, 1 << 22)`:                                 "You have an error in your SQL syntax",
	} {
		_, err := db.Exec(statement)
		require.ErrorContains(t, err, says)
	}
	must(t, db, `SELECT SETVAL(state, 7)`)
}

// partitions inserts the first and last ID of each month, and checks the partition of each. The
// plan of a query for a day in May reads one partition.
func partitions(t *testing.T, db *sql.DB, insert, query, explain string) {
	t.Helper()
	var got string
	for month := 1; month <= 12; month++ {
		first, next := bounds(t, month)
		for _, id := range []snowflake.ID{first, next - 1} {
			servertest.Must(db.Exec(insert, int64(id)))(t)
			servertest.Do(t, db.QueryRow(query, int64(id)).Scan(&got))
			assert.Equal(t, fmt.Sprint("orders_", month), got, "%d", id)
		}
	}
	servertest.Do(t, db.QueryRow(explain).Scan(&got))
	require.Contains(t, got, "orders_5")
	require.NotContains(t, got, "orders_4")
	assert.NotContains(t, got, "orders_6")
}

// backfill gives IDs to rows with a time, as docs/sql.md describes.
func backfill(t *testing.T, db *sql.DB) {
	must(t, db, `CREATE TABLE old (uuid uuid PRIMARY KEY, created timestamptz NOT NULL, id bigint UNIQUE)`,
		`INSERT INTO old SELECT gen_random_uuid(), timestamptz '2026-10-31 18:00:00+00' + random() * interval '2 seconds' FROM generate_series(1, 5000)`,
		`UPDATE old SET id = n.id
FROM (
  SELECT uuid, snowflake_first(ms) + (1023 << 12) - 1 + row_number() OVER (PARTITION BY ms ORDER BY uuid) AS id
  FROM (SELECT uuid, date_trunc('milliseconds', created) AS ms FROM old) AS t
) AS n
WHERE n.uuid = old.uuid`)
	rows := servertest.Must(db.Query(`SELECT id, created FROM old`))(t)
	defer rows.Close()
	n, seen := 0, map[snowflake.ID]bool{}
	for rows.Next() {
		var id snowflake.ID
		var created time.Time
		servertest.Do(t, rows.Scan(&id, &created))
		p := snowflake.Decode(id)
		if seen[id] || p.Worker != 1023 || !p.Time.Equal(created.Truncate(time.Millisecond)) {
			t.Fatalf("a row of %v has %d: %v", created, id, p)
		}
		seen[id] = true
		n++
	}
	if err := rows.Err(); err != nil || n != 5000 {
		t.Errorf("%d rows have an ID: %v", n, err)
	}
}
