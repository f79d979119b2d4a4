package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHistogramFindsQuantiles(t *testing.T) {
	var h, rest histogram
	for i := range 1000 {
		h.add(time.Duration(i + 1))
	}
	rest.add(time.Second)
	h.merge(&rest)
	for q, want := range map[float64]time.Duration{0.5: 501, 0.99: 991, 1: time.Second} {
		got := h.quantile(q)
		require.LessOrEqual(t, got, want, "quantile %v is %v, not within a 32nd below %v", q, got, want)
		assert.GreaterOrEqual(t, got, want-want/perOctave-1, "quantile %v is %v, not within a 32nd below %v", q, got, want)
	}
	assert.Equal(t, time.Second, h.longest)
}

func TestHistogramBucketsAreNarrow(t *testing.T) {
	for d := time.Duration(0); d < 1<<40; d += 1 + d/7 {
		if low := least(bucket(d)); low > d || d-low > d/perOctave {
			t.Errorf("%d is counted as %d", d, low)
		}
	}
}
