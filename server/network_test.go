package server_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/server"
)

// inFakeTime runs a test in fake time, which begins after the layouts' epochs.
func inFakeTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
		test(t)
	})
}

// dialer connects to a server, as http.Transport.DialContext does.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// inMemory is the URL of each server that serveInMemory starts.
const inMemory = "http://in.memory"

// serveInMemory starts a server that has no socket, so that its time can be fake. A write waits until the
// other side reads.
func serveInMemory(t testing.TB, gen *snowflake.Generator, o *server.Options) (*server.Server, dialer) {
	t.Helper()
	l := &listener{dialed: make(chan net.Conn), closed: make(chan struct{})}
	return serveOn(t, l, gen, o), l.dial
}

type listener struct {
	dialed chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialed:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.dialed <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
