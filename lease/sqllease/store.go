package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/randtext"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// Store is a [driver.Store] in a table of a database. It may be used by any number of goroutines
// and leases.
type Store struct {
	table
	sql     statements
	ownsDB  bool        // Close closes db
	needsTx atomic.Bool // MySQL: statements need transactions
}

var (
	_ driver.Store    = (*Store)(nil)
	_ driver.Windower = (*Store)(nil)
)

// New returns a store in a table of db. It does not connect to the database. The first Put creates
// the table if it does not exist. The caller must close db, after the last lease was released.
//
// If db is nil, or the dialect or the table's name is invalid, the error matches
// [driver.ErrInvalidOptions].
func New(db *sql.DB, dialect Dialect, opts *Options) (*Store, error) {
	t, err := newTable(db, dialect, opts, defaultTable)
	if err != nil {
		return nil, err
	}
	return &Store{table: t, sql: t.statements()}, nil
}

// Open returns a store with two connections of its own, so that renewals do not wait for the
// application's queries. Like [sql.Open], it needs a driver that the caller imports. [Store.Close]
// closes the connections. Open returns the errors of New and sql.Open.
func Open(driver, dataSource string, dialect Dialect, opts *Options) (*Store, error) {
	db, err := sql.Open(driver, dataSource)
	if err != nil {
		return nil, fmt.Errorf("sqllease: %w", err)
	}
	db.SetMaxOpenConns(2)
	s, err := New(db, dialect, opts)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.ownsDB = true
	return s, nil
}

// Close closes the connections of a store that [Open] returned. For a store of New it does nothing.
// Call it after the last lease was released.
func (s *Store) Close() error {
	if !s.ownsDB {
		return nil
	}
	return s.db.Close()
}

// DefaultWindow is the window of leases whose Options.Window is 0.
const DefaultWindow = 30 * time.Second

// DefaultWindow returns [DefaultWindow].
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

// Now returns the time of the server's clock. On SQLite, which has no server, the error is
// [errors.ErrUnsupported].
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	if s.dialect == SQLite {
		return time.Time{}, errors.ErrUnsupported
	}
	var micros int64
	err := s.retry(ctx, func() error { return s.db.QueryRowContext(ctx, `SELECT `+s.dialect.micros()+` LIMIT 1`).Scan(&micros) })
	return fromMicros(micros), err
}

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	entries, err := s.read(ctx, s.sql.get, key)
	if err != nil || len(entries) == 0 {
		return driver.Entry{}, err
	}
	if entries[0].Version == unreadable {
		err = s.wrap(ctx, fmt.Errorf("%w: the row of %s has no version", driver.ErrBadRecord, key))
	}
	return entries[0], err
}

// unreadable is the version of an entry whose row has an empty version.
const unreadable = "unreadable"

// List implements [driver.Store].
func (s *Store) List(ctx context.Context, prefix string) ([]driver.Entry, error) {
	return s.read(ctx, s.sql.list, prefix, prefix+"~") // all characters of keys sort before '~'
}

// read returns the entries that a query selects.
func (s *Store) read(ctx context.Context, query string, args ...any) (entries []driver.Entry, err error) {
	sure := false // MySQL: the query was executed, and its last row has arrived
	err = s.run(ctx, query, args, func(q querier, query string, args []any) (bool, error) {
		entries, sure = nil, s.dialect != MySQL
		rows, err := q.QueryContext(ctx, query, args...)
		if err != nil {
			return false, err
		}
		defer rows.Close()
		for rows.Next() {
			var e driver.Entry
			var micros int64
			if err := rows.Scan(&e.Key, &e.Version, &e.Value, &micros); err != nil {
				return false, err
			}
			if e.Key == "" {
				sure = true
				continue
			}
			if e.Time = fromMicros(micros); e.Version == "" {
				e.Version, e.Value = unreadable, nil
			}
			entries = append(entries, e)
		}
		return sure, errors.Join(rows.Err(), rows.Close())
	})
	switch {
	case errors.Is(err, ErrNoTable):
		return nil, nil
	case err != nil:
		return nil, err
	case !sure:
		return nil, s.wrap(ctx, errCut)
	}
	return entries, nil
}

// errCut is returned if the result lacks its last row, so that other rows may be missing, too.
var errCut = errors.New("the result was cut: something between the store and the table limits the number of rows")

