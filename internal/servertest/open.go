package servertest

import (
	"database/sql"
	"testing"
)

// Open opens a database for as long as the test runs. The test imports the driver.
func Open(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db := Must(sql.Open(driver, dsn))(t)
	t.Cleanup(func() { db.Close() })
	return db
}
