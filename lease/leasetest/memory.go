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

// Memory is a store in memory, for tests of programs that use leases. It works in bubbles of
// testing/synctest. The zero value is an empty store. The goroutines that share the value are its
// clients.
//
// To write a store, begin with a copy of Memory: the four methods, and Now if the engine has a
// clock.
type Memory struct {
	// Clock is the engine's clock; nil means none.
	Clock snowflake.Clock

	// Before, if not nil, is called before each request, and may block. If it returns an error, the
	// request returns that error and changes nothing. request is the method's name. key is its key
	// or prefix; it is empty for Now.
	Before func(ctx context.Context, request, key string) error

	mu      sync.Mutex
	puts    int // not reset by Wipe, so that no version repeats
	entries map[string]driver.Entry
}

// Get implements [driver.Store].
func (m *Memory) Get(ctx context.Context, key string) (driver.Entry, error) {
	if err := m.before(ctx, "Get", key); err != nil {
		return driver.Entry{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return clone(m.entries[key]), nil
}

// List implements [driver.Store].
func (m *Memory) List(ctx context.Context, prefix string) (list []driver.Entry, err error) {
	if err := m.before(ctx, "List", prefix); err != nil {
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

// Put implements [driver.Store].
func (m *Memory) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	if err := m.before(ctx, "Put", key); err != nil {
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

// Delete implements [driver.Store].
func (m *Memory) Delete(ctx context.Context, key, old string) error {
	if err := m.before(ctx, "Delete", key); err != nil {
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

// Now implements [driver.Clock]. If Clock is nil, the error matches [errors.ErrUnsupported].
func (m *Memory) Now(ctx context.Context) (time.Time, error) {
	if err := m.before(ctx, "Now", ""); err != nil {
		return time.Time{}, err
	}
	if m.Clock == nil {
		return time.Time{}, errors.ErrUnsupported
	}
	return m.Clock.Now(), nil
}

// Wipe removes all entries, as an operator might by mistake.
func (m *Memory) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.entries)
}

func (m *Memory) before(ctx context.Context, request, key string) error {
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
