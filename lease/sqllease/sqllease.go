// Package sqllease keeps worker IDs in a table of PostgreSQL, MySQL, MariaDB or SQLite, for
// a fleet that shares a database.
//
//	store, err := sqllease.Open("pgx", "postgres://app:secret@db.internal/app", sqllease.PostgreSQL, nil)
//	...
//	defer store.Close()
//	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// [Open] and [New] return a [driver.Store]: a process takes a worker ID, renews it, and gives
// it back. [NewNodes] works like Baidu's uid-generator: each start takes a worker ID that was
// never used before, and needs no renewal.
//
// The package imports no driver. It is tested with github.com/jackc/pgx/v5/stdlib,
// github.com/go-sql-driver/mysql and modernc.org/sqlite.
//
// # The table
//
// The first Put creates the table. If a team migrates its schema itself, it creates the table
// before: [Dialect.Schema] returns the statement.
//
// An entry is a row: name, version, value, and when it was stored, in microseconds since
// 1970. Values are JSON; in psql, SELECT name, convert_from(value, 'UTF8') FROM snowflake_leases
// shows them. Each Put writes a random version, so no version comes again, even if the table was
// dropped. A renewal is one statement and one round trip:
//
//	UPDATE snowflake_leases SET version = '...', ... WHERE name = 'worker/7' AND version = '...'
//
// With MySQL it is a transaction, because only MariaDB can tell that a statement will be committed.
// If two such statements collide, the database lets one of them find its row. So isolation
// levels do not matter. The statement also brings back the time of the server's clock,
// which decides when the holder of a worker ID counts as dead. SQLite has no server.
//
// If the database says that nothing was changed because other statements were in the way (a
// deadlock, a serialization failure, a lock that was not granted in time, a locked SQLite
// database), the statement is repeated until the context is done. Errors unwrap to the driver's.
// After a statement that timed out, the store pings the idle connections of the pool, and closes
// those that do not answer within a second: package sql does not look, and each would cost a later
// statement its time.
//
// The user needs SELECT, INSERT, UPDATE and DELETE on the table, and the right to create it if it
// does not exist. Since PostgreSQL 15 only the database's owner may create tables in the schema
// public. So create the table as the owner, or give the user a schema, and set [Options.Table] to
// theirs.leases.
//
// # Connections
//
// Open makes two connections for the leases alone. If you pass the application's pool to New, and
// long queries use all of its connections, renewals wait, and IDs stop at the end of the window.
//
//   - pgxpool: make a pool for the leases, and use
//     sqllease.New(stdlib.OpenDBFromPool(pool), sqllease.PostgreSQL, nil).
//   - pgx pings before each renewal, which is one more round trip; stdlib.OptionShouldPing turns
//     this off.
//   - PgBouncer that pools by transaction: use version 1.21 or later, or
//     default_query_exec_mode=exec.
//   - MySQL's driver logs to stderr; mysql.Config.Logger changes this.
//   - SQLite: leave busy_timeout at 0.
//
// # Settings
//
// What was committed must stay committed. Each lease asks the database for these settings, and
// warns of others.
//
//   - PostgreSQL: fsync and synchronous_commit on, as by default.
//   - MySQL and MariaDB: InnoDB, innodb_flush_log_at_trx_commit=1, and with a binary log
//     sync_binlog=1 (MariaDB's default is 0) and the format ROW or MIXED.
//   - SQLite: journal_mode=WAL with synchronous=FULL, or another journal with EXTRA; a local file
//     system.
//   - Replication: synchronous if failover is automatic; one primary that takes writes.
//
// # Hazards
//
// A table that is lost as a whole heals. If a part of the acknowledged commits is lost, bounds are
// lost, and two holders may issue the same IDs, as many as were issued under the lost bounds.
//
// HAZARD: asynchronous replication with a failover, by hand or automatic. The new primary
// lacks what the old one had not sent. Replicate synchronously (PostgreSQL:
// synchronous_standby_names and synchronous_commit on or higher; MySQL: Group Replication
// with a consistency of AFTER, or semi-synchronous without a fallback to asynchronous). Or,
// after a failover, keep all generators stopped until their clocks are past the newest
// bound that may have been lost: the moment of the failover plus one window.
//
// HAZARD: two primaries that take writes and settle conflicts later.
//
// HAZARD: a restore from a backup or from a snapshot of the machine, or older rows that
// somebody puts in the place of newer rows. Stop all holders first. Start holders again only
// when a window has passed since the last holder stopped. For [Nodes] that is not enough; see
// there.
//
// HAZARD: commits that are not durable, with other settings than above.
//
// HAZARD: SQLite on a network file system, or in two containers that do not share its locks
// and its -shm file.
//
// HAZARD: a driver of PostgreSQL that lets a connection go back to the pool in a
// transaction, as pgx does not: do not begin a transaction by a statement of your own. With
// MySQL the store begins a transaction itself if it needs one.
package sqllease

// Options are the settings of New, Open and NewNodes. The zero value consists entirely of
// defaults, and so does nil.
type Options struct {
	// Table is the table's name, or schema.name. It consists of ASCII letters, digits and
	// underscores, and does not begin with a digit; name and schema have at most 63
	// characters each. Statements quote it, so it may be a reserved word, and its case counts
	// if the database distinguishes case. The default is "snowflake_leases" for New and Open,
	// "WORKER_NODE" for NewNodes.
	Table string
}
