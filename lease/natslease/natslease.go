// Package natslease leases worker IDs from a key-value bucket of NATS JetStream.
//
//	conn, err := natslease.Connect("nats://10.0.0.1,nats://10.0.0.2,nats://10.0.0.3")
//	...
//	store, err := natslease.New(conn, nil)
//	...
//	l, err := lease.Acquire(ctx, store, nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// It works with nats-server 2.11 and later, with JetStream. Use [Connect]: with the client's
// defaults, holders take minutes to notice a dead connection, and after two minutes without a
// server the client gives up permanently.
//
// # Storage
//
// The store creates the bucket "snowflake", with three replicas if the server belongs to a cluster.
// An entry is a key: worker/3 is the key worker.3. Its version is the key's revision. A renewal is
// one request, in which the server compares the revision.
//
//   - The first revision of a bucket is a random number, so revisions do not repeat if the bucket
//     is deleted and created again. A bucket created otherwise (nats kv add) is refused.
//   - The bucket keeps one revision of a key, on disk, without a limit for age or size. With an age
//     limit, the record of a worker ID could disappear while its window is open. Each process
//     checks the settings once a minute. If they were changed, renewals fail, with errors that list
//     the settings to restore.
//   - A deletion replaces the entry by a marker, which the server removes after an hour.
//   - A read first writes to a key whose name ends with =read, and accepts only a reply with this
//     write. A write needs a majority, but any server of a cluster may answer a read, even one that
//     lags, was cut off or was paused. So readers need the right to write, and reads fail without a
//     majority.
//   - NATS does not return the time of storing with the revision. So entries have no times, and a
//     process that waits for a dead holder's worker ID measures the window.
//
// # Rights
//
// If users have permissions, a process needs these: to publish to $KV.snowflake.>,
// $JS.API.STREAM.INFO.KV_snowflake, $JS.API.STREAM.CREATE.KV_snowflake and
// $JS.API.DIRECT.GET.KV_snowflake, and to subscribe to _INBOX.>.
//
// # Hazards
//
// In a cluster, NATS acknowledges a write after a majority of the replicas has it, so bounds
// survive the crash of a server and a failover, but not the following.
//
// HAZARD: by default NATS syncs its files every two minutes. If a single server loses power, up to
// two minutes of bounds are lost, and IDs may repeat. This is also true for one server of a cluster
// if another replica lags, because it was paused or cut off
// (https://jepsen.io/analyses/nats-2.12.1). Set sync_interval: always in the block jetstream. (A
// server process that is killed loses nothing.)
//
// Even with sync_interval: always, a server that loses power may lose a bucket's file meta.inf or
// meta.sum. nats-server 2.14 then starts without the bucket, or loses it at the next start. Leases
// recover from this as from any store that was wiped: no entry and no revision repeats.
//
// HAZARD: if a server has lost only the files of a bucket's messages, its revisions start again
// from the bucket's first one. Delete such a bucket (nats kv del snowflake) before the holders
// reach the server.
//
// HAZARD: Jepsen also found that nats-server 2.12.1 loses acknowledged writes if a file is damaged
// on a minority of the servers, or if servers are removed from the cluster while others are cut
// off. Before you remove a server, or start one whose disk was damaged, stop all holders, as before
// a restore.
//
// HAZARD: a restore from a backup restores the backup's bounds and revisions, so IDs may repeat.
// Stop all holders before you restore. Start holders again only when the clock is past the last
// bound, a window after the last holder stopped.
//
// HAZARD: a fleet needs one bucket in one account. If it is spread over two, each worker ID exists
// twice. (Two fleets with one bucket share its worker IDs. This is safe, but may exhaust them.)
package natslease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// DefaultWindow is the window of leases whose Options.Window is 0. It is longer than an election of
// NATS, which takes 4 to 12 s, or a restart of a server.
const DefaultWindow = 30 * time.Second

// Options holds the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	// Bucket is the name of the bucket: 1 to 100 letters, digits, '-' and '_'. All processes that
	// share worker IDs must have the same Bucket. The default is "snowflake".
	Bucket string

	// Replicas is the number of the bucket's replicas, if the store creates the bucket: 1 to 5. The
	// default is 3 if the server that answers belongs to a cluster, and 1 otherwise.
	Replicas int
}

