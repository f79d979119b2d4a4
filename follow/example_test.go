package follow_test

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/lease"
)

var (
	ctx   = context.Background()
	db    *sql.DB     // sql.Open("pgx", "postgres://app:secret@db.internal/app")
	store lease.Store // sqllease.New(db, sqllease.PostgreSQL, nil)
)

// An outbox: an order and its event are stored in one transaction, and another process delivers the
// events. db is sql.Open("pgx", url), and store, for the worker IDs, is sqllease.New(db,
// sqllease.PostgreSQL, nil).
func Example() {
	fence, err := follow.NewFence(follow.PostgreSQL, "outbox_fence")
	check(err)

	// Once, like a migration:
	_, err = db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, item text NOT NULL);
		CREATE TABLE IF NOT EXISTS outbox (id bigint PRIMARY KEY, event text NOT NULL);
		CREATE TABLE IF NOT EXISTS outbox_cursor (one smallint PRIMARY KEY, id bigint NOT NULL);
		INSERT INTO outbox_cursor VALUES (1, 0) ON CONFLICT DO NOTHING`)
	check(err)
	check(fence.Create(ctx, db))
	check(lease.Init(ctx, store, snowflake.DefaultLayout()))

	// In each process that takes orders:
	startCtx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	// With a FloorEvery of a second, events are delivered about 2 s after the commit.
	l, err := lease.Acquire(startCtx, store, &lease.Options{FloorEvery: time.Second})
	check(err)
	defer l.Release(ctx)
	gen, err := snowflake.NewLeased(l, nil)
	check(err)
	w := follow.NewWriter(db, fence, l, gen)
	check(w.Do(ctx, func(tx *follow.Tx) error { // may be called again if the transaction is late
		order, err := tx.NextID()
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, item) VALUES ($1, $2)`, order, "a hat"); err != nil {
			return err
		}
		event, err := tx.NextID()
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO outbox (id, event) VALUES ($1, $2)`, event, "ordered "+order.String())
		return err
	}))

	// In the process that delivers, of which only one runs at a time:
	type event struct {
		id   snowflake.ID
		text string
	}
	var cursor snowflake.ID
	check(db.QueryRowContext(ctx, `SELECT id FROM outbox_cursor`).Scan(&cursor))
	r := follow.NewReader(store, db, fence, cursor, &follow.Options{Table: "outbox"})
	for {
		var span follow.Span
		var events []event
		err := r.Read(ctx, func(tx *sql.Tx, s follow.Span) error {
			rows, err := tx.QueryContext(ctx, `SELECT id, event FROM outbox WHERE id > $1 AND id <= $2 ORDER BY id`, s.After, s.UpTo)
			if err != nil {
				return err
			}
			defer rows.Close()
			for span = s; rows.Next(); {
				var e event
				if err := rows.Scan(&e.id, &e.text); err != nil {
					return err
				}
				events = append(events, e)
			}
			return rows.Err()
		})
		if errors.Is(err, follow.ErrRewound) { // the database was restored, or failed over
			log.Print(err)
			continue // the next span sets the cursor back, and some events are repeated
		}
		check(err)
		for _, e := range events {
			deliver(e.id, e.text) // after a crash an event may be repeated, with the same ID
		}
		result, err := db.ExecContext(ctx, `UPDATE outbox_cursor SET id = $1 WHERE id = $2`, span.UpTo, span.After)
		check(err)
		checkOne(result)
	}
}

// A projection: the results are stored in one transaction with the cursor. So each row is processed
// once, even if two processes run at the same time: one of them ends.
func ExampleReader_Next() {
	var (
		fence  *follow.Fence
		cursor snowflake.ID
	)
	check(db.QueryRowContext(ctx, `SELECT id FROM seen_cursor`).Scan(&cursor))
	r := follow.NewReader(store, db, fence, cursor, &follow.Options{Table: "outbox"})
	for {
		s, err := r.Next(ctx)
		if errors.Is(err, follow.ErrRewound) { // the database was restored, or failed over
			log.Print(err)
			continue // the next span sets the cursor back; ON CONFLICT skips repeated rows
		}
		check(err)
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		check(err)
		_, err = tx.ExecContext(ctx, `INSERT INTO seen SELECT id, event FROM outbox WHERE id > $1 AND id <= $2
			ON CONFLICT DO NOTHING`, s.After, s.UpTo)
		check(err)
		result, err := tx.ExecContext(ctx, `UPDATE seen_cursor SET id = $1 WHERE id = $2`, s.UpTo, s.After)
		check(err)
		checkOne(result) // otherwise the program ends, and the transaction is rolled back
		check(tx.Commit())
	}
}

// checkOne ends the program if the cursor was changed by another one.
func checkOne(result sql.Result) {
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		log.Fatalf("another process uses this cursor, too: %d rows, %v", n, err)
	}
}

func deliver(snowflake.ID, string) {}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
