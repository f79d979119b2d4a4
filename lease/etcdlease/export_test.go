package etcdlease

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// MaxHistory is how many holdings of a worker ID a store keeps.
const MaxHistory = maxHistory

// NewAt is New for a client with another clock.
func NewAt(client *clientv3.Client, opts *Options, now func() time.Time) (lease.Store, error) {
	s, err := newStore(client, opts)
	if err == nil {
		s.now = now
	}
	return s, err
}

// NewKeeping is New for a store that keeps no more than so many holdings of a
// worker ID.
func NewKeeping(client *clientv3.Client, opts *Options, most int) (lease.Historian, error) {
	s, err := newStore(client, opts)
	if err == nil {
		s.keep = most
	}
	return s, err
}
