package lease

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
)

// remembered has what this process has seen of the maxStores stores that it used last, the latest
// last. Each reading, search and lease of a store goes on with it.
var remembered struct {
	sync.Mutex
	stores []seenStore
}

type seenStore struct {
	store any // as identity returns it
	*sightings
}

// seenOf returns what this process has seen of s.
func seenOf(s Store) *sightings {
	is := identity(s)
	if is == nil || maxStores == 0 {
		return newSightings()
	}
	remembered.Lock()
	defer remembered.Unlock()
	of := seenStore{is, newSightings()}
	if i := slices.IndexFunc(remembered.stores, func(was seenStore) bool { return was.store == is }); i >= 0 {
		of = remembered.stores[i]
		remembered.stores = slices.Delete(remembered.stores, i, i+1)
	}
	if len(remembered.stores) == maxStores {
		remembered.stores = slices.Delete(remembered.stores, 0, 1)
	}
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
