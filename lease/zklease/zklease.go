// Package zklease leases worker IDs from a ZooKeeper ensemble.
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
// The path of an entry is the root and the entry's key. All znodes are persistent. With the default
// root and the key "a/7":
//
//	/snowflake/a/7        a nonce, which is a random text, a space, and the entry's value: JSON
//	/snowflake/a/7/NONCE  empty; exists while the entry has this nonce
//	/snowflake/_clock     empty; written to read the time
//
// Each change has a new nonce. The version of an entry is its nonce and the data version of its
// znode. A renewal is one transaction, which removes the znode of the old nonce and sets the data.
// (Data versions alone repeat if a znode is removed and created again, or if the data is restored
// from a backup. A late request could then match.)
//
// In zkCli.sh, get /snowflake/worker/7 shows the holder of worker ID 7. To change a value, use set,
// and keep the nonce. Do not create entries by hand.
//
// The time is that of the leader's clock. A read first writes to the clock znode. This write needs
// a majority, and after it the session sees everything stored earlier. So read-only servers
// (readonlymode.enabled) are useless here.
//
// # Settings
//
// The session timeout passed to Connect should be about 4 s: package zk gives up a server that
// hangs after two thirds of it.
//
// If the znodes have ACLs, a process needs the permissions create, read, write and delete. Call
// [zk.Conn.AddAuth] before New, and set [Options.ACL] for the znodes that the store creates. If the
// credentials are wrong, Acquire returns zk.ErrNoAuth with the znode's path.
//
// # Limits
//
// List reads each entry with a request, up to 32 at a time, so its cost grows with the fleet. A
// layout should have at most 16 worker bits: the list of 65,536 names just fits into the 1 MiB that
// ZooKeeper's own tools read (jute.maxbuffer). An entry can be stored 2,147,483,647 times, which is
// 680 years of the default window.
//
// # Hazards
//
// HAZARD: with forceSync=no, and after a restore from a backup, ZooKeeper loses acknowledged
// bounds, and IDs may repeat. Before you restore, stop all holders. Start holders again only when a
// window has passed since the last holder stopped.
//
// HAZARD: a fleet needs one ensemble and one root. If it is spread over two, each worker ID exists
// twice.
//
// Synchronize the clocks of the ensemble's servers (NTP). If a server with a wrong clock becomes
// the leader, starts and repairs may wait longer, but no ID repeats.
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

// DefaultWindow is the window of leases whose Options.Window is 0. It is longer than an election of
// ZooKeeper, or a restart of an ensemble.
const DefaultWindow = 30 * time.Second

// Options holds the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	// Root is the parent of all other znodes; it may have parents itself. Processes with the same
	// Root share worker IDs. The default is /snowflake.
	Root string

	// ACL is the access control list of the znodes that the store creates. The default allows
	// everything to everybody. With any other ACL, call [zk.Conn.AddAuth] before New.
	ACL []zk.ACL
}

// Store is a [driver.Store] in a ZooKeeper ensemble. It may be used by any number of goroutines and
// leases.
type Store struct {
	conn *zk.Conn
	root string
	acl  []zk.ACL
}

var _ driver.Windower = (*Store)(nil)

// New returns a store in conn's ensemble. The caller must close conn, after the leases are
// released. Make conn with [Connect], so that errors give the reason if there is no connection. If
// conn is nil, the error matches [driver.ErrInvalidOptions].
//
// If a context ends, the call returns soon, but its request may still be executed later.
//
// The store's errors name the znode, and match errors of package zk, such as [zk.ErrNoAuth]. An
// error matches [driver.ErrBadRecord] if Put cannot have written the data, and [driver.ErrAway] if
// there is no connection, or if it broke.
func New(conn *zk.Conn, opts *Options) (*Store, error) {
	if conn == nil {
		return nil, fmt.Errorf("zklease: %w: the conn is nil", driver.ErrInvalidOptions)
	}
	o := *cmp.Or(opts, new(Options))
	if o.ACL == nil {
		o.ACL = zk.WorldACL(zk.PermAll)
	}
	return &Store{conn: conn, root: cmp.Or(o.Root, "/snowflake"), acl: o.ACL}, nil
}

// DefaultWindow returns [DefaultWindow].
func (s *Store) DefaultWindow() time.Duration { return DefaultWindow }

// path returns the path of a key's znode.
func (s *Store) path(key string) string { return path.Join(s.root, key) }

// clock is the name of the znode that is written to read the time. Keys do not begin with it.
const clock = "_clock"

