package leasetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// link is a client whose network can be cut. While a call is under way, cutting it
// waits.
type link struct {
	lease.Store
	mu  sync.RWMutex
	off bool
}

var errCut = errors.New("leasetest: the network is cut")

func (l *link) cut(off bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = off
}

// through makes a call unless the network is cut.
func through[T any](l *link, call func() (T, error)) (T, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.off {
		var none T
		return none, errCut
	}
	return call()
}

func (l *link) Load(ctx context.Context) (lease.Snapshot, error) {
	return through(l, func() (lease.Snapshot, error) { return l.Store.Load(ctx) })
}

func (l *link) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	return through(l, func() (lease.Snapshot, error) { return l.Store.LoadWorker(ctx, worker) })
}

func (l *link) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	return through(l, func() (lease.Record, error) { return l.Store.Save(ctx, r) })
}

// historian is a link to a store that is one.
type historian struct {
	*link
	store lease.Historian
}

func (h historian) SaveEnding(ctx context.Context, r lease.Record, ended lease.Holding, forget time.Time) (lease.Record, error) {
	return through(h.link, func() (lease.Record, error) { return h.store.SaveEnding(ctx, r, ended, forget) })
}

func (h historian) History(ctx context.Context, worker int) ([]lease.Holding, error) {
	return through(h.link, func() ([]lease.Holding, error) { return h.store.History(ctx, worker) })
}

// connect returns a link to a store, and the store as it is seen through that.
func connect(s lease.Store) (*link, lease.Store) {
	l := &link{Store: s}
	if h, ok := s.(lease.Historian); ok {
		return l, historian{l, h}
	}
	return l, l
}
