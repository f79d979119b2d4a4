package follow

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Options are the settings of a [Reader]. The zero value consists entirely of defaults, and so does
// nil.
type Options struct {
	// Every is how often the reader looks for new rows and, if there are any, reads the watermark.
	// While there are none, the wait grows to five times as much. 0: a second.
	Every time.Duration

	// Replica is where [Reader.Read] reads: a replica of the primary or, behind one address,
	// several. Nil: the primary.
	Replica *sql.DB

	// Table is the table that is read, or schema.table. Then a span has rows, and Rows of them at
	// most; and the fence is raised only if there are new rows. Empty: the reader knows nothing of
	// the rows, so a span may be empty, and the first one after a week is a week long.
	Table  string
	Column string // the column of the IDs, with an index; empty: "id"
	Rows   int    // 0: 1,000

	// Logger gets a warning when something keeps the reader from reading, and information when that
	// is over. Nil: slog.Default().
	Logger *slog.Logger
}

// Span are the IDs above After and up to UpTo.
type Span struct{ After, UpTo snowflake.ID }

// Reader reads rows in spans of IDs, in which every row that will ever be there is there. Any
// number of goroutines may call its methods; Next and Read take turns. It needs no Close.
type Reader struct {
	db      *sql.DB
	fence   *Fence
	o       Options
	count   string // counts the rows of a span, Rows at most, and finds the last one
	first   string // finds the first row above an ID
	reading *reading

	turn  chan struct{} // a lock with room for one, which guards the rest
	after snowflake.ID
	idle  time.Duration // how long to wait while there is nothing new
	well  bool          // a try has succeeded,
	bad   error         // and the last one failed with this error
}

// NewReader returns a reader of the rows whose IDs are above after: 0, or the UpTo of the last span
// whose work was done. s is the store of all writers' leases, and db the primary. NewReader panics
// if opts has a Table or Column that is not a name, or schema.name, of letters, digits and
// underscores.
func NewReader(s lease.Store, db *sql.DB, f *Fence, after snowflake.ID, opts *Options) *Reader {
	r := &Reader{db: db, fence: f, reading: f.reading(s), turn: make(chan struct{}, 1), after: after}
	if opts != nil {
		r.o = *opts
	}
	r.o.Every = cmp.Or(max(0, r.o.Every), time.Second)
	r.o.Logger = cmp.Or(r.o.Logger, slog.Default())
	r.idle = r.o.Every
	if r.o.Table != "" {
		column := cmp.Or(r.o.Column, "id")
		if !names.MatchString(r.o.Table) || !names.MatchString(column) {
			panic(fmt.Sprintf("follow: Options.Table %q or Column %q is not a name", r.o.Table, column))
		}
		from := `SELECT ` + f.quote(column) + ` AS id FROM ` + f.quote(r.o.Table) + ` WHERE ` + f.quote(column)
		order := ` ORDER BY ` + f.quote(column) + ` LIMIT `
		rows := cmp.Or(max(0, r.o.Rows), 1000)
		r.count = f.bind(fmt.Sprintf(`SELECT COUNT(*), COALESCE(MAX(id), 0) FROM (%s > $1 AND %s <= $2%s%d) AS s`, from, f.quote(column), order, rows))
		r.first = f.bind(from + ` > $1` + order + `1`)
		r.o.Rows = rows
	}
	return r
}

// Mark returns the last reading of the watermark. It says who keeps the watermark back, if somebody
// does.
func (r *Reader) Mark() lease.Mark {
	if m := r.reading.mark.Load(); m != nil {
		return *m
	}
	return lease.Mark{}
}

// Next waits for the next span, and returns it. Read WHERE id > s.After AND id <= s.UpTo ORDER BY
// id on the primary, in a statement (at READ COMMITTED) or a transaction that begins after Next has
// returned; then keep s.UpTo as the cursor. The next call takes the span for done: if the work
// failed, make a new Reader with the cursor that you kept.
//
// Next returns an error if ctx has ended, if the fence was set back ([ErrRewound]), or if a new
// reader's first try fails. It waits for the end of other outages, which it logs.
func (r *Reader) Next(ctx context.Context) (s Span, err error) {
	err = r.await(ctx, func(ctx context.Context, _ func()) (found bool, err error) {
		s, err = r.span(ctx, r.db)
		if found = err == nil && s.UpTo > s.After; found {
			r.after = s.UpTo
		}
		return found, err
	})
	if err != nil {
		return Span{}, err
	}
	return s, nil
}

