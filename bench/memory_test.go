package bench

import (
	"runtime"
	"testing"

	gofrs "github.com/gofrs/uuid/v5"
	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	sonyflake2 "github.com/sony/sonyflake/v2"
)

const many = 10_000

// BenchmarkMemory makes 10,000 generators, and reports the memory of one. An op is one generator.
func BenchmarkMemory(b *testing.B) {
	for _, bench := range []struct {
		name string
		open func() any
	}{
		{ours, func() any {
			return servertest.Must(snowflake.New(1, &snowflake.Options{Clock: snowflake.SystemClock()}))(b)
		}},
		{"bwmarrin", func() any { return newBwmarrin(b, 10, 12) }},
		{"guaik", func() any { return newGuaik(b) }},
		{"sno", func() any { return newSno(b) }},
		{"sonyflake-v1", func() any { return newSonyflake1(b) }},
		{"sonyflake-v2", func() any { return newSonyflake2(b, sonyflake2.Settings{}) }},
		{"yitter", func() any { return newYitter(10, 12) }},
		{"gofrs-uuid", func() any { return gofrs.NewGen() }},
	} {
		b.Run("lib="+bench.name, func(b *testing.B) {
			generators := make([]any, many)
			var bytes uint64
			var goroutines int
			for range b.N {
				b.StopTimer()
				clear(generators)
				before, running := inUse(), runtime.NumGoroutine()
				b.StartTimer()
				for i := range generators {
					generators[i] = bench.open()
				}
				b.StopTimer()
				bytes, goroutines = inUse()-before, runtime.NumGoroutine()-running
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/generator")
			b.ReportMetric(float64(bytes)/many, "B/generator")
			b.ReportMetric(float64(goroutines)/many, "goroutines/generator")
			runtime.KeepAlive(generators)
		})
	}
}

// inUse returns the number of bytes in use on the heap.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
