//go:build go1.25

package metrics_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/internal/netcut"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/metrics"
)

func collector(t *testing.T, g *snowflake.Generator, o *metrics.Options) *metrics.Collector {
	t.Helper()
	c := servertest.Must(metrics.New(g, o))(t)
	return c
}

// gathered returns the values of all metrics.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	require.NoError(t, reg.Register(c))
	families := servertest.Must(reg.Gather())(t)
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		values[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return values
}

// has checks the values of some metrics.
func has(t *testing.T, c prometheus.Collector, want map[string]float64) {
	t.Helper()
	got := gathered(t, c)
	for name, v := range want {
		require.Contains(t, got, name)
		assert.Equal(t, v, got[name], name)
	}
}

// issue issues n IDs.
func issue(t *testing.T, g *snowflake.Generator, n int) {
	t.Helper()
	for range n {
		servertest.Must(g.NextID())(t)
	}
}

func TestMetricsOfAGenerator(t *testing.T) {
	layout := snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Second, TimeBits: 36, ClockSeqBits: 2, WorkerBits: 8, SequenceBits: 1}
	now := time.Unix(1000, 0)
	clock := snowflake.ClockFunc(func() time.Time { return now })
	g := servertest.Must(snowflake.New(42, &snowflake.Options{
		Layout: layout, Clock: clock, OnBackward: snowflake.ClockSeqPolicy(), BorrowAhead: 2 * time.Second,
	}))(t)
	c := collector(t, g, &metrics.Options{Clock: clock})
	issue(t, g, 5) // two ticks are borrowed
	now = now.Add(-time.Minute)
	issue(t, g, 1)
	has(t, c, map[string]float64{
		"snowflake_ids_issued_total":           6,
		"snowflake_waits_total":                0,
		"snowflake_wait_seconds_total":         0,
		"snowflake_clock_backward_total":       1,
		"snowflake_clock_sequence_bumps_total": 1,
		"snowflake_rewinds_total":              0,
		"snowflake_borrowed_ticks_total":       2,
		"snowflake_worker_id":                  42,
		"snowflake_layout_remaining_seconds":   float64(1<<36 - 940), // more than a time.Duration holds
	})
	assert.Len(t, gathered(t, c), 10)
	now = now.Add(100_000 * 24 * time.Hour)
	has(t, c, map[string]float64{"snowflake_layout_remaining_seconds": float64(1<<36-940) - 100_000*86400})
}

// Without a clock in the options, remaining times count from the lease's clock, not the machine's.
func TestMetricsFollowTheLeasesClock(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	_, g, c := acquire(t, lease.File(t.TempDir()), lease.Options{
		Clock: snowflake.ClockFunc(func() time.Time { return now }), Window: 30 * time.Second,
	})
	has(t, c, map[string]float64{
		"snowflake_lease_window_remaining_seconds": 30,
		"snowflake_layout_remaining_seconds":       g.Layout().Expires().Sub(now).Seconds(),
	})
}

// Each refusal has its own counter, which exists from the start, so that rate() counts the first
// refusal.
func TestRefusedCallsAreCountedByError(t *testing.T) {
	layout := bubbleLayout()
	now := layout.Epoch.Time().Add(time.Hour)
	clock := snowflake.ClockFunc(func() time.Time { return now })
	g := servertest.Must(snowflake.New(1, &snowflake.Options{Layout: layout, Clock: clock, OnBackward: snowflake.FailPolicy()}))(t)
	issue(t, g, 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for at, n := range map[time.Time]int{
		now.Add(-time.Minute): 1, layout.Expires(): 2, layout.Epoch.Time().Add(-time.Hour): 3,
	} {
		now = at
		for range n {
			_, err := g.NextID()
			require.Error(t, err, now)
		}
	}
	for range 4 {
		_, err := g.NextIDContext(gone)
		require.Error(t, err)
	}
	const want = `
# HELP snowflake_refused_calls_total Calls that returned an error, by the error.
# TYPE snowflake_refused_calls_total counter
snowflake_refused_calls_total{error="before_epoch"} 3
snowflake_refused_calls_total{error="canceled"} 4
snowflake_refused_calls_total{error="clock_backward"} 1
snowflake_refused_calls_total{error="deadline"} 0
snowflake_refused_calls_total{error="lease_expired"} 0
snowflake_refused_calls_total{error="other"} 0
snowflake_refused_calls_total{error="time_exhausted"} 2
`
	assert.NoError(t, testutil.CollectAndCompare(collector(t, g, nil), strings.NewReader(want), "snowflake_refused_calls_total"))
}

func TestRewindsAreCounted(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	g := servertest.Must(snowflake.New(1, &snowflake.Options{
		Clock: snowflake.ClockFunc(func() time.Time { return now }), OnBackward: snowflake.RewindPolicy(), RewindTicks: 100,
	}))(t)
	for _, step := range []time.Duration{0, time.Millisecond, -time.Millisecond} {
		now = now.Add(step)
		issue(t, g, 1)
	}
	has(t, collector(t, g, nil), map[string]float64{"snowflake_rewinds_total": 1, "snowflake_clock_backward_total": 1})
}

func TestWaitsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		layout := snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: time.Second, TimeBits: 33, WorkerBits: 8, SequenceBits: 1}
		g := servertest.Must(snowflake.New(1, &snowflake.Options{Layout: layout, Clock: snowflake.SystemClock()}))(t)
		issue(t, g, 5)
		has(t, collector(t, g, nil), map[string]float64{"snowflake_waits_total": 2, "snowflake_wait_seconds_total": 2})
	})
}

