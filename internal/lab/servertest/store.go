//go:build unix && go1.25

package servertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

var spaces atomic.Int64

// NewSpace returns a new name of a space.
func NewSpace() string { return fmt.Sprint("space", spaces.Add(1)) }

// Put stores an entry that only this test changes. While the store is away, it tries again.
func Put(t testing.TB, store lease.Store, key, old, value string) lease.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for wasAway := false; ; wasAway = true {
		e, err := store.Put(ctx, key, old, []byte(value))
		// The previous try may have stored the value.
		if wasAway && errors.Is(err, lease.ErrConflict) {
			if e, err = store.Get(ctx, key); err == nil && (e.Version == old || string(e.Value) != value) {
				err = fmt.Errorf("%w: there is %+v", lease.ErrConflict, e)
			}
		}
		if err == nil {
			return e
		}
		if !errors.Is(err, lease.ErrAway) || ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Calls returns a call of each method with key, by the method's name. The calls change nothing.
func Calls(store lease.Store, key string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Get":    func(ctx context.Context) error { _, err := store.Get(ctx, key); return err },
		"List":   func(ctx context.Context) error { _, err := store.List(ctx, key); return err },
		"Put":    func(ctx context.Context) error { _, err := store.Put(ctx, key, "no-version", nil); return err },
		"Delete": func(ctx context.Context) error { return store.Delete(ctx, key, "no-version") },
	}
}

// Await calls f until it returns nil. If this takes longer than patience, the test fails with f's
// error.
func Await(t testing.TB, f func() error) {
	t.Helper()
	begun := time.Now()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Since(begun) > patience {
			t.Fatal(err)
		}
		time.Sleep(pause)
	}
}

// Store runs the tests of leasetest, in new spaces of the server, and uses all of s.Wipes in turn.
func Store(t *testing.T, s *Server) {
	wipes := slices.Sorted(maps.Keys(s.Wipes))
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		space, wiped := NewSpace(), 0
		storage := leasetest.Storage{
			Open: func() lease.Store { return s.client(t, s.Addr, space) },
			Wipe: func() {
				s.Wipes[wipes[wiped%len(wipes)]](t, space)
				wiped++
			},
		}
		if s.Garble != nil {
			storage.Garble = func(key string) { s.Garble(t, space, key) }
		}
		return storage
	}, &leasetest.Options{Parallel: true})
}
