//go:build go1.25

package sqllease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pgError is a server's error with its SQLSTATE, as PostgreSQL's drivers return it.
type pgError string

func (e pgError) Error() string    { return "ERROR: it failed (SQLSTATE " + string(e) + ")" }
func (e pgError) SQLState() string { return string(e) }

// mysqlError returns a server's error with the text of github.com/go-sql-driver/mysql.
func mysqlError(number int, state string) error {
	return fmt.Errorf("Error %d (%s): it failed", number, state)
}

func TestErrorsOfDriversAreClassified(t *testing.T) {
	for _, test := range []struct {
		err                 error
		noTable, busy, away bool
	}{
		{pgError("42P01"), true, false, false},
		{pgError("3F000"), true, false, false},
		{pgError("40001"), false, true, false},
		{fmt.Errorf("wrapped: %w", pgError("40P01")), false, true, false},
		{pgError("55P03"), false, true, false},
		{pgError("23505"), false, false, false},
		{mysqlError(1146, "42S02"), true, false, false},
		{mysqlError(1213, "40001"), false, true, false},
		{mysqlError(1205, "HY000"), false, true, false},
		{fmt.Errorf("wrapped: %w", errors.Join(io.EOF, mysqlError(1205, "HY000"))), false, true, false},
		{mysqlError(1062, "23000"), false, false, false},
		{errors.New("SQL logic error: no such table: t (1)"), true, false, false},
		{errors.New("database is locked (5) (SQLITE_BUSY)"), false, true, false},
		{errors.New("database is locked (517)"), false, true, false},
		{errors.New("database table is locked (6)"), false, true, false},
		{errors.New("Error 12130 is another one"), false, false, false},
		{mysqlError(1020, "HY000"), false, true, false},
		{pgError("57P03"), false, false, true},
		{pgError("25006"), false, false, true},
		{errors.New("invalid connection"), false, false, true},
		{mysqlError(1040, "08004"), false, false, true},
		{mysqlError(1290, "HY000"), false, false, true},
	} {
		assert.Equal(t, []bool{test.noTable, test.busy, test.away},
			[]bool{isNoTable(test.err), isBusy(test.err), isAway(test.err)}, "%v", test.err)
	}
}

// cut is a database that answers each query with a number of rows, without the last row of a
// complete result.
type cut int

func (c cut) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (cut) Driver() driver.Driver                          { return nil }
func (cut) Prepare(string) (driver.Stmt, error)            { return nil, errors.ErrUnsupported }
func (c cut) Begin() (driver.Tx, error)                    { return c, nil }
func (cut) Commit() error                                  { return nil }
func (cut) Rollback() error                                { return nil }
func (cut) Close() error                                   { return nil }

func (c cut) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &rows{left: int(c)}, nil
}

type rows struct{ left int }

func (*rows) Columns() []string { return []string{"name", "version", "value", "stored"} }
func (*rows) Close() error      { return nil }

func (r *rows) Next(to []driver.Value) error {
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	to[0], to[1], to[2], to[3] = "worker/1", "version", []byte("value"), int64(1)
	return nil
}

// An incomplete result is an error.
func TestIncompleteResultIsAnError(t *testing.T) {
	for left := range 2 {
		db := sql.OpenDB(cut(left))
		defer db.Close()
		s, err := New(db, MySQL, nil)
		require.NoError(t, err)
		_, err = s.Get(t.Context(), "worker/1")
		require.ErrorIs(t, err, errCut, "%d rows", left)
		_, err = s.List(t.Context(), "worker/")
		require.ErrorIs(t, err, errCut, "%d rows", left)
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	tb, err := newTable(sql.OpenDB(cut(0)), SQLite, nil, "leases")
	require.NoError(t, err)
	err = tb.wrap(t.Context(), errors.New("failed to connect to `user=app`:\n\t[::1]:5432: refused\n\t127.0.0.1:5432: refused"))
	require.EqualError(t, err, "sqllease: table leases: failed to connect to `user=app`: [::1]:5432: refused; 127.0.0.1:5432: refused")
}
