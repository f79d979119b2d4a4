package lease

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// This file counts how long something in the store has been as it is: a record that its holder does
// not renew, a record that is lost or cannot be read, a store without entries. Only monotonic
// clocks count, so no clock that is wrong makes a wait shorter or longer. What a process has seen
// is kept in the store, and the next process goes on from there.

// moment is a reading of the monotonic clocks.
type moment struct {
	at   time.Time     // of this process
	host string        // names this host since it was booted; empty if the system does not tell
	boot time.Duration // how long ago that was, whether the host was awake or asleep

	asleep time.Duration // for how long it was asleep
}

// waited is how long something is known to be unchanged, as the store keeps it.
type waited struct {
	For  time.Duration `json:"for,omitzero"`
	Host string        `json:"host,omitempty"` // the host that saved this,
	Boot time.Duration `json:"boot,omitzero"`  // how long it had been up then,
	Wall int64         `json:"wall,omitzero"`  // and its wall clock, in milliseconds of Unix time

	// Name is set for a record that is lost: each loss has another name.
	Name string `json:"name,omitempty"`
}

// more returns what is known at m. seen is how long this process has seen w, and what w is about,
// unchanged. On the host that saved w, the clock that began at its boot says more. But copies of a
// machine have the same host name, and these clocks of theirs differ. So no more counts than the
// wall clock has advanced by, too.
func (w waited) more(seen time.Duration, m moment) waited {
	var wall int64
	if m.host != "" {
		wall = m.at.UnixMilli()
	}
	if w.Host != "" && w.Host == m.host {
		seen = max(seen, min(m.boot-w.Boot, time.Duration(wall-w.Wall)*time.Millisecond))
	}
	w.For, w.Host, w.Boot, w.Wall = w.For+max(0, seen), m.host, m.boot, wall
	return w
}

// until returns what is known at m and is to be saved now, which is w if it would be hardly more,
// and how much longer the whole wait takes. It does not end while clocks disagree.
func (w waited) until(whole, seen time.Duration, m moment, c clocks) (save waited, left time.Duration) {
	now := w.more(seen, m)
	if left = max(0, whole-now.For); left == 0 && !c.agree() {
		left = progress
	}
	if left > 0 && now.For-w.For < progress/8 {
		now = w
	}
	return now, left
}

// progress is how often waiting processes save how long they have waited.
const progress = time.Second

// beforeEnd shortens a wait that begins now and ends after the time for requests, so that there is
// time to save how long it was.
func (now reading) beforeEnd(wait time.Duration) time.Duration {
	if left := now.end.Sub(now.at); left > progress/8 {
		return min(wait, left-left/8)
	}
	return wait
}

// sightings has, by key, the version of an entry or the name of what was lost, and since when this
// is known. All that a process does with a store shares one.
type sightings struct {
	mu sync.Mutex
	of map[string]sighting
}

type sighting struct {
	version string
	since   time.Time
}

func newSightings() *sightings { return &sightings{of: map[string]sighting{}} }

// clone returns a copy of s, which may be nil.
func (s *sightings) clone() *sightings {
	if s == nil {
		return newSightings()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &sightings{of: maps.Clone(s.of)}
}

// last returns what is known of an entry.
func (s *sightings) last(key string) sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[key]
}

// sees notes that an entry has this version now.
func (s *sightings) sees(key, version string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.of[key]; !ok || was.version != version {
		s.of[key] = sighting{version, now}
	}
}

// lasts notes that, at m, what has this name is known to have lasted for known. It returns how much
// longer it has lasted by what was noted before. So processes that take turns at a wait lose
// nothing of it.
func (s *sightings) lasts(key, name string, known time.Duration, m moment) (more time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := m.at.Add(-known)
	if was, ok := s.of[key]; ok && was.version == name {
		more = max(0, begun.Sub(was.since))
	}
	s.of[key] = sighting{name, begun.Add(-more)}
	return more
}

// silence is the entry about records that do not change, by their keys. A process that waits until
// a holder is dead keeps there how long the holder's record has been unchanged.
type silence struct {
	Of map[string]unchanged `json:"of"`

	version string
}

type unchanged struct {
	Version string `json:"version"` // of the record
	Waited  waited `json:"waited"`
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
func (w *watch) idle(r record, m moment) time.Duration {
	key, since := recordKey(r.Worker), m.at
	if was := w.seen.last(key); was.version == r.version {
		since = was.since
	}
	idle := m.at.Sub(since)
	if of, ok := w.kept.Of[key]; ok && of.Version == r.version {
		idle = max(idle, of.Waited.more(m.at.Sub(later(since, w.seen.last(silenceKey).since)), m).For)
	}
	return idle
}

// silent returns how long the holder of r is known not to have renewed it at m. The engine's clock
// counts only if the process's own clock has passed the bounds of r, so neither clock alone makes a
// live holder look dead.
func (w *watch) silent(r record, m moment, c clocks) time.Duration {
	idle := w.idle(r, m)
	if !c.engine.IsZero() && !r.Renewed.IsZero() && !c.own.Before(r.ends()) {
		idle = max(idle, c.engine.Sub(r.Renewed))
	}
	return idle
}

// share takes over what others know of the records, and saves what this process knows more. A
// conflict with another process loses little, and is ignored.
func (w *watch) share(s line, records []record, m moment) (err error) {
	if len(records) == 0 {
		return nil
	}
	if w.kept, err = getSilence(s); err != nil {
		return err
	}
	w.seen.sees(silenceKey, w.kept.version, s.read().at)
	slices.SortFunc(records, func(a, b record) int { return a.last().Compare(b.last()) })
	next, more, dead := map[string]unchanged{}, false, 0
	for _, r := range records {
		key, idle := recordKey(r.Worker), w.idle(r, m)
		was, is := w.kept.Of[key], unchanged{r.version, waited{For: idle}}
		switch known := was.Version == r.version; {
		case r.State == StateHeld && !r.live(idle):
			// It is known to be dead, and its silence need not be counted any more.
			if dead == maxDead {
				continue
			}
			dead++
			more = more || !known || r.live(was.Waited.For)
		case len(next)-dead >= maxSilences:
			continue
		default:
			is.Waited = is.Waited.more(0, m)
			more = more || !known || idle-was.Waited.For >= progress/8
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
		w.seen.sees(silenceKey, e.Version, s.read().at)
	}
	return err
}
