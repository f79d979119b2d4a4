package snowflake

import (
	"math/bits"
	"strconv"
	"time"
)

// Epoch is the start of a layout's time, in milliseconds since 1970.
type Epoch int64

// The epochs of other systems are in package layouts.
const (
	UnixEpoch    Epoch = 0             // 1970-01-01T00:00:00Z
	DefaultEpoch Epoch = 1767225600000 // 2026-01-01T00:00:00Z
)

// maxSeconds bounds the times of a layout, in seconds on either side of its
// epoch: 36 billion years, well within the range of a time.Time.
const maxSeconds = 1 << 60

// EpochAt rounds t down to milliseconds. It wraps 292 million years from 1970.
func EpochAt(t time.Time) Epoch {
	return Epoch(t.UnixMilli())
}

// Time returns e as a time in UTC.
func (e Epoch) Time() time.Time {
	return time.UnixMilli(int64(e)).UTC()
}

// String returns e as a date or, if e is not the start of a day, in the format of RFC 3339; or in
// Unix milliseconds if the year does not have four digits.
func (e Epoch) String() string {
	t := e.Time()
	switch {
	case t.Year() < 0 || t.Year() > 9999:
		return strconv.FormatInt(int64(e), 10)
	case t.Equal(t.Truncate(24 * time.Hour)):
		return t.Format(time.DateOnly)
	}
	if t.Nanosecond() == 0 {
		return t.Format(time.RFC3339)
	}
	return formatTime(t)
}

// parseEpoch reads more forms of an epoch than String writes.
func parseEpoch(s string) (Epoch, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return EpochAt(t), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return EpochAt(t), nil
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	return Epoch(ms), err
}

// after returns the start of a tick of the unit. It accepts every tick. A negative
// tick gives a time before the epoch. A tick more than maxSeconds from the epoch,
// which no valid layout has, gives the time one second past maxSeconds.
func (e Epoch) after(tick int64, unit time.Duration) time.Time {
	if whole := unit / time.Millisecond; whole*time.Millisecond == unit {
		hi, lo := bits.Mul64(uint64(tick), uint64(whole))
		if t := e + Epoch(lo); hi == 0 && Epoch(lo) >= 0 && t >= e {
			return time.UnixMilli(int64(t)).UTC()
		}
	}
	return e.afterWide(tick, unit)
}

// afterWide is after with 128-bit arithmetic. It serves units that are not whole milliseconds, and
// times that an int64 of milliseconds cannot hold.
func (e Epoch) afterWide(at int64, unit time.Duration) time.Time {
	tick, sign := uint64(at), int64(1)
	if at < 0 {
		tick, sign = -tick, -1
	}
	sec, nsec := seconds(tick, unit)
	epoch := e.Time()
	return time.Unix(epoch.Unix()+sign*int64(sec), int64(epoch.Nanosecond())+sign*int64(nsec)).UTC()
}

// seconds returns the length of so many ticks of the unit. If it exceeds maxSeconds, sec is
// maxSeconds+1.
func seconds(ticks uint64, unit time.Duration) (sec, nsec uint64) {
	if hi, lo := bits.Mul64(ticks, uint64(max(unit, 0))); hi < 1e9 {
		if sec, nsec = bits.Div64(hi, lo, 1e9); sec <= maxSeconds {
			return sec, nsec
		}
	}
	return maxSeconds + 1, 0
}

// formatTime returns t with milliseconds, so that times of the common layouts line up. It writes
// more digits only if t has them.
func formatTime(t time.Time) string {
	if t.Nanosecond()%int(time.Millisecond) == 0 {
		return t.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return t.UTC().Format(time.RFC3339Nano)
}
