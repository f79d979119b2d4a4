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
	store lease.Store // sqllease.New(db, sqllease.PostgreSQL, nil): worker IDs come from there
)

// An outbox: an order and its event are stored in one transaction, and another process delivers the
// events.
func Example() {
	fence, err := follow.NewFence(follow.PostgreSQL, "outbox_fence")
	check(err)

	// Once, like a migration:
	_, err = db.ExecContext(ctx, `
		CREATE TABLE orders (id bigint PRIMARY KEY, item text NOT NULL);
		CREATE TABLE outbox (id bigint PRIMARY KEY, event text NOT NULL);
		CREATE TABLE outbox_cursor (id bigint NOT NULL);
		INSERT INTO outbox_cursor VALUES (0)`)
	check(err)
	check(fence.Create(ctx, db))
	check(lease.Init(ctx, store, snowflake.DefaultLayout()))

	// In each process that takes orders:
	start, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	l, err := lease.Acquire(start, store, &lease.Options{FloorEvery: time.Second}) // events come some 2 s later
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

	// In the process that delivers:
	var cursor snowflake.ID
	check(db.QueryRowContext(ctx, `SELECT id FROM outbox_cursor`).Scan(&cursor))
	r := follow.NewReader(store, db, fence, cursor, &follow.Options{Table: "outbox"})
	for {
		err := r.Read(ctx, func(tx *sql.Tx, s follow.Span) error {
			rows, err := tx.QueryContext(ctx, `SELECT id, event FROM outbox WHERE id > $1 AND id <= $2 ORDER BY id`, s.After, s.UpTo)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id snowflake.ID
				var event string
				if err := rows.Scan(&id, &event); err != nil {
					return err
				}
				deliver(id, event) // after a crash an event may come again, with the same ID
			}
			cursor = s.UpTo
			return rows.Err()
		})
		if errors.Is(err, follow.ErrRewound) { // the database was restored, or failed over
			log.Print(err)
			continue // some events come again
		}
		check(err)
		_, err = db.ExecContext(ctx, `UPDATE outbox_cursor SET id = $1`, cursor)
		check(err)
	}
}

// A projection: what is made of the rows is stored together with the cursor, in one transaction. So
// each row is processed once.
func ExampleReader_Next() {
	var (
		fence  *follow.Fence
		cursor snowflake.ID
	)
	r := follow.NewReader(store, db, fence, cursor, &follow.Options{Table: "outbox"})
	for {
		s, err := r.Next(ctx)
		if errors.Is(err, follow.ErrRewound) { // the database was restored, or failed over
			log.Print(err)
			continue // rows come again, and ON CONFLICT skips them
		}
		check(err)
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		check(err)
		_, err = tx.ExecContext(ctx, `INSERT INTO seen SELECT id, event FROM outbox WHERE id > $1 AND id <= $2 ON CONFLICT DO NOTHING`, s.After, s.UpTo)
		check(err)
		_, err = tx.ExecContext(ctx, `UPDATE seen_cursor SET id = $1`, s.UpTo)
		check(err)
		check(tx.Commit())
	}
}

func deliver(snowflake.ID, string) {}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
