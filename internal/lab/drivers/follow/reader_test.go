//go:build unix

package follow_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/internal/netcut"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// Next and Read return rows once, in the order of their IDs, with and without Options.Table.
func TestRowsComeInOrderAndOnce(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		w := follow.NewWriter(db.DB, f, p.Lease, p.gen)
		var want []snowflake.ID
		for range 25 {
			require.NoError(t, w.Do(t.Context(), func(tx *follow.Tx) error {
				id, err := tx.NextID()
				if err != nil {
					return err
				}
				want = append(want, id)
				_, err = tx.Exec(insert(id))
				return err
			}))
		}
		last := want[len(want)-1]
		unknown := fast()
		unknown.Table = ""
		known := fast()
		known.Rows = 10 // several spans
		for name, o := range map[string]*follow.Options{"table": known, "no table": unknown} {
			var got []snowflake.ID
			r := follow.NewReader(p.store, db.DB, f, 0, o)
			for cursor := snowflake.ID(0); cursor < last; {
				s := servertest.Must(r.Next(t.Context()))(t)
				require.Equal(t, cursor, s.After, name)
				require.Greater(t, s.UpTo, s.After)
				got = append(got, ids(t, db, s)...)
				cursor = s.UpTo
			}
			require.Equal(t, want, got, name)
			got = nil
			r = follow.NewReader(p.store, db.DB, f, want[4], o)
			for n := 0; len(got) < 20; n++ {
				failed := errors.New("failed")
				err := r.Read(t.Context(), func(tx *sql.Tx, s follow.Span) error {
					if n == 0 {
						return failed // the same rows are repeated
					}
					got = append(got, ids(t, tx, s)...)
					return nil
				})
				require.Equal(t, n == 0, err == failed, "%v", err)
				require.Equal(t, n != 0, err == nil, "%v", err)
			}
			require.Equal(t, want[5:], got, name)
		}
	})
}

// A reader that starts a week later continues in spans of Rows rows, without waiting, even if no
// reader has raised the fence since.
func TestReaderContinuesAfterAWeek(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		const week = snowflake.ID(7*24*time.Hour/time.Millisecond) << 22
		var want []snowflake.ID
		for range 25 {
			want = append(want, p.id(t)-week)
			db.exec(t, insert(want[len(want)-1]))
		}
		p.awaitMark(t, want[24])
		o := fast()
		o.Rows, o.Every = 10, time.Hour
		r := follow.NewReader(p.store, db.DB, f, 0, o)
		for _, part := range [][]snowflake.ID{want[:10], want[10:20], want[20:]} {
			require.NoError(t, r.Read(t.Context(), func(tx *sql.Tx, s follow.Span) error {
				require.Equal(t, part, ids(t, tx, s))
				return nil
			}))
		}
	})
}

// With a column of versions, the reader gets each updated row in its latest version.
func TestReaderFollowsUpdatesByAColumnOfVersions(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		db.exec(t, `CREATE TABLE articles (name VARCHAR(10) PRIMARY KEY, version BIGINT NOT NULL UNIQUE)`)
		w := follow.NewWriter(db.DB, f, p.Lease, p.gen)
		set := func(statement string) {
			require.NoError(t, w.Do(t.Context(), func(tx *follow.Tx) error {
				version, err := tx.NextID()
				if err == nil {
					_, err = tx.Exec(fmt.Sprintf(statement, version))
				}
				return err
			}))
		}
		o := fast()
		o.Table, o.Column = "articles", "version"
		r := follow.NewReader(p.store, db.DB, f, 0, o)
		read := func(n int) (names []string) {
			for len(names) < n {
				require.NoError(t, r.Read(t.Context(), func(tx *sql.Tx, s follow.Span) error {
					rows, err := tx.Query(fmt.Sprintf(`SELECT name FROM articles WHERE version > %d AND version <= %d ORDER BY version`, s.After, s.UpTo))
					require.NoError(t, err)
					defer rows.Close()
					for rows.Next() {
						names = append(names, "")
						require.NoError(t, rows.Scan(&names[len(names)-1]))
					}
					return rows.Err()
				}))
			}
			return names
		}
		set(`INSERT INTO articles VALUES ('a', %d)`)
		set(`INSERT INTO articles VALUES ('b', %d)`)
		set(`UPDATE articles SET version = %d WHERE name = 'a'`)
		require.Equal(t, []string{"b", "a"}, read(2))
		set(`UPDATE articles SET version = %d WHERE name = 'b'`)
		require.Equal(t, []string{"b"}, read(1))
	})
}