// Put implements [driver.Store]. If there is no table, it creates one.
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	e, err := s.put(ctx, key, old, value)
	if errors.Is(err, ErrNoTable) && old == "" {
		failed := s.create(ctx, s.dialect.columns(), `name, version, value, stored`)
		if e, err = s.put(ctx, key, old, value); errors.Is(err, ErrNoTable) {
			err = failed
		}
	}
	if err != nil {
		return driver.Entry{}, s.conflict(key, err)
	}
	return e, nil
}

func (s *Store) put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	e := driver.Entry{Key: key, Version: randtext.New(), Value: append([]byte{}, value...)}
	query, args := s.sql.insert, []any{key, e.Version, e.Value}
	if old != "" {
		query, args = s.sql.update, append(args, stored(old))
	}
	micros, err := s.write(ctx, query, args...)
	e.Time = fromMicros(micros)
	return e, err
}

// Delete implements [driver.Store].
func (s *Store) Delete(ctx context.Context, key, old string) error {
	if old == "" {
		return s.conflict(key, driver.ErrConflict)
	}
	_, err := s.write(ctx, s.sql.remove, key, stored(old))
	return s.conflict(key, err)
}

// stored returns the version in the row of an entry.
func stored(version string) string {
	if version == unreadable {
		return ""
	}
	return version
}

// write changes a row, and returns its new time in microseconds. If there is no row to change, the
// error is driver.ErrConflict.
func (s *Store) write(ctx context.Context, query string, args ...any) (micros int64, err error) {
	changed := false
	err = s.run(ctx, query, args, func(q querier, query string, args []any) (bool, error) {
		var err error
		if s.dialect == PostgreSQL {
			// PostgreSQL sends the row before it commits, but Scan reads to the end of the result,
			// and fails if the commit fails.
			err = q.QueryRowContext(ctx, query, args...).Scan(&micros)
			if changed = err == nil; errors.Is(err, sql.ErrNoRows) {
				err = nil
			}
			return true, err
		}
		if micros = time.Now().UnixMicro(); s.dialect == SQLite {
			query = strings.ReplaceAll(query, "{now}", strconv.FormatInt(micros, 10))
		}
		res, err := q.ExecContext(ctx, query, args...)
		if err != nil {
			return false, err
		}
		n, err := res.RowsAffected()
		if changed = n > 0; s.dialect == MySQL && !strings.HasPrefix(query, "DELETE") {
			// The time is returned as the last inserted ID, which is 0 if no row was changed. The
			// number of affected rows is no use, because some clients count the rows found.
			micros, err = res.LastInsertId()
			changed = micros != 0
		}
		return changed, err
	})
	if err == nil && !changed {
		err = driver.ErrConflict
	}
	return micros, err
}

// conflict returns the error of a write. A missing table is a conflict: it has no entry to change.
func (s *Store) conflict(key string, err error) error {
	if errors.Is(err, ErrNoTable) || errors.Is(err, driver.ErrConflict) {
		return fmt.Errorf("sqllease: table %s: %w: %s", s.name, driver.ErrConflict, key)
	}
	return err
}

// querier is an *sql.DB or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// run calls f, and retries while other statements prevent the change.
//
// A connection to MySQL may have autocommit off, or be in a transaction, which a user of the pool
// or completion_type=CHAIN began. Then a single statement is not committed, and reads old rows. So
// f first gets a statement that has no effect on such a connection; on MySQL, unlike MariaDB, it
// has no effect at all. If f is not sure of an effect, it is called again in a transaction.
func (s *Store) run(
	ctx context.Context, query string, args []any, f func(q querier, query string, args []any) (sure bool, err error),
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.retry(ctx, func() error {
		if s.dialect != MySQL {
			_, err := f(s.db, query, args)
			return err
		}
		query := fmt.Sprintf(query, args...)
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if !s.needsTx.Load() {
			if sure, err := f(conn, strings.ReplaceAll(query, "{alone}", alone), nil); err != nil || sure {
				return err
			}
		}
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		sure, err := f(tx, strings.ReplaceAll(query, "{alone}", "1"), nil)
		if err != nil {
			return err
		}
		if sure {
			s.needsTx.Store(true)
		}
		return tx.Commit()
	})
}

// Settings returns the database's settings with which a crash may lose commits, such as "fsync =
// off". If there is no table yet, the error matches [ErrNoTable].
func (s *Store) Settings(ctx context.Context) ([]string, error) {
	var settings string
	err := s.retry(ctx, func() error { return s.db.QueryRowContext(ctx, s.sql.settings).Scan(&settings) })
	if err != nil || settings == "" {
		return nil, err
	}
	return strings.Split(settings, ", "), nil
}

func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }
