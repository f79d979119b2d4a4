package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Dialect is the SQL of a kind of database.
type Dialect uint8

const (
	PostgreSQL Dialect = iota + 1 // 9.5 or later
	MySQL                         // 5.7 or later, and MariaDB
	SQLite                        // 3.24 or later; for Nodes 3.35
)

// micros returns SQL that reads the clock: in UTC, in microseconds. PostgreSQL's now()
// would return the beginning of the transaction. MySQL's SYSDATE would use the session's
// time zone, and is unsafe for statement-based replication.
func (d Dialect) micros() string {
	switch d {
	case PostgreSQL:
		return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	case MySQL:
		return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	}
	return `CAST(strftime('%s', 'now') AS INTEGER) * 1000000`
}

// now returns SQL that asks for the time, and whether a statement commits by itself. Other
// dialects fail on it.
func (d Dialect) now() string {
	if d == MySQL {
		return `SELECT ` + d.micros() + `, @@autocommit`
	}
	return `SELECT ` + d.micros() + `, 1`
}

// statements are the SQL of a Store. The comments number the parameters. MySQL's are verbs
// of fmt.Sprintf, because its drivers prepare a statement that has parameters, which is one
// more round trip.
type statements struct {
	// These two return worker, version, renewed and record: of the stored records, and with
	// version 0 of the worker IDs whose records are gone.
	load       string
	loadWorker string // 1 worker

	// 1 record, 2 worker, 3 version, 4 the version before; SQLite: 5 now.
	insert, update string
	// The same, and 5 id, 6 begun, 7 ended, 8 holding, 9 forget. PostgreSQL only.
	insertEnding, updateEnding string

	// Only MySQL and SQLite: PostgreSQL's insert and update do this too.
	use    string // 1 worker; writes nothing if the marker is gone
	keep   string // 1 worker, 2 id, 3 begun, 4 ended, 5 holding
	forget string // 1 worker, 2 forget

	history string // 1 worker

	lost   string // the worker IDs whose records are gone, and -1 if the marker is there
	repair string // removes the worker IDs whose records are gone from {used}
	mark   string // 1 text; SQLite: 2 now
}

