// Package link has stores whose network can be cut, for tests. If a process's store
// is cut off for good, the process has crashed, as far as others can see.
package link

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Link is a client whose network can be cut.
type Link struct {
	lease.Store

	mu    sync.Mutex
	off   bool
	calls sync.WaitGroup
}

var errCut = errors.New("link: the network is cut")

// Cut cuts the network if off is true, and mends it if not. When it cuts, it waits
// for the calls that are under way.
func (l *Link) Cut(off bool) {
	l.mu.Lock()
	l.off = off
	l.mu.Unlock()
	if off {
		// Not under the lock: in a synctest bubble, time does not pass while a
		// goroutine waits for a mutex.
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

// DefaultWindow passes on the store's.
func (l *Link) DefaultWindow() time.Duration {
	if w, ok := l.Store.(lease.Windower); ok {
		return w.DefaultWindow()
	}
	return 0
}

func (l *Link) Load(ctx context.Context) (lease.Snapshot, error) {
	return through(l, func() (lease.Snapshot, error) { return l.Store.Load(ctx) })
}

func (l *Link) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	return through(l, func() (lease.Snapshot, error) { return l.Store.LoadWorker(ctx, worker) })
}

func (l *Link) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	return through(l, func() (lease.Record, error) { return l.Store.Save(ctx, r) })
}

// historian is a link to a store that is a lease.Historian.
type historian struct {
	*Link
	store lease.Historian
}

func (h historian) SaveEnding(ctx context.Context, r lease.Record, ended lease.Holding, forget time.Time) (lease.Record, error) {
	return through(h.Link, func() (lease.Record, error) { return h.store.SaveEnding(ctx, r, ended, forget) })
}

func (h historian) History(ctx context.Context, worker int) ([]lease.Holding, error) {
	return through(h.Link, func() ([]lease.Holding, error) { return h.store.History(ctx, worker) })
}

// To returns a link to a store, and the store as it is seen through the link.
func To(s lease.Store) (*Link, lease.Store) {
	l := &Link{Store: s}
	if h, ok := s.(lease.Historian); ok {
		return l, historian{l, h}
	}
	return l, l
}
