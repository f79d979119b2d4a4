package sqllease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
	_ "modernc.org/sqlite"
)

var _ lease.Store = (*sqllease.Store)(nil)

// database is a database. Tests may share it, but each has its own tables.
type database struct {
	dialect sqllease.Dialect
	open    func(t testing.TB) *sql.DB // opens one more client, closed when t ends
}

// sqliteFile returns a new database in a file, and opens it as a process would.
func sqliteFile(t testing.TB) database {
	return sqliteAt(filepath.Join(t.TempDir(), "workers.db"))
}

func sqliteAt(path string) database {
	return database{sqllease.SQLite, func(t testing.TB) *sql.DB {
		return opened(t, "sqlite", sqliteDSN(path))
	}}
}

// apart returns a database for a test that runs beside others: another file of SQLite, in which writers
// wait for one another.
func (d database) apart(t testing.TB) database {
	if d.dialect == sqllease.SQLite {
		return sqliteFile(t)
	}
	return d
}

func sqliteDSN(path string) string {
	return "file:" + path + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
}

func opened(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

var tables atomic.Int64

// newTable returns the name of a table that does not exist.
func newTable() string { return fmt.Sprintf("workers_%d", tables.Add(1)) }

func (d database) store(t testing.TB, table string) *sqllease.Store {
	t.Helper()
	s, err := sqllease.New(d.open(t), d.dialect, &sqllease.Options{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d database) created(t testing.TB, table string) *sqllease.Store {
	t.Helper()
	s := d.store(t, table)
	if err := s.Create(t.Context(), time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	return s
}

func (d database) exec(t testing.TB, statements ...string) {
	t.Helper()
	db := d.open(t)
	defer db.Close()
	for _, statement := range statements {
		if d.dialect == sqllease.SQLite {
			statement = "PRAGMA busy_timeout = 60000; " + statement // holders write meanwhile
		}
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// empty makes a new store in a table.
func (d database) empty(t testing.TB, table string) {
	t.Helper()
	d.exec(t, "DELETE FROM "+table, "DELETE FROM "+table+"_history", "DELETE FROM "+table+"_used")
	d.created(t, table)
}

// conforms runs the tests that every store passes.
func (d database) conforms(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		d := d.apart(t)
		table := newTable()
		d.created(t, table)
		return leasetest.Storage{
			Open: d.clients(t, table),
			Wipe: func() { d.exec(t, "DELETE FROM "+table) },
			Garble: func(worker int) {
				d.exec(t, fmt.Sprintf("UPDATE %s SET record = substr(record, 1, 50) WHERE worker = %d", table, worker))
			},
		}
	}, &leasetest.Options{Parallel: true})
}

// clients returns a function that opens one more client. In the quick run, the clients take turns with two
// pools of connections: to connect takes PostgreSQL longer than most tests.
func (d database) clients(t testing.TB, table string) func() lease.Store {
	if depth.Full() {
		return func() lease.Store { return d.store(t, table) }
	}
	pools := []*sqllease.Store{d.pooled(t, table), d.pooled(t, table)}
	var n atomic.Int64
	return func() lease.Store { return pools[n.Add(1)%2] }
}

// poolSize is how many connections a client keeps, if many goroutines use it at once.
const poolSize = 4

// pooled opens a client that keeps its connections.
func (d database) pooled(t testing.TB, table string) *sqllease.Store {
	t.Helper()
	db := d.open(t)
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	s, err := sqllease.New(db, d.dialect, &sqllease.Options{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fits runs the tests for all three databases, in parallel.
func fits(t *testing.T, fresh func(t testing.TB) database) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, database)
	}{
		{"Conforms", func(t *testing.T, d database) { d.conforms(t) }},
		{"ManyCreateTheTableAtOnce", manyCreate},
		{"MissingTableIsNamed", missingTable},
		{"AnotherTableOfThatName", foreignTable},
		{"DatabaseOfAnotherDialect", otherDialect},
		{"ForeignRecords", foreignRecords},
		{"CreateWaitsForWindowsToEnd", createNew},
		{"SpoiltHistory", spoiltHistory},
		{"NodesAtOnceGetDifferentWorkerIDs", nodesAtOnce},
		{"NodesKeepWhatTheyAreTold", nodesRows},
		{"NodesOutOfRange", nodesOutOfRange},
		{"NodesThatNothingCounts", nodesUncounted},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, fresh(t))
		})
	}
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	fits(t, sqliteFile)
}

func manyCreate(t *testing.T, d database) {
	clients := depth.Of(10, 50)
	table := newTable()
	errs := make([]error, 2*clients)
	var wg sync.WaitGroup
	for i := range clients {
		s := d.store(t, table)
		n := d.nodes(t, table+"_node")
		wg.Go(func() {
			errs[2*i] = s.Create(t.Context(), time.Nanosecond)
			errs[2*i+1] = n.Create(t.Context())
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	s := d.store(t, table)
	l := acquire(t, s, nil)
	if err := s.Create(t.Context(), time.Nanosecond); err != nil { // it changes nothing, because the store exists
		t.Fatal(err)
	}
	snap, err := s.Load(t.Context())
	if err != nil || len(snap.Records) != 1 || snap.Records[0].Worker != l.Worker() {
		t.Fatalf("after Create again there are %v, %v", snap.Records, err)
	}
}

func acquire(t *testing.T, s lease.Store, o *lease.Options) *lease.Lease {
	t.Helper()
	l, err := lease.Acquire(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Release(context.Background()) })
	return l
}

// refused checks that Acquire returns an error that matches target and contains the texts.
func refused(t *testing.T, s lease.Store, target error, says ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := lease.Acquire(ctx, s, nil)
	if err == nil {
		t.Fatalf("it acquires worker %d", l.Worker())
	}
	if target != nil && !errors.Is(err, target) {
		t.Errorf("the error is %v, not an error that matches %q", err, target)
	}
	for _, text := range says {
		if strings.Count(err.Error(), text) != 1 {
			t.Errorf("the error does not say %q once: %v", text, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %v", err)
	}
}

func missingTable(t *testing.T, d database) {
	table := newTable()
	s := d.store(t, table)
	refused(t, s, sqllease.ErrNoTable, "no such table: "+table+"; Create creates it")
	if _, err := d.nodes(t, table).Assign(t.Context(), sqllease.Node{}, snowflake.DefaultLayout()); !errors.Is(err, sqllease.ErrNoTable) {
		t.Errorf("Assign returns %v", err)
	}
	if err := s.Create(t.Context(), time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	acquire(t, s, nil)
}

func foreignTable(t *testing.T, d database) {
	table := newTable()
	s := d.created(t, table)
	d.exec(t, "DROP TABLE "+table, "CREATE TABLE "+table+" (worker int, name varchar(10))")
	refused(t, s, nil, "sqllease: table "+table+": ", "version")
	err := s.Create(t.Context(), time.Nanosecond)
	if err == nil || !strings.Contains(err.Error(), "table "+table+": ") || !strings.Contains(err.Error(), "version") {
		t.Errorf("Create returns %v", err)
	}
}

// otherDialect: if the dialect is wrong, Create makes nothing.
func otherDialect(t *testing.T, d database) {
	table := newTable()
	for _, dialect := range []sqllease.Dialect{sqllease.PostgreSQL, sqllease.MySQL, sqllease.SQLite} {
		if dialect == d.dialect {
			continue
		}
		other := database{dialect, d.open}
		if err := other.store(t, table).Create(t.Context(), time.Nanosecond); err == nil {
			t.Errorf("Create of dialect %d returns no error", dialect)
		}
		if err := other.nodes(t, table).Create(t.Context()); err == nil {
			t.Errorf("Create of dialect %d for Nodes returns no error", dialect)
		}
		if _, err := d.store(t, table).Load(t.Context()); !errors.Is(err, sqllease.ErrNoTable) {
			t.Errorf("after Create of dialect %d Load returns %v", dialect, err)
		}
	}
}

// foreignRecords: if a row has data that this package did not write, the store refuses it.
func foreignRecords(t *testing.T, d database) {
	table := newTable()
	s := d.created(t, table)
	l := acquire(t, s, nil)
	set := func(what string) { d.exec(t, fmt.Sprintf("UPDATE %s SET %s", table, what)) }
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	where := "table " + table + ": worker 0: "
	for _, bad := range []string{"record = ''", "record = 'free'", "record = '{}'", "record = 'null'",
		"record = replace(record, '\"free\"', '\"odd\"')", "version = version + 1", "record = replace(record, '\"worker\":0', '\"worker\":1')"} {
		d.empty(t, table)
		acquire(t, s, nil).Release(t.Context())
		set(bad)
		refused(t, s, lease.ErrBadRecord, where)
	}
	d.empty(t, table)
	r := acquire(t, s, &lease.Options{Layout: snowflake.SonyflakeLayout()})
	if err := r.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused(t, s, lease.ErrLayout, "worker 0 in table "+table)
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	db := sqliteFile(t).open(t)
	long, schema := strings.Repeat("n", 55), strings.Repeat("s", 63)
	for _, name := range []string{"", "t", "_", "T1", "main.workers", long, schema + "." + long, "select"} {
		if _, err := sqllease.New(db, sqllease.SQLite, &sqllease.Options{Table: name}); err != nil {
			t.Errorf("Table %q: %v", name, err)
		}
	}
	for _, name := range []string{" ", "1", "a b", "a;", `a"`, "a`", "a'", "a.b.c", ".a", "a.", "a-b", "ä", "a\n", "a\x00",
		"t; DROP TABLE t", `t"; DROP TABLE t --`, long + "n", "a." + long + "n", schema + "s.a"} {
		for _, dialect := range []sqllease.Dialect{sqllease.PostgreSQL, sqllease.MySQL, sqllease.SQLite} {
			_, err := sqllease.New(db, dialect, &sqllease.Options{Table: name})
			_, err2 := sqllease.NewNodes(db, dialect, &sqllease.Options{Table: name})
			if !errors.Is(err, lease.ErrInvalidOptions) || !errors.Is(err2, lease.ErrInvalidOptions) {
				t.Errorf("Table %q: %v, %v", name, err, err2)
			}
		}
	}
	for _, dialect := range []sqllease.Dialect{0, 4} {
		if _, err := sqllease.New(db, dialect, nil); !errors.Is(err, lease.ErrInvalidOptions) {
			t.Errorf("Dialect %d: %v", dialect, err)
		}
	}
	if _, err := sqllease.New(nil, sqllease.SQLite, nil); !errors.Is(err, lease.ErrInvalidOptions) {
		t.Errorf("no db: %v", err)
	}
}

// If another process locks the file, a call waits until its context ends. It returns no conflict.
func TestCallsWaitForALockedSQLiteFile(t *testing.T) {
	t.Parallel()
	d := sqliteFile(t)
	s := d.created(t, "")
	conn, err := d.open(t).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	r := record(3)
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Millisecond)
		_, err := s.Save(ctx, r)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lease.ErrConflict) {
			t.Fatalf("Save returns %v", err)
		}
	}
	saved := make(chan error)
	go func() {
		_, err := s.Save(t.Context(), r)
		saved <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-saved; err != nil {
		t.Fatal(err)
	}
}

func record(worker int) lease.Record {
	return lease.Record{
		Worker:  worker,
		Version: 1,
		Token:   "token",
		State:   lease.Held,
		Layout:  snowflake.DefaultLayout(),
		Bounds:  []time.Time{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		Window:  time.Second,
	}
}
