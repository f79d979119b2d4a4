//go:build go1.25

package metrics

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// The recipes test the metrics of a reader of real rows.
func TestMetricsOfAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := follow.Stats{
			Spans: 3, Rows: 40, Stalls: 2, Failures: 1, Lag: 1500 * time.Millisecond,
			Waits: errors.New("waiting"), Since: time.Now().Add(-time.Minute),
			Mark: lease.Mark{HeldBy: &lease.Holder{Worker: 7, Owner: "orders-1", Host: "a"}},
		}
		c := &readerCollector{func() follow.Stats { return s }, prometheus.Labels{"table": "orders"}}
		shows := func(waiting, held float64, holder string) {
			t.Helper()
			reg := prometheus.NewPedanticRegistry()
			require.NoError(t, reg.Register(c))
			families, err := reg.Gather()
			require.NoError(t, err)
			got, labels := map[string]float64{}, ""
			for _, f := range families {
				m := f.GetMetric()[0]
				got[strings.TrimPrefix(f.GetName(), "snowflake_reader_")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
				labels = fmt.Sprint(labels, m.GetLabel())
			}
			require.Equal(t, map[string]float64{
				"spans_total": 3, "rows_total": 40, "stalls_total": 2, "failures_total": 1, "lag_seconds": 1.5,
				"waiting_seconds": waiting, "held_back": held,
			}, got)
			require.Equal(t, 7, strings.Count(labels, `value:"orders"`))
			require.Contains(t, labels, holder)
		}
		shows(60, 1, `value:"orders-1"`)
		s.Waits = nil // without waiting rows, no holder keeps the reader back
		shows(0, 0, `value:""`)
		problems, err := testutil.CollectAndLint(c)
		require.NoError(t, err)
		require.Empty(t, problems)
	})
}

func TestNewReaderRefusesBadInput(t *testing.T) {
	f, err := follow.NewFence(follow.SQLite, "fence")
	require.NoError(t, err)
	r := follow.NewReader(lease.File(t.TempDir()), nil, f, 0, nil)
	for name, labels := range map[string]prometheus.Labels{
		"taken": {"worker": "1"}, "not UTF-8": {"table": "\xff"},
	} {
		_, err := NewReader(r, labels)
		require.ErrorIs(t, err, snowflake.ErrInvalidOptions, name)
	}
	_, err = NewReader(nil, nil)
	require.ErrorIs(t, err, snowflake.ErrInvalidOptions)
	require.True(t, strings.Contains(err.Error(), "the reader is nil"))
}
