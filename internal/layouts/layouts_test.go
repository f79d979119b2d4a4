package layouts

import (
	"encoding/json"
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

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, k := range All() {
		require.NoError(t, k.Layout.Validate(), k.Name)
		assert.NotEmpty(t, k.About, k.Name)
		assert.NotEmpty(t, k.Source, k.Name)
		for _, name := range append(k.Also, k.Name) {
			assert.False(t, names[name], "two layouts are called %s", name)
			names[name] = true
			found, ok := Find(name)
			require.True(t, ok)
			assert.Equal(t, k, found)
		}
	}
	_, ok := Find("nobody's")
	assert.False(t, ok)
}

// issue returns IDs as a few processes of a layout issue them in the hour before
// a time: now and then, at times several in a tick.
func issue(r *rand.Rand, k Known, before time.Time, n int) []snowflake.ID {
	l := k.Layout
	var ids []snowflake.ID
	start := before.Add(-time.Hour)
	for len(ids) < n {
		p := snowflake.Parts{Time: start.Add(time.Duration(r.Int64N(int64(time.Hour))))}
		if l.WorkerBits > 0 {
			p.Worker = r.IntN(4)
			if k.Random && l.SequenceBits == 0 {
				p.Worker = r.IntN(1 << l.WorkerBits)
			}
		}
		if l.DatacenterBits > 0 {
			p.Datacenter = r.IntN(3)
		}
		if k.Random && l.SequenceBits > 0 {
			p.Sequence = r.IntN(1<<l.SequenceBits - 3)
		}
		for range 1 + r.IntN(3) {
			id, err := l.Encode(p)
			if err != nil {
				panic(err)
			}
			ids = append(ids, id)
			if p.Sequence++; l.SequenceBits == 0 {
				break
			}
		}
	}
	return ids[:n]
}

// Rank finds the layout of twenty IDs, although they are a month old, one is of
// another layout, and they are not sorted. If another layout differs only by hours,
// or in what it calls a datacenter, the right layout is second at worst.
func TestRankFindsTheLayout(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range All() {
		before := noon.Add(-30 * 24 * time.Hour)
		if end := k.Layout.Expires(); end.Before(before) {
			before = end.Add(-time.Hour)
		}
		t.Run(k.Name, func(t *testing.T) {
			first := 0
			for range 20 {
				ids := append(issue(r, k, before, 20), snowflake.ID(r.Int64()))
				r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
				matches := Rank(ids, noon)
				at := slices.IndexFunc(matches, func(m Match) bool { return m.Name == k.Name })
				if at == 0 {
					first++
				}
				require.LessOrEqual(t, at, 2, "%s and %s come before", matches[0].Name, matches[1].Name)
				require.Empty(t, matches[at].Not)
			}
			switch k.Name {
			case "bwmarrin", "shardingsphere", "shardingsphere-cst",
				"clockseq": // the default, until a clock steps back
			default:
				assert.GreaterOrEqual(t, first, 16)
			}
		})
	}
}

// If a process issues an ID from time to time, always with sequence number 0, Rank
// does not prefer a layout with a narrower sequence or a younger epoch.
func TestRankOfASlowProcess(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, k := range All() {
		if k.Random {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			for i := range 20 {
				end := noon.Add(-30 * 24 * time.Hour)
				n := 50
				if old := end.AddDate(-3, 0, 0); i%2 == 1 && k.since().Before(old) {
					end, n = old, 500
				}
				if e := k.Layout.Expires(); e.Before(end) {
					end = e
				}
				var ids []snowflake.ID
				for range n {
					p := snowflake.Parts{Time: end.Add(-time.Duration(1 + r.Int64N(int64(time.Hour))))}
					if k.Layout.WorkerBits > 0 {
						p.Worker = 3
					}
					if k.Layout.SequenceBits == 0 && k.Layout.WorkerBits == 0 {
						return
					}
					id, err := k.Layout.Encode(p)
					require.NoError(t, err)
					ids = append(ids, id)
				}
				if m := Rank(ids, noon)[0]; m.Name != k.Name {
					assert.Less(t, m.Share, 0.9, "%s, for %v", m.Name, ids[:2])
				}
			}
		})
	}
}

// One old ID alone says little, but its layout is never ruled out.
func TestRankOfRealIDs(t *testing.T) {
	text, err := os.ReadFile("../../testdata/ids.json")
	require.NoError(t, err)
	var vectors []struct {
		Layout string
		ID     snowflake.ID
	}
	require.NoError(t, json.Unmarshal(text, &vectors))
	for _, v := range vectors {
		k, _ := Find(v.Layout)
		assert.Empty(t, k.Refuse(v.ID, noon), "%v of %s", v.ID, v.Layout)
	}
	// Discord's own example of its API reference.
	assert.Equal(t, "discord", Rank([]snowflake.ID{175928847299117063}, noon.AddDate(-10, 0, 0))[0].Name)
	assert.Equal(t, "discord", Rank([]snowflake.ID{1541815603606036480}, noon)[0].Name, "which it would be, by its time")
}

