// Package sqllease keeps worker IDs in a table of PostgreSQL, MySQL, MariaDB or
// SQLite, for a fleet that shares one.
//
//	db, err := sql.Open("pgx", "postgres://app:secret@db.internal/app")
//	...
//	store, err := sqllease.New(db, sqllease.PostgreSQL, nil)
//	...
//	err = store.CreateTable(ctx) // does nothing where the table stands already
//	...
//	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// The package imports no driver. It is tested with github.com/jackc/pgx/v5/stdlib,
// github.com/go-sql-driver/mysql and modernc.org/sqlite.
//
// [New] makes a [lease.Store]: a process takes a worker ID, renews it, and gives
// it back. [NewNodes] is the scheme of Baidu's uid-generator: each start takes a
// worker ID that was never used before, and needs no renewal.
//
// # How it works
//
// A worker ID has a row: worker, version, renewed (microseconds since 1970) and
// record, the [lease.Record] as JSON in ASCII, whatever character set or
// collation the database has. A save is one statement that commits by itself:
//
//	UPDATE snowflake_workers SET version = v, ... WHERE worker = w AND version = v-1
//
// or, for version 1, an INSERT that does nothing where the row is there. The
// database lets one of two such statements find its row; the other one has
// changed nothing, and the holder gets [lease.ErrConflict]. So isolation levels
// do not matter, and no transaction is left open when a client dies.
//
// The statement also reads the server's clock and brings it back, so a renewal is
// one round trip. With PostgreSQL and MySQL the server's clock decides when the
// holder of a worker ID is taken for dead. With SQLite there is no server: the
// clock is that of the host.
//
// Where the database says that others were in the way and nothing was changed (a
// deadlock, a serialization failure, a lock that was not granted in its time, a
// locked SQLite database), the statement is repeated until the context is done.
// After any other error the outcome is unknown; package lease then reads the
// record before it writes again.
//
// # Connections
//
// A statement takes a connection of db for one round trip. A Store that many
// holders share wants db.SetMaxOpenConns at a few, so that a burst does not take
// all that the server has, and db.SetMaxIdleConns at the same number: database/sql
// keeps two otherwise, and opens the others anew each time.
//
//   - pgx asks the server whether it is there before it uses a connection that
//     was idle for over 1 s, which makes two round trips of a renewal at the
//     default window. stdlib.OptionShouldPing turns that off.
//   - With MySQL connections need autocommit on, as by default. Where one has
//     it off (autocommit=0 among the driver's parameters, in init_connect, or
//     SET GLOBAL) nothing is written, and Acquire and renewals fail with an
//     error that matches lease.ErrInvalidOptions. Binary logs need the format
//     ROW or MIXED, as by default.
//   - A connection must not be in a transaction when it comes from db: do not
//     begin one by a statement of your own, and leave MySQL's completion_type
//     at NO_CHAIN. What a save writes would be rolled back with it.
//   - PgBouncer in transaction mode must know prepared statements (1.21 or
//     later), or pgx be told not to use any: default_query_exec_mode=exec.
//   - With SQLite leave busy_timeout at 0: the store waits by itself, and
//     ends when the context does, which a busy timeout delays.
//
// # Hazards
//
// What was committed must stay committed, see package lease. Whatever loses
// acknowledged commits loses bounds, and then two holders may issue the same IDs,
// as many as were issued in what was lost:
//
// HAZARD: asynchronous replication with a failover, by hand or automatic. The new
// primary lacks what the old one had not sent. Replicate synchronously
// (PostgreSQL: synchronous_standby_names and synchronous_commit on or higher;
// MySQL: Group Replication with a consistency of AFTER, or semi-synchronous
// without a fallback to asynchronous), or keep all generators stopped after a
// failover until their clocks are past the newest bound that may have been lost:
// the moment of the failover plus one window.
//
// HAZARD: two primaries that take writes and settle conflicts later.
//
// HAZARD: a restore from a backup, or of a snapshot of the machine. Stop all
// holders before, and start none until the clock has passed one window since the
// last of them stopped. For [Nodes] that is not enough; see there.
//
// HAZARD: commits that are not durable: PostgreSQL with fsync or
// synchronous_commit off, or an unlogged table; MySQL with
// innodb_flush_log_at_trx_commit other than 1, or a table that is not InnoDB's;
// SQLite with synchronous less than FULL, or FULL with another journal mode than
// WAL (it then takes EXTRA to keep the last commit through a loss of power).
//
// HAZARD: somebody who deletes rows, or truncates the table. A worker ID without
// a row counts as one that was never used.
//
// HAZARD: SQLite on a network file system, or two containers that do not share
// its locks and its -shm file.
//
// A replica that Load is sent to, by a proxy that splits reads from writes, is no
// danger to the IDs, because every write names the version that it replaces. But
// a replica that lags makes saves conflict and holders take themselves for lost.
// Send both to the primary.
package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Options are the settings of New and NewNodes. The zero value, and nil, consist
// entirely of defaults.
type Options struct {
	// Table is the table's name, or schema.name: letters, digits and
	// underscores of ASCII, up to 63 in each part, and no digit first. It is
	// quoted in statements, so that it may be a reserved word, and case counts
	// where the database lets it. Empty: "snowflake_workers" for New,
	// "WORKER_NODE" for NewNodes.
	Table string
}