// Now returns the time of ZooKeeper's leader.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	at := s.path(clock)
	stat, err := call(ctx, s, at, func() (*zk.Stat, error) { return s.conn.Set(at, nil, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		if err := s.create(ctx, at); err != nil {
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

// create creates a znode and its parents if they do not exist.
func (s *Store) create(ctx context.Context, at string) error {
	_, err := call(ctx, s, at, func() (string, error) { return s.conn.Create(at, nil, 0, s.acl) })
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		if err := s.create(ctx, path.Dir(at)); err != nil {
			return err
		}
		return s.create(ctx, at)
	}
	return err
}

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	found, err := s.upToDate(ctx, func() ([]znode, error) { return s.read(ctx, []string{key}) })
	if err != nil || !found[0].isEntry() {
		return driver.Entry{Key: key}, err
	}
	return found[0].entry(), found[0].bad
}

// List implements [driver.Store].
func (s *Store) List(ctx context.Context, prefix string) ([]driver.Entry, error) {
	if strings.HasPrefix(prefix, "/") { // no key begins so
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

// upToDate calls read in a session that sees everything stored before the call, because the session
// has written.
func (s *Store) upToDate(ctx context.Context, read func() ([]znode, error)) ([]znode, error) {
	if err := s.awaitSession(ctx, s.root); err != nil {
		return nil, err
	}
	session := s.conn.SessionID()
	if _, err := s.Now(ctx); err != nil {
		return nil, err
	}
	found, err := read()
	// The server of a new session may lag.
	if err == nil && s.conn.SessionID() != session {
		err = fmt.Errorf("zklease: %w: %w", driver.ErrAway, zk.ErrSessionExpired)
	}
	return found, err
}

// znode is a znode that was read: an entry, a directory of entries, or none.
type znode struct {
	key, nonce string
	value      []byte
	stat       *zk.Stat
	bad        error // if the entry cannot be read
}

func (z znode) isEntry() bool { return z.nonce != "" || z.bad != nil }

// walk reads the entries in directory dir, and in its subdirectories, whose keys begin with dir and
// prefix.
func (s *Store) walk(ctx context.Context, dir, prefix string) (entries []znode, err error) {
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
		if strings.HasPrefix(name, prefix) && name != clock {
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
		if err == nil && z.nonce == "" { // even if it has data, which a user may have set
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
	// A directory has no data.
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

// unreadable is the prefix of the version of an entry that cannot be read. The rest is the ID of
// the last transaction that changed its data.
const unreadable = "unreadable-"

func (z znode) entry() driver.Entry {
	if z.bad != nil {
		return driver.Entry{Key: z.key, Version: fmt.Sprint(unreadable, z.stat.Mzxid)}
	}
	return driver.Entry{Key: z.key, Version: fmt.Sprintf("%s-%d", z.nonce, z.stat.Version), Value: z.value, Time: mtime(z.stat)}
}

// parse returns the parts of an entry's version. For other texts it returns a nonce that no entry
// has.
func parse(version string) (nonce string, data int32) {
	nonce, text, _ := strings.Cut(version, "-")
	n, err := strconv.ParseUint(text, 10, 31) // in a request, -1 would mean any version
	if err != nil || nonce == "" {
		return "none", 0
	}
	return nonce, int32(n)
}

// Put implements [driver.Store].
func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	at, nonce := s.path(key), randtext.New()
	ops, data := []any{&zk.CreateRequest{Path: at, Acl: s.acl}}, int32(0)
	if old != "" {
		var err error
		if ops, data, err = s.remove(ctx, key, old); err != nil {
			return driver.Entry{}, err
		}
	}
	// The data of a new znode is set separately, because only this reply has the time.
	answers, err := s.change(ctx, at, append(ops,
		&zk.CreateRequest{Path: at + "/" + nonce, Acl: s.acl},
		&zk.SetDataRequest{Path: at, Data: append([]byte(nonce+" "), value...), Version: data})...)
	if old == "" && errors.Is(err, zk.ErrNoNode) {
		if err := s.create(ctx, path.Dir(at)); err != nil {
			return driver.Entry{}, err
		}
		return s.Put(ctx, key, old, value)
	}
	if err != nil {
		return driver.Entry{}, conflict(err)
	}
	return znode{key, nonce, value, answers[len(answers)-1].Stat, nil}.entry(), nil
}

// Delete implements [driver.Store].
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
// data version that the entry must have. For the version of an unreadable entry, it reads the entry
// again.
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

// change executes a transaction. It returns the error of the operation that failed.
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

// conflict makes the error of a change match driver.ErrConflict if the entry has another version.
func conflict(err error) error {
	for _, why := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion} {
		if errors.Is(err, why) {
			return fmt.Errorf("%w: %w", driver.ErrConflict, err)
		}
	}
	return err
}
