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

// Dialect is the SQL that a database speaks.
type Dialect uint8

const (
	PostgreSQL Dialect = iota + 1 // 9.5 or later
	MySQL                         // 5.7 or later, and MariaDB
	SQLite                        // 3.24 or later; for Nodes 3.35
)

// micros reads the clock: in UTC, in microseconds. PostgreSQL's now() would be
// that of the transaction's begin. MySQL's SYSDATE would be in the session's time
// zone, and unsafe for statement-based replication.
func (d Dialect) micros() string {
	switch d {
	case PostgreSQL:
		return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	case MySQL:
		return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	}
	return `CAST(strftime('%s', 'now') AS INTEGER) * 1000000`
}

// now asks for the time, and whether a statement commits by itself. No other
// dialect understands it.
func (d Dialect) now() string {
	if d == MySQL {
		return `SELECT ` + d.micros() + `, @@autocommit`
	}
	return `SELECT ` + d.micros() + `, 1`
}

// statements returns those of a Store. Their parameters are those that write and
// records give; MySQL's are for fmt.Sprintf, since its drivers would prepare a
// statement with parameters first.
//
// PostgreSQL: a row that is there already is left as it is, and asks for the right
// to UPDATE, so that nobody takes a worker ID without being able to renew it.
//
// MySQL: LAST_INSERT_ID(n) makes n what the server returns as the last ID. A row
// that is there already is left as it is (INSERT IGNORE would hide errors too).
// Nothing is written, and no row locked, where it would not be committed.
func (d Dialect) statements(table string) (insert, update, load string) {
	switch d {
	case PostgreSQL:
		insert = `INSERT INTO @ (record, worker, version, renewed) VALUES ($1, $2, 1, ` + d.micros() + `)
			ON CONFLICT (worker) DO UPDATE
			SET record = excluded.record, version = excluded.version, renewed = excluded.renewed WHERE false
			RETURNING renewed`
		update = `UPDATE @ SET record = $1, version = $2, renewed = ` + d.micros() + `
			WHERE worker = $3 AND version = $4 RETURNING renewed`
		load = `SELECT worker, version, renewed, record FROM @ WHERE worker BETWEEN $1 AND $2`
	case MySQL:
		insert = `INSERT INTO @ (record, worker, version, renewed)
			SELECT X'%x', %d, 1, LAST_INSERT_ID(` + d.micros() + `) FROM DUAL WHERE @@autocommit = 1
			ON DUPLICATE KEY UPDATE version = version + LAST_INSERT_ID(0)`
		update = `UPDATE @ SET record = X'%x', version = %d, renewed = LAST_INSERT_ID(` + d.micros() + `)
			WHERE worker = %d AND version = %d AND @@autocommit = 1`
		load = `SELECT worker, version, renewed, record FROM @ WHERE worker BETWEEN %d AND %d`
	default:
		insert = `INSERT INTO @ (renewed, record, worker, version) VALUES (?1, ?2, ?3, 1)
			ON CONFLICT (worker) DO NOTHING`
		update = `UPDATE @ SET renewed = ?1, record = ?2, version = ?3 WHERE worker = ?4 AND version = ?5`
		load = `SELECT worker, version, renewed, record FROM @ WHERE worker BETWEEN ?1 AND ?2`
	}
	in := func(s string) string { return strings.Replace(s, "@", table, 1) }
	return in(insert), in(update), in(load)
}

// workersTable is what stands behind CREATE TABLE IF NOT EXISTS and the name.
func (d Dialect) workersTable() string {
	switch d {
	case PostgreSQL:
		return `(worker bigint PRIMARY KEY, version bigint NOT NULL, renewed bigint NOT NULL, record text NOT NULL)`
	case MySQL:
		return `(worker BIGINT PRIMARY KEY, version BIGINT NOT NULL, renewed BIGINT NOT NULL,
			record MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL) ENGINE=InnoDB`
	}
	return `(worker INTEGER PRIMARY KEY, version INTEGER NOT NULL, renewed INTEGER NOT NULL, record TEXT NOT NULL)`
}

// table is one of a database.
type table struct {
	db           *sql.DB
	dialect      Dialect
	name, quoted string
}

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

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
	quote := `"`
	if dialect == MySQL {
		quote = "`"
	}
	quoted := quote + strings.ReplaceAll(name, ".", quote+"."+quote) + quote
	return table{db, dialect, name, quoted}, nil
}

// create creates the table unless its columns can be read. It may fail because
// another is doing the same; so what counts is whether they can be read then.
func (t *table) create(ctx context.Context, definition, columns string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	read := `SELECT ` + columns + ` FROM ` + t.quoted + ` WHERE 1 = 0`
	return t.retry(ctx, func() error {
		if err := t.probe(ctx, t.dialect.now()); err != nil { // perhaps of another dialect
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

// probe returns the error of a query. It leaves no transaction open where MySQL
// has autocommit off.
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

// wrap says in err where it comes from, and makes it match what it means.
func (t *table) wrap(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case isNoTable(err):
		return fmt.Errorf("%w: %s; CreateTable creates it: %w", ErrNoTable, t.name, err)
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()): // drivers tell it in their own words
		return fmt.Errorf("sqllease: table %s: %w: %w", t.name, ctx.Err(), err)
	}
	return fmt.Errorf("sqllease: table %s: %w", t.name, err)
}

// Drivers are not imported here, so their errors are known by a method that those
// of PostgreSQL share, or by their text: the number, which
// github.com/go-sql-driver/mysql puts first, and SQLite's own words.

// isNoTable reports whether err says that the table, or its schema, is not there.
func isNoTable(err error) bool {
	return hasState(err, "42P01", "3F000") || hasNumber(err, 1146) || strings.Contains(err.Error(), "no such table")
}

// isBusy reports whether err says that nothing was changed because others were in
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

// toASCII writes JSON so that no character set on its way can change it.
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
