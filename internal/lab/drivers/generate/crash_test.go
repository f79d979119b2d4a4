//go:build unix

package generate_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/internal/sqltext"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// startCareless starts a server that writes its WAL to disk only when a transaction commits, or
// every ten seconds.
func startCareless(t testing.TB) server { return start(t, "-c", "wal_writer_delay=10s") }

// aheadUnsaved sets the clock by an offset to the server's, and leaves the WAL unwritten.
func (f function) aheadUnsaved(t testing.TB, by time.Duration) {
	t.Helper()
	conn := servertest.Must(f.Conn(t.Context()))(t)
	defer conn.Close()
	for _, q := range []string{`SET synchronous_commit = off`, fmt.Sprintf(`UPDATE clock SET ahead = '%f'`, by.Seconds()), `RESET synchronous_commit`} {
		servertest.Must(conn.ExecContext(t.Context(), q))(t)
	}
}

// issuing returns rareIDs and every known layout with a function that can issue IDs today, sorted
// by the number of worker IDs. Of layouts that differ only in the epoch it returns one.
func issuing(t testing.TB) []layouts.Known {
	all, shapes := []layouts.Known{{Name: "rare", Layout: rareIDs}}, map[snowflake.Layout]bool{}
	for _, k := range layouts.All() {
		shape := k.Layout
		shape.Epoch = 0
		_, err := sqltext.Generator{Layout: k.Layout}.Script()
		now := time.Now()
		if err == nil && now.Add(24*time.Hour).Before(k.Layout.Expires()) && now.After(k.Layout.Epoch.Time()) && !shapes[shape] {
			all = append(all, k)
			shapes[shape] = true
		}
	}
	require.Greater(t, len(all), 5)
	slices.SortStableFunc(all, func(a, b layouts.Known) int { return cmp.Compare(a.Layout.WorkerBits, b.Layout.WorkerBits) })
	return all
}

// kill kills the server, or one of its processes, and waits until the server answers again.
func (s server) kill(t testing.TB, f function, one bool) {
	t.Helper()
	var pid int
	if one {
		servertest.Await(t, func() error { // a client may leave before its process is killed
			err := f.QueryRow(`SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`).Scan(&pid)
			if err == nil {
				err = syscall.Kill(pid, syscall.SIGKILL)
			}
			return err
		})
	} else {
		s.Kill()
		s.Restart()
	}
	servertest.Await(t, func() (err error) {
		if one { // the server ends the others, too
			err = f.QueryRow(`SELECT 1 / (1 - count(*)) FROM pg_stat_activity WHERE pid = $1`, pid).Scan(new(int))
		}
		if err == nil {
			err = f.Ping()
		}
		return err
	})
}

// drawAndLose draws IDs until ctx ends, in transactions that are committed, rolled back, or killed
// with the server.
func (f function) drawAndLose(ctx context.Context, s *seen) {
	for ctx.Err() == nil {
		tx, err := f.BeginTx(ctx, nil)
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if rand.IntN(2) == 0 {
			_, _ = tx.Exec(`SET LOCAL synchronous_commit = off`)
		}
		for range 1 + rand.IntN(4) {
			ids, _ := draw(tx, fmt.Sprintf(`SELECT %s.%sids(%d)`, f.Schema, f.Prefix, 1+rand.IntN(1500)))
			s.add(ids...)
		}
		if rand.IntN(2) == 0 {
			_ = tx.Commit()
		}
		_ = tx.Rollback()
	}
}

