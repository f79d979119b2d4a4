//go:build unix

package database

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
)

var (
	rowsFlag    = flag.Int("rows", 1_000_000, "rows to insert into each table, a multiple of -batch")
	batchFlag   = flag.Int("batch", 1000, "rows in a statement, which is a transaction")
	singlesFlag = flag.Int("singles", 5000, "rows to insert after them, each in a transaction of its own")
	queriesFlag = flag.Int("queries", 51, "range queries of each table")
	roundsFlag  = flag.Int("rounds", 3, "how often each table is measured")
)

// clients is the number of concurrent clients.
const clients = 4

// TestMeasurements runs each measurement with a few rows.
func TestMeasurements(t *testing.T) {
	depth.TempDirInMemory() // the benchmark's data is on disk
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, 32)
			t.Run("Keys", func(t *testing.T) { testKeys(t, s) })
			if name == "PostgreSQL" {
				t.Run("Default", func(t *testing.T) { testDefault(t, s) })
			}
			t.Run("Fence", func(t *testing.T) { testFence(t, name, s) })
		})
	}
}

// testKeys checks for every key that all rows are inserted, and that a range query by the key
// selects exactly the rows of its interval.
func testKeys(t *testing.T, s *server) {
	for _, k := range tables {
		if s.column(k.key) == "" {
			continue
		}
		r := s.measure(t, k, 2000, 8, 20)
		for part, bytes := range r.sizes {
			assert.NotEqualValues(t, 0, bytes, "%s: no bytes in %s", k.name, part)
		}
		if r.log <= 0 || r.insert <= 0 || (k.between != nil) != (r.byKey > 0) || k.index != (r.byColumn > 0) ||
			k.index != (r.sizes[byTime] > 0) {
			t.Errorf("%s, index %t: %+v", k.name, k.index, r)
		}
	}
}

// TestUUIDv7 checks that google/uuid reads the right time from the UUIDs of this package.
func TestUUIDv7(t *testing.T) {
	at := first.Add(12345 * time.Millisecond)
	u := uuid7s(t)(0, at).(uuid.UUID)
	seconds, nanos := u.Time().UnixTime()
	if got := time.Unix(seconds, nanos); u.Version() != 7 || u.Variant() != uuid.RFC4122 || !got.Equal(at) {
		t.Errorf("%v: version %v, %v, of %v, want %v", u, u.Version(), u.Variant(), got, at)
	}
}

// BenchmarkKeys measures all tables in turn, for -rounds rounds, and prints the medians as tables
// in Markdown. Each server runs with a buffer pool that is too small for the tables, and with one
// that is not.
func BenchmarkKeys(b *testing.B) {
	for name, start := range servers {
		for _, mb := range []int{32, 512} {
			b.Run(fmt.Sprintf("server=%s/pool=%dMB", name, mb), func(b *testing.B) { bench(b, start(b, mb), mb) })
		}
	}
}

func bench(b *testing.B, s *server, pool int) {
	var own []table
	for _, k := range tables {
		if s.column(k.key) != "" {
			own = append(own, k)
		}
	}
	results := make([][]result, len(own))
	for round := range *roundsFlag {
		for i := range own {
			i = (i + round) % len(own) // each table is first in turn
			r := s.measure(b, own[i], *rowsFlag, *singlesFlag, *queriesFlag)
			fmt.Fprintf(os.Stderr, "%s, %d MB, round %d: %s: inserted in %.1f s, %.1f s of CPU\n", s.version, pool, round+1,
				title(own[i]), r.insert.Seconds(), r.cpu.Seconds())
			results[i] = append(results[i], r)
		}
	}
	b.ReportMetric(0, "ns/op") // the tables have the figures
	report(os.Stdout, s, pool, own, results)
}
