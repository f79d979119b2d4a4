// The outbox program delivers events: each line of its standard input is an event, and is
// printed with its ID by the process that delivers. No event is missed, however many processes
// write, whatever their clocks, and whoever crashes. An event may be delivered twice only if the
// deliverer crashes between the delivery and its note of it.
//
//	outbox -postgres URL -init      once, like a migration
//	outbox -postgres URL -deliver   one process
//	outbox -postgres URL            any number of processes
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

func main() {
	url := flag.String("postgres", "", "the URL of a PostgreSQL database")
	create := flag.Bool("init", false, "make the tables, the fence and the store of worker IDs")
	delivers := flag.Bool("deliver", false, "deliver events")
	flag.Parse()
	ctx := context.Background()
	db, err := sql.Open("pgx", *url)
	check(err)
	defer db.Close()
	store, err := sqllease.New(db, sqllease.PostgreSQL, nil)
	check(err)
	fence, err := follow.NewFence(follow.PostgreSQL, "outbox_fence")
	check(err)
	switch {
	case *create:
		check(fence.Create(ctx, db))
		_, err := db.ExecContext(ctx, `CREATE TABLE outbox (id bigint PRIMARY KEY, event text NOT NULL);
			CREATE TABLE outbox_cursor (id bigint NOT NULL); INSERT INTO outbox_cursor VALUES (0)`)
		check(err)
		check(lease.Init(ctx, store, snowflake.DefaultLayout()))
	case *delivers:
		deliver(ctx, db, store, fence)
	default:
		write(ctx, db, store, fence)
	}
}

// write inserts an event for each line. In the same transaction, a real program does what the event
// tells of.
func write(ctx context.Context, db *sql.DB, store lease.Store, fence *follow.Fence) {
	l, err := lease.Acquire(ctx, store, &lease.Options{FloorEvery: time.Second}) // events are some 2 s late
	check(err)
	defer l.Release(context.Background())
	gen, err := snowflake.NewLeased(l, nil)
	check(err)
	w := follow.NewWriter(db, fence, l, gen)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		check(w.Do(ctx, func(tx *follow.Tx) error {
			id, err := tx.NextID()
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO outbox (id, event) VALUES ($1, $2)`, id, lines.Text())
			return err
		}))
	}
}

// deliver prints the events after the cursor, and keeps the cursor.
func deliver(ctx context.Context, db *sql.DB, store lease.Store, fence *follow.Fence) {
	var id, cursor snowflake.ID
	check(db.QueryRowContext(ctx, `SELECT id FROM outbox_cursor`).Scan(&cursor))
	r := follow.NewReader(store, db, fence, cursor, &follow.Options{Table: "outbox"})
	for {
		err := r.Read(ctx, func(tx *sql.Tx, s follow.Span) error {
			rows, err := tx.QueryContext(ctx, `SELECT id, event FROM outbox WHERE id > $1 AND id <= $2 ORDER BY id`, s.After, s.UpTo)
			if err != nil {
				return err
			}
			defer rows.Close()
			for event := ""; rows.Next(); fmt.Println(id, event) {
				check(rows.Scan(&id, &event))
			}
			cursor = s.UpTo
			return rows.Err()
		})
		if errors.Is(err, follow.ErrRewound) { // the database was restored, or failed over
			log.Print(err)
			continue
		}
		check(err)
		_, err = db.ExecContext(ctx, `UPDATE outbox_cursor SET id = $1`, cursor)
		check(err)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
