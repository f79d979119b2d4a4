//go:build unix

// Package sqllease_test tests package sqllease on PostgreSQL, MariaDB and SQLite, and the SQL that
// the program snowflake prints. It is in a module of its own because of the drivers.
package sqllease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// These tests are longer than the store: drivers and servers have settings, isolations and modes of
// a session in which a statement is acknowledged and not committed, and each is tried on the real
// server.

const password = "se'cret"

// server is a database server that the test has started.
type server struct {
	*servertest.Process
	dialect sqllease.Dialect
	addr    string
}

// dsn returns the driver and the data source of a user's database, with additional parameters. The
// address may be a proxy's.
func dsn(dialect sqllease.Dialect, addr, user, password, name, params string) (driver, source string) {
	if dialect == sqllease.MySQL {
		return "mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s?%s", user, password, addr, name, params)
	}
	return "pgx", fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&%s", url.UserPassword(user, password), addr, name, params)
}

// connect opens a database (SQLite's address is the file) as a user, without a log of the driver
// and without a ping before each statement.
func connect(dialect sqllease.Dialect, addr, user, password string) (*sql.DB, error) {
	_, source := dsn(dialect, addr, user, password, "app", "")
	if dialect == sqllease.SQLite {
		return sql.Open("sqlite", sqliteDSN(addr))
	}
	if dialect == sqllease.MySQL {
		c, err := mysql.ParseDSN(source)
		if err != nil {
			return nil, err
		}
		c.Logger = &mysql.NopLogger{}
		connector, err := mysql.NewConnector(c)
		return sql.OpenDB(connector), err
	}
	c, err := pgx.ParseConfig(source)
	if err != nil {
		return nil, err
	}
	return stdlib.OpenDB(*c, stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false })), nil
}

// with opens the database as the user app, with parameters of the driver.
func (s *server) with(name, params string) database {
	return database{s.dialect, func(t testing.TB) *sql.DB {
		driver, source := dsn(s.dialect, s.addr, "app", password, name, params)
		return servertest.Open(t, driver, source)
	}}
}

