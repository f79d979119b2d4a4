package layouts

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
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
			found, ok := ByName(name)
			require.True(t, ok)
			assert.Equal(t, k, found)
		}
	}
	_, ok := ByName("nobody's")
	assert.False(t, ok)
}

// The layouts, spelled out: if one of these numbers changed, stored IDs would change
// their meaning.
func TestLayoutsNeverChange(t *testing.T) {
	want := map[string]string{
		"default":            "time=41 worker=10 sequence=12 unit=1ms epoch=2026-01-01T00:00:00.000Z to 2095-09-07",
		"twitter":            "time=41 datacenter=5 worker=5 sequence=12 unit=1ms epoch=2010-11-04T01:42:54.657Z to 2080-07-10",
		"bwmarrin":           "time=41 worker=10 sequence=12 unit=1ms epoch=2010-11-04T01:42:54.657Z to 2080-07-10",
		"clockseq":           "time=41 clockseq=3 worker=7 sequence=12 unit=1ms epoch=2026-01-01T00:00:00.000Z to 2095-09-07",
		"jssafe":             "time=33 worker=4 sequence=15 unit=1s epoch=2026-01-01T00:00:00.000Z to 2298-03-16",
		"baidu":              "time=28 worker=22 sequence=13 unit=1s epoch=2016-05-19T16:00:00.000Z to 2024-11-20",
		"redis":              "time=41 worker=12 sequence=10 unit=1ms epoch=1970-01-01T00:00:00.000Z to 2039-09-07",
		"sonyflake":          "time=39 sequence=8 worker=16 unit=10ms epoch=2014-09-01T00:00:00.000Z to 2188-11-16",
		"sonyflake-v2":       "time=39 sequence=8 worker=16 unit=10ms epoch=2025-01-01T00:00:00.000Z to 2199-03-19",
		"discord":            "time=41 datacenter=5 worker=5 sequence=12 unit=1ms epoch=2015-01-01T00:00:00.000Z to 2084-09-06",
		"instagram":          "time=40 worker=13 sequence=10 unit=1ms epoch=2011-08-24T21:07:01.721Z to 2046-06-27",
		"mastodon":           "time=47 sequence=16 unit=1ms epoch=1970-01-01T00:00:00.000Z to 6429-10-17",
		"hazelcast":          "time=41 sequence=6 worker=16 unit=1ms epoch=2018-01-01T00:00:00.000Z to 2087-09-07",
		"shardingsphere":     "time=41 worker=10 sequence=12 unit=1ms epoch=2016-11-01T00:00:00.000Z to 2086-07-08",
		"shardingsphere-cst": "time=41 worker=10 sequence=12 unit=1ms epoch=2016-10-31T16:00:00.000Z to 2086-07-08",
		"pgedge":             "time=41 worker=10 sequence=12 unit=1ms epoch=2023-01-01T00:00:00.000Z to 2092-09-06",
		"yitter":             "time=51 worker=6 sequence=6 unit=1ms epoch=2020-02-19T18:20:02.000Z to 73376-10-30",
		"cosid":              "time=41 worker=10 sequence=12 unit=1ms epoch=2019-12-24T16:00:00.000Z to 2089-08-30",
		"cosid-second":       "time=31 worker=10 sequence=22 unit=1s epoch=2019-12-24T16:00:00.000Z to 2088-01-11",
		"godruoyi":           "time=41 worker=10 sequence=12 unit=1ms epoch=2008-11-10T23:00:00.000Z to 2078-07-18",
		"tsid":               "time=41 worker=10 sequence=12 unit=1ms epoch=2020-01-01T00:00:00.000Z to 2089-09-06",
		"cockroachdb":        "time=48 worker=15 unit=10µs epoch=2015-01-01T00:00:00.000Z to 2104-03-13",
		"tidb-tso":           "time=45 sequence=18 unit=1ms epoch=1970-01-01T00:00:00.000Z to 3084-12-12",
		"atproto-tid":        "time=53 worker=10 unit=1µs epoch=1970-01-01T00:00:00.000Z to 2255-06-05",
		"baidu-readme":       "time=29 worker=21 sequence=13 unit=1s epoch=2016-09-19T16:00:00.000Z to 2033-09-24",
		"unix":               "time=41 worker=10 sequence=12 unit=1ms epoch=1970-01-01T00:00:00.000Z to 2039-09-07",
		"tiktok":             "time=31 sequence=18 worker=14 unit=1s epoch=1970-01-01T00:00:00.000Z to 2038-01-19",
		"weibo":              "time=32 worker=4 sequence=18 unit=1s epoch=1986-05-03T05:51:03.000Z to 2122-06-09",
		"pgedge-node-last":   "time=41 sequence=12 worker=10 unit=1ms epoch=2023-01-01T00:00:00.000Z to 2092-09-06",
		"yitter-csharp":      "time=51 worker=6 sequence=6 unit=1ms epoch=2020-02-20T02:20:02.020Z to 73376-10-30",
		"godruoyi-php":       "time=41 datacenter=5 worker=5 sequence=12 unit=1ms epoch=2019-08-08T08:08:08.000Z to 2089-04-13",
		"godruoyi-php-cst":   "time=41 datacenter=5 worker=5 sequence=12 unit=1ms epoch=2019-08-08T00:08:08.000Z to 2089-04-13",
		"zheng-ji":           "time=41 worker=10 sequence=12 unit=1ms epoch=2016-09-25T11:28:08.000Z to 2086-06-02",
		"idgen":              "time=41 worker=10 sequence=12 unit=1ms epoch=2015-01-01T00:00:00.000Z to 2084-09-06",
		"laravel-snowflake":  "time=41 datacenter=5 worker=5 sequence=12 unit=1ms epoch=2019-04-01T00:00:00.000Z to 2088-12-05",
		"snowflake-uuid":     "time=41 datacenter=5 worker=5 sequence=12 unit=1ms epoch=2021-01-01T00:00:00.000Z to 2090-09-07",
		"snowid":             "time=41 worker=10 sequence=12 unit=1ms epoch=2024-01-01T00:00:00.000Z to 2093-09-06",
		"unix-nanoseconds":   "time=63 unit=1ns epoch=1970-01-01T00:00:00.000Z to 2262-04-11",
		"unix-microseconds":  "time=53 unit=1µs epoch=1970-01-01T00:00:00.000Z to 2255-06-05",
		"unix-milliseconds":  "time=43 unit=1ms epoch=1970-01-01T00:00:00.000Z to 2248-09-26",
	}
	for _, k := range All() {
		assert.Equal(t, want[k.Name], fmt.Sprintf("%v to %s", k.Layout, k.Layout.Expires().Format(time.DateOnly)), k.Name)
	}
}

