package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	bwmarrin "github.com/bwmarrin/snowflake"
	godruoyi "github.com/godruoyi/go-snowflake"
	gofrs "github.com/gofrs/uuid/v5"
	google "github.com/google/uuid"
	"github.com/muyo/sno"
	"github.com/oklog/ulid/v2"
	"github.com/rs/xid"
	"github.com/segmentio/ksuid"
	sonyflake2 "github.com/sony/sonyflake/v2"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
)

const burst = 100_000

// benchBurst measures burst IDs into a slice, from an idle generator. open makes a generator, and
// returns a function that fills the slice.
func benchBurst[T any](b *testing.B, name string, open func(testing.TB) func(dst []T) error) {
	b.Run(name, func(b *testing.B) {
		dst := make([]T, burst)
		for range b.N {
			b.StopTimer()
			fill := open(b)
			time.Sleep(2 * time.Millisecond) // let a tick used up by the previous run end
			b.StartTimer()
			if err := fill(dst); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/burst, "ns/id")
	})
}

// each fills a slice with one call for each ID.
func each[T any](next func() (T, error)) func(dst []T) error {
	return func(dst []T) (err error) {
		for i := range dst {
			if dst[i], err = next(); err != nil {
				return err
			}
		}
		return nil
	}
}

// always is like each, for a function without an error.
func always[T any](next func() T) func(dst []T) error {
	return func(dst []T) error {
		for i := range dst {
			dst[i] = next()
		}
		return nil
	}
}

// BenchmarkBurst makes 100,000 IDs at once, in each library's own way, with the library's default
// bits or with the bits in the name.
func BenchmarkBurst(b *testing.B) {
	ourOwn := func(opts *snowflake.Options, fill bool) func(testing.TB) func([]snowflake.ID) error {
		return func(tb testing.TB) func([]snowflake.ID) error {
			g := servertest.Must(snowflake.New(1, apart(opts)))(tb)
			if !fill {
				return each(g.NextID)
			}
			return func(dst []snowflake.ID) error { _, err := g.Fill(context.Background(), dst); return err }
		}
	}
	borrow := &snowflake.Options{BorrowAhead: 25 * time.Millisecond}
	ampleBits := &snowflake.Options{Layout: ampleLayout()}
	benchBurst(b, "lib=ours/way=Fill,BorrowAhead", ourOwn(borrow, true))
	benchBurst(b, "lib=ours/way=NextID,BorrowAhead", ourOwn(borrow, false))
	benchBurst(b, "lib=ours/way=Fill", ourOwn(nil, true))
	benchBurst(b, "lib=ours/way=NextID", ourOwn(nil, false))
	benchBurst(b, "lib=ours/way=Fill,ample", ourOwn(ampleBits, true))
	benchBurst(b, "lib=ours/way=NextID,ample", ourOwn(ampleBits, false))

	benchBurst(b, "lib=bwmarrin/way=Generate", func(tb testing.TB) func([]bwmarrin.ID) error {
		return always(newBwmarrin(tb, 10, 12).Generate)
	})
	benchBurst(b, "lib=bwmarrin/way=Generate,ample", func(tb testing.TB) func([]bwmarrin.ID) error {
		return always(newBwmarrin(tb, ampleWorkerBits, ampleSequenceBits).Generate)
	})
	benchBurst(b, "lib=guaik/way=NextVal", func(tb testing.TB) func([]int64) error { return always(newGuaik(tb).NextVal) })
	benchBurst(b, "lib=godruoyi/way=NextID", func(testing.TB) func([]uint64) error { return each(godruoyi.NextID) })
	benchBurst(b, "lib=sonyflake-v2/way=NextID", func(tb testing.TB) func([]int64) error {
		return each(newSonyflake2(tb, sonyflake2.Settings{}).NextID)
	})
	benchBurst(b, "lib=sonyflake-v2/way=NextID,12bit", func(tb testing.TB) func([]int64) error {
		return each(newSonyflake2(tb, sonyflake12).NextID)
	})
	benchBurst(b, "lib=yitter/way=NextId", func(testing.TB) func([]int64) error { return always(newYitter(6, 6).NextId) })
	benchBurst(b, "lib=yitter/way=NextId,12bit", func(testing.TB) func([]int64) error { return always(newYitter(10, 12).NextId) })
	benchBurst(b, "lib=sno/way=New", func(tb testing.TB) func([]sno.ID) error {
		g := newSno(tb)
		return always(func() sno.ID { return g.New(0) })
	})
	benchBurst(b, "lib=xid/way=New", func(testing.TB) func([]xid.ID) error { return always(xid.New) })
	benchBurst(b, "lib=ulid/way=Make", func(testing.TB) func([]ulid.ULID) error { return always(ulid.Make) })
	benchBurst(b, "lib=google-uuid-v7/way=NewV7", func(testing.TB) func([]google.UUID) error {
		google.DisableRandPool()
		return each(google.NewV7)
	})
	benchBurst(b, "lib=google-uuid-v7/way=NewV7,pool", func(testing.TB) func([]google.UUID) error {
		google.EnableRandPool()
		return each(google.NewV7)
	})
	benchBurst(b, "lib=gofrs-uuid-v7/way=NewV7", func(testing.TB) func([]gofrs.UUID) error { return each(gofrs.NewV7) })
	benchBurst(b, "lib=ksuid/way=NewRandom", func(testing.TB) func([]ksuid.KSUID) error {
		ksuid.SetRand(nil)
		return each(ksuid.NewRandom)
	})
	benchBurst(b, "lib=ksuid-fast/way=NewRandom", func(testing.TB) func([]ksuid.KSUID) error {
		ksuid.SetRand(ksuid.FastRander)
		return each(ksuid.NewRandom)
	})
	benchBurst(b, "lib=ksuid/way=Sequence", func(testing.TB) func([]ksuid.KSUID) error { return fillKSUIDs })
}

