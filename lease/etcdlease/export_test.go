package etcdlease

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// NewAt is New for a client with another clock.
func NewAt(client *clientv3.Client, opts *Options, now func() time.Time) lease.Store {
	s := New(client, opts).(*store)
	s.now = now
	return s
}
