//go:build unix

package follow_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// pass inserts a row, and reads until the fence is above it, and so above all earlier IDs.
func pass(t testing.TB, db database, f *follow.Fence, p process) {
	t.Helper()
	id := p.id(t)
	db.exec(t, insert(id))
	until(t, follow.NewReader(p.store, db.DB, f, 0, fast()), id)
}

// until reads until the reader has passed an ID.
func until(t testing.TB, r *follow.Reader, id snowflake.ID) {
	t.Helper()
	for upTo := snowflake.ID(0); upTo < id; {
		s := servertest.Must(r.Next(t.Context()))(t)
		upTo = s.UpTo
	}
}

// mark returns the ID in the fence's row.
func (db database) mark(t testing.TB) (id snowflake.ID) {
	t.Helper()
	require.NoError(t, db.QueryRow(`SELECT id FROM outbox_fence`).Scan(&id))
	return id
}

// set sets the fence, as if the database had been restored, or another reader had raised it.
func (db database) set(t testing.TB, id snowflake.ID) {
	t.Helper()
	db.exec(t, fmt.Sprintf(`UPDATE outbox_fence SET id = %d`, id))
	if db.dialect == follow.PostgreSQL {
		db.exec(t, fmt.Sprintf(`SELECT setval('outbox_fence_mark', %d)`, id))
	}
}

// If a reader passes a transaction's ID after the transaction began, it is late, at every isolation
// level. If its ID is above the fence, it is not.
func TestLateTransactionIsRefusedAtEveryIsolationLevel(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		levels := []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
		if db.dialect == follow.SQLite {
			levels = []sql.IsolationLevel{sql.LevelDefault}
		}
		p := leased(t)
		for _, level := range levels {
			testLate(t, db, f, p, level)
		}
		if db.dialect == follow.MySQL {
			db.DB = servertest.Open(t, db.driver, db.dsn+"?innodb_snapshot_isolation=ON")
			testLate(t, db, f, p, sql.LevelRepeatableRead)
		}
	})
}

func testLate(t *testing.T, db database, f *follow.Fence, p process, level sql.IsolationLevel) {
	for _, late := range []bool{true, false} {
		id := p.id(t)
		if db.dialect == follow.SQLite { // no reader passes a transaction that has written
			pass(t, db, f, p)
		}
		tx := servertest.Must(db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level}))(t)
		defer tx.Rollback()
		servertest.Must(tx.Exec(insert(id)))(t)
		ids(t, tx, follow.Span{UpTo: 1}) // takes the snapshot
		if db.dialect != follow.SQLite {
			pass(t, db, f, p)
		}
		if late {
			require.ErrorIs(t, f.Check(t.Context(), tx, id), follow.ErrLate, "%v", level)
			require.NoError(t, tx.Rollback())
		} else {
			require.NoError(t, f.Check(t.Context(), tx, p.id(t)), "%v", level)
			require.NoError(t, tx.Commit())
		}
	}
}