// fillKSUIDs makes many KSUIDs like ksuid: 65,536 from each random KSUID.
func fillKSUIDs(dst []ksuid.KSUID) error {
	var seq ksuid.Sequence
	for i := range dst {
		id, err := seq.Next()
		if i == 0 || err != nil {
			seq = ksuid.Sequence{Seed: ksuid.New()}
			if id, err = seq.Next(); err != nil {
				return err
			}
		}
		dst[i] = id
	}
	return nil
}

// fillLayout has 16,777,216 IDs in a millisecond, more than Fill can make.
func fillLayout() snowflake.Layout {
	return snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: time.Millisecond, TimeBits: 39, SequenceBits: 24}
}

// openFill makes IDs, size at a time.
func openFill(size int) func(testing.TB) issue {
	return func(tb testing.TB) issue {
		g := servertest.Must(snowflake.New(0, &snowflake.Options{Layout: fillLayout(), Clock: snowflake.SystemClock()}))(tb)
		return inBatches(size, func(dst []snowflake.ID) error { _, err := g.Fill(context.Background(), dst); return err })
	}
}

func inBatches[T any](size int, fill func(dst []T) error) issue {
	dst := make([]T, size)
	return func(n int) error {
		for ; n > 0; n -= len(dst) {
			if err := fill(dst[:min(n, len(dst))]); err != nil {
				return err
			}
		}
		return nil
	}
}

// BenchmarkFill makes 4,096 IDs at a time, with a layout whose ticks are not used up. An op is an
// ID.
func BenchmarkFill(b *testing.B) {
	const size = 4096
	for _, l := range []lib{
		{name: ours, open: openFill(size)},
		{name: "ksuid", open: func(testing.TB) issue { return inBatches(size, fillKSUIDs) }},
	} {
		b.Run("lib="+l.name, func(b *testing.B) {
			b.ReportAllocs()
			f := l.open(b)
			b.ResetTimer()
			require.NoError(b, f(b.N))
		})
	}
}
