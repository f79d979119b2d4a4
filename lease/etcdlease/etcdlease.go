// Package etcdlease leases worker IDs from an etcd cluster.
//
//	client, err := clientv3.New(etcdlease.Config("10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"))
//	...
//	store, err := etcdlease.New(client, nil)
//	...
//	l, err := lease.Acquire(ctx, store, nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// It works with etcd 3.4 and later. Use [Config]: with the defaults of etcd's client, holders may
// take minutes to recover from an outage, and with authentication and etcd 3.4 they do not recover.
// One client serves all leases of a process.
//
// # Storage
//
// An entry is a key. Its value is the entry's version, a space, and the entry's value, which is
// JSON. The version is a random text, because etcd's revisions start again in a new cluster. A
// renewal is one transaction, which compares the version and puts the key. To edit a value by hand
// (etcdctl put), keep the text before its first space, and wait until no process holds the worker
// ID.
//
// # The cluster
//
// etcd keeps all versions of all keys until it compacts them. Each renewal adds about 0.8 kB. If
// the quota (2 GB by default) is used up, renewals fail ("database space exceeded"). Start the
// members with --auto-compaction-mode=periodic --auto-compaction-retention=5m, or similar.
//
// With authentication the user needs only readwrite on the prefix:
//
//	etcdctl role grant-permission snowflake readwrite --prefix /snowflake/
//
// A client logs in when it connects, and when the cluster no longer knows its token. A password
// check takes about 0.1 s of a server core, so in a large fleet use --bcrypt-cost 4 and long random
// passwords, or client certificates.
//
// Clients cannot read etcd's clock, so a clock that is ahead when a process acquires a worker ID is
// not detected.
//
// # Hazards
//
// etcd acknowledges a write after a majority of its members has it on disk, so bounds survive
// crashes and failovers, but not the following.
//
// HAZARD: a restore from a snapshot restores the snapshot's bounds, so IDs may repeat. Stop all
// holders before you restore. Start holders again only when the clock is past the last bound, a
// window after the last holder stopped.
//
// HAZARD: members that run with --unsafe-no-fsync, or on disks that lose acknowledged writes, may
// lose bounds.
//
// HAZARD: a fleet needs one cluster and one prefix. If it is spread over two, each worker ID exists
// twice. (Two fleets with one prefix share its worker IDs. This is safe, but may exhaust them.)
package etcdlease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-5394e6b1/snowflake/internal/randtext"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// DefaultWindow is the window of leases whose Options.Window is 0. It is longer than an election of
// etcd, or a restart of a cluster.
const DefaultWindow = 30 * time.Second

// Options holds the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	// Prefix is the prefix of all keys, which all processes that share worker IDs have in common.
	// If it does not end with a slash, a slash is added. The default is "/snowflake/".
	Prefix string
}

// Store is a [driver.Store] in an etcd cluster. It may be used by any number of goroutines and
// leases.
type Store struct {
	client *clientv3.Client
	prefix string
}

var _ driver.Windower = (*Store)(nil)

// New returns a store in the client's cluster. It sends no request. The caller must close the
// client, after all leases have ended. If client is nil, the error matches
// [driver.ErrInvalidOptions].
//
// The store's errors name the key and the endpoints. They match etcd's own errors, such as
// rpctypes.ErrPermissionDenied, ErrUserEmpty, ErrNoSpace (the quota is used up) and ErrNoLeader (no
// majority). An error matches [driver.ErrBadRecord] if Put cannot have written the value, and
// [driver.ErrAway] if the connection broke, or if the cluster has no leader or no space.
func New(client *clientv3.Client, opts *Options) (*Store, error) {
	if client == nil {
		return nil, fmt.Errorf("etcdlease: %w: the client is nil", driver.ErrInvalidOptions)
	}
	prefix := cmp.Or(cmp.Or(opts, new(Options)).Prefix, "/snowflake")
	return &Store{client: client, prefix: strings.TrimSuffix(prefix, "/") + "/"}, nil
}

// DefaultWindow returns [DefaultWindow].
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	kvs, _, err := s.read(ctx, s.prefix+key)
	if err != nil || len(kvs) == 0 {
		return driver.Entry{Key: key}, err
	}
	return s.decode(kvs[0])
}

// page is the number of keys in a request of List.
const page = 500

// List implements [driver.Store].
func (s *Store) List(ctx context.Context, prefix string) (all []driver.Entry, err error) {
	from := s.prefix + prefix
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		kvs, more, err := s.read(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
		if err != nil {
			return nil, err
		}
		for _, kv := range kvs {
			e, _ := s.decode(kv) // include unreadable entries
			all = append(all, e)
		}
		if !more {
			return all, nil
		}
		from = string(kvs[len(kvs)-1].Key) + "\x00"
	}
}

