//go:build go1.25

package scale

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// platform freezes processes between requests. As on a machine that is suspended, their timers
// stand still meanwhile, and the wall clock goes on. (If the timers go on, too, they fire when the
// process is thawed, and renew the lease: the suite of package servertest stops real processes for
// longer than a window.)
type platform struct {
	slept atomic.Int64 // by how many nanoseconds the wall clock is ahead of the timers
}

func (p *platform) freeze(d time.Duration) { p.slept.Add(int64(d)) }

// Now is the wall clock of the processes and of their store.
func (p *platform) Now() time.Time { return time.Now().Add(time.Duration(p.slept.Load())) }

// environment starts a process that leases one of a number of worker IDs.
func (p *platform) environment(t *testing.T, s *server, owner string, workers int, window, maxLeap time.Duration) (*lease.Lease, *snowflake.Generator) {
	layout := snowflake.DefaultLayout()
	layout.Epoch = snowflake.UnixEpoch // synctest begins in 2000
	l, err := lease.Acquire(t.Context(), s, &lease.Options{Layout: layout, Window: window, Owner: owner, Count: workers, NewStore: true,
		MaxLeap: maxLeap, Clock: p, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	g, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	return l, g
}

// A process runs for 50 ms when a request comes, and is frozen until the next one. If the window
// has ended, the first call of the request renews the lease, in three or four round trips: two of
// them look at the watermark. With a store that has no clock, MaxLeap has to be longer than a
// freeze and a window; otherwise the calls fail.
func TestFrozenProcessIssuesAtEachRequest(t *testing.T) {
	const runs, requests, trip = 50 * time.Millisecond, 1000, 3 * time.Millisecond
	for _, test := range []struct {
		window, every, maxLeap time.Duration
		hasClock               bool
		waiting                int // the share of the calls that renew, in thousandths
		trips                  time.Duration
		fails                  bool
	}{
		{window: 3 * time.Second, every: 10 * time.Second, hasClock: true, waiting: 1000, trips: 3},
		{window: 30 * time.Second, every: 10 * time.Second, hasClock: true, waiting: 250, trips: 3},
		{window: 2 * time.Minute, every: 10 * time.Second, hasClock: true, waiting: 77, trips: 4},
		{window: 2 * time.Minute, every: 5 * time.Minute, hasClock: true, waiting: 1000, trips: 4},
		{window: 30 * time.Second, every: 10 * time.Second, waiting: 250, trips: 3},
		{window: 2 * time.Minute, every: 10 * time.Second, fails: true},
		{window: 2 * time.Minute, every: 5 * time.Minute, fails: true},
		{window: 2 * time.Minute, every: 10 * time.Second, maxLeap: 24 * time.Hour, waiting: 77, trips: 3},
		{window: 2 * time.Minute, every: 5 * time.Minute, maxLeap: 24 * time.Hour, waiting: 1000, trips: 3},
	} {
		name := fmt.Sprintf("window=%v/every=%v/clock=%v/maxLeap=%v", test.window, test.every, test.hasClock, test.maxLeap)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := newServer(), new(platform)
				s.Clock = p
				if !test.hasClock {
					s.Clock = nil
				}
				l, g := p.environment(t, s, "a", 1024, test.window, test.maxLeap)
				asked := len(s.asked)
				var last snowflake.ID
				var longest time.Duration
				waiting, failed := 0, 0
				for range requests {
					begun := time.Now()
					id, err := g.NextID()
					if took := time.Since(begun); took > 0 {
						waiting++
						longest = max(longest, took)
					}
					if err != nil {
						require.ErrorIs(t, err, lease.ErrClockLeap)
						failed++
					} else {
						require.Greater(t, id, last)
						last = id
					}
					time.Sleep(runs - time.Since(begun))
					p.freeze(test.every - runs)
				}
				t.Logf("of 1,000 calls %d waited, %v at most, and %d failed; %d requests",
					waiting, longest.Round(100*time.Microsecond), failed, len(s.asked)-asked)
				if test.fails {
					require.Greater(t, failed, requests/2)
				} else {
					require.Zero(t, failed)
					require.InDelta(t, test.waiting, waiting, 2)
					require.LessOrEqual(t, longest, test.trips*trip)
				}
				require.NoError(t, l.Release(t.Context()))
			})
		})
	}
}

// While a process is frozen for longer than its window, others may take its worker ID. If another
// worker ID is free, the first call after it takes this one, with greater IDs. If not, the call
// fails after a third of a window, and later calls succeed when one is free.
func TestFrozenProcessWhoseWorkerIDIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 30 * time.Second
		s, p := newServer(), new(platform)
		s.Clock = p
		a, g := p.environment(t, s, "a", 2, window, 0)
		before, err := g.NextID()
		require.NoError(t, err)
		p.freeze(5 * time.Minute)
		b, _ := p.environment(t, s, "b", 2, window, 0)
		c, _ := p.environment(t, s, "c", 2, window, 0)

		begun := time.Now()
		_, err = g.NextID()
		require.ErrorIs(t, err, snowflake.ErrLeaseExpired)
		t.Logf("with no worker ID free, a call failed after %v: %v", time.Since(begun).Round(time.Millisecond), err)
		require.InDelta(t, window/3, time.Since(begun), float64(window/10))

		require.NoError(t, b.Release(t.Context()))
		time.Sleep(window)
		after, err := g.NextID()
		require.NoError(t, err)
		require.Greater(t, after, before)

		p.freeze(5 * time.Minute)
		d, _ := p.environment(t, s, "d", 2, window, 0)
		e, _ := p.environment(t, s, "e", 2, window, 0)
		require.NoError(t, d.Release(t.Context()))
		begun = time.Now()
		last, err := g.NextID()
		require.NoError(t, err)
		require.Greater(t, last, after)
		t.Logf("with a worker ID free, a call took %v; worker IDs %d, %d, %d", time.Since(begun).Round(time.Millisecond),
			g.Decode(before).Worker, g.Decode(after).Worker, g.Decode(last).Worker)
		require.Less(t, time.Since(begun), 100*time.Millisecond)
		for _, l := range []*lease.Lease{a, c, e} {
			_ = l.Release(t.Context()) // c was frozen, too, and may have lost its worker ID
		}
		time.Sleep(window) // leases give back what they took
	})
}
