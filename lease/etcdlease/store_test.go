//go:build unix

package etcdlease_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	addr := shared(t)
	var spaces atomic.Int64
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		space := fmt.Sprint("space", spaces.Add(1))
		o := &etcdlease.Options{Prefix: prefix(space)}
		client := connect(t, addr)
		store(t, client, o)
		return leasetest.Storage{
			Open: func() lease.Store { return opened(t, connect(t, addr), o) },
			Wipe: func() { remove(t, client, prefix(space), clientv3.WithPrefix()) },
			Garble: func(worker int) {
				key := fmt.Sprintf("%srecords/%010d", prefix(space), worker)
				if _, err := client.Put(t.Context(), key, `{"worker":1,"version":1,"tok`); err != nil {
					t.Fatal(err)
				}
			},
		}
	}, &leasetest.Options{Window: window, Parallel: true})
}
