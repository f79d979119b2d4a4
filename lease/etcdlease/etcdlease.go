// Package etcdlease keeps the worker IDs of a fleet in etcd.
//
//	client, err := clientv3.New(etcdlease.Config("10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"))
//	...
//	store, err := etcdlease.New(client, nil)
//	...
//	err = store.Create(ctx, 0) // does nothing if the store is there
//	...
//	l, err := lease.Acquire(ctx, store, nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// It works with etcd 3.4 and later. Use [Config]: with the defaults of etcd's client,
// holders may take minutes to recover from an outage. With authentication and etcd 3.4 they
// never recover.
//
// # What is stored
//
// There is one key for the store, and a few keys for each worker ID. Under the default
// prefix, with worker ID 7:
//
//	/snowflake/created              when Create made the store, and a checksum of used/
//	/snowflake/records/0000000007   the record, as JSON; it stays when the holder has gone
//	/snowflake/alive/0000000007     the holder's token; it goes when the holder does
//	/snowflake/used/0000000007      empty: this worker ID has had a record, so it must have one
//	/snowflake/history/0000000007/* an earlier holder, as JSON; sorted by the beginning of its window
//
// A renewal is one transaction: it compares the version in the stored record, and puts the
// record and the key under alive/. That key belongs to the holder's session, which is an
// etcd lease. A second request, sent at the same time, keeps the session alive. So a
// renewal takes one round trip, and nothing runs between renewals. If a worker ID or clock
// sequence changes hands, the same transaction writes the history.
//
// The session only says whether the holder is alive. Which IDs may be issued depends on the
// record alone, so a session that ends too early or too late cannot repeat an ID.
//
// # Time
//
// etcd has no clock that a client can ask, but its sessions end by the clock of the
// cluster's leader. A holder is dead when its session has ended, whatever time its record
// has. This is a window after its last renewal, rounded up to seconds, and not before
// etcd's minimum, which is 2 s with the default election timeout. After a change of leader
// all sessions start again, so the worker IDs of dead holders come free later.
//
// Snapshot.Now and Record.Renewed come from the client's clock. So a clock that is ahead
// already at Acquire is not noticed; later leaps are.
//
// # A store that was wiped
//
// If keys are deleted while IDs are being issued, nobody knows any more up to which time
// they were issued. So holders and newcomers get an error that matches [lease.ErrWiped] if
// the key "created" is gone, if a used worker ID has no record, or if keys under used/ were
// deleted. Holders go on to the end of their windows, and newcomers get no worker ID.
//
// [Store.Create] repairs the store: it waits until all windows must have ended, and then
// makes the store whole again. If each process calls Create when it starts, the next start
// ends the outage.
//
// To remove the record of one worker ID, wait until its bound has passed, delete it, and
// call Create.
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
// HAZARD: a store that was wiped has lost the bounds, so Create goes by time instead. A
// newcomer may repeat IDs of a holder whose clock was ahead of the others'. It may repeat
// IDs of live holders if Create is called with a shorter window than the fleet's, or if
// keys are put by hand. [lease.Whois] does not find issuers whose records were wiped.
//
// HAZARD: members that run with --unsafe-no-fsync, or on disks that lose acknowledged
// writes, may forget bounds.
//
// HAZARD: a fleet needs one cluster and one prefix. If it is spread over two, each worker
// ID exists twice. (Two fleets with the same prefix share its worker IDs. This is safe, but
// may exhaust them.)
//
// # Compaction
//
// etcd keeps all versions of all keys unless it is told to compact them. With the default
// window a holder renews once a second, and each renewal adds some 0.8 kB. When the quota
// is full (2 GB by default), no renewal succeeds. Start the members with
// --auto-compaction-mode=periodic --auto-compaction-retention=5m, or similar.
package etcdlease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-5394e6b1/snowflake/internal/newstore"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Options are the settings of New. The zero value consists entirely of defaults, and so
// does nil.
type Options struct {
	// Prefix is the beginning of all keys. All processes that share worker IDs must have
	// the same Prefix. If it does not end with a slash, a slash is added. Empty:
	// "/snowflake/".
	Prefix string
}

