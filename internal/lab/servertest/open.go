//go:build go1.25

package servertest

import (
	"database/sql"
	"errors"
	"testing"
)

// Open opens a database for as long as the test runs. The test imports the driver.
func Open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db := Must(sql.Open(driver, dsn))(t)
	t.Cleanup(func() { db.Close() })
	return db
}

// Reconnect closes the idle connections of databases whose servers were killed. Otherwise a driver
// may notice only after it has sent a statement that a connection is dead, and returns an error.
func Reconnect(dbs ...*sql.DB) {
	for _, db := range dbs {
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(2) // the default
	}
}

// Must returns what a call returned, or fails the test with its error: Must(f())(t).
func Must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Do fails the test if there is an error.
func Do(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
