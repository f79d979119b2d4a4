package texts

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// ways are the ways in which IDs are rounded, by a word of what Rounding.By says.
var ways = map[string]func(snowflake.ID) snowflake.ID{
	"15 digits": func(id snowflake.ID) snowflake.ID {
		text := []byte(id.String())
		for i := 15; i < len(text); i++ {
			text[i] = '0'
		}
		return parsed(string(text))
	},
	"printed as JavaScript": func(id snowflake.ID) snowflake.ID {
		return parsed(strconv.FormatFloat(float64(id), 'f', -1, 64))
	},
	"Redis scores": func(id snowflake.ID) snowflake.ID { return snowflake.ID(float64(id)) },
}

func parsed(s string) snowflake.ID {
	id, err := snowflake.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

var june = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// issued returns n IDs of a day of June 2026, with sequence numbers below most.
func issued(t *testing.T, l snowflake.Layout, n, worker, most int) (ids []snowflake.ID) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		at := june.Add(time.Duration(r.Int64N(int64(day))))
		id, err := l.Encode(snowflake.Parts{Time: at, Worker: worker, Sequence: r.IntN(most)})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

func TestRounded(t *testing.T) {
	for name, l := range map[string]snowflake.Layout{
		"default": snowflake.DefaultLayout(), "twitter": layouts.Twitter(), "discord": layouts.Discord(), "instagram": layouts.Instagram(),
	} {
		busy := issued(t, l, 200, 5, 1<<l.SequenceBits)
		requireUnrounded(t, busy)
		for by, round := range ways {
			var rounded []snowflake.ID
			for _, id := range busy {
				rounded = append(rounded, round(id))
			}
			got, ok := Rounded(slices.Values(append(rounded, 5, 1<<60+1))) // two strangers
			require.True(t, ok, "%s, %s", name, by)
			assert.True(t, got.Sure)
			assert.Contains(t, got.String(), by, name)
			assert.GreaterOrEqual(t, got.Of, got.Count)
		}
	}
	// A tweet went through JavaScript, or through Excel. One number alone is no proof.
	for text, by := range map[string]string{"1541815603606036500": "JavaScript", "1541815603606030000": "15 digits"} {
		got, ok := Rounded(slices.Values([]snowflake.ID{parsed(text)}))
		require.True(t, ok, text)
		assert.False(t, got.Sure)
		assert.Contains(t, got.String(), "1 of 1 numbers are probably rounded: ")
		assert.Contains(t, got.By, by)
	}
}

func requireUnrounded(t *testing.T, ids []snowflake.ID) {
	t.Helper()
	got, ok := Rounded(slices.Values(ids))
	require.False(t, ok, "%v", got)
}

// The sequence number of a slow generator is 0, or another small number. An ID of a whole second
// ends in zeros.
func TestIDsThatEndInZerosAreNotRounded(t *testing.T) {
	for _, l := range append([]snowflake.Layout{snowflake.DefaultLayout(), snowflake.JSSafeLayout(),
		snowflake.ClockSeqLayout()}, known()...) {
		for _, worker := range []int{0, 1, 1<<l.WorkerBits - 1, 1 << l.WorkerBits / 2} {
			if _, err := l.Encode(snowflake.Parts{Time: june.Add(day), Worker: worker}); err != nil {
				continue // it has no such worker, or has run out
			}
			for _, most := range []int{1, 2, 3, 1 << l.SequenceBits} {
				ids := issued(t, l, 300, worker, min(most, 1<<l.SequenceBits))
				requireUnrounded(t, ids)
				for i := range ids {
					at := l.Decode(ids[i]).Time.Truncate(time.Second)
					id, err := l.Encode(snowflake.Parts{Time: at, Worker: worker})
					require.NoError(t, err)
					ids[i] = id
				}
				requireUnrounded(t, ids)
				requireUnrounded(t, ids[:1])
			}
		}
	}
	var counter []snowflake.ID
	for i := range snowflake.ID(1000) {
		counter = append(counter, 1e15+i, 5*i, 1e17+4*i)
	}
	requireUnrounded(t, counter)
	requireUnrounded(t, nil)
}

func known() (all []snowflake.Layout) {
	for _, k := range layouts.All() {
		all = append(all, k.Layout)
	}
	return all
}

func TestInexact(t *testing.T) {
	for text, says := range map[string]string{
		"1.2E+17": "of 2 digits", "1.17919502066282e+17": "of 15 digits", "1,54181560360603E+18": "of 15 digits", "2e18": "of 1 digits",
		"117919502066282496.0": "floating-point number", "117919502066282496.": "floating-point number", "5,00": "floating-point number",
		"5": "", "": "", "1.5": "", "0.1.0": "", "e5": "", "12e": "", "7f3a12": "", "1.2E+17x": "", ",": "",
	} {
		if got := Inexact(text); says == "" {
			assert.Empty(t, got, text)
		} else {
			assert.Contains(t, got, says, text)
		}
	}
}
