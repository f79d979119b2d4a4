package redislease

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake/internal/newstore"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/conn"
)

// Options are the settings of New. The zero value consists entirely of defaults, and so
// does nil.
type Options struct {
	// Prefix is the beginning of all keys' names: the records are in the hash
	// Prefix+"leases". Fleets with different layouts need different prefixes. All keys of a
	// prefix are in one slot of a cluster. Empty: "snowflake:".
	Prefix string

	// Replicas is how many replicas must have acknowledged a record before Save returns it,
	// or Load, by WAIT in the same round trip. If fewer do so within half of the caller's
	// remaining time, and within a second, the error matches [ErrReplicas]. A record that
	// fewer replicas acknowledged is written all the same, but no lease uses it until enough
	// have. 0: nothing waits for replicas.
	//
	// HAZARD: this is no consensus. A failover may choose a replica that has not
	// acknowledged the record.
	Replicas int
}

// ErrNoStore is returned by a Store if its hash does not exist: it was never created, or it
// was lost. Redis cannot tell the two apart, so the error also matches [lease.ErrWiped].
// [Store.Create] makes the hash.
var ErrNoStore error = noStore{}

type noStore struct{}

func (noStore) Error() string {
	return "redislease: there is no store: it was never created, or it was lost; Create makes it"
}

func (noStore) Is(target error) bool { return target == lease.ErrWiped }

// ErrReplicas is returned by Save and Load if fewer than Options.Replicas replicas
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
	// key is the hash with the records. Its field "created" shows that the hash was not
	// lost. Each other field is a worker ID, and has the record's version, the server's
	// time of the save in seconds, and the record as JSON.
	key      conn.Key
	used     string // the key of the set of the worker IDs that ever had a record
	replicas int

	mu   sync.Mutex
	read map[string]parsed // by field, up to maxRead
}

var _ lease.Historian = (*Store)(nil)

// parsed is a record that was read. If many holders share a Store, most records that one of
// them loads were read by another before.
type parsed struct {
	value  string
	record lease.Record
}

const maxRead = 4096

// New returns a store that keeps its records in one hash of Redis, and the earlier holders
// in a sorted set for each worker ID. [Store.Create] must have made the store. New does not
// talk to Redis.
//
// client must be a *redis.Client (also from NewFailoverClient) or a *redis.ClusterClient,
// and its ContextTimeoutEnabled must be true: otherwise a server that hangs would keep its
// connections busy for longer than a renewal may take. The caller may use it for other
// things, and closes it after all leases have ended.
//
// The error matches [lease.ErrInvalidOptions] for any other client, such as nil, a type
// that embeds one of the two, or a *redis.Ring, which moves keys when a shard fails; and
// for options that are out of their range.
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

// companion returns the name of another key in the same slot of a cluster.
func (s *Store) companion(what string) string {
	prefix := strings.TrimSuffix(s.key.Name, "leases")
	return prefix + "{" + s.key.Name + "}:" + what
}

func (s *Store) historyOf(worker int) string { return s.companion("history:" + strconv.Itoa(worker)) }

// hashTag returns the part of a key that decides its slot.
func hashTag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// Create makes the store if it does not exist, and repairs a store that has lost records.
// Call it when a fleet is set up, or at each start: if the store is whole, Create does
// nothing. Any number of processes may call it at once.
//
// If the store does not exist, it may have been lost, and its holders may issue IDs until
// their windows end. So Create waits for two windows before it makes or repairs a store.
// window is the longest lease.Options.Window of the fleet, up to 146 years, or 0 for the
// default of 3 s. For a store that is known to be new, a nanosecond is enough. If window is
// negative or longer, the error matches [lease.ErrInvalidOptions].
func (s *Store) Create(ctx context.Context, window time.Duration) error {
	look := func(ctx context.Context) (string, error) { return s.create(ctx, "look") }
	repair := func(ctx context.Context) error {
		_, err := s.create(ctx, "repair")
		return err
	}
	return s.key.Wrap(newstore.Create(ctx, window, look, repair))
}

// create looks at the store, or repairs it, and returns what is missing.
func (s *Store) create(ctx context.Context, how string) (missing string, err error) {
	return conn.Call(ctx, s.key, func() (string, error) {
		return createScript.Run(ctx, s.key.Client, []string{s.key.Name, s.used}, how).Text()
	})
}

// Locate returns the place of a worker ID's record.
func (s *Store) Locate(worker int) string {
	return fmt.Sprintf("field %d of hash %q of %s", worker, s.key.Name, s.key.Address())
}

