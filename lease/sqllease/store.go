package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// ErrNoTable is returned if a table does not exist: it was never created, or it was
// dropped. The text of the error names the table. The database cannot tell the two apart,
// so the error also matches [lease.ErrWiped]. [Store.Create] creates the tables.
var ErrNoTable error = noTable{}

type noTable struct{}

func (noTable) Error() string { return "sqllease: no such table" }

func (noTable) Is(target error) bool { return target == lease.ErrWiped }

// Store is a [lease.Store] in tables of a database. It may be used by any number of
// goroutines and leases.
type Store struct {
	table         // for the records, one row for each worker ID, and for the marker
	history table // for the earlier holders
	used    table // for the worker IDs that ever had a record
	sql     statements
}

var _ lease.Historian = (*Store)(nil)

// New returns a store in tables of db. [Store.Create] must have made the tables; New does
// not talk to the database. The caller closes db, after the last lease was released.
//
// If db is nil, the dialect is unknown, or opts.Table is not a valid name, the error
// matches [lease.ErrInvalidOptions].
//
// The user of db needs the rights to SELECT, INSERT, UPDATE and DELETE. If the tables do
// not exist yet, Create also needs the right to create tables.
func New(db *sql.DB, dialect Dialect, opts *Options) (*Store, error) {
	t, err := newTable(db, dialect, opts, "snowflake_workers")
	if err != nil {
		return nil, err
	}
	s := &Store{table: t, history: t.named(t.name + "_history"), used: t.named(t.name + "_used")}
	s.sql = dialect.statements(strings.NewReplacer(
		"{workers}", s.quoted, "{history}", s.history.quoted, "{used}", s.used.quoted, "{now}", dialect.micros()))
	return s, nil
}

// Locate returns the place of a worker ID's record, for errors.
func (s *Store) Locate(worker int) string { return fmt.Sprintf("table %s, worker %d", s.name, worker) }

// Load returns all records. Errors match [lease.ErrBadRecord], [lease.ErrWiped],
// [ErrNoTable], [lease.ErrInvalidOptions] (with MySQL, if autocommit is off on the
// connection) or the context's error, or are the driver's.
func (s *Store) Load(ctx context.Context) (lease.Snapshot, error) {
	return s.snapshot(ctx, statement{text: s.sql.load})
}

// LoadWorker returns the record of one worker ID, if it has one. Errors are as for Load.
func (s *Store) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	return s.snapshot(ctx, s.statement(s.sql.loadWorker, worker))
}

