// Package follow reads the rows of a table in the order of their IDs while other processes insert
// them, and misses none. It serves outboxes, exports, caches and search indexes on PostgreSQL,
// MySQL, MariaDB and SQLite.
//
// Polling with WHERE id > last ORDER BY id misses rows. If another worker's clock is behind, or if
// its transaction takes longer to commit, its row appears below last. Two things together prevent
// this. The watermark of package lease is an ID below every ID that will be issued. A [Fence] in
// the database makes a transaction fail if a reader has already passed its IDs.
//
// A writer inserts rows with [Writer.Do]:
//
//	fence, err := follow.NewFence(follow.PostgreSQL, "outbox_fence")
//	...
//	err = fence.Create(ctx, db) // once, like a migration; later calls change nothing
//	err = lease.Init(ctx, store, snowflake.DefaultLayout()) // once, too
//	...
//	w := follow.NewWriter(db, fence, l, gen) // gen is the generator of the lease l
//	err = w.Do(ctx, func(tx *follow.Tx) error {
//		id, err := tx.NextID()
//		if err != nil {
//			return err
//		}
//		_, err = tx.ExecContext(ctx, `INSERT INTO outbox (id, body) VALUES ($1, $2)`, id, body)
//		return err
//	})
//
// A reader asks for spans of IDs. When it gets a span, the rows in it are complete: no row will
// ever be added to it.
//
//	r := follow.NewReader(store, db, fence, cursor, &follow.Options{Table: "outbox"})
//	for {
//		s, err := r.Next(ctx)
//		...
//		rows, err := db.QueryContext(ctx,
//			`SELECT id, body FROM outbox WHERE id > $1 AND id <= $2 ORDER BY id`, s.After, s.UpTo)
//		... process the rows
//		_, err = db.ExecContext(ctx,
//			`UPDATE outbox_cursor SET id = $1 WHERE id = $2`, s.UpTo, s.After)
//	}
//
// The package's example is a whole outbox, with the lease and the tables.
//
// The cursor is one ID, which you store after each span, also after a span without rows. A new
// reader begins at 0, and a reader that was away for a week continues from its cursor. One process
// at a time uses a cursor. There may be two for a moment, as when a new version is deployed: then
// the UPDATE above changes no row in the second. End that process, or it processes the rows, too.
//
// If you store the cursor in a transaction that also stores the results, as the example of
// [Reader.Next] does, and roll back unless the UPDATE changed a row, each row is processed once. If
// you store it afterwards, the rows of the last span may come again after a crash: up to
// Options.Rows.
//
// A reader gets a row some seconds after it was committed. [lease.Options].FloorEvery, which
// writers set, decides how many: about two if it is a second. If it is not set, a third of a window
// is added, by default ten seconds.
//
// All processes that insert rows need leases from one store, and all insert under the same fence.
// If a program cannot check the fence, [Fence.Trigger] has PostgreSQL check it. A process that
// only reads needs the store, but no lease.
//
// Updates are not followed. If they matter, give the table a column for versions, set it to a new
// ID in each INSERT and UPDATE, under the fence, and follow that column (Options.Column). A reader
// then sees the latest version of each row, but not every version.
//
// # How the fence works
//
// On PostgreSQL a fence is a sequence, an advisory lock and a table with one row. As its last act,
// a writer's transaction takes the lock in shared mode, and then reads the sequence, whose newest
// value is visible at every isolation level. A reader first raises the sequence, then waits for the
// transactions that hold the lock at that moment, and then updates the row. So a reader never keeps
// writers waiting, and a stream of writers never keeps a reader waiting. No row is missed because:
//
//  1. A writer holds the lock until its commit is visible. A prepared transaction holds it, too.
//  2. If it held the lock when the sequence was raised, the reader waits for it.
//  3. If it took the lock later, it read the raised sequence: its IDs are above, or it failed.
//  4. So every row up to the fence's row was committed before the fence's row was.
//  5. So whoever sees the fence's row, on the primary or on a replica, sees every row up to it.
//
// On MySQL and MariaDB a fence is a table with one row, which writers lock in shared mode. The
// reader's UPDATE waits for the writers that hold the lock. New writers wait behind it, so it gives
// up after a second, and tries again later. On SQLite there is only one writer at a time.
//
// # Hazards
//
// HAZARD: transactions, of any program, that insert rows without checking the fence, that check it
// in a savepoint which is rolled back, or that are committed by a statement before the check, as
// MySQL and MariaDB do at a CREATE TABLE. If one commits late, its rows may be missed.
//
// HAZARD: on SQLite, a fence in another file than the rows. Each file has a lock of its own. So a
// writer may attach files, but the rows and the fence must be in its main file.
//
// HAZARD: XA on MySQL and MariaDB. XA PREPARE releases shared locks, so an XA transaction may
// commit below the fence unless its isolation level is SERIALIZABLE. Writer.Do never uses XA.
//
// HAZARD: clusters in which several primaries take writes (Galera, Group Replication, BDR). Package
// follow promises nothing there.
//
// HAZARD: reading a span in an older snapshot. After [Reader.Next], begin a new statement or
// transaction on the primary. On a replica use [Reader.Read]: its transaction sees the whole span.
//
// HAZARD: replication that does not keep the order of commits: several GTID domains or
// replica_preserve_commit_order=OFF (MySQL, MariaDB); a fence and its rows in two logical
// subscriptions (PostgreSQL).
//
// HAZARD: a restore, or a failover that loses commits, sets the fence back. A reader whose cursor
// is above the fence returns [ErrRewound], and then a span that sets the cursor back. But if
// another reader has raised the fence again by then, it cannot notice. So after a failover that
// lost commits, start every reader from a cursor that was stored before it.
//
// HAZARD: a client that stops, with its connection open, while it writes or raises the fence. All
// readers wait for it until the database ends its transaction: set its limit for idle transactions.
// After 5 s each reader logs which processes it waits for (on PostgreSQL).
//
// HAZARD: a transaction that stays open under a [lease.Lease.Hold] keeps back the rows of all
// writers. The reader logs who, once the watermark lags by more than their renewals explain.
//
// HAZARD: rows whose IDs lie ahead of the watermark, such as rows imported from another system, are
// not read until the watermark has passed them. If the next row waits for a minute, the reader logs
// its ID.
//
// docs/watermark.md has measurements, compares other ways to read new rows, and says what holds the
// watermark back.
package follow
