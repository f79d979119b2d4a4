package recipes

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	otelprom "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/metrics"
)

// meterProvider returns a provider that exports the metrics of a generator and its lease.
func meterProvider(gen *snowflake.Generator, l *lease.Lease, exporter metric.Exporter) (*metric.MeterProvider, error) {
	collector, err := metrics.New(gen, &metrics.Options{Lease: l})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return nil, err
	}
	bridge := otelprom.NewMetricProducer(otelprom.WithGatherer(registry))
	return metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(exporter, metric.WithProducer(bridge)))), nil
}

// The metrics of package metrics arrive at an exporter of OpenTelemetry with their names and
// values.
func TestOpenTelemetryMetrics(t *testing.T) {
	l := servertest.Must(lease.Acquire(t.Context(), lease.File(t.TempDir()), nil))(t)
	defer l.Release(context.Background())
	gen := servertest.Must(snowflake.NewLeased(l, nil))(t)
	nextID(t, gen)
	nextID(t, gen)

	kept := &keeping{values: map[string]float64{}}
	provider := servertest.Must(meterProvider(gen, l, kept))(t)
	require.NoError(t, provider.Shutdown(t.Context()), "it exports for the last time")
	assert.Equal(t, 2.0, kept.values["snowflake_ids_issued_total"])
	assert.Equal(t, float64(gen.Worker()), kept.values["snowflake_worker_id"])
	assert.Positive(t, kept.values["snowflake_lease_window_remaining_seconds"])
}

// keeping is an exporter that keeps the last value of each metric without attributes.
type keeping struct{ values map[string]float64 }

func (k *keeping) Temporality(kind metric.InstrumentKind) metricdata.Temporality {
	return metric.DefaultTemporalitySelector(kind)
}
func (k *keeping) Aggregation(kind metric.InstrumentKind) metric.Aggregation {
	return metric.DefaultAggregationSelector(kind)
}
func (k *keeping) ForceFlush(context.Context) error { return nil }
func (k *keeping) Shutdown(context.Context) error   { return nil }

func (k *keeping) Export(_ context.Context, all *metricdata.ResourceMetrics) error {
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				k.values[m.Name] = data.DataPoints[0].Value
			case metricdata.Gauge[float64]:
				k.values[m.Name] = data.DataPoints[0].Value
			}
		}
	}
	return nil
}

// The log of a lease arrives at OpenTelemetry. An ID is logged as its text, which no viewer rounds:
// the handler does not know the type, and says so within the value.
func TestOpenTelemetryLogs(t *testing.T) {
	var kept records
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(&kept))
	logger := otelslog.NewLogger("orders", otelslog.WithLoggerProvider(provider))

	l := servertest.Must(lease.Acquire(t.Context(), lease.File(t.TempDir()), &lease.Options{Logger: logger}))(t)
	require.NoError(t, l.Release(t.Context()))
	id, order := middle, OrderID(middle)
	logger.Info("paid", "id", id)
	assert.Equal(t, "unhandled: (snowflake.ID) 117469438034313216", kept.attributes["id"].AsString(),
		"if this fails, the recipe may be simpler")
	logger.Info("paid", "id", id.String(), "order", order.String())
	assert.Equal(t, "117469438034313216", kept.attributes["id"].AsString())
	assert.Equal(t, "order_038ANTKF00000", kept.attributes["order"].AsString())
	assert.Contains(t, kept.bodies, "lease: worker ID acquired")
}

// records is a processor that keeps the texts of records, and the attributes of the last.
type records struct {
	bodies     []string
	attributes map[string]log.Value
}

func (r *records) OnEmit(_ context.Context, record *sdklog.Record) error {
	r.bodies = append(r.bodies, record.Body().AsString())
	r.attributes = map[string]log.Value{}
	record.WalkAttributes(func(kv log.KeyValue) bool {
		r.attributes[kv.Key] = kv.Value
		return true
	})
	return nil
}

func (r *records) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (r *records) Shutdown(context.Context) error                         { return nil }
func (r *records) ForceFlush(context.Context) error                       { return nil }