// Read waits for the next span, and calls fn in a read transaction that sees every row of it: a
// transaction of Options.Replica, or of the primary, with one snapshot. If fn returns nil, the
// reader goes on after the span; keep s.UpTo as the cursor. If fn returns an error, Read returns
// it, and the next Read begins with the same rows. Other errors are those of Next.
//
// A long transaction keeps PostgreSQL from vacuuming, and a replica may end it. So do not wait in
// fn for long.
func (r *Reader) Read(ctx context.Context, fn func(tx *sql.Tx, s Span) error) error {
	var failed error
	err := r.await(ctx, func(ctx context.Context, patient func()) (found bool, err error) {
		o := &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
		if r.fence.dialect == SQLite {
			o.Isolation = sql.LevelDefault // each transaction has one snapshot
		}
		tx, err := cmp.Or(r.o.Replica, r.db).BeginTx(ctx, o)
		if err != nil {
			return false, err
		}
		defer tx.Rollback()
		s, err := r.span(ctx, tx) // the snapshot is taken here
		if err != nil || s.UpTo == s.After {
			return false, err
		}
		patient()
		if failed = fn(tx, s); failed == nil {
			r.after = s.UpTo
		}
		return true, nil
	})
	return cmp.Or(err, failed)
}

// await looks for a span until there is one, and raises the fence when there is something to read.
func (r *Reader) await(ctx context.Context, look func(ctx context.Context, patient func()) (bool, error)) error {
	if err := lock(ctx, r.turn); err != nil {
		return err
	}
	defer func() { <-r.turn }()
	for {
		found, wait, err := r.try(ctx, look)
		if found || err == nil {
			r.fine()
		}
		switch {
		case found:
			r.idle = r.o.Every
			return nil
		case errors.Is(err, ErrRewound):
			return err
		case ctx.Err() != nil:
			return r.ended(ctx, err)
		case err != nil:
			if !r.well && !errors.Is(err, lease.ErrWiped) && err != errBusy {
				return fmt.Errorf("follow: the reader's first try: %w", err)
			}
			r.fails(err)
			wait = r.rest()
		}
		if err := sleep(ctx, wait); err != nil {
			return r.ended(ctx, nil)
		}
	}
}

// patience is how long a database or the store may be silent before the reader tries again on
// another connection.
const patience = 30 * time.Second

var errSilent = fmt.Errorf("no answer within %v", patience)

// try looks for a span. If there is none, it raises the fence and looks again. If there is still
// none, it returns how long to wait.
func (r *Reader) try(parent context.Context, look func(ctx context.Context, patient func()) (bool, error)) (found bool, wait time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	silence := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer silence.Stop()
	found, err = look(ctx, func() { silence.Stop() })
	if err == nil && !found {
		if wait, err = r.raise(ctx, func() { silence.Reset(patience) }); err == nil && wait == 0 {
			silence.Reset(patience)
			if found, err = look(ctx, func() { silence.Stop() }); !found {
				wait = r.o.Every / 10 // the replica lags, or another reader is raising the fence
			}
		}
	}
	if err != nil && context.Cause(ctx) == errSilent && parent.Err() == nil {
		err = fmt.Errorf("%w: %w", errSilent, err)
	}
	return found, wait, err
}

// span returns the next span that q shows, which is empty if there is none.
func (r *Reader) span(ctx context.Context, q Queryer) (Span, error) {
	s := Span{r.after, r.after}
	reached, err := r.fence.reach(ctx, q)
	switch {
	case err != nil:
		return s, err
	case reached <= r.after || r.o.Table == "":
		s.UpTo = max(r.after, reached)
		return s, nil
	}
	var n int
	var last snowflake.ID
	if err := q.QueryRowContext(ctx, r.count, int64(r.after), int64(reached)).Scan(&n, &last); err != nil || n == 0 {
		return s, err
	}
	if s.UpTo = reached; n == r.o.Rows {
		s.UpTo = last
	}
	return s, nil
}