// Store is a [lease.Store] in an etcd cluster. It may be used by any number of
// goroutines and leases.
type Store struct {
	client *clientv3.Client
	leases pb.LeaseClient
	prefix string
	now    func() time.Time
	keep   int // how many holdings of a worker ID are kept
	streams
}

var _ lease.Historian = (*Store)(nil)

// New returns the store in the client's cluster; [Store.Create] must have made it there.
// New sends no request: Acquire is the first to fail if the cluster cannot be reached or
// refuses the client. One store can serve any number of leases. Closing the client ends the
// store. If client is nil, the error matches [lease.ErrInvalidOptions].
//
// If the client has a user, the user needs the permission readwrite on all keys with the
// prefix.
//
// Errors name the prefix and the endpoints, or the key. They match etcd's own errors, such
// as rpctypes.ErrPermissionDenied, ErrUserEmpty, ErrNoSpace (the quota is full) and
// ErrNoLeader (a majority is away). If the client has a [Config] of this package and there
// was no connection, they also match the reason, such as syscall.ECONNREFUSED. A value that
// Save cannot have written is a [lease.ErrBadRecord], and is never replaced by a new
// record. A store that was wiped or never created is a [lease.ErrWiped]. If the connection
// breaks, or the cluster has no leader, the error is a [lease.ErrAway], so lease.Acquire asks
// again.
func New(client *clientv3.Client, opts *Options) (*Store, error) {
	if client == nil {
		return nil, fmt.Errorf("etcdlease: %w: the client is nil", lease.ErrInvalidOptions)
	}
	prefix := "/snowflake/"
	if opts != nil && opts.Prefix != "" {
		prefix = strings.TrimSuffix(opts.Prefix, "/") + "/"
	}
	return &Store{
		client: client,
		leases: pb.NewLeaseClient(client.ActiveConnection()),
		prefix: prefix,
		now:    time.Now,
		keep:   maxHistory,
	}, nil
}

// Create makes the store if it does not exist, and repairs a store that was wiped. Call it
// when a fleet is set up, or at each start: if the store is whole, Create does nothing.
//
// If the store does not exist, it may have been wiped, and its holders may issue IDs until
// their windows end. So Create waits for two windows before it makes or repairs a store.
// window is the longest lease.Options.Window of the fleet, or 0 for the default of 3 s. For
// a store that is known to be new, a nanosecond is enough. If window is negative or too
// long, the error matches [lease.ErrInvalidOptions].
func (s *Store) Create(ctx context.Context, window time.Duration) error {
	look := func(ctx context.Context) (string, error) {
		resp, lost, err := s.survey(ctx)
		if err == nil {
			err = s.intact(resp)
		}
		return newstore.Missing(lost, err)
	}
	return s.explain(newstore.Create(ctx, window, look, s.repair))
}

// survey reads what intact needs, and returns the worker IDs that have lost their records.
func (s *Store) survey(ctx context.Context) (resp *clientv3.TxnResponse, lost []int, err error) {
	get := func(kind string) clientv3.Op {
		return clientv3.OpGet(s.prefix+kind, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	}
	resp, err = s.txn(ctx).Then(s.getCreated(), s.countUsed(), get(records), get(used)).Commit()
	if err != nil {
		return nil, nil, err
	}
	has := map[string]bool{}
	for _, kv := range found(resp, 2) {
		has[path.Base(string(kv.Key))] = true
	}
	for _, kv := range found(resp, 3) {
		name := path.Base(string(kv.Key))
		if worker, err := strconv.Atoi(name); err == nil && !has[name] {
			lost = append(lost, worker)
		}
	}
	return resp, lost, nil
}

// repair makes a whole store of the keys that are left. It writes the key "created" last.
func (s *Store) repair(ctx context.Context) error {
	const most = 100 // etcd allows 128 operations in a transaction
	for {
		resp, lost, err := s.survey(ctx)
		if err != nil {
			return err
		}
		if len(lost) == 0 {
			return s.settle(ctx, resp)
		}
		var still []clientv3.Cmp // the transaction fails if another process has repaired it
		var ops []clientv3.Op
		for _, worker := range lost[:min(most, len(lost))] {
			still = append(still, absent(s.key(records, worker)))
			ops = append(ops, clientv3.OpDelete(s.key(used, worker)))
		}
		if _, err := s.txn(ctx).If(still...).Then(ops...).Commit(); err != nil {
			return err
		}
	}
}

// settle makes a store intact, unless another process has done so since resp.
func (s *Store) settle(ctx context.Context, resp *clientv3.TxnResponse) error {
	if err := s.intact(resp); !errors.Is(err, lease.ErrWiped) {
		return err
	}
	var revision, version int64 // 0 if the key does not exist
	for _, kv := range found(resp, 0) {
		revision, version = kv.ModRevision, kv.Version
	}
	_, err := s.txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.prefix+created), "=", revision)).
		Then(s.putCreated(version+1, uses(resp))).Commit()
	return err
}

