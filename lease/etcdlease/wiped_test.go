//go:build unix

package etcdlease_test

import (
	"context"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
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

// create makes or repairs a space, as a process that starts does.
func create(t *testing.T, c *clientv3.Client, space string) {
	if err := opened(t, c, &etcdlease.Options{Prefix: prefix(space)}).Create(t.Context(), window); err != nil {
		t.Error(err)
	}
}

func TestHoldersContinueAfterTheirRecordsAreWiped(t *testing.T) {
	t.Parallel()
	run := func(name string, server func(testing.TB) string, wipe func(t *testing.T, c *clientv3.Client, space string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &servertest.Server{Addr: server(t), Open: open, Window: window}
			client := connect(t, s.Addr)
			servertest.Wiped(t, s, func(space string) { wipe(t, client, space) }, func(space string) { create(t, client, space) })
		})
	}
	run("Prefix", shared, func(t *testing.T, c *clientv3.Client, space string) {
		remove(t, c, prefix(space), clientv3.WithPrefix())
	})
	run("Records", shared, func(t *testing.T, c *clientv3.Client, space string) {
		remove(t, c, prefix(space)+"records/", clientv3.WithPrefix())
	})
	run("RecordsAndUsed", shared, func(t *testing.T, c *clientv3.Client, space string) {
		remove(t, c, prefix(space)+"records/", clientv3.WithPrefix())
		remove(t, c, prefix(space)+"used/", clientv3.WithPrefix())
	})
	run("Created", shared, func(t *testing.T, c *clientv3.Client, space string) {
		remove(t, c, prefix(space)+"records/", clientv3.WithPrefix())
		remove(t, c, prefix(space)+"created")
	})
	alone := func(t testing.TB) string { return start(t, 1)[0].addr }
	run("All", alone, func(t *testing.T, c *clientv3.Client, _ string) {
		remove(t, c, "", clientv3.WithFromKey())
	})
	var m *member
	run("Disk", func(t testing.TB) string {
		m = start(t, 1)[0]
		return m.addr
	}, func(t *testing.T, _ *clientv3.Client, _ string) {
		m.Kill()
		if err := os.RemoveAll(m.dir); err != nil {
			t.Fatal(err)
		}
		m.Restart()
	})
}

// If a store lost a record, each call that needs the record returns ErrWiped.
func TestRemovedRecordIsReported(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
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

	remove(t, client, "/snowflake/used/0000000001")
	for _, name := range []string{"Load", "LoadWorker", "History", "Save", "SaveEnding"} {
		wiped(name, calls(s)[name](t.Context()))
	}
	if err := s.Create(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context()); err != nil {
		t.Error(err)
	}
	save(t, s, record(1, 1))
}

// Create repairs a store that has lost more records than one transaction can write. It does not change
// the records that are left.
func TestCreateRepairsManyLostRecords(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
	s := store(t, client, nil)
	n := depth.Of(140, 250) // a transaction has at most 128 operations
	free := func(worker int, version uint64) {
		r := record(worker, version)
		r.State = lease.Free // then a save is one request
		save(t, s, r)
	}
	for i := range n {
		free(i, 1)
	}
	if _, err := s.SaveEnding(t.Context(), record(1, 2), holding(1, 1), time.Time{}); err != nil {
		t.Fatal(err)
	}
	remove(t, client, "/snowflake/records/0000000002", clientv3.WithRange("/snowflake/records/9"))
	if err := s.Create(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	snap, err := s.Load(t.Context())
	if err != nil || len(snap.Records) != 2 {
		t.Fatalf("%d are left, %v", len(snap.Records), err)
	}
	has(t, s, 1, holding(1, 1))
	for i := range n {
		version := uint64(1)
		if i < 2 {
			version += uint64(i) + 1
		}
		free(i, version)
	}
}

func TestStoreThatWasNeverCreatedIsRefused(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
	s := opened(t, client, nil)
	for name, call := range calls(s) {
		if err := call(t.Context()); !errors.Is(err, lease.ErrWiped) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Save(t.Context(), record(1, 1)); !errors.Is(err, lease.ErrWiped) {
		t.Errorf("a first Save: %v", err)
	}
	refused(t, s, lease.ErrWiped, "there is no key /snowflake/created", "see Store.Create")
}

func TestCreateDoesNotChangeAnExistingStore(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
	s := store(t, client, nil)
	save(t, s, record(1, 1))
	before, err := client.Get(t.Context(), "/snowflake/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	after, err := client.Get(t.Context(), "/snowflake/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(after.Kvs, before.Kvs) { // nor are revisions
		t.Errorf("Create has changed %v to %v", before.Kvs, after.Kvs)
	}
	if err := s.Create(t.Context(), -1); !errors.Is(err, lease.ErrInvalidOptions) {
		t.Errorf("with a negative window: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := opened(t, client, &etcdlease.Options{Prefix: "other"}).Create(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
}