// read reads from a member that has a leader, so that the result is not stale.
func (s *Store) read(ctx context.Context, key string, opts ...clientv3.OpOption) (kvs []*mvccpb.KeyValue, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	resp, err := s.client.Get(clientv3.WithRequireLeader(ctx), key, opts...)
	if err != nil {
		return nil, false, s.explain(key, err)
	}
	return resp.Kvs, resp.More, nil
}

// unreadable is the prefix of the version of an entry that cannot be read. The rest is the key's
// last revision.
const unreadable = "unreadable-"

// decode returns the entry of a key. If the entry cannot be read, it has no value, and the error
// matches driver.ErrBadRecord.
func (s *Store) decode(kv *mvccpb.KeyValue) (driver.Entry, error) {
	e := driver.Entry{Key: strings.TrimPrefix(string(kv.Key), s.prefix)}
	version, value, ok := bytes.Cut(kv.Value, []byte(" "))
	if !ok || len(version) != randtext.Len {
		e.Version = fmt.Sprint(unreadable, kv.ModRevision)
		return e, fmt.Errorf("etcdlease: key %s: %w: the value does not begin with a version", kv.Key, driver.ErrBadRecord)
	}
	e.Version, e.Value = string(version), value
	return e, nil
}

// Put implements [driver.Store].
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	e := driver.Entry{Key: key, Version: randtext.New(), Value: value}
	return e, s.change(ctx, key, old, clientv3.OpPut(s.prefix+key, e.Version+" "+string(value)))
}

// Delete implements [driver.Store].
func (s *Store) Delete(ctx context.Context, key, old string) error {
	if old == "" {
		return s.conflict(key)
	}
	return s.change(ctx, key, old, clientv3.OpDelete(s.prefix+key))
}

// has returns the condition that the entry's version is old or, if old is empty, that there is no
// entry. For the version of an unreadable entry, it reads the entry, and the condition is that the
// content stays the same.
func (s *Store) has(ctx context.Context, key, old string) ([]clientv3.Cmp, error) {
	at := s.prefix + key
	switch {
	case old == "":
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(at), "=", 0)}, nil
	case strings.HasPrefix(old, unreadable):
		kvs, _, err := s.read(ctx, at)
		if err != nil {
			return nil, err
		}
		if len(kvs) == 0 {
			return nil, s.conflict(key)
		}
		if e, _ := s.decode(kvs[0]); e.Version != old {
			return nil, s.conflict(key)
		}
		return []clientv3.Cmp{clientv3.Compare(clientv3.Value(at), "=", string(kvs[0].Value))}, nil
	}
	// The value begins with the version and a space.
	return []clientv3.Cmp{clientv3.Compare(clientv3.Value(at), ">", old), clientv3.Compare(clientv3.Value(at), "<", old+"!")}, nil
}

func (s *Store) conflict(key string) error {
	return fmt.Errorf("etcdlease: key %s%s: %w", s.prefix, key, driver.ErrConflict)
}

// change executes op if the entry's version is old.
func (s *Store) change(ctx context.Context, key, old string, op clientv3.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	hasOld, err := s.has(ctx, key, old)
	if err != nil {
		return err
	}
	resp, err := s.client.Txn(clientv3.WithRequireLeader(ctx)).If(hasOld...).Then(op).Commit()
	switch {
	case err != nil:
		return s.explain(s.prefix+key, err)
	case !resp.Succeeded:
		return s.conflict(key)
	}
	return nil
}

// explain adds the key and the endpoints to an error, and makes it match an error of package driver
// or the context.
func (s *Store) explain(key string, err error) error {
	if isLate(err) && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	if isUnavailable(err) {
		err = fmt.Errorf("%w: %w", driver.ErrAway, err)
	}
	for _, refusal := range []error{rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed, rpctypes.ErrPermissionDenied} {
		if errors.Is(err, refusal) {
			err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
		}
	}
	return fmt.Errorf("etcdlease: key %s on %s: %w", key, strings.Join(s.client.Endpoints(), ","), err)
}

// isLate reports whether the deadline has passed for the client or the server, which may be before
// the context ends. The error of an etcd 3.4 server has no code, only a text.
func isLate(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.DeadlineExceeded || s.Code() == codes.Unknown && s.Message() == context.DeadlineExceeded.Error()
}

// isUnavailable reports whether the connection broke, or the cluster cannot answer, for example
// because it has no leader, is overloaded, or has no space.
func isUnavailable(err error) bool {
	if known := (rpctypes.EtcdError{}); errors.As(err, &known) {
		return known.Code() == codes.Unavailable || known.Code() == codes.ResourceExhausted
	}
	return status.Code(err) == codes.Unavailable
}