const (
	created = "created"
	records = "records/"
	alive   = "alive/"
	used    = "used/"
	history = "history/"

	// All keys have this many digits, so that they sort as the worker IDs do.
	digits    = 10
	maxWorker = int64(9_999_999_999)
)

func (s *Store) key(kind string, worker int) string {
	return fmt.Sprintf("%s%s%0*d", s.prefix, kind, digits, worker)
}

// Locate returns the key of a worker ID's record.
func (s *Store) Locate(worker int) string { return s.key(records, worker) }

// Load returns the records, and which holders are alive, at one revision.
func (s *Store) Load(ctx context.Context) (lease.Snapshot, error) {
	return s.load(ctx, func(kind string) clientv3.Op { return clientv3.OpGet(s.prefix+kind, clientv3.WithPrefix()) })
}

// LoadWorker returns the record of one worker ID, if it has one.
func (s *Store) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	return s.load(ctx, func(kind string) clientv3.Op { return clientv3.OpGet(s.key(kind, worker)) })
}

func (s *Store) load(ctx context.Context, get func(kind string) clientv3.Op) (lease.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return lease.Snapshot{}, err
	}
	resp, err := s.txn(ctx).Then(s.getCreated(), s.countUsed(), get(records), get(alive), get(used)).Commit()
	if err == nil {
		err = s.intact(resp)
	}
	if err != nil {
		return lease.Snapshot{}, s.explain(err)
	}
	snap := lease.Snapshot{Now: s.now()}
	tokens := map[string]string{}
	for _, kv := range found(resp, 3) {
		tokens[path.Base(string(kv.Key))] = string(kv.Value)
	}
	there := map[string]bool{}
	for _, kv := range found(resp, 2) {
		r, err := s.decode(kv)
		if err != nil {
			return lease.Snapshot{}, fmt.Errorf("etcdlease: key %s: %w", kv.Key, err)
		}
		name := path.Base(string(kv.Key))
		there[name] = true
		if r.State == lease.Held {
			setAlive(&r, snap.Now, tokens[name] == r.Token)
		}
		snap.Records = append(snap.Records, r)
	}
	for _, kv := range found(resp, 4) {
		if name := path.Base(string(kv.Key)); !there[name] {
			return lease.Snapshot{}, s.explain(gone(s.prefix + records + name))
		}
	}
	return snap, nil
}

// The first save of each worker ID puts a key under used/, and puts the key "created"
// again. So etcd's version of "created" minus the number of keys under used/ never changes;
// this difference is written in "created". If somebody deletes keys under used/, it no
// longer fits, so the store does not look new. The transactions whose answers intact checks
// begin with getCreated and countUsed.

func (s *Store) getCreated() clientv3.Op { return clientv3.OpGet(s.prefix + created) }

func (s *Store) countUsed() clientv3.Op {
	return clientv3.OpGet(s.prefix+used, clientv3.WithPrefix(), clientv3.WithCountOnly())
}

