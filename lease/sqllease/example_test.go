package sqllease_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// A worker ID from a table of PostgreSQL.
func ExampleNew() {
	// The driver is github.com/jackc/pgx/v5/stdlib.
	db, err := sql.Open("pgx", "postgres://app:secret@db.internal/app")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel() // ctx bounds Acquire only: the first start of a fleet takes three minutes

	store, err := sqllease.New(db, sqllease.PostgreSQL, nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Release(context.Background())
}

// The statement for a migration that creates the table.
func ExampleDialect_Schema() {
	for _, dialect := range []sqllease.Dialect{sqllease.PostgreSQL, sqllease.MySQL, sqllease.SQLite} {
		schema, err := dialect.Schema("")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(schema)
	}
	// Output:
	// CREATE TABLE IF NOT EXISTS "snowflake_leases" (name text COLLATE "C" PRIMARY KEY, version text NOT NULL, value bytea NOT NULL, stored bigint NOT NULL)
	// CREATE TABLE IF NOT EXISTS `snowflake_leases` (name VARCHAR(100) PRIMARY KEY, version VARCHAR(26) NOT NULL, value MEDIUMBLOB NOT NULL, stored BIGINT NOT NULL) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
	// CREATE TABLE IF NOT EXISTS "snowflake_leases" (name TEXT PRIMARY KEY, version TEXT NOT NULL, value BLOB NOT NULL, stored INTEGER NOT NULL)
}

// Worker IDs that are used once, like those of Baidu's uid-generator.
func ExampleNodes_Assign() {
	db, err := sql.Open("sqlite", "workers.db") // modernc.org/sqlite
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	ctx := context.Background()
	layout := snowflake.Layout{ // 22 worker bits last for 4,194,303 starts
		TimeBits: 31, WorkerBits: 22, SequenceBits: 10,
		Unit: time.Second, Epoch: snowflake.DefaultEpoch,
	}

	nodes, err := sqllease.NewNodes(db, sqllease.SQLite, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := nodes.Create(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // two starts of one process
		worker, err := nodes.Assign(ctx, sqllease.Node{Host: "web-1", Type: sqllease.Actual}, layout)
		if err != nil {
			fmt.Println(err)
			return
		}
		gen, err := snowflake.New(worker, &snowflake.Options{Layout: layout})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("worker", gen.Worker())
	}
	// With a new table, it prints worker 1 and worker 2.
}
