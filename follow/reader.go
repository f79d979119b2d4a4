package follow

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/cause"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Options holds the settings of a [Reader]. Nil and the zero value mean the defaults.
type Options struct {
	// Every is the interval at which the reader looks for new rows and, if there are any, reads the
	// watermark. If there are none, the interval grows, up to five times Every. The default is one
	// second.
	Every time.Duration

	// Replica is a replica of the primary, or an address of several replicas, from which
	// [Reader.Read] reads. [Reader.Next] ignores it. The default is the primary.
	Replica *sql.DB

	// Table is the table, or schema.table, to read; on SQLite, a table of the main file. Set it
	// unless one fence serves several tables. With it, each span has 1 to Rows rows (none after
	// [ErrRewound]), and the fence is raised only if there are new rows. Without it, a span may
	// have any number of rows, or none.
	Table string

	// Column is the column of Table that holds the IDs. It needs an index. The default is "id".
	Column string

	// Rows is the maximum number of rows in a span, not counting rows that share the last ID. The
	// default is 1,000.
	Rows int

	// Logger receives a warning when the reader cannot continue, and a message when it can again.
	// The default is slog.Default().
	Logger *slog.Logger
}

// Span is the range of IDs above After, up to and including UpTo. After [ErrRewound], UpTo is below
// After: such a span has no IDs, and sets the cursor back.
type Span struct{ After, UpTo snowflake.ID }

// Reader reads rows in spans of IDs. No row is ever added to a span that it has returned. Its
// methods may be called by any number of goroutines; calls of Next and Read wait for one another.
// It needs no Close.
type Reader struct {
	db       *sql.DB
	fence    *Fence
	o        Options
	countSQL string // selects the number of rows of a span, up to Rows, and the last of them
	firstSQL string // selects the first row above an ID
	reading  *reading

	turn     chan struct{} // a lock (a channel with room for one) that guards the fields below
	after    snowflake.ID  // the cursor
	back     *Span         // the next span after ErrRewound; otherwise nil
	watchdog *time.Timer   // ends a try if the database or the store does not answer
	idle     time.Duration // the pause before the next try
	started  bool          // a try has succeeded or stalled
	trouble  error         // the error of the last try, or nil
	since    time.Time     // when trouble's cause began
	logged   string        // the last logged cause since a try succeeded

	counts counts
}

// stall is an error that ends by itself.
type stall struct {
	why   string
	cause string        // if known; a new cause is logged
	after time.Duration // the age at which it is logged
	pause time.Duration // before the next try; 0: Options.Every
	attrs []any         // for the log
}

func (s *stall) Error() string {
	if s.cause == "" {
		return s.why
	}
	return s.why + ": " + s.cause
}

// NewReader returns a reader of the rows with IDs above the cursor after: 0 at first, later the
// UpTo of the last processed span. s is the store of the writers' leases, db the primary, and f the
// writers' fence. NewReader does not connect to them. It panics unless Options.Table and
// Options.Column are names of up to 63 letters, digits and underscores; the table may have a
// schema, except on SQLite.
func NewReader(s lease.Store, db *sql.DB, f *Fence, after snowflake.ID, opts *Options) *Reader {
	r := &Reader{db: db, fence: f, reading: f.reading(s), turn: make(chan struct{}, 1), after: after}
	r.o = *cmp.Or(opts, new(Options))
	r.o.Every = cmp.Or(max(0, r.o.Every), time.Second)
	r.o.Logger = cmp.Or(r.o.Logger, slog.Default())
	r.idle = r.o.Every
	if r.o.Table != "" {
		column := cmp.Or(r.o.Column, "id")
		if !names.MatchString(r.o.Table) || !names.MatchString(column) ||
			f.dialect == SQLite && strings.Contains(r.o.Table, ".") {
			panic(fmt.Sprintf("follow: Options.Table %q or Options.Column %q is not a name of up to 63 letters, "+
				"digits and underscores", r.o.Table, column))
		}
		from := `SELECT ` + f.quote(column) + ` AS id FROM ` + f.table(r.o.Table) + ` WHERE ` + f.quote(column)
		order := ` ORDER BY ` + f.quote(column) + ` LIMIT `
		rows := cmp.Or(max(0, r.o.Rows), 1000)
		r.countSQL = f.bind(fmt.Sprintf(`SELECT COUNT(*), COALESCE(MAX(id), 0) FROM (%s > $1 AND %s <= $2%s%d) AS s`,
			from, f.quote(column), order, rows))
		r.firstSQL = f.bind(from + ` > $1` + order + `1`)
		r.o.Rows = rows
	}
	return r
}

// Next waits for the next span and returns it. Then read WHERE id > s.After AND id <= s.UpTo ORDER
// BY id on the primary, in a new statement or a transaction that begins after Next has returned,
// and store s.UpTo as the cursor before the next call, which continues after the span. If you
// cannot process the rows, make a new Reader with the stored cursor.
//
// Next returns an error if ctx ends, if the fence was set back ([ErrRewound]), or if the first try
// of a new reader fails, for example because the table does not exist. It logs later failures of
// the database or the store, and tries again until it succeeds.
func (r *Reader) Next(ctx context.Context) (Span, error) {
	return r.await(ctx, func(ctx context.Context) (Span, error) { return r.span(ctx, r.db) })
}

