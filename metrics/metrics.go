// Package metrics exports the statistics of a generator, its lease, and readers of package follow
// to Prometheus.
//
//	collector, err := metrics.New(gen, &metrics.Options{Lease: l})
//	...
//	prometheus.MustRegister(collector)
//
// At each scrape, the collector calls Generator.Stats and Lease.Stats once. Between scrapes it does
// nothing, so metrics do not make IDs slower.
//
// # Metrics
//
// Of the generator, from its creation on:
//
//	snowflake_ids_issued_total            IDs
//	snowflake_waits_total                 sleeps, for the next tick or for the clock
//	snowflake_wait_seconds_total          their duration, summed over the calls
//	snowflake_clock_backward_total        steps back of the clock that the policy decided about
//	snowflake_clock_sequence_bumps_total  changes of the clock sequence
//	snowflake_rewinds_total               steps back to an earlier tick
//	snowflake_borrowed_ticks_total        ticks entered ahead of the clock
//	snowflake_refused_calls_total         calls that returned an error, by the error
//	snowflake_worker_id                   the worker ID
//	snowflake_layout_remaining_seconds    the time until the layout's end; negative after it
//
// A refused call has the label error, which is a field of Refused in [snowflake.Stats]:
// clock_backward, lease_expired, time_exhausted, before_epoch, deadline, canceled or other.
//
// Of the lease, with [Options].Lease:
//
//	snowflake_lease_window_remaining_seconds        the time until IDs stop without a renewal (1)
//	snowflake_lease_window_seconds                  the window after a renewal
//	snowflake_lease_renewals_total                  renewals that succeeded
//	snowflake_lease_failures_total                  renewals and replacements that failed
//	snowflake_lease_replacements_total              lost worker IDs that were replaced
//	snowflake_lease_clones_total                    clones that the hypervisor reported
//	snowflake_lease_clone_guard                     1 if the hypervisor reports clones, else 0
//	snowflake_lease_clock_synchronized              1 if a time service sets the clock, else 0 (2)
//	snowflake_lease_clock_max_error_seconds         the clock's maximum error (2)
//	snowflake_lease_last_renewal_timestamp_seconds  the start of the last successful renewal
//	snowflake_lease_last_renewal_successful         1 if the last renewal succeeded, else 0
//	snowflake_lease_store_away                      1 if only the local copy is renewed, else 0
//	snowflake_lease_store_unsafe_settings           settings that may lose the store's writes (3)
//	snowflake_lease_restored_total                  lost records that were put back
//	snowflake_lease_wait_seconds                    the rest of the wait after a loss of entries
//	snowflake_lease_ended                           1 after Release, or a final loss (4), else 0
//
//	(1) negative after the window's end
//	(2) as the kernel reports it, on Linux only
//	(3) after the store has acknowledged them: see Stats.Unsafe
//	(4) with OnLoss: Stop
//
// Of a reader of package follow, with [NewReader]:
//
//	snowflake_reader_spans_total      spans that the reader returned
//	snowflake_reader_rows_total       their rows, if the reader knows the table
//	snowflake_reader_stalls_total     waits for the watermark, writers or a replica
//	snowflake_reader_failures_total   failures of the database or the store
//	snowflake_reader_lag_seconds      the age of the oldest unread row (5)
//	snowflake_reader_waiting_seconds  the time since the reader began to wait; 0 if it does not
//	snowflake_reader_held_back        1 if a holder keeps the reader back, else 0 (6)
//
//	(5) or of the last row that was returned, until the reader looks again: see follow.Stats
//	(6) the labels worker, owner and host name the holder
//
// # Alerts and a dashboard
//
// rules/snowflake.yml has alerts, and rules/snowflaked.yml more for snowflaked; docs/operations.md
// has a remedy for each. dashboard.json is a dashboard for Grafana: Dashboards, New, Import. The
// tests check the alerts and the dashboard's queries with promtool, but the dashboard has not been
// tried in Grafana.
package metrics

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Options holds the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	// Lease is the generator's lease, or nil.
	Lease *lease.Lease

	// Labels are added to each metric. If a process has several generators, give each a different
	// label, such as prometheus.Labels{"generator": "orders"}; otherwise the registry refuses the
	// second collector. If processes of one job lease their worker IDs from different stores, add a
	// label "fleet"; if generators differ in Options.Datacenter, a label "datacenter". Otherwise
	// the alert on shared worker IDs fires. The label "error" is reserved for refused calls.
	Labels prometheus.Labels

	// Clock is the clock for remaining times. Set it if the generator has a clock of its own. The
	// default is the lease's clock, or SystemClock without a lease.
	Clock snowflake.Clock
}

// Collector is a [prometheus.Collector]. It may be registered with any number of registries.
type Collector struct {
	gen    *snowflake.Generator
	lease  *lease.Lease
	clock  snowflake.Clock
	labels prometheus.Labels
}

var _ prometheus.Collector = (*Collector)(nil)

// errorLabel is the label with the reason why calls were refused.
const errorLabel = "error"

