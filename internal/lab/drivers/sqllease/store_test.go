package sqllease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "modernc.org/sqlite"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// database is a database, which tests share. Each test has its own tables.
type database struct {
	dialect sqllease.Dialect
	open    func(t testing.TB) *sql.DB // opens one more client, closed when t ends
}

// sqliteFile returns a new database in a file.
func sqliteFile(t testing.TB) database {
	return sqliteAt(filepath.Join(t.TempDir(), "leases.db"))
}

func sqliteAt(path string) database {
	return database{sqllease.SQLite, func(t testing.TB) *sql.DB { return servertest.Open(t, "sqlite", sqliteDSN(path)) }}
}

func sqliteDSN(path string) string {
	return "file:" + path + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
}

var tables atomic.Int64

// newTable returns a new name of a table.
func newTable() string { return fmt.Sprintf("leases_%d", tables.Add(1)) }

// store opens one more client of a table.
func (d database) store(t testing.TB, table string) *sqllease.Store {
	t.Helper()
	return servertest.Must(sqllease.New(d.open(t), d.dialect, &sqllease.Options{Table: table}))(t)
}

func (d database) exec(t testing.TB, statements ...string) {
	t.Helper()
	db := d.open(t)
	defer db.Close()
	for _, statement := range statements {
		if d.dialect == sqllease.SQLite {
			statement = "PRAGMA busy_timeout = 60000; " + statement // holders write at the same time
		}
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err, "%s: %v", statement, err)
	}
}

// conforms runs the tests of all stores.
func conforms(t *testing.T, d database) {
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		d := d
		if d.dialect == sqllease.SQLite { // writers to one file wait for one another
			d = sqliteFile(t)
		}
		table := newTable()
		return leasetest.Storage{
			Open: d.clients(t, table), Wipe: func() { d.exec(t, "DROP TABLE "+table) },
			Garble: func(key string) { d.exec(t, fmt.Sprintf("UPDATE %s SET version = '' WHERE name = '%s'", table, key)) },
		}
	}, &leasetest.Options{Parallel: true})
}

// clients returns a function that opens one more client. In the quick run, the clients take turns
// with two pools of connections: to connect takes PostgreSQL longer than most tests.
func (d database) clients(t testing.TB, table string) func() lease.Store {
	if depth.Full() {
		return func() lease.Store { return d.store(t, table) }
	}
	var pools [2]*sqllease.Store
	for i := range pools {
		db := d.open(t)
		db.SetMaxOpenConns(4)
		db.SetMaxIdleConns(4)
		pools[i] = servertest.Must(sqllease.New(db, d.dialect, &sqllease.Options{Table: table}))(t)
	}
	var n atomic.Int64
	return func() lease.Store { return pools[n.Add(1)%2] }
}

