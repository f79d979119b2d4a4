// Package sqllease keeps worker IDs in tables of PostgreSQL, MySQL, MariaDB or SQLite, for
// a fleet that shares a database.
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
// [New] returns a [lease.Store]: a process takes a worker ID, renews it, and gives it back.
// [NewNodes] works like Baidu's uid-generator: each start takes a worker ID that was never
// used before, and needs no renewal.
//
// # How it works
//
// There are three tables, named after Options.Table:
//
//   - snowflake_workers has a row for each worker ID: worker, version, renewed
//     (microseconds since 1970) and record, the [lease.Record] as JSON in ASCII, which
//     every character set and collation keeps.
//   - snowflake_workers_history has a row for each earlier holder of a worker ID and clock
//     sequence: begun and ended as texts in UTC, and the [lease.Holding] as JSON.
//     [lease.Whois] reads it.
//   - snowflake_workers_used has each worker ID that ever had a record.
//
// A renewal is one statement that commits by itself:
//
//	UPDATE snowflake_workers SET version = v, ... WHERE worker = w AND version = v-1
//
// If two such statements collide, the database lets one of them find its row. The other one
// changes nothing, and its holder gets [lease.ErrConflict]. So isolation levels do not
// matter.
//
// The statement also brings back the time of the server's clock, so a renewal is one round
// trip. With PostgreSQL and MySQL this clock decides when the holder of a worker ID is
// taken for dead. SQLite has no server, so the host's clock decides.
//
// When a worker ID is used for the first time, or changes hands, the same transaction also
// writes the other tables. With PostgreSQL the transaction is one statement. With MySQL and
// SQLite it has three to five statements; with MySQL each is a round trip, and the row of
// this worker ID stays locked until the last. If a client's machine vanishes in these
// milliseconds, the worker ID stays locked until the server closes the connection (MySQL's
// wait_timeout, or TCP keepalive). Acquire then takes another worker ID.
//
// If the database says that nothing was changed because other statements were in the way (a
// deadlock, a serialization failure, a lock that was not granted in time, a locked SQLite
// database), the statement is repeated until the context is done. After any other error the
// outcome is unknown; package lease then reads the record before it writes again. Errors
// unwrap to the driver's.
//
// # Lost rows
//
// If somebody deletes rows of snowflake_workers or drops the table, the store notices, by
// the table of used worker IDs and by a row with worker -1 that [Store.Create] writes. Load
// and Save return an error that matches [lease.ErrWiped], nobody acquires a worker ID, and
// holders go on to the end of their windows. Create repairs the store: it waits for two
// windows, so that every holder has stopped. IDs do not repeat if clocks differ by less
// than a window.
//
// # Connections
//
// A renewal takes a connection of db for one round trip. If many holders share a Store, set
// db.SetMaxOpenConns to a few, so that a burst does not take all of the server's
// connections, and db.SetMaxIdleConns to the same number. (By default database/sql keeps
// only two idle connections, and opens the others anew each time.)
//
//   - pgx asks the server whether it is there before it uses a connection that was idle for
//     over 1 s. At the default window a renewal then takes two round trips.
//     stdlib.OptionShouldPing turns that off.
//   - With MySQL, connections need autocommit on, as by default. If a connection has it off
//     (by autocommit=0 among the driver's parameters, by init_connect, or by SET GLOBAL),
//     nothing is written, and Acquire and renewals fail with an error that matches
//     lease.ErrInvalidOptions. Binary logs need the format ROW or MIXED, as by default.
//   - A connection from db must not be in a transaction already, because a save would be
//     rolled back with it: do not begin a transaction by a statement of your own, and leave
//     MySQL's completion_type at NO_CHAIN.
//   - PgBouncer in transaction mode must know prepared statements (1.21 or later).
//     Otherwise tell pgx not to use any: default_query_exec_mode=exec.
//   - With SQLite leave busy_timeout at 0: the store waits by itself, and stops when the
//     context ends. A busy timeout would delay that.
//
// # Hazards
//
// What was committed must stay committed: see package lease. If acknowledged commits are
// lost, bounds are lost, and two holders may issue the same IDs, as many as were issued
// under the lost bounds. This can happen as follows:
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
// HAZARD: commits that are not durable: PostgreSQL with fsync or synchronous_commit off, or
// an unlogged table; MySQL with innodb_flush_log_at_trx_commit other than 1, or a table
// that is not InnoDB's; SQLite with synchronous less than FULL, or FULL with another
// journal mode than WAL (it then takes EXTRA to keep the last commit through a loss of
// power).
//
// HAZARD: a worker ID whose rows are deleted from both snowflake_workers and
// snowflake_workers_used, while the row of worker -1 stays. It looks like a worker ID that
// was never used, and is given out at once.
//
// HAZARD: a repair by Create does not know what was lost. A lost bound may have been more
// than a window ahead, if a clock was set back since. A lost record may have kept its
// worker ID for an owner, or may have been used once. Give Create the longest window of the
// fleet.
//
// HAZARD: SQLite on a network file system, or in two containers that do not share its locks
// and its -shm file.
//
// If a proxy that splits reads from writes sends Load to a replica, IDs do not repeat,
// because every write names the version that it replaces. But if the replica lags, saves
// conflict and holders believe that they have lost their worker IDs. Send both to the
// primary.
package sqllease

// Options are the settings of New and NewNodes. The zero value consists entirely of
// defaults, and so does nil.
type Options struct {
	// Table is the table's name, or schema.name. It consists of ASCII letters, digits and
	// underscores, and does not begin with a digit; the name has at most 55 characters, the
	// schema 63. Statements quote it, so it may be a reserved word, and its case counts if
	// the database distinguishes case. New adds "_history" and "_used" for two more tables.
	// Empty: "snowflake_workers" for New, "WORKER_NODE" for NewNodes.
	Table string
}
