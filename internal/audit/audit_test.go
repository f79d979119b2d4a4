package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/jsontime"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// audit returns the report on ids.
func audit(t *testing.T, l snowflake.Layout, ids []snowflake.ID) *Report {
	t.Helper()
	return auditOf(t, New(l, noon, Options{Listed: 20}), ids)
}

func auditOf(t *testing.T, a *Audit, ids []snowflake.ID) *Report {
	t.Helper()
	for i, id := range ids {
		require.NoError(t, a.Add(id, i+1))
	}
	return a.Finish()
}

// of returns a kind of fault.
func (r *Report) of(kind string) (f Fault) {
	for _, f := range r.Wrong {
		if strings.Contains(f.What, kind) {
			return f
		}
	}
	return f
}

// stamped returns the ID of a time before noon.
func stamped(t *testing.T, l snowflake.Layout, before time.Duration, worker, sequence int) snowflake.ID {
	id, err := l.Encode(snowflake.Parts{Time: noon.Add(-before), Worker: worker, Sequence: sequence})
	require.NoError(t, err)
	return id
}

// TestReportMatchesASimpleCount counts random IDs of all kinds of layouts with maps.
func TestReportMatchesASimpleCount(t *testing.T) {
	all := []snowflake.Layout{
		snowflake.DefaultLayout(), layouts.Sonyflake(), layouts.Twitter(), snowflake.ClockSeqLayout(), snowflake.JSSafeLayout(),
		{Epoch: snowflake.DefaultEpoch, Unit: time.Minute, TimeBits: 30, ClockSeqBits: 1, DatacenterBits: 2,
			WorkerBits: 3, SequenceBits: 2, WorkerLast: true},
	}
	for seed := range uint64(12) {
		l := all[seed%uint64(len(all))]
		r := rand.New(rand.NewPCG(seed, 0))
		var ids []snowflake.ID
		spread := int64(time.Hour)
		if seed%2 == 0 {
			spread = int64(10 * time.Second)
		}
		for range 10_000 {
			p := snowflake.Parts{Time: noon.Add(-time.Duration(r.Int64N(spread))), Worker: r.IntN(4),
				Sequence: r.IntN(1 << min(l.SequenceBits, 4)),
				ClockSeq: r.IntN(1 << l.ClockSeqBits), Datacenter: r.IntN(1 << l.DatacenterBits)}
			id, err := l.Encode(p)
			require.NoError(t, err)
			ids = append(ids, id)
		}
		if seed%3 == 0 {
			slices.Sort(ids)
		}
		got := audit(t, l, ids)

		count := map[snowflake.ID]int{}
		inSecond, inTick := map[string]int{}, map[string]bool{}
		type fields struct{ clockSeq, datacenter, worker int }
		before, want := map[fields]snowflake.ID{}, map[fields]*Worker{}
		for _, id := range ids {
			p := l.Decode(id)
			g := fields{p.ClockSeq, p.Datacenter, p.Worker}
			w := want[g]
			if w == nil {
				w = &Worker{ClockSeq: p.ClockSeq, Datacenter: p.Datacenter, Worker: p.Worker}
				want[g] = w
			}
			if id < before[g] {
				w.StepsBack++
			}
			before[g] = id
			if count[id]++; count[id] == 2 {
				w.Duplicates++
			}
			if count[id] > 1 {
				continue
			}
			if w.IDs++; w.IDs == 1 || p.Time.Before(w.First.Time) {
				w.First.Time = p.Time
			}
			if p.Time.After(w.Last.Time) {
				w.Last.Time = p.Time
			}
			span := max(time.Second, l.Unit)
			second := fmt.Sprint(g, p.Time.Sub(l.Epoch.Time())/span)
			inSecond[second]++
			w.PerSecond = max(w.PerSecond, float64(inSecond[second])/span.Seconds())
			if tick := fmt.Sprint(g, p.Time); !inTick[tick] {
				inTick[tick] = true
				w.Ticks++
			}
			if l.SequenceBits > 0 && p.Sequence == 1<<l.SequenceBits-1 {
				w.Spent++
			}
		}
		duplicates := 0
		require.Len(t, got.Workers, len(want), "seed %d", seed)
		for _, w := range got.Workers {
			duplicates += w.Duplicates
			w.before, w.tick, w.second, w.inSecond = 0, 0, 0, 0
			w.Turns, w.run, w.other = 0, run{}, run{}
			require.Equal(t, *want[fields{w.ClockSeq, w.Datacenter, w.Worker}], w, "seed %d", seed)
		}
		require.True(t, slices.IsSortedFunc(got.Workers, func(a, b Worker) int {
			return slices.Compare([]int{a.Datacenter, a.Worker, a.ClockSeq}, []int{b.Datacenter, b.Worker, b.ClockSeq})
		}))
		require.Equal(t, duplicates, got.of("more than once").Count)
		require.Equal(t, len(ids), got.IDs)
		require.Equal(t, l.Decode(slices.Min(ids)).Time, got.First.Time)
		require.Equal(t, l.Decode(slices.Max(ids)).Time, got.Last.Time)
	}
}

