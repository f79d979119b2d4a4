package lease

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
	"github.com/seed-5394e6b1/snowflake/lease/internal/times"
)

// remembered has what this process has seen of the machine.MaxStores stores that it opened last,
// the latest last, for the time that healing returns. Each reading, search and lease of a store
// goes on with it.
var remembered struct {
	sync.Mutex
	stores []seenStore
}

type seenStore struct {
	store any // as identity returns it
	*sightings
	opened time.Time
}

// seenOf returns what this process has seen of s.
func seenOf(s Store) *sightings {
	is := identity(s)
	if is == nil || machine.MaxStores == 0 {
		return newSightings()
	}
	remembered.Lock()
	defer remembered.Unlock()
	now := machine.Now()
	remembered.stores = slices.DeleteFunc(remembered.stores, func(was seenStore) bool { return now.Sub(was.opened) > protocol.Healing(0) })
	of := seenStore{store: is, sightings: newSightings()}
	if i := slices.IndexFunc(remembered.stores, func(was seenStore) bool { return was.store == is }); i >= 0 {
		of = remembered.stores[i]
		remembered.stores = slices.Delete(remembered.stores, i, i+1)
	}
	if len(remembered.stores) == machine.MaxStores {
		remembered.stores = slices.Delete(remembered.stores, 0, 1)
	}
	of.opened = now
	remembered.stores = append(remembered.stores, of)
	return of.sightings
}

// identity returns a value that is equal for equal stores, and for all stores of one directory. It
// is nil if stores of this type cannot be compared.
func identity(s Store) any {
	if of, ok := s.(interface{ identity() (any, bool) }); ok {
		if is, ok := of.identity(); ok {
			return is
		}
	}
	if !reflect.ValueOf(s).Comparable() {
		return nil
	}
	return s
}

// sightings has, by key, the version of an entry or the name of what was lost, and since when this
// is known. All that a process does with a store shares one.
type sightings struct {
	mu sync.Mutex
	of map[string]sighting
}

type sighting struct {
	version     string
	since, last time.Time
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

// sees notes that an entry has this version now. It begins anew if this process looked last longer
// than gap ago, because a store that goes back to an older state shows an old version again.
func (s *sightings) sees(key, version string, now time.Time, gap time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.of[key]
	if is.version != version || now.Sub(is.last) > gap {
		is = sighting{version: version, since: now}
	}
	is.last = times.Later(is.last, now)
	s.of[key] = is
}

// forget notes that nothing of this key is lost now, so that a loss counts from its own beginning,
// also if the store goes back and shows the name of an earlier loss again.
func (s *sightings) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, key)
}

// lasts notes that, at m, what has this name is known to have lasted for known. It returns how much
// longer it has lasted by what was noted before. So processes that take turns at a wait lose
// nothing of it. What was noted longer than gap ago does not count, as in sees.
func (s *sightings) lasts(key, name string, known time.Duration, m protocol.Moment, gap time.Duration) (more time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := m.At.Add(-known)
	if was, ok := s.of[key]; ok && was.version == name && m.At.Sub(was.last) <= gap {
		more = max(0, begun.Sub(was.since))
	}
	s.of[key] = sighting{name, begun.Add(-more), m.At}
	return more
}
