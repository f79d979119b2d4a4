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

// Writer inserts rows so that readers miss none of them. Its methods may be called by any number of
// goroutines.
type Writer struct {
	// TxOptions holds the options of the transactions; nil means the driver's defaults. Set it
	// before the first call of Do.
	TxOptions *sql.TxOptions

	db    *sql.DB
	fence *Fence
	lease *lease.Lease
	gen   *snowflake.Generator
}

// NewWriter returns a writer to the tables of db that are under the fence f. g must be the
// generator of the lease l; l's Options.FloorEvery determines how soon the rows are read. NewWriter
// does not connect to the database.
func NewWriter(db *sql.DB, f *Fence, l *lease.Lease, g *snowflake.Generator) *Writer {
	return &Writer{db: db, fence: f, lease: l, gen: g}
}

// tries is the number of calls of fn after which Do gives up. Under a Hold a transaction is late
// only if the lease was lost.
const tries = 5

// Do begins a transaction, calls fn, checks the fence, and commits. fn inserts rows with IDs from
// [Tx.NextID] or, as a mapper's hook does, from the same generator, unless its policy lets IDs go
// back (RewindPolicy). If fn panics or returns an error, Do rolls back. It returns the error of fn,
// including a deadlock or a failed serialization, after which the caller may call Do again.
//
// If the transaction is late (ErrLate), Do rolls back and calls fn again, up to five times in all.
// So fn must draw new IDs in each call, and have no effects outside the transaction. If the commit
// fails otherwise, or ctx ends during the commit, the rows may or may not have been committed. If
// ctx ends earlier, they were not.
//
// HAZARD: statements with an implicit commit, such as CREATE TABLE and TRUNCATE on MySQL and
// MariaDB. In fn they commit the rows before Do checks the fence.
//
// HAZARD: calling [Reader.Next] or [Reader.Read] in fn. The reader would wait for this transaction.
func (w *Writer) Do(ctx context.Context, fn func(tx *Tx) error) error {
	for n := 1; ; n++ {
		err := w.try(ctx, fn)
		if err == nil || !errors.Is(err, ErrLate) {
			return err
		}
		if n == tries {
			return fmt.Errorf("follow: gave up after %d tries: %w", n, err)
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
	defer w.lease.Hold()() // taken before the first ID, released after the transaction
	defer tx.Rollback()
	// Later IDs are greater, unless the generator's policy lets IDs go back.
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

// Tx is a transaction of [Writer.Do]. Only Do may commit it or roll it back.
type Tx struct {
	*sql.Tx
	ctx   context.Context
	gen   *snowflake.Generator
	first snowflake.ID // the least ID drawn
}

// NextID returns an ID for a row of this transaction, or an error of
// [snowflake.Generator.NextIDContext] with the context of Do. Do not call it concurrently.
func (tx *Tx) NextID() (snowflake.ID, error) {
	id, err := tx.gen.NextIDContext(tx.ctx)
	if err == nil {
		tx.first = min(tx.first, id)
	}
	return id, err
}
