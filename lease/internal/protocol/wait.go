package protocol

import (
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
)

// This file counts the time for which something in the store has not changed: a record that its
// holder does not renew, a record that is lost or cannot be read, a store without entries. Only
// monotonic clocks count, so no clock that is wrong makes a wait shorter or longer.

// Moment is a reading of the monotonic clocks.
type Moment struct {
	At   time.Time     // of this process
	Host string        // names this host since it was booted; empty if the system does not tell
	Boot time.Duration // the time since then, whether the host was awake or asleep

	Asleep time.Duration // the part of Boot for which it was asleep
}

// Clocks are the readings of a process's own clock and of the engine's, which is zero if the engine
// has none.
type Clocks struct{ Own, Engine time.Time }

// Agree reports whether the clocks differ by no more than Skew. If they differ by more, one of them
// is wrong, and no value that can never fall may be set from them.
func (c Clocks) Agree() bool { return c.Engine.IsZero() || c.Engine.Sub(c.Own).Abs() <= Skew }

// Early returns the earlier reading.
func (c Clocks) Early() time.Time {
	if c.Engine.IsZero() {
		return c.Own
	}
	return times.Earlier(c.Own, c.Engine)
}

// Skew is the greatest difference between the clocks of a fleet and the engine that does no harm
// after records were lost.
const Skew = time.Minute

// Waited is the time for which something is known to be unchanged, as the store keeps it.
type Waited struct {
	For  time.Duration `json:"for,omitzero"`
	Host string        `json:"host,omitempty"` // the host that saved this,
	Boot time.Duration `json:"boot,omitzero"`  // how long it had been up then,
	Wall int64         `json:"wall,omitzero"`  // and its wall clock, in milliseconds of Unix time

	// Name is set for a record that is lost: each loss has another name.
	Name string `json:"name,omitempty"`
}

// More returns w as it is at m. seen is the time for which this process has seen w, and its
// subject, unchanged. On the host that saved w, the clock that began at its boot says more. But
// copies of a machine have the same host name, and these clocks of theirs differ. So no more counts
// than the wall clock has advanced by, too.
func (w Waited) More(seen time.Duration, m Moment) Waited {
	var wall int64
	if m.Host != "" {
		wall = m.At.UnixMilli()
	}
	if w.Host != "" && w.Host == m.Host {
		seen = max(seen, min(m.Boot-w.Boot, time.Duration(wall-w.Wall)*time.Millisecond))
	}
	w.For, w.Host, w.Boot, w.Wall = w.For+max(0, seen), m.Host, m.Boot, wall
	return w
}

// until returns the value to save at m, which is w if the new value would be hardly greater, and
// the rest of the whole wait. The wait does not end while clocks disagree.
func (w Waited) until(whole, seen time.Duration, m Moment, c Clocks) (save Waited, left time.Duration) {
	now := w.More(seen, m)
	if left = max(0, whole-now.For); left == 0 && !c.Agree() {
		left = Progress
	}
	if left > 0 && now.For-w.For < Progress/8 {
		now = w
	}
	return now, left
}

// Progress is the interval at which waiting processes save the time that they have waited.
const Progress = time.Second
