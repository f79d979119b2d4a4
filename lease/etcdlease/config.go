package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Config returns a configuration for clientv3.New, for a client that is to be
// back soon after an outage: it tries to connect at least every 1.5 s, and gives a
// connection up when a renewal got no answer on it. (etcd's defaults are two
// minutes, and never.) It has no logger. Complete it with Username and Password,
// TLS and whatever else the cluster asks for; append to DialOptions, if at all.
//
// With a Username, clientv3.New logs in: it waits for the cluster for up to
// DialTimeout, 5 s, and fails with rpctypes.ErrAuthFailed where the password is
// wrong. Without one it does not wait. The client logs in again by itself when the
// cluster does not know its token any more: after a restart, or without a call for
// --auth-token-ttl, 5 min by default. With etcd 3.4, other clients never do.
func Config(endpoints ...string) clientv3.Config {
	d := &dialer{conns: map[string]*conn{}}
	return clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: 5 * time.Second,
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithInitialWindowSize(1 << 20), // or else pings are sent to find a good one
			grpc.WithInitialConnWindowSize(1 << 20),
			grpc.WithContextDialer(d.dial),
			grpc.WithChainUnaryInterceptor(new(logins).share, d.watch),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
				MinConnectTimeout: time.Second,
			}),
		},
	}
}

// dialer knows the connections of a client. gRPC itself does not notice sooner
// than after 10 s that one is dead, and reports why there is none as a text.
type dialer struct {
	mu     sync.Mutex
	conns  map[string]*conn // by both their addresses
	failed error            // why there was no connection at last; nil after one was made
}

// patience is how long a call has to have waited before its connection is
// blamed.
const patience = 250 * time.Millisecond

// conn knows when it was last heard of.
type conn struct {
	net.Conn
	heard  atomic.Pointer[time.Time]
	silent atomic.Bool // closed because it was not heard of
	lost   func(error)
	forget func()
}

func name(local, remote net.Addr) string { return local.String() + " " + remote.String() }

func (d *dialer) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = err
}

func (d *dialer) cause() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

func (d *dialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	network := "tcp"
	if socket, ok := strings.CutPrefix(addr, "unix://"); ok {
		network, addr = "unix", socket
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	d.note(err)
	if err != nil {
		return nil, err
	}
	key := name(c.LocalAddr(), c.RemoteAddr())
	known := &conn{Conn: c, lost: d.note}
	known.forget = func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.conns[key] == known {
			delete(d.conns, key)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[key] = known
	return known, nil
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		now := time.Now()
		c.heard.Store(&now)
	}
	if c.silent.Load() {
		err = errNoAnswer
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.lost(err)
	}
	return n, err
}

func (c *conn) Close() error {
	c.forget()
	return c.Conn.Close()
}

// watch makes a call. If that runs out of time, and nothing at all was heard
// from the server meanwhile, it closes the connection, so that the next call has
// another one. The error says why there was no answer.
func (d *dialer) watch(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	begun := time.Now()
	var p peer.Peer
	err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Peer(&p))...)
	switch code := status.Code(err); {
	case code == codes.Unavailable:
		if cause := d.cause(); cause != nil {
			return &unavailable{err, cause}
		}
	case code != codes.DeadlineExceeded:
	case p.LocalAddr == nil: // there was no connection
		cause := d.cause()
		if cause == nil {
			cause = errors.New(status.Convert(err).Message())
		}
		return tooLate(cause)
	case time.Since(begun) >= patience:
		d.mu.Lock()
		c := d.conns[name(p.LocalAddr, p.Addr)]
		d.mu.Unlock()
		if c == nil {
			break
		}
		if heard := c.heard.Load(); heard == nil || heard.Before(begun) {
			c.silent.Store(true)
			c.Close()
			return tooLate(fmt.Errorf("%w at %v", errNoAnswer, p.Addr))
		}
	}
	return err
}

// tooLate is none of gRPC's errors, because the client would replace those by the
// context's, and drop the cause.
func tooLate(cause error) error { return fmt.Errorf("%w: %w", context.DeadlineExceeded, cause) }

// errNoAnswer is the cause if a server hangs that a client is connected to.
var errNoAnswer = errors.New("nothing was heard from the server")

// unavailable is an error of gRPC, of which the client knows what to do, with its
// cause.
type unavailable struct {
	error
	cause error
}

func (e *unavailable) Unwrap() []error { return []error{e.error, e.cause} }

// GRPCStatus is for package status.
func (e *unavailable) GRPCStatus() *status.Status { return status.Convert(e.error) }
