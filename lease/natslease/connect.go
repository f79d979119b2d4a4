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
// connect forever, to each server at least every 1.5 s, and closes a connection without a reply for
// 12 s. (With the defaults of package nats it gives up after 60 tries or two refusals, and notices
// a dead connection after 6 minutes.) It does not log. Add whatever else the servers need, such as
// nats.UserInfo, nats.UserCredentials and nats.RootCAs.
//
// url is a comma-separated list of the servers' URLs. If no server answers, Connect returns no
// error, and connects later. If an option is invalid, Connect returns the option's error.
//
// The files of nats.RootCAs and nats.ClientCert are read at each connection, so that certificates
// may be renewed. Those of nats.Secure are read once.
func Connect(url string, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append([]nats.Option{
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.PingInterval(4 * time.Second),
		nats.MaxPingsOutstanding(2),
		// The default handler writes to standard error.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		nats.SetCustomDialer(new(dialer)),
	}, opts...)...)
}

// dialer keeps the last error, which the client does not.
type dialer struct{ last atomic.Pointer[error] }

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, time.Second)
	d.last.Store(&err)
	return conn, err
}

// trouble returns the reason why there is no connection or, if there is one, the server's last
// error.
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
// then there will be no reply. Call end to release it.
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
