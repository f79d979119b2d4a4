package natslease

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Connect is nats.Connect with options for a client that recovers soon after an outage: it tries to
// connect forever, to each server at least every 1.5 s, and gives up a connection on which nothing
// is heard for 12 s. (With the defaults of package nats it gives up after 60 tries, or if it is
// refused twice, and notices a dead connection after 6 minutes.) It writes no log. Add whatever
// else the servers need, such as nats.UserInfo, nats.UserCredentials and nats.RootCAs.
//
// url has one or more URLs of servers, with commas between them. If no server answers, Connect
// returns no error, and the connection is made later. If an option cannot be used, Connect
// returns the option's error.
//
// With nats.RootCAs and nats.ClientCert, the files are read at each connection, so that
// certificates may be renewed. The files behind nats.Secure are never read again.
func Connect(url string, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append([]nats.Option{
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.PingInterval(4 * time.Second),
		nats.MaxPingsOutstanding(2),
		// By default the client writes to standard error.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		nats.SetCustomDialer(new(dialer)),
	}, opts...)...)
}

// dialer remembers why there is no connection. The client forgets it.
type dialer struct{ last atomic.Pointer[error] }

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, time.Second)
	d.last.Store(&err)
	return conn, err
}

// trouble returns what is wrong with the connection, or what the server refused last.
func trouble(conn *nats.Conn) error {
	if d, ok := conn.Opts.CustomDialer.(*dialer); ok && !conn.IsConnected() {
		if err := d.last.Load(); err != nil && *err != nil {
			return *err
		}
	}
	return conn.LastError()
}

var (
	errBroken   = errors.New("the connection broke")
	errNoAnswer = errors.New("no server answered")
)

// untilBroken returns a context that also ends after limit, or if the connection breaks, because
// then no answer comes. Call end to free it.
func (s *Store) untilBroken(ctx context.Context, limit time.Duration) (_ context.Context, end func()) {
	ctx, stop := context.WithTimeoutCause(ctx, limit, errNoAnswer)
	ctx, cancel := context.WithCancelCause(ctx)
	conn := s.js.Conn()
	broken := conn.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	go func() {
		select {
		case <-broken:
			cancel(errBroken)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		stop()
		conn.RemoveStatusListener(broken)
	}
}
