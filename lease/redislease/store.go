package redislease

import (
	"cmp"
	"context"
	"crypto/sha1"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake/internal/randtext"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/conn"
)

// Options holds the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	// Prefix is the prefix of the key's name: the entries are in the sorted set Prefix+"leases".
	// Fleets with different layouts need different prefixes. The default is "snowflake:".
	Prefix string

	// Replicas is the number of replicas that must have acknowledged an entry before Put, Get or
	// List returns it, by WAIT in the same round trip. If fewer do so within a second and half of
	// the caller's remaining time, the error matches [ErrReplicas]. The entry is written, but no
	// lease uses it until enough replicas have acknowledged it. 0 means not to wait.
	//
	// HAZARD: this is not consensus. A failover may choose a replica that has not acknowledged the
	// entry.
	Replicas int
}

// ErrReplicas is returned by a Store's methods if fewer than Options.Replicas replicas acknowledged
// an entry in time.
var ErrReplicas = errors.New("redislease: too few replicas acknowledged")

//go:embed put.lua
var putSource string

//go:embed read.lua
var readSource string

var (
	putScript  = redis.NewScript(putSource)
	readScript = redis.NewScript(readSource)
)

// Store is a [driver.Store] in a key of Redis. It may be used by any number of goroutines and
// leases.
type Store struct {
	key      conn.Key
	replicas int
}

var (
	_ driver.Store    = (*Store)(nil)
	_ driver.Windower = (*Store)(nil)
)

// New returns a store in a sorted set of Redis. It does not connect to Redis.
//
// client must be a *redis.Client (also from NewFailoverClient) or a *redis.ClusterClient with
// ContextTimeoutEnabled: otherwise a server that hangs would keep its connections busy for longer
// than a renewal may take. The caller may use the client for other purposes, and must close it,
// after all leases have ended.
//
// The error matches [driver.ErrInvalidOptions] if an option is out of range, and for any other
// client, such as nil, a type that embeds one of the two, or a *redis.Ring, which moves keys when a
// shard fails.
func New(client redis.UniversalClient, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, new(Options))
	s := &Store{conn.Key{Package: "redislease", Name: cmp.Or(o.Prefix, conn.DefaultPrefix) + "leases", Client: client}, o.Replicas}
	if err := s.key.Check(); err != nil {
		return nil, err
	}
	if o.Replicas < 0 {
		return nil, fmt.Errorf("redislease: %w: Replicas %d is negative", driver.ErrInvalidOptions, o.Replicas)
	}
	return s, nil
}

// DefaultWindow is the window of leases whose Options.Window is 0.
const DefaultWindow = 30 * time.Second

// DefaultWindow returns [DefaultWindow].
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

// Now returns the time of the server's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	_, now, err := s.read(ctx, "(", "(") // no members
	return now, err
}

// Settings returns the server's settings that let a crash lose acknowledged writes, or the server
// evict entries, such as "appendonly = no". It returns an error if the user may not run CONFIG GET,
// or if the service does not have it. In a cluster, it asks the master that has the key.
func (s *Store) Settings(ctx context.Context) (unsafe []string, err error) {
	is, err := conn.Call(ctx, s.key, func() (map[string]string, error) {
		client, ok := s.key.Client.(*redis.Client)
		if cluster, is := s.key.Client.(*redis.ClusterClient); is {
			master, err := cluster.MasterForKey(ctx, s.key.Name)
			if err != nil {
				return nil, err
			}
			client, ok = master, true
		}
		if !ok {
			return nil, errors.ErrUnsupported
		}
		is := map[string]string{}
		for name := range safe { // Redis 7 takes several names at once, Redis 5 one
			one, err := client.ConfigGet(ctx, name).Result()
			if err != nil {
				return nil, err
			}
			maps.Copy(is, one)
		}
		return is, nil
	})
	for _, name := range slices.Sorted(maps.Keys(safe)) {
		if value, ok := is[name]; ok && !safe[name].MatchString(value) && !(name == "appendfsync" && is["appendonly"] == "no") {
			unsafe = append(unsafe, name+" = "+value)
		}
	}
	return unsafe, s.key.Wrap(err)
}

