// Package sqllease keeps worker IDs in tables of PostgreSQL, MySQL, MariaDB or
// SQLite, for a fleet that shares a database.
//
//	db, err := sql.Open("pgx", "postgres://app:secret@db.internal/app")
//	...
//	store, err := sqllease.New(db, sqllease.PostgreSQL, nil)
//	...
//	err = store.Create(ctx, 0) // waits for 6 s the first time ever, and does nothing later
//	...
//	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// The package imports no driver. It is tested with github.com/jackc/pgx/v5/stdlib,
// github.com/go-sql-driver/mysql and modernc.org/sqlite.
//
// [New] makes a [lease.Store]: a process takes a worker ID, renews it, and gives
// it back. [NewNodes] is the scheme of Baidu's uid-generator: each start takes a
// worker ID that was never used before, and needs no renewal.
//
// # How it works
//
// There are three tables, named after Options.Table:
//
//   - snowflake_workers has a row for each worker ID: worker, version, renewed
//     (microseconds since 1970) and record, the [lease.Record] as JSON in ASCII,
//     whatever character set or collation the database has.
//   - snowflake_workers_history has a row for each stretch of time in which somebody
//     held a worker ID and clock sequence before: begun and ended as texts in UTC, and
//     the [lease.Holding] as JSON. [lease.Whois] reads it.
//   - snowflake_workers_used has each worker ID that ever had a record.
//
// A renewal is one statement that commits by itself:
//
//	UPDATE snowflake_workers SET version = v, ... WHERE worker = w AND version = v-1
//
// If two such statements collide, the database lets one find its row. The other has
// changed nothing, and its holder gets [lease.ErrConflict]. So isolation levels do
// not matter.
//
// The statement also reads the server's clock and brings it back, so a renewal is
// one round trip. With PostgreSQL and MySQL the server's clock decides when the
// holder of a worker ID is taken for dead. With SQLite there is no server: the
// clock is the host's.
//
// When a worker ID is used for the first time, or changes hands, the other tables are
// written, too, in the same transaction. With PostgreSQL the transaction is one
// statement. With MySQL and SQLite it is three to five, which costs MySQL as many
// round trips, and keeps the row of that worker ID locked meanwhile. If a client's
// machine vanishes in these milliseconds, that one worker ID stays locked until the
// server gives the connection up (MySQL's wait_timeout, or TCP keepalive). Acquire
// then takes another worker ID.
//
// If the database says that others were in the way and nothing was changed (a
// deadlock, a serialization failure, a lock that was not granted in its time, a
// locked SQLite database), the statement is repeated until the context is done.
// After any other error the outcome is unknown; package lease then reads the
// record before it writes again. Errors unwrap to the driver's.
//
// # Lost rows
//
// If somebody deletes rows of snowflake_workers, or all rows, or drops the table, the
// store does not take the worker IDs for new ones: Load and Save return an error that
// matches [lease.ErrWiped], nobody acquires a worker ID, and holders go on to the ends
// of their windows. The table of used worker IDs tells, and a row of worker -1 that
// [Store.Create] writes. Create also repairs the store, after waiting for two windows,
// when every holder has stopped. No ID is repeated if clocks differ by less than a
// window.
//
// # Connections
//
// A renewal takes a connection of db for one round trip. A Store that many
// holders share wants db.SetMaxOpenConns at a few, so that a burst does not take
// all that the server has, and db.SetMaxIdleConns at the same number: database/sql
// keeps two otherwise, and opens the others anew each time.
//
//   - pgx asks the server whether it is there before it uses a connection that
//     was idle for over 1 s, which makes two round trips of a renewal at the
//     default window. stdlib.OptionShouldPing turns that off.
//   - With MySQL connections need autocommit on, as by default. If a connection has
//     it off (autocommit=0 among the driver's parameters, in init_connect, or
//     SET GLOBAL) nothing is written, and Acquire and renewals fail with an
//     error that matches lease.ErrInvalidOptions. Binary logs need the format
//     ROW or MIXED, as by default.
//   - A connection must not be in a transaction when it comes from db: do not
//     begin one by a statement of your own, and leave MySQL's completion_type
//     at NO_CHAIN. What a save writes would be rolled back with it.
//   - PgBouncer in transaction mode must know prepared statements (1.21 or
//     later), or pgx be told not to use any: default_query_exec_mode=exec.
//   - With SQLite leave busy_timeout at 0: the store waits by itself, and
//     ends when the context does, which a busy timeout delays.
//
// # Hazards
//
// What was committed must stay committed, see package lease. Whatever loses
// acknowledged commits loses bounds, and then two holders may issue the same IDs,
// as many as were issued in what was lost:
//
// HAZARD: asynchronous replication with a failover, by hand or automatic. The new
// primary lacks what the old one had not sent. Replicate synchronously
// (PostgreSQL: synchronous_standby_names and synchronous_commit on or higher;
// MySQL: Group Replication with a consistency of AFTER, or semi-synchronous
// without a fallback to asynchronous), or keep all generators stopped after a
// failover until their clocks are past the newest bound that may have been lost:
// the moment of the failover plus one window.
//
// HAZARD: two primaries that take writes and settle conflicts later.
//
// HAZARD: a restore from a backup, or of a snapshot of the machine. Stop all
// holders before, and start none until the clock has passed one window since the
// last of them stopped. For [Nodes] that is not enough; see there. Likewise if
// somebody puts older rows in the place of newer ones by hand.
//
// HAZARD: commits that are not durable: PostgreSQL with fsync or
// synchronous_commit off, or an unlogged table; MySQL with
// innodb_flush_log_at_trx_commit other than 1, or a table that is not InnoDB's;
// SQLite with synchronous less than FULL, or FULL with another journal mode than
// WAL (it then takes EXTRA to keep the last commit through a loss of power).
//
// HAZARD: a worker ID whose rows are deleted from both snowflake_workers and
// snowflake_workers_used, while the row of worker -1 stays. Nothing tells it from a
// worker ID that was never used, and it begins anew at once.
//
// HAZARD: a repair by Create knows nothing of what was lost: not a bound that lay
// further ahead than a window, of a clock that was set back since, nor that a worker ID
// was kept for somebody or used once. Give Create the fleet's longest window.
//
// HAZARD: SQLite on a network file system, or two containers that do not share
// its locks and its -shm file.
//
// A replica that Load is sent to, by a proxy that splits reads from writes, is no
// danger to the IDs, because every write names the version that it replaces. But
// a replica that lags makes saves conflict and holders take themselves for lost.
// Send both to the primary.
package sqllease

// Options are the settings of New and NewNodes. The zero value, and nil, consist
// entirely of defaults.
type Options struct {
	// Table is the table's name, or schema.name: letters, digits and
	// underscores of ASCII, up to 55 in the name and 63 in the schema, and no digit
	// first. It is quoted in statements, so it may be a reserved word, and case counts
	// if the database lets it. New adds "_history" and "_used" for two more tables.
	// Empty: "snowflake_workers" for New, "WORKER_NODE" for NewNodes.
	Table string
}
