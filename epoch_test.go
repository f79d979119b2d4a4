package snowflake_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// If one of these numbers changed, stored IDs would change their meaning.
func TestEpochsNeverChange(t *testing.T) {
	tests := []struct {
		name  string
		epoch snowflake.Epoch
		ms    int64
		at    string
	}{
		{"UnixEpoch", snowflake.UnixEpoch, 0, "1970-01-01T00:00:00Z"},
		{"TwitterEpoch", snowflake.TwitterEpoch, 1288834974657, "2010-11-04T01:42:54.657Z"},
		{"DiscordEpoch", snowflake.DiscordEpoch, 1420070400000, "2015-01-01T00:00:00Z"},
		{"DefaultEpoch", snowflake.DefaultEpoch, 1767225600000, "2026-01-01T00:00:00Z"},
		{"before 1970", -1, -1, "1969-12-31T23:59:59.999Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.ms, int64(tt.epoch))
			assert.Equal(t, tt.at, tt.epoch.Time().Format(time.RFC3339Nano))
			assert.Equal(t, time.UTC, tt.epoch.Time().Location())
			assert.Equal(t, tt.epoch, snowflake.EpochAt(tt.epoch.Time()))
		})
	}
}

func TestEpochAtRoundsDownInAnyZone(t *testing.T) {
	tests := []struct {
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
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, snowflake.EpochAt(tt.at), "%v", tt.at)
	}
}

func TestEveryEpochRoundTrips(t *testing.T) {
	for _, e := range []snowflake.Epoch{math.MinInt64, math.MinInt64 + 1, -1001, -1000, -999, 0, 999, 1000, math.MaxInt64 - 1, math.MaxInt64} {
		require.Equal(t, e, snowflake.EpochAt(e.Time()))
	}
}
