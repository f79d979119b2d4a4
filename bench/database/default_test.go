//go:build unix

package database

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
)

// defaults has the columns of BenchmarkDefault, with IDs that PostgreSQL generates.
var defaults = []struct{ name, column string }{
	{"bigserial", "bigserial"},
	{"uuid", "uuid DEFAULT gen_random_uuid()"},
	{"snowflake_id()", "bigint DEFAULT snowflake_id()"},
	{"snowflake_id() under a fence", "bigint DEFAULT followed_id()"},
}

// BenchmarkDefault measures the server's processor time for a row: -rows rows in statements of
// -batch rows, and then -singles rows in a statement each. Commits do not wait for the disk,
// because its noise is greater than what is measured. It prints the medians of -rounds rounds, with
// the lowest and highest.
func BenchmarkDefault(b *testing.B) {
	s := startPostgres(b, 512)
	s.generator(b)
	costs := map[string][2][]time.Duration{}
	for round := range *roundsFlag {
		for i := range defaults {
			d := defaults[(i+round)%len(defaults)]
			of := costs[d.name]
			for i, cost := range s.inserts(b, d.column, *rowsFlag, *singlesFlag) {
				of[i] = append(of[i], cost)
			}
			costs[d.name] = of
		}
	}
	for _, d := range defaults {
		fmt.Fprintf(os.Stdout, "| %s |", d.name)
		for _, all := range costs[d.name] {
			slices.Sort(all)
			µs := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
			fmt.Fprintf(os.Stdout, " %.1f (%.1f–%.1f) |", µs(all[len(all)/2]), µs(all[0]), µs(all[len(all)-1]))
		}
		fmt.Fprintf(os.Stdout, " (%s)\n", s.version)
	}
	b.ReportMetric(0, "ns/op")
}

// testDefault checks that all rows are inserted with each column.
func testDefault(t *testing.T, s *server) {
	s.generator(t)
	for _, d := range defaults {
		s.inserts(t, d.column, 2*clients**batchFlag, 2*clients)
		require.Equal(t, 2*clients**batchFlag+2*clients, ask[int](t, s.DB, `SELECT count(*) FROM orders`), d.name)
	}
}

// generator creates the functions of "snowflake sql --generate", with and without a fence.
func (s *server) generator(t testing.TB) {
	t.Helper()
	f, err := follow.NewFence(follow.PostgreSQL, "public.orders_fence")
	require.NoError(t, err)
	require.NoError(t, f.Create(background, s.DB))
	for _, g := range []sqltext.Generator{{Prefix: "snowflake_"}, {Prefix: "followed_", Fence: "orders_fence"}} {
		g.Layout, g.Schema, g.Worker = snowflake.DefaultLayout(), "public", 1023
		script, err := g.Script()
		require.NoError(t, err)
		s.run(t, script)
	}
}

// inserts lets the clients insert rows into a new table, and returns the server's processor time
// for a row, in large statements and in single ones.
func (s *server) inserts(t testing.TB, column string, rows, singles int) (costs [2]time.Duration) {
	t.Helper()
	s.run(t, `DROP TABLE IF EXISTS orders`, `CREATE TABLE orders (id `+column+` PRIMARY KEY, payload varchar(100) NOT NULL)`, `CHECKPOINT`)
	for i, size := range []int{*batchFlag, 1} {
		statements := []int{rows / *batchFlag, singles}[i] / clients
		var all sync.WaitGroup
		start := make(chan struct{})
		for range clients {
			conn, err := s.Conn(background)
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.ExecContext(background, `SET synchronous_commit = off`)
			require.NoError(t, err)
			insert, err := conn.PrepareContext(background,
				fmt.Sprintf(`INSERT INTO orders (payload) SELECT $1 FROM generate_series(1, %d)`, size))
			require.NoError(t, err)
			defer insert.Close()
			all.Go(func() {
				<-start
				for range statements {
					if _, err := insert.Exec(payload); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		used := s.process.CPU()
		close(start)
		all.Wait()
		costs[i] = (s.process.CPU() - used) / time.Duration(clients*statements*size)
	}
	return costs
}
