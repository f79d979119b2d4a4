package bench

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	bwmarrin "github.com/bwmarrin/snowflake"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// part is measured as a whole: its n IDs take about 100 µs, so that other work rarely interrupts
// it.
type part struct {
	n    int
	open func(testing.TB) issue
}

var mutexAndClockPart = part{3000, openMutexAndClock}

type ratio struct {
	name        string
	over, under part
}

// BenchmarkRatio measures the ratios of two costs. It measures the two in turns, for a short time
// each, and reports the median of the pairs, so that a busy machine, which slows down both, has
// little influence. The regression check uses these ratios.
func BenchmarkRatio(b *testing.B) {
	id, plain := snowflake.ID(sample), int64(sample)
	s10 := id.String()
	newBwmarrin(b, 10, 12) // sets the bits that its IDs are read by
	theirs := bwmarrin.ID(sample)
	decode := part{4000, forEach(func() { parts = snowflake.Decode(id); id++ })}
	next := part{3000, named(ample, ours).open}
	ratios := []ratio{
		{"of=NextID/over=mutex-and-clock", next, mutexAndClockPart},
		{"of=NextID/over=bwmarrin", next, part{3000, named(ample, "bwmarrin").open}},
		{"of=NextID,leased/over=NextID", part{3000, openLeased}, next},
		{"of=NextID,10000/over=NextID", part{many, openMany}, next},
		{"of=Fill,16/over=mutex-and-clock", part{30_000, openFill(16)}, mutexAndClockPart},
		{"of=Fill/over=loop", part{200_000, openFill(fillSize)}, part{200_000, openLoop}},
		{"of=Decode/over=mutex-and-clock", decode, mutexAndClockPart},
		{"of=Decode/over=bwmarrin", decode, part{4000, forEach(func() {
			when, number = time.UnixMilli(theirs.Time()), theirs.Node()+theirs.Step()
			theirs++
		})}},
		{"of=Base58/over=strconv", part{4000, forEach(func() { text = id.Base58() })}, part{4000, forEach(func() { text = strconv.FormatInt(plain, 10) })}},
		{"of=Base32/over=strconv", part{4000, forEach(func() { text = id.Base32() })}, part{4000, forEach(func() { text = strconv.FormatInt(plain, 32) })}},
		{"of=ParseID/over=strconv", part{4000, forEach(func() { id, _ = snowflake.ParseID(s10) })}, part{4000, forEach(func() { plain, _ = strconv.ParseInt(s10, 10, 64) })}},
		{"of=MarshalText/over=strconv", part{4000, forEach(func() { buffer, _ = id.MarshalText() })}, part{4000, forEach(func() { text = strconv.FormatInt(plain, 10) })}},
	}
	ratios = append(ratios, textRatios()...)
	for _, l := range ample[2:] { // the others
		ratios = append(ratios, ratio{"of=" + l.name + "/over=NextID", part{500, l.open}, part{500, next.open}})
	}
	for _, r := range ratios {
		b.Run(r.name, func(b *testing.B) { reportRatio(b, inTurns(b, r.over, r.under)) })
	}
	b.Run("of=ceiling/over=saturated", func(b *testing.B) { ceilingRatio(b, 1) })
	b.Run("of=ceiling/over=saturated,64", func(b *testing.B) { ceilingRatio(b, 64) })
	b.Run("of=saturated-cpu/over=mutex-and-clock-cpu", func(b *testing.B) { cpuRatio(b, 1) })
	b.Run("of=saturated-cpu,64/over=mutex-and-clock-cpu", func(b *testing.B) { cpuRatio(b, 64) })
}

// textRatios returns the comparisons of our text forms with bwmarrin's of the same base.
func textRatios() (ratios []ratio) {
	all := forms()
	for _, f := range all {
		name, is := strings.CutSuffix(f.name, "/lib=ours")
		i := slices.IndexFunc(all, func(f form) bool { return f.name == name+"/lib=bwmarrin" })
		if !is || i < 0 {
			continue
		}
		name = strings.NewReplacer("form=", "of=", "/do=", ",").Replace(name)
		ratios = append(ratios, ratio{name + "/over=bwmarrin", formPart(f), formPart(all[i])})
	}
	return ratios
}

func formPart(f form) part {
	return part{2000, func(testing.TB) issue {
		return func(n int) error {
			for range n {
				if err := f.do(); err != nil {
					return err
				}
			}
			return nil
		}
	}}
}

// reportRatio reports a ratio, and not the time of the benchmark.
func reportRatio(b *testing.B, ratio float64) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ratio, "ratio")
}

// ceilingRatio measures the ratio of the IDs that our default layout allows to the IDs issued.
func ceilingRatio(b *testing.B, goroutines int) {
	l := named(saturated, ours)
	rate, _, _ := saturate(b, time.Duration(b.N)*time.Millisecond, goroutines, l.open(b))
	reportRatio(b, l.ceiling/rate)
}

// cpuRatio measures the ratio of the processor time of an ID under saturation to that of the mutex
// and the clock with one goroutine.
func cpuRatio(b *testing.B, goroutines int) {
	if _, ok := cpuTime(); !ok {
		b.Skip("the time of the processor is not known here")
	}
	d := time.Duration(b.N) * time.Millisecond
	f := named(saturated, ours).open(b)
	if goroutines > 1 {
		saturate(b, 5*d, goroutines, f) // until they are out of step: see BenchmarkSaturated
	}
	rate, core, _ := saturate(b, d, goroutines, f)
	baseRate, baseCore, _ := saturate(b, d/2, 1, openMutexAndClock(b))
	reportRatio(b, core/rate/(baseCore/baseRate))
}

// openLeased returns our generator with a lease of the file store.
func openLeased(tb testing.TB) issue {
	ctx := context.Background()
	l := servertest.Must(lease.Acquire(ctx, lease.File(tb.TempDir()), &lease.Options{
		Layout: ampleLayout(),
		Logger: slog.New(slog.DiscardHandler),
	}))(tb)
	tb.Cleanup(func() { l.Release(ctx) })
	return issueOurs(servertest.Must(snowflake.NewLeased(l, nil))(tb))
}

// openMany makes generators that issue in turn. Between two calls of a generator the clock advances
// by a tick or more, so each call must open a tick.
func openMany(tb testing.TB) issue {
	generators := make([]*snowflake.Generator, many)
	for i := range generators {
		generators[i] = servertest.Must(snowflake.New(1, &snowflake.Options{Layout: ampleLayout(), Clock: snowflake.SystemClock()}))(tb)
	}
	next := 0
	return func(n int) error {
		for range n {
			if _, err := generators[next].NextID(); err != nil {
				return err
			}
			next = (next + 1) % many
		}
		return nil
	}
}

// fillSize is small, so that the caches hold it on a busy machine too.
const fillSize = 512

// openLoop writes consecutive numbers with a simple loop. Fill's loop is faster.
func openLoop(testing.TB) issue {
	first := snowflake.ID(0)
	return inBatches(fillSize, func(dst []snowflake.ID) error {
		first++
		for i, id := 0, first; i < len(dst); i, id = i+1, id+1 {
			dst[i] = id
		}
		return nil
	})
}

// inTurns returns the median of b.N ratios.
func inTurns(b *testing.B, over, under part) float64 {
	overIssue, underIssue := over.open(b), under.open(b)
	ratios := make([]float64, b.N)
	for i := range ratios {
		var o, u float64
		if i%2 == 0 {
			o, u = over.time(b, overIssue), under.time(b, underIssue)
		} else {
			u, o = under.time(b, underIssue), over.time(b, overIssue)
		}
		ratios[i] = o / u
	}
	slices.Sort(ratios)
	return ratios[b.N/2]
}

// time returns the nanoseconds for each ID of the part.
func (p part) time(b *testing.B, f issue) float64 {
	start := time.Now()
	require.NoError(b, f(p.n))
	return float64(time.Since(start).Nanoseconds()) / float64(p.n)
}

func forEach(do func()) func(testing.TB) issue {
	return func(testing.TB) issue {
		return func(n int) error {
			for range n {
				do()
			}
			return nil
		}
	}
}