// After a panic of fn no transaction is open, and the rows are repeated.
func TestReadLeavesNothingOpen(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		id := p.id(t)
		db.exec(t, insert(id))
		db.SetMaxOpenConns(1)
		r := follow.NewReader(p.store, db.DB, f, 0, fast())
		require.PanicsWithValue(t, "fn", func() {
			_ = r.Read(t.Context(), func(*sql.Tx, follow.Span) error { panic("fn") })
		})
		require.NoError(t, r.Read(t.Context(), func(tx *sql.Tx, s follow.Span) error {
			require.Equal(t, []snowflake.ID{id}, ids(t, tx, s))
			return nil
		}))
	})
}

// If the primary's fence is below the cursor, the reader returns ErrRewound, and then a span that
// sets the cursor back. A crash before the cursor is stored loses no row: the next process gets the
// error, too.
func TestReaderSaysThatTheFenceWasSetBack(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		old := p.id(t)
		pass(t, db, f, p)
		stored, fence := db.mark(t), old-1
		db.set(t, fence)
		db.exec(t, insert(old)) // late, and after a failover nothing stops it
		failed := errors.New("failed")
		replica := fast()
		replica.Replica = db.DB // it may lag, so the primary says so
		for range 3 {           // processes that crash
			r := follow.NewReader(p.store, db.DB, f, stored, replica)
			require.ErrorIs(t, r.Read(t.Context(), nil), follow.ErrRewound)
			for range 2 {
				require.Equal(t, failed, r.Read(t.Context(), func(_ *sql.Tx, s follow.Span) error {
					require.Equal(t, follow.Span{After: stored, UpTo: fence}, s)
					return failed
				}))
			}
			r = follow.NewReader(p.store, db.DB, f, stored, fast())
			_, err := r.Next(t.Context())
			require.ErrorIs(t, err, follow.ErrRewound)
			s := servertest.Must(r.Next(t.Context()))(t)
			require.Equal(t, follow.Span{After: stored, UpTo: fence}, s)
			require.Equal(t, fence, db.mark(t))
		}
		r := follow.NewReader(p.store, db.DB, f, stored, replica)
		require.ErrorIs(t, r.Read(t.Context(), nil), follow.ErrRewound)
		var got []snowflake.ID
		for range 2 {
			require.NoError(t, r.Read(t.Context(), func(tx *sql.Tx, s follow.Span) error {
				require.Equal(t, stored, s.After)
				got, stored = ids(t, tx, s), s.UpTo
				return nil
			}))
		}
		require.Equal(t, old, got[0])

		// It may be set back again, even before the next call.
		db.set(t, fence)
		require.ErrorIs(t, r.Read(t.Context(), nil), follow.ErrRewound)
		db.set(t, fence-1)
		s := servertest.Must(r.Next(t.Context()))(t)
		require.Equal(t, follow.Span{After: stored, UpTo: fence}, s)
		_, err := r.Next(t.Context())
		require.ErrorIs(t, err, follow.ErrRewound)
		s = servertest.Must(r.Next(t.Context()))(t)
		require.Equal(t, follow.Span{After: fence, UpTo: fence - 1}, s)
		until(t, r, old)
	})
}

