package follow

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Dialect is the SQL of a kind of database.
type Dialect uint8

const (
	PostgreSQL Dialect = iota + 1 // 10 or later; with prepared transactions, of November 2021 or later
	MySQL                         // 5.7 or later, and MariaDB
	SQLite                        // 3.24 or later
)

var (
	// ErrLate is matched by the error of [Fence.Check], and of a commit under [Fence.Trigger], if a
	// reader has passed the transaction's IDs. Roll back, and try again with new IDs, as
	// [Writer.Do] does.
	ErrLate = errors.New("follow: a reader has passed the transaction's IDs")

	// ErrRewound is matched by the error of [Reader.Next] and [Reader.Read] if the primary's fence
	// is below the cursor. So commits of the primary were lost, in a failover or a restore. The
	// next call goes on from the fence: rows may come twice.
	ErrRewound = errors.New("follow: the fence was set back")

	// ErrInvalid is matched by the error of NewFence and Trigger for a name or Dialect that is not
	// allowed.
	ErrInvalid = errors.New("follow: invalid argument")
)

// Fence stops the commit of a transaction whose IDs were passed by a reader. Make one for each
// table, or for the tables that are read together, and share it: then the readers of a process read
// the watermark together. Its methods may be called by any number of goroutines.
type Fence struct {
	dialect Dialect
	name    string
	sql     statements

	mu       sync.Mutex
	readings map[lease.Store]*reading
}

// statements are the SQL of a fence. $1 and $2 are parameters.
type statements struct {
	ready   string   // finds a row if the fence is there, and needs nothing
	create  []string // in a transaction
	check   string   // locks for sharing, and then reads the mark
	reached string   // reads the fence's row: what readers may read up to
	raise   string   // sets the row to $1, unless it is greater
	turn    string   // PostgreSQL: whether no other reader is raising the fence
	mark    string   // PostgreSQL: makes the writers of later checks compare their IDs with $1
	holders string   // PostgreSQL: lists the transactions that have made their check, and have not ended
}

