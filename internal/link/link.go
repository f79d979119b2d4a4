// Package link provides stores with a network that a test can cut. To other processes, a process
// whose store stays cut off looks like one that has crashed.
package link

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

// Link is a client whose network can be cut.
type Link struct {
	lease.Store

	mu    sync.Mutex
	off   bool
	calls sync.WaitGroup
}

var errCut = errors.New("link: the network is cut")

// Cut cuts the network if off is true, and restores it otherwise. Before it returns, calls that
// have begun end.
func (l *Link) Cut(off bool) {
	l.mu.Lock()
	l.off = off
	l.mu.Unlock()
	if off {
		// The lock is free here: in a synctest bubble, time stands still while a goroutine
		// waits for a mutex.
		l.calls.Wait()
	}
}

// through makes a call unless the network is cut.
func through[T any](l *Link, call func() (T, error)) (T, error) {
	l.mu.Lock()
	if l.off {
		l.mu.Unlock()
		var none T
		return none, errCut
	}
	l.calls.Add(1)
	l.mu.Unlock()
	defer l.calls.Done()
	return call()
}

// DefaultWindow returns the store's default window, or 0.
func (l *Link) DefaultWindow() time.Duration {
	if w, ok := l.Store.(driver.Windower); ok {
		return w.DefaultWindow()
	}
	return 0
}

// Now reads the engine's clock.
func (l *Link) Now(ctx context.Context) (time.Time, error) {
	clock, ok := l.Store.(interface {
		Now(context.Context) (time.Time, error)
	})
	if !ok {
		return time.Time{}, errors.ErrUnsupported
	}
	return through(l, func() (time.Time, error) { return clock.Now(ctx) })
}

func (l *Link) Get(ctx context.Context, key string) (lease.Entry, error) {
	return through(l, func() (lease.Entry, error) { return l.Store.Get(ctx, key) })
}

func (l *Link) List(ctx context.Context, prefix string) ([]lease.Entry, error) {
	return through(l, func() ([]lease.Entry, error) { return l.Store.List(ctx, prefix) })
}

func (l *Link) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	return through(l, func() (lease.Entry, error) { return l.Store.Put(ctx, key, old, value) })
}

func (l *Link) Delete(ctx context.Context, key, old string) error {
	_, err := through(l, func() (struct{}, error) { return struct{}{}, l.Store.Delete(ctx, key, old) })
	return err
}

// To returns a link to a store.
func To(s lease.Store) *Link { return &Link{Store: s} }

// Holder is a process's lease and generator. A test can cut its network and set its clock back.
type Holder struct {
	*lease.Lease
	Gen     *snowflake.Generator
	Name    string
	Network *Link
	behind  atomic.Int64 // the lag of its clock, in nanoseconds
}

// Join acquires a worker ID of a layout with clock sequences. At the end of the test, the lease
// ends without a release in the store.
func Join(ctx context.Context, t testing.TB, store lease.Store, o lease.Options) (*Holder, error) {
	h := &Holder{Name: o.Owner, Network: To(store)}
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