// For every layout, no ID repeats that a client has seen before a crash, even if its transaction
// did not commit, or did not wait for the disk, and even if the clock was set back just before the
// crash.
func TestNoIDRepeatsAfterACrash(t *testing.T) {
	t.Parallel()
	s := startCareless(t)
	f := install(t, s, snowflake.DefaultLayout()).withClock(t)
	f.SetMaxIdleConns(0) // earlier connections are dead
	known := issuing(t)
	functions, saw := make([]function, len(known)), make([]seen, len(known))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	for i, k := range known {
		g := f
		g.Layout, g.Worker, g.Datacenter = k.Layout, i, 1<<k.Layout.DatacenterBits-1
		if i >= f.Worker {
			g.Worker++
		}
		g.Prefix = fmt.Sprintf("f%d_", i)
		g.run(t)
		g.useClock(t)
		functions[i] = g
	}
	for i, g := range functions {
		clients.Go(func() { g.drawAndLose(ctx, &saw[i]) })
	}
	var base time.Duration
	for n := range depth.Of(4, 20) {
		f.ahead(t, base+8*time.Second)
		time.Sleep(time.Duration(200+rand.IntN(400)) * time.Millisecond)
		if n%2 == 0 {
			f.aheadUnsaved(t, base)
			time.Sleep(100 * time.Millisecond)
		}
		s.kill(t, f, n%4 < 2)
		f.ahead(t, base+time.Duration(n%2)*8*time.Second)
		time.Sleep(300 * time.Millisecond)
		base += 30 * time.Second
	}
	f.ahead(t, base)
	stop()
	clients.Wait()
	for i, k := range known {
		functions[i].must(t, 1)
		t.Logf("%s: %d IDs were seen", k.Name, saw[i].unique(t, functions[i]))
	}
}

// The first IDs after a pause are above the bound on disk, so a higher one is written first. After
// a crash IDs begin above it, whatever the clock reads.
func TestCrashAfterAPause(t *testing.T) {
	t.Parallel()
	s := startCareless(t)
	for name, l := range map[string]snowflake.Layout{
		"default":   snowflake.DefaultLayout(),
		"sonyflake": layouts.Sonyflake(),
		"jssafe":    snowflake.JSSafeLayout(),
	} {
		t.Run(name, func(t *testing.T) {
			f := install(t, s, l).withClock(t)
			f.SetMaxIdleConns(0)
			f.must(t, 1)
			for _, back := range []time.Duration{0, 8 * time.Second, time.Hour, 0} {
				f.aheadUnsaved(t, 2*time.Hour)
				tx := servertest.Must(f.Begin())(t)
				saw := servertest.Must(draw(tx, `SELECT snowflake_ids(10)`))(t)
				s.kill(t, f, true)
				_ = tx.Rollback()
				f.ahead(t, 2*time.Hour-back)
				got, _ := f.draw(10) // none, if the clock was set back far
				f.ahead(t, 2*time.Hour+30*time.Second)
				got = append(got, f.must(t, 10)...)
				require.Greater(t, got[0], saw[9])
				require.True(t, slices.IsSorted(got))
				f.ahead(t, 0)
				// The next pause begins.
				f.exec(t, fmt.Sprintf(`SELECT setval('%s', %d)`, f.state(), -1<<22))
				f.exec(t, fmt.Sprintf(`SELECT setval('%s_bound', 1)`, f.state()))
			}
		})
	}
}

// If the script is run in a transaction that is rolled back, the IDs drawn in it are not drawn
// again. In the transaction that creates the state, no ID can be drawn.
func TestScriptThatIsRolledBack(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]snowflake.Layout{
		"default":   snowflake.DefaultLayout(),
		"sonyflake": layouts.Sonyflake(),
		"jssafe":    snowflake.JSSafeLayout(),
	} {
		t.Run(name, func(t *testing.T) {
			f := install(t, shared(t), l)
			var saw seen
			saw.add(f.must(t, 1000)...)
			rollBack := func(f function, draws bool) {
				tx := servertest.Must(f.Begin())(t)
				defer tx.Rollback()
				script := servertest.Must(f.Script())(t)
				for range 2 {
					servertest.Must(tx.Exec(script))(t)
					ids, err := draw(tx, `SELECT snowflake_ids(5000)`)
					saw.add(ids...)
					if !draws {
						require.ErrorContains(t, err, "(SQLSTATE SNF06)")
						return
					}
					require.NoError(t, err)
				}
			}
			rollBack(f, true)
			f.run(t)
			saw.add(f.must(t, 5_000)...)
			rollBack(f, true)
			saw.add(f.must(t, 5_000)...)
			require.Equal(t, 31_000, saw.unique(t, f))

			f.Worker--
			rollBack(f, false)
			f.run(t)
			f.must(t, 1)
		})
	}
}
