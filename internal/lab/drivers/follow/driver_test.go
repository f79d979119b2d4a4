//go:build unix

package follow_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pointed opens a database that calls at before and after each statement. The point is "before" or
// "after", and the name of the statement.
func pointed(t testing.TB, driverName, dsn string, at func(point string)) *sql.DB {
	db, err := sql.Open(driverName, dsn)
	require.NoError(t, err)
	defer db.Close()
	db = sql.OpenDB(connector{db.Driver(), dsn, at, false})
	t.Cleanup(func() { db.Close() })
	return db
}

type connector struct {
	driver driver.Driver
	dsn    string
	at     func(string)
	open   bool // the fence does not work: its check passes
}

func (c connector) Driver() driver.Driver { return c.driver }

func (c connector) Connect(context.Context) (driver.Conn, error) {
	inner, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return conn{inner.(fullConn), c.at, c.open}, nil
}

// fullConn is what the connections of all three drivers have.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
}

type conn struct {
	fullConn
	at   func(string)
	open bool
}

// CheckNamedValue calls the driver's.
func (c conn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// IsValid calls the driver's.
func (c conn) IsValid() bool {
	v, ok := c.fullConn.(driver.Validator)
	return !ok || v.IsValid()
}

// name returns the name of a query, for a point.
func name(query string) string {
	for _, known := range [][2]string{
		{"try_advisory", "turn"}, {"setval", "mark"}, {"pg_locks", "holders"}, {"lock_shared", "check"}, {"LOCK IN SHARE MODE", "check"},
		{"PREPARE ", "PREPARE"}, {"UPDATE", "raise"}, {"COUNT(*)", "count"}, {"outbox_fence", "fence"},
	} {
		if strings.Contains(query, known[0]) && (known[0] != "UPDATE" || strings.Contains(query, "outbox_fence")) {
			return known[1]
		}
	}
	verb, _, _ := strings.Cut(strings.TrimSpace(query), " ")
	return verb
}

func (c conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.at("before " + name(query))
	defer c.at("after " + name(query))
	return c.fullConn.ExecContext(ctx, query, args)
}

func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.at("before " + name(query))
	defer c.at("after " + name(query))
	if c.open && name(query) == "check" {
		query = `SELECT 0`
	}
	return c.fullConn.QueryContext(ctx, query, args)
}

func (c conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	c.at("before BEGIN")
	t, err := c.fullConn.BeginTx(ctx, o)
	return tx{t, c.at}, err
}

type tx struct {
	driver.Tx
	at func(string)
}

func (t tx) Commit() error {
	t.at("before COMMIT")
	defer t.at("after COMMIT")
	return t.Tx.Commit()
}
