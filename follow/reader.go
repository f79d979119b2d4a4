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
	// Every is how often the reader looks for new rows and, if there are any, reads the watermark.
	// While there are none, it looks less and less often, down to a fifth as often. The default is
	// a second.
	Every time.Duration

	// Replica is the database in which [Reader.Read] reads: a replica of the primary, or an address
	// with several replicas behind it. [Reader.Next] ignores it. The default is the primary.
	Replica *sql.DB

	// Table is the table, or schema.table, whose rows are read; on SQLite, a table of the main
	// file. Set it unless one fence serves several tables. With it, each span has 1 to Rows rows
	// (none after [ErrRewound]), and the fence is raised only if there are new rows. Without it, a
	// span may have any number of rows, or none.
	Table string

	// Column is the column of Table that holds the IDs. It needs an index. The default is "id".
	Column string

	// Rows bounds the rows of a span, unless more rows share the last ID. The default is 1,000.
	Rows int

	// Logger gets a warning when the reader cannot continue, and a message when it can again. The
	// default is slog.Default().
	Logger *slog.Logger
}

// Span is a range of IDs: those above After, up to and including UpTo. After [ErrRewound], UpTo is
// below After: such a span has no IDs, and sets the cursor back.
type Span struct{ After, UpTo snowflake.ID }

// Reader reads rows in spans of IDs. When it returns a span, no row will ever be added to it. Its
// methods may be called by any number of goroutines; calls of Next and Read wait for one another.
// It needs no Close.
type Reader struct {
	db      *sql.DB
	fence   *Fence
	o       Options
	count   string // counts up to Rows rows of a span, and finds the last of them
	first   string // finds the first row above an ID
	reading *reading

	turn    chan struct{} // a lock (a channel with room for one) that guards the fields below
	after   snowflake.ID  // the cursor
	back    *Span         // the next span after ErrRewound; otherwise nil
	silence *time.Timer   // ends a try when the database or the store does not answer
	idle    time.Duration // how long to wait before the next try
	well    bool          // whether a try has succeeded, or stalled, since the reader was made
	bad     error         // why the last try did not succeed; nil if it did
	since   time.Time     // when bad began
	logged  string        // the cause logged last since a try succeeded

	counts counts
}

// stall is an error that needs no repair: it ends when what is waited for has happened.
type stall struct {
	why   string
	cause string        // who or what causes it, if that is known; it is logged if it changes
	after time.Duration // how long it lasts before it is logged
	pause time.Duration // how long to wait before the second try; 0: Options.Every
	attrs []any         // for the log
}

func (s *stall) Error() string {
	if s.cause == "" {
		return s.why
	}
	return s.why + ": " + s.cause
}

// NewReader returns a reader of the rows whose IDs are above after, which is the cursor: 0 for a
// new reader, and otherwise the UpTo of the last span that was processed. s is the store of the
// writers' leases, db the primary, and f the writers' fence. opts may be nil, but set Options.Table
// if the fence serves one table. NewReader connects to nothing. It panics if Options.Table or
// Options.Column is not a name, or schema.name, of up to 63 letters, digits and underscores, or has
// a schema on SQLite.
func NewReader(s lease.Store, db *sql.DB, f *Fence, after snowflake.ID, opts *Options) *Reader {
	r := &Reader{db: db, fence: f, reading: f.reading(s), turn: make(chan struct{}, 1), after: after}
	r.o = *cmp.Or(opts, &Options{})
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
		r.count = f.bind(fmt.Sprintf(`SELECT COUNT(*), COALESCE(MAX(id), 0) FROM (%s > $1 AND %s <= $2%s%d) AS s`,
			from, f.quote(column), order, rows))
		r.first = f.bind(from + ` > $1` + order + `1`)
		r.o.Rows = rows
	}
	return r
}

// Mark returns the watermark as this process's readers of the fence last read it, or the zero Mark
// if they have not read it yet. While there are new rows, the time of its ID shows how far the
// reader is behind. If that is more than the renewals of the leases explain, the field HeldBy names
// the holder that keeps the watermark back (see [lease.Watermark]).
func (r *Reader) Mark() lease.Mark {
	return *r.reading.mark.Load()
}

