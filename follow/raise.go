package follow

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// errBusy says that the fence was not raised because writers hold its lock.
var errBusy = errors.New("transactions that have checked the fence are still open")

// reach returns the fence's row. A statement that begins now sees every row up to it.
func (f *Fence) reach(ctx context.Context, q Queryer) (id snowflake.ID, err error) {
	return id, f.wrap("read", q.QueryRowContext(ctx, f.sql.reached).Scan(&id))
}

// raiseTo raises the fence to an ID, unless it has reached it, or is below after, or another reader
// is raising it. It returns where the fence was found, or was left. While it waits for writers on
// PostgreSQL, it calls waits with the server's processes that run them.
func (f *Fence) raiseTo(ctx context.Context, db *sql.DB, after, to snowflake.ID, waits func(pids []int)) (at snowflake.ID, err error) {
	defer func() {
		if err != nil && (hasNumber(err, 1205) || f.dialect == SQLite && strings.Contains(err.Error(), "locked")) {
			err = errBusy
		}
	}()
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	o := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	switch f.dialect {
	case MySQL:
		o.Isolation = sql.LevelRepeatableRead // READ COMMITTED needs a binary log of rows
		patient, err := impatient(ctx, conn)
		if err != nil {
			return 0, err
		}
		defer patient()
	case SQLite:
		o = nil
	}
	tx, err := conn.BeginTx(ctx, o)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	if f.dialect == PostgreSQL {
		if at, err = f.raiseMark(ctx, tx, after, to, waits); err != nil || at < after || at >= to {
			return at, err
		}
	}
	if _, err = tx.ExecContext(ctx, f.sql.raise, int64(to), int64(after)); err != nil {
		return 0, err
	}
	if at, err = f.reach(ctx, tx); err != nil {
		return 0, err
	}
	return at, tx.Commit()
}

// impatient lets a MySQL connection wait for writers for at most a second, because new writers wait
// behind it. The function that it returns sets the limit back.
func impatient(ctx context.Context, conn *sql.Conn) (patient func(), err error) {
	const limit = `SET SESSION innodb_lock_wait_timeout = `
	var was string
	if err := conn.QueryRowContext(ctx, `SELECT @@innodb_lock_wait_timeout`).Scan(&was); err != nil {
		return nil, err
	}
	_, err = conn.ExecContext(ctx, limit+`1`)
	return func() {
		if _, err := conn.ExecContext(ctx, limit+was); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // it would keep our limit
		}
	}, err
}

// raiseMark raises PostgreSQL's sequence first, so that every later check compares with it, and then
// waits for the transactions that checked earlier. Readers take turns. Otherwise one could lower the
// sequence, or set the row while the other still waits. raiseMark returns where the row is.
func (f *Fence) raiseMark(ctx context.Context, tx *sql.Tx, after, to snowflake.ID, waits func(pids []int)) (at snowflake.ID, err error) {
	var ours bool
	if err := tx.QueryRowContext(ctx, f.sql.turn).Scan(&ours); err != nil || !ours {
		return to, err
	}
	if at, err = f.reach(ctx, tx); err != nil || at < after || at >= to {
		return at, err
	}
	if _, err := tx.ExecContext(ctx, f.sql.mark, int64(to)); err != nil {
		return 0, err
	}
	open, err := f.holders(ctx, tx)
	for pause := 2 * time.Millisecond; err == nil && len(open) > 0; pause = min(2*pause, 250*time.Millisecond) {
		waits(slices.Sorted(maps.Values(open)))
		if err := sleep(ctx, pause); err != nil {
			return 0, err
		}
		var now map[string]int
		now, err = f.holders(ctx, tx)
		maps.DeleteFunc(open, func(transaction string, _ int) bool {
			_, holds := now[transaction]
			return !holds
		})
	}
	return at, err
}

// holders returns the transactions that hold the writers' lock, and the server's processes that run
// them. A transaction keeps its name when it is prepared, and its process is then 0.
func (f *Fence) holders(ctx context.Context, tx *sql.Tx) (map[string]int, error) {
	rows, err := tx.QueryContext(ctx, f.sql.holders)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]int{}
	for rows.Next() {
		var transaction string
		var pid int
		if err := rows.Scan(&transaction, &pid); err != nil {
			return nil, err
		}
		all[transaction] = pid
	}
	return all, rows.Err()
}

// sleep waits, and returns ctx's error if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
