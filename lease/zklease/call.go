package zklease

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// Connect is like [zk.Connect], but resolves names at each connection (see [Dial]) and logs
// nothing: package zk would write to standard error, although it returns the errors, too. If a
// server is down, or its name cannot be resolved, the stores' calls return the error. session is
// the session timeout, such as 4 s. The caller must close the connection, after the leases are
// released.
func Connect(servers []string, session time.Duration) (*zk.Conn, error) {
	conn, _, err := zk.Connect(servers, session, zk.WithHostProvider(new(hosts)), zk.WithDialer(Dial), zk.WithLogger(noLog{}))
	return conn, err
}

type noLog struct{}

func (noLog) Printf(string, ...any) {}

// hosts is a zk.HostProvider that returns the servers' names in turn. Package zk's own provider
// resolves them once (https://github.com/samuel/go-zookeeper/issues/44).
type hosts struct {
	servers []string

	mu         sync.Mutex
	curr, last int // the server returned last, and the last server of the round
}

func (h *hosts) Init(servers []string) error {
	for _, s := range servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			return err
		}
	}
	h.servers, h.curr, h.last = servers, -1, -1 // package zk has shuffled them
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

// Next returns the next server. retryStart reports whether all servers have been tried since the
// last session; then package zk waits for a second.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.curr = (h.curr + 1) % len(h.servers)
	retryStart = h.curr == h.last
	h.last = max(h.last, 0)
	return h.servers[h.curr], retryStart
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = h.curr
}

// failures maps addresses to the error of the last attempt to get a session, if it failed.
var failures sync.Map

// Dial is the argument of [zk.WithDialer] for programs that do not use [Connect]. It resolves the
// address's name, connects to one of its addresses, gives up a server that sends nothing for twice
// the timeout, and keeps the error for the stores' errors. Package zk sets timeout to 1 s. Without
// Dial, package zk gives up a server that hangs after almost seven times the session timeout, and
// only logs the reason.
//
// A client sends a server the last transaction that it has seen. A server that has not seen it ends
// the connection, because another one may have. If all servers have lost it, package zk would retry
// forever. So if connections of a session have ended in this way for longer than its timeout, Dial
// asks for a new session.
func Dial(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := dialOne(ctx, network, address)
	if err != nil {
		failures.Store(address, err)
		return nil, err
	}
	return &handshake{Conn: c, address: address, due: time.Now().Add(2 * timeout)}, nil
}

// dialOne connects to an address of a name, chosen at random: the first server might accept
// connections without serving them.
func dialOne(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	all, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(all[rand.N(len(all))], port))
}

// A handshake is a connection with a deadline for the first reply.
type handshake struct {
	net.Conn
	address string
	due     time.Time
	asked   bool  // the request for a session was sent
	session int64 // the previous one, or 0
	replied bool
}

func (c *handshake) SetReadDeadline(t time.Time) error {
	if !c.replied && t.After(c.due) {
		t = c.due
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *handshake) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case c.replied:
	case n > 0:
		c.replied = true
		failures.Delete(c.address)
		unanswered.Delete(c.session)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		unanswered.LoadOrStore(c.session, time.Now())
		err = fmt.Errorf("%w: the server ends connections without a session: "+
			"it does not serve, or has lost data that this client has seen", err)
		failures.Store(c.address, err)
	case err != nil:
		failures.Store(c.address, err)
	}
	return n, err
}

// unanswered maps sessions to the time since which servers have ended their connections without a
// reply.
var unanswered sync.Map

// Write writes package zk's requests. The first is the request for a session.
func (c *handshake) Write(b []byte) (int, error) {
	if !c.asked {
		c.asked = true
		b = c.ask(b)
	}
	return c.Conn.Write(b)
}

// ask returns the request for a session, and changes it if the previous session is given up.
func (c *handshake) ask(request []byte) []byte {
	// The request consists of its length, the protocol's version, the last transaction that the
	// client has seen, the session's timeout in milliseconds and ID, and the length of its password
	// and the password.
	const zxid, timeout, id, password, end = 8, 16, 20, 32, 48
	if len(request) != end || binary.BigEndian.Uint32(request) != end-4 {
		return request
	}
	c.session = int64(binary.BigEndian.Uint64(request[id:]))
	since, ok := unanswered.Load(c.session)
	if !ok || time.Since(since.(time.Time)) < time.Duration(binary.BigEndian.Uint32(request[timeout:]))*time.Millisecond {
		return request
	}
	request = bytes.Clone(request)
	clear(request[zxid:timeout])
	clear(request[id : id+8])
	clear(request[password:])
	return request
}

// awaitSession waits for a session. at is the znode for errors.
func (s *Store) awaitSession(ctx context.Context, at string) error {
	for s.conn.State() != zk.StateHasSession {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return s.explain(at, s.tooLate(ctx))
		}
	}
	return s.explain(at, ctx.Err())
}

// call sends one request for a znode. It waits for a session, so that requests do not pile up
// without one. If ctx ends, call returns, and package zk gives up the request with the connection.
func call[T any](ctx context.Context, s *Store, at string, do func() (T, error)) (result T, err error) {
	if err := s.awaitSession(ctx, at); err != nil {
		return result, err
	}
	type answer struct {
		result T
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		result, err := do()
		done <- answer{result, err}
	}()
	select {
	case a := <-done:
		return a.result, s.explain(at, a.err)
	case <-ctx.Done():
		return result, s.explain(at, s.tooLate(ctx))
	}
}

// explain adds the znode to an error, and makes it match driver.ErrAway if there is no connection.
func (s *Store) explain(at string, err error) error {
	for _, passing := range []error{zk.ErrNoServer, zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrSessionMoved} {
		if errors.Is(err, passing) {
			err = fmt.Errorf("%w: %w", driver.ErrAway, err)
		}
	}
	if err != nil {
		err = fmt.Errorf("zklease: %s: %w", at, err)
	}
	return err
}

// tooLate returns the error of a call that ctx has ended, with the reason for its wait.
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