// Names have 63 characters at most in PostgreSQL.
var names = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,49}\.)?[A-Za-z_][A-Za-z0-9_]{0,49}$`)

// class is the first key of the fences' advisory locks. The second key is an oid: of the sequence
// for writers, and of the table for readers.
const class = "1718579308"

// NewFence returns a fence that consists of a table with this name, or schema.name, and, on
// PostgreSQL, of a sequence with "_mark" added to the name. The name has ASCII letters, digits and
// underscores, 50 at most, and its case counts. NewFence does not talk to the database.
func NewFence(d Dialect, name string) (*Fence, error) {
	switch {
	case d < PostgreSQL || d > SQLite:
		return nil, fmt.Errorf("%w: Dialect %d is unknown", ErrInvalid, d)
	case !names.MatchString(name):
		return nil, fmt.Errorf("%w: %q is not name or schema.name of letters, digits and underscores", ErrInvalid, name)
	}
	f := &Fence{dialect: d, name: name, readings: map[lease.Store]*reading{}}
	st := &f.sql
	st.ready = `SELECT 1 FROM {t} WHERE one = 1`
	st.create = []string{`CREATE TABLE IF NOT EXISTS {t} (one SMALLINT PRIMARY KEY, id BIGINT NOT NULL)`}
	st.check = `SELECT id FROM {t} WHERE one = 1`
	st.reached = st.check
	st.raise = `UPDATE {t} SET id = GREATEST(id, $1) WHERE one = 1`
	switch d {
	case PostgreSQL:
		st.ready = `SELECT 1 FROM {t} AS t, {m} AS m WHERE t.one = 1 AND m.is_called AND m.last_value >= t.id`
		st.create = append([]string{`SELECT pg_advisory_xact_lock({class}, hashtext('{m}'))`}, append(st.create,
			`INSERT INTO {t} VALUES (1, 0) ON CONFLICT DO NOTHING`,
			`CREATE SEQUENCE IF NOT EXISTS {m} MINVALUE 0 OWNED BY {t}.id`,
			`SELECT pg_advisory_xact_lock({class}, '{t}'::regclass::oid::int)`,
			// Logical replication copies the row, and not the sequence.
			`SELECT setval('{m}', GREATEST(t.id, CASE WHEN m.is_called THEN m.last_value ELSE 0 END)) FROM {t} AS t, {m} AS m`)...)
		// CASE evaluates its condition first. The sequence is read as it is then, and not in the
		// statement's snapshot.
		st.check = `SELECT CASE WHEN pg_advisory_xact_lock_shared({class}, '{m}'::regclass::oid::int) IS NULL THEN NULL ELSE pg_sequence_last_value('{m}') END`
		st.turn = `SELECT pg_try_advisory_xact_lock({class}, '{t}'::regclass::oid::int)`
		st.mark = `SELECT setval('{m}', $1) FROM {m} WHERE last_value < $1`
		st.holders = `SELECT virtualtransaction, COALESCE(pid, 0) FROM pg_locks
			WHERE locktype = 'advisory' AND classid = {class} AND objid = '{m}'::regclass AND objsubid = 2
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	case MySQL:
		st.create[0] += ` ENGINE=InnoDB`
		st.create = append(st.create, `INSERT IGNORE INTO {t} VALUES (1, 0)`)
		// innodb_snapshot_isolation would refuse the row if it was raised since the transaction's
		// snapshot.
		st.check = `/*M!101108 SET STATEMENT innodb_snapshot_isolation = OFF FOR */ ` + st.check + ` LOCK IN SHARE MODE`
	default:
		st.create = append(st.create, `INSERT INTO {t} VALUES (1, 0) ON CONFLICT DO NOTHING`)
		st.raise = strings.Replace(st.raise, "GREATEST", "MAX", 1)
	}
	r := strings.NewReplacer("{t}", f.quote(name), "{m}", f.quote(name+"_mark"), "{class}", class)
	for _, text := range []*string{&st.ready, &st.check, &st.reached, &st.raise, &st.turn, &st.mark, &st.holders} {
		*text = r.Replace(*text)
	}
	for i := range st.create {
		st.create[i] = r.Replace(st.create[i])
	}
	st.raise = f.bind(st.raise)
	return f, nil
}

// quote returns a name that matches names as SQL.
func (f *Fence) quote(name string) string {
	quote := `"`
	if f.dialect == MySQL {
		quote = "`"
	}
	return quote + strings.ReplaceAll(name, ".", quote+"."+quote) + quote
}

// bind returns a query with parameters as the database writes them. SQLite can read $1.
func (f *Fence) bind(query string) string {
	if f.dialect != MySQL {
		return query
	}
	return strings.NewReplacer("$1", "?", "$2", "?").Replace(query)
}

// Create makes the fence if it does not exist: its table and, on PostgreSQL, its sequence. If the fence is there, Create
// needs no rights but to read it. After a logical replica of PostgreSQL has become the
// primary, call it before anything is written.
//
// Afterwards writers need the right to SELECT from the table, on PostgreSQL also from the sequence, and on MySQL
// also to UPDATE the table. Readers need to SELECT and UPDATE both.
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

// Queryer is a transaction: *sql.Tx, *Tx, the *sqlx.Tx of sqlx, the bun.Tx of bun, the ConnPool of GORM.
type Queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Check is the last statement of a transaction that inserts rows. If the fence has passed first, the least of
// their IDs, the error matches [ErrLate]: roll back, and try again with new IDs. After Check, nothing
// passes them until the transaction has ended.
//
// Take a Hold of the lease before the first ID, and end it after the commit, or Check will often fail.
func (f *Fence) Check(ctx context.Context, tx Queryer, first snowflake.ID) error {
	var mark snowflake.ID
	if err := tx.QueryRowContext(ctx, f.sql.check).Scan(&mark); err != nil {
		return f.wrap("check", late(err))
	}
	if first <= mark {
		return f.wrap("check", fmt.Errorf("%w: the least is %v, the fence is at %v", ErrLate, first, mark))
	}
	return nil
}

