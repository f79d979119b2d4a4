package redislease

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/conn"
)

// Options are the settings of New. The zero value, and nil, consist
// entirely of defaults.
type Options struct {
	// Prefix begins the names of all keys: the records are in the hash
	// Prefix+"leases". Fleets with different layouts need different prefixes.
	// All keys of a prefix are in one slot of a cluster. Empty: "snowflake:".
	Prefix string

	// Replicas is how many replicas must have acknowledged a record before Save
	// returns, by WAIT in the same round trip. If fewer do so within half of
	// the time that the caller has left, and within a second, Save fails with an
	// error that matches [ErrReplicas]. 0: none.
	//
	// HAZARD: it is no consensus. What fewer acknowledged is written all the
	// same, and a failover may choose a replica that has not acknowledged.
	Replicas int
}

// ErrNoStore is returned by a Store if its hash is not there: it was never created, or
// it was lost. Redis cannot tell the two apart, so the error matches
// [lease.ErrWiped], too. [Store.Create] makes the hash.
var ErrNoStore error = noStore{}

type noStore struct{}

func (noStore) Error() string {
	return "redislease: there is no store, it was never created or was lost: Create makes it"
}

func (noStore) Is(target error) bool { return target == lease.ErrWiped }

// ErrReplicas is returned by Save when fewer than Options.Replicas replicas
// acknowledged a record in time.
var ErrReplicas = errors.New("redislease: too few replicas acknowledged")

//go:embed load.lua
var loadSource string

//go:embed save.lua
var saveSource string

//go:embed create.lua
var createSource string

var (
	loadScript    = redis.NewScript(loadSource)
	saveScript    = redis.NewScript(saveSource)
	createScript  = redis.NewScript(createSource)
	historyScript = redis.NewScript(`return redis.call('ZRANGE', KEYS[1], 0, -1)`)
)

// Store is a [lease.Store] in keys of Redis. It may be used by any number of
// goroutines and leases.
type Store struct {
	// Of the hash with the records. Its field "created" tells it from a hash that was
	// lost; each other field is a worker ID, and has the record's version, the
	// server's time of the save in seconds, and the record in JSON.
	key      conn.Key
	used     string // the key of a set: the worker IDs that ever had a record
	replicas int

	mu   sync.Mutex
	read map[string]parsed // by field, up to maxRead
}

var _ lease.Historian = (*Store)(nil)

// parsed is a record that was read. Where many holders share a store, most of
// what one of them loads was read by another.
type parsed struct {
	value  string
	record lease.Record
}

const maxRead = 4096

// New returns a store that keeps its records in one hash of Redis, and what was
// replaced in a sorted set for each worker ID. It does not talk to Redis;
// [Store.Create] must have made the store.
//
// The client is the caller's, who may use it for other things and closes it when
// all leases have ended. It is a *redis.key.Client (of NewFailoverClient, too) or a
// *redis.ClusterClient, whose ContextTimeoutEnabled must be true: else a server
// that hangs would keep its connections busy for longer than a renewal may take.
//
// New returns an error that matches [lease.ErrInvalidOptions] for any other client,
// such as nil, a type that has one of the two within, or a *redis.Ring, which moves
// keys when a shard fails, and for options that are out of their range.
func New(client redis.UniversalClient, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = conn.DefaultPrefix
	}
	s := &Store{
		key:      conn.Key{Package: "redislease", Name: o.Prefix + "leases", Client: client},
		replicas: o.Replicas,
		read:     map[string]parsed{},
	}
	s.used = s.companion("used")
	if err := s.key.Check(); err != nil {
		return nil, err
	}
	if o.Replicas < 0 {
		return nil, fmt.Errorf("redislease: %w: Replicas %d is negative", lease.ErrInvalidOptions, o.Replicas)
	}
	if hashTag(s.used) != hashTag(s.key.Name) {
		return nil, fmt.Errorf("redislease: %w: Prefix %q has braces, but not a hash tag", lease.ErrInvalidOptions, o.Prefix)
	}
	return s, nil
}

// companion names another key, in the same slot of a cluster.
func (s *Store) companion(what string) string {
	prefix := strings.TrimSuffix(s.key.Name, "leases")
	return prefix + "{" + s.key.Name + "}:" + what
}

func (s *Store) historyOf(worker int) string { return s.companion("history:" + strconv.Itoa(worker)) }

