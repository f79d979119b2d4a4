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

// Connect connects to the servers as [zk.Connect] does, but names are looked up each time (see
// [Dial]), and nothing is logged: package zk would write to standard error, although its errors
// also reach the caller. If a name cannot be looked up, the stores' calls return the error, as they
// do if a server is down. The caller closes the connection, after the leases are released. session
// is the session timeout, such as 4 s: with package zk alone, a process takes almost seven times as
// long to give up a server that hangs.
func Connect(servers []string, session time.Duration) (*zk.Conn, error) {
	conn, _, err := zk.Connect(servers, session, zk.WithHostProvider(new(hosts)), zk.WithDialer(Dial), zk.WithLogger(silent{}))
	return conn, err
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// hosts returns the servers of a zk.Conn in turn, by their names. Package zk's own provider looks
// the names up once (https://github.com/samuel/go-zookeeper/issues/44).
type hosts struct {
	servers []string

	mu         sync.Mutex
	curr, last int // the server that was returned last, and the one with which the round ends
}

func (h *hosts) Init(servers []string) error {
	for _, s := range servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			return err
		}
	}
	h.servers, h.curr, h.last = servers, -1, -1 // they are in random order
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

// Next returns a server, and whether each has been tried since the last session. If so, package zk
// waits for a second.
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

// failures has, for each address, why there was no session after the last attempt to connect, or
// nil.
var failures sync.Map

// Dial is for [zk.WithDialer], if [Connect] does not suffice. It looks the address's name up,
// connects to one of the name's addresses, gives a server up that does not answer at all for twice
// timeout, and remembers why it failed, for the errors of the stores. Package zk sets timeout to 1
// s.
//
// Without it, if a server hangs when package zk connects to it, package zk gives it up only after
// almost seven times the session timeout, and writes only to its log why it has no connection.
//
// A client tells a server how much it has seen. A server that knows less ends the connection,
// because another one may know more. After the servers have lost data, none knows more, and package
// zk would try forever. So if connections of a session have ended in this way for longer than its
// timeout, Dial asks for a new session.
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

// dialOne connects to one address of a name, chosen at random: the first might be of a server that
// accepts connections and does not serve.
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

// A handshake is a connection that must receive something before it is due.
type handshake struct {
	net.Conn
	address string
	due     time.Time
	asked   bool  // for a session
	session int64 // the former one, or 0
	heard   bool
}

func (c *handshake) SetReadDeadline(t time.Time) error {
	if !c.heard && t.After(c.due) {
		t = c.due
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *handshake) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case c.heard:
	case n > 0:
		c.heard = true
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

// unanswered has, for each session, since when servers have ended its connections without an
// answer.
var unanswered sync.Map

// Write writes what package zk sends. The first is its request for a session.
func (c *handshake) Write(b []byte) (int, error) {
	if !c.asked {
		c.asked = true
		b = c.ask(b)
	}
	return c.Conn.Write(b)
}

// ask returns the request for a session. If the old session is given up, it is for a new one.
func (c *handshake) ask(request []byte) []byte {
	// The request is its length, the version of the protocol, how much the client has seen, the
	// timeout of the session in milliseconds, its ID, and the length of its password and the
	// password.
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

// awaitSession waits for a session. The request that needs it is about a znode.
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

// call makes one request about a znode. It waits for a session, so that requests do not pile
// up without one. If ctx is done it returns, and leaves the request to package zk, which
// gives the request up with its connection.
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

// explain adds to an error where it comes from.
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
