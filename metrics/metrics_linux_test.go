package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/metrics"
)

func TestKernelsClockHasMetrics(t *testing.T) {
	l, err := lease.Acquire(t.Context(), lease.File(t.TempDir()), &lease.Options{NewStore: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release(t.Context())
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := collector(t, g, &metrics.Options{Lease: l})
	if n := testutil.CollectAndCount(c, "snowflake_lease_clock_synchronized", "snowflake_lease_clock_max_error_seconds"); n != 2 {
		t.Errorf("%d metrics, not 2", n)
	}
}
