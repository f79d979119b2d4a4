package sqllease

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/sqlerror"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// Dialect is the SQL of a kind of database.
type Dialect uint8

const (
	PostgreSQL Dialect = iota + 1 // 9.5 or later
	MySQL                         // 5.7 or later, and MariaDB
	SQLite                        // 3.24 or later; for Nodes 3.35
)

// micros returns SQL for the time of the server's clock, in microseconds since 1970. PostgreSQL's
// now() would return the start of the transaction. MySQL's SYSDATE would use the session's time
// zone, and is unsafe for statement-based replication.
func (d Dialect) micros() string {
	switch d {
	case PostgreSQL:
		return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	case MySQL:
		return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	}
	return `CAST(strftime('%s', 'now') AS INTEGER) * 1000000` // in whole seconds, enough to detect SQLite
}

// statements holds the SQL of a Store. {now} stands for the time.
type statements struct {
	get      string // 1 name
	list     string // 1 first name, 2 a name after the last one
	insert   string // 1 name, 2 version, 3 value
	update   string // 1 name, 2 new version, 3 value, 4 old version
	remove   string // 1 name, 2 version
	settings string // selects one text, the settings with which commits may be lost
}

// alone is an SQL condition that is true if the statement commits by itself. On MySQL, unlike
// MariaDB, a statement cannot know, and the condition is false.
const alone = `(0 /*M! OR @@autocommit = 1 AND @@in_transaction = 0 */)`

// statements returns the SQL of a table. An insert changes nothing if the row exists, but needs the
// right to UPDATE, so that no process acquires a worker ID that it may not renew.
func (t table) statements() statements {
	st := statements{
		get:    `SELECT name, version, value, stored FROM {t} WHERE name = $1`,
		list:   `SELECT name, version, value, stored FROM {t} WHERE name >= $1 AND name < $2`,
		insert: `INSERT INTO {t} (name, version, value, stored) VALUES ($1, $2, $3, {now}) `,
		update: `UPDATE {t} SET version = $2, value = $3, stored = {now} WHERE name = $1 AND version = $4 `,
		remove: `DELETE FROM {t} WHERE name = $1 AND version = $2 `,
	}
	var dialect []string
	switch t.dialect {
	case PostgreSQL:
		st.insert += `ON CONFLICT (name) DO UPDATE SET stored = excluded.stored WHERE false RETURNING stored`
		st.update += `RETURNING stored`
		st.remove += `RETURNING stored`
		st.settings = `SELECT concat_ws(', ',
			CASE WHEN current_setting('fsync') <> 'on' THEN 'fsync = off' END,
			CASE WHEN current_setting('synchronous_commit') = 'off' THEN 'synchronous_commit = off' END,
			(SELECT 'UNLOGGED' FROM pg_class WHERE oid = '{t}'::regclass AND relpersistence <> 'p'))`
		dialect = []string{"{now}", t.dialect.micros()}
	case MySQL:
		// The texts are formats for the parameters, because MySQL's drivers prepare statements
		// that have parameters, which is one more round trip. LIMIT overrides sql_select_limit.
		const end = ` UNION ALL SELECT '', '', '', 0 FROM DUAL WHERE {alone} LIMIT 18446744073709551615`
		st.get += end
		st.list += end
		st.insert = `INSERT INTO {t} (name, version, value, stored) SELECT $1, $2, $3, {now} FROM DUAL WHERE {alone}
			ON DUPLICATE KEY UPDATE stored = stored + LAST_INSERT_ID(0)`
		st.update += ` AND {alone}`
		st.remove += ` AND {alone}`
		st.settings = `SELECT CONCAT_WS(', ',
			IF(@@innodb_flush_log_at_trx_commit = 1, NULL, CONCAT('innodb_flush_log_at_trx_commit = ', @@innodb_flush_log_at_trx_commit)),
			IF(@@log_bin = 0 OR @@sync_binlog = 1, NULL, CONCAT('sync_binlog = ', @@sync_binlog)),
			(SELECT CONCAT('ENGINE = ', ENGINE) FROM information_schema.TABLES
				WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = '{name}' AND ENGINE <> 'InnoDB'))`
		schema, name, found := strings.Cut(t.name, ".")
		if schema = "'" + schema + "'"; !found {
			schema, name = "DATABASE()", t.name
		}
		dialect = []string{"{now}", `LAST_INSERT_ID(` + t.dialect.micros() + `)`, "{schema}", schema, "{name}", name,
			"$1", `_ascii X'%[1]x'`, "$2", `_ascii X'%[2]x'`, "$3", `X'%[3]x'`, "$4", `_ascii X'%[4]x'`}
	default:
		st.insert += `ON CONFLICT (name) DO NOTHING`
		st.settings = `SELECT CASE WHEN j = 'wal' AND s >= 2 OR j IN ('delete', 'truncate', 'persist') AND s >= 3 THEN ''
			ELSE 'journal_mode = ' || j || ', synchronous = ' || s END
			FROM (SELECT journal_mode AS j FROM pragma_journal_mode), (SELECT synchronous AS s FROM pragma_synchronous)`
		dialect = []string{"$", "?"}
	}
	r := strings.NewReplacer(append(dialect, "{t}", t.quoted)...)
	for _, text := range []*string{&st.get, &st.list, &st.insert, &st.update, &st.remove, &st.settings} {
		*text = r.Replace(*text)
	}
	return st
}

// columns returns the columns of a Store's table.
func (d Dialect) columns() string {
	switch d {
	case PostgreSQL:
		return `(name text COLLATE "C" PRIMARY KEY, version text NOT NULL, value bytea NOT NULL, stored bigint NOT NULL)`
	case MySQL:
		return `(name VARCHAR(100) PRIMARY KEY, version VARCHAR(26) NOT NULL, value MEDIUMBLOB NOT NULL, stored BIGINT NOT NULL) ` +
			`ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin`
	}
	return `(name TEXT PRIMARY KEY, version TEXT NOT NULL, value BLOB NOT NULL, stored INTEGER NOT NULL)`
}

// Schema returns the SQL that creates a Store's table, for example for a migration. An empty name
// means the default of Options.Table. Schema returns the errors of New.
func (d Dialect) Schema(table string) (string, error) {
	t, err := newTable(new(sql.DB), d, &Options{Table: table}, defaultTable)
	if err != nil {
		return "", err
	}
	return t.definition(d.columns()), nil
}

// table is a table of a database.
type table struct {
	db           *sql.DB
	dialect      Dialect
	name, quoted string
	shared       *atomic.Bool // SQLite: the pool's connections are known to share one database
}

// PostgreSQL allows names of 63 characters.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

const defaultTable = "snowflake_leases"

func newTable(db *sql.DB, dialect Dialect, opts *Options, name string) (table, error) {
	name = cmp.Or(cmp.Or(opts, new(Options)).Table, name)
	switch {
	case db == nil:
		return table{}, fmt.Errorf("sqllease: %w: the db is nil", driver.ErrInvalidOptions)
	case dialect < PostgreSQL || dialect > SQLite:
		return table{}, fmt.Errorf("sqllease: %w: Dialect %d is unknown", driver.ErrInvalidOptions, dialect)
	case !tableName.MatchString(name):
		return table{}, fmt.Errorf("sqllease: %w: Table %q is not name or schema.name of letters, digits and underscores",
			driver.ErrInvalidOptions, name)
	}
	quote := `"`
	if dialect == MySQL {
		quote = "`"
	}
	return table{db, dialect, name, quote + strings.ReplaceAll(name, ".", quote+"."+quote) + quote, new(atomic.Bool)}, nil
}

func (t *table) definition(columns string) string {
	return `CREATE TABLE IF NOT EXISTS ` + t.quoted + ` ` + columns
}

// create creates the table if it does not exist. It also succeeds if the table cannot be created,
// for lack of rights or because another process is creating it, but its columns can be read.
func (t *table) create(ctx context.Context, definition, columns string) error {
	return t.retry(ctx, func() error {
		_, err := t.db.ExecContext(ctx, t.definition(definition))
		if err == nil || isBusy(err) {
			return err
		}
		rows, bad := t.db.QueryContext(ctx, `SELECT `+columns+` FROM `+t.quoted+` WHERE 1 = 0`)
		switch {
		case bad == nil && rows.Close() == nil:
			return nil
		case isDenied(err):
			return fmt.Errorf("this user can neither read the table nor create it: let the owner of the database run: %s; "+
				"and GRANT SELECT, INSERT, UPDATE, DELETE on it to this user (since PostgreSQL 15 only the owner may "+
				"create tables in the schema public): %w", t.definition(definition), err)
		}
		return err
	})
}

// retryEvery is the average pause before a retry.
const retryEvery = 2 * time.Millisecond

// retry calls f, and retries while other statements prevent the change, until ctx ends.
func (t *table) retry(ctx context.Context, f func() error) error {
	for {
		err := t.checkShared(ctx)
		if err == nil {
			err = f()
		}
		if err == nil || !isBusy(err) {
			return t.wrap(ctx, err)
		}
		select {
		case <-time.After(retryEvery/2 + rand.N(retryEvery)):
		case <-ctx.Done():
			return t.wrap(ctx, err)
		}
	}
}

// checkShared returns an error if each connection of the pool has its own SQLite database, in
// memory or in a temporary file. Then each would assign the same worker IDs. A pool of one
// connection passes.
func (t *table) checkShared(ctx context.Context) error {
	if t.dialect != SQLite || t.shared.Load() || t.db.Stats().MaxOpenConnections == 1 {
		return nil
	}
	schema, _, named := strings.Cut(t.name, ".")
	if !named {
		schema = "main"
	}
	one, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer one.Close()
	file := schema
	if schema = strings.ToLower(schema); schema == "temp" {
		file = "" // it is listed after its first use
	}
	err = one.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE lower(name) = ?`, schema).Scan(&file)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if file == "" {
		if err := sees(ctx, t.db, one, `"`+schema+`".user_version`); err != nil {
			return err
		}
	}
	t.shared.Store(true)
	return nil
}

// sees returns an error if another connection of the pool does not see the change of a number in
// the database that one makes for a moment.
func sees(ctx context.Context, db *sql.DB, one *sql.Conn, number string) error {
	other, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer other.Close()
	var was, seen int32
	if err := one.QueryRowContext(ctx, `PRAGMA `+number).Scan(&was); err != nil {
		return err
	}
	set := func(n int32) error {
		_, err := one.ExecContext(ctx, fmt.Sprintf(`PRAGMA %s = %d`, number, n))
		return err
	}
	random := 1 + rand.Int32N(math.MaxInt32)
	if err := set(random); err != nil {
		return err
	}
	err = errors.Join(other.QueryRowContext(ctx, `PRAGMA `+number).Scan(&seen), set(was))
	if err == nil && seen != random {
		err = fmt.Errorf("%w: the database is private to each connection of the pool, since it is in memory or temporary: "+
			"use a file or, in a test, one connection (SetMaxOpenConns(1))", driver.ErrInvalidOptions)
	}
	return err
}

// ErrNoTable is returned by [Nodes.Assign] if the table does not exist. [Nodes.Create] creates it.
var ErrNoTable = errors.New("sqllease: no such table")

// wrap adds the table's name to err, and makes it match an error of package driver or the context.
func (t *table) wrap(ctx context.Context, err error) error {
	pool := t.db.Stats()
	if err != nil && ctx.Err() != nil && t.dialect != SQLite {
		go dropDead(t.db)
	}
	switch {
	case err == nil:
		return nil
	case isNoTable(err):
		return fmt.Errorf("%w: %s: %w", ErrNoTable, t.name, err)
	case isAway(err):
		err = fmt.Errorf("%w: %w", driver.ErrAway, err)
	case isNoDatabase(err):
		err = fmt.Errorf("%w: create the database, or correct its name: %w", driver.ErrRefused, err)
	case isRefusal(err):
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	case ctx.Err() == nil:
	case pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections:
		err = fmt.Errorf("%w: %w", fmt.Errorf("all %d connections of the pool are in use; give the store a pool of its own",
			pool.MaxOpenConnections), err)
		fallthrough
	case !errors.Is(err, ctx.Err()): // drivers may return an error of their own
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return fmt.Errorf("sqllease: table %s: %w", t.name, oneLine{err})
}

// oneLine is an error with a text without newlines. In the text of github.com/jackc/pgx there is
// one for each address.
type oneLine struct{ error }

var newlines = strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")

func (e oneLine) Error() string { return newlines.Replace(e.error.Error()) }

func (e oneLine) Unwrap() error { return e.error }

// isNoTable reports whether the table, or its schema, does not exist.
func isNoTable(err error) bool {
	return sqlerror.Has(err, "42P01", "3F000", "1146") || strings.Contains(err.Error(), "no such table")
}

// isDenied reports whether the user lacks a right.
func isDenied(err error) bool {
	return sqlerror.Has(err, "42501", "1142")
}

// isAway reports whether the server is stopping or starting, has no connection left, or refuses
// writes because another server has become the primary, or whether the connection to MySQL broke.
func isAway(err error) bool {
	return strings.Contains(err.Error(), "invalid connection") ||
		sqlerror.Has(err, "57P01", "57P02", "57P03", "53300", "25006", "1040", "1053", "1290")
}

// isNoDatabase reports whether the database does not exist.
func isNoDatabase(err error) bool { return sqlerror.Has(err, "3D000", "1049") }

// isRefusal reports whether the password is wrong, the user lacks a right, or this host may not
// connect.
func isRefusal(err error) bool {
	return sqlerror.Has(err, "28000", "28P01", "42501", "1044", "1045", "1130", "1142", "1143", "1227", "1698")
}

// isBusy reports whether a retry may succeed because nothing was changed: after a deadlock, a
// serialization failure, a lock timeout, a change of the row since the transaction began (MariaDB's
// innodb_snapshot_isolation), or on a connection that was already broken.
func isBusy(err error) bool {
	return errors.Is(err, sqldriver.ErrBadConn) || sqlerror.Has(err, "40001", "40P01", "55P03", "1020", "1205", "1213") ||
		strings.Contains(err.Error(), "database is locked") || strings.Contains(err.Error(), "table is locked")
}
