package follow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Writer inserts rows in transactions that a reader misses none of. It may be used by any number of
// goroutines.
type Writer struct {
	// TxOptions are the options of the transactions. Nil: the database's own.
	TxOptions *sql.TxOptions

	db    *sql.DB
	fence *Fence
	lease *lease.Lease
	gen   *snowflake.Generator
}

// NewWriter returns a writer to a table of db under a fence. g is the generator of the lease l.
func NewWriter(db *sql.DB, f *Fence, l *lease.Lease, g *snowflake.Generator) *Writer {
	return &Writer{db: db, fence: f, lease: l, gen: g}
}

// tries is how often Do tries a transaction that is late. One that has a Hold is late only if the
// lease was lost meanwhile.
const tries = 5

// Do calls fn in a transaction, checks the fence, and commits. The rows that fn inserts have IDs of
// [Tx.NextID] or, from a mapper's hook, of the same generator. If fn returns an error, Do rolls
// back and returns the error.
//
// If the transaction is late (ErrLate), Do rolls back and calls fn again, which takes new IDs, up
// to five times in all. So fn has no effects outside the transaction. If ctx ends or fn panics, the
// transaction is rolled back. If the commit fails because the connection broke, nobody knows
// whether it was made.
//
// HAZARD: do not call [Reader.Next] or [Reader.Read] in fn: the reader would wait for this
// transaction.
func (w *Writer) Do(ctx context.Context, fn func(tx *Tx) error) error {
	for n := 1; ; n++ {
		err := w.try(ctx, fn)
		if err == nil || !errors.Is(err, ErrLate) {
			return err
		}
		if n == tries {
			return fmt.Errorf("tried %d times: %w", n, err)
		}
		if ended := sleep(ctx, time.Duration(n)*time.Millisecond); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

func (w *Writer) try(ctx context.Context, fn func(tx *Tx) error) error {
	tx, err := w.db.BeginTx(ctx, w.TxOptions)
	if err != nil {
		return err
	}
	defer w.lease.Hold()() // before the first ID, and ended after the transaction
	defer tx.Rollback()
	// No later ID is less, whoever draws it, unless the generator's policy lets IDs go back.
	first, err := w.gen.NextIDContext(ctx)
	if err != nil {
		return err
	}
	t := &Tx{Tx: tx, ctx: ctx, gen: w.gen, first: first}
	if err := fn(t); err != nil {
		return late(err)
	}
	if err := w.fence.Check(ctx, tx, t.first); err != nil {
		return err
	}
	return late(tx.Commit())
}

// Tx is a transaction of a [Writer]. Do commits it or rolls it back; fn does not.
type Tx struct {
	*sql.Tx
	ctx   context.Context
	gen   *snowflake.Generator
	first snowflake.ID // the least ID
}

// NextID returns an ID for a row of this transaction. Its errors are those of
// [snowflake.Generator.NextIDContext], whose context is Do's. One goroutine at a time may call it.
func (tx *Tx) NextID() (snowflake.ID, error) {
	id, err := tx.gen.NextIDContext(tx.ctx)
	if err == nil {
		tx.first = min(tx.first, id)
	}
	return id, err
}
