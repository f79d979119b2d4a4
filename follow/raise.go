package follow

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/sqlerror"
)

// stallsAfter is the age at which a stall is logged.
const stallsAfter = 5 * time.Second

// busy returns the stall of a reader that cannot raise the fence while writers hold its lock.
func busy(attrs ...any) *stall {
	return &stall{why: "waiting for transactions that have checked the fence and stay open", after: stallsAfter, attrs: attrs}
}

// read returns the ID in the fence's row. A statement that begins now sees every row up to it.
func (f *Fence) read(ctx context.Context, q Queryer) (at snowflake.ID, err error) {
	return at, f.wrap("read", q.QueryRowContext(ctx, f.sql.read).Scan(&at))
}

// raiseTo raises the fence to an ID, unless the fence is there already, or is below after. It
// returns the ID in the fence's row. While raiseTo waits for writers on PostgreSQL, it calls
// stalled.
func (f *Fence) raiseTo(ctx context.Context, db *sql.DB, after, to snowflake.ID, stalled func(*stall)) (at snowflake.ID, err error) {
	defer func() {
		if err != nil && (sqlerror.Has(err, "1205") || f.dialect == SQLite && strings.Contains(err.Error(), "locked")) {
			err = busy()
		}
	}()
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if f.dialect == MySQL {
		restore, err := limitLockWait(ctx, conn)
		if err != nil {
			return 0, err
		}
		defer restore()
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: f.raises})
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	if f.dialect == PostgreSQL {
		if at, err = f.raiseSequence(ctx, tx, after, to, stalled); err != nil || at < after || at >= to {
			return at, err
		}
	}
	if _, err = tx.ExecContext(ctx, f.sql.raise, int64(to), int64(after)); err != nil {
		return 0, err
	}
	if at, err = f.read(ctx, tx); err != nil {
		return 0, err
	}
	return at, tx.Commit()
}

// limitLockWait makes a MySQL connection wait for a lock for a second at most, because new writers
// wait behind it. restore sets the previous limit.
func limitLockWait(ctx context.Context, conn *sql.Conn) (restore func(), err error) {
	const limit = `SET SESSION innodb_lock_wait_timeout = `
	var was string
	if err := conn.QueryRowContext(ctx, `SELECT @@innodb_lock_wait_timeout`).Scan(&was); err != nil {
		return nil, err
	}
	_, err = conn.ExecContext(ctx, limit+`1`)
	return func() {
		if _, err := conn.ExecContext(ctx, limit+was); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // discard the connection
		}
	}, err
}

// raiseSequence raises PostgreSQL's sequence, so that every later check compares with it, and waits
// for the transactions that checked earlier. It returns the ID in the fence's row. Readers take
// turns: otherwise one could lower the sequence, or set the row while another waits for writers.
func (f *Fence) raiseSequence(ctx context.Context, tx *sql.Tx, after, to snowflake.ID, stalled func(*stall)) (at snowflake.ID, err error) {
	var acquired bool
	if err := tx.QueryRowContext(ctx, f.sql.turn).Scan(&acquired); err != nil {
		return 0, err
	}
	if !acquired {
		_, s, err := f.holders(ctx, tx, f.name, "")
		s.why = "waiting for another reader, which is raising the fence"
		return 0, cmp.Or(err, error(s))
	}
	if at, err = f.read(ctx, tx); err != nil || at < after || at >= to {
		return at, err
	}
	if _, err := tx.ExecContext(ctx, f.sql.setSeq, int64(to)); err != nil {
		return 0, err
	}
	open, s, err := f.holders(ctx, tx, f.name+"_mark", "")
	for pause := 2 * time.Millisecond; err == nil && open != ""; pause = min(2*pause, 250*time.Millisecond) {
		stalled(s)
		if err = sleep(ctx, pause); err == nil {
			open, s, err = f.holders(ctx, tx, f.name+"_mark", open)
		}
	}
	return at, err
}

// holders returns the transactions that hold the advisory lock of a table or a sequence, and a
// stall that names their processes. If some is not empty, only those in it count. A prepared
// transaction has no process.
func (f *Fence) holders(ctx context.Context, tx *sql.Tx, of, some string) (open string, s *stall, err error) {
	var pids string
	err = tx.QueryRowContext(ctx, f.sql.holders, f.quote(of), some).Scan(&open, &pids)
	return open, busy("processes", cmp.Or(pids, "none: the transaction is prepared, see pg_prepared_xacts")), err
}

// sleep waits for d. If ctx ends first, it returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