// bubbleLayout is the default layout with an epoch before the time in a bubble.
func bubbleLayout() snowflake.Layout {
	l := snowflake.DefaultLayout()
	l.Epoch = snowflake.UnixEpoch
	return l
}

func TestMetricsOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := netcut.Wrap(lease.File(t.TempDir()))
		l, _, c := acquire(t, network, lease.Options{Layout: bubbleLayout(), First: 5, Count: 1, Window: 30 * time.Second})
		begun := time.Now()
		has(t, c, map[string]float64{
			"snowflake_worker_id":                            5,
			"snowflake_lease_window_remaining_seconds":       30,
			"snowflake_lease_window_seconds":                 30,
			"snowflake_lease_renewals_total":                 0,
			"snowflake_lease_failures_total":                 0,
			"snowflake_lease_replacements_total":             0,
			"snowflake_lease_clones_total":                   0,
			"snowflake_lease_clone_guard":                    0,
			"snowflake_lease_last_renewal_timestamp_seconds": float64(begun.Unix()),
			"snowflake_lease_last_renewal_successful":        1,
			"snowflake_lease_store_away":                     0,
			"snowflake_lease_store_unsafe_settings":          0,
			"snowflake_lease_ended":                          0,
		})
		time.Sleep(25 * time.Second)
		synctest.Wait()
		renewed := gathered(t, c)
		n := renewed["snowflake_lease_renewals_total"]
		require.GreaterOrEqual(t, n, float64(1))
		assert.Equal(t, float64(l.Stats().Renewals), n)
		network.Cut(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		away := gathered(t, c)
		n = away["snowflake_lease_window_remaining_seconds"]
		require.LessOrEqual(t, n, float64(-20))
		assert.GreaterOrEqual(t, n, float64(-60))
		n = away["snowflake_lease_failures_total"]
		require.GreaterOrEqual(t, n, float64(1))
		assert.Equal(t, float64(l.Stats().Failures), n)
		has(t, c, map[string]float64{
			"snowflake_lease_last_renewal_successful":        0,
			"snowflake_lease_last_renewal_timestamp_seconds": renewed["snowflake_lease_last_renewal_timestamp_seconds"],
		})
		network.Cut(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		has(t, c, map[string]float64{"snowflake_lease_last_renewal_successful": 1})

		require.NoError(t, l.Release(context.Background()))
		has(t, c, map[string]float64{"snowflake_lease_ended": 1})
	})
}

// A holder that looks dead loses its worker ID and acquires another one.
func TestReplacementsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		network := netcut.Wrap(lease.File(dir))
		o := lease.Options{Layout: bubbleLayout(), Owner: "a", Count: 2, Window: 3 * time.Second}
		a, g, c := acquire(t, network, o)
		network.Cut(true)
		time.Sleep(10 * time.Second)
		o.Owner, o.First, o.Count = "b", a.Worker(), 1
		b, _, _ := acquire(t, lease.File(dir), o)
		network.Cut(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		issue(t, g, 1) // NextID checks the grant
		has(t, c, map[string]float64{
			"snowflake_lease_replacements_total": 1, "snowflake_worker_id": float64(1 - b.Worker()),
		})
	})
}

func TestMetricsSayThatTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := netcut.Wrap(lease.File(t.TempDir()))
		_, _, c := acquire(t, network, lease.Options{Layout: bubbleLayout(), Reuse: lease.ReuseKeep, LocalCopy: t.TempDir()})
		network.Cut(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		has(t, c, map[string]float64{
			"snowflake_lease_store_away": 1, "snowflake_lease_last_renewal_successful": 1,
		})
		network.Cut(false)
	})
}

// unsafe is a store whose engine may lose acknowledged writes.
type unsafe struct{ lease.Store }

func (unsafe) Settings(context.Context) ([]string, error) {
	return []string{"appendonly = no", "maxmemory-policy = allkeys-lru"}, nil
}

func TestMetricsCountUnsafeSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := acquire(t, unsafe{lease.File(t.TempDir())}, lease.Options{Layout: bubbleLayout()})
		synctest.Wait()
		has(t, c, map[string]float64{"snowflake_lease_store_unsafe_settings": 2})
	})
}

func TestNamesFollowPrometheusConventions(t *testing.T) {
	problems := servertest.Must(testutil.CollectAndLint(leased(t)))(t)
	assert.Empty(t, problems)
}

// leased returns the collector of a generator with a lease.
func leased(t *testing.T) *metrics.Collector {
	t.Helper()
	_, _, c := acquire(t, lease.File(t.TempDir()), lease.Options{})
	return c
}

// acquire acquires a worker ID from a new store, and returns the lease, its generator, and their
// collector.
func acquire(t *testing.T, store lease.Store, o lease.Options) (*lease.Lease, *snowflake.Generator, *metrics.Collector) {
	t.Helper()
	o.Logger, o.NewStore = slog.New(slog.DiscardHandler), true
	l := servertest.Must(lease.Acquire(t.Context(), store, &o))(t)
	t.Cleanup(func() { l.Release(context.Background()) })
	g := servertest.Must(snowflake.NewLeased(l, nil))(t)
	return l, g, collector(t, g, &metrics.Options{Lease: l})
}

func TestLabelsTellGeneratorsApart(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, name := range []string{"orders", "refunds"} {
		g := servertest.Must(snowflake.New(1, &snowflake.Options{Clock: snowflake.SystemClock()}))(t)
		labels := prometheus.Labels{"generator": name}
		require.NoError(t, reg.Register(collector(t, g, &metrics.Options{Labels: labels})))
		assert.Error(t, reg.Register(collector(t, g, &metrics.Options{Labels: labels})),
			"two collectors with the same labels are registered")
	}
	n := servertest.Must(testutil.GatherAndCount(reg, "snowflake_worker_id"))(t)
	assert.Equal(t, 2, n)
}

func TestNewRefusesBadInput(t *testing.T) {
	g := servertest.Must(snowflake.New(1, nil))(t)
	for _, test := range []struct {
		gen    *snowflake.Generator
		lease  *lease.Lease
		labels prometheus.Labels
		names  string
	}{
		{nil, nil, nil, "the generator is nil"},
		{new(snowflake.Generator), nil, nil, "the generator was not made by New"},
		{g, new(lease.Lease), nil, "the lease was not made by Acquire"},
		{g, nil, prometheus.Labels{"__name__": "x"}, "__name__"},
		{g, nil, prometheus.Labels{"": "x"}, `""`},
		{g, nil, prometheus.Labels{"orders": "\xff"}, "UTF-8"},
		{g, nil, prometheus.Labels{"error": "x"}, `"error"`},
	} {
		c, err := metrics.New(test.gen, &metrics.Options{Lease: test.lease, Labels: test.labels})
		assert.ErrorIs(t, err, snowflake.ErrInvalidOptions)
		assert.ErrorContains(t, err, test.names)
		assert.Nil(t, c)
	}
}

func TestKernelsClockHasMetrics(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this kernel says nothing of the clock")
	}
	assert.Equal(t, 2, testutil.CollectAndCount(leased(t), "snowflake_lease_clock_synchronized", "snowflake_lease_clock_max_error_seconds"))
}