// Load returns all records. Errors match [ErrNoStore], [lease.ErrWiped],
// [lease.ErrBadRecord], [ErrReplicas] or the context's error, or are the client's.
func (s *Store) Load(ctx context.Context) (lease.Snapshot, error) { return s.load(ctx) }

// LoadWorker returns the record of one worker ID, if it has one. Errors are as for Load.
func (s *Store) LoadWorker(ctx context.Context, worker int) (lease.Snapshot, error) {
	return s.load(ctx, strconv.Itoa(worker))
}

func (s *Store) load(ctx context.Context, worker ...any) (lease.Snapshot, error) {
	snap := lease.Snapshot{OwnClock: true}
	how := "read"
	if s.replicas > 0 {
		how = "write" // something to wait for
	}
	reply, err := s.run(ctx, loadScript, []string{s.key.Name, s.used}, append([]any{how}, worker...)...)
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

// lost returns the error for a script that returned {'missing'} or {'wiped', worker}.
func (s *Store) lost(reply []string) error {
	if reply[0] == "wiped" {
		return s.key.Wrap(fmt.Errorf("%w: field %q is gone", lease.ErrWiped, reply[1]))
	}
	return s.key.Wrap(ErrNoStore)
}

// Save writes r in place of the version before it. Errors match [lease.ErrConflict],
// [lease.ErrBadRecord], [lease.ErrWiped], [ErrNoStore], [ErrReplicas] or the context's
// error, or are the client's.
func (s *Store) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	return s.save(ctx, r, []string{s.key.Name, s.used})
}

// SaveEnding is Save and, in the same script, adds ended to the history of r.Worker, and
// drops from this history each holding that ended before forget. Errors are as for Save.
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
		return r, fmt.Errorf("redislease: %w: worker %s has version %s, not the version before %s", lease.ErrConflict, worker, reply[1], version)
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

// send runs a script. If the script saves or loads records, send waits for the replicas.
func (s *Store) send(ctx context.Context, script *redis.Script, keys []string, args []any) ([]string, error) {
	if s.replicas == 0 || script == historyScript {
		return script.Run(ctx, s.key.Client, keys, args...).StringSlice()
	}
	node := redis.Cmdable(s.key.Client)
	cluster, ok := s.key.Client.(*redis.ClusterClient)
	if ok { // WAIT has no key, so a cluster client would send it to any node
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
		// Its error is the error of one of the two commands, which are looked at below.
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
	case reply[0] != "saved" && reply[0] != "loaded":
		return reply, nil
	case failed != nil:
		return nil, failed
	case n < s.replicas:
		return nil, fmt.Errorf("%w: %d of %d within %v", ErrReplicas, n, s.replicas, wait)
	}
	return reply, nil
}

// patience returns how long to wait for replicas.
func patience(ctx context.Context) time.Duration {
	wait := time.Second
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	return max(wait, time.Millisecond) // WAIT takes 0 as for ever
}

var errText = fmt.Errorf("%w: it is not a version, a time and JSON", lease.ErrBadRecord)

// encode leaves out the time of the save, which the script writes before the record.
func encode(r lease.Record) (string, error) {
	r.Renewed = time.Time{}
	b, err := json.Marshal(r)
	return string(b), err
}

// decode decodes each value of a field only once.
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
	var r lease.Record
	err := json.Unmarshal([]byte(body), &r)
	if err != nil {
		return r, fmt.Errorf("%w: %w", lease.ErrBadRecord, err)
	}
	if r.Renewed, err = parseTime(renewed); err != nil {
		return r, err
	}
	if version != strconv.FormatUint(r.Version, 10) || worker != strconv.Itoa(r.Worker) {
		return r, fmt.Errorf("%w: the version %s was stored with another record, of worker %d with version %d", lease.ErrBadRecord, version, r.Worker, r.Version)
	}
	return r, r.Validate()
}

func parseTime(s string) (time.Time, error) {
	sec, micro, _ := strings.Cut(s, ".")
	a, err := strconv.ParseInt(sec, 10, 64)
	b, err2 := strconv.ParseInt(micro, 10, 64)
	if err = errors.Join(err, err2); err != nil || len(micro) != 6 || b < 0 {
		return time.Time{}, fmt.Errorf("%w: %q is not a time", lease.ErrBadRecord, s)
	}
	return time.Unix(a, b*1000).UTC(), nil
}
