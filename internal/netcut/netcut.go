// Package netcut provides stores with a network that a test can cut. To other processes, a process
// whose store stays cut off looks like one that has crashed.
package netcut

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// Store is a client of a store, and its network can be cut.
type Store struct {
	lease.Store

	mu    sync.Mutex
	off   bool
	calls sync.WaitGroup
}

var errCut = errors.New("netcut: the network is cut")

// Cut cuts the network if off is true, and restores it otherwise. Before it returns, calls that
// have begun end.
func (s *Store) Cut(off bool) {
	s.mu.Lock()
	s.off = off
	s.mu.Unlock()
	if off {
		// The lock is free here: in a synctest bubble, time stands still while a goroutine
		// waits for a mutex.
		s.calls.Wait()
	}
}

// through makes a call unless the network is cut.
func through[T any](s *Store, call func() (T, error)) (T, error) {
	s.mu.Lock()
	if s.off {
		s.mu.Unlock()
		var none T
		return none, errCut
	}
	s.calls.Add(1)
	s.mu.Unlock()
	defer s.calls.Done()
	return call()
}

// DefaultWindow returns the store's default window, or 0.
func (s *Store) DefaultWindow() time.Duration {
	if w, ok := s.Store.(driver.Windower); ok {
		return w.DefaultWindow()
	}
	return 0
}

// Now reads the engine's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	clock, ok := s.Store.(interface {
		Now(context.Context) (time.Time, error)
	})
	if !ok {
		return time.Time{}, errors.ErrUnsupported
	}
	return through(s, func() (time.Time, error) { return clock.Now(ctx) })
}

func (s *Store) Get(ctx context.Context, key string) (lease.Entry, error) {
	return through(s, func() (lease.Entry, error) { return s.Store.Get(ctx, key) })
}

func (s *Store) List(ctx context.Context, prefix string) ([]lease.Entry, error) {
	return through(s, func() ([]lease.Entry, error) { return s.Store.List(ctx, prefix) })
}

func (s *Store) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	return through(s, func() (lease.Entry, error) { return s.Store.Put(ctx, key, old, value) })
}

func (s *Store) Delete(ctx context.Context, key, old string) error {
	_, err := through(s, func() (struct{}, error) { return struct{}{}, s.Store.Delete(ctx, key, old) })
	return err
}

// Wrap returns a client of s whose network is not cut.
func Wrap(s lease.Store) *Store { return &Store{Store: s} }

// Holder is a process's lease and generator. A test can cut its network and set its clock back.
type Holder struct {
	*lease.Lease
	Gen     *snowflake.Generator
	Name    string
	Network *Store
	behind  atomic.Int64 // the lag of its clock, in nanoseconds
}

// Join acquires a worker ID of a layout with clock sequences. At the end of the test, the lease
// ends without a release in the store.
func Join(ctx context.Context, t testing.TB, store lease.Store, o lease.Options) (*Holder, error) {
	h := &Holder{Name: o.Owner, Network: Wrap(store)}
	o.Clock = snowflake.ClockFunc(func() time.Time { return time.Now().Add(-time.Duration(h.behind.Load())) })
	o.OnLoss, o.Logger = lease.Stop, slog.New(slog.NewTextHandler(io.Discard, nil))
	o.MaxLeap = 24 * time.Hour // the engine's clock need not be right
	var err error
	if h.Lease, err = lease.Acquire(ctx, h.Network, &o); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		h.Network.Cut(true)
		_ = h.Release(context.Background())
	})
	h.Gen, err = snowflake.NewLeased(h.Lease, &snowflake.Options{OnBackward: snowflake.ClockSeqPolicy()})
	return h, err
}

// StepBack sets the holder's clock back, so the next ID needs another clock sequence.
func (h *Holder) StepBack(by time.Duration) { h.behind.Add(int64(by)) }

// PretendToHaveWaited sets the waits that processes have recorded since the store lost entries, or
// since they cannot be read, to an hour, so that a test need not wait for minutes.
func PretendToHaveWaited(ctx context.Context, store lease.Store) {
	hour := map[string]any{"for": time.Hour}
	change(ctx, store, "store", func(door map[string]any) { door["waited"] = hour })
	change(ctx, store, "silence", func(of map[string]any) {
		records, _ := of["of"].(map[string]any)
		for _, r := range records {
			if r, ok := r.(map[string]any); ok {
				r["waited"] = hour
			}
		}
	})
}

// change changes an entry if it can be read, and if no other process changes it first.
func change(ctx context.Context, store lease.Store, key string, change func(map[string]any)) {
	e, err := store.Get(ctx, key)
	var value map[string]any
	if err != nil || json.Unmarshal(e.Value, &value) != nil {
		return
	}
	change(value)
	text, _ := json.Marshal(value) // it came from JSON
	_, _ = store.Put(ctx, key, e.Version, text)
}
