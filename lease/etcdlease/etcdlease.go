// Package etcdlease keeps the worker IDs of a fleet in etcd, for package lease.
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
// It works with etcd 3.4 and later. Use [Config]: with the defaults of etcd's client,
// holders may take minutes to recover from an outage. With authentication and etcd 3.4 they
// never recover. One client serves all leases of a process.
//
// # What is stored
//
// An entry is a key. Its value is the entry's version, a space, and the entry's value, which is
// JSON. The version is a random text, because etcd's revisions begin again if the cluster is made
// again. A renewal is one transaction: it compares the version, and puts the key. If you edit a
// value by hand (etcdctl put), keep the text before its first space, and do so while no process
// holds the worker ID.
//
// # The cluster
//
// etcd keeps all versions of all keys unless it is told to compact them. Each renewal leaves some
// 0.8 kB. If the quota is full (2 GB by default), no renewal succeeds ("database space exceeded").
// Start the members with --auto-compaction-mode=periodic --auto-compaction-retention=5m, or
// similar.
//
// With authentication the user needs only readwrite on the prefix:
//
//	etcdctl role grant-permission snowflake readwrite --prefix /snowflake/
//
// A client logs in when it connects, and when the cluster no longer knows its token. To check a
// password takes some 0.1 s of a core of the server. So in a large fleet use --bcrypt-cost 4
// and long random passwords, or client certificates.
//
// etcd has no clock that can be asked. So if a process's clock is ahead when it acquires, nobody
// notices.
//
// # Hazards
//
// etcd acknowledges a write after a majority of its members has it on disk, so bounds
// survive crashes and failovers. They do not survive the following.
//
// HAZARD: a cluster that is restored from a snapshot has the bounds from the time of the
// snapshot, so IDs may repeat. Stop all holders before you restore. Start holders again only
// when the clock is past the last bound, a window after the last holder stopped.
//
// HAZARD: members that run with --unsafe-no-fsync, or on disks that lose acknowledged
// writes, may forget bounds.
//
// HAZARD: a fleet needs one cluster and one prefix. If it is spread over two, each worker
// ID exists twice. (Two fleets with the same prefix share its worker IDs. This is safe, but
// may exhaust them.)
package etcdlease

import (
	"bytes"
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

// DefaultWindow is the window of leases whose Options.Window is 0. It bridges an election of
// etcd, and a restart of a cluster.
const DefaultWindow = 30 * time.Second

// Options are the settings of New. The zero value consists entirely of defaults, and so
// does nil.
type Options struct {
	// Prefix is the beginning of all keys. All processes that share worker IDs must have
	// the same Prefix. If it does not end with a slash, a slash is added. The default is
	// "/snowflake/".
	Prefix string
}

// Store is a [driver.Store] in an etcd cluster. It may be used by any number of
// goroutines and leases.
type Store struct {
	client *clientv3.Client
	prefix string
}

var _ driver.Windower = (*Store)(nil)

// New returns the store in the client's cluster. New sends no request: Acquire is the first
// to fail if the cluster cannot be reached or refuses the client. One store can serve any
// number of leases. Closing the client ends the store. If client is nil, the error matches
// [driver.ErrInvalidOptions].
//
// If the client has a user, the user needs the permission readwrite on all keys with the
// prefix.
//
// Errors name the key and the endpoints. They match etcd's own errors, such as
// rpctypes.ErrPermissionDenied, ErrUserEmpty, ErrNoSpace (the quota is full) and ErrNoLeader
// (a majority is away). A value that Put cannot have written is a [driver.ErrBadRecord]. If
// the connection breaks, or the cluster has no leader or no space, the error is a [driver.ErrAway].
func New(client *clientv3.Client, opts *Options) (*Store, error) {
	if client == nil {
		return nil, fmt.Errorf("etcdlease: %w: the client is nil", driver.ErrInvalidOptions)
	}
	prefix := "/snowflake/"
	if opts != nil && opts.Prefix != "" {
		prefix = strings.TrimSuffix(opts.Prefix, "/") + "/"
	}
	return &Store{client: client, prefix: prefix}, nil
}

// DefaultWindow returns the constant of that name.
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

// Get returns the entry of key.
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	kvs, _, err := s.read(ctx, s.prefix+key)
	if err != nil || len(kvs) == 0 {
		return driver.Entry{Key: key}, err
	}
	return s.decode(kvs[0])
}

// page is how many keys List asks for at a time.
const page = 500

// List returns the entries whose keys begin with prefix.
func (s *Store) List(ctx context.Context, prefix string) (all []driver.Entry, err error) {
	from := s.prefix + prefix
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		kvs, more, err := s.read(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
		if err != nil {
			return nil, err
		}
		for _, kv := range kvs {
			e, _ := s.decode(kv) // even if it cannot be read
			all = append(all, e)
		}
		if !more {
			return all, nil
		}
		from = string(kvs[len(kvs)-1].Key) + "\x00"
	}
}

// read reads at a member that follows a leader, so that the answer is not old.
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

// unreadable begins the version of an entry that cannot be read. The revision at which the key was
// changed last follows.
const unreadable = "unreadable-"

// decode returns the entry in a key. If it cannot be read, it has no value, and the error matches
// driver.ErrBadRecord.
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

// Put stores value if the entry's version is still old.
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	e := driver.Entry{Key: key, Version: randtext.New(), Value: value}
	return e, s.change(ctx, key, old, clientv3.OpPut(s.prefix+key, e.Version+" "+string(value)))
}

// Delete removes the entry if its version still is old.
func (s *Store) Delete(ctx context.Context, key, old string) error {
	if old == "" {
		return s.conflict(key)
	}
	return s.change(ctx, key, old, clientv3.OpDelete(s.prefix+key))
}

// has returns the condition that the entry's version is old, or that there is no entry if old is
// empty. If it may have been unreadable, has reads it again, and the condition is that it still has
// the same content.
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

// change does op if the entry's version is still old.
func (s *Store) change(ctx context.Context, key, old string, op clientv3.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	is, err := s.has(ctx, key, old)
	if err != nil {
		return err
	}
	resp, err := s.client.Txn(clientv3.WithRequireLeader(ctx)).If(is...).Then(op).Commit()
	switch {
	case err != nil:
		return s.explain(s.prefix+key, err)
	case !resp.Succeeded:
		return s.conflict(key)
	}
	return nil
}

// explain adds to an error where it comes from.
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

// isLate reports whether time is up for the client or the server, either of which may see it before
// the context does. From a server of etcd 3.4 the error has no code, only a text.
func isLate(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.DeadlineExceeded || s.Code() == codes.Unknown && s.Message() == context.DeadlineExceeded.Error()
}

// isUnavailable reports whether the connection broke, or the cluster cannot answer now, for example
// because it has no leader, has too much to do, or has no space until an operator makes some.
func isUnavailable(err error) bool {
	if known := (rpctypes.EtcdError{}); errors.As(err, &known) {
		return known.Code() == codes.Unavailable || known.Code() == codes.ResourceExhausted
	}
	return status.Code(err) == codes.Unavailable
}
