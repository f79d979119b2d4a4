//go:build unix

package serverbench

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var loadTime = flag.Duration("load", 100*time.Millisecond,
	"how long an operation of BenchmarkHalf, BenchmarkHost or BenchmarkOverhead puts load on a server")

// trial is the duration of the measurement of the capacity.
const trial = 200 * time.Millisecond

// BenchmarkHalf measures latency at half of the capacity, which is the rate of 8 goroutines that
// call without pauses. Calls then begin at fixed times, whether earlier ones have ended or not, and
// latency counts from these times. "none" is a call that does nothing, 5,000 times a second: its
// latency is that of the load generator.
func BenchmarkHalf(b *testing.B) {
	for _, w := range one {
		b.Run("call="+w.name, func(b *testing.B) {
			c := w.open(b, 1)
			do := func() error { return c(context.Background(), 1) }
			callers := workers
			if w.name == "buffer" {
				callers = 1 // which spins between two calls; the server has the other core
			}
			require.NoError(b, repeat(callers, 100, do)) // connects
			calls, err := during(callers, trial, do)
			require.NoError(b, err)
			halfLoad(b, float64(calls)/trial.Seconds()/2, callers, do)
		})
	}
	b.Run("call=none", func(b *testing.B) { halfLoad(b, 5000, workers, func() error { return nil }) })
}

// halfLoad reports the latency of calls at a rate.
func halfLoad(b *testing.B, rate float64, callers int, do func() error) {
	sleeps := make([]func(time.Duration), callers)
	for i := range sleeps {
		sleeps[i] = newSleep()
	}
	var took []time.Duration
	for b.Loop() {
		latencies, err := load(rate, *loadTime, sleeps, do)
		require.NoError(b, err)
		took = append(took, latencies...)
	}
	reportLatencies(b, took)
	b.ReportMetric(rate, "calls/s")
	b.ReportMetric(0, "ns/op")
}

// reportLatencies reports two quantiles of latencies.
func reportLatencies(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))]) }
	b.ReportMetric(at(0.5), "p50-ns")
	b.ReportMetric(at(0.999), "p99.9-ns")
}

// load makes calls at a fixed total rate, with a goroutine for each sleep function, and returns the
// latencies, from the time at which a call should have begun to its end. A goroutine that is late
// makes its next calls at once.
func load(rate float64, while time.Duration, sleeps []func(time.Duration), do func() error) ([]time.Duration, error) {
	latencies := make([][]time.Duration, len(sleeps))
	begun := time.Now()
	err := together(len(sleeps), func(caller int) error {
		for i := caller; ; i += len(sleeps) {
			due := time.Duration(float64(i) / rate * float64(time.Second))
			if due >= while {
				return nil
			}
			sleeps[caller](due - time.Since(begun))
			if err := do(); err != nil {
				return err
			}
			latencies[caller] = append(latencies[caller], time.Since(begun)-due)
		}
	})
	return slices.Concat(latencies...), err
}