// intact returns lease.ErrWiped if "created", or a key under used/, was deleted.
func (s *Store) intact(resp *clientv3.TxnResponse) error {
	if missing(resp, 0) {
		return fmt.Errorf("%w: there is no key %s%s, so the store was wiped or never created: see Store.Create", lease.ErrWiped, s.prefix, created)
	}
	kv := found(resp, 0)[0]
	_, text, _ := strings.Cut(string(kv.Value), " ")
	want, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: key %s: %w", lease.ErrBadRecord, kv.Key, err)
	}
	if n := kv.Version - uses(resp) - want; n != 0 {
		return fmt.Errorf("%w: %d keys under %s%s were deleted", lease.ErrWiped, n, s.prefix, used)
	}
	return nil
}

func uses(resp *clientv3.TxnResponse) int64 { return resp.Responses[1].GetResponseRange().Count }

// putCreated puts "created"; it will have this version, and uses worker IDs are used.
func (s *Store) putCreated(version, uses int64) clientv3.Op {
	return clientv3.OpPut(s.prefix+created, fmt.Sprintf("%s %d", s.now().UTC().Format(time.RFC3339), version-uses))
}

// found returns the keys that a transaction's i-th operation has read.
func found(resp *clientv3.TxnResponse, i int) []*mvccpb.KeyValue {
	return resp.Responses[i].GetResponseRange().Kvs
}

func missing(resp *clientv3.TxnResponse, i int) bool { return len(found(resp, i)) == 0 }

func absent(key string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
}

func gone(key string) error {
	return fmt.Errorf("%w: key %s is gone", lease.ErrWiped, key)
}

// txn begins a transaction. A member that is cut off from the others is to say so at once.
func (s *Store) txn(ctx context.Context) clientv3.Txn {
	return s.client.Txn(clientv3.WithRequireLeader(ctx))
}

// setAlive sets r.Renewed so that r is live at now if its session is alive, and dead if
// not. The stored time has no say, because it comes from another client's clock.
func setAlive(r *lease.Record, now time.Time, alive bool) {
	switch live := r.Live(now); {
	case alive && !live:
		r.Renewed = now
	case live && !alive:
		r.Renewed = time.Time{}
	}
}

// head is the beginning of a record's value. Save compares it, so that the version is
// stored in one place only.
func head(worker int, version uint64) string {
	return fmt.Sprintf(`{"worker":%d,"version":%d,`, worker, version)
}

func (s *Store) decode(kv *mvccpb.KeyValue) (r lease.Record, err error) {
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

// Save writes r in place of the version before it, and notes whether its holder is alive.
func (s *Store) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	return s.save(ctx, r, r.Version == 1)
}

// save replaces the record, and performs the operations in more in the same transaction.
// For a new holder it begins the session first.
func (s *Store) save(ctx context.Context, r lease.Record, isNew bool, more ...clientv3.Op) (lease.Record, error) {
	r.Renewed = s.now().UTC().Round(0)
	value, err := json.Marshal(r)
	if err != nil {
		return r, fmt.Errorf("etcdlease: %w", err)
	}
	if r.Worker < 0 || int64(r.Worker) > maxWorker || !bytes.HasPrefix(value, []byte(head(r.Worker, r.Version))) {
		return r, fmt.Errorf("etcdlease: %w: worker %d cannot be stored", lease.ErrBadRecord, r.Worker)
	}
	m := move{r: r, value: string(value), more: more}
	m.id, m.ttl = s.session(r)
	if err = rpctypes.ErrLeaseNotFound; !isNew || r.State != lease.Held {
		err = s.write(ctx, m)
	}
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // the holder is new, or was taken for dead
		if err = s.grant(ctx, m.id, m.ttl); err == nil {
			err = s.write(ctx, m)
		}
	}
	return r, s.explain(err)
}

// move is a change of a record, together with the holder's session.
type move struct {
	r     lease.Record
	value string
	more  []clientv3.Op
	id    clientv3.LeaseID
	ttl   int64
}

