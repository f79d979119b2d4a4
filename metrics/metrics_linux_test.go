package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestKernelsClockHasMetrics(t *testing.T) {
	c := leased(t)
	if n := testutil.CollectAndCount(c, "snowflake_lease_clock_synchronized", "snowflake_lease_clock_max_error_seconds"); n != 2 {
		t.Errorf("%d metrics, not 2", n)
	}
}
