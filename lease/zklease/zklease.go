// Package zklease keeps the worker IDs of a fleet in ZooKeeper, for package
// lease.
//
//	conn, _, err := zk.Connect(servers, 6*time.Second, zk.WithDialer(zklease.Dial))
//	...
//	defer conn.Close()
//	l, err := lease.Acquire(ctx, zklease.New(conn, nil), nil)
//	...
//	defer l.Release(context.Background())
//	gen, err := snowflake.NewLeased(l, nil)
//
// # The tree
//
//	/snowflake/servers/0000000007    persistent: the record of worker ID 7, with
//	                                 its owner and bound, as JSON
//	/snowflake/instances/0000000007  ephemeral: its holder's session lives
//	/snowflake/clock                 written to ask for the time
//
// It is made when it is first needed.
//
// Every change of a record is a setData that names the znode's data version,
// which is Record.Version, so that one which comes late changes nothing. A
// renewal is that one request. Taking and releasing a worker ID is a transaction
// which also makes or removes the ephemeral znode.
//
// The time is the ZooKeeper leader's: Record.Renewed is the mtime of the record's
// znode. A worker ID is free when its holder has released it, has not renewed it
// for a window, or has no ephemeral znode any more, because its session was closed
// or expired. A holder whose session expired while it was cut off makes its
// ephemeral znode again with its next renewal. Removing an ephemeral znode by hand
// declares its holder dead. Whether IDs are unique depends on none of this, only
// on the bounds: see package lease.
//
// # Limits
//
// Acquire reads each record by a request of its own, many at a time; so what it
// costs the servers grows with the fleet.
// The list of 65,536 worker IDs (16 bits) just fits the 1 MiB that ZooKeeper's own
// tools read at most (jute.maxbuffer); a layout should not have more worker bits. A record can be saved
// 2,147,483,647 times, which is 68 years of the default window; after that Save
// says so, and the record has to be removed by hand.
//
// # Hazards
//
// HAZARD: ZooKeeper has to keep what it acknowledged. With forceSync=no, or after
// its data was restored from a backup, bounds are lost, and IDs may repeat.
//
// HAZARD: a record may be removed by hand only when its holder has stopped, and
// no earlier than a session timeout after that: its bound goes with it, and the
// versions of the next one begin at 1 again, so that a request of the old holder
// which is still under way could meet the version that it names.
//
// HAZARD: let all servers of an ensemble follow the same time. When the lead goes
// to one whose clock is off by more than a window, live holders look dead until
// they renew, and may lose their worker IDs (never issuing an ID twice).
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

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Options are the settings of New. The zero value, and nil, consist entirely of
// defaults.
type Options struct {
	// Root is the znode that all others lie under, which may have parents.
	// Worker IDs are shared by those who give the same one. Empty: /snowflake.
	Root string

	// ACL is that of the znodes that the store makes. Those that are there keep
	// theirs. nil: anybody may do anything. With another one, call
	// [zk.Conn.AddAuth] before New.
	ACL []zk.ACL
}

// New returns a store in the ZooKeeper ensemble that conn is connected to, or
// will be. The caller closes conn, after the leases are released. Any number of
// leases may share one, and so its session.
//
// The session timeout given to [zk.Connect] should be at least the window of the
// leases: with a shorter one, a holder that was cut off for longer than that may
// lose its worker ID before its window ends. Connect with [Dial], or a server that
// hangs is given up late.
//
// Calls return soon after their context is done. What they asked for may still be
// done later, if its turn ever comes.
//
// Errors are of type [*Error]. They wrap those of package zk and
// [lease.ErrBadRecord], [lease.ErrConflict], [lease.ErrInvalidOptions] (where conn
// is nil) or the context's error.
func New(conn *zk.Conn, opts *Options) lease.Store {
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
	return &store{
		conn: conn,
		root: strings.TrimSuffix(o.Root, "/"),
		acl:  o.ACL,
		made: map[int]instance{},
		room: make(chan struct{}, maxCalls),

		loading: make(chan struct{}, 1),
	}
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
	maxCalls    = 1024             // requests of a store that are not answered yet
	maxReaders  = 32               // of those, by one Load
	connectWait = 10 * time.Second // for a connection, where the context allows it
	connectPoll = 10 * time.Millisecond
)

type store struct {
	conn *zk.Conn
	root string
	acl  []zk.ACL
	room chan struct{} // for calls that are not answered yet

	begun   atomic.Int64  // how many loads of several records
	loading chan struct{} // has room for one: whoever does that
	answer  answer        // guarded by loading: the last one

	mu   sync.Mutex
	made map[int]instance // the ephemeral znodes that this store made
}

// instance is an ephemeral znode: who made it, in which session.
type instance struct {
	token   string
	session int64
}

func (s *store) clock() string                { return s.root + "/clock" }
func (s *store) servers() string              { return s.root + "/servers" }
func (s *store) instances() string            { return s.root + "/instances" }
func (s *store) instanceOf(worker int) string { return s.instances() + "/" + nodeName(worker) }

// Locate returns the path of a worker ID's record.
func (s *store) Locate(worker int) string { return s.servers() + "/" + nodeName(worker) }

// call does one request. When ctx is done it returns, and leaves the request to
// itself; it keeps its room until package zk is done with it, so that there are
// never many of these.
func call[T any](ctx context.Context, s *store, path string, do func() (T, error)) (T, error) {
	var none T
	if err := s.connected(ctx); err != nil {
		return none, &Error{path, err}
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
			return result, &Error{path, err}
		}
		return result, nil
	case <-ctx.Done():
		return none, &Error{path, ctx.Err()}
	}
}

// connected waits for a session, so that no requests pile up where there is none.
func (s *store) connected(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.conn == nil {
		return fmt.Errorf("%w: the conn is nil", lease.ErrInvalidOptions)
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
			return fmt.Errorf("%w: %w (%v)", ctx.Err(), zk.ErrNoServer, s.conn.State())
		}
	}
	return fmt.Errorf("%w (%v)", zk.ErrNoServer, s.conn.State())
}

// tick asks for the server's time, which takes a write. Everything that was saved
// before it is seen by what this session reads after it, whichever server it
// reads from.
func (s *store) tick(ctx context.Context) (time.Time, error) {
	for {
		stat, err := s.set(ctx, s.clock(), nil, -1)
		if err == nil {
			return time.UnixMilli(stat.Mtime).UTC(), nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return time.Time{}, err
		}
		if err := s.makeTree(ctx); err != nil {
			return time.Time{}, err
		}
	}
}

func (s *store) set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return call(ctx, s, path, func() (*zk.Stat, error) { return s.conn.Set(path, data, version) })
}

// makeTree makes the znodes that others lie under. The clock comes last, so that
// where it is, the others are.
func (s *store) makeTree(ctx context.Context) error {
	for _, p := range []string{s.servers(), s.instances(), s.clock()} {
		if err := s.make(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// make makes a znode, and its parents, where it is not there.
func (s *store) make(ctx context.Context, p string) error {
	_, err := call(ctx, s, p, func() (string, error) { return s.conn.Create(p, nil, 0, s.acl) })
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoNode) && path.Dir(p) != "/":
		if err := s.make(ctx, path.Dir(p)); err != nil {
			return err
		}
		return s.make(ctx, p)
	}
	return err
}
