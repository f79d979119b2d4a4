package sqllease

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestErrorsOfDriversAreClassified(t *testing.T) {
	for _, test := range []struct {
		err           error
		noTable, busy bool
	}{
		{&pgconn.PgError{Code: "42P01"}, true, false},
		{&pgconn.PgError{Code: "3F000"}, true, false},
		{&pgconn.PgError{Code: "40001"}, false, true},
		{fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: "40P01"}), false, true},
		{&pgconn.PgError{Code: "55P03"}, false, true},
		{&pgconn.PgError{Code: "23505"}, false, false},
		{&mysql.MySQLError{Number: 1146, SQLState: [5]byte([]byte("42S02"))}, true, false},
		{&mysql.MySQLError{Number: 1213, SQLState: [5]byte([]byte("40001")), Message: "Deadlock found"}, false, true},
		{&mysql.MySQLError{Number: 1205, SQLState: [5]byte([]byte("HY000"))}, false, true},
		{&mysql.MySQLError{Number: 1062, SQLState: [5]byte([]byte("23000"))}, false, false},
		{errors.New("SQL logic error: no such table: t (1)"), true, false},
		{errors.New("database is locked (5) (SQLITE_BUSY)"), false, true},
		{errors.New("database is locked (517)"), false, true},
		{errors.New("database table is locked (6)"), false, true},
		{errors.New("Error 12130 is another one"), false, false},
	} {
		if got := isNoTable(test.err); got != test.noTable {
			t.Errorf("isNoTable(%v) is %v", test.err, got)
		}
		if got := isBusy(test.err); got != test.busy {
			t.Errorf("isBusy(%v) is %v", test.err, got)
		}
	}
}

func TestJSONIsASCII(t *testing.T) {
	for in, want := range map[string]string{
		`{"owner":"Zoë 雪 🏂"}`: `{"owner":"Zo\u00eb \u96ea \ud83c\udfc2"}`,
		"\x7f\u0080\uffff":    "\x7f\\u0080\\uffff",
	} {
		if got := toASCII([]byte(in)); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}
