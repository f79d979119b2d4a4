package snowflake

import "time"

// Epoch is the instant that a layout counts its ticks from, in milliseconds
// since the Unix epoch (1970-01-01T00:00:00Z). Any value is an Epoch; a negative
// value lies before 1970.
type Epoch int64

const (
	// UnixEpoch is 1970-01-01T00:00:00Z.
	UnixEpoch Epoch = 0
	// TwitterEpoch is 2010-11-04T01:42:54.657Z, from Twitter's snowflake
	// (IdWorker.scala, twepoch).
	TwitterEpoch Epoch = 1288834974657
	// DiscordEpoch is 2015-01-01T00:00:00Z, from Discord's API reference
	// ("Snowflakes").
	DiscordEpoch Epoch = 1420070400000
	// DefaultEpoch is 2026-01-01T00:00:00Z. It never changes, because stored IDs
	// would then decode to other times.
	DefaultEpoch Epoch = 1767225600000
)

// EpochAt returns the Epoch at t, rounded down to a whole millisecond. It works
// for times within 292 million years of 1970; if t is further away, the result
// wraps.
func EpochAt(t time.Time) Epoch {
	return Epoch(t.UnixMilli())
}

// Time returns e as a time in UTC.
func (e Epoch) Time() time.Time {
	return time.UnixMilli(int64(e)).UTC()
}
