package lease

import (
	"context"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// BenchmarkNextID shows what a lease costs on the hot path: hold lease=file
// against lease=none, in the same run.
func BenchmarkNextID(b *testing.B) {
	ample := snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: time.Millisecond, TimeBits: 38, WorkerBits: 3, SequenceBits: 22}
	run := func(b *testing.B, g *snowflake.Generator, err error) {
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.NextID(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("lease=none", func(b *testing.B) {
		g, err := snowflake.New(1, &snowflake.Options{Layout: ample})
		run(b, g, err)
	})
	b.Run("lease=file", func(b *testing.B) {
		l, err := Acquire(context.Background(), File(b.TempDir()), &Options{Layout: ample})
		if err != nil {
			b.Fatal(err)
		}
		defer l.Release(context.Background())
		g, err := snowflake.NewLeased(l, nil)
		run(b, g, err)
	})
}

// BenchmarkSave is one renewal in the file store.
func BenchmarkSave(b *testing.B) {
	s := File(b.TempDir())
	l, err := Acquire(context.Background(), s, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Release(context.Background())
	b.ResetTimer()
	for b.Loop() {
		if err := l.renew(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
