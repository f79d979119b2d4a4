// Package zklease keeps the worker IDs of a fleet in ZooKeeper, for package lease.
//
//	conn, _, err := zk.Connect(servers, 6*time.Second, zk.WithDialer(zklease.Dial))
//	...
//	defer conn.Close()
//	store, err := zklease.New(conn, nil)
//	...
//	err = store.Create(ctx, 0) // does nothing if the store is there
//	...
//	l, err := lease.Acquire(ctx, store, nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// # The tree
//
//	/snowflake/servers/0000000007    persistent: the record of worker ID 7, with
//	                                 its owner and bound, as JSON
//	/snowflake/instances/0000000007  ephemeral: its holder's session lives
//	/snowflake/used/0000000007       persistent and empty: there was a record, so
//	                                 there has to be one
//	/snowflake/history/0000000007/*  persistent: a holder of before, as JSON; the
//	                                 name says when its window began and ended
//	/snowflake/clock                 written to ask for the time
//
// Every change of a record is a setData that names the znode's data version, which is
// Record.Version. So a request that arrives late changes nothing. A renewal is this one
// request. To take or release a worker ID, the store uses a transaction that also makes or
// removes the ephemeral znode, and writes the history.
//
// The time is the clock of ZooKeeper's leader: Record.Renewed is the mtime of the record's
// znode. A worker ID is free if its holder has released it, has not renewed it for a
// window, or has no ephemeral znode any more, because its session was closed or expired. If
// the session expired while the holder was cut off, the holder's next renewal makes the
// ephemeral znode again. If somebody removes an ephemeral znode by hand, its holder is
// taken for dead. All this decides only when a worker ID is free. Whether IDs are unique
// depends on the bounds alone: see package lease.
//
// # A store that was wiped
//
// If znodes are removed while IDs are being issued, nobody knows any more up to which time
// they were issued. So holders and newcomers get an error that matches [lease.ErrWiped] if
// a part of the tree is missing, if a used worker ID has no record, or if a znode under
// used was removed. Holders go on to the end of their windows, and newcomers get no worker
// ID.
//
// [Store.Create] repairs the store: it waits until all windows must have ended, and then
// makes the store whole again. If each process calls Create when it starts, the next start
// ends the outage.
//
// To remove the record of one worker ID, wait until its bound has passed and its holder has
// been gone for a session timeout, remove it, and call Create.
//
// # Limits
//
// Acquire reads each record with one request, many at a time, so its cost grows with the
// fleet. A layout should have at most 16 worker bits: the list of 65,536 worker IDs just
// fits the 1 MiB that ZooKeeper's own tools read (jute.maxbuffer).
//
// A record can be saved 2,147,483,647 times, which is 68 years of the default window. After
// that Save says so, and the record has to be removed by hand. The last 2,000 holders of
// each worker ID are kept, and earlier ones dropped whatever their age; Record.Forgotten
// notes it.
//
// # Hazards
//
// HAZARD: ZooKeeper has to keep what it acknowledged. With forceSync=no, or after its data
// was restored from a backup, bounds are lost, and IDs may repeat.
//
// HAZARD: a store that was wiped has lost the bounds, so Create goes by time instead. A
// newcomer may repeat IDs of a holder whose clock was ahead of the others'. It may repeat
// IDs of live holders if Create is called with a shorter window than the fleet's, or if
// znodes are made by hand. Versions begin at 1 again, so if a request of an old holder is
// still under way after two windows, it could find the version that it names. [lease.Whois]
// does not find issuers whose records were wiped.
//
// All servers of an ensemble must follow the same time. If the leader changes to a server
// whose clock is off by more than a window, live holders look dead until they renew, and
// may lose their worker IDs. No ID repeats because of that.
package zklease

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Options are the settings of New. The zero value consists entirely of defaults, and so
// does nil.
type Options struct {
	// Root is the znode that has all others below it; it may have parents. Processes with
	// the same Root share worker IDs. Empty: /snowflake.
	Root string

	// ACL is the access control list of the znodes that the store makes. Existing znodes
	// keep theirs. nil: anybody may do anything. With any other ACL, call [zk.Conn.AddAuth]
	// before New.
	ACL []zk.ACL
}