// Store is a [driver.Store] in a bucket of JetStream. It may be used by any number of goroutines
// and leases.
type Store struct {
	js       jetstream.JetStream
	bucket   string
	replicas int
	found    atomic.Pointer[bucket] // the bucket, or nil if it must be looked up
}

// bucket is a bucket whose settings were checked.
type bucket struct {
	kv jetstream.KeyValue
	at time.Time // of the check
}

var _ driver.Windower = (*Store)(nil)

var goodBucket = regexp.MustCompile(`^[-_0-9A-Za-z]{1,100}$`)

// New returns a store in the account of the connection. It sends no request. The caller must close
// the connection, after all leases have ended. If conn is nil or an option is out of range, the
// error matches [driver.ErrInvalidOptions].
//
// The store's errors name the key, the bucket and the server, and match errors of packages nats and
// jetstream. An error matches [driver.ErrAway] if the connection broke, the bucket has no leader,
// there is no space, or the bucket's settings were changed, and [driver.ErrInvalidOptions] if the
// bucket was not created by this package.
func New(conn *nats.Conn, opts *Options) (*Store, error) {
	if conn == nil {
		return nil, fmt.Errorf("natslease: %w: the connection is nil", driver.ErrInvalidOptions)
	}
	o := *cmp.Or(opts, new(Options))
	o.Bucket = cmp.Or(o.Bucket, "snowflake")
	if !goodBucket.MatchString(o.Bucket) {
		return nil, fmt.Errorf("natslease: %w: the bucket %q is not 1 to 100 letters, digits, '-' and '_'",
			driver.ErrInvalidOptions, o.Bucket)
	}
	if o.Replicas < 0 || o.Replicas > 5 {
		return nil, fmt.Errorf("natslease: %w: %d replicas, not 0 to 5", driver.ErrInvalidOptions, o.Replicas)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("natslease: %w", err)
	}
	return &Store{js: js, bucket: o.Bucket, replicas: o.Replicas}, nil
}

// DefaultWindow returns [DefaultWindow].
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

// toNATS and fromNATS convert keys. The parts of NATS's keys are separated by dots.
var toNATS, fromNATS = strings.NewReplacer("/", ".", ".", "_"), strings.NewReplacer(".", "/", "_", ".")

// barrier is the suffix of the keys that reads write to. Entries' keys do not contain '='.
const barrier = "=read"

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, key string) (e driver.Entry, err error) {
	err = s.do(ctx, key, answerTime, func(ctx context.Context, kv jetstream.KeyValue) error {
		e, _, err = s.get(ctx, kv, key)
		return err
	})
	return e, err
}

// get returns the entry of key, and the key's revision, which is needed to create an entry after a
// deletion.
func (s *Store) get(ctx context.Context, kv jetstream.KeyValue, key string) (e driver.Entry, revision uint64, err error) {
	all, err := s.read(ctx, kv, "", func(uint64) any {
		return map[string][]string{"multi_last": {s.subject(barrier), s.subject(toNATS.Replace(key))}}
	})
	if m, ok := all[key]; ok && err == nil {
		if revision = sequence(m); !isDeletion(m) {
			return entry(key, m), revision, nil
		}
	}
	return driver.Entry{Key: key}, revision, err
}

// page is the number of keys in a request of List.
const page = 250