// write makes the move, and keeps the session alive.
func (s *Store) write(ctx context.Context, m move) error {
	worker := m.r.Worker
	key := s.key(records, worker)
	live := clientv3.OpPut(s.key(alive, worker), m.r.Token, clientv3.WithLease(m.id))
	kept := make(chan error, 1)
	if m.r.State == lease.Held {
		go func() { kept <- s.keepAlive(ctx, m.id) }()
	} else {
		live = clientv3.OpDelete(s.key(alive, worker))
		kept <- nil
	}
	conditions := []clientv3.Cmp{
		clientv3.Compare(clientv3.Value(key), ">", head(worker, m.r.Version-1)),
		clientv3.Compare(clientv3.Value(key), "<", clientv3.GetPrefixRangeEnd(head(worker, m.r.Version-1))),
	}
	ops := []clientv3.Op{clientv3.OpPut(key, m.value), live}
	if m.r.Version == 1 {
		mark := s.key(used, worker)
		there := clientv3.Compare(clientv3.CreateRevision(s.prefix+created), ">", 0)
		conditions = []clientv3.Cmp{absent(key), absent(mark), there}
		ops = append(ops, clientv3.OpPut(mark, ""), clientv3.OpPut(s.prefix+created, "", clientv3.WithIgnoreValue()))
	}
	resp, err := s.txn(ctx).If(conditions...).Then(append(ops, m.more...)...).Else(s.whyNot(worker)...).Commit()
	ended := errors.Is(<-kept, rpctypes.ErrLeaseNotFound)
	switch {
	case err != nil:
		return err
	case !resp.Succeeded:
		return s.refusal(m.r, resp)
	case ended: // the session ended just now, and took the key with it
		if err := s.grant(ctx, m.id, m.ttl); err != nil {
			return err
		}
		_, err = s.txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", m.value)).Then(live).Commit()
	}
	return err
}

// whyNot returns the operations that read what refusal needs; they come first.
func (s *Store) whyNot(worker int) []clientv3.Op {
	return []clientv3.Op{s.getCreated(), s.countUsed(), clientv3.OpGet(s.key(used, worker)), clientv3.OpGet(s.key(records, worker))}
}

// refusal returns why r does not replace the stored record.
func (s *Store) refusal(r lease.Record, resp *clientv3.TxnResponse) error {
	if err := s.intact(resp); err != nil && missing(resp, 3) {
		return err
	}
	if missing(resp, 3) && !missing(resp, 2) {
		return gone(s.key(records, r.Worker))
	}
	return fmt.Errorf("%w: worker %d does not have version %d", lease.ErrConflict, r.Worker, r.Version-1)
}

// session returns the ID and the seconds of the etcd lease of r's holder. The ID follows
// from fields that no two sessions have in common, so it need not be stored.
func (s *Store) session(r lease.Record) (id clientv3.LeaseID, ttl int64) {
	ttl = min(int64((r.Window-1)/time.Second)+1, clientv3.MaxLeaseTTL)
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %s", s.key(alive, r.Worker), ttl, r.Token)
	return clientv3.LeaseID(max(1, h.Sum64()>>1)), ttl
}

func (s *Store) grant(ctx context.Context, id clientv3.LeaseID, ttl int64) error {
	_, err := s.leases.LeaseGrant(clientv3.WithRequireLeader(ctx), &pb.LeaseGrantRequest{ID: int64(id), TTL: ttl}, waitForReady)
	if err = rpctypes.Error(err); errors.Is(err, rpctypes.ErrLeaseExist) {
		return nil // an earlier request began it, and its answer was lost
	}
	return err
}

// explain adds to an error where it comes from.
func (s *Store) explain(err error) error {
	if err == nil || errors.Is(err, lease.ErrInvalidOptions) {
		return err
	}
	// The client may see that time is up before the context does.
	if status.Code(err) == codes.DeadlineExceeded && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	if isUnavailable(err) {
		err = fmt.Errorf("%w: %w", lease.ErrAway, err)
	}
	return fmt.Errorf("etcdlease: %s on %s: %w", s.prefix, strings.Join(s.client.Endpoints(), ","), err)
}

// isUnavailable reports whether the connection broke, or the cluster cannot answer now, for
// example because it has no leader.
func isUnavailable(err error) bool {
	if known := (rpctypes.EtcdError{}); errors.As(err, &known) {
		return known.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}