// safe has the settings' values that keep acknowledged writes. The key has no expiry, so policies
// that begin with volatile do not evict it.
var safe = map[string]*regexp.Regexp{
	"appendonly":       regexp.MustCompile(`^yes$`),
	"appendfsync":      regexp.MustCompile(`^always$`),
	"maxmemory-policy": regexp.MustCompile(`^(noeviction|volatile-.*)$`),
}

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	members, _, err := s.read(ctx, "["+key, "("+key+"!") // '!' follows the space
	if err != nil || len(members) == 0 {
		return driver.Entry{}, err
	}
	e := parse(key, members)
	if e.Value == nil {
		err = s.key.Wrap(fmt.Errorf("%w: the member of %.100q is not one of a key, a version, a time and a value", driver.ErrBadRecord, key))
	}
	return e, err
}

// List implements [driver.Store].
func (s *Store) List(ctx context.Context, prefix string) ([]driver.Entry, error) {
	// All characters of keys sort before '~'.
	members, _, err := s.read(ctx, "["+prefix, "("+prefix+"~")
	var entries []driver.Entry
	for i, n := 0, 0; i < len(members); i += n {
		key, _, _ := strings.Cut(members[i], " ")
		for n = 1; i+n < len(members) && strings.HasPrefix(members[i+n], key+" "); n++ {
		}
		entries = append(entries, parse(key, members[i:i+n]))
	}
	return entries, err
}

func (s *Store) read(ctx context.Context, from, to string) (members []string, now time.Time, err error) {
	args := []any{from, to}
	if s.replicas > 0 {
		args = append(args, "write")
	}
	reply, err := s.run(ctx, readScript, args...)
	if err != nil {
		return nil, now, err
	}
	now, err = parseTime(reply[1])
	return reply[2:], now, err
}

// Put implements [driver.Store].
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	return s.put(ctx, key, old, randtext.New(), value)
}

// Delete implements [driver.Store].
func (s *Store) Delete(ctx context.Context, key, old string) error {
	_, err := s.put(ctx, key, old, "", nil)
	return err
}

// put stores an entry or, if version is empty, removes it.
func (s *Store) put(ctx context.Context, key, old, version string, value []byte) (driver.Entry, error) {
	reply, err := s.run(ctx, putScript, key, old, version, value)
	switch {
	case err != nil:
		return driver.Entry{}, err
	case reply[0] == "conflict":
		return driver.Entry{}, s.key.Wrap(fmt.Errorf("%w: %s", driver.ErrConflict, key))
	}
	at, err := parseTime(reply[1])
	return driver.Entry{Key: key, Version: version, Value: append([]byte{}, value...), Time: at}, err
}

// run runs a script. If ctx ends, it returns soon.
func (s *Store) run(ctx context.Context, script *redis.Script, args ...any) ([]string, error) {
	reply, err := conn.Call(ctx, s.key, func() ([]string, error) {
		keys := []string{s.key.Name}
		if s.replicas > 0 {
			return s.runAndWait(ctx, script, keys, args)
		}
		return script.Run(ctx, s.key.Client, keys, args...).StringSlice()
	})
	if isAway(err) {
		err = fmt.Errorf("%w: %w", driver.ErrAway, err)
	}
	return reply, s.key.Wrap(err)
}

