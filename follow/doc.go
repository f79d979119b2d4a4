// Package follow reads the rows of a table in the order of their IDs, while other processes
// insert them, and misses none. It is for outboxes, exports, caches and search indexes on
// PostgreSQL, MySQL, MariaDB and SQLite.
//
// Polling WHERE id > last ORDER BY id misses rows: another worker's clock is behind, or its
// transaction commits later, and then its row appears below last. Two things together prevent this.
// The watermark of package lease is an ID below every ID that is issued from now on. A [Fence] in
// the database stops the commit of a transaction whose IDs a reader has passed.
//
// A writer inserts rows with [Writer.Do]:
//
//	fence, err := follow.NewFence(follow.PostgreSQL, "outbox_fence")
//	...
//	err = fence.Create(ctx, db) // once, like a migration; later calls change nothing
//	...
//	w := follow.NewWriter(db, fence, l, gen) // l is the lease of the generator gen
//	err = w.Do(ctx, func(tx *follow.Tx) error {
//		id, err := tx.NextID()
//		if err != nil {
//			return err
//		}
//		_, err = tx.ExecContext(ctx, `INSERT INTO outbox (id, body) VALUES ($1, $2)`, id, body)
//		return err
//	})
//
// A reader asks for spans of IDs. Every row that will ever be in a span is there:
//
//	r := follow.NewReader(store, db, fence, cursor, &follow.Options{Table: "outbox"})
//	for {
//		err := r.Read(ctx, func(tx *sql.Tx, s follow.Span) error {
//			rows, err := tx.QueryContext(ctx, `SELECT id, body FROM outbox WHERE id > $1 AND id <= $2 ORDER BY id`, s.After, s.UpTo)
//			... deliver them, and keep s.UpTo as the cursor
//		})
//	}
//
// The cursor is one ID. Keep it where the work is, if you can in the same transaction: then each
// row is processed once. Keep it after the work, and rows may come twice after a crash. A new
// reader begins at 0. A reader that was away for a week goes on from its cursor.
//
// All processes that insert rows need leases of one store, and all insert under the fence. For rows
// of programs that do not know the fence, [Fence.Trigger] has PostgreSQL check it. The reader's
// process needs the store, and no lease.
//
// Rows that are updated are not followed. If updates matter, give the table a column for versions,
// set it to a new ID in each INSERT and UPDATE, under the fence, and follow that column
// (Options.Column). A reader then sees the last version of each row, and not every version.
//
// # How the fence works
//
// On PostgreSQL it is a sequence, an advisory lock and a table of one row. A writer takes the lock
// for sharing as its last act, and then reads the sequence, whose newest value is seen at every
// isolation level. A reader raises the sequence first, and then waits for the transactions that
// hold the lock at this moment; then it sets the row. So readers never keep writers waiting, and no
// stream of writers keeps a reader waiting for ever. Why no row is missed:
//
//  1. A writer holds the lock until its commit is visible, and a prepared transaction holds it, too.
//  2. If it held the lock when the sequence was raised, the reader waits for it.
//  3. If it took the lock later, it read the raised sequence, and its IDs are above it, or it failed.
//  4. So each commit of a row below the fence precedes the commit of the fence's row.
//  5. So who sees the fence's row, on the primary or on a replica, sees every row below it.
//
// On MySQL and MariaDB it is a table of one row. A writer locks the row for sharing, and the
// reader's UPDATE waits for the writers that have the lock; it gives up after a second, because new
// writers wait behind it. On SQLite there is one writer at a time.
//
// # Hazards
//
// HAZARD: a transaction that inserts rows and does not check the fence, in any program. Its
// rows may be missed if it commits late.
//
// HAZARD: XA on MySQL and MariaDB. XA PREPARE releases shared locks, so a branch may commit below
// the fence, unless it runs at SERIALIZABLE. Writer.Do never uses XA.
//
// HAZARD: several primaries that take writes (Galera, Group Replication, BDR). Nothing is promised.
//
// HAZARD: reading a span in an older snapshot. After [Reader.Next] begin a new statement, or a
// transaction; on a replica use [Reader.Read], whose transaction sees every row of the span.
//
// HAZARD: replication that does not keep the order of commits: several GTID domains or
// replica_preserve_commit_order=OFF (MySQL, MariaDB); a fence and rows in two logical
// subscriptions (PostgreSQL).
//
// HAZARD: a failover that loses commits, or a restore, takes the fence back. A reader whose cursor
// is above the fence says so ([ErrRewound]). If another reader has raised the fence again before,
// it cannot know: after a failover that lost commits, begin every reader anew from a cursor of
// before.
//
// docs/watermark.md has measurements, other ways to read new rows, and what keeps the watermark
// back.
package follow
