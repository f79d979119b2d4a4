//go:build go1.25

package servertest

import (
	"database/sql"
	"errors"
	"testing"
)

// Open opens a database, and closes it when the test ends. The test imports the driver.
func Open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db := Must(sql.Open(driver, dsn))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

// Reconnect closes the idle connections of databases whose servers were killed. Otherwise a driver
// may detect a dead connection only with the next statement, which then fails.
func Reconnect(dbs ...*sql.DB) {
	for _, db := range dbs {
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(2) // the default
	}
}

// Must returns the value of a call, or fails the test with its error: Must(f())(t).
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Do fails the test if one of the errors is not nil.
func Do(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
