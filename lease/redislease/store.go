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
)

// Options are the settings of New and Create. The zero value, and nil, consist
// entirely of defaults.
type Options struct {
	// Prefix begins the name of the key: the records are in the hash
	// Prefix+"leases". Fleets with different layouts need different prefixes.
	// Empty: "snowflake:".
	Prefix string

	// Replicas is how many replicas must have acknowledged a record before Save
	// returns, by WAIT in the same round trip. Where fewer do so within half of
	// the time that the caller has left, and within a second, Save fails with an
	// error that matches [ErrReplicas]. 0: none.
	//
	// HAZARD: it is no consensus. What fewer acknowledged is written all the
	// same, and a failover may choose a replica that has not acknowledged.
	Replicas int
}

var (
	// ErrNoStore is returned by Load and Save, and so by Acquire, where the hash
	// is not there: it was never created, or it was lost. [Create] makes it.
	ErrNoStore = errors.New("redislease: there is no store, it was never created or was lost: call redislease.Create")

	// ErrReplicas is returned by Save when fewer than Options.Replicas replicas
	// acknowledged a record in time.
	ErrReplicas = errors.New("redislease: too few replicas acknowledged")
)

//go:embed load.lua
var loadSource string

//go:embed save.lua
var saveSource string

//go:embed create.lua
var createSource string

var (
	loadScript   = redis.NewScript(loadSource)
	saveScript   = redis.NewScript(saveSource)
	createScript = redis.NewScript(createSource)
)

// New returns a store that keeps its records in one hash of Redis. [Create] must
// have made it.
//
// The client is the caller's, who may use it for other things and closes it when
// all leases have ended. It is a *redis.Client (of NewFailoverClient, too) or a
// *redis.ClusterClient, whose ContextTimeoutEnabled must be true: else a server
// that hangs would keep its connections busy for longer than a renewal may take.
// For any other client, such as nil, a type that has one of the two within, or a
// *redis.Ring, which moves keys when a shard fails, Load and Save return an error
// that matches [lease.ErrInvalidOptions].
func New(client redis.UniversalClient, opts *Options) lease.Store { return newStore(client, opts) }