// Next waits for the next span, and returns it. Then read WHERE id > s.After AND id <= s.UpTo ORDER
// BY id on the primary, in a new statement or in a transaction that begins after Next has returned,
// and store s.UpTo as the cursor before the next call, which returns what follows the span. If
// processing the rows failed, make a new Reader with the stored cursor.
//
// Next returns an error if ctx ends, if the fence was set back ([ErrRewound]), or if the first try
// of a new reader fails, for example because the table does not exist. Later, it logs that the
// database or the store fails, and tries again until it succeeds.
func (r *Reader) Next(ctx context.Context) (Span, error) {
	return r.await(ctx, func(ctx context.Context) (Span, error) { return r.span(ctx, r.db) })
}

// Read waits for the next span, and calls fn in a read-only transaction that sees every row of it,
// on Options.Replica or, if it is nil, on the primary. If fn returns nil, the next call reads what
// follows the span; store s.UpTo as the cursor before it, in another transaction, because this one
// cannot write. If fn returns an error, Read returns it, and the next call begins with the same
// rows. All other errors are those of [Reader.Next].
//
// fn should be fast: a long transaction keeps PostgreSQL from vacuuming, and a replica may cancel
// it. So collect the rows in fn, and process them after Read has returned.
func (r *Reader) Read(ctx context.Context, fn func(tx *sql.Tx, s Span) error) error {
	_, err := r.await(ctx, func(ctx context.Context) (Span, error) {
		tx, err := cmp.Or(r.o.Replica, r.db).BeginTx(ctx, &sql.TxOptions{Isolation: r.fence.reads, ReadOnly: true})
		if err != nil {
			return Span{}, err
		}
		defer tx.Rollback()
		s, err := r.span(ctx, tx) // the snapshot is taken here
		if err == nil && s.UpTo != s.After {
			r.silence.Stop()
			if err = fn(tx, s); err != nil {
				err = failure{err}
			}
		}
		return s, err
	})
	return err
}

// failure is an error of fn.
type failure struct{ error }

// await tries until there is a span, and returns it. It logs stalls and errors, except those that
// end the call.
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
		r.well = r.well || read || stalls
		switch {
		case read:
			if r.logged != "" {
				r.o.Logger.Info("follow: reading again", "fence", r.fence.name)
			}
			if r.bad, r.logged = nil, ""; failed.error != nil {
				return Span{}, failed.error
			}
			if r.counts.succeed(s); s.UpTo != s.After {
				r.after, r.back, r.idle = s.UpTo, nil, r.o.Every
				return s, nil
			}
		case errors.Is(err, ErrRewound):
			return Span{}, err
		case ctx.Err() != nil: // not logged; r.bad is why the reader waited until then
		case !r.well && !errors.Is(err, lease.ErrWiped):
			return Span{}, fmt.Errorf("follow: the reader cannot begin: %w", err)
		default:
			r.fails(err)
		}
		wait := r.idle
		r.idle = min(2*r.idle, 5*r.o.Every)
		if err := sleep(ctx, wait); err != nil {
			if r.bad != nil {
				err = fmt.Errorf("%w: %w", err, r.bad)
			}
			return Span{}, err
		}
	}
}

// patience is how long the database or the store may take to answer before the reader tries again
// on another connection.
const patience = 30 * time.Second

var errSilent = fmt.Errorf("no answer within %v", patience)

// try looks for a span. If there is none, it raises the fence and looks again.
func (r *Reader) try(parent context.Context, look func(context.Context) (Span, error)) (s Span, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	r.silence = time.AfterFunc(patience, func() { cancel(errSilent) })
	defer r.silence.Stop()
	if !r.well && r.fence.dialect == MySQL {
		if err := currentReads(ctx, r.db); err != nil {
			return s, err
		}
	}
	var there bool
	if s, err = look(ctx); err == nil && s.UpTo == s.After {
		if there, err = r.raise(ctx); there {
			r.silence.Reset(patience)
			if s, err = look(ctx); err == nil && s.UpTo == s.After && r.o.Replica != nil {
				err = &stall{
					why:   "waiting for the replica, which lacks rows and a fence that the primary has",
					after: stallsAfter, pause: r.o.Every / 10,
				}
			}
		}
	}
	if err != nil && context.Cause(ctx) == errSilent && parent.Err() == nil {
		err = fmt.Errorf("%w: %w", errSilent, err)
	}
	return s, err
}

