//go:build go1.25

package snowflake

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Fill, Decode and the text forms are measured in the module bench, beside other libraries.

// ample has more IDs in a tick than a core can take in that time.
var ample = Layout{Epoch: DefaultEpoch, Unit: time.Millisecond, TimeBits: 38, WorkerBits: 3, SequenceBits: 22}

// BenchmarkMutexAndClock measures the least work of a generator with a mutex and a clock, for
// comparison with BenchmarkNextID/layout=ample in the same run.
func BenchmarkMutexAndClock(b *testing.B) {
	var mu sync.Mutex
	var sum time.Duration
	start := time.Now()
	for b.Loop() {
		mu.Lock()
		sum += time.Since(start)
		mu.Unlock()
	}
	runtime.KeepAlive(sum)
}

func benchGenerator(b *testing.B, opts *Options) *Generator {
	b.Helper()
	g, err := New(1, apart(opts))
	require.NoError(b, err)
	b.ReportAllocs()
	return g
}

func reportRate(b *testing.B, ids int) {
	b.ReportMetric(float64(ids)/b.Elapsed().Seconds(), "ids/s")
}

func BenchmarkNextID(b *testing.B) {
	for _, bench := range []struct {
		name string
		opts Options
	}{
		{"layout=ample", Options{Layout: ample}},
		{"layout=ample/clock=monotonic", Options{Layout: ample, Clock: MonotonicClock()}},
		{"layout=ample/clock=time.Now", Options{Layout: ample, Clock: ClockFunc(time.Now)}},
		{"layout=ample/random", Options{Layout: ample, RandomStart: true}},
		{"layout=41-10-12", Options{}}, // saturated: 4,096,000 a second is the layout's ceiling
	} {
		b.Run(bench.name, func(b *testing.B) {
			g := benchGenerator(b, &bench.opts)
			for b.Loop() {
				if _, err := g.NextID(); err != nil {
					b.Fatal(err)
				}
			}
			reportRate(b, b.N)
		})
	}
}

// BenchmarkNextIDLeased compares a generator whose lease notices that the machine was cloned with
// one whose lease does not, and with one that has no lease.
func BenchmarkNextIDLeased(b *testing.B) {
	guarded, _ := newClonedLease()
	for name, l := range map[string]Lease{
		"lease=none":    nil,
		"lease=plain":   newTestLease(time.Now().Add(-time.Hour), time.Now().Add(time.Hour)),
		"lease=guarded": guarded,
	} {
		b.Run(name, func(b *testing.B) {
			g := benchGenerator(b, &Options{Layout: ample})
			if l != nil {
				var err error
				if g, err = NewLeased(l, &Options{Layout: ample}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, err := g.NextID(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNextIDOfAFewInATick makes about so many IDs in each tick. The first ID of a tick costs
// more than the others.
func BenchmarkNextIDOfAFewInATick(b *testing.B) {
	for _, bench := range []struct {
		ids  int
		unit time.Duration
	}{{1, 40}, {10, 700}, {100, 4 * time.Microsecond}} {
		b.Run(fmt.Sprintf("ids=%d", bench.ids), func(b *testing.B) {
			g := benchGenerator(b, &Options{Layout: Layout{Epoch: DefaultEpoch, Unit: bench.unit, TimeBits: 54, WorkerBits: 1, SequenceBits: 8}})
			for b.Loop() {
				if _, err := g.NextID(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNextIDParallel(b *testing.B) {
	for _, bench := range []struct {
		name   string
		layout Layout
	}{{"ample", ample}, {"41-10-12", DefaultLayout()}} {
		for _, goroutines := range []int{2, 8, 64, 1000} {
			b.Run(fmt.Sprintf("layout=%s/goroutines=%d", bench.name, goroutines), func(b *testing.B) {
				g := benchGenerator(b, &Options{Layout: bench.layout})
				b.SetParallelism((goroutines + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := g.NextID(); err != nil {
							b.Error(err)
							return
						}
					}
				})
				reportRate(b, b.N)
			})
		}
	}
}

func BenchmarkLayoutDecode(b *testing.B) {
	for _, bench := range []struct {
		name   string
		layout Layout
	}{
		{"unit=1ms", ClockSeqLayout()},
		{"unit=10ms", Layout{Epoch: DefaultEpoch, Unit: 10 * time.Millisecond, TimeBits: 39, WorkerBits: 16,
			SequenceBits: 8, WorkerLast: true}},
		{"unit=1s", JSSafeLayout()},
		{"unit=1µs", Layout{Epoch: DefaultEpoch, Unit: time.Microsecond, TimeBits: 51, WorkerBits: 6, SequenceBits: 6}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			var p Parts
			id := ID(1541815603606036480)
			for b.Loop() {
				p = bench.layout.Decode(id)
				id++
			}
			runtime.KeepAlive(p)
		})
	}
}