func TestDuplicatesAreListedWithTheirLines(t *testing.T) {
	r := audit(t, snowflake.DefaultLayout(), append(slices.Repeat([]snowflake.ID{7}, 12), 5, 6, 5))
	assert.Equal(t, []Fault{{"IDs that occur more than once", 2, []Finding{
		{"", 13, "5 of 2026-01-01T00:00:00Z, 2 times: lines 13, 15"},
		{"", 1, "7 of 2026-01-01T00:00:00Z, 12 times: lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"},
	}}}, r.Wrong)
}

func TestIDsOfOtherLayoutsAndOfTheFutureAreCounted(t *testing.T) {
	l := snowflake.JSSafeLayout()
	r := audit(t, l, []snowflake.ID{5, 1 << 52, stamped(t, l, -2*time.Minute, 0, 0), stamped(t, l, -time.Minute, 0, 0)})
	assert.Equal(t, []Finding{{"", 2, "4503599627370496"}}, r.of("not of the layout").First)
	assert.Equal(t, 3, r.of("from the future").First[0].Line)
	assert.Len(t, r.Wrong, 2)
	assert.Equal(t, 3, r.IDs)
}

// Duplicates and strangers may be due to rounding, so the report names rounding first.
func TestRoundedIDsAreSaidToBe(t *testing.T) {
	l := snowflake.DefaultLayout()
	r := rand.New(rand.NewPCG(1, 38))
	var ids, zeros []snowflake.ID
	for range 2000 {
		before := time.Duration(r.Int64N(int64(time.Hour)))
		ids = append(ids, snowflake.ID(float64(stamped(t, l, before, r.IntN(3), r.IntN(4096)))))
		zeros = append(zeros, stamped(t, l, before, r.IntN(3), 0))
	}
	got := audit(t, l, ids)
	assert.Contains(t, got.Wrong[0].What, "rounded to a float64, as JavaScript")
	assert.Contains(t, got.Wrong[0].What, "read the table from its source again")
	assert.Empty(t, got.Notes, "for example on low bits that pile up, of which rounding is the cause")

	// IDs of a slow generator are multiples of 4096. They are not rounded, but rounding could have
	// made the same.
	assert.Zero(t, audit(t, l, zeros).of("rounded").Count)
	assert.Contains(t, strings.Join(audit(t, l, append(zeros, zeros[0])).Notes, "\n"), "a float64 holds each of the IDs")
	got = audit(t, l, append(zeros, zeros[0]))
	assert.Len(t, got.Notes, 1, "nothing that contradicts it")
	assert.Contains(t, got.Wrong[0].What, "more than once, perhaps because they were rounded")
	assert.NotContains(t, strings.Join(audit(t, l, append(zeros, zeros[0], zeros[0]+1)).Notes, "\n"), "a float64 holds each of the IDs")
	assert.NotContains(t, strings.Join(audit(t, l, []snowflake.ID{5, 5}).Notes, "\n"), "float64")
}

// A half of the table went through JavaScript. Bursts of IDs became equal there.
func TestIDsThatWereRoundedInPartAreSaidToBe(t *testing.T) {
	for name, l := range map[string]snowflake.Layout{
		"default": snowflake.DefaultLayout(), "twitter": layouts.Twitter(), "discord": layouts.Discord(), "instagram": layouts.Instagram(),
	} {
		for n, share := range []int{5, 20} { // of 100 bursts
			r := rand.New(rand.NewPCG(uint64(n), 51))
			var ids []snowflake.ID
			for burst := range 100 {
				first := stamped(t, l, time.Hour-time.Duration(burst)*time.Second, r.IntN(3), r.IntN(1<<l.SequenceBits-100))
				for i := range snowflake.ID(100) {
					id := first + i
					if burst < share {
						id = snowflake.ID(float64(id))
					}
					ids = append(ids, id)
				}
			}
			got := audit(t, l, ids)
			require.NotEmpty(t, got.Wrong, name)
			assert.Contains(t, got.Wrong[0].What, "more than once, because a part of the IDs was rounded to a float64", name)
			assert.Empty(t, got.Notes, "nothing that contradicts it")
		}
	}
}