// List implements [driver.Store].
func (s *Store) List(ctx context.Context, prefix string) (entries []driver.Entry, err error) {
	folder := toNATS.Replace(prefix[:strings.LastIndexByte(prefix, '/')+1])
	// No key has an empty part, and NATS would refuse the folder.
	if strings.Contains("/"+prefix, "//") {
		folder = ""
	}
	err = s.do(ctx, prefix, listTime, func(ctx context.Context, kv jetstream.KeyValue) error {
		// Messages are sorted by revision. An entry that changes during the list gets a higher
		// revision and is listed again, so none is missed.
		all, err := s.read(ctx, kv, folder, func(from uint64) any {
			return map[string]any{"next_by_subj": s.subject(folder + ">"), "seq": from, "batch": page}
		})
		for key, m := range all {
			if strings.HasPrefix(key, prefix) && !isDeletion(m) {
				entries = append(entries, entry(key, m))
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// Put implements [driver.Store].
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	e := driver.Entry{Key: key, Value: value}
	err := s.do(ctx, key, answerTime, func(ctx context.Context, kv jetstream.KeyValue) error {
		revision := uint64(0) // there is no entry
		if old != "" {
			revision = parse(old)
		}
		stored, err := kv.Update(ctx, toNATS.Replace(key), value, revision)
		for old == "" && isStale(err) { // the key may have the marker of a deletion
			var is driver.Entry
			var failed error
			if is, revision, failed = s.get(ctx, kv, key); failed != nil {
				return failed
			} else if is.Version != "" {
				return err
			}
			stored, err = kv.Update(ctx, toNATS.Replace(key), value, revision)
		}
		e.Version = strconv.FormatUint(stored, 10)
		return err
	})
	if err != nil {
		return driver.Entry{}, err
	}
	return e, nil
}

// markerAge is the age at which the server removes the marker of a deletion.
const markerAge = time.Hour

// Delete implements [driver.Store].
func (s *Store) Delete(ctx context.Context, key, old string) error {
	return s.do(ctx, key, answerTime, func(ctx context.Context, kv jetstream.KeyValue) error {
		return kv.Purge(ctx, toNATS.Replace(key), jetstream.LastRevision(parse(old)), jetstream.PurgeTTL(markerAge))
	})
}

// parse returns the revision of a version. For a text that is not a version, it returns a revision
// that no key reaches.
func parse(version string) uint64 {
	revision, err := strconv.ParseUint(version, 10, 64)
	if err != nil || strconv.FormatUint(revision, 10) != version || revision == 0 {
		return 1 << 62
	}
	return revision
}

// read returns the last message of each key that a request selects. The request is repeated for
// each page, from the revision after the last one.
//
// Before each page, read writes to a key in folder. If the last page contains this write or a later
// one, the server that sent it has everything stored earlier. Otherwise read starts again.
func (s *Store) read(
	ctx context.Context, kv jetstream.KeyValue, folder string, request func(from uint64) any,
) (map[string]*nats.Msg, error) {
	all, from := map[string]*nats.Msg{}, uint64(1)
	for {
		written, messages, more, err := s.page(ctx, kv, folder+barrier, request(from))
		if err != nil {
			return nil, err
		}
		isFresh := false
		for _, m := range messages {
			key := strings.TrimPrefix(m.Header.Get(jetstream.SubjectHeader), s.subject(""))
			isFresh = isFresh || key == folder+barrier && sequence(m) >= written
			if !strings.HasSuffix(key, barrier) {
				all[fromNATS.Replace(key)] = m
			}
			from = max(from, sequence(m)+1)
		}
		switch {
		case isFresh && !more:
			return all, nil
		case !more:
			clear(all)
			from = 1
		}
	}
}

// page writes to a key, and then sends a request. If a reply is lost, page gives up soon, and do
// tries again.
func (s *Store) page(
	ctx context.Context, kv jetstream.KeyValue, key string, request any,
) (written uint64, messages []*nats.Msg, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if written, err = kv.Put(ctx, key, nil); err == nil {
		messages, more, err = s.ask(ctx, request)
	}
	return written, messages, more, err
}

// ask sends a request to a server that has the bucket, and returns the messages of the reply. more
// reports whether there are more messages.
func (s *Store) ask(ctx context.Context, request any) (messages []*nats.Msg, more bool, err error) {
	conn := s.js.Conn()
	answer, err := conn.SubscribeSync(conn.NewInbox())
	if err != nil {
		return nil, false, err
	}
	defer answer.Unsubscribe()
	body, err := json.Marshal(request)
	if err == nil {
		err = conn.PublishRequest("$JS.API.DIRECT.GET.KV_"+s.bucket, answer.Subject, body)
	}
	for last := "0"; err == nil; {
		m, failed := answer.NextMsgWithContext(ctx)
		if failed != nil {
			return nil, false, failed
		}
		status := m.Header.Get("Status")
		switch {
		case status == "404": // the server has no such message, perhaps because it lags
			return nil, false, nil
		case status != "" && status != "204":
			return nil, false, fmt.Errorf("%w: status %s, %s", driver.ErrAway, status, m.Header.Get("Description"))
		case m.Header.Get(jetstream.LastSequenceHeader) != last:
			return nil, false, fmt.Errorf("%w: a part of the reply was lost", driver.ErrAway)
		case status != "":
			return messages, m.Header.Get("Nats-Num-Pending") != "0", nil
		}
		messages, last = append(messages, m), m.Header.Get(jetstream.SequenceHeader)
	}
	return nil, false, err
}

func (s *Store) subject(key string) string { return "$KV." + s.bucket + "." + key }

// sequence returns the revision of a message.
func sequence(m *nats.Msg) uint64 {
	n, _ := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64) // the server wrote it
	return n
}

// isDeletion reports whether a message is the marker of a deletion.
func isDeletion(m *nats.Msg) bool {
	return m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != ""
}

func entry(key string, m *nats.Msg) driver.Entry {
	return driver.Entry{Key: key, Version: m.Header.Get(jetstream.SequenceHeader), Value: m.Data}
}

// A server that loses its leadership does not answer the requests that it has. These are the time
// limits of Get, Put and Delete, and of List.
var answerTime, listTime = 5 * time.Second, time.Minute // shorter in tests

// do calls f with the bucket. While no server answers for the bucket, do looks it up again, and
// creates it if it does not exist. A new bucket may not be known everywhere yet, a bucket has no
// leader during an election, and a server may refuse a request that it can execute soon. None of
// these requests was executed, so do repeats them.
func (s *Store) do(ctx context.Context, key string, limit time.Duration, f func(context.Context, jetstream.KeyValue) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, end := s.untilBroken(ctx, limit)
	defer end()
	var refusal error // of the last try
	for {
		kv, err := s.open(ctx)
		if err == nil {
			err = f(ctx, kv)
		}
		over := ctx.Err() != nil
		if over && refusal != nil && err != nil {
			err = fmt.Errorf("%w: %w", refusal, err)
		}
		switch {
		case !over && (passes(err) || errors.Is(err, jetstream.ErrNoStreamResponse)):
			refusal = err
		case over || !errors.Is(err, context.DeadlineExceeded):
			return s.explain(ctx, key, err) // other deadlines are those of soon and page
		}
		s.found.Store(nil)
		time.Sleep(answerTime / 100)
	}
}

// lookEvery is the interval between checks of the bucket's settings.
var lookEvery = time.Minute // shorter in tests

// open returns the bucket, looking it up if the last check is older than lookEvery.
func (s *Store) open(ctx context.Context) (jetstream.KeyValue, error) {
	if b := s.found.Load(); b != nil && time.Since(b.at) < lookEvery {
		return b.kv, nil
	}
	at := time.Now()
	kv, err := s.find(ctx)
	if err == nil {
		s.found.Store(&bucket{kv, at})
	}
	return kv, err
}

// noPeers is the error code of a server that does not see enough servers of its cluster to create a
// bucket.
const noPeers = 10005

// passes reports whether the server can execute the request soon: it does not know a new bucket
// yet, or the servers for it.
func passes(err error) bool {
	api := new(jetstream.APIError)
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) ||
		errors.As(err, &api) && api.ErrorCode == noPeers
}

// soon sends one request with a short deadline, because requests may get no reply while the bucket
// is being created.
func soon[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime/5)
	defer cancel()
	return request(ctx)
}

// find looks up the bucket, and creates it if it does not exist.
func (s *Store) find(ctx context.Context) (jetstream.KeyValue, error) {
	look := func(ctx context.Context) (jetstream.Stream, error) { return s.js.Stream(ctx, "KV_"+s.bucket) }
	stream, err := soon(ctx, look)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = soon(ctx, func(ctx context.Context) (jetstream.Stream, error) { return s.js.CreateStream(ctx, s.config()) })
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process has created it
			stream, err = soon(ctx, look)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := check(stream.CachedInfo().Config); err != nil {
		return nil, err
	}
	return soon(ctx, func(ctx context.Context) (jetstream.KeyValue, error) { return s.js.KeyValue(ctx, s.bucket) })
}

// check returns an error if the settings of a bucket are wrong.
func check(has jetstream.StreamConfig) error {
	if has.FirstSeq < 2 || has.Storage != jetstream.FileStorage || has.Mirror != nil || len(has.Sources) > 0 {
		return fmt.Errorf("%w: the bucket was not created by this package, and cannot be used. If no process has a worker ID of it, delete it, "+
			"and the store creates it. Otherwise do not: IDs may repeat", driver.ErrInvalidOptions)
	}
	var wrong []string
	for _, setting := range []struct {
		name      string
		has, want any
	}{
		{"max_msgs_per_subject", has.MaxMsgsPerSubject, int64(1)},
		{"max_age", has.MaxAge, time.Duration(0)},
		{"max_msgs", max(has.MaxMsgs, -1), int64(-1)},
		{"max_bytes", max(has.MaxBytes, -1), int64(-1)},
		{"allow_direct", has.AllowDirect, true},
		{"allow_msg_ttl", has.AllowMsgTTL, true},
		{"allow_rollup_hdrs", has.AllowRollup, true},
	} {
		if setting.has != setting.want {
			wrong = append(wrong, fmt.Sprintf("%s is %v, not %v", setting.name, setting.has, setting.want))
		}
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("%w: the settings of the bucket's stream were changed: %s: set them back, with nats stream edit. "+
		"Do not delete the bucket while a process has a worker ID of it: IDs may repeat", driver.ErrAway, strings.Join(wrong, "; "))
}

// config returns the configuration of a new bucket.
func (s *Store) config() jetstream.StreamConfig {
	replicas := s.replicas
	if replicas == 0 {
		replicas = 1
		if s.js.Conn().ConnectedClusterName() != "" {
			replicas = 3
		}
	}
	return jetstream.StreamConfig{
		Name:              "KV_" + s.bucket,
		Subjects:          []string{s.subject(">")},
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardNew,
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		AllowRollup:       true,
		DenyDelete:        true,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		FirstSeq:          2 + rand.Uint64N(1<<52), // tools in JavaScript are exact up to 2^53
	}
}

// noSpace has the error codes for the account's limits of space and streams. The codes for a full
// disk have an HTTP status of 500 or more.
var noSpace = []jetstream.ErrorCode{10002, 10027}

// isStale reports whether the server refused a write because the revision is not the key's last. In
// a cluster the code is another one. (Old clients have no jetstream.ErrKeyRevisionMismatch.)
func isStale(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == 10071 || api.ErrorCode == 10164)
}

// explain adds the key, the bucket and the server to an error, and makes it match an error of
// package driver.
func (s *Store) explain(ctx context.Context, key string, err error) error {
	conn, api := s.js.Conn(), new(jetstream.APIError)
	switch {
	case err == nil:
		return nil
	case isStale(err):
		err = driver.ErrConflict
	case passes(err):
		err = fmt.Errorf("%w: %w", driver.ErrAway, err)
	case errors.Is(context.Cause(ctx), errBroken), errors.Is(context.Cause(ctx), errNoAnswer):
		err = fmt.Errorf("%w: %w", driver.ErrAway, context.Cause(ctx))
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.As(err, &api) && (api.Code >= 500 || slices.Contains(noSpace, api.ErrorCode)):
		err = fmt.Errorf("%w: %w", driver.ErrAway, err)
	}
	if cause := trouble(conn); cause != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	place := key + " in bucket " + s.bucket
	if url := conn.ConnectedUrlRedacted(); url != "" {
		place += " on " + url
	}
	return fmt.Errorf("natslease: key %s: %w", place, err)
}
