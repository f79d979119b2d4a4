//go:build unix

package generate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// refused fails the test unless a draw fails with the SQLSTATE, and leaves no lock.
func (f function) refused(t testing.TB, state, says string) {
	t.Helper()
	_, err := f.draw(1)
	require.ErrorContains(t, err, "(SQLSTATE "+state+")")
	require.ErrorContains(t, err, says)
	require.Zero(t, f.locks(t))
}

// While the clock is behind, IDs continue after the last one, up to 10 s ahead of the clock.
func TestClockThatStepsBack(t *testing.T) {
	t.Parallel()
	f := install(t, shared(t), snowflake.DefaultLayout()).withClock(t)
	at := time.Date(2026, 6, 1, 12, 0, 0, 123456000, time.UTC)
	f.fixed(t, at)
	tick := at.Truncate(time.Millisecond)
	first := f.must(t, 1)[0]
	require.Equal(t, tick, f.hold(t, first))
	f.fixed(t, at.Add(-9*time.Second))
	ids := f.must(t, 5000) // more than in a tick
	require.Equal(t, first+1, ids[0])
	require.Equal(t, tick.Add(time.Millisecond), f.hold(t, ids[4999]))
	f.fixed(t, at.Add(-time.Hour))
	f.refused(t, "SNF04", "the clock is 3600.002 s behind the next ID, and may be 10 s behind")
	f.fixed(t, at.Add(-12*time.Second))
	f.refused(t, "SNF04", "behind")
	f.fixed(t, at)
	require.Greater(t, f.must(t, 1)[0], ids[4999])
}

// After the clock was ahead by an hour, no ID is drawn until it has nearly caught up.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	f := install(t, shared(t), snowflake.DefaultLayout()).withClock(t)
	f.must(t, 10)
	f.ahead(t, time.Hour)
	last := f.must(t, 10)[9]
	require.WithinDuration(t, f.clock(t).Add(time.Hour), f.hold(t, last), time.Minute)
	for _, by := range []time.Duration{0, 30 * time.Minute, 58 * time.Minute} {
		f.ahead(t, by)
		for range 20 { // these draws fail, and use up numbers
			f.refused(t, "SNF04", "behind the next ID")
		}
	}
	f.ahead(t, time.Hour-5*time.Second)
	require.Greater(t, f.must(t, 10)[0], last)
}

func TestClockBeforeTheEpoch(t *testing.T) {
	t.Parallel()
	for _, l := range []snowflake.Layout{snowflake.DefaultLayout(), snowflake.JSSafeLayout()} {
		f := install(t, shared(t), l).withClock(t)
		for _, before := range []time.Duration{30 * 365 * 24 * time.Hour, time.Minute, 2 * time.Second, time.Microsecond} {
			f.fixed(t, l.Epoch.Time().Add(-before))
			f.refused(t, "SNF02", "before the epoch of the IDs, 2026-01-01")
		}
		f.fixed(t, l.Epoch.Time())
		require.Equal(t, l.Epoch.Time(), f.hold(t, f.must(t, 1)[0]))
	}
}

// The last tick has all its IDs, and after it no field spills into another, whatever the clock
// reads.
func TestTimeThatRunsOut(t *testing.T) {
	t.Parallel()
	small := snowflake.Layout{
		Epoch:        snowflake.DefaultEpoch,
		Unit:         time.Millisecond,
		TimeBits:     33,
		ClockSeqBits: 2,
		WorkerBits:   8,
		SequenceBits: 4,
	}
	for _, l := range []snowflake.Layout{snowflake.DefaultLayout(), small} {
		f := install(t, shared(t), l).withClock(t)
		f.fixed(t, l.Expires().Add(-time.Microsecond))
		n := 1 << l.SequenceBits
		ids := f.must(t, n)
		require.Equal(t, l.Expires().Add(-l.Unit), f.hold(t, ids[0]))
		for _, after := range []time.Duration{-time.Microsecond, 0, time.Second, 365 * 24 * time.Hour} {
			f.fixed(t, l.Expires().Add(after))
			f.refused(t, "SNF03", "run out of time")
		}
		// Draws that fail use up the numbers of the last tick, too, and the sequence ends.
		f.exec(t, fmt.Sprintf(`SELECT setval('%s', %d)`, f.state(), (int64(1)<<l.TimeBits-1)<<22|(1<<22-2)))
		for range 3 {
			_, err := f.draw(1)
			require.Error(t, err)
		}
	}
}

