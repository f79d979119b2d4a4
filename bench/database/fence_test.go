//go:build unix

package database

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// fences are the ways of BenchmarkFence to insert rows. If there is a fence, a reader raises it ten
// times a second.
var fences = []string{"none", "check", "trigger"}

// BenchmarkFence measures the rows that writers insert in a second, each in a separate transaction,
// without a fence, with Writer.Do, and with the trigger alone. The ways take turns, so that each
// has the same noise.
func BenchmarkFence(b *testing.B) {
	for name, start := range servers {
		s := start(b, 512)
		for _, writers := range []int{1, 8, 64} {
			rates := map[string][]float64{}
			for range *roundsFlag {
				for _, way := range fences {
					if way != "trigger" || name == "PostgreSQL" {
						rates[way] = append(rates[way], s.fenced(b, name, load{way: way, writers: writers, during: 3 * time.Second}).rate())
					}
				}
			}
			for _, way := range fences {
				if all := rates[way]; len(all) > 0 {
					slices.Sort(all)
					fmt.Printf("%s, %d writers, fence %s: %.0f rows a second (%.0f to %.0f)\n", s.version, writers, way,
						all[len(all)/2], all[0], all[len(all)-1])
				}
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRaise measures the rate at which a reader raises the fence, and the duration of
// transactions, with 64 writers that pause for 200 ms after each transaction, and also with a
// transaction that repeatedly commits a second after its check. In the way "exclusive" the reader
// waits in the queue for the writers' lock, which package follow avoids.
func BenchmarkRaise(b *testing.B) {
	for name, start := range servers {
		s := start(b, 512)
		for _, holds := range []time.Duration{0, time.Second} {
			for _, way := range []string{"none", "check", "exclusive"} {
				if way != "exclusive" || name == "PostgreSQL" {
					f := s.fenced(b, name, load{way, 64, holds, 200 * time.Millisecond, 6 * time.Second})
					fmt.Printf("%s, 64 writers, fence %s, a transaction stays open for %v: "+
						"raised %d times in %v, after %v at most; %d transactions, half in %v, 99 %% in %v\n",
						s.version, way,
						holds, f.raised, f.took.Round(time.Millisecond), f.slowest.Round(time.Millisecond), len(f.each), f.part(0.5), f.part(0.99))
				}
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// testFence checks that each way inserts rows that the reader reads.
func testFence(t *testing.T, name string, s *server) {
	for _, way := range fences {
		if way != "trigger" || name == "PostgreSQL" {
			during := 200 * time.Millisecond // on a busy machine, too short for a row
			for s.fenced(t, name, load{way, 2, 10 * time.Millisecond, 0, during}).rate() == 0 {
				during *= 4
				require.Less(t, during, time.Minute, way)
			}
		}
	}
}

// figures are the results of fenced.
type figures struct {
	took    time.Duration
	each    []time.Duration // the writers' transactions, in order
	raised  int             // the number of times that the reader raised the fence
	slowest time.Duration   // the longest time between two raises
}

// rate returns the transactions in a second.
func (f figures) rate() float64 { return float64(len(f.each)) / f.took.Seconds() }

// part returns a quantile of the durations of the transactions.
func (f figures) part(of float64) time.Duration {
	return f.each[int(of*float64(len(f.each)-1))].Round(time.Millisecond)
}

// load is the load while fenced measures.
type load struct {
	way     string
	writers int

	// If holds is not 0, one more transaction repeatedly stays open for this time after its check.
	holds time.Duration

	rests  time.Duration // a writer's pause after each transaction
	during time.Duration
}

// fenced lets writers insert rows for a time, each in a separate transaction.
func (s *server) fenced(t testing.TB, name string, o load) (got figures) {
	t.Helper()
	s.run(t, `DROP TABLE IF EXISTS events`, `DROP TABLE IF EXISTS events_fence`,
		`CREATE TABLE events (id bigint PRIMARY KEY, payload varchar(100) NOT NULL)`)
	dialect := map[string]follow.Dialect{"PostgreSQL": follow.PostgreSQL, "MariaDB": follow.MySQL}[name]
	f, err := follow.NewFence(dialect, "events_fence")
	require.NoError(t, err)
	require.NoError(t, f.Create(background, s.DB))
	if o.way == "trigger" {
		require.NoError(t, f.Trigger(background, s.DB, "events", "id"))
	}
	quiet := slog.New(slog.DiscardHandler)
	store := lease.File(t.TempDir())
	l, err := lease.Acquire(background, store, &lease.Options{
		NewStore:   true,
		Window:     3 * time.Second,
		FloorEvery: 100 * time.Millisecond,
		Logger:     quiet,
	})
	require.NoError(t, err)
	defer l.Release(background)
	g, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)

	s.SetMaxOpenConns(o.writers + 3)
	s.SetMaxIdleConns(o.writers + 3)
	w := follow.NewWriter(s.DB, f, l, g)
	insert := fmt.Sprintf(`INSERT INTO events VALUES (%s, %s)`, s.holder(1), s.holder(2))
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	one := func(tx *sql.Tx, next func() (snowflake.ID, error)) (snowflake.ID, error) {
		id, err := next()
		if err == nil {
			_, err = tx.ExecContext(ctx, insert, id, payload)
		}
		return id, err
	}
	inTx := func(work func(tx *sql.Tx) error) error {
		tx, err := s.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := work(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
	r := follow.NewReader(store, s.DB, f, 0, &follow.Options{
		Table:  "events",
		Every:  100 * time.Millisecond,
		Logger: quiet,
		Rows:   1_000_000,
	})
	raise := func() error {
		_, err := r.Next(ctx)
		return err
	}
	if o.way == "exclusive" {
		raise = func() error {
			time.Sleep(100 * time.Millisecond)
			return inTx(func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(1718579308, 'events_fence_mark'::regclass::oid::int)`)
				return err
			})
		}
	}
	require.NoError(t, inTx(func(tx *sql.Tx) error {
		_, err := one(tx, g.NextID)
		return err
	}))
	_, err = r.Next(ctx) // after this the lease renews every 100 ms
	require.NoError(t, err)
	begun := time.Now()
	time.AfterFunc(o.during, cancel)
	var all sync.WaitGroup
	if o.way != "none" {
		all.Go(func() {
			for last := begun; ; got.raised++ {
				err := raise()
				got.slowest = max(got.slowest, time.Since(last))
				if last = time.Now(); err != nil {
					return
				}
			}
		})
	}
	if o.holds > 0 {
		all.Go(func() {
			for ctx.Err() == nil {
				_ = inTx(func(tx *sql.Tx) error { // it may be late
					id, err := one(tx, g.NextID)
					if err == nil && o.way != "none" && o.way != "trigger" {
						err = f.Check(ctx, tx, id)
					}
					if err == nil {
						time.Sleep(o.holds)
					}
					return err
				})
			}
		})
	}
	took := make([][]time.Duration, o.writers)
	for i := range o.writers {
		all.Go(func() {
			for ctx.Err() == nil {
				var err error
				started := time.Now()
				if o.way == "check" || o.way == "exclusive" {
					err = w.Do(ctx, func(tx *follow.Tx) error {
						_, err := one(tx.Tx, tx.NextID)
						return err
					})
				} else {
					err = func() error {
						defer l.Hold()()
						return inTx(func(tx *sql.Tx) error {
							_, err := one(tx, g.NextID)
							return err
						})
					}()
				}
				if err == nil {
					took[i] = append(took[i], time.Since(started))
					time.Sleep(o.rests)
				} else if ctx.Err() == nil {
					t.Errorf("%s: %v", o.way, err)
				}
			}
		})
	}
	all.Wait()
	got.took = time.Since(begun)
	got.each = slices.Concat(took...)
	slices.Sort(got.each)
	return got
}
