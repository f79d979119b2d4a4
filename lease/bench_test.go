package lease

import (
	"context"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// BenchmarkNextID shows how much a lease slows NextID: compare lease=file with lease=none in the same
// run.
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

// BenchmarkLoad reads a directory that many owners have used, as an acquisition does.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	for w := range 1000 {
		r := Record{
			Worker: w, Version: 1, Token: "token", State: Free, Owner: "owner", Host: "host", Window: time.Second,
			Layout: snowflake.DefaultLayout(), Bounds: []time.Time{time.Now()}, From: time.Now(),
		}
		if _, err := File(dir).Save(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := File(dir).Load(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAcquire acquires a worker ID from the file store and releases it. The worker ID was used
// before, so the history is written too.
func BenchmarkAcquire(b *testing.B) {
	s := File(b.TempDir())
	for b.Loop() {
		l, err := Acquire(context.Background(), s, nil)
		if err != nil {
			b.Fatal(err)
		}
		g, err := snowflake.NewLeased(l, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := g.NextID(); err != nil {
			b.Fatal(err)
		}
		if err := l.Release(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