// Read waits for the next span, and calls fn in a read-only transaction that sees every row of it,
// on Options.Replica or, if that is nil, on the primary. If fn returns nil, store s.UpTo as the
// cursor, in another transaction, before the next call, which continues after the span. If fn
// returns an error, Read returns it, and the next call begins with the same rows. Other errors are
// those of [Reader.Next].
//
// Collect the rows in fn, and process them after Read has returned: a long transaction keeps
// PostgreSQL from vacuuming, and a replica may cancel it.
func (r *Reader) Read(ctx context.Context, fn func(tx *sql.Tx, s Span) error) error {
	_, err := r.await(ctx, func(ctx context.Context) (Span, error) {
		tx, err := cmp.Or(r.o.Replica, r.db).BeginTx(ctx, &sql.TxOptions{Isolation: r.fence.reads, ReadOnly: true})
		if err != nil {
			return Span{}, err
		}
		defer tx.Rollback()
		s, err := r.span(ctx, tx) // the snapshot is taken here
		if err == nil && s.UpTo != s.After {
			r.watchdog.Stop()
			if err = fn(tx, s); err != nil {
				err = failure{err}
			}
		}
		return s, err
	})
	return err
}

// failure is an error of the user's fn.
type failure struct{ error }

// await tries until there is a span, and returns it. It logs stalls and errors, except an error
// that it returns.
func (r *Reader) await(ctx context.Context, look func(context.Context) (Span, error)) (Span, error) {
	if err := lock(ctx, r.turn); err != nil {
		return Span{}, err
	}
	defer func() { <-r.turn }()
	for {
		s, err := r.try(ctx, look)
		failed, _ := err.(failure)
		_, stalls := err.(*stall)
		read := err == nil || failed.error != nil
		r.started = r.started || read || stalls
		switch {
		case read:
			if r.logged != "" {
				r.o.Logger.Info("follow: reading again", "fence", r.fence.name)
			}
			if r.trouble, r.logged = nil, ""; failed.error != nil {
				return Span{}, failed.error
			}
			if r.counts.succeed(s); s.UpTo != s.After {
				r.after, r.back, r.idle = s.UpTo, nil, r.o.Every
				return s, nil
			}
		case errors.Is(err, ErrRewound):
			return Span{}, err
		case ctx.Err() != nil: // the call ends below; r.trouble is an earlier try's error
		case !r.started && !errors.Is(err, lease.ErrWiped):
			return Span{}, fmt.Errorf("follow: the reader cannot start: %w", err)
		default:
			r.fails(err)
		}
		wait := r.idle
		r.idle = min(2*r.idle, 5*r.o.Every)
		if err := sleep(ctx, wait); err != nil {
			if r.trouble != nil {
				err = fmt.Errorf("%w: %w", err, r.trouble)
			}
			return Span{}, err
		}
	}
}

// patience is the time in which the database or the store must answer. After that the reader tries
// again on another connection.
const patience = 30 * time.Second

var errNoAnswer = fmt.Errorf("no answer within %v", patience)

