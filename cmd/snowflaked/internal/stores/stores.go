// Package stores opens the store of leases that a URL names. snowflaked help urls documents the
// forms and options of the URLs for operators.
//
// It requires the drivers and clients of all stores, so it is not for other programs, which need
// one or two: opening a store with its driver takes some five lines.
//
// Errors of this package contain no passwords, and no values of options but the names of files. To
// log a URL, remove both with [Redact].
package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Open returns the store that a URL names, and a function that closes its connections. Call the
// function after you have released the leases. The store has its package's type, such as
// *sqllease.Store, and writes no log of its client.
//
// If the URL has a user, a client of etcd or ZooKeeper logs in, for up to 5 s. Otherwise Open makes
// no requests, so if there is no server, lease.Acquire returns the error.
//
// If the URL does not name a store, the error is a [*URLError], as Check returns it or the store's
// client. Other errors come from the store's package and from its client.
func Open(ctx context.Context, url string) (store lease.Store, close func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s, err := parse(url)
	if err != nil {
		return nil, nil, err
	}
	store, end, err := schemes[s.scheme].open(ctx, s)
	if end == nil {
		end = func() error { return nil }
	}
	if err == nil {
		return store, end, nil
	}
	if bad := (*URLError)(nil); errors.As(err, &bad) {
		return nil, nil, err
	}
	if errors.Is(err, lease.ErrInvalidOptions) {
		_ = end() // nothing was sent
		return nil, nil, s.badFor(err)
	}
	return nil, nil, fmt.Errorf("%q: %w", Redact(url), errors.Join(err, end()))
}

// OpenDB returns the database that a URL names whose scheme is postgres, mysql or sqlite: the one
// in which Open would look for the store, for programs that also read other tables. It makes no
// requests. The errors are those of Open.
func OpenDB(url string) (*sql.DB, error) {
	s, err := parse(url)
	if err != nil {
		return nil, err
	}
	open := schemes[s.scheme].database
	if open == nil {
		return nil, s.bad("it names no database: want postgres:, mysql: or sqlite:")
	}
	s.take("table")
	if s.scheme == "sqlite" { // it is an application's: it is not made, and keeps its journal mode
		return openSQLiteWith(s, "mode=rw&_pragma=busy_timeout(5000)")
	}
	return open(s)
}

// Path returns the directory or the SQLite file that a URL names, or "" if it names neither.
func Path(url string) (path string, isDir bool) {
	s, err := parse(url)
	if err != nil || s.scheme != "file" && s.scheme != "sqlite" {
		return "", false
	}
	return s.path, s.scheme == "file"
}

// Check returns a [*URLError] if a URL does not have the form of a store's URL. It makes no
// requests.
func Check(url string) error {
	_, err := parse(url)
	return err
}
