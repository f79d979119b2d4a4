package audit

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/jsontime"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// audit returns the report on ids, with few of them in memory at once.
func audit(t *testing.T, l snowflake.Layout, ids []snowflake.ID) *Report {
	t.Helper()
	dir := t.TempDir()
	a, err := New(Options{Layout: l, Now: noon, Dir: dir, Memory: 1000, Where: func(at int64) string { return fmt.Sprint(at) }})
	require.NoError(t, err)
	for i, id := range ids {
		require.NoError(t, a.Add(id, int64(i+1)))
	}
	r, err := a.Finish(nil)
	require.NoError(t, err)
	a.Close()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "temporary files are left")
	return r
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
		{Epoch: snowflake.DefaultEpoch, Unit: time.Minute, TimeBits: 30, ClockSeqBits: 1, DatacenterBits: 2, WorkerBits: 3, SequenceBits: 2, WorkerLast: true},
	}
	for seed := range uint64(30) {
		l := all[seed%uint64(len(all))]
		r := rand.New(rand.NewPCG(seed, 0))
		var ids []snowflake.ID
		spread := int64(time.Hour)
		if seed%2 == 0 {
			spread = int64(10 * time.Second)
		}
		for range 20_000 {
			p := snowflake.Parts{Time: noon.Add(-time.Duration(r.Int64N(spread))), Worker: r.IntN(4), Sequence: r.IntN(1 << min(l.SequenceBits, 4)),
				ClockSeq: r.IntN(1 << l.ClockSeqBits), Datacenter: r.IntN(1 << l.DatacenterBits)}
			id, err := l.Encode(p)
			require.NoError(t, err)
			ids = append(ids, id)
		}
		if seed%3 == 0 {
			slices.Sort(ids)
		}
		got := audit(t, l, ids)

		type generator struct{ clockSeq, datacenter, worker int }
		places := map[snowflake.ID][]string{}
		perSecond, ticks := map[string]int64{}, map[string]bool{}
		unique, duplicates, steps := map[generator]int64{}, map[generator]int64{}, map[generator]int64{}
		most, inTicks, before := map[generator]int64{}, map[generator]int64{}, map[generator]snowflake.ID{}
		for i, id := range ids {
			p := l.Decode(id)
			g := generator{p.ClockSeq, p.Datacenter, p.Worker}
			if id < before[g] {
				steps[g]++
			}
			before[g] = id
			places[id] = append(places[id], fmt.Sprint(i+1))
			if len(places[id]) == 2 {
				duplicates[g]++
			}
			if len(places[id]) > 1 {
				continue
			}
			unique[g]++
			second := fmt.Sprint(g, p.Time.Sub(l.Epoch.Time())/max(time.Second, l.Unit))
			perSecond[second]++
			most[g] = max(most[g], perSecond[second])
			if tick := fmt.Sprint(g, p.Time); !ticks[tick] {
				ticks[tick] = true
				inTicks[g]++
			}
		}
		var all int64
		require.Len(t, got.Workers, len(unique), "seed %d", seed)
		for _, w := range got.Workers {
			g := generator{w.ClockSeq, w.Datacenter, w.Worker}
			all += duplicates[g]
			require.Equal(t, []int64{unique[g], duplicates[g], inTicks[g], steps[g]}, []int64{w.IDs, w.Duplicates, w.Ticks, w.StepsBack}, "seed %d, %v", seed, g)
			require.Equal(t, float64(most[g])/max(time.Second, l.Unit).Seconds(), w.PerSecond, "seed %d, %v", seed, g)
		}
		require.Equal(t, all, got.Duplicates)
		require.EqualValues(t, len(ids), got.IDs)
		for i, d := range got.Repeated {
			require.Equal(t, places[d.ID][:min(mostPlaces, len(places[d.ID]))], d.At, "seed %d", seed)
			require.EqualValues(t, len(places[d.ID]), d.Count)
			require.True(t, i == 0 || d.ID > got.Repeated[i-1].ID)
		}
		if all > 0 {
			require.NotEmpty(t, got.Repeated)
			require.NotEmpty(t, got.Wrong)
		}
	}
}

func TestGoodIDs(t *testing.T) {
	l := snowflake.DefaultLayout()
	var ids []snowflake.ID
	for ms := 5000; ms > 0; ms-- {
		for s := range 3 {
			ids = append(ids, stamped(t, l, time.Duration(ms)*time.Millisecond, ms%2, s))
		}
	}
	r := audit(t, l, ids)
	assert.Empty(t, r.Wrong)
	assert.Zero(t, r.StepsBack)
	assert.Empty(t, r.Gaps)
	assert.Equal(t, noon.Add(-5*time.Second), r.First.Time)
	assert.Equal(t, noon.Add(-time.Millisecond), r.Last.Time)
	assert.Equal(t, Generator{Worker: 1, IDs: 7500, First: jsontime.Time{Time: noon.Add(-4999 * time.Millisecond)}, Last: r.Last,
		PerSecond: 1500, Ticks: 2500, Gap: "2ms"}, r.Workers[1])
}

func TestIDsOfOtherLayoutsAndOfTheFutureAreCounted(t *testing.T) {
	l := snowflake.JSSafeLayout()
	r := audit(t, l, []snowflake.ID{5, 1 << 52, stamped(t, l, -2*time.Minute, 0, 0), stamped(t, l, -time.Minute, 0, 0)})
	assert.Equal(t, Some{1, []Finding{{"2", "4503599627370496"}}}, r.Strangers)
	assert.EqualValues(t, 1, r.Future.Count)
	assert.Equal(t, "3", r.Future.First[0].At)
	assert.Equal(t, []string{"1 ID is not of the layout", "1 ID is from the future", "1 ID is more than a second older than the ID before of its worker"}, r.Wrong)
	assert.EqualValues(t, 3, r.IDs)
}

func TestGapsAndSpentTicks(t *testing.T) {
	l := snowflake.DefaultLayout()
	var ids []snowflake.ID
	for s := range 4096 {
		ids = append(ids, stamped(t, l, time.Hour, 0, s))
	}
	ids = append(ids, stamped(t, l, 50*time.Minute, 0, 7), stamped(t, l, 45*time.Minute, 0, 7))
	r := audit(t, l, ids)
	at := func(d time.Duration) jsontime.Time { return jsontime.Time{Time: noon.Add(d)} }
	assert.Equal(t, []Gap{{at(-time.Hour), at(-50 * time.Minute)}, {at(-50 * time.Minute), at(-45 * time.Minute)}}, r.Gaps)
	assert.EqualValues(t, 1, r.Workers[0].Spent)
	assert.EqualValues(t, 3, r.Workers[0].Ticks)
	assert.Equal(t, "10m0s", r.Workers[0].Gap)
}

func TestStepsBack(t *testing.T) {
	l := snowflake.DefaultLayout()
	r := audit(t, l, []snowflake.ID{stamped(t, l, 10*time.Second, 0, 0), stamped(t, l, 15*time.Second, 1, 0), stamped(t, l, 9*time.Second, 0, 0), stamped(t, l, 12*time.Second, 0, 0)})
	assert.EqualValues(t, 1, r.StepsBack.Count, "of one worker")
	assert.Equal(t, r.StepsBack, r.FarBack)
	assert.Equal(t, "4", r.FarBack.First[0].At)
	assert.Equal(t, "3s", r.Workers[0].Back)
	assert.Equal(t, []string{"1 ID is more than a second older than the ID before of its worker"}, r.Wrong)

	r = audit(t, l, []snowflake.ID{stamped(t, l, 2*time.Second, 0, 0), stamped(t, l, 3*time.Second, 0, 1), stamped(t, l, 3*time.Second, 0, 0)})
	assert.EqualValues(t, 2, r.StepsBack.Count)
	assert.Zero(t, r.FarBack.Count, "a second is not more than a second")
}

// Within a tick, two runs of sequence numbers take turns if two processes with a
// RandomStart share a worker ID, but also if one process writes two batches line by
// line in turn, or if the list is shuffled. It is worth a note, and nothing is
// wrong. One process whose callers write a little out of order gets no note.
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
		assert.True(t, got.Workers[0].TakesTurns(), name)
		require.Len(t, got.Notes, 1, name)
		assert.Contains(t, got.Notes[0], "1 of the worker IDs: runs of sequence numbers take turns", name)
	}
	got := audit(t, l, alone)
	assert.False(t, got.Workers[0].TakesTurns())
	assert.Empty(t, got.Notes)
	assert.Empty(t, got.Wrong)
}

func TestUnevenLowBitsAreNoted(t *testing.T) {
	l := snowflake.DefaultLayout()
	var zeros, even []snowflake.ID
	for ms := range 3000 {
		zeros = append(zeros, stamped(t, l, time.Duration(ms)*time.Millisecond, 0, 0))
		even = append(even, stamped(t, l, time.Duration(ms)*time.Millisecond, 0, ms%64))
	}
	got := audit(t, l, zeros)
	assert.Equal(t, LowBits{Shards: 16, Fullest: 0, Share: 1}, got.LowBits[3])
	assert.True(t, got.LowBits[0].Uneven(got.IDs))
	got = audit(t, l, even)
	for _, b := range got.LowBits {
		assert.False(t, b.Uneven(got.IDs), b)
	}
}

// Generators beyond mostGenerators are counted together. An ID of one of them is not compared with the ID before, which
// is another generator's.
func TestManyGenerators(t *testing.T) {
	l := layouts.Baidu()
	const more = 100
	var ids []snowflake.ID
	for second := range 3 {
		for w := range mostGenerators + more {
			behind := time.Duration(w) * time.Minute // each worker has its own clock
			at := time.Date(2024, 1, 1, 0, 0, second, 0, time.UTC).Add(-behind)
			id, err := l.Encode(snowflake.Parts{Time: at, Worker: w})
			require.NoError(t, err)
			ids = append(ids, id)
		}
	}
	r := audit(t, l, ids)
	assert.Empty(t, r.Wrong)
	assert.Zero(t, r.StepsBack.Count)
	assert.Len(t, r.Workers, mostGenerators)
	assert.EqualValues(t, 3*more, r.Others)
	require.Len(t, r.Notes, 1)
	assert.Contains(t, r.Notes[0], "300 IDs are of further workers")

	first := ids[0] // of a worker that is listed
	r = audit(t, l, append(ids, ids[more], first, ids[len(ids)-1]))
	assert.EqualValues(t, 3, r.Duplicates, "also of a worker that is not listed")
	assert.EqualValues(t, 2, r.FarBack.Count, "of the workers that are listed")
}

// If the temporary file cannot be made, the audit fails.
func TestUnusableDirectoryFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	a, err := New(Options{Layout: snowflake.DefaultLayout(), Now: noon, Dir: file, Memory: 9, Where: func(int64) string { return "" }})
	require.NoError(t, err)
	defer a.Close()
	for i := int64(0); err == nil && i < 1<<20; i++ {
		err = a.Add(1, i)
	}
	assert.ErrorContains(t, err, file)
}

func BenchmarkAudit(b *testing.B) {
	l := snowflake.DefaultLayout()
	for _, order := range []string{"sorted", "shuffled"} {
		b.Run("order="+order, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			ids := make([]snowflake.ID, b.N)
			for i := range ids {
				ids[i] = snowflake.ID(i/3)<<22 | snowflake.ID(i%3+i%5<<12)
			}
			if order == "shuffled" {
				r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			}
			a, err := New(Options{Layout: l, Now: noon, Dir: b.TempDir(), Where: func(int64) string { return "" }})
			require.NoError(b, err)
			defer a.Close()
			b.ReportAllocs()
			b.ResetTimer()
			for i, id := range ids {
				if err := a.Add(id, int64(i)); err != nil {
					b.Fatal(err)
				}
			}
			_, err = a.Finish(nil)
			require.NoError(b, err)
		})
	}
}

// If a process is interrupted, it leaves no file: the file has no name any more.
func TestTemporaryFileIsUnlinked(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed there")
	}
	dir := t.TempDir()
	s := newSorter(dir, 20)
	for i := range int64(100_000) {
		require.NoError(t, s.add(record{7 - i, i}))
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, files)
	n := 0
	require.NoError(t, s.each(func(record) { n++ }))
	assert.Equal(t, 100_000, n)
	s.close()
}