// Duplicates have other causes, too: two processes with one worker ID, or a table that was imported
// twice.
func TestDuplicatesOfIDsThatWereNotRounded(t *testing.T) {
	tenBits := snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: time.Millisecond, TimeBits: 41, WorkerBits: 12, SequenceBits: 10}
	for _, known := range append(layouts.All(), layouts.Known{Name: "ten bits", Layout: tenBits}) {
		for _, worker := range []int{0, 1, 5, 1<<known.Layout.WorkerBits - 1} {
			for _, most := range []int{2, 3, 10, 40, 100} {
				r := rand.New(rand.NewPCG(uint64(worker), uint64(most)))
				ids := sharedBy(known.Layout, r, worker, most, 1+7*(worker&1))
				for _, list := range [][]snowflake.ID{ids, append(ids[:len(ids)/4:len(ids)/4], ids...)} {
					got := audit(t, known.Layout, list)
					for _, f := range got.Wrong {
						require.NotContains(t, f.What, "because a part", "%s, worker %d, up to %d in a tick", known.Name, worker, most)
					}
				}
			}
		}
	}
}

// sharedBy returns the IDs of two processes with one worker ID: in each of 100 ticks up to most
// IDs, whose sequence numbers are step apart.
func sharedBy(l snowflake.Layout, r *rand.Rand, worker, most, step int) (ids []snowflake.ID) {
	most = min(most, max(1, 1<<l.SequenceBits/step))
	for range 100 {
		at := noon.Add(-time.Duration(r.Int64N(int64(24 * time.Hour))))
		for range 2 {
			for seq := range 1 + r.IntN(most) {
				if id, err := l.Encode(snowflake.Parts{Time: at, Worker: worker & (1<<l.WorkerBits - 1), Sequence: seq * step}); err == nil {
					ids = append(ids, id)
				}
			}
		}
	}
	return ids
}

func TestStretchesAreMerged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var s stretches
	n := 2*full + 5
	for i := range n {
		s.add(placed{snowflake.ID(r.IntN(n)), i})
	}
	require.Len(t, s.list, 3)
	seen, last := 0, snowflake.ID(-1)
	for same := range s.sorted() {
		if same[0].id <= last || same[len(same)-1].id != same[0].id || !slices.IsSortedFunc(same, comparePlaced) {
			require.Fail(t, "out of order", "%v after %d", same, last)
		}
		last = same[0].id
		seen += len(same)
	}
	assert.Equal(t, n, seen)
}

// The longest times without an ID of any worker are listed, the longest first. From a tick to the
// next there is none.
func TestGaps(t *testing.T) {
	l := snowflake.DefaultLayout()
	var ids []snowflake.ID
	for _, ms := range []int{0, 1, 2, 10, 11, 50, 60, 62, 162, 262, 1000} {
		ids = append(ids, stamped(t, l, time.Duration(ms)*time.Millisecond, ms%2, 0))
	}
	var gaps []string
	at := func(t jsontime.Time) time.Duration { return noon.Sub(t.Time) }
	for _, g := range audit(t, l, ids).Gaps {
		gaps = append(gaps, fmt.Sprint(at(g.From), " ", at(g.To)))
	}
	assert.Equal(t, []string{"1s 262ms", "262ms 162ms", "162ms 62ms", "50ms 11ms", "60ms 50ms"}, gaps)
	assert.Len(t, audit(t, l, ids[5:8]).Gaps, 2)
	assert.Empty(t, audit(t, l, ids[:3]).Gaps)
}

func TestStepsBack(t *testing.T) {
	l := snowflake.DefaultLayout()
	ids := []snowflake.ID{stamped(t, l, 10*time.Second, 0, 0), stamped(t, l, 15*time.Second, 1, 0),
		stamped(t, l, 9*time.Second, 0, 0), stamped(t, l, 12*time.Second, 0, 0)}
	r := audit(t, l, ids)
	assert.Empty(t, r.Wrong, "most lists are in no order")
	require.Len(t, r.Notes, 1)
	assert.Contains(t, r.Notes[0], "1 IDs are more than a second older")

	ordered := New(l, noon, Options{Ordered: true, Listed: 20})
	r = auditOf(t, ordered, ids)
	assert.Empty(t, r.Notes)
	old := r.of("older")
	assert.Equal(t, 1, old.Count, "of one worker")
	assert.Equal(t, 4, old.First[0].Line)
	assert.Contains(t, old.First[0].Text, "3s older")

	r = audit(t, l, []snowflake.ID{stamped(t, l, 2*time.Second, 0, 0), stamped(t, l, 3*time.Second, 0, 1),
		stamped(t, l, 3*time.Second, 0, 0)})
	assert.Equal(t, 2, r.Workers[0].StepsBack)
	assert.Empty(t, r.Wrong, "a second is not more than a second")
}

// Within a tick, two runs of sequence numbers take turns if two processes share a worker ID, but
// also if one process writes two batches line by line in turn, or if the list is shuffled. So there
// is a note, and nothing is wrong. If the callers of one process write a little out of order, there
// is no note.
func TestTwoProcessesOfOneWorkerIDAreNoted(t *testing.T) {
	l := snowflake.DefaultLayout()
	r := rand.New(rand.NewPCG(1, 1))
	var shared, alone, batches, tick []snowflake.ID
	for ms := 100; ms > 0; ms-- {
		a, b := r.IntN(1000), 1500+r.IntN(1000)
		var few []snowflake.ID
		for i := range 20 {
			at := time.Duration(ms) * time.Millisecond
			shared = append(shared, stamped(t, l, at, 0, a+i), stamped(t, l, at, 0, b+i))
			few = append(few, stamped(t, l, at, 0, a+i))
		}
		r.Shuffle(len(few), func(i, j int) { few[i], few[j] = few[j], few[i] })
		alone = append(alone, few...)
	}
	for s := range 100 {
		batches = append(batches, stamped(t, l, time.Second, 0, s), stamped(t, l, time.Second, 0, 100+s))
	}
	for s := range 4096 {
		tick = append(tick, stamped(t, l, time.Second, 0, s))
	}
	r.Shuffle(len(tick), func(i, j int) { tick[i], tick[j] = tick[j], tick[i] })
	for name, ids := range map[string][]snowflake.ID{"two processes": shared, "two batches": batches, "a shuffled tick": tick} {
		got := audit(t, l, ids)
		assert.Empty(t, got.Wrong, name)
		require.Len(t, got.Notes, 1, name)
		assert.Contains(t, got.Notes[0], "the sequence numbers of 1 workers take turns", name)
	}
	assert.Empty(t, audit(t, l, alone).Notes)
}

func TestLowBitsThatPileUpAreNoted(t *testing.T) {
	l := snowflake.DefaultLayout()
	var zeros, evens, spread []snowflake.ID
	for ms := range 3000 {
		at := time.Duration(ms) * time.Millisecond
		zeros = append(zeros, stamped(t, l, at, 0, 0))
		evens = append(evens, stamped(t, l, at, 0, ms%64*2))
		spread = append(spread, stamped(t, l, at, 0, ms%64))
	}
	for _, ids := range [][]snowflake.ID{zeros, evens} {
		got := audit(t, l, ids)
		require.Len(t, got.Notes, 1)
		assert.Contains(t, got.Notes[0], "100% of the IDs are 0 modulo 2:")
	}
	assert.Empty(t, audit(t, l, spread).Notes)
	assert.Empty(t, audit(t, l, zeros[:999]).Notes, "may be chance")
}

func TestTooManyIDsAreRefused(t *testing.T) {
	a := New(snowflake.DefaultLayout(), noon, Options{Listed: 20})
	a.most = 2
	require.NoError(t, a.Add(5, 1))
	a.Skip("no ID", 2)
	require.NoError(t, a.Add(6, 3))
	assert.ErrorContains(t, a.Add(7, 4), "more than 2 IDs: audit a part")
}

func BenchmarkAudit(b *testing.B) {
	for _, order := range []string{"sorted", "shuffled"} {
		b.Run("order="+order, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			ids := make([]snowflake.ID, b.N)
			for i := range ids {
				ids[i] = snowflake.ID(i/3<<22 | i%3 + i%5<<12)
			}
			if order == "shuffled" {
				r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			}
			a := New(snowflake.DefaultLayout(), noon, Options{Listed: 20})
			b.ReportAllocs()
			b.ResetTimer()
			for i, id := range ids {
				if err := a.Add(id, i); err != nil {
					b.Fatal(err)
				}
			}
			a.Finish()
		})
	}
}
