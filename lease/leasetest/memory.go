package leasetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// Memory is a store in memory, for tests of programs that use leases, also in bubbles of
// testing/synctest. It loses everything when the process ends. The zero value is an empty store. Its
// clients are the goroutines that share the value.
//
// Whoever writes a store can begin with the code of Memory: the four methods, and Now if the engine
// has a clock.
type Memory struct {
	// Clock is the engine's clock. If it is nil, the store has none.
	Clock snowflake.Clock

	// Before is called before each request, if it is not nil. It may take time. If it returns an
	// error, the request fails with it and changes nothing. request is the method's name, and key
	// the key, the prefix or, of Now, empty.
	Before func(ctx context.Context, request, key string) error

	mu      sync.Mutex
	puts    int // counted over Wipe, so that no version comes again
	entries map[string]driver.Entry
}

// Get is the method of [driver.Store].
func (m *Memory) Get(ctx context.Context, key string) (driver.Entry, error) {
	if err := m.begin(ctx, "Get", key); err != nil {
		return driver.Entry{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return clone(m.entries[key]), nil
}

// List is the method of [driver.Store].
func (m *Memory) List(ctx context.Context, prefix string) (list []driver.Entry, err error) {
	if err := m.begin(ctx, "List", prefix); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, e := range m.entries {
		if strings.HasPrefix(key, prefix) {
			list = append(list, clone(e))
		}
	}
	return list, nil
}

// Put is the method of [driver.Store].
func (m *Memory) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	if err := m.begin(ctx, "Put", key); err != nil {
		return driver.Entry{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[key].Version != old {
		return driver.Entry{}, driver.ErrConflict
	}
	if m.entries == nil {
		m.entries = map[string]driver.Entry{}
	}
	m.puts++
	e := driver.Entry{Key: key, Version: strconv.Itoa(m.puts), Value: value}
	if m.Clock != nil {
		e.Time = m.Clock.Now()
	}
	m.entries[key] = clone(e)
	return clone(e), nil
}

// Delete is the method of [driver.Store].
func (m *Memory) Delete(ctx context.Context, key, old string) error {
	if err := m.begin(ctx, "Delete", key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old == "" || m.entries[key].Version != old {
		return driver.ErrConflict
	}
	delete(m.entries, key)
	return nil
}

// Now returns the reading of the engine's clock. If there is none, the error matches
// [errors.ErrUnsupported].
func (m *Memory) Now(ctx context.Context) (time.Time, error) {
	if err := m.begin(ctx, "Now", ""); err != nil {
		return time.Time{}, err
	}
	if m.Clock == nil {
		return time.Time{}, errors.ErrUnsupported
	}
	return m.Clock.Now(), nil
}

// Wipe removes all entries, as a mistake of an operator would.
func (m *Memory) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.entries)
}

func (m *Memory) begin(ctx context.Context, request, key string) error {
	if m.Before != nil {
		if err := m.Before(ctx, request, key); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// clone returns an entry that shares no memory with e.
func clone(e driver.Entry) driver.Entry {
	e.Value = slices.Clone(e.Value)
	return e
}