// raise raises the fence if there is something to read above it. It returns how long to wait before
// looking again, at least on the primary.
func (r *Reader) raise(ctx context.Context, alive func()) (wait time.Duration, err error) {
	reached, err := r.fence.reach(ctx, r.db)
	if err != nil {
		return 0, err
	}
	if reached < r.after {
		err := fmt.Errorf("%w: %s is at %v, the cursor at %v, so the primary has lost commits; the next span begins at the fence", ErrRewound, r.fence.name, reached, r.after)
		r.after = reached
		return 0, err
	}
	first := r.after + 1
	if r.o.Table != "" {
		err := r.db.QueryRowContext(ctx, r.first, int64(r.after)).Scan(&first)
		if errors.Is(err, sql.ErrNoRows) {
			return r.rest(), nil
		}
		if err != nil {
			return 0, err
		}
	}
	if first <= reached { // another reader has raised it, or the replica lags
		return 0, nil
	}
	alive()
	m, err := r.reading.read(ctx, r.o.Every)
	switch {
	case err != nil:
		return 0, err
	case m.ID >= first:
		r.idle = r.o.Every
		return 0, r.fence.raiseTo(ctx, r.db, m.ID, r.waits(alive))
	case r.o.Table == "":
		return r.rest(), nil
	}
	return r.o.Every, nil
}

// rest returns how long to wait if nothing is new: longer each time.
func (r *Reader) rest() time.Duration {
	wait := r.idle
	r.idle = min(2*r.idle, 5*r.o.Every)
	return wait
}

// waits returns a function that says, once and after 5 s, for which processes of the server a raise
// waits.
func (r *Reader) waits(alive func()) func(pids []int) {
	begun, said := time.Now(), false
	return func(pids []int) {
		alive()
		if !said && time.Since(begun) > 5*time.Second {
			said = true
			r.o.Logger.Warn("follow: the fence waits for transactions that have made their check and do not end; 0 is a prepared one", "fence", r.fence.name, "pids", pids)
		}
	}
}

// fails logs a new trouble. It is no news that writers have the fence.
func (r *Reader) fails(err error) {
	news := r.bad == nil || r.bad.Error() != err.Error()
	if r.bad = err; news && err != errBusy {
		r.o.Logger.Warn("follow: cannot read, and keeps trying", "fence", r.fence.name, "err", err)
	}
}

func (r *Reader) fine() {
	if r.bad != nil && r.bad != errBusy {
		r.o.Logger.Info("follow: reads again", "fence", r.fence.name)
	}
	r.well, r.bad = true, nil
}

// ended returns the error of a context that has ended, and what kept the reader from reading until
// then.
func (r *Reader) ended(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ctx.Err()) {
		err = r.bad
	}
	if err == nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// lock locks a channel with room for one.
func lock(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reading is what the readers of a fence in this process know of the watermark. turn is a lock with
// room for one.
type reading struct {
	turn   chan struct{}
	reader *lease.WatermarkReader
	at     time.Time
	err    error
	mark   atomic.Pointer[lease.Mark] // the last one that was read without an error
}

// reading returns the reading of a store that all readers share. A store that is no key of a map is
// not shared.
func (f *Fence) reading(s lease.Store) *reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &reading{turn: make(chan struct{}, 1), reader: lease.NewWatermarkReader(s)}
	if !reflect.ValueOf(s).Comparable() {
		return r
	}
	if shared := f.readings[s]; shared != nil {
		return shared
	}
	f.readings[s] = r
	return r
}

// read reads the watermark, unless it was read not long ago.
func (r *reading) read(ctx context.Context, fresh time.Duration) (lease.Mark, error) {
	if err := lock(ctx, r.turn); err != nil {
		return lease.Mark{}, err
	}
	defer func() { <-r.turn }()
	if r.at.IsZero() || time.Since(r.at) >= fresh {
		m, err := r.reader.Read(ctx)
		if ctx.Err() != nil { // it is this call's error, and not the other readers'
			return m, err
		}
		if r.at, r.err = time.Now(), err; err == nil {
			r.mark.Store(&m)
		}
	}
	if r.err != nil {
		return lease.Mark{}, r.err
	}
	return *r.mark.Load(), nil
}
