//go:build unix

package sqllease_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// refusedUsers: if a user lacks a right, Acquire returns one clear error.
func refusedUsers(t *testing.T, s *server) {
	table := newTable()
	s.database().created(t, table)
	store := func(db *sql.DB) lease.Store {
		store, err := sqllease.New(db, s.dialect, &sqllease.Options{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	says := "password authentication failed"
	denied := "permission denied"
	grant := func(rights string) {
		t.Helper()
		var statements []string
		for _, of := range []string{"", "_history", "_used"} {
			statements = append(statements, "GRANT "+rights+" ON "+table+of+" TO reader")
		}
		s.owner().exec(t, statements...)
	}
	if s.dialect == sqllease.MySQL {
		says, denied = "Access denied", "command denied"
	}
	refused(t, store(s.as(t, "app", "wrong")), nil, "sqllease: table "+table+": ", says)
	if s.dialect == sqllease.MySQL {
		s.owner().exec(t, "GRANT CREATE TEMPORARY TABLES ON app.* TO reader")
	}
	refused(t, store(s.as(t, "reader", "reader")), nil, "sqllease: table "+table+": ", denied)
	grant("SELECT")
	refused(t, store(s.as(t, "reader", "reader")), nil, "sqllease: table "+table+": ", denied)
	// If a user may take a worker ID but not renew it, Acquire takes no worker ID.
	grant("SELECT, INSERT")
	refused(t, store(s.as(t, "reader", "reader")), nil, "sqllease: table "+table+": ", denied)
	if err := store(s.as(t, "reader", "reader")).(*sqllease.Store).Create(t.Context(), time.Nanosecond); err != nil {
		t.Errorf("Create of a table that is there needs no right to create one: %v", err)
	}
	snap, err := store(s.as(t, "app", password)).Load(t.Context())
	if err != nil || len(snap.Records) > 0 {
		t.Errorf("there are %v: %v", snap.Records, err)
	}
	grant("SELECT, INSERT, UPDATE, DELETE") // the rights that the doc of New names
	l := acquire(t, store(s.as(t, "reader", "reader")), nil)
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	acquire(t, store(s.as(t, "reader", "reader")), nil)
}

// oneRoundTrip counts the round trips of renewals, of loads, and of takeovers.
func oneRoundTrip(t *testing.T, s *server) {
	proxy := servertest.NewProxy(t, s.addr)
	table := newTable()
	s.database().created(t, table)
	db, err := connect(s.dialect, proxy.Addr(), "app", password)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := sqllease.New(db, s.dialect, &sqllease.Options{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	r := record(1)
	save := func() {
		t.Helper()
		if r, err = store.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		r.Version++
	}
	load := func() {
		t.Helper()
		if _, err := store.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	takeOver := func() {
		t.Helper()
		ended := lease.Holding{Worker: 1, From: time.Unix(int64(r.Version), 0), To: time.Unix(int64(r.Version), 1), Token: "t"}
		if r, err = store.SaveEnding(t.Context(), r, ended, time.Time{}); err != nil {
			t.Fatal(err)
		}
		r.Version++
	}
	save() // version 1
	save() // this save prepares the statement
	takeOver()
	load()
	const times = 20
	before := proxy.Turns()
	for range times {
		save()
	}
	if n := proxy.Turns() - before; n != times {
		t.Errorf("%d renewals take %d round trips", times, n)
	}
	before = proxy.Turns()
	for range times {
		load()
	}
	if n := proxy.Turns() - before; n != 2*times {
		t.Errorf("%d loads take %d round trips, not 2 each", times, n)
	}
	most := 1 // a PostgreSQL save is one statement, a MySQL save is a transaction of three
	if s.dialect == sqllease.MySQL {
		most = 5
	}
	before = proxy.Turns()
	for range times {
		takeOver()
	}
	if n := proxy.Turns() - before; n != most*times {
		t.Errorf("%d saves with a history take %d round trips, not %d each", times, n, most)
	}
}

// commitFails: PostgreSQL sends the result of RETURNING before it commits. If the commit fails, Save
// returns its error.
func commitFails(t *testing.T, s *server) {
	d, table := s.database(), newTable()
	store := d.created(t, table)
	r, err := store.Save(t.Context(), record(1))
	if err != nil {
		t.Fatal(err)
	}
	d.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not today''; END'`)
	nodes := d.nodesCreated(t, table+"_node")
	for _, name := range []string{table, table + "_node"} {
		d.exec(t, `CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON `+name+` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	}
	if w, err := nodes.Assign(t.Context(), sqllease.Node{}, snowflake.Layout{}); err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("an Assign whose commit failed returns %d, %v", w, err)
	}
	for _, r := range []lease.Record{record(2), {Worker: 1, Version: 2, Token: "token", State: r.State, Layout: r.Layout, Bounds: r.Bounds, Window: r.Window}} {
		for range 3 { // the first save prepares the statement
			if _, err := store.Save(t.Context(), r); err == nil || !strings.Contains(err.Error(), "not today") {
				t.Errorf("worker %d: a save whose commit failed returns %v", r.Worker, err)
			}
		}
	}
}

// autocommitOff: if autocommit is off, MySQL would commit nothing. Then Acquire takes no worker ID and leaves
// no transaction open. Nodes works.
func autocommitOff(t *testing.T, s *server) {
	client := func(param string) database {
		return database{s.dialect, func(t testing.TB) *sql.DB {
			return opened(t, "mysql", "app:"+password+"@tcp("+s.addr+")/app?"+param)
		}}
	}
	on := client("autocommit=1&lock_wait_timeout=1")
	for _, how := range []string{"parameter", "GLOBAL"} {
		t.Run(how, func(t *testing.T) {
			off := client("autocommit=0")
			if how == "GLOBAL" {
				off = client("")
				s.owner().exec(t, "SET GLOBAL autocommit = 0")
				defer s.owner().exec(t, "SET GLOBAL autocommit = 1")
			}
			table := newTable()
			store := off.created(t, table)
			untouched := func(after string) {
				t.Helper()
				if _, err := on.open(t).Exec("ALTER TABLE " + table + " COMMENT = '" + after + "'"); err != nil {
					t.Errorf("after %s a transaction is open: %v", after, err)
				}
			}
			untouched("Create")
			if err := store.Create(t.Context(), time.Nanosecond); err != nil {
				t.Error(err)
			}
			untouched("Create again")
			refused(t, store, lease.ErrInvalidOptions, "table "+table+": ", "autocommit=0")
			untouched("Acquire")
			save := func(r lease.Record) {
				t.Helper()
				if _, err := store.Save(t.Context(), r); !errors.Is(err, lease.ErrInvalidOptions) || errors.Is(err, lease.ErrConflict) {
					t.Fatalf("Save of version %d returns %v", r.Version, err)
				}
				untouched("Save")
			}
			save(record(1))
			saved, err := on.store(t, table).Save(t.Context(), record(1))
			if err != nil {
				t.Fatal(err)
			}
			save(record(1))
			next := saved
			next.Version++
			save(next)
			snap, err := on.store(t, table).Load(t.Context())
			if err != nil || len(snap.Records) != 1 || snap.Records[0].Version != 1 {
				t.Errorf("there are %v: %v", snap.Records, err)
			}
			on.exec(t, "UPDATE "+table+" SET record = 'odd'")
			if _, err := store.Load(t.Context()); !errors.Is(err, lease.ErrInvalidOptions) {
				t.Errorf("Load returns %v", err)
			}
			untouched("Load of a bad record")

			nodes := off.nodesCreated(t, table+"_node")
			for want := 1; want <= 2; want++ {
				if w, err := nodes.Assign(t.Context(), sqllease.Node{}, snowflake.Layout{}); err != nil || w != want {
					t.Errorf("worker %d: %v", w, err)
				}
				var rows int
				if err := on.open(t).QueryRow("SELECT COUNT(*) FROM " + table + "_node").Scan(&rows); err != nil || rows != want {
					t.Errorf("%d rows are committed: %v", rows, err)
				}
			}
			if _, err := on.open(t).Exec("ALTER TABLE " + table + "_node COMMENT = 'x'"); err != nil {
				t.Error(err)
			}
		})
	}
}

// otherSettings: the store works with all settings that a client or an administrator may have changed.
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
		} {
			open = append(open, database{s.dialect, func(t testing.TB) *sql.DB {
				return opened(t, "mysql", "app:"+password+"@tcp("+s.addr+")/app?"+params)
			}})
		}
	} else {
		s.database().exec(t, "CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
		for _, params := range []string{
			"app?TimeZone=UTC",
			"latin?TimeZone=Asia/Tokyo&DateStyle=German",
			"latin?client_encoding=LATIN1",
			"app?default_transaction_isolation=serializable&TimeZone=Pacific/Niue",
			"app?default_query_exec_mode=exec",
			"app?default_query_exec_mode=simple_protocol",
		} {
			open = append(open, database{s.dialect, func(t testing.TB) *sql.DB {
				return opened(t, "pgx", "postgres://app:se%27cret@"+s.addr+"/"+params+"&sslmode=disable")
			}})
		}
	}
	for _, d := range open {
		table := newTable()
		store := d.created(t, table)
		r := record(7)
		r.Owner, r.Host = " Zoë 雪 🏂\\'\"\u2028 ", "\n "
		late := r
		for r.Version <= 3 {
			before := time.Now().Add(-time.Millisecond)
			saved, err := store.Save(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if saved.Renewed.Before(before) || saved.Renewed.After(time.Now().Add(time.Millisecond)) {
				t.Errorf("it was renewed at %v, not now", saved.Renewed)
			}
			for _, late.Version = range []uint64{1, r.Version, r.Version + 2} {
				if _, err := store.Save(t.Context(), late); !errors.Is(err, lease.ErrConflict) {
					t.Errorf("version %d after version %d: %v", late.Version, r.Version, err)
				}
			}
			snap, err := store.LoadWorker(t.Context(), 7)
			if err != nil || len(snap.Records) != 1 || snap.Records[0].String() != saved.String() || snap.Records[0].Version != r.Version {
				t.Fatalf("Load returns %v, %v", snap.Records, err)
			}
			if snap.Now.Before(before) || snap.Now.After(time.Now().Add(time.Millisecond)) {
				t.Errorf("Now is %v", snap.Now)
			}
			r.Version++
		}
		nodes := d.nodesCreated(t, table+"_node")
		for want := 1; want <= 2; want++ {
			if w, err := nodes.Assign(t.Context(), sqllease.Node{Host: "h"}, snowflake.Layout{}); err != nil || w != want {
				t.Errorf("worker %d: %v", w, err)
			}
		}
	}
}

// dialectEnv tells child processes the database's dialect.
const dialectEnv = "SQLLEASE_DIALECT"

func dialectIs(d sqllease.Dialect) []string { return []string{fmt.Sprintf("%s=%d", dialectEnv, d)} }

func TestMain(m *testing.M) {
	if path := os.Getenv(nodesEnv); path != "" {
		assignForEver(path)
	}
	servertest.Parallel = 16 // the tests mostly wait
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, error) {
		dialect, err := strconv.Atoi(os.Getenv(dialectEnv))
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s, _, err := openSpace(ctx, sqllease.Dialect(dialect), addr, space)
		return s, err
	}))
}

// openSpace opens a new client for servertest. If the dialect is SQLite, the address is the file.
func openSpace(ctx context.Context, dialect sqllease.Dialect, addr, space string) (*sqllease.Store, *sql.DB, error) {
	db, err := connect(dialect, addr, "app", password)
	if dialect == sqllease.SQLite {
		db, err = sql.Open("sqlite", sqliteDSN(addr))
	}
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	s, err := sqllease.New(db, dialect, &sqllease.Options{Table: "w_" + space})
	if err == nil {
		err = s.Create(ctx, time.Nanosecond)
	}
	if err != nil {
		db.Close()
	}
	return s, db, err
}

func open(dialect sqllease.Dialect) func(t testing.TB, addr, space string) lease.Store {
	return func(t testing.TB, addr, space string) lease.Store {
		t.Helper()
		s, db, err := openSpace(context.Background(), dialect, addr, space)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return s
	}
}

func (s *server) fleet() *servertest.Server {
	return &servertest.Server{
		Addr:    s.addr,
		Open:    open(s.dialect),
		Kill:    s.Kill,
		Restart: s.Restart,
		Pause:   s.Pause,
		Resume:  s.Resume,
		CPU:     s.CPU,
		Env:     dialectIs(s.dialect),
	}
}

// serverAway: while the server hangs, calls end when their context ends. When the server answers, other
// holders of the store renew at once.
func serverAway(t *testing.T, s *server) {
	store := open(s.dialect)(t, s.addr, "away")
	r, err := store.Save(t.Context(), record(1))
	if err != nil {
		t.Fatal(err)
	}
	r.Version++
	s.Pause()
	defer s.Resume()
	var all sync.WaitGroup
	for i := range 8 { // more calls than connections
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			err := error(nil)
			if i%2 == 0 {
				_, err = store.Load(ctx)
			} else {
				_, err = store.Save(ctx, r)
			}
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "sqllease: table w_away: ") {
				t.Errorf("the error is %v", err)
			}
		})
	}
	begun := time.Now()
	all.Wait()
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("calls that had 100 ms took %v", took)
	}
	s.Resume()
	snap, err := store.LoadWorker(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r.Version = snap.Records[0].Version + 1
	if _, err := store.Save(t.Context(), r); err != nil && !errors.Is(err, lease.ErrConflict) {
		t.Fatal(err) // a conflict, if one of the saves that hung was made now
	}
}

// serverGone: an error wraps its cause.
func serverGone(t *testing.T, s *server) {
	store := open(s.dialect)(t, s.addr, "gone")
	s.Kill()
	defer s.Restart()
	for range 20 { // old connections and new ones
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := store.Save(ctx, record(1))
		cancel()
		if err == nil {
			t.Fatal("Save succeeds")
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		t.Log(err)
	}
	t.Error("no error says that the connection was refused")
}

// rowLocked: if another transaction locks the row, a save waits, whatever limit the server has for locks, and
// returns no conflict. If the other transaction then saves the row, the save returns a conflict.
func rowLocked(t *testing.T, s *server) {
	params := []string{"innodb_lock_wait_timeout=0", "innodb_lock_wait_timeout=50&tx_isolation=%27SERIALIZABLE%27"}
	dsn := "app:" + password + "@tcp(" + s.addr + ")/app?"
	driver := "mysql"
	if s.dialect == sqllease.PostgreSQL {
		params = []string{"lock_timeout=10ms", "default_transaction_isolation=serializable"}
		driver, dsn = "pgx", "postgres://app:se%27cret@"+s.addr+"/app?sslmode=disable&"
	}
	for _, param := range params {
		for _, change := range []string{"record = record", "version = version + 1"} {
			d := database{s.dialect, func(t testing.TB) *sql.DB { return opened(t, driver, dsn+param) }}
			table := newTable()
			store := d.created(t, table)
			r, err := store.Save(t.Context(), record(1))
			if err != nil {
				t.Fatal(err)
			}
			r.Version++
			tx, err := s.database().open(t).Begin()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("UPDATE " + table + " SET " + change); err != nil {
				t.Fatal(err)
			}
			saved := make(chan error)
			go func() {
				_, err := store.Save(t.Context(), r)
				saved <- err
			}()
			select {
			case err := <-saved:
				t.Fatalf("%s: while another has the row locked, Save returns %v", param, err)
			case <-time.After(100 * time.Millisecond):
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-saved; errors.Is(err, lease.ErrConflict) != strings.HasPrefix(change, "version") || err != nil && !errors.Is(err, lease.ErrConflict) {
				t.Errorf("%s: after another's %s, Save returns %v", param, change, err)
			}
		}
	}
}

// nodesAfterKill: while processes start, the server is killed and all rows are deleted. No number is
// assigned twice.
func nodesAfterKill(t *testing.T, s *server) {
	d, table := s.database(), newTable()
	d.nodesCreated(t, table)
	var mu sync.Mutex
	seen := map[int]bool{}
	var all sync.WaitGroup
	var over atomic.Bool
	for range 8 {
		n := d.nodes(t, table)
		all.Go(func() {
			for !over.Load() {
				w, err := n.Assign(t.Context(), sqllease.Node{}, snowflake.BaiduLayout())
				if err != nil {
					time.Sleep(10 * time.Millisecond) // the server is not back yet
					continue
				}
				mu.Lock()
				if seen[w] {
					t.Errorf("worker %d comes twice", w)
				}
				seen[w] = true
				mu.Unlock()
			}
		})
	}
	more := func() {
		t.Helper()
		mu.Lock()
		before := len(seen)
		mu.Unlock()
		for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			n := len(seen)
			mu.Unlock()
			if n >= before+50 {
				return
			}
			if time.Since(begun) > 30*time.Second {
				t.Fatalf("%d numbers, and no more", n)
			}
		}
	}
	defer all.Wait()
	defer over.Store(true)
	for range depth.Of(1, 2) {
		more()
		d.exec(t, "DELETE FROM "+table)
		s.Kill()
		s.Restart()
	}
	more()
}

// nodesEnv tells the file to a child process, which takes numbers again and again.
const nodesEnv = "SQLLEASE_NODES"

func assignForEver(path string) {
	db, err := sql.Open("sqlite", sqliteDSN(path))
	if err != nil {
		panic(err)
	}
	for {
		n, err := sqllease.NewNodes(db, sqllease.SQLite, nil)
		if err != nil {
			panic(err)
		}
		if err := n.Create(context.Background()); err != nil {
			panic(err)
		}
		w, err := n.Assign(context.Background(), sqllease.Node{}, snowflake.BaiduLayout())
		if err != nil {
			panic(err)
		}
		fmt.Println(w)
	}
}

// Processes are killed while they take numbers, and all rows are deleted.
func TestSQLiteNodesRepeatNoNumberAfterKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nodes.db")
	seen := map[string]bool{}
	for range 4 {
		var children []*exec.Cmd
		var lines []*bufio.Scanner
		for range 2 {
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), nodesEnv+"="+path)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			children, lines = append(children, cmd), append(lines, bufio.NewScanner(out))
		}
		read := func(in *bufio.Scanner, most int) {
			n := 0
			for ; n < most && in.Scan(); n++ {
				if seen[in.Text()] {
					t.Errorf("worker %s comes twice", in.Text())
				}
				seen[in.Text()] = true
			}
			if n < min(most, 20) && most == 20 {
				t.Fatal("a process has ended by itself")
			}
		}
		for _, in := range lines {
			read(in, 20)
		}
		for i, cmd := range children {
			cmd.Process.Kill()
			read(lines[i], 1<<30)
			cmd.Wait()
		}
		sqliteAt(path).exec(t, "DELETE FROM WORKER_NODE")
	}
}

// deletedRows: whichever rows are deleted while worker IDs are held, nobody gets a worker ID until Create
// has waited for all windows to end. No ID is issued twice.
func deletedRows(t *testing.T, d database) {
	for _, test := range []struct {
		name string
		wipe string   // a statement for each table
		of   []string // the tables
	}{
		{"the holders' rows", "DELETE FROM @ WHERE worker >= 0", []string{""}},
		{"all rows", "DELETE FROM @", []string{""}},
		{"all rows of all tables", "DELETE FROM @", []string{"", "_history", "_used"}},
		{"the table", "DROP TABLE @", []string{""}},
		{"all tables", "DROP TABLE @", []string{"", "_history", "_used"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			depth.Parallel(t)
			d := d.apart(t)
			window := depth.Of(500*time.Millisecond, time.Second)
			s := &servertest.Server{Window: window, Open: func(t testing.TB, _, space string) lease.Store { return d.created(t, "w_"+space) }}
			servertest.Wiped(t, s, func(space string) {
				servertest.Gone(t, d.store(t, "w_"+space), func() {
					for _, of := range test.of {
						d.exec(t, strings.ReplaceAll(test.wipe, "@", "w_"+space+of))
					}
				})
			}, func(space string) {
				if err := d.store(t, "w_"+space).Create(t.Context(), window); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestSQLiteStoreWithDeletedRowsIsNotNew(t *testing.T) {
	t.Parallel()
	deletedRows(t, sqliteFile(t))
}

// Processes that share a file are killed and stopped. Another process keeps the file locked for two windows.
func TestSQLiteProcessesRepeatNoID(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "workers.db")
	window := 500 * time.Millisecond
	s := &servertest.Server{Addr: path, Open: open(sqllease.SQLite), Window: window, Env: dialectIs(sqllease.SQLite)}
	servertest.Outage(t, s, path, servertest.Fault{Name: "file locked", Do: func() {
		conn, err := sqliteAt(path).open(t).Conn(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		begin := func() error {
			_, err := conn.ExecContext(context.Background(), "PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE")
			return err
		}
		if err := begin(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * window)
		if _, err := conn.ExecContext(context.Background(), "COMMIT"); err != nil {
			t.Error(err)
		}
	}})
}

// Many clients with separate connections take worker IDs at once.
func TestSQLiteServesManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("WAL", func(t *testing.T) { clientsAtOnce(t, sqliteFile(t)) })
	path := filepath.Join(t.TempDir(), "workers.db")
	t.Run("Rollback", func(t *testing.T) {
		clientsAtOnce(t, database{sqllease.SQLite, func(t testing.TB) *sql.DB {
			return opened(t, "sqlite", "file:"+path+"?_pragma=synchronous(EXTRA)")
		}})
	})
}

func clientsAtOnce(t *testing.T, d database) {
	table := newTable()
	d.created(t, table)
	clients := depth.Of(20, 200)
	errs, workers := make([]error, clients), make([]int, clients)
	var wg sync.WaitGroup
	for i := range clients {
		s := d.store(t, table)
		wg.Go(func() {
			l, err := lease.Acquire(t.Context(), s, &lease.Options{Window: time.Minute})
			if errs[i] = err; err == nil {
				workers[i] = l.Worker()
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	by := map[int]int{}
	for i, w := range workers {
		if other, ok := by[w]; ok {
			t.Errorf("clients %d and %d have worker ID %d", i, other, w)
		}
		by[w] = i
	}
}

func BenchmarkPostgreSQL(b *testing.B) { servertest.Bench(b, startPostgres(b).fleet()) }

func BenchmarkMariaDB(b *testing.B) { servertest.Bench(b, startMariaDB(b).fleet()) }

func BenchmarkSQLite(b *testing.B) {
	servertest.Saves(b, open(sqllease.SQLite)(b, filepath.Join(b.TempDir(), "workers.db"), "bench"))
}
