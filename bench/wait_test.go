package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

// twoLayout has 2 IDs a millisecond.
func twoLayout() snowflake.Layout {
	return snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 10, SequenceBits: 1}
}

// overloaded has the libraries with a ceiling, and some of our layouts with few IDs. ideal is the
// longest wait of n callers that are served in order of arrival.
var overloaded = append([]lib{
	{ours, openOurs(&snowflake.Options{Layout: snowflake.JSSafeLayout()}), 15, 32_768},
	{ours, openOurs(&snowflake.Options{Layout: twoLayout(), Clock: snowflake.SystemClock()}), 1, 2_000},
}, saturated...)

// BenchmarkWait has callers that ask for more IDs than the ceiling. It reports the longest wait of
// a call, and the numbers of IDs that callers got.
func BenchmarkWait(b *testing.B) {
	for _, l := range overloaded {
		for _, callers := range []int{64, 1000} {
			b.Run(fmt.Sprintf("bits=%d/lib=%s/callers=%d", l.bits, l.name, callers), func(b *testing.B) {
				size := float64(int64(1) << l.bits)
				tick := time.Duration(math.Round(size / l.ceiling * 1e9))
				b.ReportMetric(float64(tick)*max(1, float64(callers)/size), "ideal-ns")
				length := max(time.Second, 3*tick)
				for range b.N {
					longestWait(b, l.open, callers, length)
				}
			})
		}
	}
}

func longestWait(b *testing.B, open func(testing.TB) issue, callers int, length time.Duration) {
	f := open(b)
	longest, got := make([]time.Duration, callers), make([]int, callers)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range callers {
		wg.Go(func() {
			for before := time.Since(start); before < length; {
				if err := f(1); err != nil {
					b.Error(err)
					return
				}
				after := time.Since(start)
				longest[i] = max(longest[i], after-before)
				got[i]++
				before = after
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(slices.Max(longest)), "longest-ns")
	b.ReportMetric(float64(slices.Min(got)), "fewest-ids")
	b.ReportMetric(float64(slices.Max(got)), "most-ids")
}

// BenchmarkDeadlines has 400 callers that ask for IDs of a layout with 2 IDs a millisecond, and
// give up after 5 to 200 ms. It reports the share of the ceiling that is reached.
func BenchmarkDeadlines(b *testing.B) {
	const length = 2 * time.Second
	b.Run("bits=1/lib=ours/callers=400", func(b *testing.B) {
		for range b.N {
			g := servertest.Must(snowflake.New(1, &snowflake.Options{Layout: twoLayout(), Clock: snowflake.SystemClock()}))(b)
			var wg sync.WaitGroup
			start := time.Now()
			for range 400 {
				wg.Go(func() {
					for time.Since(start) < length {
						after := 5*time.Millisecond + rand.N(195*time.Millisecond)
						ctx, cancel := context.WithTimeout(context.Background(), after)
						_, err := g.NextIDContext(ctx)
						if errors.Is(err, context.DeadlineExceeded) {
							<-ctx.Done() // without this, a refused caller would ask again at once
						} else if err != nil {
							b.Error(err)
						}
						cancel()
					}
				})
			}
			time.Sleep(length)
			b.ReportMetric(100*float64(g.Stats().Issued)/(2000*time.Since(start).Seconds()), "%ceiling")
			wg.Wait()
		}
	})
}