// Store is a [lease.Store] in a ZooKeeper ensemble. It may be used by any number of
// goroutines and leases.
type Store struct {
	conn *zk.Conn
	root string
	acl  []zk.ACL
	keep int           // how many holdings of a worker ID are kept
	room chan struct{} // has room for the calls that are not answered yet

	begun   atomic.Int64  // how many loads of all records
	loading chan struct{} // a lock with room for one, for the Load that reads
	answer  answer        // the last answer; guarded by loading

	mu   sync.Mutex
	made map[int]instance // the ephemeral znodes that this store made
}

var _ lease.Historian = (*Store)(nil)

// New returns the store in the ZooKeeper ensemble to which conn is connected, or will be;
// [Store.Create] must have made it there. Any number of leases may share one Store, and so
// its session. The caller closes conn, after the leases are released. If conn is nil, or
// the options are not valid, the error matches [lease.ErrInvalidOptions].
//
// The session timeout given to [zk.Connect] should be at least the window of the leases.
// With a shorter one, a holder that is cut off for longer than the timeout may lose its
// worker ID before its window ends. Connect with [Dial]: without it, a server that hangs is
// given up late, and errors do not say why there is no connection.
//
// Calls return soon after their context is done. Their requests may still be carried out
// later.
//
// Errors are of type [*Error]. They wrap errors of package zk and [lease.ErrBadRecord],
// [lease.ErrConflict], [lease.ErrWiped] or the context's error. If there is no connection,
// they wrap zk.ErrNoServer and the error that [Dial] got, such as syscall.ECONNREFUSED. If
// there is no connection, or the connection or session ends, they also wrap [lease.ErrAway],
// so lease.Acquire asks again.
func New(conn *zk.Conn, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Root == "" {
		o.Root = "/snowflake"
	}
	if o.ACL == nil {
		o.ACL = zk.WorldACL(zk.PermAll)
	}
	root := strings.TrimSuffix(o.Root, "/")
	switch {
	case conn == nil:
		return nil, fmt.Errorf("zklease: %w: the conn is nil", lease.ErrInvalidOptions)
	case !validPath(root):
		return nil, fmt.Errorf("zklease: %w: %w: Root %q", lease.ErrInvalidOptions, zk.ErrInvalidPath, o.Root)
	case len(o.ACL) == 0:
		return nil, fmt.Errorf("zklease: %w: ACL lets nobody do anything", lease.ErrInvalidOptions)
	}
	return &Store{
		conn:    conn,
		root:    root,
		acl:     o.ACL,
		keep:    maxHistory,
		made:    map[int]instance{},
		room:    make(chan struct{}, maxCalls),
		loading: make(chan struct{}, 1),
	}, nil
}

// validPath reports whether ZooKeeper accepts root, which is empty for the top.
func validPath(root string) bool {
	if root == "" {
		return true
	}
	return root != "/" && path.IsAbs(root) && path.Clean(root) == root && utf8.ValidString(root) && !strings.ContainsRune(root, 0)
}

// Error says which znode a request was about. It unwraps to the reason.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("zklease: %s: %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

const (
	maxCalls    = 1024             // of a store, at one time, that are not answered yet
	maxReaders  = 32               // of these, by one Load
	connectWait = 10 * time.Second // for a connection, if the context allows it
	connectPoll = 10 * time.Millisecond
)

// instance is an ephemeral znode: which holder made it, and in which session.
type instance struct {
	token   string
	session int64
}

func (s *Store) clock() string                { return s.root + "/clock" }
func (s *Store) servers() string              { return s.root + "/servers" }
func (s *Store) instances() string            { return s.root + "/instances" }
func (s *Store) used() string                 { return s.root + "/used" }
func (s *Store) history() string              { return s.root + "/history" }
func (s *Store) instanceOf(worker int) string { return s.instances() + "/" + nodeName(worker) }
func (s *Store) usedOf(worker int) string     { return s.used() + "/" + nodeName(worker) }
func (s *Store) historyOf(worker int) string  { return s.history() + "/" + nodeName(worker) }

