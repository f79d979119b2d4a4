//go:build !kubernetes

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

const storeUsage = "a PostgreSQL database, such as postgres://app@db/app; empty: what PGHOST, PGUSER and so on say"

// openStore opens the store of worker IDs, which is a table in PostgreSQL, and returns a function
// that closes its connections.
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

// orderTable has the ID as its key. The CHECK refuses a row whose ID was forgotten.
const orderTable = `CREATE TABLE orders (id bigint PRIMARY KEY CHECK (id > 0), item text NOT NULL)`

// openOrders opens the table of orders, which is in the same database, and returns a function that
// inserts an order, and one that closes the connections. It creates the table if there is none; a
// real service has its migrations do that.
func openOrders(ctx context.Context, url string) (save func(context.Context, order) error, closeOrders func() error, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	db := stdlib.OpenDB(*config) // a pool of its own, so that a renewal never waits for an order
	db.SetMaxOpenConns(10)
	var there bool
	err = db.QueryRowContext(ctx, `SELECT to_regclass('orders') IS NOT NULL`).Scan(&there)
	if err == nil && !there {
		_, err = db.ExecContext(ctx, orderTable)
	}
	var refused interface{ SQLState() string }
	if errors.As(err, &refused) && (refused.SQLState() == "42P07" || refused.SQLState() == "23505") {
		err = nil // another process has just created it
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the table of orders: %w", err), db.Close())
	}
	return func(ctx context.Context, o order) error {
		_, err := db.ExecContext(ctx, `INSERT INTO orders (id, item) VALUES ($1, $2)`, o.ID, o.Item)
		return err
	}, db.Close, nil
}
