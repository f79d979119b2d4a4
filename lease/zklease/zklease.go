// Package zklease keeps the worker IDs of a fleet in ZooKeeper, for package lease.
//
//	conn, err := zklease.Connect(servers, 4*time.Second)
//	...
//	defer conn.Close()
//	store, err := zklease.New(conn, nil)
//	...
//	l, err := lease.Acquire(ctx, store, nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// It is tested with ZooKeeper 3.8.0.
//
// # The tree
//
// The path of an entry is its key, under the root. All znodes are persistent. With the default root
// and the key "a/7":
//
//	/snowflake/a/7        a nonce, which is a random text, a space, and the entry's value: JSON
//	/snowflake/a/7/NONCE  empty; it is there as long as the entry has this nonce
//	/snowflake/_clock     empty; it is written to ask for the time
//
// Each change has a new nonce. The version of an entry is its nonce and the data version of its
// znode. A renewal is one transaction: it removes the znode of the former nonce, and sets the data.
// (The data version alone comes again if a znode is removed and made again, or if the data was
// restored from a backup. So a late request could find the version that it names.)
//
// In zkCli.sh, get /snowflake/worker/7 shows who holds worker ID 7. Change a value with set, keep
// its nonce, and never create an entry by hand.
//
// The time is the clock of ZooKeeper's leader. A read first writes to the clock. This write
// needs a majority, and after it the session sees all that was stored before. So read-only servers
// (readonlymode.enabled) do not help.
//
// # Settings
//
// The session timeout that Connect gets should be some 4 s: package zk gives up a server that hangs
// after two thirds of it.
//
// If the znodes have ACLs, a process needs the permissions create, read, write and delete. Call
// [zk.Conn.AddAuth] before New, and set [Options.ACL] for the znodes that the store makes. If the
// credentials are wrong, Acquire returns zk.ErrNoAuth with the znode's path.
//
// # Limits
//
// List reads each entry with a request, some at a time, so its cost grows with the fleet.
// A layout should have at most 16 worker bits: the list of 65,536 names just fits the 1 MiB
// that ZooKeeper's own tools read (jute.maxbuffer). An entry can be stored 2,147,483,647
// times, which is 680 years of the default window.
//
// # Hazards
//
// HAZARD: ZooKeeper must keep what it acknowledged. With forceSync=no, or after its data
// was restored from a backup, bounds are lost, and IDs may repeat. Before you restore, stop all
// holders. Start holders again only when a window has passed since the last holder stopped.
//
// HAZARD: a fleet needs one ensemble and one root. If it is spread over two, each worker ID
// exists twice.
//
// All servers of an ensemble must follow the same time (NTP). If the leader changes to a server
// whose clock is wrong, starts and repairs may wait longer. No ID repeats because of that.
package zklease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake/internal/randtext"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// DefaultWindow is the window of leases whose Options.Window is 0. It bridges an election of
// ZooKeeper, and a restart of an ensemble.
const DefaultWindow = 30 * time.Second

// Options are the settings of New. The zero value consists entirely of defaults, and so
// does nil.
type Options struct {
	// Root is the znode that has all others below it; it may have parents. Processes with
	// the same Root share worker IDs. The default is /snowflake.
	Root string

	// ACL is the access control list of the znodes that the store makes. Existing znodes keep
	// theirs. If it is nil, anybody may do anything. With any other ACL, call [zk.Conn.AddAuth]
	// before New.
	ACL []zk.ACL
}

// Store is a [driver.Store] in a ZooKeeper ensemble. It may be used by any number of
// goroutines and leases.
type Store struct {
	conn *zk.Conn
	root string
	acl  []zk.ACL
}

var _ driver.Windower = (*Store)(nil)

// New returns the store in the ZooKeeper ensemble to which conn is connected, or will be.
// Any number of leases may share one Store. The caller closes conn, after the leases are
// released. If conn is nil, the error matches [driver.ErrInvalidOptions].
//
// Calls return soon after their context is done. Their requests may still be carried out
// later. Use [Connect], so that errors say why there is no connection.
//
// Errors name the znode, and match errors of package zk, such as [zk.ErrNoAuth]. Data that
// Put cannot have written is a [driver.ErrBadRecord]. If there is no connection, or it
// breaks, the error is a [driver.ErrAway].
func New(conn *zk.Conn, opts *Options) (*Store, error) {
	if conn == nil {
		return nil, fmt.Errorf("zklease: %w: the conn is nil", driver.ErrInvalidOptions)
	}
	s := &Store{conn: conn, root: "/snowflake", acl: zk.WorldACL(zk.PermAll)}
	if opts != nil && opts.Root != "" {
		s.root = opts.Root
	}
	if opts != nil && opts.ACL != nil {
		s.acl = opts.ACL
	}
	return s, nil
}

