package lease

import (
	"reflect"
	"slices"
	"sync"
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