// A layout with few IDs in a tick runs ahead of the clock in a large statement, by 10 s at most,
// and then waits.
func TestLargeStatementIsAheadByTenSeconds(t *testing.T) {
	t.Parallel()
	l := snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: 10 * time.Millisecond, TimeBits: 39, WorkerBits: 8, SequenceBits: 1}
	f := install(t, shared(t), l)
	ids := f.must(t, 2100) // 10.5 s
	require.False(t, f.hold(t, ids[2099]).After(f.clock(t).Add(10*time.Second)))
}

// Each call releases the lock at its end, even if its transaction continues, whether the call
// succeeds, fails or is canceled. In the test the clock stands still, so that calls last.
func TestLockNeverOutlivesTheCall(t *testing.T) {
	t.Parallel()
	f := install(t, shared(t), snowflake.DefaultLayout()).withClock(t)
	for name, way := range map[string]struct {
		end  string // the statement with which the other session ends the call
		says string
	}{
		"cancel":  {`SELECT pg_cancel_backend($1)`, "57014"},
		"success": {`UPDATE clock SET pause = $1 < 0`, ""},
		"kill":    {`SELECT pg_terminate_backend($1)`, "57P01"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := f.Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
			run := func(query string) {
				_, err := conn.ExecContext(t.Context(), query)
				require.NoError(t, err, query)
			}
			var pid int
			require.NoError(t, conn.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
			run(`BEGIN`)
			run(`SAVEPOINT s`)
			f.exec(t, `UPDATE clock SET pause = true`)
			// The next draw opens a tick.
			f.exec(t, fmt.Sprintf(`SELECT setval('%s', 1)`, f.state()))
			ended := make(chan error, 1)
			go func() {
				_, err := conn.ExecContext(context.Background(), `SET search_path = pg_catalog; SELECT `+f.Schema+`.snowflake_id()`)
				ended <- err
			}()
			servertest.Await(t, func() error {
				if f.locks(t) == 0 {
					return fmt.Errorf("the call does not have the lock")
				}
				return nil
			})
			f.exec(t, way.end, pid)
			err = <-ended
			if way.says == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, way.says)
			}
			if name == "cancel" {
				run(`ROLLBACK TO s`)
			}
			if name != "kill" {
				run(`SELECT 1`) // the transaction is alive
			}
			f.exec(t, `UPDATE clock SET pause = false`)
			servertest.Await(t, func() error { // until the killed process has ended
				if n := f.locks(t); n > 0 && name == "kill" {
					return fmt.Errorf("%d locks", n)
				}
				return nil
			})
			require.Zero(t, f.locks(t))
			f.must(t, 1)
			_, _ = conn.ExecContext(t.Context(), `ROLLBACK`)
		})
	}
}

// While a call opens a tick, draws continue, but do not reach the new tick, however many numbers
// were drawn. The test slows the script down at the moment when this could happen.
func TestDrawsWhileATickIsOpened(t *testing.T) {
	t.Parallel()
	f := install(t, shared(t), snowflake.DefaultLayout()).withClock(t)
	f.exec(t, `UPDATE clock SET fixed = '2026-06-01 12:00:00Z'`)
	script := servertest.Must(f.Script())(t)
	const point = "      next := greatest("
	require.Equal(t, 1, strings.Count(script, point))
	f.exec(t, strings.Replace(script, point, "      PERFORM pg_sleep(0.3);\n"+point, 1))
	f.useClock(t)
	tick := int64(13089600000) // of the clock
	require.Equal(t, tick<<22, int64(f.Layout.Decode(f.must(t, 1)[0]).Time.Sub(f.Layout.Epoch.Time()).Milliseconds())<<22)
	for _, numbers := range []int64{4094, 4095, 1<<22 - 20, 1<<22 - 2} {
		f.exec(t, fmt.Sprintf(`SELECT setval('%s', %d)`, f.state(), tick<<22|numbers))
		requireUnique(t, f, 16, 500)
		tick += 100
		f.exec(t, `UPDATE clock SET fixed = fixed + interval '100 ms'`)
	}
}