// DefaultWindow returns the constant of that name.
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

// path returns the path of a key's znode.
func (s *Store) path(key string) string { return path.Join(s.root, key) }

// clock is the name of a znode that is written to ask for the time. No key begins with it.
const clock = "_clock"

// Now returns the time of ZooKeeper's leader.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	at := s.path(clock)
	stat, err := call(ctx, s, at, func() (*zk.Stat, error) { return s.conn.Set(at, nil, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		if err := s.make(ctx, at); err != nil {
			return time.Time{}, err
		}
		return s.Now(ctx)
	}
	if err != nil {
		return time.Time{}, err
	}
	return mtime(stat), nil
}

func mtime(stat *zk.Stat) time.Time { return time.UnixMilli(stat.Mtime).UTC() }

// make makes a znode, with its parents, if it does not exist.
func (s *Store) make(ctx context.Context, at string) error {
	_, err := call(ctx, s, at, func() (string, error) { return s.conn.Create(at, nil, 0, s.acl) })
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		if err := s.make(ctx, path.Dir(at)); err != nil {
			return err
		}
		return s.make(ctx, at)
	}
	return err
}

// Get returns the entry of key.
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	found, err := s.upToDate(ctx, func() ([]znode, error) { return s.read(ctx, []string{key}) })
	if err != nil || !found[0].isEntry() {
		return driver.Entry{Key: key}, err
	}
	return found[0].entry(), found[0].bad
}

// List returns the entries whose keys begin with prefix.
func (s *Store) List(ctx context.Context, prefix string) ([]driver.Entry, error) {
	if strings.HasPrefix(prefix, "/") { // no key does
		return nil, ctx.Err()
	}
	slash := strings.LastIndexByte(prefix, '/') + 1
	found, err := s.upToDate(ctx, func() ([]znode, error) { return s.walk(ctx, prefix[:slash], prefix[slash:]) })
	if err != nil {
		return nil, err
	}
	all := make([]driver.Entry, len(found))
	for i, z := range found {
		all[i] = z.entry()
	}
	return all, nil
}

// upToDate reads in a session that sees all that was stored before the call, since the session has
// written.
func (s *Store) upToDate(ctx context.Context, read func() ([]znode, error)) ([]znode, error) {
	if err := s.awaitSession(ctx, s.root); err != nil {
		return nil, err
	}
	session := s.conn.SessionID()
	if _, err := s.Now(ctx); err != nil {
		return nil, err
	}
	found, err := read()
	// A new session may be with a server that is behind.
	if err == nil && s.conn.SessionID() != session {
		err = fmt.Errorf("zklease: %w: %w", driver.ErrAway, zk.ErrSessionExpired)
	}
	return found, err
}

// znode is what was read at a key. If it is no entry, it is a directory of entries, or was not
// there.
type znode struct {
	key, nonce string
	value      []byte
	stat       *zk.Stat
	bad        error // why it cannot be read
}

func (z znode) isEntry() bool { return z.nonce != "" || z.bad != nil }