// fits runs the tests for all three databases, in parallel.
func fits(t *testing.T, fresh func(t testing.TB) database) {
	for name, test := range map[string]func(*testing.T, database){
		"Conforms":                  conforms,
		"ManyCreateTheTableAtOnce":  manyCreate,
		"SchemaOfAMigrationFits":    migrated,
		"AnotherTableOfThatName":    foreignTable,
		"DatabaseOfAnotherDialect":  otherDialect,
		"ErrorNamesAnExhaustedPool": exhaustedPool,
		"LockIsNoConflict":          rowLocked,
		"NodesKeepWhatTheyAreTold":  nodesRows,
		"NodesOutOfRange":           nodesOutOfRange,
		"NodesThatNothingCounts":    nodesUncounted,
		"NodesWithoutATable":        nodesWithoutTable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	fits(t, sqliteFile)
}

// put stores a value, and returns its version.
func put(t *testing.T, s lease.Store, key, old, value string) string {
	t.Helper()
	return servertest.Must(s.Put(t.Context(), key, old, []byte(value)))(t).Version
}

func manyCreate(t *testing.T, d database) {
	clients := depth.Of(6, 50)
	table := newTable()
	errs := make([]error, 2*clients)
	var wg sync.WaitGroup
	for i := range clients {
		s := d.store(t, table)
		n := d.nodes(t, table+"_node")
		wg.Go(func() {
			_, errs[2*i] = s.Put(t.Context(), fmt.Sprint(i), "", []byte("value"))
			errs[2*i+1] = n.Create(t.Context())
		})
	}
	wg.Wait()
	servertest.Do(t, errors.Join(errs...))
	require.Len(t, servertest.Must(d.store(t, table).List(t.Context(), ""))(t), clients)
}

// migrated: a table may be created with Schema's statement, even repeatedly.
func migrated(t *testing.T, d database) {
	table := newTable()
	schema := servertest.Must(d.dialect.Schema(table))(t)
	d.exec(t, schema, schema)
	s := d.store(t, table)
	put(t, s, "a", "", "value")
	d.exec(t, schema)
	e := servertest.Must(s.Get(t.Context(), "a"))(t)
	assert.Equal(t, "value", string(e.Value))
	_, err := d.dialect.Schema("1")
	assert.ErrorIs(t, err, lease.ErrInvalidOptions)
}

// foreignTable: a table with other columns is refused, and not changed.
func foreignTable(t *testing.T, d database) {
	table := newTable()
	s := d.store(t, table)
	d.exec(t, "CREATE TABLE "+table+" (name varchar(10), value int)")
	_, err1 := s.Get(t.Context(), "a")
	_, err2 := s.Put(t.Context(), "a", "", []byte("value"))
	for _, err := range []error{err1, err2} {
		require.ErrorContains(t, err, "sqllease: table "+table+": ")
		assert.ErrorContains(t, err, "version")
	}
}

// otherDialect: if the dialect is wrong, nothing is created.
func otherDialect(t *testing.T, d database) {
	table := newTable()
	for _, dialect := range []sqllease.Dialect{sqllease.PostgreSQL, sqllease.MySQL, sqllease.SQLite} {
		if dialect == d.dialect {
			continue
		}
		other := database{dialect, d.open}
		_, err := other.store(t, table).Put(t.Context(), "a", "", []byte("value"))
		assert.Error(t, err, "Put of dialect %d", dialect)
		assert.Error(t, other.nodes(t, table).Create(t.Context()), "Create of dialect %d", dialect)
		_, err = d.open(t).Query("SELECT * FROM " + table)
		assert.Error(t, err, "dialect %d made a table", dialect)
	}
}

// exhaustedPool: if the application's queries use all connections, the error has this reason.
func exhaustedPool(t *testing.T, d database) {
	db := d.open(t)
	db.SetMaxOpenConns(2)
	s := servertest.Must(sqllease.New(db, d.dialect, &sqllease.Options{Table: newTable()}))(t)
	version := put(t, s, "a", "", "value")
	for range 2 {
		conn := servertest.Must(db.Conn(t.Context()))(t)
		defer conn.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Put(ctx, "a", version, []byte("late"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "all 2")
}

// rowLocked: if another transaction locks the row, a Put waits until its context ends, and returns
// no conflict. If the other transaction then changes the row, Put returns a conflict.
func rowLocked(t *testing.T, d database) {
	for _, change := range []string{"value = value", "version = 'another'"} {
		table := newTable()
		store := d.store(t, table)
		version := put(t, store, "a", "", "value")
		tx := servertest.Must(d.open(t).Begin())(t)
		servertest.Must(tx.Exec("UPDATE " + table + " SET " + change))(t)
		// A server may carry out the Put later.
		for i := 0; i < 10 && d.dialect == sqllease.SQLite; i++ {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
			_, err := store.Put(ctx, "a", version, []byte("late"))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, lease.ErrConflict)
		}
		saved := make(chan error)
		go func() {
			_, err := store.Put(t.Context(), "a", version, nil)
			saved <- err
		}()
		select {
		case err := <-saved:
			t.Fatalf("while another has the row locked, Put returns %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		servertest.Do(t, tx.Commit())
		if err := <-saved; strings.HasPrefix(change, "version") {
			assert.ErrorIs(t, err, lease.ErrConflict)
		} else {
			assert.NoError(t, err)
		}
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	db := sqliteFile(t).open(t)
	long := strings.Repeat("n", 63)
	for _, name := range []string{"", "t", "_", "T1", "main.leases", long, long + "." + long, "select"} {
		_, err := sqllease.New(db, sqllease.SQLite, &sqllease.Options{Table: name})
		assert.NoError(t, err, name)
	}
	for _, name := range []string{" ", "1", "a b", "a;", `a"`, "a`", "a'", "a.b.c", ".a", "a.", "a-b", "ä", "a\n", "a\x00",
		"t; DROP TABLE t", `t"; DROP TABLE t --`, long + "n", "a." + long + "n", long + "s.a"} {
		for _, dialect := range []sqllease.Dialect{sqllease.PostgreSQL, sqllease.MySQL, sqllease.SQLite} {
			_, err := sqllease.New(db, dialect, &sqllease.Options{Table: name})
			assert.ErrorIs(t, err, lease.ErrInvalidOptions, name)
			_, err = sqllease.NewNodes(db, dialect, &sqllease.Options{Table: name})
			assert.ErrorIs(t, err, lease.ErrInvalidOptions, name)
		}
	}
	for _, dialect := range []sqllease.Dialect{0, 4} {
		_, err := sqllease.New(db, dialect, nil)
		assert.ErrorIs(t, err, lease.ErrInvalidOptions, dialect)
	}
	_, err := sqllease.New(nil, sqllease.SQLite, nil)
	assert.ErrorIs(t, err, lease.ErrInvalidOptions)
	_, err = sqllease.Open("sqlite", ":memory:", 4, nil)
	assert.ErrorIs(t, err, lease.ErrInvalidOptions)
	_, err = sqllease.Open("none", "", sqllease.SQLite, nil)
	assert.Error(t, err, "Open with an unknown driver")
}

// Close closes the connections of Open, but not those of New.
func TestOpenedStoreIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases.db")
	s := servertest.Must(sqllease.Open("sqlite", sqliteDSN(path), sqllease.SQLite, nil))(t)
	put(t, s, "a", "", "value")
	servertest.Do(t, s.Close())
	_, err := s.Get(t.Context(), "a")
	assert.Error(t, err, "a closed store answers")
	other := sqliteAt(path).store(t, "")
	servertest.Do(t, other.Close())
	assert.NotEmpty(t, servertest.Must(other.Get(t.Context(), "a"))(t).Version)
}

// If each connection has its own database, each would assign the same worker IDs.
func TestDatabaseOfOneConnectionIsRefused(t *testing.T) {
	for _, dsn := range []string{":memory:", "", "file::memory:", "file:?mode=memory", "file:x?mode=memory"} {
		s := servertest.Must(sqllease.Open("sqlite", dsn, sqllease.SQLite, nil))(t)
		defer s.Close()
		_, err := lease.Acquire(t.Context(), s, &lease.Options{NewStore: true})
		require.ErrorIs(t, err, lease.ErrInvalidOptions, dsn)
		assert.ErrorContains(t, err, "private to each connection")

		db := servertest.Open(t, "sqlite", dsn)
		_, err = servertest.Must(sqllease.New(db, sqllease.SQLite, nil))(t).Get(t.Context(), "a")
		assert.ErrorIs(t, err, lease.ErrInvalidOptions, dsn)
		nodes := servertest.Must(sqllease.NewNodes(db, sqllease.SQLite, nil))(t)
		assert.ErrorIs(t, nodes.Create(t.Context()), lease.ErrInvalidOptions, dsn)
		_, err = servertest.Must(sqllease.New(db, sqllease.SQLite,
			&sqllease.Options{Table: "temp.leases"}))(t).Put(t.Context(), "a", "", nil)
		assert.ErrorIs(t, err, lease.ErrInvalidOptions, dsn)

		db.SetMaxOpenConns(1)
		put(t, servertest.Must(sqllease.New(db, sqllease.SQLite, nil))(t), "a", "", "value")
	}
	for _, dsn := range []string{
		"file:shared?mode=memory&cache=shared", "file:/shared.db?vfs=memdb", "file:" + t.TempDir() + "/leases.db",
	} {
		s := servertest.Must(sqllease.New(servertest.Open(t, "sqlite", dsn), sqllease.SQLite, nil))(t)
		put(t, s, "a", "", "value")
		assert.NotEmpty(t, servertest.Must(s.Get(t.Context(), "a"))(t).Version, dsn)
	}
}

// A lease logs a warning about settings with which the database may lose commits.
func TestSettingsThatLoseCommitsAreLogged(t *testing.T) {
	for pragmas, says := range map[string]string{
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)":    "",
		"?_pragma=journal_mode(DELETE)&_pragma=synchronous(3)":    "",
		"?_pragma=journal_mode(DELETE)&_pragma=synchronous(FULL)": "journal_mode = delete, synchronous = 2",
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)":  "journal_mode = wal, synchronous = 1",
		"?_pragma=journal_mode(MEMORY)":                           "journal_mode = memory, synchronous = 2",
	} {
		dsn := "file:" + filepath.Join(t.TempDir(), "leases.db") + pragmas
		warns(t, database{sqllease.SQLite, func(t testing.TB) *sql.DB { return servertest.Open(t, "sqlite", dsn) }}, newTable(), says)
	}
}

// warns checks that a lease's warning contains says or, if says is empty, that there is none.
func warns(t *testing.T, d database, table, says string) {
	t.Helper()
	s := servertest.Must(sqllease.New(d.open(t), d.dialect, &sqllease.Options{Table: table}))(t)
	l := servertest.Must(lease.Acquire(t.Context(), s, &lease.Options{NewStore: true, Logger: slog.New(slog.DiscardHandler)}))(t)
	defer l.Release(t.Context())
	is := servertest.Must(s.Settings(t.Context()))(t)
	assert.Equal(t, says, strings.Join(is, ", "))
	servertest.Await(t, func() error {
		if !slices.Equal(is, l.Stats().Unsafe) {
			return fmt.Errorf("the lease shows %q", l.Stats().Unsafe)
		}
		return nil
	})
}
