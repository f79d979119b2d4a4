package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
)

func TestKernelsClockHasMetrics(t *testing.T) {
	c := leased(t)
	assert.Equal(t, 2, testutil.CollectAndCount(c, "snowflake_lease_clock_synchronized", "snowflake_lease_clock_max_error_seconds"))
}
