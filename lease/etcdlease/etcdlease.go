// Package etcdlease keeps the worker IDs of a fleet in etcd.
//
//	client, err := clientv3.New(etcdlease.Config("10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"))
//	...
//	l, err := lease.Acquire(ctx, etcdlease.New(client, nil), nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// It works with etcd 3.4 and later. Use [Config]: with the defaults of etcd's
// client, holders may take minutes to recover from an outage, and with
// authentication and etcd 3.4 they never do.
//
// # What is stored
//
// Each worker ID has two keys. Worker 7, under the default prefix:
//
//	/snowflake/records/0000000007  its record, as JSON; it stays when the holder has gone
//	/snowflake/alive/0000000007    the holder's token; it goes when the holder does
//
// A move of the bound is one transaction, which compares the version in the
// stored record and puts both keys. The second key is attached to an etcd lease
// of the holder's own, which each renewal keeps alive with a request that it sends
// at the same time, so that it takes one round trip. Nothing runs in between.
//
// The session only says who is alive. What may be stamped is what the record
// says, so that a session which ends too early, or too late, makes no duplicate.
//
// # Time
//
// etcd has no clock that can be asked, but its leases end by the clock of the
// cluster's leader. A holder is dead when its session has ended, however old its
// record is by anybody's clock: that is a window after its last renewal, rounded
// up to seconds, and not before etcd's minimum, which is 2 s with the default
// election timeout. After a change of leader all sessions start again, and the
// worker IDs of the dead come free later by as much.
//
// Snapshot.Now and Record.Renewed are of the client's clock. So a clock that is
// ahead already at Acquire is not noticed; later leaps are.
//
// # Hazards
//
// etcd acknowledges what a majority of its members have on their disks, so that
// bounds survive crashes and failovers. They do not survive what follows.
//
// HAZARD: a cluster that is restored from a snapshot has the bounds of the time
// when that was made, and IDs could be issued twice. Stop all holders before, and
// start none until the clock is past the last bound: a window after they stopped.
//
// HAZARD: members that run with --unsafe-no-fsync, or on disks that do not keep
// what they say, may forget what they acknowledged.
//
// HAZARD: a fleet has one cluster and one prefix. Spread over two, it has each
// worker ID twice. Two fleets with the same prefix share its worker IDs, which is
// safe, and may exhaust them.
//
// HAZARD: etcd keeps the history of all keys unless it is told to compact it. A
// renewal, one a second with the default window, leaves some 0.7 kB, and when the
// quota is full (2 GB by default) none succeeds any more. Start the members with
// --auto-compaction-mode=periodic --auto-compaction-retention=5m, or the like.
package etcdlease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Options are the settings of New. The zero value, and nil, consist entirely of
// defaults.
type Options struct {
	// Prefix is what the keys begin with. All processes that share worker IDs
	// have the same. A slash is added where it ends with none. Empty:
	// "/snowflake/".
	Prefix string
}

// New returns the store that is kept in the client's cluster. It asks for
// nothing yet: whether the cluster can be reached, and lets the client in, shows
// at Acquire. Closing the client ends the store. Without a client, the store's
// methods return a [lease.ErrInvalidOptions].
//
// A client that has a user needs the permission readwrite on all keys with the
// prefix. One store can serve any number of leases.
//
// Errors name the prefix and the endpoints, or the key, and match etcd's own,
// such as rpctypes.ErrPermissionDenied, ErrUserEmpty, ErrNoSpace (the quota is
// full) and ErrNoLeader (a majority is away). A value that is not a record as Save
// writes it is a [lease.ErrBadRecord], and is never replaced by a new one.
func New(client *clientv3.Client, opts *Options) lease.Store {
	prefix := "/snowflake/"
	if opts != nil && opts.Prefix != "" {
		prefix = strings.TrimSuffix(opts.Prefix, "/") + "/"
	}
	s := &store{client: client, prefix: prefix, now: time.Now}
	if client != nil {
		s.leases = pb.NewLeaseClient(client.ActiveConnection())
	}
	return s
}

// check says why there is nothing to be asked.
func (s *store) check(ctx context.Context) error {
	if s.client == nil {
		return fmt.Errorf("etcdlease: %w: the client is nil", lease.ErrInvalidOptions)
	}
	return ctx.Err()
}

type store struct {
	client *clientv3.Client
	leases pb.LeaseClient
	prefix string
	now    func() time.Time
	streams
}

const (
	records = "records/"
	alive   = "alive/"

	// Keys have as many digits, so that they sort as the worker IDs do.
	digits    = 10
	maxWorker = int64(9_999_999_999)
)

func (s *store) key(kind string, worker int) string {
	return fmt.Sprintf("%s%s%0*d", s.prefix, kind, digits, worker)
}

// Locate returns the key of a worker ID's record.
func (s *store) Locate(worker int) string { return s.key(records, worker) }

// get reads the keys of the worker IDs from first to last.
func (s *store) get(kind string, first, last int) clientv3.Op {
	from, end := s.key(kind, first), s.key(kind, last)+"\x00"
	if first == 0 {
		from = s.prefix + kind
	}
	if int64(last) > maxWorker {
		end = clientv3.GetPrefixRangeEnd(s.prefix + kind)
	}
	return clientv3.OpGet(from, clientv3.WithRange(end))
}

