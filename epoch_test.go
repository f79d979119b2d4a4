package snowflake_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// If one of these numbers changed, stored IDs would change their meaning.
func TestEpochsNeverChange(t *testing.T) {
	for want, e := range map[string]snowflake.Epoch{
		"0 1970-01-01T00:00:00Z":                 snowflake.UnixEpoch,
		"1288834974657 2010-11-04T01:42:54.657Z": layouts.Twitter().Epoch,
		"1420070400000 2015-01-01T00:00:00Z":     layouts.Discord().Epoch,
		"1767225600000 2026-01-01T00:00:00Z":     snowflake.DefaultEpoch,
		"-1 1969-12-31T23:59:59.999Z":            -1,
	} {
		assert.Equal(t, want, fmt.Sprint(int64(e), e.Time().Format(" "+time.RFC3339Nano)))
		assert.Equal(t, time.UTC, e.Time().Location())
	}
}

func TestEpochAtRoundsDownInAnyZone(t *testing.T) {
	for _, tt := range []struct {
		at   time.Time
		want snowflake.Epoch
	}{
		{time.Unix(0, 999_999), 0},
		{time.Unix(0, 1_000_000), 1},
		{time.Unix(0, -1), -1},
		{time.Unix(0, -1_000_000), -1},
		{time.Unix(0, -1_000_001), -2},
		{time.Date(2026, 1, 1, 8, 0, 0, 0, time.FixedZone("Beijing", 8*60*60)), snowflake.DefaultEpoch},
		{time.Time{}, -62135596800000},
	} {
		assert.Equal(t, tt.want, snowflake.EpochAt(tt.at), "%v", tt.at)
	}
	for _, e := range []snowflake.Epoch{
		math.MinInt64, math.MinInt64 + 1, -1001, -1000, -999, 0, 999, 1000, math.MaxInt64 - 1, math.MaxInt64,
	} {
		require.Equal(t, e, snowflake.EpochAt(e.Time()))
	}
}