// Locate returns the path of a worker ID's record.
func (s *Store) Locate(worker int) string { return s.servers() + "/" + nodeName(worker) }

// call makes one request. When ctx is done it returns, and leaves the request to package
// zk. The request keeps its room until package zk is done with it, so there are never many
// of these.
func call[T any](ctx context.Context, s *Store, path string, do func() (T, error)) (T, error) {
	var none T
	if err := s.connected(ctx); err != nil {
		return none, &Error{path, away(err)}
	}
	select {
	case s.room <- struct{}{}:
	case <-ctx.Done():
		return none, &Error{path, fmt.Errorf("%d earlier requests are not answered: %w", maxCalls, ctx.Err())}
	}
	var result T
	done := make(chan error, 1)
	go func() {
		var err error
		result, err = do()
		<-s.room
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return result, &Error{path, away(err)}
		}
		return result, nil
	case <-ctx.Done():
		return none, &Error{path, s.tooLate(ctx)}
	}
}

// away adds lease.ErrAway to an error that ends when there is a connection, or a session, again.
func away(err error) error {
	for _, passing := range []error{zk.ErrNoServer, zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrSessionMoved} {
		if errors.Is(err, passing) {
			return fmt.Errorf("%w: %w", lease.ErrAway, err)
		}
	}
	return err
}

// tooLate returns what a call is still waiting for when ctx is done.
func (s *Store) tooLate(ctx context.Context) error {
	if s.conn.State() != zk.StateHasSession {
		return fmt.Errorf("%w: %w", ctx.Err(), s.noServer())
	}
	return fmt.Errorf("%w: no answer from %s", ctx.Err(), s.conn.Server())
}

// noServer returns why there is no session.
func (s *Store) noServer() error {
	if why := failure(s.conn.Server()); why != nil {
		return fmt.Errorf("%w: %w", zk.ErrNoServer, why)
	}
	return fmt.Errorf("%w (%v)", zk.ErrNoServer, s.conn.State())
}

// connected waits for a session, so that requests do not pile up without one.
func (s *Store) connected(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.conn.State() == zk.StateHasSession {
		return nil
	}
	poll := time.NewTicker(connectPoll)
	defer poll.Stop()
	for begun := time.Now(); time.Since(begun) < connectWait; {
		select {
		case <-poll.C:
			if s.conn.State() == zk.StateHasSession {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), s.noServer())
		}
	}
	return s.noServer()
}

// tick returns the server's time, by a write. After the write, this session sees everything
// that was saved before it, whichever server it reads from.
func (s *Store) tick(ctx context.Context) (time.Time, error) {
	stat, err := s.set(ctx, s.clock(), nil, -1)
	if errors.Is(err, zk.ErrNoNode) {
		return time.Time{}, notWhole(s.clock())
	}
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(stat.Mtime).UTC(), nil
}

func (s *Store) set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return call(ctx, s, path, func() (*zk.Stat, error) { return s.conn.Set(path, data, version) })
}

func (s *Store) exists(ctx context.Context, path string) (bool, error) {
	return call(ctx, s, path, func() (bool, error) {
		there, _, err := s.conn.Exists(path)
		return there, err
	})
}

// children returns the names of the znodes under a path.
func (s *Store) children(ctx context.Context, path string) ([]string, error) {
	return call(ctx, s, path, func() ([]string, error) {
		names, _, err := s.conn.Children(path)
		return names, err
	})
}

// notWhole returns the error for a part of the tree that does not exist.
func notWhole(path string) error {
	return &Error{path, fmt.Errorf("%w: it is not there, so the store was wiped or never created: see Store.Create", lease.ErrWiped)}
}

// gone returns the error for a used worker ID whose record does not exist.
func gone(path string) error { return &Error{path, fmt.Errorf("%w: it is gone", lease.ErrWiped)} }
