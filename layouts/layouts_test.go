package layouts

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
			assert.Equal(t, k.Name, found.Name)
		}
	}
	_, ok := ByName("nobody's")
	assert.False(t, ok)
}

// The layouts, spelled out: if one of these numbers changed, stored IDs would change their meaning.
func TestLayoutsNeverChange(t *testing.T) {
	want := map[string]string{
		"default":            "41/10/12@2026-01-01,1ms to 2095-09-07",
		"twitter":            "41/0/5/5/12@2010-11-04T01:42:54.657Z,1ms to 2080-07-10",
		"bwmarrin":           "41/10/12@2010-11-04T01:42:54.657Z,1ms to 2080-07-10",
		"clockseq":           "41/3/7/12@2026-01-01,1ms to 2095-09-07",
		"jssafe":             "33/4/15@2026-01-01,1s to 2298-03-16",
		"baidu":              "28/22/13@2016-05-19T16:00:00Z,1s to 2024-11-20",
		"redis":              "41/12/10@1970-01-01,1ms to 2039-09-07",
		"sonyflake":          "39/16/8@2014-09-01,10ms,worker-last to 2188-11-16",
		"sonyflake-v2":       "39/16/8@2025-01-01,10ms,worker-last to 2199-03-19",
		"discord":            "41/0/5/5/12@2015-01-01,1ms to 2084-09-06",
		"instagram":          "40/13/10@2011-08-24T21:07:01.721Z,1ms to 2046-06-27",
		"mastodon":           "47/0/16@1970-01-01,1ms to 6429-10-17",
		"hazelcast":          "41/16/6@2018-01-01,1ms,worker-last to 2087-09-07",
		"shardingsphere":     "41/10/12@2016-11-01,1ms to 2086-07-08",
		"shardingsphere-cst": "41/10/12@2016-10-31T16:00:00Z,1ms to 2086-07-08",
		"pgedge":             "41/10/12@2023-01-01,1ms to 2092-09-06",
		"yitter":             "51/6/6@2020-02-19T18:20:02Z,1ms to 73376-10-30",
		"cosid":              "41/10/12@2019-12-24T16:00:00Z,1ms to 2089-08-30",
		"cosid-second":       "31/10/22@2019-12-24T16:00:00Z,1s to 2088-01-11",
		"godruoyi":           "41/10/12@2008-11-10T23:00:00Z,1ms to 2078-07-18",
		"tsid":               "41/10/12@2020-01-01,1ms to 2089-09-06",
		"cockroachdb":        "48/15/0@2015-01-01,10µs to 2104-03-13",
		"tidb-tso":           "45/0/18@1970-01-01,1ms to 3084-12-12",
		"atproto-tid":        "53/10/0@1970-01-01,1µs to 2255-06-05",
		"baidu-readme":       "29/21/13@2016-09-19T16:00:00Z,1s to 2033-09-24",
		"unix":               "41/10/12@1970-01-01,1ms to 2039-09-07",
		"tiktok":             "31/14/18@1970-01-01,1s,worker-last to 2038-01-19",
		"weibo":              "32/4/18@1986-05-03T05:51:03Z,1s to 2122-06-09",
		"pgedge-node-last":   "41/10/12@2023-01-01,1ms,worker-last to 2092-09-06",
		"yitter-csharp":      "51/6/6@2020-02-20T02:20:02.020Z,1ms to 73376-10-30",
		"godruoyi-php":       "41/0/5/5/12@2019-08-08T08:08:08Z,1ms to 2089-04-13",
		"godruoyi-php-cst":   "41/0/5/5/12@2019-08-08T00:08:08Z,1ms to 2089-04-13",
		"zheng-ji":           "41/10/12@2016-09-25T11:28:08Z,1ms to 2086-06-02",
		"idgen":              "41/10/12@2015-01-01,1ms to 2084-09-06",
		"laravel-snowflake":  "41/0/5/5/12@2019-04-01,1ms to 2088-12-05",
		"snowflake-uuid":     "41/0/5/5/12@2021-01-01,1ms to 2090-09-07",
		"snowid":             "41/10/12@2024-01-01,1ms to 2093-09-06",
		"seata-1.4":          "41/10/12@2020-05-02T16:00:00Z,1ms to 2090-01-07",
		"pubnub":             "60/0/0@1970-01-01,100ns to 5623-06-18",
		"unix-nanoseconds":   "63/0/0@1970-01-01,1ns to 2262-04-11",
		"unix-microseconds":  "53/0/0@1970-01-01,1µs to 2255-06-05",
		"unix-milliseconds":  "43/0/0@1970-01-01,1ms to 2248-09-26",
	}
	for _, k := range All() {
		assert.Equal(t, want[k.Name], fmt.Sprintf("%v to %s", k.Layout, k.Layout.Expires().Format(time.DateOnly)), k.Name)
	}
}

// functions returns the layouts of the exported functions by the functions' names, which it reads
// in the source.
func functions(t *testing.T) map[string]snowflake.Layout {
	t.Helper()
	parse := func(name string) *ast.File {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		return file
	}
	names := map[string]string{} // in the table, by function
	ast.Inspect(parse("table.go"), func(n ast.Node) bool {
		known, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		fields := map[string]ast.Expr{}
		for _, e := range known.Elts {
			if field, ok := e.(*ast.KeyValueExpr); ok {
				fields[fmt.Sprint(field.Key)] = field.Value
			}
		}
		name, _ := fields["Name"].(*ast.BasicLit)
		if call, ok := fields["Layout"].(*ast.CallExpr); ok && name != nil && len(call.Args) == 0 {
			names[fmt.Sprint(call.Fun)] = strings.Trim(name.Value, `"`)
		}
		return true
	})
	found := map[string]snowflake.Layout{}
	for _, d := range parse("layouts.go").Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.IsExported() {
			k, ok := ByName(names[f.Name.Name])
			assert.True(t, ok, "table.go: the table lacks %s", f.Name)
			found[f.Name.Name] = k.Layout
		}
	}
	return found
}

// The table of the package's documentation has all functions, with the numbers of their layouts.
func TestDocumentation(t *testing.T) {
	byFunction := functions(t)
	text, err := os.ReadFile("layouts.go")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^//\t([A-Z]\w+) +(\S+(?: x \d+)?) +([\d,]+) (a|in) ([\wµ ]+?) +(\d+) `)
	rows := row.FindAllStringSubmatch(string(text), -1)
	has := map[string]bool{}
	for _, row := range rows {
		has[row[1]] = true
	}
	for name := range byFunction {
		assert.True(t, has[name], "layouts.go: the table lacks %s", name)
	}
	commas := strings.NewReplacer(",", "")
	for _, row := range rows {
		l, ok := byFunction[row[1]]
		require.True(t, ok, "layouts.go: the table has %s, which is no function", row[1])
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
