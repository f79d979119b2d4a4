package lease

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// This file counts how long records have been unchanged. What a process has seen is kept in the
// store, and the next process goes on from there.

// silence is the entry about records that do not change, by their keys. A process that waits until
// a holder is dead keeps there how long the holder's record has been unchanged.
type silence struct {
	Of map[string]unchanged `json:"of"`

	version string
}

type unchanged struct {
	Version string          `json:"version"` // of the record
	Waited  protocol.Waited `json:"waited"`
}

const (
	silenceKey  = "silence"
	maxSilences = 128  // records of holders that are not known to be dead, with the earliest bounds
	maxDead     = 1024 // records of holders that are
)

func getSilence(s line) (of silence, err error) {
	e, err := s.get(silenceKey)
	if errors.Is(err, ErrBadRecord) || err == nil && e.Version != "" && json.Unmarshal(e.Value, &of) != nil {
		of.Of, err = nil, nil // what cannot be read is forgotten
	}
	of.version = e.Version
	return of, err
}

// watch is what a process knows of how long records have not changed.
type watch struct {
	seen *sightings
	kept silence // as the store had it last
}

// watchOf returns a watch of s, with what this process has seen of s before.
func watchOf(s Store) watch { return watch{seen: seenOf(s)} }

// idle returns how long r is known to be unchanged at m.
func (w *watch) idle(r protocol.Record, m protocol.Moment) time.Duration {
	key, since := recordKey(r.Worker), m.At
	if was := w.seen.last(key); was.version == r.Version {
		since = was.since
	}
	idle := m.At.Sub(since)
	if of, ok := w.kept.Of[key]; ok && of.Version == r.Version {
		idle = max(idle, of.Waited.More(m.At.Sub(times.Later(since, w.seen.last(silenceKey).since)), m).For)
	}
	return idle
}

// silent returns how long the holder of r is known not to have renewed it at m. The engine's clock
// counts only if the process's own clock has passed the bounds of r, so neither clock alone makes a
// live holder look dead.
func (w *watch) silent(r protocol.Record, m protocol.Moment, c protocol.Clocks) time.Duration {
	idle := w.idle(r, m)
	if !c.Engine.IsZero() && !r.Renewed.IsZero() && !c.Own.Before(r.Ends()) {
		idle = max(idle, c.Engine.Sub(r.Renewed))
	}
	return idle
}

// share takes over what others know of the records, and saves what this process knows more. A
// conflict with another process loses little, and is ignored.
func (w *watch) share(s line, records []protocol.Record, m protocol.Moment) (err error) {
	if len(records) == 0 {
		return nil
	}
	if w.kept, err = getSilence(s); err != nil {
		return err
	}
	w.seen.sees(silenceKey, w.kept.version, s.read().At, protocol.Healing(records[0].Layout.Unit))
	slices.SortFunc(records, func(a, b protocol.Record) int { return a.Last().Compare(b.Last()) })
	next, more, dead := map[string]unchanged{}, false, 0
	for _, r := range records {
		key, idle := recordKey(r.Worker), w.idle(r, m)
		was, is := w.kept.Of[key], unchanged{r.Version, protocol.Waited{For: idle}}
		switch known := was.Version == r.Version; {
		case r.State == StateHeld && !r.Live(idle):
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
	for key, of := range w.kept.Of { // what others watch, and this process does not
		if seen := w.seen.last(key).version; len(next) < maxDead+maxSilences && (seen == "" || seen == of.Version) {
			if _, ok := next[key]; !ok {
				next[key] = of
			}
		}
	}
	value, err := json.Marshal(silence{Of: next})
	if err != nil {
		return err
	}
	e, err := s.put(silenceKey, w.kept.version, value)
	if errors.Is(err, ErrConflict) {
		return nil
	}
	if err == nil {
		w.kept = silence{next, e.Version}
		w.seen.sees(silenceKey, e.Version, s.read().At, protocol.Healing(records[0].Layout.Unit))
	}
	return err
}
