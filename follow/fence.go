package follow

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/fencesql"
	"github.com/seed-5394e6b1/snowflake/internal/sqlerror"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Dialect is a kind of database.
type Dialect uint8

const (
	// PostgreSQL 10 or later. To prepare transactions, use a release of November 2021 or later.
	PostgreSQL Dialect = iota + 1

	// MySQL 5.7 or later, or MariaDB except 11.3 and all but the last releases of 11.0, 11.1 and
	// 11.2.
	MySQL

	// SQLite 3.24 or later.
	SQLite
)

var (
	// ErrLate is returned by [Fence.Check], and by a commit under [Fence.Trigger], if a reader has
	// passed the transaction's IDs. Roll back, and repeat the transaction with new IDs, as
	// [Writer.Do] does.
	ErrLate = errors.New("follow: a reader has passed the transaction's IDs")

	// ErrRewound is returned by [Reader.Next] and [Reader.Read] if the fence on the primary is
	// below the cursor, because the primary lost commits in a failover or a restore. Log it, and
	// call the method again: the next span has no rows, and its UpTo, below its After, is the
	// fence. Store it like every cursor, and no row is missed. The rows between UpTo and After are
	// returned again.
	ErrRewound = errors.New("follow: the fence was set back")

	// ErrInvalid is returned by [NewFence], [Fence.Check] and [Fence.Trigger] if an argument is
	// invalid, and by [Reader.Next] and [Reader.Read] if connections to MySQL have autocommit off,
	// completion_type CHAIN or the isolation level READ UNCOMMITTED.
	ErrInvalid = errors.New("follow: invalid argument")
)

// Fence makes a transaction fail if a reader has passed its IDs. Use one fence for each table, or
// for several tables that are read together. The readers of a Fence value share their readings of
// the watermark. Its methods may be called by any number of goroutines.
type Fence struct {
	dialect Dialect
	name    string
	sql     statements
	raises  sql.IsolationLevel // for transactions that raise the fence
	reads   sql.IsolationLevel // for the transactions of Reader.Read, which need a snapshot

	mu       sync.Mutex
	readings map[lease.Store]*reading
}

// statements holds the SQL of a fence. $1 and $2 are parameters.
type statements struct {
	ready  string   // selects a row if the fence is complete
	create []string // run in one transaction
	check  string   // acquires the lock in shared mode, then selects the ID to compare with
	read   string   // selects the fence's row, up to which readers may read
	raise  string   // sets the row to $1, unless it is greater, or is below $2
	turn   string   // PostgreSQL: acquires the readers' lock, unless another reader has it
	setSeq string   // PostgreSQL: raises the sequence to $1, so that later checks compare with it

	// holders selects PostgreSQL's transactions that hold the advisory lock of $1: those listed in
	// $2, or all if $2 is empty.
	holders string
}

