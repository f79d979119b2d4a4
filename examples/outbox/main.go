// The outbox program delivers events. Each line of a writer's standard input is an event, and the
// deliverer prints it with its ID. No event is missed, with any number of writers, with wrong
// clocks, and after crashes. An event is delivered twice only if the deliverer crashes before it
// stores its cursor.
//
//	outbox URL init      once, like a migration; URL is a PostgreSQL database
//	outbox URL deliver   one process
//	outbox URL write     any number of processes
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
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
	if len(os.Args) != 3 {
		log.Fatal("usage: outbox URL init|deliver|write")
	}
	ctx := context.Background()
	db := must(sql.Open("pgx", os.Args[1]))
	store := must(sqllease.New(db, sqllease.PostgreSQL, nil))
	fence := must(follow.NewFence(follow.PostgreSQL, "outbox_fence"))
	switch os.Args[2] {
	case "init":
		must(db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS outbox (id bigint PRIMARY KEY, event text NOT NULL);
			CREATE TABLE IF NOT EXISTS outbox_cursor (one smallint PRIMARY KEY, id bigint NOT NULL);
			INSERT INTO outbox_cursor VALUES (1, 0) ON CONFLICT DO NOTHING`))
		check(fence.Create(ctx, db))
		check(lease.Init(ctx, store, snowflake.DefaultLayout()))
	case "deliver": // prints the events of each span, and then stores the cursor
		var cursor snowflake.ID
		check(db.QueryRowContext(ctx, `SELECT id FROM outbox_cursor`).Scan(&cursor))
		for r := follow.NewReader(store, db, fence, cursor, &follow.Options{Table: "outbox"}); ; {
			s, err := r.Next(ctx)
			if errors.Is(err, follow.ErrRewound) { // the database was restored, or failed over
				log.Print(err)
				continue // the next span has no rows, and sets the cursor back
			}
			check(err)
			rows := must(db.QueryContext(ctx, `SELECT id, event FROM outbox WHERE id > $1 AND id <= $2 ORDER BY id`, s.After, s.UpTo))
			for id, event := snowflake.ID(0), ""; rows.Next(); fmt.Println(id, event) {
				check(rows.Scan(&id, &event))
			}
			check(rows.Err())
			stored := must(db.ExecContext(ctx, `UPDATE outbox_cursor SET id = $1 WHERE id = $2`, s.UpTo, s.After))
			if must(stored.RowsAffected()) != 1 {
				log.Fatal("another process delivers, too")
			}
		}
	case "write":
		check(write(ctx, db, store, fence)) // write has released its worker ID
	}
}

// write inserts an event for each line. A real program also makes the change that the event
// reports. With this FloorEvery, events come some 2 s later.
func write(ctx context.Context, db *sql.DB, store lease.Store, fence *follow.Fence) error {
	l, err := lease.Acquire(ctx, store, &lease.Options{FloorEvery: time.Second})
	if err != nil {
		return err
	}
	defer l.Release(ctx)
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		return err
	}
	w := follow.NewWriter(db, fence, l, gen)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		err := w.Do(ctx, func(tx *follow.Tx) error {
			id, err := tx.NextID()
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO outbox (id, event) VALUES ($1, $2)`, id, lines.Text())
			return err
		})
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
