package metrics

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
)

// readerCollector is a collector of the statistics of a [follow.Reader].
type readerCollector struct {
	stats  func() follow.Stats
	labels prometheus.Labels
}

// holderLabels are the labels for the holder that keeps the watermark back.
var holderLabels = []string{"worker", "owner", "host"}

// NewReader returns a Collector of a reader of package follow. The labels are added to each metric.
// If a process has several readers, give each a different label, such as prometheus.Labels{"table":
// "orders"}. The error matches [snowflake.ErrInvalidOptions] if r is nil, or if a label is invalid
// or reserved (worker, owner and host).
func NewReader(r *follow.Reader, labels prometheus.Labels) (prometheus.Collector, error) {
	if r == nil {
		return nil, fmt.Errorf("metrics: %w: the reader is nil", snowflake.ErrInvalidOptions)
	}
	c := &readerCollector{r.Stats, maps.Clone(labels)}
	if _, err := c.heldBack(follow.Stats{}); err != nil {
		return nil, fmt.Errorf("metrics: %w: labels: %w", snowflake.ErrInvalidOptions, err)
	}
	return c, nil
}

// heldBack returns the metric for a holder that keeps the watermark back while rows wait.
func (c *readerCollector) heldBack(s follow.Stats) (prometheus.Metric, error) {
	desc := prometheus.NewDesc("snowflake_reader_held_back",
		"1 if a holder, named by the labels, keeps the watermark back while rows wait, else 0.", holderLabels, c.labels)
	h := s.Mark.HeldBy
	if h == nil || s.Waits == nil {
		return prometheus.NewConstMetric(desc, prometheus.GaugeValue, 0, "", "", "")
	}
	return prometheus.NewConstMetric(desc, prometheus.GaugeValue, 1, strconv.Itoa(h.Worker), h.Owner, h.Host)
}

// Describe sends the descriptions of all metrics that Collect sends.
func (c *readerCollector) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

// Collect reads the statistics once and sends them.
func (c *readerCollector) Collect(to chan<- prometheus.Metric) {
	send := func(name, help string, v float64) {
		m, _ := metric("reader_"+name, help, c.labels, v) // NewReader has checked the labels
		to <- m
	}
	s := c.stats()
	send("spans_total", "Spans of IDs that the reader returned.", float64(s.Spans))
	send("rows_total", "Rows of these spans, if the reader knows the table.", float64(s.Rows))
	send("stalls_total", "Waits of the reader for the watermark, for writers or for a replica.", float64(s.Stalls))
	send("failures_total", "Failures of the database or the store; retries count only if the cause changes.", float64(s.Failures))
	send("lag_seconds", "Age of the oldest unread row, or of the last row that the reader returned; 0 if there is none.",
		s.Lag.Seconds())
	waits := 0.0
	if s.Waits != nil {
		waits = time.Since(s.Since).Seconds()
	}
	send("waiting_seconds", "Time since the reader last found a span, or no row; 0 if it does not wait.", waits)
	m, _ := c.heldBack(s)
	to <- m
}
