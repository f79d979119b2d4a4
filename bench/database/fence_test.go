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

// fences are the ways in which BenchmarkFence inserts. With a fence a reader raises it ten times a
// second.
var fences = []string{"none", "check", "trigger"}

// BenchmarkFence measures the rows that writers insert in a second, each in a transaction of its
// own, without a fence, with Writer.Do, and with the trigger alone. The writers take turns in time,
// so that each way has the same noise.
func BenchmarkFence(b *testing.B) {
	for name, start := range servers {
		s := start(b, 512)
		for _, writers := range []int{1, 8, 64} {
			rates := map[string][]float64{}
			for range *roundsFlag {
				for _, way := range fences {
					if way != "trigger" || name == "PostgreSQL" {
						rates[way] = append(rates[way], s.fenced(b, name, way, writers, 3*time.Second))
					}
				}
			}
			for _, way := range fences {
				if all := rates[way]; len(all) > 0 {
					slices.Sort(all)
					fmt.Printf("%s, %d writers, fence %s: %.0f rows a second (%.0f to %.0f)\n", s.version, writers, way, all[len(all)/2], all[0], all[len(all)-1])
				}
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// TestFence checks that each way inserts rows, and that the reader reads them.
func TestFence(t *testing.T) {
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, 32)
			for _, way := range fences {
				if way != "trigger" || name == "PostgreSQL" {
					require.Positive(t, s.fenced(t, name, way, 2, 200*time.Millisecond), way)
				}
			}
		})
	}
}

// fenced lets writers insert rows for a while, and returns how many they inserted in a second.
func (s *server) fenced(t testing.TB, name, way string, writers int, during time.Duration) float64 {
	t.Helper()
	s.run(t, `DROP TABLE IF EXISTS events`, `DROP TABLE IF EXISTS events_fence`, `CREATE TABLE events (id bigint PRIMARY KEY, payload varchar(100) NOT NULL)`)
	dialect := map[string]follow.Dialect{"PostgreSQL": follow.PostgreSQL, "MariaDB": follow.MySQL}[name]
	f, err := follow.NewFence(dialect, "events_fence")
	require.NoError(t, err)
	require.NoError(t, f.Create(background, s.DB))
	if way == "trigger" {
		require.NoError(t, f.Trigger(background, s.DB, "events", "id"))
	}
	quiet := slog.New(slog.DiscardHandler)
	store := lease.File(t.TempDir())
	l, err := lease.Acquire(background, store, &lease.Options{NewStore: true, FloorEvery: 100 * time.Millisecond, Logger: quiet})
	require.NoError(t, err)
	defer l.Release(background)
	g, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)

	s.SetMaxOpenConns(writers + 2)
	s.SetMaxIdleConns(writers + 2)
	w := follow.NewWriter(s.DB, f, l, g)
	insert := fmt.Sprintf(`INSERT INTO events VALUES (%s, %s)`, s.holder(1), s.holder(2))
	begun := time.Now()
	ctx, cancel := context.WithTimeout(background, during)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	if way != "none" {
		all.Go(func() {
			r := follow.NewReader(store, s.DB, f, 0, &follow.Options{Table: "events", Every: 100 * time.Millisecond, Logger: quiet, Rows: 1_000_000})
			for err := error(nil); err == nil; {
				_, err = r.Next(ctx)
			}
		})
	}
	rows := make([]int, writers)
	for i := range writers {
		all.Go(func() {
			one := func(tx *sql.Tx, next func() (snowflake.ID, error)) error {
				id, err := next()
				if err == nil {
					_, err = tx.ExecContext(ctx, insert, id, payload)
				}
				return err
			}
			for ctx.Err() == nil {
				var err error
				if way == "check" {
					err = w.Do(ctx, func(tx *follow.Tx) error { return one(tx.Tx, tx.NextID) })
				} else {
					err = func() error {
						defer l.Hold()()
						tx, err := s.BeginTx(ctx, nil)
						if err != nil {
							return err
						}
						defer tx.Rollback()
						if err := one(tx, g.NextID); err != nil {
							return err
						}
						return tx.Commit()
					}()
				}
				if err == nil {
					rows[i]++
				} else if ctx.Err() == nil {
					t.Errorf("%s: %v", way, err)
				}
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	sum := 0
	for _, n := range rows {
		sum += n
	}
	return float64(sum) / took.Seconds()
}
