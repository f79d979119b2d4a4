//go:build go1.25

package sqllease

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
)

func TestErrorsOfDriversAreClassified(t *testing.T) {
	for _, test := range []struct {
		err                 error
		noTable, busy, away bool
	}{
		{&pgconn.PgError{Code: "42P01"}, true, false, false},
		{&pgconn.PgError{Code: "3F000"}, true, false, false},
		{&pgconn.PgError{Code: "40001"}, false, true, false},
		{fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: "40P01"}), false, true, false},
		{&pgconn.PgError{Code: "55P03"}, false, true, false},
		{&pgconn.PgError{Code: "23505"}, false, false, false},
		{&mysql.MySQLError{Number: 1146, SQLState: [5]byte([]byte("42S02"))}, true, false, false},
		{&mysql.MySQLError{Number: 1213, SQLState: [5]byte([]byte("40001")), Message: "Deadlock found"}, false, true, false},
		{&mysql.MySQLError{Number: 1205, SQLState: [5]byte([]byte("HY000"))}, false, true, false},
		{&mysql.MySQLError{Number: 1062, SQLState: [5]byte([]byte("23000"))}, false, false, false},
		{errors.New("SQL logic error: no such table: t (1)"), true, false, false},
		{errors.New("database is locked (5) (SQLITE_BUSY)"), false, true, false},
		{errors.New("database is locked (517)"), false, true, false},
		{errors.New("database table is locked (6)"), false, true, false},
		{errors.New("Error 12130 is another one"), false, false, false},
		{&mysql.MySQLError{Number: 1020, SQLState: [5]byte([]byte("HY000"))}, false, true, false},
		{&pgconn.PgError{Code: "57P03"}, false, false, true},
		{&pgconn.PgError{Code: "25006"}, false, false, true},
		{mysql.ErrInvalidConn, false, false, true},
		{&mysql.MySQLError{Number: 1040, SQLState: [5]byte([]byte("08004"))}, false, false, true},
		{&mysql.MySQLError{Number: 1290, SQLState: [5]byte([]byte("HY000"))}, false, false, true},
	} {
		assert.Equal(t, []bool{test.noTable, test.busy, test.away}, []bool{isNoTable(test.err), isBusy(test.err), isAway(test.err)}, "%v", test.err)
	}
}

// An answer that was cut is not believed.
func TestAnswerWithoutItsEndIsAnError(t *testing.T) {
	db := servertest.Open(t, "sqlite", "file:"+t.TempDir()+"/leases.db")
	s := servertest.Must(New(db, SQLite, nil))(t)
	servertest.Must(s.Put(t.Context(), "worker/1", "", nil))(t)
	s.dialect = MySQL // whose answers have an end
	s.sql.list = `SELECT name, version, value, stored FROM snowflake_leases WHERE '%[1]s' <> '%[2]s'`
	s.sql.get = `SELECT name, version, value, stored FROM snowflake_leases WHERE name = '%[1]s'`
	for _, key := range []string{"worker/1", "worker/2"} {
		_, err := s.Get(t.Context(), key)
		require.ErrorIs(t, err, errCut, key)
	}
	_, err := s.List(t.Context(), "worker/")
	require.ErrorIs(t, err, errCut)
}

func TestErrorsAreOneLine(t *testing.T) {
	tb := servertest.Must(newTable(servertest.Open(t, "sqlite", "file::memory:"), SQLite, nil, "leases"))(t)
	err := tb.wrap(t.Context(), errors.New("failed to connect to `user=app`:\n\t[::1]:5432: refused\n\t127.0.0.1:5432: refused"))
	require.EqualError(t, err, "sqllease: table leases: failed to connect to `user=app`: [::1]:5432: refused; 127.0.0.1:5432: refused")
}
