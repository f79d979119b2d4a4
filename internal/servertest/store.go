//go:build unix

package servertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

var spaces atomic.Int64

// NewSpace returns the name of a space that no other test uses.
func NewSpace() string { return fmt.Sprint("space", spaces.Add(1)) }

// Put stores an entry. While the store is away, it tries again.
func Put(t testing.TB, store lease.Store, key, old, value string) lease.Entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		e, err := store.Put(ctx, key, old, []byte(value))
		if err == nil {
			return e
		}
		if !errors.Is(err, lease.ErrAway) || ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Calls returns a call of each method with key, by the method's name. They change nothing.
func Calls(store lease.Store, key string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Get":    func(ctx context.Context) error { _, err := store.Get(ctx, key); return err },
		"List":   func(ctx context.Context) error { _, err := store.List(ctx, key); return err },
		"Put":    func(ctx context.Context) error { _, err := store.Put(ctx, key, "no-version", nil); return err },
		"Delete": func(ctx context.Context) error { return store.Delete(ctx, key, "no-version") },
	}
}

// Together starts the n servers of a cluster at once, since one may be ready only when another one runs.
func Together(t testing.TB, n int, start func(i int)) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { start(i) })
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
