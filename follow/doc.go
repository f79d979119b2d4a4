// Package follow reads the rows of a table in the order of their IDs while other processes insert
// them, and misses none. It serves outboxes, exports, caches and search indexes on PostgreSQL,
// MySQL, MariaDB and SQLite.
//
// Polling with WHERE id > last ORDER BY id misses rows. If another worker's clock is behind, or if
// its transaction takes longer to commit, its row appears below last. Two things prevent this: the
// watermark of package lease, an ID below every ID that will be issued, and a [Fence] in the
// database, which makes a transaction fail if a reader has already passed its IDs.
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
// The package's example is a complete outbox, with the lease and the tables.
//
// The cursor is one ID. Store it after each span, even one without rows. A new reader begins at 0;
// a restarted reader continues from the stored cursor. Only one process may use a cursor at a time.
// If there are two for a moment, as during a deployment, the UPDATE above changes no row in the
// second. End that process, or it processes the rows, too.
//
// If you store the cursor and the results in one transaction, as the example of [Reader.Next] does,
// and roll back unless the UPDATE changed a row, each row is processed once. If you store it
// afterwards, a crash repeats the rows of the last span, at most Options.Rows.
//
// A reader gets a row some seconds after its commit: about two if the writers set
// [lease.Options].FloorEvery to a second, and a third of a window more, by default ten seconds, if
// they do not set it.
//
// All processes that insert rows need leases from one store, and must insert under the same fence.
// For programs that cannot check it, [Fence.Trigger] lets PostgreSQL check it. A process that only
// reads needs the store, but no lease.
//
// Updates are not followed. To follow them, give the table a column for versions, set it to a new
// ID in each INSERT and UPDATE, under the fence, and follow that column (Options.Column). A reader
// then sees the latest version of each row, but not every version.
//
// # How the fence works
//
// On PostgreSQL a fence is a sequence, an advisory lock and a table with one row. The last
// statement of a writer's transaction acquires the lock in shared mode and then reads the sequence,
// whose newest value is visible at every isolation level. A reader raises the sequence, waits for
// the transactions that hold the lock at that moment, and then updates the row. So readers do not
// block writers, and a stream of writers does not block readers. No row is missed because:
//
//  1. A writer holds the lock until its commit is visible. A prepared transaction holds it, too.
//  2. If it held the lock when the sequence was raised, the reader waits for it.
//  3. If it acquired the lock later, it read the raised sequence: its IDs are above, or it failed.
//  4. So every row up to the fence's row was committed before the fence's row was.
//  5. So a snapshot with the fence's row, on the primary or a replica, has every row up to it.
//
// On MySQL and MariaDB a fence is a table with one row, which writers lock in shared mode. The
// reader's UPDATE waits for the writers that hold the lock. New writers wait behind it, so it gives
// up after a second and tries again later. SQLite has only one writer at a time.
//
// # Hazards
//
// HAZARD: a transaction that inserts rows without checking the fence. If it commits late, its rows
// may be missed. See also the hazards of [Fence.Check] and [Writer.Do].
//
// HAZARD: on SQLite, a fence in another file than the rows, because each file has its own lock. A
// writer may attach files, but the rows and the fence must be in its main file.
//
// HAZARD: XA on MySQL and MariaDB. XA PREPARE releases shared locks, so an XA transaction may
// commit below the fence unless its isolation level is SERIALIZABLE. [Writer.Do] does not use XA.
//
// HAZARD: clusters with several primaries that accept writes (Galera, Group Replication, BDR) are
// not supported.
//
// HAZARD: reading a span in an older snapshot. After [Reader.Next], begin a new statement or
// transaction on the primary. On a replica use [Reader.Read]: its transaction sees the whole span.
//
// HAZARD: replication that does not keep the order of commits: several GTID domains or
// replica_preserve_commit_order=OFF (MySQL, MariaDB); a fence and its rows in two logical
// subscriptions (PostgreSQL).
//
// HAZARD: a restore, or a failover that loses commits, sets the fence back. A reader whose cursor
// is above the fence returns [ErrRewound], and then a span that sets the cursor back. A reader
// cannot detect this if another one has already raised the fence again. So after a failover that
// lost commits, start every reader from a cursor that was stored before the failover.
//
// HAZARD: a client that stops, with its connection open, while it writes or raises the fence. All
// readers wait until the database ends its transaction: set a limit for idle transactions. After
// 5 s each reader logs which processes it waits for (on PostgreSQL).
//
// HAZARD: a transaction that stays open under a [lease.Lease.Hold] delays the rows of all writers.
// If the watermark lags by more than their renewals explain, the reader logs the holder's name.
//
// HAZARD: rows with IDs above the watermark, such as rows imported from another system, are not
// read until the watermark has passed them. If one is the next row for a minute, the reader logs
// its ID.
//
// docs/watermark.md has measurements, other ways to read new rows, and the causes of a watermark
// that lags.
package follow