// The fence may be set back after the reader has compared it with its cursor, and before it raises
// it.
func TestReaderSaysThatTheFenceWasSetBackWhileItRaisesIt(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		p := leased(t)
		old := p.id(t)
		pass(t, db, f, p)
		stored := db.mark(t)
		db.exec(t, insert(p.id(t))) // or the reader has nothing to read
		var failover sync.Once
		r := follow.NewReader(p.store, pointed(t, db.driver, db.dsn, func(point string) {
			if point == "before BEGIN" {
				failover.Do(func() {
					db.set(t, old-1)
					db.exec(t, insert(old)) // late, and nothing stops it
				})
			}
		}), f, stored, fast())
		_, err := r.Next(t.Context())
		require.ErrorIs(t, err, follow.ErrRewound)
		s := servertest.Must(r.Next(t.Context()))(t)
		require.Equal(t, follow.Span{After: stored, UpTo: old - 1}, s)
		s = servertest.Must(r.Next(t.Context()))(t)
		require.Contains(t, ids(t, db, s), old)
	})
}

// If a reader's first try fails, for example because there is no table, Next returns the error.
// Later errors are logged, and the reader tries again.
func TestReaderSurvivesOutages(t *testing.T) {
	t.Parallel()
	db := dialects["PostgreSQL"](t)
	var log servertest.Buffer
	f, p := prepare(t, db), leased(t)
	o := fast()
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	o.Table = "nothing"
	_, err := follow.NewReader(p.store, db.DB, f, 0, o).Next(t.Context())
	require.ErrorContains(t, err, "nothing")
	require.NotContains(t, err.Error(), "Fence.Create")
	require.Empty(t, log.String())

	addr := strings.Split(strings.Split(db.dsn, "@")[1], "/")[0]
	through := func() (*servertest.Proxy, *sql.DB) {
		proxy := servertest.NewProxy(t, addr)
		return proxy, servertest.Open(t, "pgx", strings.Replace(db.dsn, addr, proxy.Addr(), 1))
	}
	proxy, away := through()
	toReplica, replica := through()
	store := netcut.Wrap(p.store)
	o.Table, o.Replica = "outbox", replica
	r := follow.NewReader(store, away, f, 0, o)
	read := func(ctx context.Context) (got []snowflake.ID, err error) {
		return got, r.Read(ctx, func(tx *sql.Tx, s follow.Span) error {
			got = ids(t, tx, s)
			return nil
		})
	}
	next := func() {
		t.Helper()
		id := p.id(t)
		db.exec(t, insert(id))
		for got := []snowflake.ID(nil); !slices.Contains(got, id); {
			got = servertest.Must(read(t.Context()))(t)
		}
	}
	next()
	outages := map[string][2]func(){
		"database": {proxy.Reset, proxy.Heal},
		"replica":  {toReplica.Reset, toReplica.Heal},
		"store":    {func() { store.Cut(true) }, func() { store.Cut(false) }},
	}
	for name, outage := range outages {
		log.Reset()
		outage[0]()
		db.exec(t, insert(p.id(t)))
		err = untilLogged(t, read, &log, "cannot read")
		require.NotEqual(t, context.Canceled.Error(), err.Error(), "%s: the error says why", name)
		require.NotContains(t, log.String(), "reading again", name)
		outage[1]()
		next()
		require.Contains(t, log.String(), "reading again", name)
	}
}

// untilLogged reads until the log has a text, ends the context, and returns the error.
func untilLogged[T any](t *testing.T, read func(context.Context) (T, error), log *servertest.Buffer, text string) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := read(ctx)
		ended <- err
	}()
	servertest.Await(t, func() error {
		if !strings.Contains(log.String(), text) {
			return errors.New("it does not log " + text)
		}
		return nil
	})
	cancel()
	err := <-ended
	require.ErrorIs(t, err, context.Canceled)
	return err
}

// A misspelled column is an error, although SQLite takes it for a text.
func TestReaderRefusesAMissingColumn(t *testing.T) {
	each(t, func(t *testing.T, db database, f *follow.Fence) {
		o := fast()
		o.Column = "idd"
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := follow.NewReader(lease.File(t.TempDir()), db.DB, f, 0, o).Next(ctx)
		require.ErrorContains(t, err, "idd")
	})
}

