package book

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// remembered has what this process has seen of the MaxStores stores that it opened last, the latest
// last, for protocol.Healing's time. Each reading, search and lease of a store continues with it.
var remembered struct {
	sync.Mutex
	stores []seenStore
}

type seenStore struct {
	store any // as identity returns it
	*Sightings
	opened time.Time
}

// seenOf returns what this process has seen of s.
func seenOf(s driver.Store) *Sightings {
	is := identity(s)
	if is == nil || MaxStores == 0 {
		return newSightings()
	}
	remembered.Lock()
	defer remembered.Unlock()
	now := machine.Now()
	remembered.stores = slices.DeleteFunc(remembered.stores, func(was seenStore) bool { return now.Sub(was.opened) > protocol.Healing(0) })
	of := seenStore{store: is, Sightings: newSightings()}
	if i := slices.IndexFunc(remembered.stores, func(was seenStore) bool { return was.store == is }); i >= 0 {
		of = remembered.stores[i]
		remembered.stores = slices.Delete(remembered.stores, i, i+1)
	}
	if len(remembered.stores) == MaxStores {
		remembered.stores = slices.Delete(remembered.stores, 0, 1)
	}
	of.opened = now
	remembered.stores = append(remembered.stores, of)
	return of.Sightings
}

// identity returns a value that is equal for equal stores, and for all stores of one directory. It
// is nil if stores of this type cannot be compared.
func identity(s driver.Store) any {
	if of, ok := s.(interface{ Identity() (any, bool) }); ok {
		if is, ok := of.Identity(); ok {
			return is
		}
	}
	if !reflect.ValueOf(s).Comparable() {
		return nil
	}
	return s
}

// Sightings has, by key, the version of an entry or the name of a loss, and the time at which it
// was first seen. All uses of a store by a process share one.
type Sightings struct {
	mu sync.Mutex
	Of map[string]Sighting
}

// Sighting is the knowledge of an entry, or of a loss.
type Sighting struct {
	Version     string
	Since, last time.Time
}

func newSightings() *Sightings { return &Sightings{Of: map[string]Sighting{}} }

// Clone returns a copy of s, which may be nil.
func (s *Sightings) Clone() *Sightings {
	if s == nil {
		return newSightings()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Sightings{Of: maps.Clone(s.Of)}
}

// Last returns the last sighting of an entry.
func (s *Sightings) Last(key string) Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Of[key]
}

// Sees notes that an entry has this version now. It starts again if this process last looked longer
// than gap ago, because a store that goes back to an older state shows an old version again.
func (s *Sightings) Sees(key, version string, now time.Time, gap time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.Of[key]
	if is.Version != version || now.Sub(is.last) > gap {
		is = Sighting{Version: version, Since: now}
	}
	is.last = times.Later(is.last, now)
	s.Of[key] = is
}

// Forget notes that nothing of this key is lost now, so that the next loss counts from its own
// beginning, even if the store goes back and shows the name of an earlier loss again.
func (s *Sightings) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.Of, key)
}

// Lasts notes that, at m, the thing of this name is known to have lasted for known. It returns the
// excess over known that earlier notes show, so that processes that take turns at a wait lose
// nothing of it. As in Sees, notes from longer than gap ago do not count.
func (s *Sightings) Lasts(key, name string, known time.Duration, m protocol.Moment, gap time.Duration) (more time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := m.At.Add(-known)
	if was, ok := s.Of[key]; ok && was.Version == name && m.At.Sub(was.last) <= gap {
		more = max(0, begun.Sub(was.Since))
	}
	s.Of[key] = Sighting{name, begun.Add(-more), m.At}
	return more
}
