package snowflake

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// instant is a point in time as a layout counts it.
type instant struct {
	tick int64
	into time.Duration // since the start of tick; 0 <= into < Unit
}

// instant returns t in ticks. If t is outside of the layout, the error matches
// ErrBeforeEpoch or ErrTimeExhausted. The layout must be valid.
func (l Layout) instant(t time.Time) (instant, error) {
	epoch := l.Epoch.Time()
	if t.Before(epoch) {
		return instant{}, fmt.Errorf("%w: %s is before %s", ErrBeforeEpoch, formatTime(t), formatTime(epoch))
	}
	sec := uint64(t.Unix() - epoch.Unix())
	nsec := t.Nanosecond() - epoch.Nanosecond()
	if nsec < 0 {
		sec, nsec = sec-1, nsec+1e9
	}
	hi, lo := bits.Mul64(sec, 1e9)
	lo, carry := bits.Add64(lo, uint64(nsec), 0)
	hi += carry
	if hi < uint64(l.Unit) {
		if tick, into := bits.Div64(hi, lo, uint64(l.Unit)); tick <= uint64(l.maxTick()) {
			return instant{int64(tick), time.Duration(into)}, nil
		}
	}
	return instant{}, l.exhausted(t)
}

// ceil returns the first tick that does not begin before t. It is at least 0, and at
// most the tick after the last one, or math.MaxInt64 if an int64 cannot hold that.
func (l Layout) ceil(t time.Time) int64 {
	if t.Before(l.Epoch.Time()) {
		return 0
	}
	at, err := l.instant(t)
	switch {
	case err != nil && l.maxTick() == math.MaxInt64:
		return math.MaxInt64
	case err != nil:
		return l.maxTick() + 1
	case at.into > 0 && at.tick < math.MaxInt64:
		return at.tick + 1
	}
	return at.tick
}

// exhausted returns the error for a time past the layout's last tick.
func (l Layout) exhausted(t time.Time) error {
	return fmt.Errorf("%w: it ended at %s, the time is %s", ErrTimeExhausted, formatTime(l.Expires()), formatTime(t))
}

// time is the inverse of instant. Like [Epoch.after], it accepts every tick.
func (l Layout) time(at instant) time.Time {
	t := l.Epoch.after(at.tick, l.Unit)
	if at.into > 0 {
		t = t.Add(at.into)
	}
	return t
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

// afterWide is after with 128-bit arithmetic, for units that are not whole
// milliseconds, and for times that an int64 of milliseconds cannot hold.
func (e Epoch) afterWide(at int64, unit time.Duration) time.Time {
	tick, sign := uint64(at), int64(1)
	if at < 0 {
		tick, sign = -tick, -1
	}
	sec, nsec := uint64(maxSeconds+1), uint64(0)
	if hi, lo := bits.Mul64(tick, uint64(max(unit, 0))); hi < 1e9 {
		if s, n := bits.Div64(hi, lo, 1e9); s <= maxSeconds {
			sec, nsec = s, n
		}
	}
	epoch := e.Time()
	return time.Unix(epoch.Unix()+sign*int64(sec), int64(epoch.Nanosecond())+sign*int64(nsec)).UTC()
}

// until returns the time from at to the start of tick: 0 if the tick has begun, and
// at most the longest Duration.
func (l Layout) until(at instant, tick int64) time.Duration {
	if tick <= at.tick {
		return 0
	}
	hi, lo := bits.Mul64(uint64(tick-at.tick), uint64(l.Unit))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(lo) - at.into
}

// plus returns the tick that contains the time d after at; d may be negative. The
// result is at most math.MaxInt64.
func (l Layout) plus(at instant, d time.Duration) int64 {
	d += at.into
	ticks := int64(d / l.Unit)
	if d%l.Unit < 0 {
		ticks--
	}
	if ticks > math.MaxInt64-at.tick {
		return math.MaxInt64
	}
	return at.tick + ticks
}
