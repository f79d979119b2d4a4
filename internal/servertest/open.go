package servertest

import (
	"database/sql"
	"testing"
)

// Open opens a database for as long as the test runs. The test imports the driver.
func Open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
