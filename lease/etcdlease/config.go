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

// Config returns a configuration for clientv3.New whose client recovers soon after an
// outage. It tries to connect at least every 1.5 s, and closes a connection on which a
// renewal got no answer. (With etcd's defaults, the client tries every two minutes, and
// never closes it.) It has no logger. Add Username and Password, TLS and whatever else the
// cluster needs. Append to DialOptions, and do not replace them.
//
// If Username is set, clientv3.New logs in. It waits for the cluster for up to DialTimeout,
// 5 s, and fails with rpctypes.ErrAuthFailed if the password is wrong. Without a Username
// it does not wait. The client logs in again by itself when the cluster does not know its
// token any more: after a restart of the cluster, or after no call for --auth-token-ttl, 5
// min by default. With etcd 3.4, clients without this Config never do.
func Config(endpoints ...string) clientv3.Config {
	d := &dialer{conns: map[string]*conn{}}
	return clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: 5 * time.Second,
		Logger:      zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithInitialWindowSize(1 << 20), // otherwise the client sends pings to find a good window
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

// dialer knows the connections of a client. gRPC itself takes 10 s to notice that a
// connection is dead, and reports the reason only as a text.
type dialer struct {
	mu     sync.Mutex
	conns  map[string]*conn // by both addresses
	failed error            // why the last attempt to connect failed; nil after one succeeded
}

// patience is how long a call must have waited before its connection is closed.
const patience = 250 * time.Millisecond

// conn knows when it last received anything.
type conn struct {
	net.Conn
	heard  atomic.Pointer[time.Time]
	silent atomic.Bool // closed because nothing was received
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

// watch makes a call. If the call runs out of time and nothing at all was received from the
// server meanwhile, watch closes the connection, so that the next call uses another. The
// error says why there was no answer.
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

// tooLate returns an error that is not gRPC's: the client would replace gRPC's errors by
// the context's, and drop the cause.
func tooLate(cause error) error { return fmt.Errorf("%w: %w", context.DeadlineExceeded, cause) }

// errNoAnswer is the cause if the client is connected to a server that hangs.
var errNoAnswer = errors.New("nothing was heard from the server")

// unavailable adds the cause to an error of gRPC, and stays an error that the client can
// handle.
type unavailable struct {
	error
	cause error
}

func (e *unavailable) Unwrap() []error { return []error{e.error, e.cause} }

// GRPCStatus makes package status see the gRPC error.
func (e *unavailable) GRPCStatus() *status.Status { return status.Convert(e.error) }
