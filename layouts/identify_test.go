//go:build go1.25

package layouts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

// origin has IDs of one system.
type origin struct {
	Layout, Source string
	IDs            []snowflake.ID
}

// fleets are ways to issue IDs, by the number of workers and the mean time between IDs.
var fleets = []struct {
	name    string
	workers int
	pause   time.Duration
	burst   int
}{
	{"one process", 1, 2 * time.Second, 1},
	{"many workers", 40, 20 * time.Millisecond, 2},
	{"bursts", 3, time.Minute, 10},
	{"quiet", 2, 7 * time.Hour, 1},
	{"dense ticks", 1, 30 * time.Millisecond, 80},
	{"large fleet", 150, 10 * time.Millisecond, 1},
	// This is Options.RandomStart, for this library's layouts only.
	{"random start", 5, 200 * time.Millisecond, 1},
}

// simulated reports whether a layout has such a fleet.
func simulated(k Known, fleet int) bool {
	// People do not ask about numbers of a layout with a Form.
	return k.Form == "" && (fleets[fleet].name != "random start" || k.otherUses != nil)
}

// simulate returns n IDs as processes of a layout issue them, from a time in the last two years.
func simulate(k Known, fleet, n int) origin {
	f := fleets[fleet]
	h := fnv.New64()
	fmt.Fprint(h, k.Name, f.name)
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	l := k.Layout
	nodes := make([]snowflake.Parts, f.workers)
	for i := range nodes {
		nodes[i] = node(k, r, i)
		if k.otherUses != nil && f.workers > 1 { // a lease draws its worker ID at random
			nodes[i].Worker = r.IntN(1 << l.WorkerBits)
		}
	}
	span := time.Duration(n) * f.pause
	end := noon
	if l.Expires().Before(end) {
		end = l.Expires()
	}
	first := k.earliest().Add(24 * time.Hour)
	if early := end.AddDate(-2, 0, 0); first.Before(early) {
		first = early
	}
	at := first.Add(time.Duration(r.Int64N(int64(end.Sub(first) - span))))
	s := origin{Layout: k.Name, Source: f.name}
	for len(s.IDs) < n {
		p := &nodes[r.IntN(len(nodes))]
		if tick := at.Truncate(l.Unit); tick.After(p.Time) {
			if p.Time, p.Sequence = tick, sequence(k, r); f.name == "random start" {
				p.Sequence = r.IntN(1 << l.SequenceBits / 2)
			}
		} else {
			p.Sequence++
		}
		for range f.burst {
			if p.Sequence >= 1<<l.SequenceBits {
				p.Sequence, p.Time = 0, p.Time.Add(l.Unit)
			}
			id, err := l.Encode(*p)
			if err != nil {
				panic(err)
			}
			s.IDs = append(s.IDs, id)
			// An ID of this layout is a time, so each is a new reading.
			if p.Sequence++; l.SequenceBits+l.WorkerBits == 0 {
				p.Time = p.Time.Add(time.Duration(1+r.IntN(10_000_000)) * time.Nanosecond).Truncate(l.Unit).Add(l.Unit)
			}
		}
		p.Sequence--
		at = at.Add(time.Duration(r.ExpFloat64() * float64(f.pause)))
	}
	s.IDs = s.IDs[:n]
	r.Shuffle(n, func(i, j int) { s.IDs[i], s.IDs[j] = s.IDs[j], s.IDs[i] })
	return s
}

// node returns the worker of the i-th process by the system's rules.
func node(k Known, r *rand.Rand, i int) snowflake.Parts {
	switch size := 1 << k.Layout.WorkerBits; k.Name {
	case "twitter":
		return snowflake.Parts{Datacenter: 10 + i%2, Worker: r.IntN(32)}
	case "discord":
		return snowflake.Parts{Datacenter: r.IntN(4), Worker: r.IntN(2)}
	case "sonyflake", "sonyflake-v2", "tsid", "instagram", "atproto-tid", "unix":
		// The worker is from a private address, or random.
		return snowflake.Parts{Worker: r.IntN(size)}
	default:
		return snowflake.Parts{Worker: min(i+r.IntN(3), size-1)}
	}
}

// sequence returns the number with which a tick begins.
func sequence(k Known, r *rand.Rand) int {
	switch bits := k.Layout.SequenceBits; {
	case bits == 0:
		return 0
	case k.random:
		return r.IntN(1 << bits)
	case k.Name == "discord": // the sequence continues from tick to tick
		return r.IntN(200)
	case k.countsOn: // PHP's begin with 0, and in newer versions at random
		return r.IntN(2) * r.IntN(1<<bits)
	case k.Name == "yitter": // the first five are reserved
		return 5
	case r.IntN(10) == 0:
		return 1 + r.IntN(3)
	}
	return 0
}

// place returns the place of a layout in Identify's ranking. Twins share a place.
func place(r Ranking, layout string) (at int) {
	seen := map[string]bool{}
	for _, m := range r.Matches {
		if seen[m.Name] {
			continue
		}
		at++
		for _, name := range append(m.Twins, m.Name) {
			seen[name] = true
		}
		if seen[layout] {
			break
		}
	}
	return at
}

// tally counts how often Identify is right.
type tally struct{ all, first, three, likely, right, none int }

// count asks for the layout of IDs. If the system is not in the table, layout is "".
func (c *tally) count(ids []snowflake.ID, layout string) Ranking {
	r := Identify(ids, noon)
	if k, ok := ByName(layout); ok {
		layout = k.Name // instead of one of Also
	}
	c.all++
	if layout != "" {
		if at := place(r, layout); at == 1 {
			c.first++
			c.three++
		} else if at <= 3 {
			c.three++
		}
	}
	if r.None > 0.5 {
		c.none++
	}
	if m := r.Matches[0]; m.Likely() {
		c.likely++
		if k, ok := ByName(layout); ok && (k.Name == m.Name || k.sameTime(&m.Known)) {
			c.right++
		}
	}
	return r
}

func (c *tally) add(o tally) {
	c.all, c.first, c.three = c.all+o.all, c.first+o.first, c.three+o.three
	c.likely, c.right, c.none = c.likely+o.likely, c.right+o.right, c.none+o.none
}

func (c tally) String() string {
	return fmt.Sprintf("%6d %6d %6d %6d %6d %6d", c.all, c.first, c.three, c.likely, c.right, c.none)
}

// published returns public IDs by the name of their layout.
func published(t *testing.T) map[string][]snowflake.ID {
	var samples []origin
	text, err := os.ReadFile("testdata/published.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &samples))
	text, err = os.ReadFile("testdata/published.tsv")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		words := strings.Split(line, "\t")
		if id, err := snowflake.ParseID(words[0]); err == nil { // the others are TIDs, and comments
			name, _, _ := strings.Cut(words[1], "(")
			samples = append(samples, origin{Layout: strings.TrimSuffix(name, "-timetoken"), IDs: []snowflake.ID{id}})
		}
	}
	ids := map[string][]snowflake.ID{}
	for _, s := range samples {
		ids[s.Layout] = append(ids[s.Layout], s.IDs...)
	}
	return ids
}

// strangers are systems without a row in the table.
var strangers = map[string]func(r *rand.Rand, at time.Time, seq int) snowflake.ID{
	"41/10/12 of another epoch": custom(snowflake.Layout{Unit: time.Millisecond, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}),
	"41/5/5/12 of another epoch": custom(snowflake.Layout{Unit: time.Millisecond, TimeBits: 41,
		DatacenterBits: 5, WorkerBits: 5, SequenceBits: 12}),
	"39/8/16 of another epoch": custom(snowflake.Layout{Unit: 10 * time.Millisecond, TimeBits: 39,
		SequenceBits: 8, WorkerBits: 16, WorkerLast: true}),
	"43/8/12":                     custom(snowflake.Layout{Unit: time.Millisecond, TimeBits: 43, WorkerBits: 8, SequenceBits: 12}),
	"32/15/16 in seconds":         custom(snowflake.Layout{Unit: time.Second, TimeBits: 32, WorkerBits: 15, SequenceBits: 16}),
	"41/4/8":                      custom(snowflake.Layout{Unit: time.Millisecond, TimeBits: 41, WorkerBits: 4, SequenceBits: 8}),
	"40/0/23":                     custom(snowflake.Layout{Unit: time.Millisecond, TimeBits: 40, SequenceBits: 23}),
	"random numbers":              func(r *rand.Rand, _ time.Time, _ int) snowflake.ID { return snowflake.ID(r.Int64()) },
	"random numbers of 18 digits": func(r *rand.Rand, _ time.Time, _ int) snowflake.ID { return snowflake.ID(1e17 + r.Int64N(9e17)) },
	"random numbers of 16 digits": func(r *rand.Rand, _ time.Time, _ int) snowflake.ID { return snowflake.ID(1e15 + r.Int64N(9e15)) },
	"a counter": func(r *rand.Rand, _ time.Time, seq int) snowflake.ID {
		return snowflake.ID(1e6 + int64(seq)*3 + r.Int64N(3))
	},
	"a counter of 15 digits": func(r *rand.Rand, _ time.Time, seq int) snowflake.ID {
		return snowflake.ID(1e14 + int64(seq)*1e9 + r.Int64N(1e9))
	},
	"dates of 17 digits": dated("20060102150405", 1000),
	"dates of 18 digits": dated("060102150405", 1_000_000),
	"milliseconds and 5 at random": func(r *rand.Rand, at time.Time, _ int) snowflake.ID {
		return snowflake.ID(at.UnixMilli()*100_000 + r.Int64N(100_000))
	},
}

// custom returns a system with an epoch of its own.
func custom(l snowflake.Layout) func(*rand.Rand, time.Time, int) snowflake.ID {
	return func(r *rand.Rand, at time.Time, seq int) snowflake.ID {
		epochs := rand.New(rand.NewPCG(uint64(seq>>16), 9))
		l := l
		l.Epoch = snowflake.EpochAt(time.Date(2012+epochs.IntN(12), time.Month(1+epochs.IntN(12)), 1+epochs.IntN(28), 0, 0, 0, 0, time.UTC))
		p := snowflake.Parts{Time: at, Worker: r.IntN(4) % (1 << l.WorkerBits), Datacenter: r.IntN(2) % (1 << l.DatacenterBits)}
		if r.IntN(5) == 0 {
			p.Sequence = r.IntN(4)
		}
		id, err := l.Encode(p)
		if err != nil {
			panic(err)
		}
		return id
	}
}

// dated returns a system that writes the date in digits, and a number below it.
func dated(form string, below int64) func(*rand.Rand, time.Time, int) snowflake.ID {
	return func(r *rand.Rand, at time.Time, _ int) snowflake.ID {
		n, _ := strconv.ParseInt(at.Format(form), 10, 64)
		return snowflake.ID(n*below + r.Int64N(below))
	}
}

// TestCalibration counts Identify's right guesses for public IDs, for simulated IDs of the systems
// in the table, and for IDs of other systems. The documentation has these figures. With -v the test
// prints them by system.
func TestCalibration(t *testing.T) {
	depth.NeedFull(t, "20 s of counting")
	total := map[string]*tally{}
	count := func(kind, name string, groups [][]snowflake.ID, layout string) {
		var c tally
		for _, ids := range groups {
			c.count(ids, layout)
		}
		t.Logf("%-26s %-30s %v", kind, name, c)
		if total[kind] == nil {
			total[kind] = &tally{}
		}
		total[kind].add(c)
	}
	t.Logf("%-57s    all  first  three likely  right   none", "")
	for name, ids := range published(t) {
		if name == "atproto-tid" {
			continue // such IDs are not written as numbers
		}
		count("published, alone", name, slices.Collect(slices.Chunk(ids, 1)), name)
		count("published, together", name, [][]snowflake.ID{ids}, name)
	}
	for _, k := range All() {
		for fleet, f := range fleets {
			if !simulated(k, fleet) {
				continue
			}
			s := simulate(k, fleet, 20)
			count("simulated, alone", k.Name+", "+f.name, slices.Collect(slices.Chunk(s.IDs[:5], 1)), k.Name)
			count("simulated, 20 together", k.Name+", "+f.name, [][]snowflake.ID{s.IDs}, k.Name)
			count("simulated, 200 together", k.Name+", "+f.name, [][]snowflake.ID{simulate(k, fleet, 200).IDs}, k.Name)
			// A quiet fleet takes longer for a thousand IDs than some layouts have existed.
			if f.name != "quiet" {
				count("simulated, 1,000 together", k.Name+", "+f.name, [][]snowflake.ID{simulate(k, fleet, 1000).IDs}, k.Name)
			}
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range slices.Sorted(maps.Keys(strangers)) {
		next := strangers[name]
		var alone, together [][]snowflake.ID
		for group := range 10 {
			at := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(int64(900 * 24 * time.Hour))))
			var ids []snowflake.ID
			for i := range 20 {
				at = at.Add(time.Duration(r.ExpFloat64() * float64(fleets[group%len(fleets)].pause)))
				ids = append(ids, next(r, at.UTC(), group<<16+i))
			}
			together = append(together, ids)
			alone = append(alone, ids[:1], ids[1:2])
		}
		count("unknown systems, alone", name, alone, "")
		count("unknown systems, 20", name, together, "")
	}
	text, err := os.ReadFile("identify.go")
	require.NoError(t, err)
	for kind, c := range total {
		t.Logf("%-57s %v", kind, *c)
		row := regexp.MustCompile(`(?m)^//\t` + kind + ` +(\d.*)$`).FindStringSubmatch(string(text))
		require.NotNil(t, row, kind)
		assert.Equal(t, strings.Fields(row[1]), strings.Fields(c.String()),
			"identify.go: the row %q; if the new figures are good, write them there (-v has them by system)", kind)
		assert.GreaterOrEqual(t, 20*c.right, 19*c.likely, "95 of 100 that are called likely are right: %s", kind)
	}
}

// For most IDs that stand alone, Identify puts the true system before its twins: it weighs the
// frequency of each system, the age of the ID, and the datacenters and workers of Twitter and
// Discord. The IDs are those of published.tsv and published.json.
func TestIdentifyPublishedAlone(t *testing.T) {
	first, three, all := map[string]int{}, 0, 0
	for name, ids := range published(t) {
		layout := name
		if k, ok := ByName(name); ok {
			layout = k.Name
		}
		for _, id := range ids {
			at := slices.IndexFunc(Identify([]snowflake.ID{id}, noon).Matches, func(m Match) bool { return m.Name == layout })
			require.NotEqual(t, -1, at, name)
			all++
			if at == 0 {
				first[name]++
				first["all"]++
			}
			if at < 3 {
				three++
			}
		}
		t.Logf("%-16s first for %d of %d", name, first[name], len(ids))
	}
	t.Logf("the true system is first for %d of %d, one of three for %d", first["all"], all, three)
	text, err := os.ReadFile("identify.go")
	require.NoError(t, err)
	said := regexp.MustCompile(`first for (\d+) of (\d+) published IDs that stand alone, and one of the first three for (\d+)`).
		FindSubmatch(bytes.ReplaceAll(text, []byte("\n// "), []byte(" ")))
	require.NotNil(t, said)
	assert.Equal(t, fmt.Sprint(first["all"], all, three), fmt.Sprintf("%s %s %s", said[1], said[2], said[3]))
}

// The two forms of Seata's IDs, and PubNub's.
func TestIdentifySeataAndPubNub(t *testing.T) {
	for id, want := range map[snowflake.ID]string{4269746926734658025: "seata", 8539406425407160338: "seata", 17847152241442333: "pubnub"} {
		m := Identify([]snowflake.ID{id}, noon).Matches[0]
		assert.Equal(t, want, m.Name)
	}
	found := Identify([]snowflake.ID{8539406425407160338, 4269746926734658025}, noon).Matches
	m := found[slices.IndexFunc(found, func(m Match) bool { return m.Name == "seata" })]
	assert.Equal(t, "2022-12-0", date(m.First)[:9])
	assert.Equal(t, "2024-10-31", date(m.Last))
	assert.Empty(t, m.Twins)
}

// Identify recognizes IDs that the command has just issued, even if all are of one tick.
func TestIdentifyOneBurst(t *testing.T) {
	for _, worker := range []int{0, 1, 2, 1023} {
		for _, n := range []int{1, 100, 1000, 4096} {
			first, err := snowflake.DefaultLayout().Encode(snowflake.Parts{Time: noon, Worker: worker})
			require.NoError(t, err)
			var ids []snowflake.ID
			for i := range n {
				ids = append(ids, first+snowflake.ID(i))
			}
			best := Identify(ids, noon).Matches[0]
			assert.Equal(t, "default", best.Name, "worker %d, %d IDs", worker, n)
			assert.Greater(t, best.Share, 0.9)
		}
	}
}

// Identify recognizes this library's own fleets, even if ticks have many IDs, begin at random, or
// hardly ever have the same worker.
func TestIdentifyOwnFleets(t *testing.T) {
	k, _ := ByName("default")
	for fleet, f := range fleets {
		for _, n := range []int{50, 200, 1000} {
			if f.name == "quiet" || f.burst > n { // one tick says too little
				continue
			}
			r := Identify(simulate(k, fleet, n).IDs, noon)
			assert.Equal(t, 1, place(r, "default"), "%s, %d: %s", f.name, n, r.Matches[0].Name)
			assert.Less(t, r.None, 0.1, "%s, %d", f.name, n)
			assert.Nil(t, r.Mixture, "%s, %d", f.name, n)
		}
	}
}

// Only the epoch tells an early tweet from an ID of Discord. So Identify says this, with both
// dates.
func TestIdentifyNamesTwins(t *testing.T) {
	of := map[string]Match{}
	sum := 0.0
	found := Identify([]snowflake.ID{350646689377419265}, noon)
	for _, m := range found.Matches {
		of[m.Name] = m
		sum += m.Share
		assert.Equal(t, m.Not != "", m.Share == 0, m.Name)
		assert.Equal(t, m.Not != "", m.First.IsZero(), m.Name)
	}
	assert.InDelta(t, 1, sum+found.OtherEpoch+found.None, 1e-6)
	assert.Greater(t, found.OtherEpoch, 0.1, "many systems have an epoch of their own")
	assert.Nil(t, found.Mixture)
	twitter, discord := of["twitter"], of["discord"]
	assert.Contains(t, twitter.Twins, "discord")
	assert.Contains(t, discord.Twins, "twitter")
	assert.Equal(t, []string{"time=2013-06-28T16:07:40.105Z datacenter=1 worker=0 sequence=1", "13.4 years ago",
		"only the epoch tells it from discord (2017-08-25)"}, twitter.Why)
	assert.Contains(t, discord.Why, "only the epoch tells it from twitter (2013-06-28)")
	assert.Equal(t, time.Date(2013, 6, 28, 16, 7, 40, 105e6, time.UTC), twitter.Last)
	assert.Less(t, math.Abs(math.Log(twitter.Share/discord.Share)), math.Log(10), "neither is much likelier")
}

func TestIdentifySaysWhyNot(t *testing.T) {
	of := map[string]Match{}
	for _, m := range Identify([]snowflake.ID{1541815603606036480}, noon).Matches {
		of[m.Name] = m
	}
	assert.Equal(t, "its time, 2037-08-25, lies in the future", of["default"].Not)
	assert.Equal(t, "it has more bits than the layout", of["jssafe"].Not)
	assert.Equal(t, "its time, 1981-08-25, is before there were such IDs", of["redis"].Not)
	assert.Less(t, Identify([]snowflake.ID{math.MaxInt64}, noon).Matches[0].Share, 0.5, "it is any number rather than an ID")
	for _, m := range Identify(nil, noon).Matches {
		assert.Zero(t, m.Share)
		assert.Equal(t, "there are no IDs", m.Not)
	}
}

// IDs of one system are hardly ever called a mixture. A few other IDs do not change the answer, nor
// does the order.
func TestIdentifyAmongStrangers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	mixtures, all := 0, 0
	for _, k := range All() {
		for fleet, f := range fleets[:depth.Of(1, 3)] {
			s := simulate(k, fleet, 20)
			found := Identify(s.IDs, noon)
			all++
			if found.Mixture != nil {
				mixtures++
				t.Log(k.Name, f.name, found.Mixture)
			}
			ids := append(slices.Clone(s.IDs), snowflake.ID(r.Int64()))
			slices.Reverse(ids)
			assert.LessOrEqual(t, place(Identify(ids, noon), k.Name), max(place(found, k.Name), 2), "%s, %s", k.Name, f.name)
		}
	}
	assert.Less(t, mixtures*100, all, "%d of %d", mixtures, all)
}

func TestByHost(t *testing.T) {
	for host, want := range map[string]string{"x.com": "twitter", "mobile.twitter.com": "twitter", "cdn.discordapp.com": "discord",
		"www.Instagram.com": "instagram", "bsky.app": "atproto-tid", "netflix.com": "", "": "", "com": ""} {
		k, ok := ByHost(host)
		assert.Equal(t, want, k.Name, host)
		assert.Equal(t, want != "", ok, host)
	}
}

// rows returns IDs that were made for existing rows with a time, as docs/sql.md describes: the
// times are multiples of grid, and no generator has the worker.
func rows(l snowflake.Layout, grid time.Duration, n int) (ids []snowflake.ID) {
	r := rand.New(rand.NewPCG(uint64(grid), 3))
	at := noon.AddDate(0, -9, 0).Truncate(grid)
	p := snowflake.Parts{Worker: 1<<l.WorkerBits - 1}
	for range n {
		if steps := r.IntN(4000); steps > 0 {
			at, p.Sequence = at.Add(time.Duration(steps)*max(grid, l.Unit)/10/grid*grid), 0
		}
		if p.Time.Equal(at) {
			p.Sequence++
		}
		p.Time = at
		id, err := l.Encode(p)
		if err != nil {
			panic(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// A clock that is coarser than the tick does not make another layout likelier.
func TestIdentifyCoarseTimes(t *testing.T) {
	for _, name := range []string{"default", "sonyflake-v2", "pgedge", "yitter", "shardingsphere"} {
		k, _ := ByName(name)
		for _, grid := range depth.Of(
			[]time.Duration{10 * time.Millisecond, time.Second, time.Minute},
			[]time.Duration{10 * time.Millisecond, time.Second, time.Minute, time.Millisecond, 100 * time.Millisecond, 5 * time.Second},
		) {
			grid = max(grid, k.Layout.Unit)
			for _, n := range depth.Of([]int{10, 100}, []int{10, 20, 100, 200}) {
				ids := rows(k.Layout, grid, n)
				found := Identify(ids, noon)
				assert.Equal(t, 1, place(found, name), "%s, %v, %d: %s", name, grid, n, found.Matches[0].Name)
				if m := found.Matches[0]; grid > 10*k.Layout.Unit && m.sameTime(&k) {
					assert.Equal(t, grid, m.Grid)
				}
			}
		}
	}
}

// IDs of several systems are called a mixture.
func TestMixture(t *testing.T) {
	for _, names := range [][]string{
		{"twitter", "sonyflake", "mastodon"}, {"yitter", "twitter", "tiktok"},
		{"instagram", "unix", "jssafe"}, {"weibo", "tidb-tso"},
	} {
		for _, n := range []int{3, 20} {
			var ids []snowflake.ID
			var want, got []Part
			for _, name := range names {
				k, _ := ByName(name)
				s := simulate(k, 1, n)
				ids = append(ids, s.IDs...)
				want = append(want, Part{First: slices.Min(s.IDs), Last: slices.Max(s.IDs)})
			}
			found := Identify(ids, noon)
			assert.False(t, slices.ContainsFunc(found.Matches, Match.Likely), "no layout is that of a mixture")
			for _, p := range found.Mixture {
				got = append(got, Part{First: p.First, Last: p.Last})
			}
			assert.ElementsMatch(t, want, got, "%v %d", names, n)
		}
	}
}
