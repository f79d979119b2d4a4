//go:build !kubernetes

package main

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

const storeUsage = "a PostgreSQL database, such as postgres://app@db/app; empty: what PGHOST, PGUSER and so on say"

// openStore opens the store of worker IDs, which is a table in PostgreSQL, and returns a function that closes its
// connections.
func openStore(url string) (lease.Store, func() error, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, err // which does not show the password
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(2) // one to renew, and one for other calls meanwhile
	store, err := sqllease.New(db, sqllease.PostgreSQL, nil)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return store, db.Close, nil
}
