//go:build unix

package serverbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func BenchmarkCall(b *testing.B) {
	for _, w := range one {
		for _, goroutines := range []int{1, workers} {
			b.Run(fmt.Sprintf("call=%s/goroutines=%d", w.name, goroutines), func(b *testing.B) { measure(b, w, goroutines, 1) })
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	for _, w := range many {
		for _, n := range []int{100, 10_000} {
			for _, goroutines := range []int{1, workers} {
				b.Run(fmt.Sprintf("call=%s/n=%d/goroutines=%d", w.name, n, goroutines), func(b *testing.B) { measure(b, w, goroutines, n) })
			}
		}
	}
}

// measure reports the duration of a call, and the IDs a second.
func measure(b *testing.B, w way, goroutines, n int) {
	c := w.open(b, n)
	do := func() error { return c(context.Background(), n) }
	require.NoError(b, repeat(goroutines, workers, do)) // connects
	b.ResetTimer()
	require.NoError(b, repeat(goroutines, int64(b.N), do))
	b.StopTimer()
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "IDs/s")
}

// repeat calls do n times, with several goroutines.
func repeat(goroutines int, n int64, do func() error) error {
	var left atomic.Int64
	left.Store(n)
	return together(goroutines, func(int) error {
		for left.Add(-1) >= 0 {
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	})
}

// during calls do for a time, with several goroutines, and returns the number of calls.
func during(goroutines int, while time.Duration, do func() error) (calls int64, err error) {
	var n atomic.Int64
	end := time.Now().Add(while)
	err = together(goroutines, func(int) error {
		for time.Now().Before(end) {
			if err := do(); err != nil {
				return err
			}
			n.Add(1)
		}
		return nil
	})
	return n.Load(), err
}

// together runs goroutines, waits for their end, and returns their errors.
func together(goroutines int, run func(i int) error) error {
	errs := make([]error, goroutines)
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() { errs[i] = run(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