// PostgreSQL: one statement does all of a save. Its parts see the tables as they were
// before, so forgotten cannot delete the row that kept writes. A row of {workers} that
// exists already stays as it is. DO UPDATE needs the right to UPDATE, so nobody takes a
// worker ID without the right to renew it. If the marker is gone, the statement inserts
// NULL into {used}, and fails.
//
// MySQL: LAST_INSERT_ID(n) makes the server return n as the last ID. A row that exists
// already stays as it is (INSERT IGNORE would also hide errors). If a statement would not
// be committed, it writes nothing and locks no row.
func (d Dialect) statements(names *strings.Replacer) statements {
	const (
		insertPostgres = `INSERT INTO {workers} (record, worker, version, renewed)
			SELECT $1::text, $2::bigint, $3::bigint, {now} WHERE $4::bigint = 0
			ON CONFLICT (worker) DO UPDATE
			SET record = excluded.record, version = excluded.version, renewed = excluded.renewed WHERE false
			RETURNING renewed`
		updatePostgres = `UPDATE {workers} SET record = $1::text, version = $3::bigint, renewed = {now}
			WHERE worker = $2::bigint AND version = $4::bigint RETURNING renewed`
		used = `, used AS (INSERT INTO {used} (worker)
				SELECT CASE WHEN EXISTS (SELECT FROM {workers} WHERE worker = -1) THEN $2::bigint END FROM saved)`
		ending = `, kept AS (
				INSERT INTO {history} (worker, id, begun, ended, holding)
				SELECT $2::bigint, $5::text, $6::text, $7::text, $8::text FROM saved WHERE $7::text COLLATE "C" >= $9::text
				ON CONFLICT (worker, id) DO UPDATE SET ended = excluded.ended, holding = excluded.holding
			), forgotten AS (
				DELETE FROM {history} WHERE worker = $2::bigint AND EXISTS (SELECT FROM saved)
				AND CASE WHEN id = $5::text THEN $7::text COLLATE "C" ELSE ended END < $9::text
			)`

		load = `SELECT worker, version, renewed, record FROM {workers}`
		gone = ` FROM {used} u WHERE NOT EXISTS (SELECT 1 FROM {workers} w WHERE w.worker = u.worker)`
		rest = ` UNION ALL SELECT u.worker, 0, 0, ''` + gone
		keep = `REPLACE INTO {history} (worker, id, begun, ended, holding) VALUES `
		mark = `INSERT INTO {workers} (worker, version, renewed, record) `
	)
	st := statements{
		load:   load + rest,
		lost:   `SELECT u.worker` + gone + ` UNION ALL SELECT worker FROM {workers} WHERE worker = -1`,
		repair: `DELETE FROM {used} WHERE worker >= 0 AND worker NOT IN (SELECT worker FROM {workers})`,
	}
	switch d {
	case PostgreSQL:
		saving := func(save, and string) string {
			return `WITH saved AS (` + save + `)` + and + ` SELECT renewed FROM saved`
		}
		st.insert, st.update = saving(insertPostgres, used), updatePostgres
		st.insertEnding, st.updateEnding = saving(insertPostgres, used+ending), saving(updatePostgres, ending)
		st.loadWorker = load + ` WHERE worker IN (-1, $1)` + rest + ` AND u.worker = $1`
		st.history = `SELECT holding FROM {history} WHERE worker = $1`
		st.mark = mark + `VALUES (-1, 0, {now}, $1) ON CONFLICT (worker) DO NOTHING`
	case MySQL:
		st.insert = `INSERT INTO {workers} (record, worker, version, renewed)
			SELECT X'%[1]x', %[2]d, 1, LAST_INSERT_ID({now}) FROM DUAL WHERE @@autocommit = 1
			ON DUPLICATE KEY UPDATE version = version + LAST_INSERT_ID(0)`
		st.update = `UPDATE {workers} SET record = X'%[1]x', version = %[3]d, renewed = LAST_INSERT_ID({now})
			WHERE worker = %[2]d AND version = %[4]d AND @@autocommit = 1`
		st.use = `INSERT INTO {used} (worker) SELECT %d FROM {workers} WHERE worker = -1`
		st.keep = keep + `(%d, X'%x', X'%x', X'%x', X'%x')`
		st.forget = `DELETE FROM {history} WHERE worker = %d AND ended < X'%x'`
		st.loadWorker = load + ` WHERE worker IN (-1, %[1]d)` + rest + ` AND u.worker = %[1]d`
		st.history = `SELECT holding FROM {history} WHERE worker = %d`
		st.mark = mark + `VALUES (-1, 0, {now}, X'%x') ON DUPLICATE KEY UPDATE version = version`
	default:
		st.insert = `INSERT INTO {workers} (record, worker, version, renewed) SELECT ?1, ?2, ?3, ?5 WHERE ?4 = 0
			ON CONFLICT (worker) DO NOTHING`
		st.update = `UPDATE {workers} SET record = ?1, version = ?3, renewed = ?5 WHERE worker = ?2 AND version = ?4`
		st.use = `INSERT INTO {used} (worker) SELECT ?1 FROM {workers} WHERE worker = -1`
		st.keep = keep + `(?1, ?2, ?3, ?4, ?5)`
		st.forget = `DELETE FROM {history} WHERE worker = ?1 AND ended < ?2`
		st.loadWorker = load + ` WHERE worker IN (-1, ?1)` + rest + ` AND u.worker = ?1`
		st.history = `SELECT holding FROM {history} WHERE worker = ?1`
		st.mark = mark + `VALUES (-1, 0, {now}, ?1) ON CONFLICT (worker) DO NOTHING`
	}
	for _, text := range []*string{&st.load, &st.loadWorker, &st.insert, &st.update, &st.insertEnding, &st.updateEnding,
		&st.use, &st.keep, &st.forget, &st.history, &st.lost, &st.repair, &st.mark} {
		*text = names.Replace(*text)
	}
	return st
}

// definitions returns the texts after CREATE TABLE IF NOT EXISTS and the names.
func (d Dialect) definitions() (workers, history, used string) {
	switch d {
	case PostgreSQL:
		return `(worker bigint PRIMARY KEY, version bigint NOT NULL, renewed bigint NOT NULL, record text NOT NULL)`,
			`(worker bigint NOT NULL, id text NOT NULL, begun text NOT NULL, ended text COLLATE "C" NOT NULL,
			holding text NOT NULL, PRIMARY KEY (worker, id))`,
			`(worker bigint PRIMARY KEY)`
	case MySQL:
		return `(worker BIGINT PRIMARY KEY, version BIGINT NOT NULL, renewed BIGINT NOT NULL,
			record MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL) ENGINE=InnoDB`,
			`(worker BIGINT NOT NULL, id CHAR(32) NOT NULL, begun CHAR(30) NOT NULL, ended CHAR(30) NOT NULL,
			holding MEDIUMTEXT NOT NULL, PRIMARY KEY (worker, id)) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin`,
			`(worker BIGINT PRIMARY KEY) ENGINE=InnoDB`
	}
	return `(worker INTEGER PRIMARY KEY, version INTEGER NOT NULL, renewed INTEGER NOT NULL, record TEXT NOT NULL)`,
		`(worker INTEGER NOT NULL, id TEXT NOT NULL, begun TEXT NOT NULL, ended TEXT NOT NULL,
		holding TEXT NOT NULL, PRIMARY KEY (worker, id))`,
		`(worker INTEGER PRIMARY KEY)`
}

