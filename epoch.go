package snowflake

import "time"

// Epoch is the instant that a layout counts its ticks from, in milliseconds since the
// Unix epoch.
type Epoch int64

const (
	UnixEpoch    Epoch = 0             // 1970-01-01T00:00:00Z
	TwitterEpoch Epoch = 1288834974657 // 2010-11-04T01:42:54.657Z, from IdWorker.scala, twepoch
	DiscordEpoch Epoch = 1420070400000 // 2015-01-01T00:00:00Z, from the API reference, "Snowflakes"
	DefaultEpoch Epoch = 1767225600000 // 2026-01-01T00:00:00Z; never changes, because stored IDs would decode to other times
)

// EpochAt returns the Epoch at t, rounded down to a whole millisecond. If t is more than
// 292 million years from 1970, the result wraps.
func EpochAt(t time.Time) Epoch {
	return Epoch(t.UnixMilli())
}

// Time returns e as a time in UTC.
func (e Epoch) Time() time.Time {
	return time.UnixMilli(int64(e)).UTC()
}
