package bench

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutexAndClock does only what every generator with a mutex and a clock must do. A generator that
// takes most IDs without its mutex can be faster.
type mutexAndClock struct {
	mu    sync.Mutex
	start time.Time
	sum   time.Duration
}

func (f *mutexAndClock) issue(n int) error {
	for range n {
		f.mu.Lock()
		f.sum += time.Since(f.start)
		f.mu.Unlock()
	}
	return nil
}

// openMutexAndClock makes a mutexAndClock on a separate cache line.
func openMutexAndClock(testing.TB) issue {
	type padding [128]byte
	f := &struct {
		_ padding
		mutexAndClock
		_ padding
	}{}
	f.start = time.Now()
	return f.issue
}

// share lets goroutines make b.N IDs in total, in small parts. Goroutine i calls of(i).
func share(b *testing.B, goroutines int, of func(goroutine int) issue) {
	part := min(max(b.N/(16*goroutines), 1), 1024)
	var taken atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range goroutines {
		f := of(i)
		wg.Go(func() {
			for {
				end := int(taken.Add(int64(part)))
				n := min(part, b.N-(end-part))
				if n <= 0 {
					return
				}
				if err := f(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}

// BenchmarkNext makes one ID, with a layout whose ticks are not used up.
func BenchmarkNext(b *testing.B) {
	for _, l := range append([]lib{{name: "mutex-and-clock", open: openMutexAndClock}}, ample...) {
		for _, goroutines := range []int{1, 2, 8, 64, 1000} {
			b.Run(fmt.Sprintf("lib=%s/goroutines=%d", l.name, goroutines), func(b *testing.B) {
				b.ReportAllocs()
				f := l.open(b)
				if goroutines > 1 {
					share(b, goroutines, func(int) issue { return f })
					return
				}
				b.ResetTimer()
				require.NoError(b, f(b.N))
			})
		}
	}
}

// BenchmarkSaturated asks for more IDs than a layout has, for -benchtime. It reports the share of
// the ceiling that is reached, and the processor time of the waits. It first runs for the same time
// without measuring, because goroutines that have just started sleep and wake in step, and delay
// each other.
func BenchmarkSaturated(b *testing.B) {
	for _, l := range saturated {
		for _, goroutines := range []int{1, 64} {
			b.Run(fmt.Sprintf("bits=%d/lib=%s/goroutines=%d", l.bits, l.name, goroutines), func(b *testing.B) {
				f := l.open(b)
				_, first, _ := saturate(b, benchtime(), goroutines, f)
				rate, core, ok := saturate(b, benchtime(), goroutines, f)
				b.ReportMetric(0, "ns/op") // hide ns/op: one op is the whole run
				b.ReportMetric(rate, "ids/s")
				b.ReportMetric(100*rate/l.ceiling, "%ceiling")
				if ok {
					b.ReportMetric(100*core, "%core")
					b.ReportMetric(100*first, "%core-at-first")
				}
			})
		}
	}
}

// benchtime returns -benchtime or, if the flag is a number of runs, a short duration.
func benchtime() time.Duration {
	d, err := time.ParseDuration(flag.Lookup("test.benchtime").Value.String())
	if err != nil {
		return 10 * time.Millisecond
	}
	return d
}

// saturate lets goroutines make IDs for d. It returns the IDs a second and, if the processor time
// is known, the share of a core.
func saturate(b *testing.B, d time.Duration, goroutines int, f issue) (rate, core float64, known bool) {
	var over atomic.Bool
	var ids atomic.Int64
	var wg sync.WaitGroup
	before, known := cpuTime()
	start := time.Now()
	time.AfterFunc(d, func() { over.Store(true) })
	for range goroutines {
		wg.Go(func() {
			n := int64(0)
			for ; !over.Load(); n++ {
				if err := f(1); err != nil {
					b.Error(err)
					return
				}
			}
			ids.Add(n)
		})
	}
	wg.Wait()
	took := time.Since(start)
	after, _ := cpuTime()
	return float64(ids.Load()) / took.Seconds(), float64(after-before) / float64(took), known
}

// BenchmarkTail measures every call, with two readings of the clock. Each figure includes about one
// reading; lib=none calls nothing, and shows its duration.
func BenchmarkTail(b *testing.B) {
	none := lib{name: "none", open: func(testing.TB) issue { return func(int) error { return nil } }}
	for _, l := range append([]lib{none}, ample...) {
		tails(b, "ample", l)
	}
	for _, l := range saturated {
		if l.bits == 12 {
			tails(b, "12", l)
		}
	}
}

func tails(b *testing.B, bits string, l lib) {
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("bits=%s/lib=%s/goroutines=%d", bits, l.name, goroutines), func(b *testing.B) {
			tail(b, goroutines, l.open(b))
		})
	}
}

func tail(b *testing.B, goroutines int, f issue) {
	each := make([][]time.Duration, goroutines)
	start := time.Now()
	share(b, goroutines, func(i int) issue {
		return func(n int) error {
			took := each[i]
			for range n {
				before := time.Since(start)
				if err := f(1); err != nil {
					return err
				}
				took = append(took, time.Since(start)-before)
			}
			each[i] = took // at the end, because the goroutines' slices share cache lines
			return nil
		}
	})
	took := slices.Concat(each...)
	slices.Sort(took)
	for _, q := range []struct {
		unit string
		q    float64
	}{{"p50-ns", 0.5}, {"p99-ns", 0.99}, {"p99.9-ns", 0.999}, {"longest-ns", 1}} {
		b.ReportMetric(float64(took[int(q.q*float64(len(took)-1))]), q.unit)
	}
}

// BenchmarkCores compares, in turns, two goroutines with a generator each, made one after the
// other, and two goroutines with a mutex and a clock each. Generators on one cache line would be
// slower, by as much as lib=two-on-a-line.
func BenchmarkCores(b *testing.B) {
	if runtime.GOMAXPROCS(0) < 2 {
		b.Skip("it takes two cores")
	}
	const n = 30_000 // at least 1 ms, so that starting a goroutine is negligible
	libs := []lib{{name: "two-on-a-line"}}
	for _, name := range []string{ours, "bwmarrin", "sonyflake-v2", "yitter", "sno"} {
		libs = append(libs, named(ample, name))
	}
	for _, l := range libs {
		over := part{n, openTwo(l.open)}
		if l.open == nil {
			over.open = openLine
		}
		b.Run("lib="+l.name, func(b *testing.B) {
			reportRatio(b, inTurns(b, over, part{n, openTwo(openMutexAndClock)}))
		})
	}
}

// openTwo calls open twice.
func openTwo(open func(testing.TB) issue) func(testing.TB) issue {
	return func(tb testing.TB) issue { return together(open(tb), open(tb)) }
}

// openLine makes two mutexAndClocks on one cache line.
func openLine(testing.TB) issue {
	f := &struct {
		first, second mutexAndClock
		_             [48]byte // so that 128 bytes are allocated, at a multiple of that
	}{}
	f.first.start, f.second.start = time.Now(), time.Now()
	return together(f.first.issue, f.second.issue)
}

// together lets two goroutines make n IDs each. They begin when both have a core: if one woke
// later, the other might have ended.
func together(first, second issue) issue {
	return func(n int) error {
		var ready atomic.Int32
		begin := func(f issue) error {
			for ready.Add(1); ready.Load() < 2; {
			}
			return f(n)
		}
		done := make(chan error)
		go func() { done <- begin(first) }()
		err := begin(second)
		return errors.Join(err, <-done)
	}
}
