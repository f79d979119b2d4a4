package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// census counts the worker IDs of the store, for the metrics.
type census struct {
	workers *prometheus.GaugeVec
}

// countEvery is how often the store is asked for all worker IDs. The tests change it.
var countEvery = time.Minute

// newCensus registers the metrics, and counts until ctx is done.
func newCensus(ctx context.Context, store lease.Store, l snowflake.Layout, to prometheus.Registerer) {
	c := census{
		workers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "snowflake_store_workers",
			Help: "Worker IDs by state: held, dead, free, spent or lost, as snowflaked workers explains them, and unused.",
		}, []string{"state"}),
	}
	to.MustRegister(c.workers)
	go func() {
		for {
			if err := c.count(ctx, store, l); err != nil && ctx.Err() == nil {
				slog.Warn("the worker IDs cannot be counted", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(countEvery):
			}
		}
	}()
}

func (c census) count(ctx context.Context, store lease.Store, l snowflake.Layout) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	records, err := lease.Holders(ctx, store)
	if err != nil {
		return err
	}
	counts := map[lease.State]int{lease.Held: 0, lease.Dead: 0, lease.Free: 0, lease.Spent: 0, lease.Lost: 0}
	for _, r := range records {
		counts[r.State]++
	}
	for state, n := range counts {
		c.workers.WithLabelValues(string(state)).Set(float64(n))
	}
	c.workers.WithLabelValues("unused").Set(float64(1<<l.WorkerBits - len(records)))
	return nil
}
