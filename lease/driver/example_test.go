package driver_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

// memory is a [driver.Store] for the goroutines of one process: a map with four methods. A
// store for a fleet keeps the same promises in its engine: Put replaces an entry only if it
// has the version that the caller names, and what was stored stays stored.
type memory struct {
	mu      sync.Mutex
	puts    int
	entries map[string]driver.Entry
}

func (m *memory) Get(ctx context.Context, key string) (driver.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return clone(m.entries[key]), ctx.Err()
}

func (m *memory) List(ctx context.Context, prefix string) (list []driver.Entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, e := range m.entries {
		if strings.HasPrefix(key, prefix) {
			list = append(list, clone(e))
		}
	}
	return list, ctx.Err()
}

func (m *memory) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return driver.Entry{}, err
	}
	if m.entries[key].Version != old {
		return driver.Entry{}, driver.ErrConflict
	}
	if m.entries == nil {
		m.entries = map[string]driver.Entry{}
	}
	m.puts++
	m.entries[key] = clone(driver.Entry{Key: key, Version: strconv.Itoa(m.puts), Value: value})
	return clone(m.entries[key]), nil
}

func (m *memory) Delete(ctx context.Context, key, old string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if old == "" || m.entries[key].Version != old {
		return driver.ErrConflict
	}
	delete(m.entries, key)
	return nil
}

// clone returns an entry that shares no memory with e.
func clone(e driver.Entry) driver.Entry {
	e.Value = slices.Clone(e.Value)
	return e
}

// A store that you write has four methods. Check it with leasetest:
//
//	func TestMemory(t *testing.T) {
//		leasetest.Run(t, func(t *testing.T) leasetest.Storage {
//			m := new(memory)
//			return leasetest.Storage{Open: func() driver.Store { return m }}
//		}, nil)
//	}
func ExampleStore() {
	ctx := context.Background()
	l, err := lease.Acquire(ctx, new(memory), &lease.Options{NewStore: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Release(ctx)
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := gen.NextID()
	fmt.Println(gen.Decode(id).Worker == l.Worker(), err)
	// Output: true <nil>
}

func TestStoreOfTheExample(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		m := new(memory)
		return leasetest.Storage{Open: func() driver.Store { return m }, Wipe: func() { clear(m.entries) }}
	}, &leasetest.Options{FakeTime: true})
}
