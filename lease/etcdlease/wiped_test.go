//go:build unix

package etcdlease_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

// remove deletes keys as etcdctl del does.
func remove(t *testing.T, c *clientv3.Client, key string, opts ...clientv3.OpOption) {
	t.Helper()
	resp, err := c.Delete(t.Context(), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Deleted == 0 {
		t.Fatalf("the test itself is wrong: there is no key %s", key)
	}
}

// create makes a space as a process does that starts.
func create(t *testing.T, c *clientv3.Client, space string) {
	if err := etcdlease.Create(t.Context(), c, &etcdlease.Options{Prefix: prefix(space)}, window); err != nil {
		t.Error(err)
	}
}

func TestWipedUnderLiveHolders(t *testing.T) {
	t.Parallel()
	m := start(t, 1)[0]
	s := &servertest.Server{Addr: m.addr, Open: open, Window: window}
	client := connect(t, m.addr)
	anew := func(space string) { create(t, client, space) }
	for _, test := range []struct {
		name   string
		wipe   func(space string)
		create func(space string)
	}{
		{"Prefix", func(space string) { remove(t, client, prefix(space), clientv3.WithPrefix()) }, anew},
		{"All", func(string) { remove(t, client, "", clientv3.WithFromKey()) }, anew},
		{"Records", func(space string) { remove(t, client, prefix(space)+"records/", clientv3.WithPrefix()) }, nil},
		{"Disk", func(string) {
			m.Kill()
			if err := os.RemoveAll(m.dir); err != nil {
				t.Fatal(err)
			}
			m.Restart()
		}, anew},
	} {
		t.Run(test.name, func(t *testing.T) { servertest.Wiped(t, s, test.wipe, test.create) })
	}
}

// A store that lost one record says so, wherever the record is asked for.
func TestRecordThatIsGone(t *testing.T) {
	t.Parallel()
	client := connect(t, addrs(start(t, 1)))
	s := store(t, client, nil)
	save(t, s, record(1, 1))
	save(t, s, record(2, 1))
	remove(t, client, "/snowflake/records/0000000001")
	wiped := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, lease.ErrWiped) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := s.Load(t.Context())
	wiped("Load", err)
	_, err = s.LoadWorker(t.Context(), 1)
	wiped("LoadWorker", err)
	for _, version := range []uint64{1, 2, 3} {
		_, err = s.Save(t.Context(), record(1, version))
		wiped("Save", err)
		_, err = s.SaveEnding(t.Context(), record(1, version), holding(1, 1), time.Time{})
		wiped("SaveEnding", err)
	}
	if !live(t, s, 2) {
		t.Error("another worker ID's holder is not alive")
	}
	save(t, s, record(2, 2))

	remove(t, client, "/snowflake/used/0000000001") // as the docs say
	if _, err := s.Load(t.Context()); err != nil {
		t.Error(err)
	}
	save(t, s, record(1, 1))
}

func TestStoreThatWasNeverCreated(t *testing.T) {
	t.Parallel()
	client := connect(t, addrs(start(t, 1)))
	s := opened(t, client, nil)
	for name, call := range calls(s) {
		if err := call(t.Context()); !errors.Is(err, lease.ErrWiped) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Save(t.Context(), record(1, 1)); !errors.Is(err, lease.ErrWiped) {
		t.Errorf("a first Save: %v", err)
	}
	refused(t, s, lease.ErrWiped, "there is no key /snowflake/created", "etcdlease.Create")
}

func TestCreateLeavesWhatIsThere(t *testing.T) {
	t.Parallel()
	client := connect(t, addrs(start(t, 1)))
	s := store(t, client, nil)
	save(t, s, record(1, 1))
	before, err := client.Get(t.Context(), "/snowflake/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if err := etcdlease.Create(t.Context(), client, nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	after, err := client.Get(t.Context(), "/snowflake/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if after.Header.Revision != before.Header.Revision {
		t.Errorf("Create has changed %v to %v", before.Kvs, after.Kvs)
	}
	if err := etcdlease.Create(t.Context(), client, nil, -1); !errors.Is(err, lease.ErrInvalidOptions) {
		t.Errorf("with a negative window: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := etcdlease.Create(ctx, client, &etcdlease.Options{Prefix: "other"}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
}
