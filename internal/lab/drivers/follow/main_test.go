//go:build unix

// Package follow_test tests package follow on real servers. It is in a module of its own because of
// the drivers.
package follow_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	if kind := os.Getenv(childEnv); kind != "" {
		child(kind)
		return
	}
	os.Exit(servertest.Main(m, nil))
}

var postgres = servertest.Shared(func(t testing.TB) string {
	addr, _ := servertest.Postgres(t, "", nil, "-c", "max_connections=300", "-c", "max_prepared_transactions=20")
	return servertest.PostgresURL(addr)
})

var mariaDB = servertest.Shared(func(t testing.TB) string {
	addr, _ := servertest.MariaDB(t, nil, primaryArgs...)
	return servertest.MariaDBDSN(addr)
})

// replicas are of the servers postgres and mariaDB.
var replicas = map[follow.Dialect]func(testing.TB) *replica{
	follow.PostgreSQL: servertest.Shared(func(t testing.TB) *replica {
		return replicate(t, database{dialect: follow.PostgreSQL, driver: "pgx", dsn: postgres(t)})
	}),
	follow.MySQL: servertest.Shared(func(t testing.TB) *replica {
		return replicate(t, database{dialect: follow.MySQL, driver: "mysql", dsn: mariaDB(t)})
	}),
}

// replicaOf opens a database of the server postgres or mariaDB on the server's replica.
func replicaOf(t testing.TB, db database) *replica {
	server := map[follow.Dialect]func(testing.TB) string{follow.PostgreSQL: postgres, follow.MySQL: mariaDB}[db.dialect](t)
	r := *replicas[db.dialect](t)
	r.dsn += strings.TrimPrefix(db.dsn, server)
	r.DB = servertest.Open(t, r.driver, r.dsn)
	return &r
}

// database is an empty database, or schema.
type database struct {
	*sql.DB
	dialect     follow.Dialect
	driver, dsn string
}

// dialects has functions that create a database of each kind.
var dialects = map[string]func(t testing.TB) database{
	"PostgreSQL": func(t testing.TB) database {
		schema := servertest.NewSpace()
		return create(t, follow.PostgreSQL, "pgx", postgres(t), "CREATE SCHEMA "+schema, postgres(t)+"&search_path="+schema)
	},
	"MariaDB": func(t testing.TB) database {
		name := servertest.NewSpace()
		return create(t, follow.MySQL, "mysql", mariaDB(t), "CREATE DATABASE "+name, mariaDB(t)+name)
	},
	"SQLite": func(t testing.TB) database {
		dsn := "file:" + filepath.Join(servertest.Dir(t, ""),
			"db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_txlock=immediate"
		return database{servertest.Open(t, "sqlite", dsn), follow.SQLite, "sqlite", dsn}
	},
}

func create(t testing.TB, d follow.Dialect, driver, server, statement, dsn string) database {
	t.Helper()
	servertest.Must(servertest.Open(t, driver, server).Exec(statement))(t)
	return database{servertest.Open(t, driver, dsn), d, driver, dsn}
}

// each runs a test on each kind of database, with a fence and the table outbox.
func each(t *testing.T, test func(t *testing.T, db database, f *follow.Fence)) {
	for name, make := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := make(t)
			test(t, db, prepare(t, db))
		})
	}
}

// prepare creates the fence and the table outbox.
func prepare(t testing.TB, db database) *follow.Fence {
	t.Helper()
	f := servertest.Must(follow.NewFence(db.dialect, "outbox_fence"))(t)
	require.NoError(t, f.Create(t.Context(), db.DB))
	db.exec(t, `CREATE TABLE outbox (id BIGINT PRIMARY KEY, writer INTEGER)`)
	return f
}

func (db database) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	servertest.Must(db.Exec(query, args...))(t)
}

// insert returns the statement that inserts a row.
func insert(id snowflake.ID) string { return fmt.Sprintf(`INSERT INTO outbox VALUES (%d, 0)`, id) }

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// ids returns the rows of a span.
func ids(t testing.TB, q queryer, s follow.Span) (all []snowflake.ID) {
	t.Helper()
	rows, err := q.QueryContext(t.Context(), fmt.Sprintf(`SELECT id FROM outbox WHERE id > %d AND id <= %d ORDER BY id`, s.After, s.UpTo))
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var id snowflake.ID
		require.NoError(t, rows.Scan(&id))
		all = append(all, id)
	}
	require.NoError(t, rows.Err())
	return all
}

// process is a writer with a lease and a generator.
type process struct {
	*lease.Lease
	gen   *snowflake.Generator
	store lease.Store
}

// leased returns a process with a lease of a new store. The watermark lags by about 50 ms.
func leased(t testing.TB) process {
	t.Helper()
	store := lease.File(t.TempDir())
	return join(t, store)
}

func join(t testing.TB, store lease.Store) process {
	t.Helper()
	l := servertest.Must(lease.Acquire(t.Context(), store, &lease.Options{
		NewStore:   true,
		Window:     2 * time.Second, // on a busy machine a shorter one may end
		FloorEvery: 20 * time.Millisecond,
		Logger:     quiet,
	}))(t)
	t.Cleanup(func() { _ = l.Release(context.Background()) })
	g := servertest.Must(snowflake.NewLeased(l, nil))(t)
	return process{l, g, store}
}

func (p process) id(t testing.TB) snowflake.ID {
	t.Helper()
	id := servertest.Must(p.gen.NextID())(t)
	return id
}

// awaitMark waits until the watermark has reached an ID.
func (p process) awaitMark(t testing.TB, id snowflake.ID) {
	t.Helper()
	servertest.Await(t, func() error {
		m, err := lease.Watermark(t.Context(), p.store)
		if err == nil && m.ID < id {
			err = fmt.Errorf("the watermark is %v, and not yet %v", m.ID, id)
		}
		return err
	})
}

var quiet = slog.New(slog.DiscardHandler)

// fast returns options of a reader that looks often.
func fast() *follow.Options {
	return &follow.Options{Every: 10 * time.Millisecond, Table: "outbox", Logger: quiet}
}