// currentReads returns an error if a statement on a connection to MySQL would not see exactly the
// rows that were committed when it began. If the settings cannot be read, it takes them to be
// MySQL's defaults.
func currentReads(ctx context.Context, db *sql.DB) error {
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

// span returns the next span that q sees. Its ends are equal if there is none.
func (r *Reader) span(ctx context.Context, q Queryer) (Span, error) {
	if r.back != nil {
		return *r.back, nil
	}
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
	r.counts.counted(n, last)
	if s.UpTo = reached; n == r.o.Rows {
		s.UpTo = last
	}
	return s, nil
}

// raise raises the fence if there is something to read above it, and reports whether the primary
// has a span.
func (r *Reader) raise(ctx context.Context) (found bool, err error) {
	waits := func(s *stall) {
		r.silence.Reset(patience)
		r.fails(s)
	}
	reached, err := r.fence.reach(ctx, r.db)
	if err == nil && reached < r.after {
		// A replica may show a raise before the primary does. raiseTo waits for that raise.
		reached, err = r.fence.raiseTo(ctx, r.db, r.after, r.after, waits)
	}
	reached, err = r.compare(reached, err)
	if err != nil {
		return false, err
	}
	first := r.after + 1
	if r.o.Table != "" {
		err := r.db.QueryRowContext(ctx, r.first, int64(r.after)).Scan(&first)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		r.counts.waits(first)
	}
	if first <= reached { // another reader has raised the fence, or the replica lags
		return true, nil
	}
	r.silence.Reset(patience)
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
	_, err = r.compare(r.fence.raiseTo(ctx, r.db, r.after, m.ID, waits))
	return err == nil, err
}

// compare returns where the primary's fence is, and an error if it is below the cursor.
func (r *Reader) compare(at snowflake.ID, err error) (snowflake.ID, error) {
	if err == nil && at < r.after {
		r.back = &Span{r.after, at}
		err = fmt.Errorf("%w: fence %s is at %v, below the cursor %v, so the primary has lost commits; "+
			"the next span sets the cursor back to the fence", ErrRewound, r.fence.name, at, r.after)
	}
	return at, err
}

// fails records why a try did not succeed, and logs it unless the last one logged had the same
// cause. A stall is logged once it has lasted for s.after.
func (r *Reader) fails(err error) {
	s, stalls := err.(*stall)
	if !stalls {
		s = &stall{why: "cannot read; trying again", attrs: []any{"err", err}}
	}
	why := cause.Of(err)
	begins := r.bad == nil || cause.Of(r.bad) != why
	r.counts.fail(err, stalls, begins)
	if begins {
		r.since, r.idle = time.Now(), cmp.Or(s.pause, r.o.Every)
	}
	if r.bad = err; r.logged != why && time.Since(r.since) >= s.after {
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

// reading is a watermark that the readers of a fence in this process share.
type reading struct {
	turn   chan struct{} // a lock (a channel with room for one) that guards all but mark
	reader *lease.WatermarkReader
	at     time.Time                  // of the last reading
	err    error                      // of the last reading
	mark   atomic.Pointer[lease.Mark] // of the last reading without an error
}

// reading returns the reading that all readers of a store share. If the store cannot be the key of
// a map, it is not shared.
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

// read returns the watermark. It reads it again only if the last reading is at least as old as
// fresh.
func (r *reading) read(ctx context.Context, fresh time.Duration) (lease.Mark, error) {
	if err := lock(ctx, r.turn); err != nil {
		return lease.Mark{}, err
	}
	defer func() { <-r.turn }()
	if r.at.IsZero() || time.Since(r.at) >= fresh {
		m, err := r.reader.Read(ctx)
		if ctx.Err() != nil { // only this call's error, so do not share it
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