// try looks for a span. If there is none, it raises the fence and looks again.
func (r *Reader) try(parent context.Context, look func(context.Context) (Span, error)) (s Span, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	r.watchdog = time.AfterFunc(patience, func() { cancel(errNoAnswer) })
	defer r.watchdog.Stop()
	if !r.started && r.fence.dialect == MySQL {
		if err := checkSession(ctx, r.db); err != nil {
			return s, err
		}
	}
	var raised bool
	if s, err = look(ctx); err == nil && s.UpTo == s.After {
		if raised, err = r.raise(ctx); raised {
			r.watchdog.Reset(patience)
			if s, err = look(ctx); err == nil && s.UpTo == s.After && r.o.Replica != nil {
				err = &stall{
					why:   "waiting for the replica, which lacks rows and a fence that the primary has",
					after: stallsAfter, pause: r.o.Every / 10,
				}
			}
		}
	}
	if err != nil && context.Cause(ctx) == errNoAnswer && parent.Err() == nil {
		err = fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return s, err
}

// checkSession returns an error if statements on connections to MySQL do not see exactly the rows
// that were committed when they began. If it cannot read the settings, it assumes the defaults.
func checkSession(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SHOW SESSION VARIABLES WHERE (Variable_name = 'autocommit' AND Value = 'OFF')
	OR (Variable_name = 'completion_type' AND Value = 'CHAIN')
	OR (Variable_name IN ('tx_isolation', 'transaction_isolation') AND Value = 'READ-UNCOMMITTED')`)
	if err != nil {
		return nil
	}
	defer rows.Close()
	if rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		return fmt.Errorf("%w: the connections have %s=%s, so a statement reads old rows, or uncommitted ones", ErrInvalid, name, value)
	}
	return rows.Err()
}

// span returns the next span that q sees. If there is none, the span is empty.
func (r *Reader) span(ctx context.Context, q Queryer) (Span, error) {
	if r.back != nil {
		return *r.back, nil
	}
	s := Span{r.after, r.after}
	at, err := r.fence.read(ctx, q)
	switch {
	case err != nil:
		return s, err
	case at <= r.after || r.o.Table == "":
		s.UpTo = max(r.after, at)
		return s, nil
	}
	var n int
	var last snowflake.ID
	if err := q.QueryRowContext(ctx, r.countSQL, int64(r.after), int64(at)).Scan(&n, &last); err != nil || n == 0 {
		return s, err
	}
	r.counts.found(n, last)
	if s.UpTo = at; n == r.o.Rows {
		s.UpTo = last
	}
	return s, nil
}

// raise raises the fence if there are rows above it, and reports whether the primary has a span.
func (r *Reader) raise(ctx context.Context) (found bool, err error) {
	stalled := func(s *stall) {
		r.watchdog.Reset(patience)
		r.fails(s)
	}
	at, err := r.fence.read(ctx, r.db)
	if err == nil && at < r.after {
		// A raise may be visible on a replica before it is on the primary. raiseTo waits for it.
		at, err = r.fence.raiseTo(ctx, r.db, r.after, r.after, stalled)
	}
	at, err = r.checkRewound(at, err)
	if err != nil {
		return false, err
	}
	first := r.after + 1
	if r.o.Table != "" {
		err := r.db.QueryRowContext(ctx, r.firstSQL, int64(r.after)).Scan(&first)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		r.counts.waits(first)
	}
	if first <= at { // another reader has raised the fence, or the replica lags
		return true, nil
	}
	r.watchdog.Reset(patience)
	m, err := r.reading.read(ctx, r.o.Every)
	switch {
	case err != nil:
		return false, err
	case m.ID < first && r.o.Table == "" && m.HeldBy == nil: // there may be no row
		return false, nil
	case m.ID < first:
		r.idle = r.o.Every
		s := &stall{
			why:   "waiting for the watermark to pass the next row",
			cause: m.Why,
			attrs: []any{"row", first, "watermark", m.ID, "why", m.Why},
		}
		if m.HeldBy != nil {
			s.attrs = append(s.attrs, "holder", m.HeldBy.String())
		}
		if m.HeldBy == nil || r.o.Table == "" {
			s.after = time.Minute
		}
		return false, s
	}
	_, err = r.checkRewound(r.fence.raiseTo(ctx, r.db, r.after, m.ID, stalled))
	return err == nil, err
}

// checkRewound returns the position of the primary's fence, and an error if that is below the
// cursor.
func (r *Reader) checkRewound(at snowflake.ID, err error) (snowflake.ID, error) {
	if err == nil && at < r.after {
		r.back = &Span{r.after, at}
		err = fmt.Errorf("%w: fence %s is at %v, below the cursor %v, so the primary has lost commits; "+
			"the next span sets the cursor back to the fence", ErrRewound, r.fence.name, at, r.after)
	}
	return at, err
}

// fails records the error of a try, and logs it unless its cause was logged last. A stall is logged
// once it has lasted for s.after.
func (r *Reader) fails(err error) {
	s, stalls := err.(*stall)
	if !stalls {
		s = &stall{why: "cannot read; trying again", attrs: []any{"err", err}}
	}
	why := cause.Of(err)
	isNew := r.trouble == nil || cause.Of(r.trouble) != why
	r.counts.fail(err, stalls, isNew)
	if isNew {
		r.since, r.idle = time.Now(), cmp.Or(s.pause, r.o.Every)
	}
	if r.trouble = err; r.logged != why && time.Since(r.since) >= s.after {
		r.logged = why
		r.o.Logger.Warn("follow: "+s.why, append([]any{"fence", r.fence.name}, s.attrs...)...)
	}
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

// reading is the last reading of the watermark, which the readers of a fence share.
type reading struct {
	turn   chan struct{} // a lock (a channel with room for one) that guards all but mark
	reader *lease.WatermarkReader
	at     time.Time                  // the time of the last reading
	err    error                      // its error
	mark   atomic.Pointer[lease.Mark] // of the last reading without an error
}

// reading returns the reading for all readers of a store or, if the store is not comparable, for
// one reader.
func (f *Fence) reading(s lease.Store) *reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &reading{turn: make(chan struct{}, 1), reader: lease.NewWatermarkReader(s)}
	r.mark.Store(&lease.Mark{})
	if !reflect.ValueOf(s).Comparable() {
		return r
	}
	if shared := f.readings[s]; shared != nil {
		return shared
	}
	f.readings[s] = r
	return r
}

// read returns the last reading, if it is younger than maxAge, or a new one.
func (r *reading) read(ctx context.Context, maxAge time.Duration) (lease.Mark, error) {
	if err := lock(ctx, r.turn); err != nil {
		return lease.Mark{}, err
	}
	defer func() { <-r.turn }()
	if r.at.IsZero() || time.Since(r.at) >= maxAge {
		m, err := r.reader.Read(ctx)
		if ctx.Err() != nil { // the error is this call's own
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