// New returns a Collector of a generator and, with Options.Lease, of its lease. The error matches
// [snowflake.ErrInvalidOptions] if gen is nil or zero, if the lease is zero, or if a label is
// invalid or reserved.
func New(gen *snowflake.Generator, opts *Options) (*Collector, error) {
	if gen == nil {
		return nil, fmt.Errorf("metrics: %w: the generator is nil", snowflake.ErrInvalidOptions)
	}
	if gen.Layout() == (snowflake.Layout{}) {
		return nil, fmt.Errorf("metrics: %w: the generator was not made by New or NewLeased", snowflake.ErrInvalidOptions)
	}
	o := *cmp.Or(opts, new(Options))
	if o.Lease != nil && o.Lease.Grant() == (snowflake.Grant{}) {
		return nil, fmt.Errorf("metrics: %w: the lease was not made by Acquire", snowflake.ErrInvalidOptions)
	}
	if o.Clock == nil && o.Lease != nil {
		o.Clock = o.Lease.Clock()
	}
	if o.Clock == nil {
		o.Clock = snowflake.SystemClock()
	}
	if _, taken := o.Labels[errorLabel]; taken {
		return nil, fmt.Errorf("metrics: %w: Labels: %q is a label of the metrics themselves", snowflake.ErrInvalidOptions, errorLabel)
	}
	c := &Collector{gen: gen, lease: o.Lease, clock: o.Clock, labels: maps.Clone(o.Labels)}
	if _, err := metric("worker_id", "", c.labels, 0); err != nil {
		return nil, fmt.Errorf("metrics: %w: Labels: %w", snowflake.ErrInvalidOptions, err)
	}
	return c, nil
}

// metric returns a metric. It is a counter if its name ends in _total.
func metric(name, help string, labels prometheus.Labels, v float64) (prometheus.Metric, error) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	return prometheus.NewConstMetric(prometheus.NewDesc("snowflake_"+name, help, nil, labels), kind, v)
}

// Describe sends the descriptions of all metrics that Collect sends.
func (c *Collector) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

// Collect reads the statistics once and sends them.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	send := func(name, help string, v float64) {
		m, _ := metric(name, help, c.labels, v) // New has checked the labels
		to <- m
	}
	s, now := c.gen.Stats(), c.clock.Now()
	send("ids_issued_total", "IDs issued.", float64(s.Issued))
	send("waits_total", "Sleeps, for the next tick or for the clock to catch up.", float64(s.Waits))
	send("wait_seconds_total", "Duration of the waits, summed over the calls.", s.Waited.Seconds())
	send("clock_backward_total", "Steps back of the clock that the policy decided about.", float64(s.Backward))
	send("clock_sequence_bumps_total", "Changes of the clock sequence.", float64(s.Bumps))
	send("rewinds_total", "Steps back to an earlier tick.", float64(s.Rewinds))
	send("borrowed_ticks_total", "Ticks entered ahead of the clock.", float64(s.Borrowed))
	send("worker_id", "The worker ID.", float64(c.gen.Worker()))
	end := c.gen.Layout().Expires()
	send("layout_remaining_seconds", "Time until the layout's end; negative after it.", seconds(now, end))
	refused := prometheus.NewDesc("snowflake_refused_calls_total", "Calls that returned an error, by the error.",
		[]string{errorLabel}, c.labels)
	for name, n := range map[string]uint64{
		"clock_backward": s.Refused.ClockBackward, "lease_expired": s.Refused.LeaseExpired,
		"time_exhausted": s.Refused.TimeExhausted, "before_epoch": s.Refused.BeforeEpoch,
		"deadline": s.Refused.Deadline, "canceled": s.Refused.Canceled, "other": s.Refused.Other,
	} {
		to <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(n), name)
	}
	if c.lease == nil {
		return
	}
	l := c.lease.Stats()
	send("lease_window_remaining_seconds", "Time until IDs stop if no renewal succeeds; negative after the window's end.",
		seconds(now, l.Bound))
	send("lease_window_seconds", "Window after a renewal.", seconds(l.Renewed, l.Bound))
	send("lease_renewals_total", "Renewals that succeeded.", float64(l.Renewals))
	send("lease_failures_total", "Renewals and replacements that failed.", float64(l.Failures))
	send("lease_replacements_total", "Lost worker IDs that were replaced.", float64(l.Replacements))
	send("lease_restored_total", "Lost records of the worker ID that were put back.", float64(l.Restored))
	send("lease_wait_seconds", "Rest of the wait for a worker ID after the store lost its entries, or 0.",
		max(0, seconds(now, l.WaitsUntil)))
	send("lease_clones_total", "Clones of the machine, after which another worker ID was acquired.", float64(l.Clones))
	send("lease_clone_guard", "1 if the hypervisor reports clones of the machine, else 0.", number(l.Guarded))
	if l.Clock.Known {
		send("lease_clock_synchronized", "1 if the kernel reports that a time service sets the clock, else 0.",
			number(l.Clock.Synchronized))
		send("lease_clock_max_error_seconds", "Maximum error of the clock, as the kernel reports it.", l.Clock.MaxError.Seconds())
	}
	send("lease_last_renewal_timestamp_seconds", "Start of the last successful renewal.", seconds(time.Unix(0, 0), l.Renewed))
	send("lease_last_renewal_successful", "1 if the last renewal succeeded, else 0.", number(l.LastError == nil))
	send("lease_store_away", "1 if renewals go to the local copy only, else 0.", number(l.Away != nil))
	send("lease_store_unsafe_settings", "Settings with which the store's engine may lose acknowledged writes.", float64(len(l.Unsafe)))
	send("lease_ended", "1 after Release, or after a loss with OnLoss: Stop, else 0.", number(c.lease.Err() != nil))
}

// seconds returns the time from one instant to another. A time.Duration would overflow if a layout
// lasts for more than 292 years.
func seconds(from, to time.Time) float64 {
	return float64(to.Unix()-from.Unix()) + float64(to.Nanosecond()-from.Nanosecond())/1e9
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