func TestRankSaysWhyNot(t *testing.T) {
	of := func(id snowflake.ID, name string) Match {
		for _, m := range Rank([]snowflake.ID{id}, noon) {
			if m.Name == name {
				return m
			}
		}
		panic(name)
	}
	const tweet = 1541815603606036480
	assert.Equal(t, "its time, 2037-08-25, lies in the future", of(tweet, "default").Not)
	assert.Equal(t, "it has more bits than the layout", of(tweet, "jssafe").Not)
	assert.Equal(t, "its time, 1981-08-25, is before there were such IDs", of(tweet, "redis").Not)
	assert.Empty(t, of(tweet, "twitter").Not)
	assert.Equal(t, []string{"its time is 2022-06-28T16:07:40.105Z, 4.4 years ago", "datacenter 11", "worker 26", "sequence 0", "only the epoch tells it from discord"}, of(tweet, "twitter").Why)
	sum := 0.0
	for _, m := range Rank([]snowflake.ID{tweet}, noon) {
		sum += m.Share
		assert.Equal(t, m.Not != "", m.Share == 0, m.Name)
	}
	assert.InDelta(t, 1, sum, 0.01)
	assert.Less(t, Rank([]snowflake.ID{math.MaxInt64}, noon)[0].Share, 0.5, "it is any number rather than an ID")
	for _, m := range Rank(nil, noon) {
		assert.Zero(t, m.Share)
	}
}

// Sonyflake's two versions differ in their epochs only. So IDs of the first 22 months
// of version 1 can as well be younger IDs of version 2.
func TestRankOfLayoutsThatDifferInTheEpochOnly(t *testing.T) {
	sonyflake, _ := Find("sonyflake")
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 20, 500} {
		for _, months := range []int{1, 10, 20} {
			ids := issue(r, sonyflake, sonyflake.Layout.Epoch.Time().AddDate(0, months, 0), n)
			matches := Rank(ids, noon)
			sum := 0.0
			for i, m := range matches {
				sum += m.Share
				if m.Name == "sonyflake" || m.Name == "sonyflake-v2" {
					require.LessOrEqual(t, i, 1)
					assert.LessOrEqual(t, m.Share, mostOfTwins)
					assert.GreaterOrEqual(t, m.Share, 0.1, "%s, %d IDs after %d months", m.Name, n, months)
				}
			}
			assert.LessOrEqual(t, sum, 1.000001)
			slices.SortFunc(matches[:2], func(a, b Match) int { return len(a.Name) - len(b.Name) })
			assert.Contains(t, matches[0].Why, "only the epoch tells it from sonyflake-v2")
			assert.Contains(t, matches[1].Why, "only the epoch tells it from sonyflake")
		}
	}
	// A layout that is ruled out has no evidence.
	for _, m := range Rank(issue(r, sonyflake, noon, 20), noon) {
		if m.Name == "sonyflake" {
			assert.Greater(t, m.Share, mostOfTwins)
			assert.NotContains(t, m.Why, "only the epoch tells it from sonyflake-v2")
		}
	}
}

func TestRead(t *testing.T) {
	const id = snowflake.ID(1541815603606036480)
	forms := func(texts ...string) (forms []string) {
		all, err := Read(texts)
		require.NoError(t, err)
		var read []snowflake.ID
		for _, r := range all {
			forms = append(forms, r.Form)
			read = append(read, r.IDs[0])
		}
		assert.Contains(t, read, id)
		return forms
	}
	assert.Equal(t, []string{"decimal"}, forms(id.String()))
	assert.Equal(t, []string{"base 32"}, forms(id.Base32()))
	assert.Contains(t, forms(id.Base62()), "base 62")
	assert.Contains(t, forms(id.Base58()), "base 58")
	assert.Equal(t, []string{"base 62"}, forms(id.Base62(), snowflake.ID(0).Base62()))

	// The AT Protocol's specification has the first as an example, and the zero.
	all, err := Read([]string{"3jzfcijpj2z2a", "2222222222222"})
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, snowflake.ID(0), all[0].IDs[1])
	assert.Equal(t, "atproto-tid", Rank(all[0].IDs[:1], noon)[0].Name)
}

func TestReadRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                                     "empty",
		"12x ":                                 `"12x "`,
		"9223372036854775808":                  "over 9223372036854775807",
		"018f6b1e-5c3b-7c8e-9d2a-0123456789ab": "a UUID, version 7",
		"01ARZ3NDEKTSV4RRFFQ69G5FAV":           "a ULID",
		"brpk4q72xwf2m63l":                     "muyo/sno",
		"507f1f77bcf86cd799439011":             "ObjectID",
		"9m4e2mr0ui3e8a215n4g":                 "rs/xid",
		"zzzzzzzzzzzzz":                        "zzzzzzzzzzzzz",
	} {
		_, err := Read([]string{text})
		assert.ErrorContains(t, err, says, text)
	}
	_, err := Read([]string{"123", "5", "x-y"})
	assert.ErrorContains(t, err, "x-y")
}

// An epoch of 2026 milliseconds is a year that somebody meant, and IDs would show it for ever.
func TestEpochRefusesAYearAlone(t *testing.T) {
	for _, text := range []string{"2026", "1970", "9999"} {
		_, err := ParseEpoch(text)
		assert.ErrorContains(t, err, text+"-01-01")
		_, err = Parse("41/10/12@" + text)
		assert.ErrorContains(t, err, text+"-01-01")
	}
	for text, want := range map[string]snowflake.Epoch{"0": 0, "999": 999, "10000": 10000, "2026-01-01": snowflake.DefaultEpoch} {
		got, err := ParseEpoch(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}