// With these settings a span could lack rows, or have rows that are not committed.
func TestReaderRefusesConnectionsThatDoNotReadWhatIsCommitted(t *testing.T) {
	t.Parallel()
	db := dialects["MariaDB"](t)
	f, p := prepare(t, db), leased(t)
	id := p.id(t)
	db.exec(t, insert(id))
	for _, setting := range []string{"autocommit=0", "completion_type=1", "tx_isolation='READ-UNCOMMITTED'"} {
		r := follow.NewReader(p.store, servertest.Open(t, db.driver, db.dsn+"?"+setting), f, 0, fast())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := r.Next(ctx)
		require.ErrorIs(t, err, follow.ErrInvalid, setting)
		require.ErrorContains(t, err, setting[:strings.Index(setting, "=")])
		require.ErrorIs(t, r.Read(ctx, nil), follow.ErrInvalid, setting)
	}
	until(t, follow.NewReader(p.store, servertest.Open(t, db.driver, db.dsn+"?tx_isolation='READ-COMMITTED'"), f, 0, fast()), id)
}

// A reader that starts before the first writer waits for it.
func TestReaderWaitsForTheFirstWriter(t *testing.T) {
	t.Parallel()
	db := dialects["SQLite"](t)
	f, store := prepare(t, db), lease.File(t.TempDir())
	var log servertest.Buffer
	o := fast()
	o.Table, o.Logger = "", slog.New(slog.NewTextHandler(&log, nil))
	r := follow.NewReader(store, db.DB, f, 0, o)
	require.ErrorIs(t, untilLogged(t, r.Next, &log, "cannot read"), lease.ErrWiped)
	id := join(t, store).id(t)
	db.exec(t, insert(id))
	until(t, r, id)
}

// counting is a store that counts requests.
type counting struct {
	lease.Store
	lists atomic.Int64
}

func (s *counting) List(ctx context.Context, prefix string) ([]lease.Entry, error) {
	s.lists.Add(1)
	return s.Store.List(ctx, prefix)
}

// Many readers of a table share readings of the watermark.
func TestReadersOfOneProcessReadTheWatermarkTogether(t *testing.T) {
	t.Parallel()
	db := dialects["SQLite"](t)
	f, p := prepare(t, db), leased(t)
	store := &counting{Store: p.store}
	p.awaitMark(t, 1)
	o := fast()
	o.Table, o.Every = "", time.Hour
	servertest.Must(follow.NewReader(store, db.DB, f, 0, o).Next(t.Context()))(t)
	lists := store.lists.Load()
	require.Positive(t, lists)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var readers sync.WaitGroup
	for range 10 {
		readers.Go(func() {
			_, err := follow.NewReader(store, db.DB, f, db.mark(t), o).Next(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	readers.Wait()
	require.Equal(t, lists, store.lists.Load())
}

// If transactions that have checked the fence stay open, the reader logs it, and logs the end.
func TestReaderSaysThatWritersKeepTheFence(t *testing.T) {
	for _, name := range []string{"PostgreSQL", "MariaDB"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dialects[name](t)
			f, p := prepare(t, db), leased(t)
			tx := servertest.Must(db.Begin())(t)
			defer tx.Rollback()
			process := "waiting for transactions"
			if name == "PostgreSQL" {
				var pid int
				require.NoError(t, tx.QueryRow(`SELECT pg_backend_pid()`).Scan(&pid))
				process = fmt.Sprintf("processes=%d", pid)
			}
			id := p.id(t)
			servertest.Must(tx.Exec(insert(id)))(t)
			require.NoError(t, f.Check(t.Context(), tx, id))
			db.exec(t, insert(p.id(t))) // or the reader has nothing to read
			var log servertest.Buffer
			o := fast()
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			r := follow.NewReader(p.store, db.DB, f, 0, o)
			_ = untilLogged(t, r.Next, &log, process)
			require.NotContains(t, log.String(), "reading again")
			require.NoError(t, tx.Commit())
			until(t, r, id)
			require.Contains(t, log.String(), "reading again")
			require.Equal(t, 1, strings.Count(log.String(), "waiting for transactions"))
		})
	}
}

// If the store does not answer, the reader tries again.
func TestReaderTriesAgainWithoutAnAnswer(t *testing.T) {
	db := dialects["SQLite"](t)
	f := prepare(t, db)
	db.exec(t, insert(1))
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := follow.NewReader(&silent{}, pointed(t, "sqlite", db.dsn, func(string) {}), f, 0, fast()).Next(t.Context())
		require.ErrorContains(t, err, "no answer within 30s")
		require.Equal(t, 30*time.Second, time.Since(begun))
	})
}