// walk reads the entries in directory dir and below it whose keys begin with dir and begin.
func (s *Store) walk(ctx context.Context, dir, begin string) (entries []znode, err error) {
	at := s.path(dir)
	names, err := call(ctx, s, at, func() ([]string, error) {
		names, _, err := s.conn.Children(at)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	var keys []string
	for _, name := range names {
		if strings.HasPrefix(name, begin) && name != clock {
			keys = append(keys, dir+name)
		}
	}
	if err != nil {
		return nil, err
	}
	found, err := s.read(ctx, keys)
	for _, z := range found {
		if z.isEntry() {
			entries = append(entries, z)
		}
		if err == nil && z.nonce == "" { // even if somebody set the data of a directory
			var inside []znode
			inside, err = s.walk(ctx, z.key+"/", "")
			entries = append(entries, inside...)
		}
	}
	return entries, err
}

// read reads the znodes of keys, 32 at a time.
func (s *Store) read(ctx context.Context, keys []string) ([]znode, error) {
	found := make([]znode, len(keys))
	var errs [32]error
	var readers sync.WaitGroup
	for r := range min(len(errs), len(keys)) {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for i := r; i < len(keys) && errs[r] == nil; i += len(errs) {
				found[i], errs[r] = s.readOne(ctx, keys[i])
			}
		}()
	}
	readers.Wait()
	return found, cmp.Or(errs[:]...)
}

func (s *Store) readOne(ctx context.Context, key string) (znode, error) {
	at := s.path(key)
	z, err := call(ctx, s, at, func() (znode, error) {
		data, stat, err := s.conn.Get(at)
		return znode{key: key, value: data, stat: stat}, err
	})
	// The data of a directory was never set.
	if errors.Is(err, zk.ErrNoNode) || err == nil && len(z.value) == 0 && z.stat.Version == 0 {
		return znode{key: key}, nil
	}
	nonce, value, ok := bytes.Cut(z.value, []byte(" "))
	if z.value = value; ok && len(nonce) == randtext.Len {
		z.nonce = string(nonce)
	} else if err == nil {
		z.bad = fmt.Errorf("zklease: %s: %w: its data does not begin with a nonce", at, driver.ErrBadRecord)
	}
	return z, err
}

// unreadable begins the version of an entry that cannot be read. The transaction that changed its
// data last follows.
const unreadable = "unreadable-"

func (z znode) entry() driver.Entry {
	if z.bad != nil {
		return driver.Entry{Key: z.key, Version: fmt.Sprint(unreadable, z.stat.Mzxid)}
	}
	return driver.Entry{Key: z.key, Version: fmt.Sprintf("%s-%d", z.nonce, z.stat.Version), Value: z.value, Time: mtime(z.stat)}
}

// parse returns the parts of an entry's version. There is no nonce for other texts.
func parse(version string) (nonce string, data int32) {
	nonce, text, _ := strings.Cut(version, "-")
	n, err := strconv.ParseUint(text, 10, 31) // -1 in a request would mean any
	if err != nil || nonce == "" {
		return "none", 0
	}
	return nonce, int32(n)
}

// Put stores value if the entry's version is still old.
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	at, nonce := s.path(key), randtext.New()
	begin, data := []any{&zk.CreateRequest{Path: at, Acl: s.acl}}, int32(0)
	if old != "" {
		var err error
		if begin, data, err = s.remove(ctx, key, old); err != nil {
			return driver.Entry{}, err
		}
	}
	// The value of a new entry is set, too, because the answer then has its time.
	answers, err := s.change(ctx, at, append(begin,
		&zk.CreateRequest{Path: at + "/" + nonce, Acl: s.acl},
		&zk.SetDataRequest{Path: at, Data: append([]byte(nonce+" "), value...), Version: data})...)
	if old == "" && errors.Is(err, zk.ErrNoNode) {
		if err := s.make(ctx, path.Dir(at)); err != nil {
			return driver.Entry{}, err
		}
		return s.Put(ctx, key, old, value)
	}
	if err != nil {
		return driver.Entry{}, conflict(err)
	}
	return znode{key, nonce, value, answers[len(answers)-1].Stat, nil}.entry(), nil
}

// Delete removes the entry if its version still is old.
func (s *Store) Delete(ctx context.Context, key, old string) error {
	at := s.path(key)
	ops, data, err := s.remove(ctx, key, old)
	if err != nil {
		return err
	}
	_, err = s.change(ctx, at, append(ops, &zk.DeleteRequest{Path: at, Version: data})...)
	return conflict(err)
}

// remove returns the operations that remove the nonce of an entry whose version is old, and the
// data version that the entry must have. If it may have been unreadable, remove reads it again.
func (s *Store) remove(ctx context.Context, key, old string) (ops []any, data int32, err error) {
	at := s.path(key)
	nonce, data := parse(old)
	nonces := []string{nonce}
	if strings.HasPrefix(old, unreadable) {
		found, err := s.upToDate(ctx, func() ([]znode, error) { return s.read(ctx, []string{key}) })
		if err != nil {
			return nil, 0, err
		}
		if found[0].bad == nil || found[0].entry().Version != old {
			return nil, 0, fmt.Errorf("zklease: %s: %w", at, driver.ErrConflict)
		}
		nonces, err = call(ctx, s, at, func() ([]string, error) {
			names, _, err := s.conn.Children(at)
			return names, err
		})
		if err != nil {
			return nil, 0, conflict(err)
		}
		data = found[0].stat.Version
	}
	for _, nonce := range nonces {
		ops = append(ops, &zk.DeleteRequest{Path: at + "/" + nonce, Version: -1})
	}
	return ops, data, nil
}

// change makes a transaction. If it fails, the error is that of the operation that failed.
func (s *Store) change(ctx context.Context, at string, ops ...any) ([]zk.MultiResponse, error) {
	return call(ctx, s, at, func() ([]zk.MultiResponse, error) {
		answers, err := s.conn.Multi(ops...)
		for _, a := range answers {
			if a.Error != nil {
				return nil, a.Error
			}
		}
		return answers, err
	})
}

// conflict adds driver.ErrConflict to the error of a change whose entry has another version.
func conflict(err error) error {
	for _, why := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion} {
		if errors.Is(err, why) {
			return fmt.Errorf("%w: %w", driver.ErrConflict, err)
		}
	}
	return err
}
