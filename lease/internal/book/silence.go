package book

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// This file counts the time for which records have not changed. A process keeps its count in the
// store, and the next process continues it.

// Silences is the entry about records that do not change, by their keys. A process that waits until
// a holder is dead keeps there how long the holder's record has been unchanged.
type Silences struct {
	Of map[string]Unchanged `json:"of"`

	version string
}

type Unchanged struct {
	Version string          `json:"version"` // of the record
	Waited  protocol.Waited `json:"waited"`
}

const (
	SilenceKey  = "silence"
	maxSilences = 128  // records of holders that are not known to be dead, with the earliest bounds
	maxDead     = 1024 // records of holders that are
)

func getSilences(s Line) (of Silences, err error) {
	e, err := s.Get(SilenceKey)
	if errors.Is(err, driver.ErrBadRecord) || err == nil && e.Version != "" && json.Unmarshal(e.Value, &of) != nil {
		of.Of, err = nil, nil // what cannot be read is forgotten
	}
	of.version = e.Version
	return of, err
}

// Watch is a process's knowledge of the time for which records have not changed.
type Watch struct {
	Seen *Sightings
	Kept Silences // as the store had it last
}

// WatchOf returns a watch of s, with this process's earlier sightings.
func WatchOf(s driver.Store) Watch { return Watch{Seen: seenOf(s)} }

// Idle returns how long r is known to be unchanged at m.
func (w *Watch) Idle(r protocol.Record, m protocol.Moment) time.Duration {
	key, since := RecordKey(r.Worker), m.At
	if was := w.Seen.Last(key); was.Version == r.Version {
		since = was.Since
	}
	idle := m.At.Sub(since)
	if of, ok := w.Kept.Of[key]; ok && of.Version == r.Version {
		idle = max(idle, of.Waited.More(m.At.Sub(times.Later(since, w.Seen.Last(SilenceKey).Since)), m).For)
	}
	return idle
}

// Silent returns how long the holder of r is known not to have renewed it at m. The engine's clock
// counts only if the process's own clock has passed the bounds of r, so neither clock alone makes a
// live holder look dead.
func (w *Watch) Silent(r protocol.Record, m protocol.Moment, c protocol.Clocks) time.Duration {
	idle := w.Idle(r, m)
	if !c.Engine.IsZero() && !r.Renewed.IsZero() && !c.Own.Before(r.Ends()) {
		idle = max(idle, c.Engine.Sub(r.Renewed))
	}
	return idle
}

// Share takes over what others know of the records, and saves what this process knows more. A
// conflict with another process loses little, and is ignored.
func (w *Watch) Share(s Line, records []protocol.Record, m protocol.Moment) (err error) {
	if len(records) == 0 {
		return nil
	}
	if w.Kept, err = getSilences(s); err != nil {
		return err
	}
	w.Seen.Sees(SilenceKey, w.Kept.version, s.Read().At, protocol.Healing(records[0].Layout.Unit))
	slices.SortFunc(records, func(a, b protocol.Record) int { return a.Last().Compare(b.Last()) })
	next, more, dead := map[string]Unchanged{}, false, 0
	for _, r := range records {
		key, idle := RecordKey(r.Worker), w.Idle(r, m)
		was, is := w.Kept.Of[key], Unchanged{r.Version, protocol.Waited{For: idle}}
		switch known := was.Version == r.Version; {
		case r.State == protocol.StateHeld && !r.Live(idle):
			// It is known to be dead, and its silence need not be counted any more.
			if dead == maxDead {
				continue
			}
			dead++
			more = more || !known || r.Live(was.Waited.For)
		case len(next)-dead >= maxSilences:
			continue
		default:
			is.Waited = is.Waited.More(0, m)
			more = more || !known || idle-was.Waited.For >= protocol.Progress/8
		}
		next[key] = is
	}
	if !more {
		return nil
	}
	for key, of := range w.Kept.Of { // what others watch, and this process does not
		if seen := w.Seen.Last(key).Version; len(next) < maxDead+maxSilences && (seen == "" || seen == of.Version) {
			if _, ok := next[key]; !ok {
				next[key] = of
			}
		}
	}
	value, err := json.Marshal(Silences{Of: next})
	if err != nil {
		return err
	}
	e, err := s.Put(SilenceKey, w.Kept.version, value)
	if errors.Is(err, driver.ErrConflict) {
		return nil
	}
	if err == nil {
		w.Kept = Silences{next, e.Version}
		w.Seen.Sees(SilenceKey, e.Version, s.Read().At, protocol.Healing(records[0].Layout.Unit))
	}
	return err
}
