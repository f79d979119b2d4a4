package etcdlease

import (
	"context"
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
// than after 10 s that one is dead.
type dialer struct {
	mu    sync.Mutex
	conns map[string]*conn // by both their addresses
}

// patience is how long a call has to have waited before its connection is
// blamed.
const patience = 250 * time.Millisecond

// conn knows when it was last heard of.
type conn struct {
	net.Conn
	heard  atomic.Pointer[time.Time]
	forget func()
}

func name(local, remote net.Addr) string { return local.String() + " " + remote.String() }

func (d *dialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	network := "tcp"
	if socket, ok := strings.CutPrefix(addr, "unix://"); ok {
		network, addr = "unix", socket
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	key := name(c.LocalAddr(), c.RemoteAddr())
	known := &conn{Conn: c}
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
	return n, err
}

func (c *conn) Close() error {
	c.forget()
	return c.Conn.Close()
}

// watch makes a call. Where that runs out of time, and nothing at all was heard
// from the server meanwhile, it closes the connection, so that the next call has
// another one.
func (d *dialer) watch(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	begun := time.Now()
	var p peer.Peer
	err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Peer(&p))...)
	if status.Code(err) != codes.DeadlineExceeded {
		return err
	}
	if p.LocalAddr == nil { // the client would drop why there is no connection
		return fmt.Errorf("%w: %s", context.DeadlineExceeded, status.Convert(err).Message())
	}
	if time.Since(begun) < patience {
		return err
	}
	d.mu.Lock()
	c := d.conns[name(p.LocalAddr, p.Addr)]
	d.mu.Unlock()
	if c == nil {
		return err
	}
	if heard := c.heard.Load(); heard == nil || heard.Before(begun) {
		c.Close()
	}
	return err
}