func (s *server) as(t testing.TB, user, password string) *sql.DB {
	t.Helper()
	db := servertest.Must(connect(s.dialect, s.addr, user, password))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

func (s *server) database() database {
	return database{s.dialect, func(t testing.TB) *sql.DB { return s.as(t, "app", password) }}
}

// owner opens the database as a user that may grant rights.
func (s *server) owner() database {
	return database{s.dialect, func(t testing.TB) *sql.DB {
		driver, source := ownersDSN(s.dialect, s.addr, "app")
		return servertest.Open(t, driver, source)
	}}
}

func ownersDSN(dialect sqllease.Dialect, addr, name string) (driver, source string) {
	if dialect == sqllease.MySQL {
		return dsn(dialect, addr, "root", "", name, "")
	}
	return dsn(dialect, addr, "owner", password, name, "")
}

func startPostgres(t testing.TB) *server {
	t.Helper()
	s := &server{dialect: sqllease.PostgreSQL}
	s.addr, s.Process = servertest.Postgres(t, password, answers(s.dialect), "-c", "max_connections=1000")
	driver, source := ownersDSN(s.dialect, s.addr, "postgres")
	must(t, servertest.Open(t, driver, source), `CREATE ROLE app CREATEDB LOGIN PASSWORD 'se''cret'`,
		`CREATE ROLE reader LOGIN PASSWORD 'reader'`,
		// ICU does not sort in the order of bytes.
		`CREATE DATABASE app OWNER app ENCODING UTF8 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' TEMPLATE template0`)
	return s
}

func startMariaDB(t testing.TB) *server {
	t.Helper()
	s := &server{dialect: sqllease.MySQL}
	// The time-outs are long enough for a slow machine.
	s.addr, s.Process = servertest.MariaDB(t, answers(s.dialect), "--max-connections=1000", "--max-connect-errors=1000000",
		"--connect-timeout=600", "--net-read-timeout=600", "--net-write-timeout=600")
	driver, source := ownersDSN(s.dialect, s.addr, "")
	must(t, servertest.Open(t, driver, source), `CREATE DATABASE app`, `CREATE USER app IDENTIFIED BY 'se\'cret'`,
		`GRANT ALL ON app.* TO app`,
		`CREATE USER reader IDENTIFIED BY 'reader'`)
	return s
}

// answers reports whether the server at addr lets its owner in.
func answers(dialect sqllease.Dialect) func(addr string) error {
	return func(addr string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		name := map[sqllease.Dialect]string{sqllease.PostgreSQL: "postgres"}[dialect]
		db, err := sql.Open(ownersDSN(dialect, addr, name))
		if err != nil {
			return err
		}
		defer db.Close()
		return db.PingContext(ctx)
	}
}

func TestPostgreSQL(t *testing.T) {
	depth.Parallel(t)
	s := startPostgres(t)
	t.Run("CommitThatFails", func(t *testing.T) { commitFails(t, s) })
	s.fits(t)
	t.Run("Functions", func(t *testing.T) {
		t.Parallel()
		functionsOfPostgreSQL(t, s)
	})
}

func TestMariaDB(t *testing.T) {
	depth.Parallel(t)
	s := startMariaDB(t)
	t.Run("SessionsThatDoNotCommit", func(t *testing.T) { sessions(t, s) })
	s.fits(t)
	t.Run("Functions", func(t *testing.T) {
		t.Parallel()
		functionsOfMariaDB(t, s)
	})
}

// fits runs the tests for both servers. Tests that need the server alone run first, then all others
// run in parallel.
func (s *server) fits(t *testing.T) {
	t.Run("OtherSettings", func(t *testing.T) { otherSettings(t, s) })
	t.Run("LossySettingsAreLogged", func(t *testing.T) { lossySettings(t, s) })
	t.Run("NodesRepeatNoNumberAfterAKill", func(t *testing.T) {
		nodesAfterKill(t, s.database(), func() { s.Kill(); s.Restart() })
	})
	t.Run("TroublesThatPass", func(t *testing.T) { troubles(t, s) })
	t.Run("IdleConnectionsThatAreHalfOpenAreDropped", func(t *testing.T) { halfOpen(t, s) })
	servertest.Run(t, s.fleet())
	for name, test := range map[string]func(*testing.T, *server){
		"RefusedUsers":                     refusedUsers,
		"LockIsNoConflictWhateverItsLimit": lockLimits,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
	fits(t, func(testing.TB) database { return s.database() })
}

// commitFails: PostgreSQL sends the result of RETURNING before the commit. If the commit fails, Put
// and Assign return its error.
func commitFails(t *testing.T, s *server) {
	d, table := s.database(), newTable()
	store := d.store(t, table)
	version := put(t, store, "a", "", "value")
	d.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not today''; END'`)
	nodes := d.nodesCreated(t, table+"_node")
	for _, name := range []string{table, table + "_node"} {
		d.exec(t, `CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON `+name+` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	}
	_, err := nodes.Assign(t.Context(), sqllease.Node{}, snowflake.Layout{})
	require.ErrorContains(t, err, "not today")
	for key, old := range map[string]string{"a": version, "b": ""} {
		for range 3 { // the first Put prepares the statement
			_, err := store.Put(t.Context(), key, old, nil)
			require.ErrorContains(t, err, "not today", key)
		}
	}
}

// sessions: MySQL acknowledges a statement that it does not commit if the connection is in a
// transaction or has autocommit off. The store commits whatever state the connection is in, and
// reads what is stored now, or it returns an error.
func sessions(t *testing.T, s *server) {
	on := s.database()
	for _, test := range []struct{ param, global, begin string }{
		{param: "autocommit=0"},
		{global: "autocommit = 0"},
		{param: "completion_type=%27CHAIN%27"},
		{global: "completion_type = 'CHAIN'"},
		{begin: "START TRANSACTION WITH CONSISTENT SNAPSHOT"},
		{begin: "SET autocommit = 0"},
		{param: "autocommit=0&completion_type=1&tx_isolation=%27SERIALIZABLE%27", begin: "BEGIN"},
		{begin: "XA START 'x'"},
	} {
		t.Run(strings.Trim(test.param+" "+test.global+" "+test.begin, " "), func(t *testing.T) {
			if test.global != "" {
				name, _, _ := strings.Cut(test.global, " ")
				s.owner().exec(t, "SET GLOBAL "+test.global)
				defer s.owner().exec(t, "SET GLOBAL "+name+" = DEFAULT")
			}
			table := newTable()
			db := s.with("app", test.param).open(t)
			db.SetMaxOpenConns(1)
			store := servertest.Must(sqllease.New(db, sqllease.MySQL, &sqllease.Options{Table: table}))(t)
			other := on.store(t, table)
			committed := func(key, version string) {
				t.Helper()
				require.Equal(t, version, servertest.Must(other.Get(t.Context(), key))(t).Version, key)
			}
			committed("first", put(t, store, "first", "", "value"))
			version := put(t, other, "a", "", "value")
			servertest.Must(store.Get(t.Context(), "a"))(t)
			for i := range 3 {
				if test.begin != "" {
					servertest.Must(db.Exec(test.begin))(t)
				}
				if strings.HasPrefix(test.begin, "XA") {
					_, err := store.Put(t.Context(), "a", version, nil)
					require.Error(t, err, "a Put that is a part of a distributed transaction succeeds")
					return
				}
				version = put(t, other, "a", version, "another's")
				require.Equal(t, version, servertest.Must(store.Get(t.Context(), "a"))(t).Version)
				version = put(t, store, "a", version, "ours")
				committed("a", version)
				created := put(t, store, fmt.Sprint("b", i), "", "ours")
				committed(fmt.Sprint("b", i), created)
				servertest.Do(t, store.Delete(t.Context(), fmt.Sprint("b", i), created))
				committed(fmt.Sprint("b", i), "")
			}
			nodes := servertest.Must(sqllease.NewNodes(db, sqllease.MySQL, &sqllease.Options{Table: table + "_node"}))(t)
			require.NoError(t, nodes.Create(t.Context()))
			for want := 1; want <= 2; want++ {
				assert.Equal(t, want, servertest.Must(nodes.Assign(t.Context(), sqllease.Node{}, snowflake.Layout{}))(t))
				assert.Equal(t, want, on.rows(t, table+"_node"), "rows are committed")
			}
		})
	}
}

// otherSettings: the store works with settings that a client or an administrator may have changed.
func otherSettings(t *testing.T, s *server) {
	var open []database
	if s.dialect == sqllease.MySQL {
		s.owner().exec(t, `ALTER DATABASE app CHARACTER SET latin1`, `SET GLOBAL default_storage_engine = MyISAM`)
		for _, params := range []string{
			"clientFoundRows=true",
			"interpolateParams=true",
			"interpolateParams=true&clientFoundRows=true&parseTime=true&loc=Asia%2FTokyo",
			"charset=latin1&sql_mode=%27ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT%27",
			"sql_mode=%27%27&time_zone=%27-11:00%27&tx_isolation=%27SERIALIZABLE%27",
			"sql_mode=%27TRADITIONAL%27&tx_isolation=%27READ-UNCOMMITTED%27&sql_safe_updates=1",
			"sql_select_limit=0",
			"sql_select_limit=1&autocommit=0",
		} {
			open = append(open, s.with("app", params))
		}
	} else {
		s.database().exec(t, "CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
		for _, params := range []string{
			"app?TimeZone=UTC",
			"latin?TimeZone=Asia/Tokyo&DateStyle=German",
			"latin?client_encoding=LATIN1&bytea_output=escape",
			"app?default_transaction_isolation=serializable&TimeZone=Pacific/Niue",
			"app?default_query_exec_mode=exec",
			"app?default_query_exec_mode=simple_protocol",
		} {
			name, params, _ := strings.Cut(params, "?")
			open = append(open, s.with(name, params))
		}
	}
	for _, d := range open {
		table, value := newTable(), " Zoë 雪 🏂\\'\"\u2028 \n"
		store, version := d.store(t, table), ""
		for range 3 {
			before := time.Now().Add(-time.Millisecond)
			e := servertest.Must(store.Put(t.Context(), "worker/7", version, []byte(value)))(t)
			for _, at := range []time.Time{e.Time, servertest.Must(store.Now(t.Context()))(t)} {
				assert.WithinRange(t, at, before, time.Now().Add(time.Millisecond))
			}
			for _, old := range []string{"", version, "0"} {
				_, err := store.Put(t.Context(), "worker/7", old, nil)
				assert.ErrorIs(t, err, lease.ErrConflict, "Put in place of version %q", old)
			}
			version = e.Version
			require.Equal(t, []lease.Entry{e}, servertest.Must(store.List(t.Context(), "worker/"))(t))
		}
		nodes := d.nodesCreated(t, table+"_node")
		for want := 1; want <= 2; want++ {
			assert.Equal(t, want, servertest.Must(nodes.Assign(t.Context(), sqllease.Node{Host: "h"}, snowflake.Layout{}))(t))
		}
	}
}

// lossySettings: settings that lose commits are logged.
func lossySettings(t *testing.T, s *server) {
	d := s.database()
	warns(t, d, newTable(), "")
	if s.dialect == sqllease.PostgreSQL {
		warns(t, s.with("app", "synchronous_commit=off"), newTable(), "synchronous_commit = off")
		table := newTable()
		put(t, d.store(t, table), "z", "", "value")
		d.exec(t, "ALTER TABLE "+table+" SET UNLOGGED")
		warns(t, d, "public."+table, "UNLOGGED")
		return
	}
	for _, setting := range []string{"innodb_flush_log_at_trx_commit = 2", "innodb_flush_log_at_trx_commit = 0"} {
		s.owner().exec(t, "SET GLOBAL "+setting)
		warns(t, d, newTable(), setting)
	}
	s.owner().exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	table := newTable()
	schema, _ := s.dialect.Schema(table)
	d.exec(t, strings.Replace(schema, "InnoDB", "MyISAM", 1))
	warns(t, d, "app."+table, "ENGINE = MyISAM")
}

// refusedUsers: if a user lacks a right, Put returns one clear error.
func refusedUsers(t *testing.T, s *server) {
	table := newTable()
	put(t, s.database().store(t, table), "z", "", "value")
	says, denied := "password authentication failed", "permission denied"
	if s.dialect == sqllease.MySQL {
		says, denied = "Access denied", "command denied"
		s.owner().exec(t, "GRANT CREATE TEMPORARY TABLES ON app.* TO reader")
	}
	refused := func(user, password, table, says string) {
		t.Helper()
		store := database{s.dialect, func(t testing.TB) *sql.DB { return s.as(t, user, password) }}.store(t, table)
		_, err := store.Put(t.Context(), "a", "", nil)
		require.ErrorContains(t, err, "sqllease: table "+table+": ")
		assert.ErrorIs(t, err, lease.ErrRefused)
		assert.ErrorContains(t, err, says)
	}
	refused("app", "wrong", table, says)
	// MySQL reports a missing database only to users with the right to see it.
	driver, source := ownersDSN(s.dialect, s.addr, "missing")
	lost := database{s.dialect, func(t testing.TB) *sql.DB { return servertest.Open(t, driver, source) }}.store(t, table)
	_, err := lease.Acquire(t.Context(), lost, nil)
	require.ErrorIs(t, err, lease.ErrRefused)
	require.ErrorContains(t, err, "create the database, or correct its name")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	refused("reader", "reader", table, denied)
	// Since PostgreSQL 15 only the owner may create tables in the schema public.
	refused("reader", "reader", newTable(), denied)
	if s.dialect == sqllease.PostgreSQL {
		refused("reader", "reader", newTable(),
			"this user can neither read the table nor create it: let the owner of the database run: CREATE TABLE IF NOT EXISTS")
	}
	for _, rights := range []string{"SELECT", "SELECT, INSERT"} {
		// A user that may acquire a worker ID but not renew it acquires none.
		s.owner().exec(t, "GRANT "+rights+" ON "+table+" TO reader")
		refused("reader", "reader", table, denied)
	}
	// The rights in the documentation.
	s.owner().exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+table+" TO reader")
	store := database{s.dialect, func(t testing.TB) *sql.DB { return s.as(t, "reader", "reader") }}.store(t, table)
	version := put(t, store, "a", put(t, store, "a", "", "first"), "second")
	assert.NoError(t, store.Delete(t.Context(), "a", version))
}

// dialectEnv tells child processes the database's dialect.
const dialectEnv = "SQLLEASE_DIALECT"

func TestMain(m *testing.M) {
	servertest.Parallel = 16 // the tests mostly wait
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, func() error, error) {
		dialect, err := strconv.Atoi(os.Getenv(dialectEnv))
		if err != nil {
			return nil, nil, err
		}
		return opener(sqllease.Dialect(dialect))(addr, space)
	}))
}

// opener opens a new client for servertest.
func opener(dialect sqllease.Dialect) servertest.Opener {
	return func(addr, space string) (lease.Store, func() error, error) {
		db, err := connect(dialect, addr, "app", password)
		if err != nil {
			return nil, nil, err
		}
		db.SetMaxOpenConns(4)
		db.SetMaxIdleConns(4)
		s, err := sqllease.New(db, dialect, &sqllease.Options{Table: "w_" + space})
		return s, db.Close, err
	}
}

// fleetServer returns the server for servertest.
func fleetServer(d database, addr string) *servertest.Server {
	wipe := func(statement string) func(t testing.TB, space string) {
		return func(t testing.TB, space string) { d.exec(t, statement+" w_"+space) }
	}
	return &servertest.Server{
		Addr:  addr,
		Open:  opener(d.dialect),
		Wipes: map[string]func(testing.TB, string){"Delete": wipe("DELETE FROM"), "Drop": wipe("DROP TABLE")},
		Env:   []string{fmt.Sprintf("%s=%d", dialectEnv, d.dialect)},
	}
}

func (s *server) fleet() *servertest.Server {
	f := fleetServer(s.database(), s.addr)
	f.Process = s.Process
	f.Wipes["Truncate"] = func(t testing.TB, space string) { s.database().exec(t, "TRUNCATE TABLE w_"+space) }
	return f
}

// troubles: after every trouble, processes recover without a restart.
func troubles(t *testing.T, s *server) {
	host := servertest.NewHost(t, s.addr)
	owner := func(statements ...string) { s.owner().exec(t, statements...) }
	refuses := servertest.Trouble{Name: "TakesNoWrites", Says: []string{"25006"}, Begin: func(*testing.T, string) func(*testing.T) {
		owner("ALTER ROLE app SET default_transaction_read_only = on")
		host.Reset() // open sessions would keep their settings
		host.Heal()
		return func(*testing.T) {
			owner("ALTER ROLE app RESET default_transaction_read_only")
			host.Reset()
			host.Heal()
		}
	}}
	if s.dialect == sqllease.MySQL {
		refuses = servertest.Trouble{Name: "TakesNoWrites", Says: []string{"read-only"}, Begin: func(*testing.T, string) func(*testing.T) {
			owner("SET GLOBAL read_only = 1")
			return func(*testing.T) { owner("SET GLOBAL read_only = 0") }
		}}
	}
	servertest.Troubles(t, s.fleet(), host, refuses)
}

// halfOpen: the pool closes all idle connections.
func halfOpen(t *testing.T, s *server) {
	const idle = 20
	proxy := servertest.NewProxy(t, s.addr)
	db := servertest.Must(connect(s.dialect, proxy.Addr(), "app", password))(t)
	defer db.Close()
	db.SetMaxIdleConns(idle)
	store := servertest.Must(sqllease.New(db, s.dialect, &sqllease.Options{Table: newTable()}))(t)
	servertest.HalfOpenPool(t, proxy, store, func() {
		var conns []*sql.Conn
		for range idle {
			conns = append(conns, servertest.Must(db.Conn(t.Context()))(t))
		}
		for _, c := range conns {
			servertest.Do(t, c.Close())
		}
		require.Equal(t, idle, db.Stats().Idle)
	})
}

// lockLimits: a Put waits for a lock whatever the server's lock time-out is.
func lockLimits(t *testing.T, s *server) {
	params := []string{"innodb_lock_wait_timeout=0", "innodb_lock_wait_timeout=50&tx_isolation=%27SERIALIZABLE%27"}
	if s.dialect == sqllease.PostgreSQL {
		params = []string{"lock_timeout=10ms", "default_transaction_isolation=serializable"}
	}
	for _, param := range params {
		rowLocked(t, s.with("app", param))
	}
}

// nodesAfterKill: while numbers are taken, the server is killed and all rows are deleted. No number
// comes twice.
func nodesAfterKill(t *testing.T, d database, killServer func()) {
	n := d.nodesCreated(t, "numbers")
	var mu sync.Mutex
	seen := map[int]bool{}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				w, err := n.Assign(ctx, sqllease.Node{}, layouts.Baidu())
				if err != nil { // the server is away
					time.Sleep(10 * time.Millisecond)
					continue
				}
				mu.Lock()
				assert.False(t, seen[w], "worker %d comes twice", w)
				seen[w] = true
				mu.Unlock()
			}
		})
	}
	defer all.Wait()
	defer stop()
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
	more := func() {
		before := count()
		servertest.Await(t, func() error {
			if count() < before+20 {
				return errors.New("no more numbers are given")
			}
			return nil
		})
	}
	for range depth.Of(2, 8) {
		more()
		killServer()
		more()
		d.exec(t, "DELETE FROM numbers")
	}
	more()
}

func TestSQLiteNodesRepeatNoNumberOfADeletedRow(t *testing.T) {
	t.Parallel()
	nodesAfterKill(t, sqliteFile(t), func() {})
}

// Processes that share a file are killed and stopped, and another process locks the file for two
// windows.
func TestSQLiteProcessesRepeatNoID(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases.db")
	s := fleetServer(sqliteAt(path), path)
	s.Window = 500 * time.Millisecond
	servertest.Outage(t, s, path, servertest.Passes("FileIsLocked", func(t *testing.T, _ string) {
		conn := servertest.Must(sqliteAt(path).open(t).Conn(t.Context()))(t)
		defer conn.Close()
		servertest.Must(conn.ExecContext(t.Context(), "PRAGMA busy_timeout = 60000; BEGIN IMMEDIATE"))(t)
		time.Sleep(2 * s.Window)
		servertest.Must(conn.ExecContext(t.Context(), "COMMIT"))(t)
	}))
}

// Many clients with separate connections take worker IDs at once, with both kinds of SQLite's
// journal.
func TestSQLiteServesManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	for journal, pragmas := range map[string]string{
		"WAL":      "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)",
		"Rollback": "?_pragma=synchronous(EXTRA)",
	} {
		t.Run(journal, func(t *testing.T) {
			dsn := "file:" + filepath.Join(t.TempDir(), "leases.db") + pragmas
			servertest.Crowd(t, &servertest.Server{Open: func(string, string) (lease.Store, func() error, error) {
				s, err := sqllease.Open("sqlite", dsn, sqllease.SQLite, nil)
				if err != nil {
					return nil, nil, err
				}
				return s, s.Close, nil
			}}, depth.Of(20, 200))
		})
	}
}

func BenchmarkPostgreSQL(b *testing.B) { servertest.Bench(b, startPostgres(b).fleet()) }

func BenchmarkStarts(b *testing.B) { servertest.Starts(b, startPostgres(b).fleet()) }

func BenchmarkMariaDB(b *testing.B) { servertest.Bench(b, startMariaDB(b).fleet()) }

func BenchmarkSQLite(b *testing.B) {
	servertest.Puts(b, sqliteFile(b).store(b, ""))
}