// isAway reports whether the server is starting, the shard has no master, or the key's slot was
// still moving when the client gave up.
func isAway(err error) bool {
	for _, prefix := range []string{
		"LOADING", "MASTERDOWN", "CLUSTERDOWN", "READONLY", "NOREPLICAS", "MOVED", "ASK", "TRYAGAIN",
	} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// runAndWait runs a script and waits for the replicas, in one round trip. In a cluster it follows
// the key if its slot moves.
func (s *Store) runAndWait(ctx context.Context, script *redis.Script, keys []string, args []any) ([]string, error) {
	cluster, ok := s.key.Client.(*redis.ClusterClient)
	if !ok {
		return s.runOn(ctx, s.key.Client, false, script, keys, args)
	}
	// WAIT has no key, so a cluster client could send it to another node.
	master, err := cluster.MasterForKey(ctx, s.key.Name)
	if err != nil {
		return nil, err
	}
	reply, err := s.runOn(ctx, master, false, script, keys, args)
	for range maxRedirects {
		addr, moved := redirect(err)
		if addr == "" {
			break
		}
		if moved {
			cluster.ReloadState(ctx)
		}
		o := *master.Options() // the cluster client may not know the node
		o.Addr, o.MinIdleConns = addr, 0
		node := redis.NewClient(&o)
		reply, err = s.runOn(ctx, node, !moved, script, keys, args)
		_ = node.Close()
	}
	return reply, err
}

// maxRedirects is the maximum number of redirects that a call follows. The new node may redirect to
// yet another one.
const maxRedirects = 3

// redirect returns the node that an error redirects to: "MOVED 3999 127.0.0.1:6381", or ASK for
// this command only. If err is not a redirect, addr is empty. (Old clients have no
// redis.IsMovedError.)
func redirect(err error) (addr string, moved bool) {
	if err == nil {
		return "", false
	}
	words := strings.Fields(err.Error())
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return "", false
	}
	return words[2], words[0] == "MOVED"
}

// runOn runs a script on a node and waits for its replicas. asking is set if the node is importing
// the key's slot.
func (s *Store) runOn(
	ctx context.Context, node redis.Cmdable, asking bool, script *redis.Script, keys []string, args []any,
) ([]string, error) {
	var answer, acknowledged *redis.Cmd
	var wait time.Duration
	pipeline := func(eval func(redis.Pipeliner) *redis.Cmd) {
		wait = patience(ctx)
		// The error is that of one of the two commands, which are checked below.
		_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error {
			if asking {
				p.Do(ctx, "ASKING")
			}
			answer, acknowledged = eval(p), p.Do(ctx, "WAIT", s.replicas, wait.Milliseconds())
			return nil
		})
	}
	pipeline(func(p redis.Pipeliner) *redis.Cmd { return script.EvalSha(ctx, p, keys, args...) })
	if redis.HasErrorPrefix(answer.Err(), "NOSCRIPT") {
		pipeline(func(p redis.Pipeliner) *redis.Cmd { return script.Eval(ctx, p, keys, args...) })
	}
	reply, err := answer.StringSlice()
	switch n, failed := acknowledged.Int(); {
	case err != nil:
		return nil, err
	case reply[0] != "stored" && reply[0] != "read":
		return reply, nil
	case failed != nil:
		return nil, failed
	case n < s.replicas:
		return nil, fmt.Errorf("%w: %d of %d within %v", ErrReplicas, n, s.replicas, wait)
	}
	return reply, nil
}

// patience returns the maximum wait for replicas.
func patience(ctx context.Context) time.Duration {
	wait := time.Second
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)/2)
	}
	return max(wait, time.Millisecond) // WAIT 0 waits forever
}

// parse returns the entry of a key from its members. An entry that cannot be read has no value, and
// the same version as in put.lua.
func parse(key string, members []string) driver.Entry {
	parts := strings.SplitN(members[0], " ", 4)
	if len(members) == 1 && len(parts) == 4 && goodVersion.MatchString(parts[1]) && goodTime.MatchString(parts[2]) {
		if at, err := parseTime(parts[2]); err == nil {
			return driver.Entry{Key: key, Version: parts[1], Value: []byte(parts[3]), Time: at}
		}
	}
	return driver.Entry{Key: key, Version: fmt.Sprintf("unreadable-%x", sha1.Sum([]byte(strings.Join(members, "\n"))))}
}

// These accept the same texts as put.lua.
var goodVersion, goodTime = regexp.MustCompile(`^[^\s\v]+$`), regexp.MustCompile(`^[0-9]{1,18}$`)

// parseTime parses microseconds.
func parseTime(s string) (time.Time, error) {
	micros, err := strconv.ParseInt(s, 10, 64)
	return time.UnixMicro(micros).UTC(), err
}