// Load reads the records and who is alive, both as of one revision.
func (s *store) Load(ctx context.Context, first, last int) (lease.Snapshot, error) {
	var snap lease.Snapshot
	if err := s.check(ctx); err != nil {
		return snap, err
	}
	resp, err := s.txn(ctx).Then(s.get(records, first, last), s.get(alive, first, last)).Commit()
	if err != nil {
		return snap, s.explain(err)
	}
	snap.Now = s.now()
	tokens := map[string]string{}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		tokens[path.Base(string(kv.Key))] = string(kv.Value)
	}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		r, err := s.decode(kv)
		if err != nil {
			return lease.Snapshot{}, fmt.Errorf("etcdlease: key %s: %w", kv.Key, err)
		}
		if r.State == lease.Held {
			setAlive(&r, snap.Now, tokens[path.Base(string(kv.Key))] == r.Token)
		}
		snap.Records = append(snap.Records, r)
	}
	return snap, nil
}

// txn begins a transaction. A member that is cut off from the others shall say so
// at once.
func (s *store) txn(ctx context.Context) clientv3.Txn {
	return s.client.Txn(clientv3.WithRequireLeader(ctx))
}

// setAlive makes r live or not, at now, as its session is. The time in it, which
// is that of another client, has no say in that.
func setAlive(r *lease.Record, now time.Time, alive bool) {
	switch live := r.Live(now); {
	case alive && !live:
		r.Renewed = now
	case live && !alive:
		r.Renewed = time.Time{}
	}
}

// head is what the value of a record begins with. Save compares it, so that the
// version is in one place only.
func head(worker int, version uint64) string {
	return fmt.Sprintf(`{"worker":%d,"version":%d,`, worker, version)
}

func (s *store) decode(kv *mvccpb.KeyValue) (r lease.Record, err error) {
	if err := json.Unmarshal(kv.Value, &r); err != nil {
		return r, fmt.Errorf("%w: %w", lease.ErrBadRecord, err)
	}
	if want := s.key(records, r.Worker); want != string(kv.Key) {
		return r, fmt.Errorf("%w: it is of worker %d", lease.ErrBadRecord, r.Worker)
	}
	if want := head(r.Worker, r.Version); !bytes.HasPrefix(kv.Value, []byte(want)) {
		return r, fmt.Errorf("%w: it does not begin with %s", lease.ErrBadRecord, want)
	}
	return r, r.Validate()
}

// Save replaces the record, and tells that its holder is alive, or no more.
func (s *store) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	if err := s.check(ctx); err != nil {
		return r, err
	}
	r.Renewed = s.now().UTC().Round(0)
	value, err := json.Marshal(r)
	if err != nil {
		return r, fmt.Errorf("etcdlease: %w", err)
	}
	if int64(r.Worker) > maxWorker || !bytes.HasPrefix(value, []byte(head(r.Worker, r.Version))) {
		return r, fmt.Errorf("etcdlease: %w: worker %d cannot be stored", lease.ErrBadRecord, r.Worker)
	}
	id, ttl := s.session(r)
	err = s.write(ctx, r, string(value), id, ttl)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // a new holder, or one that was taken for dead
		if err = s.grant(ctx, id, ttl); err == nil {
			err = s.write(ctx, r, string(value), id, ttl)
		}
	}
	return r, s.explain(err)
}

// write makes the move, and keeps the session going.
func (s *store) write(ctx context.Context, r lease.Record, value string, id clientv3.LeaseID, ttl int64) error {
	key := s.key(records, r.Worker)
	live := clientv3.OpPut(s.key(alive, r.Worker), r.Token, clientv3.WithLease(id))
	kept := make(chan error, 1)
	if r.State == lease.Held {
		go func() { kept <- s.keepAlive(ctx, id) }()
	} else {
		live = clientv3.OpDelete(s.key(alive, r.Worker))
		kept <- nil
	}
	resp, err := s.txn(ctx).If(replaces(key, r)...).Then(clientv3.OpPut(key, value), live).Commit()
	ended := errors.Is(<-kept, rpctypes.ErrLeaseNotFound)
	switch {
	case err != nil:
		return err
	case !resp.Succeeded:
		return fmt.Errorf("%w: worker %d does not have version %d", lease.ErrConflict, r.Worker, r.Version-1)
	case ended: // it was at its end, and took the key with it
		if err := s.grant(ctx, id, ttl); err != nil {
			return err
		}
		_, err = s.txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", value)).Then(live).Commit()
	}
	return err
}

// replaces compares the stored record's version with the one before r's.
func replaces(key string, r lease.Record) []clientv3.Cmp {
	if r.Version == 1 {
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)}
	}
	from := head(r.Worker, r.Version-1)
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(key), ">", from),
		clientv3.Compare(clientv3.Value(key), "<", clientv3.GetPrefixRangeEnd(from)),
	}
}

// session returns the ID of the etcd lease of r's holder, and its seconds. The ID
// is made of what no two sessions have in common, so that it need not be kept
// anywhere.
func (s *store) session(r lease.Record) (id clientv3.LeaseID, ttl int64) {
	ttl = min(int64((r.Window-1)/time.Second)+1, clientv3.MaxLeaseTTL)
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %s", s.key(alive, r.Worker), ttl, r.Token)
	return clientv3.LeaseID(max(1, h.Sum64()>>1)), ttl
}

// grant begins a session.
func (s *store) grant(ctx context.Context, id clientv3.LeaseID, ttl int64) error {
	_, err := s.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: ttl}, waitForReady)
	if err = rpctypes.Error(err); errors.Is(err, rpctypes.ErrLeaseExist) {
		return nil // an earlier request's, whose answer was lost
	}
	return err
}

// explain says where an error comes from.
func (s *store) explain(err error) error {
	if err == nil {
		return nil
	}
	// The client may see that time is up before the context does.
	if status.Code(err) == codes.DeadlineExceeded && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return fmt.Errorf("etcdlease: %s on %s: %w", s.prefix, strings.Join(s.client.Endpoints(), ","), err)
}