// hashTag returns the part of a key that decides on its slot.
func hashTag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// Create makes the store if it is not there, and repairs a store that has lost
// records. Call it when a fleet is set up, or at each start: if the store is whole it
// does nothing. Any number of processes may do so at once.
//
// A store that is not there may be one that was lost, and then there may be holders
// that issue IDs until their windows end. So Create waits for two windows before it
// makes or repairs a store. Give it the longest lease.Options.Window of the fleet, up
// to 146 years, or 0 for the default of 3 s. For a store that is known to be new, a
// nanosecond does. A window that is negative or longer gives an error that matches
// [lease.ErrInvalidOptions].
func (s *Store) Create(ctx context.Context, window time.Duration) error {
	const poll, maxWindow = 100 * time.Millisecond, time.Duration(math.MaxInt64) / 2
	if window < 0 || window > maxWindow {
		return fmt.Errorf("redislease: %w: the window %v is not within 0 to %v", lease.ErrInvalidOptions, window, maxWindow)
	}
	if window == 0 {
		window = 3 * time.Second
	}
	for begun, how := time.Now(), "look"; ; {
		state, err := conn.Call(ctx, s.key, func() (string, error) {
			return createScript.Run(ctx, s.key.Client, []string{s.key.Name, s.used}, how).Text()
		})
		if err != nil || state == "whole" {
			return s.key.Wrap(err)
		}
		wait := 2*window - time.Since(begun)
		if wait <= 0 {
			how = "repair"
			continue
		}
		select {
		case <-time.After(min(wait, poll)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Locate returns where a worker ID's record is.
func (s *Store) Locate(worker int) string {
	return fmt.Sprintf("field %d of hash %q of %s", worker, s.key.Name, s.key.Address())
}

// Load returns all records. Errors match [ErrNoStore], [lease.ErrWiped],
// [lease.ErrBadRecord] or the context's error, or are the client's.
func (s *Store) Load(ctx context.Context) (lease.Snapshot, error) { return s.load(ctx) }

// LoadWorker returns the record of one worker ID, if there is one. Errors are
// those of Load.
func (s *Store) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	return s.load(ctx, strconv.Itoa(worker))
}

func (s *Store) load(ctx context.Context, worker ...any) (lease.Snapshot, error) {
	snap := lease.Snapshot{OwnClock: true}
	reply, err := s.run(ctx, loadScript, []string{s.key.Name, s.used}, worker...)
	if err != nil {
		return lease.Snapshot{}, err
	}
	if reply[0] != "loaded" {
		return lease.Snapshot{}, s.lost(reply)
	}
	if snap.Now, err = parseTime(reply[1]); err != nil {
		return lease.Snapshot{}, s.key.Wrap(err)
	}
	for i := 2; i+1 < len(reply); i += 2 {
		r, err := s.decode(reply[i], reply[i+1])
		if err != nil {
			return lease.Snapshot{}, s.key.Wrap(fmt.Errorf("field %q: %w", reply[i], err))
		}
		snap.Records = append(snap.Records, r)
	}
	return snap, nil
}

// lost is the error of a script that returned {'missing'} or {'wiped', worker}.
func (s *Store) lost(reply []string) error {
	if reply[0] == "wiped" {
		return s.key.Wrap(fmt.Errorf("%w: field %q was used, and is not there", lease.ErrWiped, reply[1]))
	}
	return s.key.Wrap(ErrNoStore)
}

// Save writes r in place of the version before it. Errors match
// [lease.ErrConflict], [lease.ErrBadRecord], [lease.ErrWiped], [ErrNoStore],
// [ErrReplicas] or the context's error, or are the client's.
func (s *Store) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	return s.save(ctx, r, []string{s.key.Name, s.used})
}

// SaveEnding is Save, and in the same script it keeps ended in the history of
// r.Worker and drops from that history what ended before forget. Errors are those
// of Save.
func (s *Store) SaveEnding(ctx context.Context, r lease.Record, ended lease.Holding, forget time.Time) (lease.Record, error) {
	b, err := json.Marshal(ended)
	if err != nil {
		return r, s.key.Wrap(err)
	}
	return s.save(ctx, r, []string{s.key.Name, s.used, s.historyOf(r.Worker)}, holdingID(ended), sortable(ended.To), string(b), sortable(forget))
}

func (s *Store) save(ctx context.Context, r lease.Record, keys []string, ending ...any) (lease.Record, error) {
	text, err := encode(r)
	if err != nil {
		return r, s.key.Wrap(err)
	}
	worker, version := strconv.Itoa(r.Worker), strconv.FormatUint(r.Version, 10)
	args := append([]any{worker, strconv.FormatUint(r.Version-1, 10), version, text}, ending...)
	reply, err := s.run(ctx, saveScript, keys, args...)
	if err != nil {
		return r, err
	}
	switch reply[0] {
	case "saved":
		if r.Renewed, err = parseTime(reply[1]); err != nil {
			return r, s.key.Wrap(err)
		}
		return r, nil
	case "conflict":
		return r, fmt.Errorf("redislease: %w: worker %s has version %s, not that before %s", lease.ErrConflict, worker, reply[1], version)
	case "unreadable":
		return r, s.key.Wrap(fmt.Errorf("field %q: %w", worker, errText))
	}
	return r, s.lost(reply)
}

// run runs a script, and returns soon after ctx is done at the latest.
func (s *Store) run(ctx context.Context, script *redis.Script, keys []string, args ...any) ([]string, error) {
	reply, err := conn.Call(ctx, s.key, func() ([]string, error) { return s.send(ctx, script, keys, args) })
	return reply, s.key.Wrap(err)
}

// send runs a script, and for one that saves waits for the replicas.
func (s *Store) send(ctx context.Context, script *redis.Script, keys []string, args []any) ([]string, error) {
	if s.replicas == 0 || script != saveScript {
		return script.Run(ctx, s.key.Client, keys, args...).StringSlice()
	}
	node := redis.Cmdable(s.key.Client)
	cluster, ok := s.key.Client.(*redis.ClusterClient)
	if ok { // WAIT has no key, and would go to any node
		master, err := cluster.MasterForKey(ctx, s.key.Name)
		if err != nil {
			return nil, err
		}
		node = master
	}
	var saved *redis.Cmd
	var acknowledged *redis.Cmd
	wait := patience(ctx)
	pipeline := func(eval func(redis.Pipeliner) *redis.Cmd) {
		// Its error is that of one of the two.
		_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error {
			saved, acknowledged = eval(p), p.Do(ctx, "WAIT", s.replicas, wait.Milliseconds())
			return nil
		})
	}
	pipeline(func(p redis.Pipeliner) *redis.Cmd { return script.EvalSha(ctx, p, keys, args...) })
	if redis.HasErrorPrefix(saved.Err(), "NOSCRIPT") {
		pipeline(func(p redis.Pipeliner) *redis.Cmd { return script.Eval(ctx, p, keys, args...) })
	}
	reply, err := saved.StringSlice()
	switch n, failed := acknowledged.Int(); {
	case err != nil:
		if ok && redis.HasErrorPrefix(err, "MOVED") {
			cluster.ReloadState(ctx)
		}
		return nil, err
	case reply[0] != "saved":
		return reply, nil
	case failed != nil:
		return nil, failed
	case n < s.replicas:
		return nil, fmt.Errorf("%w: %d of %d within %v", ErrReplicas, n, s.replicas, wait)
	}
	return reply, nil
}

// patience is how long to wait for replicas.
func patience(ctx context.Context) time.Duration {
	wait := time.Second
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	return max(wait, time.Millisecond) // 0 would be for ever
}

var errText = fmt.Errorf("%w: it is not a version, a time and JSON", lease.ErrBadRecord)

// text is a record as it is written: the time of its save stands before it.
type text struct {
	lease.Record
	Renewed *struct{} `json:"renewed,omitempty"`
}

func encode(r lease.Record) (string, error) {
	b, err := json.Marshal(text{Record: r})
	return string(b), err
}

// decode is decode, once for each value of a field.
func (s *Store) decode(field, value string) (lease.Record, error) {
	s.mu.Lock()
	p, known := s.read[field]
	full := len(s.read) >= maxRead
	s.mu.Unlock()
	if !known || p.value != value {
		r, err := decode(field, value)
		if err != nil {
			return r, err
		}
		p = parsed{value, r}
		if known || !full {
			s.mu.Lock()
			s.read[field] = p
			s.mu.Unlock()
		}
	}
	p.record.Bounds = slices.Clone(p.record.Bounds)
	return p.record, nil
}

func decode(worker, value string) (lease.Record, error) {
	version, rest, _ := strings.Cut(value, " ")
	renewed, body, ok := strings.Cut(rest, " ")
	if !ok {
		return lease.Record{}, errText
	}
	var t text
	if err := json.Unmarshal([]byte(body), &t); err != nil {
		return t.Record, fmt.Errorf("%w: %w", lease.ErrBadRecord, err)
	}
	r := t.Record
	var err error
	if r.Renewed, err = parseTime(renewed); err != nil {
		return r, err
	}
	if version != strconv.FormatUint(r.Version, 10) || worker != strconv.Itoa(r.Worker) {
		return r, fmt.Errorf("%w: version %s before that of worker %d, version %d", lease.ErrBadRecord, version, r.Worker, r.Version)
	}
	return r, r.Validate()
}

// parseTime reads seconds and microseconds.
func parseTime(s string) (time.Time, error) {
	sec, micro, _ := strings.Cut(s, ".")
	a, err := strconv.ParseInt(sec, 10, 64)
	b, err2 := strconv.ParseInt(micro, 10, 64)
	if err = errors.Join(err, err2); err != nil || len(micro) != 6 || b < 0 {
		return time.Time{}, fmt.Errorf("%w: %q is not a time", lease.ErrBadRecord, s)
	}
	return time.Unix(a, b*1000).UTC(), nil
}
