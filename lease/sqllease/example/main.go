// The example program leases a worker ID from a table and issues some IDs. With
// -once it takes a worker ID that is used once, as Baidu's uid-generator does.
//
//	go run ./example -new -engine postgres -addr 'postgres://app:secret@localhost/app'
//	go run ./example -new -engine mysql    -addr 'app:secret@tcp(localhost:3306)/app'
//	go run ./example -new -engine sqlite   -addr leases.db
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

func main() {
	engine := flag.String("engine", "sqlite", "postgres, mysql (also MariaDB) or sqlite")
	addr := flag.String("addr", "leases.db", "the database, as its driver names it, or SQLite's file")
	isNew := flag.Bool("new", false, "the database is known to be new: do not wait in case its table was lost")
	once := flag.Bool("once", false, "take a worker ID that is used once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *engine, *addr, *once, *isNew); err != nil {
		oneLine := strings.Join(strings.Fields(err.Error()), " ") // pgx' errors have several lines
		fmt.Fprintln(os.Stderr, "example:", oneLine)
		os.Exit(1)
	}
}

func run(ctx context.Context, engine, addr string, once, isNew bool) error {
	db, dialect, err := open(engine, addr)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(2)
	if once {
		return issueOnce(ctx, db, dialect)
	}
	return issueLeased(ctx, db, dialect, isNew)
}

func open(engine, addr string) (*sql.DB, sqllease.Dialect, error) {
	switch engine {
	case "postgres":
		c, err := pgx.ParseConfig(addr)
		if err != nil {
			return nil, 0, err
		}
		// Otherwise pgx asks before each renewal whether the server is there.
		never := func(context.Context, stdlib.ShouldPingParams) bool { return false }
		return stdlib.OpenDB(*c, stdlib.OptionShouldPing(never)), sqllease.PostgreSQL, nil
	case "mysql":
		db, err := sql.Open("mysql", addr)
		return db, sqllease.MySQL, err
	case "sqlite":
		db, err := sql.Open("sqlite", "file:"+addr+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		return db, sqllease.SQLite, err
	}
	return nil, 0, fmt.Errorf("engine %q is not postgres, mysql or sqlite", engine)
}

func issueLeased(ctx context.Context, db *sql.DB, dialect sqllease.Dialect, isNew bool) (err error) {
	store, err := sqllease.New(db, dialect, nil)
	if err != nil {
		return err
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{NewStore: isNew})
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		err = errors.Join(err, l.Release(ending))
	}()
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		return err
	}
	fmt.Println("worker:", l.Worker())
	return issue(gen)
}

func issueOnce(ctx context.Context, db *sql.DB, dialect sqllease.Dialect) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	nodes, err := sqllease.NewNodes(db, dialect, nil)
	if err != nil {
		return err
	}
	if err := nodes.Create(ctx); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	// 22 bits last for 4,194,303 starts, and 31 bits of seconds until 2094.
	layout := snowflake.Layout{
		Epoch: snowflake.DefaultLayout().Epoch, Unit: time.Second, TimeBits: 31, WorkerBits: 22, SequenceBits: 10,
	}
	worker, err := nodes.Assign(ctx, sqllease.Node{Host: host, Port: fmt.Sprint(os.Getpid()), Type: sqllease.Actual}, layout)
	if err != nil {
		return err
	}
	gen, err := snowflake.New(worker, &snowflake.Options{Layout: layout})
	if err != nil {
		return err
	}
	fmt.Println("worker:", worker)
	return issue(gen)
}

func issue(gen *snowflake.Generator) error {
	for range 3 {
		id, err := gen.NextID()
		if err != nil {
			return err
		}
		fmt.Println(id, gen.Decode(id))
	}
	return nil
}