// A reader waits for a transaction that has checked earlier, and then reads its row.
func TestReaderWaitsForTransactionsThatHaveChecked(t *testing.T) {
	type held struct { // a transaction after its check
		name, begin, prepare, waiting, commit string
	}
	ways := map[follow.Dialect][]held{
		follow.PostgreSQL: {
			{"commit", `BEGIN`, ``, ``, `COMMIT`},
			{"prepared before", `BEGIN`, `PREPARE TRANSACTION 'one'`, ``, `COMMIT PREPARED 'one'`},
			{"prepared during the raise", `BEGIN`, ``, `PREPARE TRANSACTION 'two'`, `COMMIT PREPARED 'two'`},
		},
		follow.MySQL: {
			{"commit", `BEGIN`, ``, ``, `COMMIT`},
			{"XA", `SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; XA START 'x'`, `XA END 'x'; XA PREPARE 'x'`, ``, `XA COMMIT 'x'`},
		},
		follow.SQLite: {{"commit", `BEGIN IMMEDIATE`, ``, ``, `COMMIT`}},
	}
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		for _, way := range ways[db.dialect] {
			t.Run(way.name, func(t *testing.T) {
				conn, err := db.Conn(t.Context())
				require.NoError(t, err)
				defer conn.Close()
				run := func(statements string) {
					for s := range strings.SplitSeq(statements, "; ") {
						if s != "" {
							_, err := conn.ExecContext(t.Context(), s)
							require.NoError(t, err, s)
						}
					}
				}
				if db.dialect == follow.SQLite { // otherwise the reader has nothing to read
					db.exec(t, insert(p.id(t)))
				}
				run(way.begin)
				id, later := p.id(t), p.id(t)
				run(insert(id))
				require.NoError(t, f.Check(t.Context(), conn, id))
				run(way.prepare)
				if db.dialect != follow.SQLite { // it has one writer
					db.exec(t, insert(later))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				// looked counts how often the reader tried to raise the fence, or looked for its
				// holders.
				var looked atomic.Int64
				r := follow.NewReader(p.store, pointed(t, db.driver, db.dsn, func(point string) {
					if point == "before raise" || point == "after holders" || point == "before BEGIN" && db.dialect == follow.SQLite {
						looked.Add(1)
					}
				}), f, 0, fast())
				var reader sync.WaitGroup
				defer reader.Wait()
				defer cancel()
				var read []snowflake.ID
				reader.Go(func() {
					for s := (follow.Span{}); s.UpTo < id; {
						var err error
						if s, err = r.Next(ctx); !assert.NoError(t, err) {
							return
						}
						read = append(read, ids(t, db, s)...)
					}
				})
				await := func(n int64) {
					servertest.Await(t, func() error {
						if looked.Load() < n {
							return fmt.Errorf("the reader does not wait")
						}
						return nil
					})
				}
				await(1)
				if db.dialect == follow.PostgreSQL { // it has raised the sequence before it waits
					tx := servertest.Must(db.Begin())(t)
					require.ErrorIs(t, f.Check(t.Context(), tx, id), follow.ErrLate)
					require.NoError(t, tx.Rollback())
				}
				run(way.waiting)
				if db.dialect == follow.PostgreSQL {
					await(looked.Load() + 3)
				} else {
					time.Sleep(200 * time.Millisecond)
				}
				require.Less(t, db.mark(t), id, "the reader does not wait")
				run(way.commit)
				reader.Wait()
				require.Contains(t, read, id)
			})
		}
	})
}

// While another reader raises the fence on PostgreSQL, the reader waits, and logs which process it
// waits for. No reader lowers the sequence.
func TestReadersRaiseTheFenceInTurns(t *testing.T) {
	t.Parallel()
	db := dialects["PostgreSQL"](t)
	f, p := prepare(t, db), leased(t)
	mark := func() (id snowflake.ID) {
		t.Helper()
		require.NoError(t, db.QueryRow(`SELECT last_value FROM outbox_fence_mark`).Scan(&id))
		return id
	}
	turn := servertest.Must(db.Begin())(t)
	defer turn.Rollback()
	servertest.Must(turn.Exec(`SELECT pg_advisory_xact_lock(1718579308, 'outbox_fence'::regclass::oid::int)`))(t)
	id := p.id(t)
	db.exec(t, insert(id))
	var pid int
	require.NoError(t, turn.QueryRow(`SELECT pg_backend_pid()`).Scan(&pid))
	var log servertest.Buffer
	o := fast()
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := follow.NewReader(p.store, db.DB, f, 0, o)
	require.ErrorContains(t, untilLogged(t, r.Next, &log,
		fmt.Sprintf("raising the fence\" fence=outbox_fence processes=%d", pid)), "another reader")
	require.Zero(t, mark())
	require.Zero(t, db.mark(t))
	require.NoError(t, turn.Rollback())

	// A reader has crashed after it raised the sequence, before it set the row.
	later := id + snowflake.ID(time.Hour/time.Millisecond)<<22
	db.exec(t, fmt.Sprintf(`SELECT setval('outbox_fence_mark', %d)`, later))
	until(t, r, id)
	require.Equal(t, later, mark())
	require.Contains(t, log.String(), "reading again")
}

