// Package sqllease leases worker IDs from a table of PostgreSQL, MySQL, MariaDB or SQLite.
//
//	store, err := sqllease.Open("pgx", "postgres://app:secret@db.internal/app", sqllease.PostgreSQL, nil)
//	...
//	defer store.Close()
//	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// [Open] and [New] return a [driver.Store]: a process acquires a worker ID, renews it, and releases
// it. [NewNodes] works like Baidu's uid-generator: each start takes a worker ID that was never used
// before, and needs no renewal.
//
// The package imports no driver. It is tested with github.com/jackc/pgx/v5/stdlib,
// github.com/go-sql-driver/mysql and modernc.org/sqlite.
//
// # The table
//
// The first Put creates the table. To create it in a migration, use the statement that
// [Dialect.Schema] returns.
//
// An entry is a row with the columns name, version, value and stored, the time of storing in
// microseconds since 1970. Values are JSON; in psql, SELECT name, convert_from(value, 'UTF8') FROM
// snowflake_leases shows them. Each Put writes a random version, so versions do not repeat even if
// the table was dropped. A renewal is one statement and one round trip:
//
//	UPDATE snowflake_leases SET version = '...', ... WHERE name = 'worker/7' AND version = '...'
//
// On MySQL it is a transaction, because only on MariaDB can a statement check that it will be
// committed. Of two such statements at once, only one finds its row, at every isolation level. The
// statement also returns the time of the server's clock, which decides when the holder of a worker
// ID counts as dead. SQLite has no server, so the store has no clock.
//
// If the database reports that other statements prevented a change (a deadlock, a serialization
// failure, a lock timeout, a locked SQLite database), the statement is retried until the context
// ends. Errors wrap the driver's errors. After a statement that timed out, the store pings the idle
// connections of the pool, and closes those that do not answer within a second: package sql does
// not, so each of them would make a later statement time out.
//
// The user needs SELECT, INSERT, UPDATE and DELETE on the table, and the right to create it if it
// does not exist. Since PostgreSQL 15 only the database's owner may create tables in the schema
// public: create the table as the owner, or give the user a schema, and set [Options.Table] to
// theirs.leases.
//
// # Connections
//
// Open makes two connections for the leases alone. If the application's pool is passed to New, and
// long queries use all of its connections, renewals wait, and IDs stop at the end of the window.
//
//   - pgxpool: make a pool for the leases, and use
//     sqllease.New(stdlib.OpenDBFromPool(pool), sqllease.PostgreSQL, nil).
//   - pgx pings before each renewal, which is one more round trip; stdlib.OptionShouldPing turns
//     this off.
//   - PgBouncer with transaction pooling: use version 1.21 or later, or
//     default_query_exec_mode=exec.
//   - MySQL's driver logs to stderr; mysql.Config.Logger changes this.
//   - SQLite: leave busy_timeout at 0.
//
// # Settings
//
// Commits must be durable. Each lease reads these settings from the database, and logs a warning if
// they differ:
//
//   - PostgreSQL: fsync and synchronous_commit on, as by default.
//   - MySQL and MariaDB: InnoDB, innodb_flush_log_at_trx_commit=1, and with a binary log
//     sync_binlog=1 (MariaDB's default is 0) and the format ROW or MIXED.
//   - SQLite: journal_mode=WAL with synchronous=FULL, or another journal with EXTRA; a local file
//     system.
//   - Replication: synchronous if failover is automatic; one primary that accepts writes.
//
// # Hazards
//
// The store recovers if the whole table is lost. If some of the acknowledged commits are lost, so
// are bounds, and two holders may issue the same IDs: those issued under the lost bounds.
//
// HAZARD: asynchronous replication with a failover, manual or automatic. The new primary lacks the
// commits that the old one had not sent. Replicate synchronously (PostgreSQL:
// synchronous_standby_names and synchronous_commit on or higher; MySQL: Group Replication with a
// consistency of AFTER, or semi-synchronous without a fallback to asynchronous). Or, after a
// failover, keep all generators stopped until their clocks are past the newest bound that may have
// been lost: the time of the failover plus one window.
//
// HAZARD: two primaries that accept writes and resolve conflicts later.
//
// HAZARD: a restore of rows from a backup, or of the machine from a snapshot. Stop all holders
// first. Start holders again only when a window has passed since the last holder stopped. For
// [Nodes] this is not enough: see its documentation.
//
// HAZARD: commits that are not durable, because settings differ from those above.
//
// HAZARD: SQLite on a network file system, or in two containers that do not share its locks and its
// -shm file.
//
// HAZARD: a PostgreSQL driver that returns connections to the pool within a transaction, which pgx
// does not: do not begin a transaction with a statement of your own. On MySQL the store begins a
// transaction itself if it needs one.
package sqllease

// Options holds the settings of [New], [Open] and [NewNodes]. Nil and the zero value mean the
// defaults.
type Options struct {
	// Table is the table's name, or schema.name. Each part has at most 63 ASCII letters, digits and
	// underscores, and does not begin with a digit. It is quoted in statements, so it may be a
	// reserved word, and case matters if it does to the database. The default is "snowflake_leases"
	// for New and Open, "WORKER_NODE" for NewNodes.
	Table string
}