// Create makes the store of opts, where it is not there. Call it when a fleet is
// set up, or at each start: where the store is there it does nothing.
//
// A store that is missing may be one that was lost, and then there may be
// holders who go on until their windows end. So Create waits for two windows
// before it makes one. Give it the longest lease.Options.Window of the fleet, up to
// 146 years, or 0 for the default of 3 s. For a store that is known to be new, a
// nanosecond does. A window that is negative or longer, and a client or options
// that are not fit for [New], give an error that matches [lease.ErrInvalidOptions].
func Create(ctx context.Context, client redis.UniversalClient, opts *Options, window time.Duration) error {
	const poll, maxWindow = 100 * time.Millisecond, time.Duration(math.MaxInt64) / 2
	if window < 0 || window > maxWindow {
		return fmt.Errorf("redislease: %w: the window %v is not within 0 to %v", lease.ErrInvalidOptions, window, maxWindow)
	}
	if window == 0 {
		window = 3 * time.Second
	}
	s := newStore(client, opts)
	begun := time.Now()
	for {
		reply, err := s.run(ctx, loadScript, "0", "0")
		if err != nil {
			return err
		}
		if reply[0] != "missing" {
			return nil
		}
		wait := 2*window - time.Since(begun)
		if wait <= 0 {
			break
		}
		select {
		case <-time.After(min(wait, poll)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := call(ctx, func() (any, error) { return createScript.Run(ctx, s.client, []string{s.key}).Result() })
	return s.wrap(err)
}

// store is one hash. Its field "created" tells it from one that was lost; each
// other field is a worker ID, and has the record's version, the server's time of
// the save in seconds, and the record in JSON.
type store struct {
	client   redis.UniversalClient
	key      string
	replicas int
	invalid  error

	mu   sync.Mutex
	read map[string]parsed // by field, up to maxRead
}

// parsed is a record that was read. Where many holders share a store, most of
// what one of them loads was read by another.
type parsed struct {
	value  string
	record lease.Record
}

const maxRead = 4096

func newStore(client redis.UniversalClient, opts *Options) *store {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	s := &store{
		key:      o.Prefix + "leases",
		replicas: o.Replicas,
		read:     map[string]parsed{},
	}
	if s.invalid = checkClient(client); s.invalid != nil {
		return s
	}
	s.client = client
	if o.Replicas < 0 {
		s.invalid = fmt.Errorf("redislease: %w: Replicas %d is negative", lease.ErrInvalidOptions, o.Replicas)
	}
	return s
}

// Locate returns where a worker ID's record is.
func (s *store) Locate(worker int) string {
	return fmt.Sprintf("field %d of hash %q of %s", worker, s.key, address(s.client))
}

func (s *store) Load(ctx context.Context, first, last int) (lease.Snapshot, error) {
	snap := lease.Snapshot{OwnClock: true}
	reply, err := s.run(ctx, loadScript, strconv.Itoa(first), strconv.Itoa(last))
	if err != nil {
		return lease.Snapshot{}, err
	}
	if reply[0] == "missing" {
		return lease.Snapshot{}, s.wrap(ErrNoStore)
	}
	if snap.Now, err = parseTime(reply[1]); err != nil {
		return lease.Snapshot{}, s.wrap(err)
	}
	for i := 2; i+1 < len(reply); i += 2 {
		r, err := s.decode(reply[i], reply[i+1])
		if err != nil {
			return lease.Snapshot{}, s.wrap(fmt.Errorf("field %q: %w", reply[i], err))
		}
		if r.Worker >= first && r.Worker <= last {
			snap.Records = append(snap.Records, r)
		}
	}
	return snap, nil
}

func (s *store) Save(ctx context.Context, r lease.Record) (lease.Record, error) {
	text, err := encode(r)
	if err != nil {
		return r, s.wrap(err)
	}
	worker, version := strconv.Itoa(r.Worker), strconv.FormatUint(r.Version, 10)
	reply, err := s.run(ctx, saveScript, worker, strconv.FormatUint(r.Version-1, 10), version, text)
	if err != nil {
		return r, err
	}
	switch reply[0] {
	case "saved":
		if r.Renewed, err = parseTime(reply[1]); err != nil {
			return r, s.wrap(err)
		}
		return r, nil
	case "conflict":
		return r, fmt.Errorf("redislease: %w: worker %s has version %s, not that before %s", lease.ErrConflict, worker, reply[1], version)
	case "unreadable":
		return r, s.wrap(fmt.Errorf("field %q: %w", worker, errText))
	}
	return r, s.wrap(ErrNoStore)
}

// run runs a script on the hash, and returns when ctx is done at the latest.
func (s *store) run(ctx context.Context, script *redis.Script, args ...any) ([]string, error) {
	if s.invalid != nil {
		return nil, s.invalid
	}
	reply, err := call(ctx, func() ([]string, error) { return s.send(ctx, script, args) })
	return reply, s.wrap(err)
}

// send runs a script, and for one that saves waits for the replicas.
func (s *store) send(ctx context.Context, script *redis.Script, args []any) ([]string, error) {
	keys := []string{s.key}
	if s.replicas == 0 || script != saveScript {
		return script.Run(ctx, s.client, keys, args...).StringSlice()
	}
	node := redis.Cmdable(s.client)
	cluster, ok := s.client.(*redis.ClusterClient)
	if ok { // WAIT has no key, and would go to any node
		master, err := cluster.MasterForKey(ctx, s.key)
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

// wrap says where an error is from.
func (s *store) wrap(err error) error {
	return wrap(s.client, s.key, err)
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
func (s *store) decode(field, value string) (lease.Record, error) {
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
