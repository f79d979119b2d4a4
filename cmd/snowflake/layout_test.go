package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// describeAt returns what describe writes.
func describeAt(l snowflake.Layout, now time.Time) string {
	var b strings.Builder
	describe(&b, l, now)
	return b.String()
}

func TestListOfLayouts(t *testing.T) {
	out := lines(succeed(t, "layout"))
	require.Len(t, out, len(layouts.All()))
	for i, k := range layouts.All() {
		assert.Regexp(t, "^"+k.Name+" +"+regexp.QuoteMeta(k.Layout.String())+"$", out[i])
	}
}

// The dates are epoch + 2^bits ticks, computed elsewhere.
func TestWhenPresetsRunOut(t *testing.T) {
	ends := map[string]string{
		"default":      "2095-09-07T15:47:35.552Z",
		"twitter":      "2080-07-10T17:30:30.209Z",
		"bwmarrin":     "2080-07-10T17:30:30.209Z",
		"clockseq":     "2095-09-07T15:47:35.552Z",
		"jssafe":       "2298-03-16T12:56:32Z",
		"baidu":        "2024-11-20T13:24:16Z",
		"redis":        "2039-09-07T15:47:35.552Z",
		"sonyflake":    "2188-11-16T03:28:58.88Z",
		"sonyflake-v2": "2199-03-19T03:28:58.88Z",
		"discord":      "2084-09-06T15:47:35.552Z",
		"instagram":    "2046-06-27T17:00:49.497Z",
	}
	for name, end := range ends {
		p, ok := layouts.ByName(name)
		require.True(t, ok, name)
		t.Run(name, func(t *testing.T) {
			assert.Contains(t, succeed(t, "layout", p.Name), "\nruns out         "+end)
			at, err := time.Parse(time.RFC3339, end)
			require.NoError(t, err)
			assert.Contains(t, describeAt(p.Layout, at.Add(-1)), "runs out         "+end+"\n")
			assert.Contains(t, describeAt(p.Layout, at), "runs out         "+end+", which is past: no more IDs can be issued\n")
		})
	}
}

func TestDescription(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"worker last", []string{"sonyflake"}, `
  63      62   24   23    16   15    0
+-------+---------+----------+---------+
| sign  | time    | sequence | worker  |
| 1 bit | 39 bits | 8 bits   | 16 bits |
+-------+---------+----------+---------+

workers          65,536
IDs per second   25,600 for one worker, 1,677,721,600 in all
epoch            2014-09-01T00:00:00Z
tick             10ms
runs out         2188-11-16T03:28:58.88Z
`},
		{"datacenters", []string{"discord"}, `
  63      62   22   21      17   16  12   11     0
+-------+---------+------------+--------+----------+
| sign  | time    | datacenter | worker | sequence |
| 1 bit | 41 bits | 5 bits     | 5 bits | 12 bits  |
+-------+---------+------------+--------+----------+

datacenters      32
workers          32 in each datacenter, 1,024 in all
IDs per second   4,096,000 for one worker, 4,194,304,000 in all
epoch            2015-01-01T00:00:00Z
tick             1ms
runs out         2084-09-06T15:47:35.552Z
`},
		{"clock sequences and unused bits", []string{"33/3/7/0", "--unit", "1h", "--epoch", "0"}, `
  63      62   43   42   10   9      7   6    0
+-------+---------+---------+----------+--------+
| sign  | unused  | time    | clockseq | worker |
| 1 bit | 20 bits | 33 bits | 3 bits   | 7 bits |
+-------+---------+---------+----------+--------+

clock sequences  8
workers          128
IDs per second   0.0002778 for one worker, 0.03556 in all
epoch            1970-01-01T00:00:00Z
tick             1h0m0s
runs out         981905-02-02T08:00:00Z
`},
		{"time only", []string{"63/0/0"}, `
  63      62    0
+-------+---------+
| sign  | time    |
| 1 bit | 63 bits |
+-------+---------+

workers          1
IDs per second   1,000 for one worker, 1,000 in all
epoch            2026-01-01T00:00:00Z
tick             1ms
runs out         292279050-08-18T07:12:55.808Z
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, strings.TrimPrefix(test.want, "\n"), succeed(t, append([]string{"layout"}, test.args...)...))
		})
	}
}

func TestIDsPerSecond(t *testing.T) {
	tests := []struct{ spec, unit, want string }{
		{"41/10/12", "1ms", "4,096,000 for one worker, 4,194,304,000 in all"},
		{"20/0/0", "1s", "1 for one worker, 1 in all"},
		{"20/4/5", "10s", "3.2 for one worker, 51.2 in all"},
		{"20/0/7/3/4", "1s", "16 for one worker, 16,384 in all"},
		{"1/31/31", "1ns", "2.147e+18 for one worker, 4.612e+27 in all"},
	}
	for _, test := range tests {
		t.Run(test.spec+" "+test.unit, func(t *testing.T) {
			out := succeed(t, "layout", test.spec, "--unit", test.unit)
			assert.Contains(t, out, "\nIDs per second   "+test.want+"\n")
		})
	}
}
