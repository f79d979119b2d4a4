package zklease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake/lease"
)

// Connect connects to the servers as [zk.Connect] does, with [Dial], and without a log: package
// zk would write to standard error, though its errors reach the caller too. The caller closes
// the connection, after the leases are released. session is the session timeout, such as 4 s: with
// package zk alone, a process takes almost seven times as long to give up a server that hangs.
func Connect(servers []string, session time.Duration) (*zk.Conn, error) {
	conn, _, err := zk.Connect(servers, session, zk.WithDialer(Dial), zk.WithLogger(silent{}))
	return conn, err
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// failures has, for each address, why the last attempt to connect failed, or nil.
var failures sync.Map

// Dial is for [zk.WithDialer], if [Connect] does not suffice: it works as [net.DialTimeout] does, gives a server up that
// does not answer at all for twice timeout, and remembers why it failed, for the errors of
// the stores. Package zk sets timeout to 1 s.
//
// Without it, package zk gives a server that hangs when it is connected to up after almost
// seven times the session timeout, and writes only into its log why it has no connection.
func Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, timeout)
	failures.Store(address, err)
	if err != nil {
		return nil, err
	}
	return &handshake{Conn: c, due: time.Now().Add(2 * timeout)}, nil
}

// handshake is a connection that must have received something until it is due.
type handshake struct {
	net.Conn
	due   time.Time
	heard bool
}

func (c *handshake) SetReadDeadline(t time.Time) error {
	if !c.heard && t.After(c.due) {
		t = c.due
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *handshake) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.heard = c.heard || n > 0
	return n, err
}

// call makes one request about a znode. It waits for a session, so that requests do not pile
// up without one. If ctx is done it returns, and leaves the request to package zk, which
// gives the request up with its connection.
func call[T any](ctx context.Context, s *Store, at string, do func() (T, error)) (result T, err error) {
	for s.conn.State() != zk.StateHasSession && ctx.Err() == nil {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	type answer struct {
		result T
		err    error
	}
	done := make(chan answer, 1)
	if ctx.Err() == nil {
		go func() {
			result, err := do()
			done <- answer{result, err}
		}()
	}
	select {
	case a := <-done:
		result, err = a.result, a.err
	case <-ctx.Done():
		err = s.tooLate(ctx)
	}
	for _, passing := range []error{zk.ErrNoServer, zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrSessionMoved} {
		if errors.Is(err, passing) {
			err = fmt.Errorf("%w: %w", lease.ErrAway, err)
		}
	}
	if err != nil {
		err = fmt.Errorf("zklease: %s: %w", at, err)
	}
	return result, err
}

// tooLate returns what a call is still waiting for when ctx is done.
func (s *Store) tooLate(ctx context.Context) error {
	server := s.conn.Server()
	if s.conn.State() == zk.StateHasSession {
		return fmt.Errorf("%w: no answer from %s", ctx.Err(), server)
	}
	if why, _ := failures.Load(server); why != nil {
		return fmt.Errorf("%w: %w: %w", ctx.Err(), zk.ErrNoServer, why.(error))
	}
	return fmt.Errorf("%w: %w: %s", ctx.Err(), zk.ErrNoServer, server)
}