// silent is a store that does not answer.
type silent struct{ lease.Store }

func (*silent) Now(ctx context.Context) (time.Time, error) {
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

func (s *silent) List(ctx context.Context, _ string) ([]lease.Entry, error) {
	_, err := s.Now(ctx)
	return nil, err
}

func (s *silent) Get(ctx context.Context, _ string) (lease.Entry, error) {
	_, err := s.Now(ctx)
	return lease.Entry{}, err
}

// Stats.Mark and, if rows wait, the log have the holder that keeps the watermark back.
func TestStatsNameTheHolderThatKeepsTheWatermarkBack(t *testing.T) {
	inBubble(t, func(t *testing.T, db *sql.DB, f *follow.Fence, store lease.Store) {
		l := servertest.Must(lease.Acquire(t.Context(), store, &lease.Options{Owner: "slow", NewStore: true, Logger: quiet}))(t)
		defer l.Release(context.Background())
		g := servertest.Must(snowflake.NewLeased(l, nil))(t)
		done := l.Hold()
		defer done()
		id := servertest.Must(g.NextID())(t)
		servertest.Must(db.Exec(insert(id)))(t)
		var log servertest.Buffer
		o := fast()
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		r := follow.NewReader(store, db, f, 0, o)
		require.Zero(t, r.Stats())
		_ = untilLogged(t, r.Next, &log, "open Hold")
		s := r.Stats()
		require.ErrorContains(t, s.Waits, "the watermark to pass the next row")
		require.False(t, s.Since.IsZero())
		require.InDelta(t, time.Since(g.Decode(id).Time), s.Lag, float64(time.Second))
		require.EqualValues(t, []uint64{0, 0, 0}, []uint64{s.Spans, s.Rows, s.Failures})
		require.Positive(t, s.Stalls)
		require.Equal(t, "slow", s.Mark.HeldBy.Owner)
		require.Contains(t, s.Mark.Why, "open Hold")
		require.Less(t, s.Mark.ID, id)
		require.Contains(t, log.String(), fmt.Sprintf("row=%v", id))
		require.Contains(t, log.String(), fmt.Sprintf("holder=%q", s.Mark.HeldBy))
		require.NotContains(t, log.String(), "reading again")
		done()
		until(t, r, id)
		require.Equal(t, 1, strings.Count(log.String(), "reading again"))
		require.Equal(t, 1, strings.Count(log.String(), "open Hold"))
		s = r.Stats()
		require.NoError(t, s.Waits)
		require.Zero(t, s.Since)
		require.EqualValues(t, []uint64{1, 1}, []uint64{s.Spans, s.Rows})
		require.Positive(t, s.Lag, "the row may not have been processed yet")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := r.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, r.Stats().Lag)
	})
}

// inBubble runs a test in fake time, with a database of SQLite that has the table outbox, and with a
// new store in the same file.
func inBubble(t *testing.T, test func(t *testing.T, db *sql.DB, f *follow.Fence, store lease.Store), rows ...snowflake.ID) {
	file := dialects["SQLite"](t)
	f := prepare(t, file)
	for _, id := range rows {
		file.exec(t, insert(id))
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * 365 * 24 * time.Hour) // the epoch is after 2000
		db := pointed(t, "sqlite", file.dsn, func(string) {})
		defer db.Close()
		store := servertest.Must(sqllease.New(db, sqllease.SQLite, nil))(t)
		test(t, db, f, store)
	})
}