// SQL returns the statement of Check, for transactions that are no [Queryer], such as a pgx.Tx. It has no parameters, and
// returns an ID. If the least of the transaction's IDs is not greater, roll back.
func (f *Fence) SQL() string { return f.sql.check }

// Trigger has PostgreSQL check the fence at the commit of each transaction that inserts rows into table or
// changes their column, which has the ID. So rows of all programs are fenced. It makes a function and a deferred constraint
// trigger, named after the fence, or replaces them; call it once, as the table's owner. In a
// transaction that is late, COMMIT or SET CONSTRAINTS ALL IMMEDIATE fails, with the SQLSTATE SNF01 and, from
// Writer.Do, an error that matches [ErrLate].
//
// On other databases the error is [errors.ErrUnsupported].
func (f *Fence) Trigger(ctx context.Context, db *sql.DB, table, column string) error {
	switch {
	case f.dialect != PostgreSQL:
		return f.wrap("trigger", errors.ErrUnsupported)
	case !names.MatchString(table) || !names.MatchString(column) || strings.Contains(column, "."):
		return f.wrap("trigger", fmt.Errorf("%w: table %q, column %q", ErrInvalid, table, column))
	}
	// The function runs with the rights of its owner, and of the caller's search_path it knows nothing.
	var schema string
	if err := db.QueryRowContext(ctx, `SELECT quote_ident(nspname) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE pg_class.oid = '`+
		f.quote(f.name)+`'::regclass`).Scan(&schema); err != nil {
		return f.wrap("trigger", err)
	}
	base := f.name[strings.Index(f.name, ".")+1:]
	function := schema + "." + f.quote(base+"_"+column)
	mark := schema + "." + f.quote(base+"_mark")
	r := strings.NewReplacer("{function}", function, "{mark}", mark, "{trigger}", f.quote(base), "{table}", f.quote(table), "{column}", f.quote(column), "{class}", class)
	return f.wrap("trigger", f.inTx(ctx, db, r.Replace(`
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM pg_advisory_xact_lock_shared({class}, '{mark}'::regclass::oid::int);
	IF NEW.{column} <= (SELECT last_value FROM {mark}) THEN
		RAISE EXCEPTION 'a reader has passed the ID %', NEW.{column} USING ERRCODE = 'SNF01', HINT = 'Roll back, and try again with new IDs.';
	END IF;
	RETURN NULL;
END $$`),
		r.Replace(`DROP TRIGGER IF EXISTS {trigger} ON {table}`),
		r.Replace(`CREATE CONSTRAINT TRIGGER {trigger} AFTER INSERT OR UPDATE OF {column} ON {table}
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE PROCEDURE {function}()`)))
}

// late returns err, and makes it match ErrLate if it says that the transaction is late: the error of Trigger, or MariaDB's 1020,
// the row has changed since the transaction's snapshot.
func late(err error) error {
	var e interface{ SQLState() string }
	if errors.As(err, &e) && e.SQLState() == "SNF01" || hasNumber(err, 1020) {
		return fmt.Errorf("%w: %w", ErrLate, err)
	}
	return err
}

// hasNumber reports whether err is MySQL's error with this number. No driver is imported here, so it is recognized by
// its text, as github.com/go-sql-driver/mysql writes it.
func hasNumber(err error, number int) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.HasPrefix(err.Error(), fmt.Sprintf("Error %d ", number)) {
			return true
		}
	}
	return false
}

func (f *Fence) wrap(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		err = fmt.Errorf("the table has no row, call Fence.Create: %w", err)
	}
	return fmt.Errorf("follow: fence %s: %s: %w", f.name, what, err)
}