// The reader gives up raising a fence that writers have locked, so MariaDB lets new writers
// continue; it reads later.
func TestReaderOnMariaDBDoesNotKeepWritersWaiting(t *testing.T) {
	t.Parallel()
	db := dialects["MariaDB"](t)
	f, p := prepare(t, db), leased(t)
	tx := servertest.Must(db.Begin())(t)
	defer tx.Rollback()
	id := p.id(t)
	servertest.Must(tx.Exec(insert(id)))(t)
	require.NoError(t, f.Check(t.Context(), tx, id))
	db.exec(t, insert(p.id(t)))
	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	reader.Go(func() { _, _ = follow.NewReader(p.store, db.DB, f, 0, fast()).Next(ctx) })
	w := follow.NewWriter(db.DB, f, p.Lease, p.gen)
	for range 3 {
		servertest.Await(t, func() error { // until the reader's UPDATE waits
			var n int
			err := db.QueryRow(`SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE %outbox\_fence%'`).Scan(&n)
			if err == nil && n == 0 {
				err = fmt.Errorf("the reader does not raise the fence")
			}
			return err
		})
		require.NoError(t, w.Do(t.Context(), func(tx *follow.Tx) error {
			id, err := tx.NextID()
			if err == nil {
				_, err = tx.Exec(insert(id))
			}
			return err
		}))
	}
	var limit int
	for range 10 { // no connection goes back to the pool with the reader's limit
		cancel()
		reader.Wait()
		require.NoError(t, db.QueryRow(`SELECT @@innodb_lock_wait_timeout`).Scan(&limit))
		require.Equal(t, 50, limit)
	}
}

// The trigger checks the rows of all programs, whatever their rights and search_path are.
func TestTriggerFencesTheRowsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	db := dialects["PostgreSQL"](t)
	f, p := prepare(t, db), leased(t)
	for range 2 {
		require.NoError(t, f.Trigger(t.Context(), db.DB, "outbox", "id"))
	}
	var schema string
	require.NoError(t, db.QueryRow(`SELECT current_schema()`).Scan(&schema))
	role := "other_" + schema
	db.exec(t, `CREATE ROLE `+role+` LOGIN`)
	db.exec(t, `GRANT USAGE ON SCHEMA `+schema+` TO `+role)
	db.exec(t, `GRANT SELECT, INSERT, UPDATE ON outbox TO `+role)
	other := servertest.Open(t, "pgx", strings.Replace(strings.Replace(postgres(t), "owner@", role+"@", 1), "sslmode",
		"search_path=pg_temp&sslmode", 1))
	in := func(id snowflake.ID) string { return strings.Replace(insert(id), "outbox", schema+".outbox", 1) }

	old, id := p.id(t), p.id(t)
	servertest.Must(other.Exec(in(id)))(t)
	pass(t, db, f, p)
	_, err := other.Exec(in(old))
	require.ErrorContains(t, err, "SNF01")
	_, err = other.Exec(fmt.Sprintf(`UPDATE %s.outbox SET id = %d WHERE id = %d`, schema, old, id))
	require.ErrorContains(t, err, "SNF01")
	servertest.Must(other.Exec(fmt.Sprintf(`UPDATE %s.outbox SET id = id, writer = 1 WHERE id = %d`, schema, id)))(t)
	servertest.Must(other.Exec(in(id) + ` ON CONFLICT (id) DO UPDATE SET id = EXCLUDED.id`))(t)
	servertest.Must(other.Exec(in(p.id(t))))(t)

	// A reader waits for a transaction that only the trigger has checked.
	tx := servertest.Must(other.Begin())(t)
	defer tx.Rollback()
	id = p.id(t)
	servertest.Must(tx.Exec(in(id)))(t)
	servertest.Must(tx.Exec(`SET CONSTRAINTS ALL IMMEDIATE`))(t)
	var holders int
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 'outbox_fence_mark'::regclass`).Scan(&holders))
	require.Equal(t, 1, holders)

	// Writer.Do tries again if the commit fails.
	calls := 0
	require.NoError(t, follow.NewWriter(db.DB, f, p.Lease, p.gen).Do(t.Context(), func(tx *follow.Tx) error {
		id := old
		if calls++; calls == 2 {
			id = p.id(t)
		}
		_, err := tx.Exec(insert(id))
		return err
	}))
	require.Equal(t, 2, calls)
	_, err = other.Exec(in(old))
	require.Error(t, err)

	sqlite := servertest.Must(follow.NewFence(follow.SQLite, "outbox_fence"))(t)
	require.ErrorIs(t, f.Trigger(t.Context(), db.DB, "outbox; DROP", "id"), follow.ErrInvalid)
	long := servertest.Must(follow.NewFence(follow.PostgreSQL, strings.Repeat("f", 50)))(t)
	require.ErrorIs(t, long.Trigger(t.Context(), db.DB, "outbox", strings.Repeat("c", 13)), follow.ErrInvalid)
	require.ErrorIs(t, sqlite.Trigger(t.Context(), db.DB, "outbox", "id"), errors.ErrUnsupported)
}

// Each column has its own trigger, which sees the changes of other triggers.
func TestTriggerFencesColumnsThatOtherTriggersSet(t *testing.T) {
	t.Parallel()
	db := dialects["PostgreSQL"](t)
	f, p := prepare(t, db), leased(t)
	db.exec(t, `ALTER TABLE outbox ADD a_id BIGINT`)
	db.exec(t, `CREATE FUNCTION set_a_id() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.a_id = NEW.writer; RETURN NEW; END'`)
	db.exec(t, `CREATE TRIGGER set_a_id BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE PROCEDURE set_a_id()`)
	a := servertest.Must(follow.NewFence(follow.PostgreSQL, "outbox_fence_a"))(t)
	require.NoError(t, a.Create(t.Context(), db.DB))
	for _, column := range []string{"id", "a_id"} {
		require.NoError(t, f.Trigger(t.Context(), db.DB, "outbox", column))
	}
	// The name of its trigger must differ from that of the fence outbox_fence and the column a_id.
	require.NoError(t, a.Trigger(t.Context(), db.DB, "outbox", "id"))
	old, id := p.id(t), p.id(t)
	db.exec(t, insert(id))
	db.set(t, id)
	_, err := db.Exec(`UPDATE outbox SET writer = 1`)
	require.ErrorContains(t, err, "SNF01")
	_, err = db.Exec(insert(old))
	require.ErrorContains(t, err, "SNF01")
	_, err = db.Exec(fmt.Sprintf(`INSERT INTO outbox (id, a_id) VALUES (%d, 1)`, p.id(t)))
	require.ErrorContains(t, err, "SNF01")
	db.exec(t, insert(p.id(t)))
}