// If a row waits for a minute, for example because its ID is far ahead, the reader logs it.
func TestReaderSaysThatARowIsFarAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, db *sql.DB, f *follow.Fence, store lease.Store) {
		l := servertest.Must(lease.Acquire(t.Context(), store, &lease.Options{NewStore: true, Logger: quiet}))(t)
		defer l.Release(t.Context())
		_, err := snowflake.NewLeased(l, nil) // without a generator it keeps the watermark back
		require.NoError(t, err)
		var log servertest.Buffer
		r := follow.NewReader(store, db, f, 0, &follow.Options{Table: "outbox", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for _, lines := range []int{0, 1, 1} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
			defer cancel()
			_, err = r.Next(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, lines, strings.Count(log.String(), "row=9000000000000000000"), log.String())
		}

		// Without a table it logs it if a holder keeps the watermark back.
		defer l.Hold()()
		r = follow.NewReader(store, db, f, 0, &follow.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		for err = nil; err == nil; {
			_, err = r.Next(ctx)
		}
		require.ErrorContains(t, err, "waiting for the watermark")
		require.Equal(t, 1, strings.Count(log.String(), "open Hold"), log.String())
	}, 9e18)
}

// During the three minutes in which a new store opens, the reader says once that it waits, although
// the error says each time how much longer. It tries less and less often.
func TestReaderSaysOnceThatTheStoreIsNew(t *testing.T) {
	inBubble(t, func(t *testing.T, db *sql.DB, f *follow.Fence, store lease.Store) {
		acquired := make(chan *lease.Lease)
		go func() {
			l, err := lease.Acquire(t.Context(), store, &lease.Options{Logger: quiet})
			assert.NoError(t, err)
			_, err = snowflake.NewLeased(l, nil)
			assert.NoError(t, err)
			acquired <- l
		}()
		defer func() { _ = (<-acquired).Release(t.Context()) }()
		time.Sleep(time.Second) // the store has an entry
		var log servertest.Buffer
		r := follow.NewReader(store, db, f, 0, &follow.Options{Table: "outbox", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		begun := time.Now()
		until(t, r, 1)
		require.Greater(t, time.Since(begun), 2*time.Minute)
		require.Equal(t, 1, strings.Count(log.String(), "cannot read"), log.String())
		require.EqualValues(t, 1, r.Stats().Failures)
		require.Equal(t, 1, strings.Count(log.String(), "reading again"), log.String())
	}, 1)
}

// While there are no rows, a reader does not read the store, and queries the database less and less
// often, until the context ends.
func TestReaderRestsWhileNothingIsNew(t *testing.T) {
	db := dialects["SQLite"](t)
	rests(t, db, db, prepare(t, db), 3)
}

// While a replica applies nothing, a reader also queries it less and less often, and logs the
// reason.
func TestReaderRestsWhileTheReplicaLags(t *testing.T) {
	db, replica := dialects["SQLite"](t), dialects["SQLite"](t)
	f := prepare(t, db)
	prepare(t, replica)
	db.exec(t, insert(1))
	db.set(t, 1)
	log := rests(t, db, replica, f, 4)
	require.Equal(t, 1, strings.Count(log, "waiting for the replica"), log)
}

// rests reads for an hour without a span, and expects a number of queries in five seconds.
func rests(t *testing.T, primary, replica database, f *follow.Fence, queries int) string {
	store := &counting{Store: lease.File(t.TempDir())}
	var log servertest.Buffer
	asked := 0
	synctest.Test(t, func(t *testing.T) {
		open := func(db database) *sql.DB {
			return pointed(t, "sqlite", db.dsn, func(point string) {
				if strings.HasPrefix(point, "before") && point != "before BEGIN" {
					asked++
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun := time.Now()
		o := &follow.Options{Table: "outbox", Logger: slog.New(slog.NewTextHandler(&log, nil)), Replica: open(replica)}
		require.ErrorIs(t, follow.NewReader(store, open(primary), f, 0, o).Read(ctx, nil), context.DeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(begun))
	})
	require.InDelta(t, queries*3600/5, asked, 30)
	require.Zero(t, store.lists.Load())
	return log.String()
}