func (s *Store) snapshot(ctx context.Context, load statement) (lease.Snapshot, error) {
	snap := lease.Snapshot{OwnClock: s.dialect != SQLite}
	if err := ctx.Err(); err != nil {
		return snap, err
	}
	err := s.retry(ctx, func() error {
		read := func(q querier) (err error) {
			if snap.Records, err = records(ctx, q, load); err == nil {
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

// statement is SQL with its parameters.
type statement struct {
	text string
	args []any
	must error // the error to return if it changes no row; nil if it need not change a row
}

func (s *Store) statement(text string, args ...any) statement {
	if s.dialect == MySQL && len(args) > 0 {
		return statement{text: fmt.Sprintf(text, args...)}
	}
	return statement{text: text, args: args}
}

// querier is an *sql.DB, *sql.Conn or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// marker is the worker ID of a row that Create writes. Without it, a table whose rows were
// all deleted would look new.
const marker = -1

var errMarker = fmt.Errorf("%w: the row of worker %d, which Create writes, is not there", lease.ErrWiped, marker)

func records(ctx context.Context, q querier, load statement) (records []lease.Record, err error) {
	marked := false
	err = each(ctx, q, load, func(rows *sql.Rows) error {
		var row row
		if err := rows.Scan(&row.worker, &row.version, &row.renewed, &row.record); err != nil {
			return fmt.Errorf("%w: %w", lease.ErrBadRecord, err)
		}
		if row.worker == marker {
			marked = true
			return nil
		}
		r, err := row.decode()
		if err != nil {
			return fmt.Errorf("worker %d: %w", row.worker, err)
		}
		records = append(records, r)
		return nil
	})
	if err == nil && !marked {
		err = errMarker
	}
	return records, err
}

// each calls f for each row of a query.
func each(ctx context.Context, q querier, query statement, f func(*sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, query.text, query.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// errAutocommit is the error for a MySQL connection that commits nothing by itself.
var errAutocommit = fmt.Errorf("%w: the connection has autocommit=0, and would commit nothing", lease.ErrInvalidOptions)

func (s *Store) clock(ctx context.Context, q querier) (time.Time, error) {
	if s.dialect == SQLite {
		return time.Now(), nil
	}
	var micros, commits int64
	err := each(ctx, q, statement{text: s.dialect.now()}, func(rows *sql.Rows) error { return rows.Scan(&micros, &commits) })
	if err == nil && commits == 0 {
		err = errAutocommit
	}
	return fromMicros(micros), err
}

// Save writes r in place of the version before it. Errors match [lease.ErrConflict],
// [lease.ErrWiped], [ErrNoTable], [lease.ErrInvalidOptions] (with MySQL, if autocommit is
// off on the connection) or the context's error, or are the driver's.
func (s *Store) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	return s.save(ctx, r, nil)
}

// save writes r. Unless ending is nil, the same transaction changes the history.
func (s *Store) save(ctx context.Context, r lease.Record, ending *ending) (lease.Record, error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	record, err := encode(r)
	if err != nil {
		return r, errors.Join(s.current(ctx, r), s.wrap(ctx, err))
	}
	err = s.retry(ctx, func() error {
		micros, err := s.write(ctx, r, record, ending)
		if err == nil {
			r.Renewed = fromMicros(micros)
		}
		return err
	})
	return r, err
}

// current returns an error that matches lease.ErrConflict unless the stored version is the
// one before r's.
func (s *Store) current(ctx context.Context, r lease.Record) error {
	snap, err := s.LoadWorker(ctx, r.Worker)
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

// write writes the record, and returns the store's time of the save, in microseconds.
func (s *Store) write(ctx context.Context, r lease.Record, record string, ending *ending) (micros int64, err error) {
	args := []any{record, r.Worker, int64(r.Version), int64(r.Version - 1)}
	written := false
	switch s.dialect {
	case PostgreSQL:
		micros, written, err = s.writePostgres(ctx, args, ending)
	case MySQL:
		micros, written, err = s.writeMySQL(ctx, args, s.along(r, ending))
	default:
		micros, written, err = s.writeSQLite(ctx, args, s.along(r, ending))
	}
	switch {
	case err != nil && r.Version == 1 && isUsed(err):
		return 0, fmt.Errorf("%w: the row of worker %d, or of worker -1, is gone: %w", lease.ErrWiped, r.Worker, err)
	case err == nil && !written:
		return 0, s.notWritten(ctx, r)
	}
	return micros, err
}

// notWritten returns why a save changed nothing: another save came first, or the row is
// gone.
func (s *Store) notWritten(ctx context.Context, r lease.Record) error {
	if r.Version > 1 {
		if _, err := records(ctx, s.db, s.statement(s.sql.loadWorker, r.Worker)); errors.Is(err, lease.ErrWiped) {
			return err
		}
	}
	return conflict(r)
}

// along returns the statements that are executed together with the save of r, with MySQL
// and SQLite.
func (s *Store) along(r lease.Record, e *ending) (also []statement) {
	if r.Version == 1 {
		use := s.statement(s.sql.use, r.Worker)
		use.must = errMarker
		also = append(also, use)
	}
	if e != nil {
		also = append(also, s.statement(s.sql.keep, r.Worker, e.id, e.begun, e.ended, e.holding),
			s.statement(s.sql.forget, r.Worker, e.forget))
	}
	return also
}

// writePostgres writes the record. PostgreSQL sends the row that comes back before the
// commit, but Scan reads on to the end, and fails if the commit failed.
func (s *Store) writePostgres(ctx context.Context, args []any, e *ending) (micros int64, written bool, err error) {
	insert, update := s.sql.insert, s.sql.update
	if e != nil {
		insert, update = s.sql.insertEnding, s.sql.updateEnding
		args = append(args, e.id, e.begun, e.ended, e.holding, e.forget)
	}
	if args[2] == int64(1) {
		update = insert
	}
	err = s.db.QueryRowContext(ctx, update, args...).Scan(&micros)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return micros, err == nil, err
}

// writeMySQL writes the record. The time comes back as the last inserted ID. It is 0 if
// there was no row to update, and something else if a row was inserted that should not have
// been. The number of affected rows does not help, because some clients count the rows that
// were found.
func (s *Store) writeMySQL(ctx context.Context, args []any, also []statement) (micros int64, written bool, err error) {
	text := s.sql.update
	if args[2] == int64(1) {
		text = s.sql.insert
	}
	save := s.statement(text, args...)
	err = s.onConn(ctx, func(conn *sql.Conn) (bool, error) {
		return together(ctx, conn, also, func(q querier) (bool, error) {
			res, err := q.ExecContext(ctx, save.text)
			if err != nil {
				return false, err
			}
			micros, err = res.LastInsertId()
			written = err == nil && micros != 0
			return written, err
		})
	})
	return micros, written, err
}

// onConn calls f with one connection, for MySQL. If f is not done, autocommit may be off.
// Then onConn closes the connection, so that it does not keep a transaction open, with
// locks on the table.
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
		if !errors.Is(err, driver.ErrBadConn) { // unless the connection was gone before
			return err
		}
	}
}

func (s *Store) writeSQLite(ctx context.Context, args []any, also []statement) (micros int64, written bool, err error) {
	micros = time.Now().UnixMicro()
	text := s.sql.update
	if args[2] == int64(1) {
		text = s.sql.insert
	}
	written, err = together(ctx, s.db, also, func(q querier) (bool, error) {
		res, err := q.ExecContext(ctx, text, append(args, micros)...)
		if err != nil {
			return false, err
		}
		n, err := res.RowsAffected()
		return n == 1, err
	})
	return micros, written, err
}

// together calls save and, if it has written, executes the other statements: all in one
// transaction, or without a transaction if there are no other statements.
func together(ctx context.Context, db interface {
	querier
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}, also []statement, save func(querier) (written bool, err error)) (written bool, err error) {
	if len(also) == 0 {
		return save(db)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	if written, err = save(tx); err != nil || !written {
		return false, err
	}
	for _, st := range also {
		res, err := tx.ExecContext(ctx, st.text, st.args...)
		if err != nil {
			return false, err
		}
		if n, err := res.RowsAffected(); st.must != nil && (err != nil || n == 0) {
			return false, errors.Join(err, st.must)
		}
	}
	return true, tx.Commit()
}

// retryEvery is the average wait before a statement is repeated because other statements
// were in its way.
const retryEvery = 2 * time.Millisecond

// retry calls f until no other statements are in its way, or until ctx is done.
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

type row struct {
	worker, version, renewed int64
	record                   string
}

// encode makes the content of the record column. It leaves out Renewed, which is known only when
// the record is written.
func encode(r lease.Record) (string, error) {
	r.Renewed = time.Time{}
	b, err := json.Marshal(r)
	return toASCII(b), err
}

func (row row) decode() (lease.Record, error) {
	var r lease.Record
	if row.version == 0 && row.record == "" {
		return r, fmt.Errorf("%w: its row is gone", lease.ErrWiped)
	}
	if err := json.Unmarshal([]byte(row.record), &r); err != nil {
		return r, fmt.Errorf("%w: %w", lease.ErrBadRecord, err)
	}
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