// table is a table of a database.
type table struct {
	db           *sql.DB
	dialect      Dialect
	name, quoted string
}

// PostgreSQL allows names of 63 characters, with the endings that New adds.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,54}$`)

func newTable(db *sql.DB, dialect Dialect, opts *Options, name string) (table, error) {
	if opts != nil && opts.Table != "" {
		name = opts.Table
	}
	switch {
	case db == nil:
		return table{}, fmt.Errorf("sqllease: %w: the db is nil", lease.ErrInvalidOptions)
	case dialect < PostgreSQL || dialect > SQLite:
		return table{}, fmt.Errorf("sqllease: %w: Dialect %d is unknown", lease.ErrInvalidOptions, dialect)
	case !tableName.MatchString(name):
		return table{}, fmt.Errorf("sqllease: %w: Table %q is not name or schema.name of letters, digits and underscores",
			lease.ErrInvalidOptions, name)
	}
	t := table{db: db, dialect: dialect}
	return t.named(name), nil
}

// named returns another table of the same database.
func (t table) named(name string) table {
	quote := `"`
	if t.dialect == MySQL {
		quote = "`"
	}
	t.name, t.quoted = name, quote+strings.ReplaceAll(name, ".", quote+"."+quote)+quote
	return t
}

// create creates the table unless its columns can be read. Creating it may fail because
// another process does so; so create checks again whether the columns can be read.
func (t *table) create(ctx context.Context, definition, columns string) error {
	read := `SELECT ` + columns + ` FROM ` + t.quoted + ` WHERE 1 = 0`
	return t.retry(ctx, func() error {
		if err := t.probe(ctx, t.dialect.now()); err != nil { // the database may speak another dialect
			return err
		}
		if err := t.probe(ctx, read); err == nil || isBusy(err) {
			return err
		}
		_, err := t.db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS `+t.quoted+` `+definition)
		if now := t.probe(ctx, read); now == nil {
			return nil
		} else if err == nil {
			return now
		}
		return err
	})
}

// probe returns the error of a query. With MySQL and autocommit off, it leaves no
// transaction open.
func (t *table) probe(ctx context.Context, query string) error {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return errors.Join(rows.Err(), rows.Close())
}

// wrap adds to err where it comes from, and makes it match the error that it means.
func (t *table) wrap(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case isNoTable(err):
		return fmt.Errorf("%w: %s; Create creates it: %w", ErrNoTable, t.name, err)
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()): // drivers have their own words for it
		return fmt.Errorf("sqllease: table %s: %w: %w", t.name, ctx.Err(), err)
	}
	return fmt.Errorf("sqllease: table %s: %w", t.name, err)
}

// No driver is imported here, so errors are recognized by a method that PostgreSQL's
// drivers share, or by their text: by the number at the beginning, which
// github.com/go-sql-driver/mysql writes, or by SQLite's words.

// isNoTable reports whether err says that the table, or its schema, does not exist.
func isNoTable(err error) bool {
	return hasState(err, "42P01", "3F000") || hasNumber(err, 1146) || strings.Contains(err.Error(), "no such table")
}

// isUsed reports whether err says that a worker ID cannot be added to the used ones: it is
// there already, or (PostgreSQL) the marker is gone.
func isUsed(err error) bool {
	return hasState(err, "23502", "23505") || hasNumber(err, 1062) || strings.Contains(err.Error(), "UNIQUE constraint failed")
}

// isBusy reports whether err says that nothing was changed because other statements were in
// the way: a deadlock, a serialization failure, a lock that was not granted.
func isBusy(err error) bool {
	return hasState(err, "40001", "40P01", "55P03") || hasNumber(err, 1205, 1213) ||
		strings.Contains(err.Error(), "database is locked") || strings.Contains(err.Error(), "table is locked")
}

func hasState(err error, states ...string) bool {
	var e interface{ SQLState() string }
	for _, state := range states {
		if errors.As(err, &e) && e.SQLState() == state {
			return true
		}
	}
	return false
}

func hasNumber(err error, numbers ...int) bool {
	for _, n := range numbers {
		if strings.HasPrefix(err.Error(), fmt.Sprintf("Error %d ", n)) {
			return true
		}
	}
	return false
}

// toASCII writes JSON in ASCII, so that no character set on the way can change it.
func toASCII(json []byte) string {
	var b strings.Builder
	for _, r := range string(json) {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