// The table of the package's documentation has the numbers of the layouts.
func TestDocumentation(t *testing.T) {
	byFunction := map[string]snowflake.Layout{
		"Twitter": Twitter(), "Bwmarrin": Bwmarrin(), "Discord": Discord(), "Instagram": Instagram(), "Sonyflake": Sonyflake(), "SonyflakeV2": SonyflakeV2(),
		"Redis": Redis(), "Baidu": Baidu(), "Mastodon": Mastodon(), "Hazelcast": Hazelcast(), "ShardingSphere": ShardingSphere(), "PgEdge": PgEdge(),
		"Yitter": Yitter(), "CosID": CosID(), "CosIDSecond": CosIDSecond(), "Godruoyi": Godruoyi(), "TSID": TSID(), "CockroachDB": CockroachDB(), "TiDB": TiDB(), "ATProto": ATProto(),
	}
	text, err := os.ReadFile("layouts.go")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^//\t([A-Z]\w+) +(\S+(?: x \d+)?) +([\d,]+) (a|in) ([\wµ ]+?) +(\d+) `).FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, len(byFunction))
	commas := strings.NewReplacer(",", "")
	for _, row := range rows {
		l, ok := byFunction[row[1]]
		require.True(t, ok, row[1])
		assert.Equal(t, fmt.Sprint(1<<l.SequenceBits), commas.Replace(row[3]), row[1])
		assert.Equal(t, fmt.Sprint(l.Expires().Year()), row[6], row[1])
		unit := strings.ReplaceAll(row[5], " ", "")
		if row[4] == "a" {
			unit = "1" + unit
		}
		assert.Equal(t, l.Unit.String(), unit, row[1])
		workers := fmt.Sprint(1 << l.WorkerBits)
		switch {
		case l.DatacenterBits > 0:
			workers = fmt.Sprintf("%d x %s", 1<<l.DatacenterBits, workers)
		case l.WorkerBits == 0:
			workers = "-"
		}
		assert.Equal(t, workers, commas.Replace(row[2]), row[1])
	}
}

// IDs that other systems issued, with fields that are published.
func TestKnownIDs(t *testing.T) {
	b, err := os.ReadFile("testdata/ids.json")
	require.NoError(t, err)
	var known []struct {
		Layout                       string
		ID                           snowflake.ID
		UnixMs                       int64 `json:"unix_ms"`
		Datacenter, Worker, Sequence int
		Source                       string
	}
	require.NoError(t, json.Unmarshal(b, &known))
	seen := map[string]int{}
	for _, k := range known {
		t.Run(k.Layout+"/"+k.ID.String(), func(t *testing.T) {
			found, ok := ByName(k.Layout)
			require.True(t, ok)
			layout := found.Layout
			seen[k.Layout]++
			want := snowflake.Parts{Time: time.UnixMilli(k.UnixMs).UTC(), Datacenter: k.Datacenter, Worker: k.Worker, Sequence: k.Sequence}
			require.NoError(t, layout.Check(k.ID), k.Source)
			require.Equal(t, want, layout.Decode(k.ID), k.Source)
			id, err := layout.Encode(layout.Decode(k.ID))
			require.NoError(t, err)
			require.Equal(t, k.ID, id)
		})
	}
	assert.Len(t, seen, 4, "a layout has no known ID")
}