// ErrNoTable is what errors match that come of a table which is not there. Their
// text names it.
var ErrNoTable = errors.New("sqllease: no such table")

// Store is a [lease.Store] in a table. It may be used by any number of goroutines
// and leases.
type Store struct {
	table
	insert, update, load string
}

// New returns a store in a table of db. It does not yet talk to the database.
// Closing db is the caller's business, after the last lease was released.
//
// It returns an error that matches [lease.ErrInvalidOptions] when db is nil, the
// dialect is none of this package's, or opts.Table is no name that it takes.
//
// The user of db needs the rights to SELECT, INSERT and UPDATE; for CreateTable
// also to create a table, where it is not there yet.
func New(db *sql.DB, dialect Dialect, opts *Options) (*Store, error) {
	t, err := newTable(db, dialect, opts, "snowflake_workers")
	if err != nil {
		return nil, err
	}
	s := &Store{table: t}
	s.insert, s.update, s.load = dialect.statements(t.quoted)
	return s, nil
}

// CreateTable creates the table where it is not there. Any number of processes
// may do so at once. It returns an error where the table can neither be created
// nor used, such as one of the same name that has other columns, and where the
// database is not of the store's dialect.
func (s *Store) CreateTable(ctx context.Context) error {
	return s.create(ctx, s.dialect.workersTable(), "worker, version, renewed, record")
}

// Locate says where the record of a worker ID is, for errors.
func (s *Store) Locate(worker int) string { return fmt.Sprintf("table %s, worker %d", s.name, worker) }

// Load returns the records of the worker IDs first to last. Errors match
// [lease.ErrBadRecord], [ErrNoTable], [lease.ErrInvalidOptions] (MySQL: the
// connection has autocommit off) or the context's error, or are the driver's.
func (s *Store) Load(ctx context.Context, first, last int) (lease.Snapshot, error) {
	snap := lease.Snapshot{OwnClock: s.dialect != SQLite}
	if err := ctx.Err(); err != nil {
		return snap, err
	}
	err := s.retry(ctx, func() error {
		read := func(q querier) (err error) {
			if snap.Records, err = s.records(ctx, q, first, last); err == nil {
				snap.Now, err = s.clock(ctx, q)
			}
			return err
		}
		if s.dialect == MySQL {
			return s.onConn(ctx, func(conn *sql.Conn) (bool, error) { return true, read(conn) })
		}
		return read(s.db)
	})
	if err != nil {
		return lease.Snapshot{}, err
	}
	return snap, nil
}

// querier is an *sql.DB or *sql.Conn.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (s *Store) records(ctx context.Context, q querier, first, last int) ([]lease.Record, error) {
	query, args := s.load, []any{first, last}
	if s.dialect == MySQL {
		query, args = fmt.Sprintf(query, args...), nil
	}
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var records []lease.Record
	for rows.Next() {
		var row row
		if err := rows.Scan(&row.worker, &row.version, &row.renewed, &row.record); err != nil {
			return nil, fmt.Errorf("%w: %w", lease.ErrBadRecord, err)
		}
		r, err := row.decode()
		if err != nil {
			return nil, fmt.Errorf("worker %d: %w", row.worker, err)
		}
		records = append(records, r)
	}
	return records, errors.Join(rows.Err(), rows.Close())
}

// errAutocommit is of a MySQL connection that commits nothing by itself.
var errAutocommit = fmt.Errorf("%w: the connection has autocommit=0, and would commit nothing", lease.ErrInvalidOptions)

// clock reads the store's clock.
func (s *Store) clock(ctx context.Context, q querier) (time.Time, error) {
	if s.dialect == SQLite {
		return time.Now(), nil
	}
	rows, err := q.QueryContext(ctx, s.dialect.now())
	if err != nil {
		return time.Time{}, err
	}
	defer rows.Close()
	var micros, commits int64
	for rows.Next() {
		if err := rows.Scan(&micros, &commits); err != nil {
			return time.Time{}, err
		}
	}
	err = errors.Join(rows.Err(), rows.Close())
	if err == nil && commits == 0 {
		err = errAutocommit
	}
	return fromMicros(micros), err
}

// Save writes r in place of the version before it. Errors match
// [lease.ErrConflict], [ErrNoTable], [lease.ErrInvalidOptions] (MySQL: the
// connection has autocommit off) or the context's error, or are the driver's.
func (s *Store) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	record, err := encode(r)
	if err != nil {
		return r, errors.Join(s.current(ctx, r), s.wrap(ctx, err))
	}
	err = s.retry(ctx, func() error {
		micros, err := s.write(ctx, r, record)
		if err == nil {
			r.Renewed = fromMicros(micros)
		}
		return err
	})
	return r, err
}