// The triggers of a partitioned table check the rows of all its partitions, including later ones.
func TestTriggerFencesPartitions(t *testing.T) {
	t.Parallel()
	db := dialects["PostgreSQL"](t)
	f, p := prepare(t, db), leased(t)
	db.exec(t, `CREATE TABLE parts (id BIGINT, region INT, PRIMARY KEY (id, region)) PARTITION BY LIST (region)`)
	db.exec(t, `CREATE TABLE parts1 PARTITION OF parts FOR VALUES IN (1)`)
	require.NoError(t, f.Trigger(t.Context(), db.DB, "parts", "id"))
	db.exec(t, `CREATE TABLE parts2 PARTITION OF parts FOR VALUES IN (2)`)
	old, id := p.id(t), p.id(t)
	db.exec(t, fmt.Sprintf(`INSERT INTO parts VALUES (%d, 1)`, id))
	db.set(t, id)
	for _, late := range []string{
		`INSERT INTO parts VALUES (%d, 1)`, `INSERT INTO parts2 VALUES (%d, 2)`, `UPDATE parts SET id = %d`,
		`UPDATE parts SET region = 2 WHERE id > %d`,
	} {
		_, err := db.Exec(fmt.Sprintf(late, old))
		require.ErrorContains(t, err, "SNF01", late)
	}
	db.exec(t, fmt.Sprintf(`INSERT INTO parts VALUES (%d, 2)`, p.id(t)))
}

// The triggers of fences whose names differ only in the schema do not silently replace each other.
func TestTriggerOfAnotherSchemasFenceStays(t *testing.T) {
	t.Parallel()
	db := dialects["PostgreSQL"](t)
	prepare(t, db)
	db.exec(t, `CREATE SCHEMA other`)
	for i, schema := range []string{"", "other."} {
		f := servertest.Must(follow.NewFence(follow.PostgreSQL, schema+"outbox_fence"))(t)
		require.NoError(t, f.Create(t.Context(), db.DB))
		for range 2 {
			if err := f.Trigger(t.Context(), db.DB, "outbox", "id"); i > 0 {
				require.ErrorContains(t, err, "outbox_fence/id is that of a fence in another schema")
			} else {
				require.NoError(t, err)
			}
		}
	}
}

// Every process may call Create when it starts, concurrently with others, and without rights if the
// fence exists.
func TestCreateKeepsAnExistingFence(t *testing.T) {
	each(t, func(t *testing.T, db database, _ *follow.Fence) {
		f := servertest.Must(follow.NewFence(db.dialect, "second"))(t)
		tx := servertest.Must(db.Begin())(t)
		require.ErrorContains(t, f.Check(t.Context(), tx, 1), "fence second: check: call Fence.Create")
		require.NoError(t, tx.Rollback())
		_, err := follow.NewReader(lease.File(t.TempDir()), db.DB, f, 0, nil).Next(t.Context())
		require.ErrorContains(t, err, "fence second: read: call Fence.Create")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { assert.NoError(t, f.Create(t.Context(), db.DB)) })
		}
		all.Wait()
		db.set(t, 41)
		f = servertest.Must(follow.NewFence(db.dialect, "outbox_fence"))(t)
		require.NoError(t, f.Create(t.Context(), db.DB))
		require.EqualValues(t, 41, db.mark(t))
		check := func(first snowflake.ID) error {
			tx := servertest.Must(db.Begin())(t)
			defer tx.Rollback()
			return f.Check(t.Context(), tx, first)
		}
		require.ErrorIs(t, check(41), follow.ErrLate)
		require.NoError(t, check(42))
		db.exec(t, `DELETE FROM outbox_fence`)
		if db.dialect != follow.PostgreSQL {
			require.ErrorContains(t, check(42), "call Fence.Create")
			return
		}
		// After logical replication the sequence is below the row.
		db.exec(t, `INSERT INTO outbox_fence VALUES (1, 50)`)
		require.NoError(t, f.Create(t.Context(), db.DB))
		require.ErrorIs(t, check(50), follow.ErrLate)
		var schema string
		require.NoError(t, db.QueryRow(`SELECT current_schema()`).Scan(&schema))
		db.exec(t, `CREATE ROLE reader_`+schema+` LOGIN`)
		db.exec(t, `GRANT USAGE ON SCHEMA `+schema+` TO reader_`+schema)
		db.exec(t, `GRANT SELECT ON outbox_fence, outbox_fence_mark TO reader_`+schema)
		reader := servertest.Open(t, "pgx", strings.Replace(db.dsn, "owner@", "reader_"+schema+"@", 1))
		require.NoError(t, f.Create(t.Context(), reader))
	})
}

// The rights in Create's documentation are sufficient, and a fence and a table may be in another
// schema.
func TestWritersAndReadersNeedTheRightsThatCreateNames(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		db := dialects["PostgreSQL"](t)
		var schema string
		require.NoError(t, db.QueryRow(`SELECT current_schema()`).Scan(&schema))
		testRights(t, db, schema, func(role string, grants ...string) *sql.DB {
			role += schema
			db.exec(t, `CREATE ROLE `+role+` LOGIN`)
			for _, grant := range append(grants, `USAGE ON SCHEMA `+schema) {
				db.exec(t, `GRANT `+grant+` TO `+role)
			}
			return servertest.Open(t, "pgx", strings.Replace(postgres(t), "owner@", role+"@", 1))
		})
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		db := dialects["MariaDB"](t)
		var schema string
		require.NoError(t, db.QueryRow(`SELECT DATABASE()`).Scan(&schema))
		testRights(t, db, schema, func(role string, grants ...string) *sql.DB {
			role += schema
			db.exec(t, `CREATE USER `+role+`@'%'`)
			for _, grant := range grants {
				db.exec(t, `GRANT `+grant+` TO `+role+`@'%'`)
			}
			return servertest.Open(t, "mysql", strings.Replace(mariaDB(t), "root@", role+"@", 1))
		})
	})
}

func testRights(t *testing.T, db database, schema string, open func(role string, grants ...string) *sql.DB) {
	prepare(t, db)
	p, table, name := leased(t), schema+".outbox", schema+".other_fence"
	f := servertest.Must(follow.NewFence(db.dialect, name))(t)
	require.NoError(t, f.Create(t.Context(), db.DB))
	writes := []string{`INSERT ON ` + table, `SELECT ON ` + name}
	reads := []string{`SELECT ON ` + table, `SELECT, UPDATE ON ` + name}
	if db.dialect == follow.PostgreSQL {
		writes, reads = append(writes, `SELECT ON `+name+`_mark`), append(reads, `SELECT, UPDATE ON `+name+`_mark`)
		require.NoError(t, f.Trigger(t.Context(), db.DB, table, "id"))
	} else {
		writes[1] = `SELECT, UPDATE ON ` + name
	}
	var id snowflake.ID
	require.NoError(t, follow.NewWriter(open("writer", writes...), f, p.Lease, p.gen).Do(t.Context(), func(tx *follow.Tx) (err error) {
		id, err = tx.NextID()
		if err == nil {
			_, err = tx.Exec(strings.Replace(insert(id), "outbox", table, 1))
		}
		return err
	}))
	o := fast()
	o.Table = table
	reader := open("reader", reads...)
	until(t, follow.NewReader(p.store, reader, f, 0, o), id)
	require.NoError(t, f.Create(t.Context(), reader))
}

func TestNewFenceRefusesNames(t *testing.T) {
	for _, name := range []string{
		"", "a b", "1a", `a"`, "a.b.c", strings.Repeat("a", 51), strings.Repeat("a", 51) + ".a",
		strings.Repeat("a", 64),
	} {
		_, err := follow.NewFence(follow.PostgreSQL, name)
		require.ErrorIs(t, err, follow.ErrInvalid, name)
	}
	_, err := follow.NewFence(follow.SQLite, "other.a")
	require.ErrorIs(t, err, follow.ErrInvalid)
	_, err = follow.NewFence(0, "a")
	require.ErrorIs(t, err, follow.ErrInvalid)
}

// A table's name may have the maximum length.
func TestTablesMayHaveLongNames(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		long := strings.Repeat("t", 63)
		db.exec(t, `CREATE TABLE `+long+` (id BIGINT PRIMARY KEY)`)
		if db.dialect == follow.PostgreSQL {
			require.NoError(t, f.Trigger(t.Context(), db.DB, long, "id"))
		}
		id := p.id(t)
		db.exec(t, fmt.Sprintf(`INSERT INTO %s VALUES (%d)`, long, id))
		o := fast()
		o.Table = long
		until(t, follow.NewReader(p.store, db.DB, f, 0, o), id)
	})
	f := servertest.Must(follow.NewFence(follow.SQLite, "f"))(t)
	require.PanicsWithValue(t, `follow: Options.Table "a b" or Options.Column "id" is not a name of up to 63 letters, digits and underscores`,
		func() { follow.NewReader(nil, nil, f, 0, &follow.Options{Table: "a b"}) })
	require.Panics(t, func() { follow.NewReader(nil, nil, f, 0, &follow.Options{Table: "other.a"}) })
}

// The lock of a statement outside a transaction ends with the statement.
func TestCheckRefusesADatabase(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		require.ErrorIs(t, f.Check(t.Context(), db.DB, 1), follow.ErrInvalid)
		wrapped := struct{ *sql.DB }{db.DB} // as in sqlx and bun
		require.ErrorIs(t, f.Check(t.Context(), wrapped, 1), follow.ErrInvalid)
	})
}

// A fence in another file than the rows has its own lock, so a table of an attached file must not
// be used instead of one of the main file.
func TestFenceOnSQLiteIsInTheMainFile(t *testing.T) {
	t.Parallel()
	other := dialects["SQLite"](t)
	f := prepare(t, other)
	db := dialects["SQLite"](t)
	db.SetMaxOpenConns(1)
	db.exec(t, `ATTACH '`+strings.Split(other.dsn, "?")[0]+`' AS other`)
	db.exec(t, `SELECT id FROM outbox_fence`)
	require.ErrorContains(t, f.Check(t.Context(), noDB{db.DB}, 1), "no such table")
	require.NoError(t, f.Create(t.Context(), db.DB))
	require.NoError(t, f.Check(t.Context(), noDB{db.DB}, 1))
	_, err := follow.NewReader(leased(t).store, db.DB, f, 0, fast()).Next(t.Context())
	require.ErrorContains(t, err, "no such table")
}

// noDB is a connection that is not in a transaction.
type noDB struct{ db *sql.DB }

func (n noDB) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return n.db.QueryRowContext(ctx, query, args...)
}
