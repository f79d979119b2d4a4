package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// countEvery is the interval at which the worker IDs are counted. The tests change it.
var countEvery = time.Minute

// countWorkers registers a metric of the store's worker IDs, and updates it until ctx is done.
func countWorkers(ctx context.Context, store lease.Store, l snowflake.Layout, to prometheus.Registerer) {
	workers := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "snowflake_store_workers",
		Help: "Worker IDs by state: held, dead, free, spent or lost, as snowflaked workers explains them, and unused.",
	}, []string{"state"})
	to.MustRegister(workers)
	go repeat(ctx, countEvery, func() {
		asking, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		records, err := lease.Holders(asking, store)
		if err != nil && ctx.Err() == nil {
			slog.Warn("the worker IDs cannot be counted", "error", err)
		}
		if err != nil {
			return
		}
		counts := map[lease.State]int{
			lease.StateHeld: 0, lease.StateDead: 0, lease.StateFree: 0, lease.StateSpent: 0, lease.StateLost: 0,
			"unused": 1<<l.WorkerBits - len(records),
		}
		for _, r := range records {
			counts[r.State]++
		}
		for state, n := range counts {
			workers.WithLabelValues(string(state)).Set(float64(n))
		}
	})
}