// current returns an error that matches lease.ErrConflict unless r's turn has
// come.
func (s *Store) current(ctx context.Context, r lease.Record) error {
	snap, err := s.Load(ctx, r.Worker, r.Worker)
	if err != nil {
		return err
	}
	version := uint64(0)
	if len(snap.Records) > 0 {
		version = snap.Records[0].Version
	}
	if version != r.Version-1 {
		return s.wrap(ctx, conflict(r))
	}
	return nil
}

func conflict(r lease.Record) error {
	return fmt.Errorf("%w: worker %d is not at version %d", lease.ErrConflict, r.Worker, int64(r.Version-1))
}

// write returns the store's time of the save, in microseconds.
func (s *Store) write(ctx context.Context, r lease.Record, record string) (micros int64, err error) {
	query, args := s.update, []any{record, int64(r.Version), r.Worker, int64(r.Version - 1)}
	if r.Version == 1 {
		query, args = s.insert, []any{record, r.Worker}
	}
	written := false
	switch s.dialect {
	case PostgreSQL:
		micros, written, err = s.writePostgres(ctx, query, args)
	case MySQL:
		micros, written, err = s.writeMySQL(ctx, query, args)
	default:
		micros, written, err = s.writeSQLite(ctx, query, args)
	}
	if err == nil && !written {
		err = conflict(r)
	}
	return micros, err
}

// writePostgres: the row that comes back is sent before the commit. Scan reads on
// to the end, and fails when that did.
func (s *Store) writePostgres(ctx context.Context, query string, args []any) (micros int64, written bool, err error) {
	err = s.db.QueryRowContext(ctx, query, args...).Scan(&micros)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return micros, err == nil, err
}

// writeMySQL: the time comes back as the ID that was inserted last, and is 0 when
// there was nothing to update, or something where nothing should have been. How
// many rows were affected depends on whether the client counts those that were
// found, and is no help.
func (s *Store) writeMySQL(ctx context.Context, query string, args []any) (micros int64, written bool, err error) {
	err = s.onConn(ctx, func(conn *sql.Conn) (bool, error) {
		res, err := conn.ExecContext(ctx, fmt.Sprintf(query, args...))
		if err != nil {
			return false, err
		}
		micros, err = res.LastInsertId()
		return micros != 0, err
	})
	return micros, micros != 0, err
}

// onConn calls f with one connection, for MySQL. When f has not done what it
// should, that may be for want of autocommit. Then the connection is closed, lest
// it keep a transaction, and its locks on the table, open.
func (s *Store) onConn(ctx context.Context, f func(*sql.Conn) (done bool, err error)) error {
	for {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return err
		}
		done, err := f(conn)
		if !done || err != nil {
			if _, why := s.clock(ctx, conn); errors.Is(why, errAutocommit) {
				err = why
				conn.Raw(func(any) error { return driver.ErrBadConn })
			}
		}
		conn.Close()
		if !errors.Is(err, driver.ErrBadConn) { // that says that it was gone before
			return err
		}
	}
}

func (s *Store) writeSQLite(ctx context.Context, query string, args []any) (micros int64, written bool, err error) {
	micros = time.Now().UnixMicro()
	res, err := s.db.ExecContext(ctx, query, append([]any{micros}, args...)...)
	if err != nil {
		return 0, false, err
	}
	n, err := res.RowsAffected()
	return micros, n == 1, err
}

// retryEvery is how long a statement waits, on average, that met others.
const retryEvery = 2 * time.Millisecond

// retry calls f again while others are in its way, until ctx is done.
func (t *table) retry(ctx context.Context, f func() error) error {
	for {
		err := f()
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

// row is a row of the table.
type row struct {
	worker, version, renewed int64
	record                   string
}

// stored is the content of the record column: a lease.Record without Renewed,
// which is known only when it is written.
type stored struct {
	lease.Record
	Renewed *time.Time `json:"renewed,omitempty"`
}

func encode(r lease.Record) (string, error) {
	b, err := json.Marshal(stored{Record: r})
	return toASCII(b), err
}

func (row row) decode() (lease.Record, error) {
	var s stored
	if err := json.Unmarshal([]byte(row.record), &s); err != nil {
		return s.Record, fmt.Errorf("%w: %w", lease.ErrBadRecord, err)
	}
	r := s.Record
	r.Renewed = fromMicros(row.renewed)
	if err := r.Validate(); err != nil {
		return r, err
	}
	if int64(r.Worker) != row.worker || int64(r.Version) != row.version {
		return r, fmt.Errorf("%w: the row of worker %d, version %d has the record of worker %d, version %d",
			lease.ErrBadRecord, row.worker, row.version, r.Worker, r.Version)
	}
	return r, nil
}

func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }
