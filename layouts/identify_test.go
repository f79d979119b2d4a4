package layouts

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// sample is IDs of one origin.
type sample struct {
	Layout, Source string
	IDs            []snowflake.ID
}

// Fleets, by the number of workers and the mean time between IDs.
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
}

// simulate returns n IDs as processes of a layout issue them, some time in the last two years.
func simulate(k Known, fleet, n int) sample {
	f := fleets[fleet]
	h := fnv.New64()
	fmt.Fprint(h, k.Name, f.name)
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	l := k.Layout
	nodes := make([]snowflake.Parts, f.workers)
	for i := range nodes {
		nodes[i] = node(k, r, i)
	}
	span := time.Duration(n) * f.pause
	end := noon
	if l.Expires().Before(end) {
		end = l.Expires()
	}
	first := k.begin().Add(24 * time.Hour)
	if early := end.AddDate(-2, 0, 0); first.Before(early) {
		first = early
	}
	at := first.Add(time.Duration(r.Int64N(int64(end.Sub(first) - span))))
	s := sample{Layout: k.Name, Source: f.name}
	for len(s.IDs) < n {
		p := nodes[r.IntN(len(nodes))]
		p.Time = at
		p.Sequence = sequence(k, r)
		for range f.burst {
			id, err := l.Encode(p)
			if err != nil {
				panic(err)
			}
			s.IDs = append(s.IDs, id)
			if p.Sequence++; p.Sequence == 1<<l.SequenceBits {
				p.Sequence, p.Time = 0, p.Time.Add(l.Unit)
			}
		}
		at = at.Add(time.Duration(r.ExpFloat64() * float64(f.pause)))
	}
	s.IDs = s.IDs[:n]
	r.Shuffle(n, func(i, j int) { s.IDs[i], s.IDs[j] = s.IDs[j], s.IDs[i] })
	return s
}

// node returns the worker of the i-th process, as the system numbers workers.
func node(k Known, r *rand.Rand, i int) snowflake.Parts {
	switch size := 1 << k.Layout.WorkerBits; k.Name {
	case "twitter":
		return snowflake.Parts{Datacenter: 10 + i%2, Worker: r.IntN(32)}
	case "discord":
		return snowflake.Parts{Datacenter: r.IntN(4), Worker: r.IntN(2)}
	case "sonyflake", "sonyflake-v2", "tsid", "instagram", "atproto-tid": // of a private address, or at random
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
	case k.Name == "discord": // it counts on from tick to tick
		return r.IntN(200)
	case k.Name == "yitter": // it keeps the first five for itself
		return 5
	case r.IntN(10) == 0:
		return 1 + r.IntN(3)
	}
	return 0
}

// place returns at which place Identify has a layout. Twins share a place.
func place(ids []snowflake.ID, layout string) (at int) {
	seen := map[string]bool{}
	for _, m := range Identify(ids, noon) {
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

// tally counts at which place the right layout is.
type tally struct{ first, second, all int }

func (c *tally) count(ids []snowflake.ID, s sample) (at int) {
	at = place(ids, s.Layout)
	if c.all++; at == 1 {
		c.first++
	} else if at == 2 {
		c.second++
	}
	return at
}

// The right layout, or its twins, comes first for nine of ten IDs, and is among the first two. The
// documentation has these figures.
func TestIdentifyCorpus(t *testing.T) {
	var published []sample
	text, err := os.ReadFile("testdata/published.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &published))
	var known, alone, together, many tally
	for _, s := range published {
		for _, id := range s.IDs {
			assert.LessOrEqual(t, known.count([]snowflake.ID{id}, s), 2, "%v of %s, %s", id, s.Layout, s.Source)
		}
		if len(s.IDs) >= 20 {
			assert.Equal(t, 1, place(s.IDs, s.Layout), s.Source)
		}
	}
	for _, k := range All() {
		for fleet, f := range fleets {
			s := simulate(k, fleet, 20)
			for _, id := range s.IDs {
				alone.count([]snowflake.ID{id}, s)
			}
			assert.LessOrEqual(t, together.count(s.IDs, s), 2, "%s, %s", k.Name, f.name)
			if f.name != "quiet" { // to be quiet for a thousand IDs takes longer than some layouts exist
				s := simulate(k, fleet, 1000)
				assert.LessOrEqual(t, many.count(s.IDs, s), 2, "%s, %s", k.Name, f.name)
			}
		}
	}
	for _, c := range []tally{known, alone, together, many} {
		assert.GreaterOrEqual(t, c.first*10, c.all*9)
		assert.GreaterOrEqual(t, (c.first+c.second)*100, c.all*99)
	}
	docs, err := os.ReadFile("identify.go")
	require.NoError(t, err)
	for name, c := range map[string]tally{"published, alone": known, "simulated, alone": alone, "simulated, 20 together": together, "simulated, 1,000 together": many} {
		assert.Regexp(t, fmt.Sprintf(`(?m)^//\t%s +%d +%d +%d$`, name, c.all, c.first, c.first+c.second), string(docs))
	}
}

// IDs that are fresh from the command, however many come from one tick.
func TestIdentifyOneBurst(t *testing.T) {
	for _, worker := range []int{0, 1, 2, 1023} {
		for _, n := range []int{1, 100, 1000, 4096} {
			first, err := snowflake.DefaultLayout().Encode(snowflake.Parts{Time: noon, Worker: worker})
			require.NoError(t, err)
			var ids []snowflake.ID
			for i := range n {
				ids = append(ids, first+snowflake.ID(i))
			}
			best := Identify(ids, noon)[0]
			assert.Equal(t, "default", best.Name, "worker %d, %d IDs", worker, n)
			assert.Greater(t, best.Share, 0.9)
		}
	}
}

// Only the epoch tells a tweet from an ID of Discord. So Identify says this, with both dates.
func TestIdentifyNamesTwins(t *testing.T) {
	of := map[string]Match{}
	sum := 0.0
	for _, m := range Identify([]snowflake.ID{1541815603606036480}, noon) {
		of[m.Name] = m
		sum += m.Share
		assert.Equal(t, m.Not != "", m.Share == 0, m.Name)
		assert.Equal(t, m.Not != "", m.First.IsZero(), m.Name)
	}
	assert.InDelta(t, 1, sum, 0.01)
	twitter, discord := of["twitter"], of["discord"]
	assert.Contains(t, twitter.Twins, "discord")
	assert.Contains(t, discord.Twins, "twitter")
	assert.Equal(t, []string{"time=2022-06-28T16:07:40.105Z datacenter=11 worker=26 sequence=0", "4.4 years ago",
		"only the epoch tells it from discord (2026-08-25), godruoyi (2020-07-05)", "only the names of the fields tell it from bwmarrin"}, twitter.Why)
	assert.Contains(t, discord.Why, "only the epoch tells it from twitter (2022-06-28), bwmarrin (2022-06-28), godruoyi (2020-07-05)")
	assert.Equal(t, time.Date(2022, 6, 28, 16, 7, 40, 105e6, time.UTC), twitter.Last)
	assert.Less(t, math.Abs(math.Log(twitter.Share/discord.Share)), math.Log(10), "neither is much likelier")
}

func TestIdentifySaysWhyNot(t *testing.T) {
	of := map[string]Match{}
	for _, m := range Identify([]snowflake.ID{1541815603606036480}, noon) {
		of[m.Name] = m
	}
	assert.Equal(t, "its time, 2037-08-25, lies in the future", of["default"].Not)
	assert.Equal(t, "it has more bits than the layout", of["jssafe"].Not)
	assert.Equal(t, "its time, 1981-08-25, is before there were such IDs", of["redis"].Not)
	assert.Less(t, Identify([]snowflake.ID{math.MaxInt64}, noon)[0].Share, 0.5, "it is any number rather than an ID")
	for _, m := range Identify(nil, noon) {
		assert.Zero(t, m.Share)
		assert.Equal(t, "there are no IDs", m.Not)
	}
}

// Some strangers among the IDs do not change the answer, nor does the order.
func TestIdentifyAmongStrangers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range All() {
		for fleet, f := range fleets {
			s := simulate(k, fleet, 20)
			ids := append(slices.Clone(s.IDs), snowflake.ID(r.Int64()))
			slices.Reverse(ids)
			assert.LessOrEqual(t, place(ids, k.Name), max(place(s.IDs, k.Name), 2), "%s, %s", k.Name, f.name)
		}
	}
}

func TestByHost(t *testing.T) {
	for host, want := range map[string]string{"x.com": "twitter", "mobile.twitter.com": "twitter", "cdn.discordapp.com": "discord",
		"www.Instagram.com": "instagram", "bsky.app": "atproto-tid", "netflix.com": "", "": "", "com": ""} {
		k, ok := ByHost(host)
		assert.Equal(t, want, k.Name, host)
		assert.Equal(t, want != "", ok, host)
	}
}