// names matches names of tables and columns. PostgreSQL cuts names after 63 characters.
var names = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// NewFence returns the fence with this name, which is a table and, on PostgreSQL, a sequence with
// the suffix "_mark". The form is name or, except on SQLite, schema.name; each part has at most 50
// ASCII letters, digits and underscores, and case matters. Another form is an error that matches
// [ErrInvalid]. NewFence does not connect to the database; [Fence.Create] creates the fence there.
func NewFence(d Dialect, name string) (*Fence, error) {
	switch {
	case d < PostgreSQL || d > SQLite:
		return nil, fmt.Errorf("%w: Dialect %d is unknown", ErrInvalid, d)
	case d == SQLite && strings.Contains(name, "."):
		return nil, fmt.Errorf("%w: %q: on SQLite the fence must be in the main file, as the rows are", ErrInvalid, name)
	}
	if err := fencesql.CheckName(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	f := &Fence{dialect: d, name: name, readings: map[lease.Store]*reading{}}
	// Below this level, MySQL needs a binary log of rows.
	f.raises, f.reads = sql.LevelRepeatableRead, sql.LevelRepeatableRead
	st := &f.sql
	named := strings.NewReplacer("{t}", f.table(name), "{m}", f.quote(name+"_mark"), "{class}", fencesql.Class).Replace
	st.ready = named(`SELECT 1 FROM {t} WHERE one = 1`)
	st.create = []string{named(`CREATE TABLE IF NOT EXISTS {t} (one SMALLINT PRIMARY KEY, id BIGINT NOT NULL)`)}
	st.check = named(`SELECT id FROM {t} WHERE one = 1`)
	st.read = st.check
	st.raise = named(`UPDATE {t} SET id = GREATEST(id, $1) WHERE one = 1 AND id >= $2`)
	switch d {
	case PostgreSQL:
		f.raises = sql.LevelReadCommitted // another reader may just have raised it
		st.ready = named(`SELECT 1 FROM {t} AS t, {m} AS m WHERE t.one = 1 AND m.is_called AND m.last_value >= t.id`)
		st.create = append([]string{named(`SELECT pg_advisory_xact_lock({class}, hashtext(text '{m}'))`)}, append(st.create,
			named(`INSERT INTO {t} VALUES (1, 0) ON CONFLICT DO NOTHING`),
			named(`CREATE SEQUENCE IF NOT EXISTS {m} MINVALUE 0 OWNED BY {t}.id`),
			named(`SELECT pg_advisory_xact_lock({class}, '{t}'::regclass::oid::int)`),
			// Logical replication copies the row, but not the sequence.
			named(`SELECT setval('{m}'::regclass, GREATEST(t.id, CASE WHEN m.is_called THEN m.last_value ELSE 0 END)) FROM {t} AS t, {m} AS m`))...)
		st.check = fencesql.Check(name)
		st.turn = named(`SELECT pg_try_advisory_xact_lock({class}, '{t}'::regclass::oid::int)`)
		st.setSeq = named(`SELECT setval('{m}'::regclass, $1::bigint) FROM {m} WHERE last_value < $1::bigint`)
		st.holders = named(`SELECT COALESCE(string_agg(virtualtransaction, ' '), ''), COALESCE(string_agg(pid::text, ' '), '') FROM pg_locks
	WHERE locktype = 'advisory' AND classid = oid '{class}' AND objid = (SELECT $1::text::regclass::oid) AND objsubid = 2
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND ($2::text = '' OR virtualtransaction = ANY (string_to_array($2::text, ' ')))`)
	case MySQL:
		st.create[0] += ` ENGINE=InnoDB`
		st.create = append(st.create, named(`INSERT IGNORE INTO {t} VALUES (1, 0)`))
		// With innodb_snapshot_isolation, the statement would fail if the row was raised after the
		// transaction's snapshot.
		st.check = `/*M!101108 SET STATEMENT innodb_snapshot_isolation = OFF FOR */ ` + st.check + ` LOCK IN SHARE MODE`
	default:
		f.raises, f.reads = sql.LevelDefault, sql.LevelDefault // each transaction has one snapshot
		st.create = append(st.create, named(`INSERT INTO {t} VALUES (1, 0) ON CONFLICT DO NOTHING`))
		st.raise = strings.Replace(st.raise, "GREATEST", "MAX", 1)
	}
	st.raise = f.bind(st.raise)
	return f, nil
}

// table returns the name of a table as SQL. On SQLite it names the table of the main file.
func (f *Fence) table(name string) string {
	if f.dialect == SQLite {
		name = "main." + name
	}
	return f.quote(name)
}

// quote quotes a name, which matches names. If there is no column a, SQLite reads "a" as a text, so
// backquotes are used there.
func (f *Fence) quote(name string) string {
	quote := "`"
	if f.dialect == PostgreSQL {
		quote = `"`
	}
	return quote + strings.ReplaceAll(name, ".", quote+"."+quote) + quote
}

// bind writes the parameters of a query in the database's syntax. SQLite accepts $1, too.
func (f *Fence) bind(query string) string {
	if f.dialect != MySQL {
		return query
	}
	return strings.NewReplacer("$1", "?", "$2", "?").Replace(query)
}

// Create creates the fence's table and, on PostgreSQL, its sequence. If the fence exists, Create
// changes nothing, and needs only the right to read it. If a logical replica of PostgreSQL becomes
// the primary, call Create there before any writes.
//
// Writers need SELECT on the table; on PostgreSQL also SELECT on the sequence, on MySQL also UPDATE
// on the table. Readers need SELECT and UPDATE on both, and the same rights to the leases' store as
// writers, because they save the watermark there.
//
// On PostgreSQL, fences use the advisory locks (1718579308, ...). Do not use this key otherwise.
func (f *Fence) Create(ctx context.Context, db *sql.DB) error {
	var one int
	if db.QueryRowContext(ctx, f.sql.ready).Scan(&one) == nil {
		return nil
	}
	return f.wrap("create", f.inTx(ctx, db, f.sql.create...))
}

// inTx runs statements in a transaction.
func (f *Fence) inTx(ctx context.Context, db *sql.DB, statements ...string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Queryer is a transaction, such as *sql.Tx, *Tx, the *sqlx.Tx of sqlx, the bun.Tx of bun, or the
// ConnPool of GORM.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Check must be the last statement of a transaction that inserts rows, the least of whose IDs is
// first. If a reader has passed first, the error matches [ErrLate]: roll back, and repeat the
// transaction with new IDs. If Check returns nil, no reader passes first until the transaction
// ends. A transaction that inserts rows under several fences must check each of them.
//
// Call [lease.Lease.Hold] before the transaction's first ID, and the function that it returns after
// the commit. Otherwise Check will often fail.
//
// HAZARD: a connection without a transaction, such as a *sql.Conn. Check cannot distinguish it from
// a transaction, and its lock ends with the statement.
//
// HAZARD: a savepoint. If Check runs after a savepoint that is rolled back, PostgreSQL releases its
// lock, and the rows may be missed. So call Check outside savepoints and a mapper's nested
// transactions.
func (f *Fence) Check(ctx context.Context, tx Queryer, first snowflake.ID) error {
	if _, is := tx.(interface{ Stats() sql.DBStats }); is {
		return fmt.Errorf("%w: Check needs the transaction, not the database: its lock would end with the statement", ErrInvalid)
	}
	var at snowflake.ID
	if err := tx.QueryRowContext(ctx, f.sql.check).Scan(&at); err != nil {
		return f.wrap("check", late(err))
	}
	if first <= at {
		return fmt.Errorf("%w: the least is %v, and fence %s is at %v", ErrLate, first, f.name, at)
	}
	return nil
}

// SQL returns the statement of [Fence.Check], for transactions that are not a [Queryer], such as a
// pgx.Tx. It has no parameters, and returns one ID. If the transaction's least ID is not greater,
// the transaction is late: roll back, and repeat it with new IDs.
func (f *Fence) SQL() string { return f.sql.check }

// trigger has the statements of Trigger, with ;; between two.
//
//go:embed trigger.sql
var trigger string

// Trigger makes PostgreSQL check the fence at the commit of each transaction, of any program, that
// inserts a row into table, or changes its ID, which is in column. Call it once for each such
// column, as the table's owner: it creates or replaces a function and two deferred constraint
// triggers, named after the fence and the column. Rows may be updated at any time, except their
// ID; a row whose ID a reader has passed can no longer be inserted.
//
// In a partitioned table, the triggers check the rows of all partitions. An UPDATE that moves a row
// to another partition inserts it there, and fails if a reader has passed the row. The rows of a
// table that becomes a partition (ATTACH PARTITION) are not checked, nor are those of tables that
// inherit from table: call Trigger for each of these. No trigger fires while
// session_replication_role is replica, as in a restore without triggers.
//
// If a transaction is late, COMMIT or SET CONSTRAINTS ALL IMMEDIATE fails with the SQLSTATE SNF01,
// and [Writer.Do] repeats the transaction.
//
// On other databases Trigger returns an error that matches [errors.ErrUnsupported].
func (f *Fence) Trigger(ctx context.Context, db *sql.DB, table, column string) error {
	switch {
	case f.dialect != PostgreSQL:
		return f.wrap("trigger", fmt.Errorf("only PostgreSQL has deferred triggers: %w", errors.ErrUnsupported))
	case !names.MatchString(table) || !names.MatchString(column) || strings.Contains(column, "."):
		return fmt.Errorf("%w: table %q or column %q is not a name of up to 63 letters, digits and underscores", ErrInvalid, table, column)
	}
	base := f.name[strings.Index(f.name, ".")+1:]
	name := base + "/" + column // unique except for a fence of the same name in another schema
	if len(name+"/update") > 63 {
		return fmt.Errorf("%w: PostgreSQL would cut the trigger's name %s/update after 63 characters", ErrInvalid, name)
	}
	var schema string
	query := `SELECT quote_ident(nspname) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
	WHERE pg_class.oid = '` + f.quote(f.name) + `'::regclass`
	if err := db.QueryRowContext(ctx, query).Scan(&schema); err != nil {
		return f.wrap("trigger", err)
	}
	r := strings.NewReplacer("{function}", schema+`."`+name+`"`, "{sequence}", schema+"."+f.quote(base+"_mark"),
		"{name}", name, "{table}", f.quote(table), "{column}", f.quote(column), "{class}", fencesql.Class)
	return f.wrap("trigger", f.inTx(ctx, db, strings.Split(r.Replace(trigger), ";;")...))
}

// late returns err. If it is the error of Trigger or MariaDB's 1020 (a row has changed since the
// transaction's snapshot), the result also matches ErrLate.
func late(err error) error {
	if sqlerror.Has(err, "SNF01", "1020") {
		return fmt.Errorf("%w: %w", ErrLate, err)
	}
	return err
}

// wrap adds the fence's name and the operation to an error of the database.
func (f *Fence) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	missing := sqlerror.Has(err, "42P01", "1146") || strings.Contains(err.Error(), "no such table")
	if errors.Is(err, sql.ErrNoRows) || missing && strings.Contains(err.Error(), f.name) {
		err = fmt.Errorf("call Fence.Create: %w", err)
	}
	return fmt.Errorf("follow: fence %s: %s: %w", f.name, what, err)
}
