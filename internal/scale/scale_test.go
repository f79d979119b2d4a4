// Package scale recomputes what docs/scale.md says: its tables of layouts from
// snowflake.Layout, its figures of outages and restarts with the lease code in
// virtual time:
//
//	go test -v ./internal/scale -processes 512
package scale

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

func workers(l snowflake.Layout) int64 { return 1 << (l.DatacenterBits + l.WorkerBits) }

func perSecond(l snowflake.Layout) float64 {
	return float64(int64(1)<<l.SequenceBits) * float64(time.Second) / float64(l.Unit)
}

// split is the layout's bits as the document writes them.
func split(l snowflake.Layout) string {
	return strings.ReplaceAll(fmt.Sprintf("%d / %d / %d / %d", l.TimeBits, l.DatacenterBits, l.WorkerBits, l.SequenceBits), " 0 ", " – ")
}

func unit(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// number writes large numbers with their thousands apart, or in millions.
func number(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.3g billion", n/1e9)
	case n >= 1e7:
		return fmt.Sprintf("%.3g million", n/1e6)
	}
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// layout is one of ours: since the default epoch, with all 63 bits or fewer.
func layout(unit time.Duration, timeBits, datacenterBits, workerBits uint8, bits uint8) snowflake.Layout {
	return snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: unit, TimeBits: timeBits, DatacenterBits: datacenterBits,
		WorkerBits: workerBits, SequenceBits: bits - timeBits - datacenterBits - workerBits}
}

// presets is the table of how long each layout lasts.
func presets(t *testing.T) (rows []string) {
	for _, p := range []struct {
		name string
		l    snowflake.Layout
	}{
		{"DefaultLayout", snowflake.DefaultLayout()},
		{"ClockSeqLayout", snowflake.ClockSeqLayout()},
		{"JSSafeLayout", snowflake.JSSafeLayout()},
		{"TwitterLayout", snowflake.TwitterLayout()},
		{"DiscordLayout", snowflake.DiscordLayout()},
		{"SonyflakeLayout", snowflake.SonyflakeLayout()},
		{"RedisLayout", snowflake.RedisLayout()},
		{"InstagramLayout", snowflake.InstagramLayout()},
		{"BaiduLayout", snowflake.BaiduLayout()},
	} {
		require.NoError(t, p.l.Validate())
		rows = append(rows, fmt.Sprintf("| `%s()` | %s | %s | %s | %s | %s |", p.name, number(float64(workers(p.l))), number(perSecond(p.l)),
			number(float64(workers(p.l))*perSecond(p.l)), p.l.Epoch.Time().Format("2006-01-02"), p.l.Expires().Format("2006-01-02")))
	}
	return rows
}

// fleets is the table of what to take.
func fleets(t *testing.T) (rows []string) {
	for _, f := range []struct {
		processes, shards, servers int
		window                     time.Duration
		l                          snowflake.Layout
	}{
		{1_000, 4, 1, 10 * time.Second, layout(time.Millisecond, 41, 2, 10, 63)},
		{100_000, 256, 10, 30 * time.Second, layout(time.Millisecond, 41, 8, 10, 63)},
		{1_000_000, 2048, 100, 30 * time.Second, layout(10*time.Millisecond, 38, 11, 10, 63)},
	} {
		require.NoError(t, f.l.Validate())
		require.Equal(t, f.shards, 1<<f.l.DatacenterBits)
		require.LessOrEqual(t, 2*f.processes, f.shards<<f.l.WorkerBits, "twice the fleet has worker IDs")
		rows = append(rows, fmt.Sprintf("| %s | %s, %s | %s | %d | %d | %s | %s | %s | %s |", number(float64(f.processes)), unit(f.l.Unit), split(f.l),
			number(float64(f.shards)), f.processes/f.shards, f.servers, unit(f.window), number(renewals(f.processes/f.servers, f.window)),
			number(perSecond(f.l)), f.l.Expires().Format("2006-01-02")))
	}
	return rows
}

// renewals a second: three in a window, and each up to an eighth early.
func renewals(holders int, window time.Duration) float64 {
	return float64(holders) * 3 / window.Seconds() / (1 - 1.0/16)
}

// tradeOff is the table of what is left for each process, of so many bits.
func tradeOff(t *testing.T, bits uint8, workerBits []uint8, columns []snowflake.Layout) (rows []string) {
	head, line := "| worker IDs |", "|---|"
	for _, c := range columns {
		c.SequenceBits = 0
		head += fmt.Sprintf(" %s × 2^%d: %d |", unit(c.Unit), c.TimeBits, c.Expires().Year())
		line += "---|"
	}
	rows = append(rows, head, line)
	for _, w := range workerBits {
		row := fmt.Sprintf("| 2^%d = %s |", w, number(float64(int64(1)<<w)))
		for _, c := range columns {
			if c.TimeBits+w > bits {
				row += " – |"
				continue
			}
			l := layout(c.Unit, c.TimeBits, 0, w, bits)
			require.NoError(t, l.Validate())
			row += fmt.Sprintf(" %s |", number(perSecond(l)))
		}
		rows = append(rows, row)
	}
	return rows
}

// renewalTable is what holders ask for.
func renewalTable() (rows []string) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		row := fmt.Sprintf("| %s |", number(float64(n)))
		for _, w := range []time.Duration{3 * time.Second, 30 * time.Second, 5 * time.Minute} {
			row += fmt.Sprintf(" %s |", number(renewals(n, w)))
		}
		rows = append(rows, row)
	}
	return rows
}

// TestDocument: each row of these tables stands in the document.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/scale.md")
	require.NoError(t, err)
	column := func(unit time.Duration, timeBits uint8) snowflake.Layout {
		return layout(unit, timeBits, 0, 0, timeBits)
	}
	const ms = time.Millisecond
	for name, rows := range map[string][]string{
		"presets":  presets(t),
		"fleets":   fleets(t),
		"renewals": renewalTable(),
		"63 bits": tradeOff(t, 63, []uint8{11, 14, 18, 21, 24},
			[]snowflake.Layout{column(ms, 40), column(ms, 41), column(10*ms, 37), column(10*ms, 38), column(time.Second, 31), column(time.Second, 32)}),
		"53 bits": tradeOff(t, 53, []uint8{4, 8, 12, 18, 21},
			[]snowflake.Layout{column(ms, 40), column(10*ms, 36), column(10*ms, 37), column(time.Second, 31), column(time.Second, 32)}),
	} {
		for _, row := range rows {
			if !strings.Contains(string(doc), row+"\n") {
				t.Errorf("%s: docs/scale.md has no row\n%s", name, row)
			}
		}
	}
}
