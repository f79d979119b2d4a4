//go:build go1.25

package server_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/server"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

func TestMain(m *testing.M) {
	depth.TempDirInMemory()
	os.Exit(m.Run())
}

// generator returns a generator with worker ID 7 and the default layout.
func generator(t testing.TB) *snowflake.Generator {
	t.Helper()
	gen, err := snowflake.New(7, &snowflake.Options{Clock: snowflake.SystemClock()}) // with a clock of its own, the generator is not shared
	require.NoError(t, err)
	return gen
}

func newServer(t testing.TB, gen *snowflake.Generator, o *server.Options) *server.Server {
	t.Helper()
	s, err := server.New(gen, o)
	require.NoError(t, err)
	return s
}

// serve starts a server on a free port of the loopback interface.
func serve(t testing.TB, gen *snowflake.Generator, o *server.Options) (*server.Server, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serveOn(t, listener, gen, o), "http://" + listener.Addr().String()
}

func serveOn(t testing.TB, listener net.Listener, gen *snowflake.Generator, o *server.Options) *server.Server {
	t.Helper()
	s := newServer(t, gen, o)
	h := s.HTTPServer("")
	h.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	go func() { _ = h.Serve(listener) }()
	t.Cleanup(func() { _ = h.Close() })
	return s
}

// inFakeTime runs a test in fake time, starting after the layouts' epochs.
func inFakeTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
		test(t)
	})
}

// dialer is a function like http.Transport.DialContext.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// inMemory is the URL of the servers that serveInMemory starts.
const inMemory = "http://in.memory"

// serveInMemory starts a server without a socket, so that its time can be fake. A write blocks
// until the other side reads.
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

// http1 returns a client for HTTP/1.1. If dial is nil, it dials TCP.
func http1(t testing.TB, dial dialer) *http.Client {
	transport := &http.Transport{DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// h2c returns a client for HTTP/2 without TLS, as for gRPC.
func h2c(t testing.TB, dial dialer) *http.Client {
	transport := &http.Transport{DialContext: dial, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// protocols are the ways to call a method.
func protocols(t testing.TB, url string, dial dialer) map[string]snowflakev1connect.SnowflakeServiceClient {
	http1 := http1(t, dial)
	return map[string]snowflakev1connect.SnowflakeServiceClient{
		"gRPC":            snowflakev1connect.NewSnowflakeServiceClient(h2c(t, dial), url, connect.WithGRPC()),
		"gRPC-Web":        snowflakev1connect.NewSnowflakeServiceClient(http1, url, connect.WithGRPCWeb()),
		"Connect, JSON":   snowflakev1connect.NewSnowflakeServiceClient(http1, url, connect.WithProtoJSON()),
		"Connect, HTTP/2": snowflakev1connect.NewSnowflakeServiceClient(h2c(t, dial), url),
		"Connect, GET":    snowflakev1connect.NewSnowflakeServiceClient(http1, url, connect.WithHTTPGet()),
		"gRPC-Web, HTTP/2, gzip": snowflakev1connect.NewSnowflakeServiceClient(h2c(t, dial), url,
			connect.WithGRPCWeb(), connect.WithSendGzip()),
	}
}

// take returns the IDs of a stream, and the number of IDs in each response.
func take(ctx context.Context, c snowflakev1connect.SnowflakeServiceClient, in *pb.StreamRequest) (ids []int64, sizes []int, err error) {
	stream, err := c.Stream(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	for stream.Receive() {
		ids = append(ids, stream.Msg().Ids...)
		sizes = append(sizes, len(stream.Msg().Ids))
	}
	return ids, sizes, stream.Err()
}

// get returns the answer to a GET.
func get(t testing.TB, client *http.Client, url string, header ...string) (*http.Response, string) {
	t.Helper()
	return request(t, client, http.MethodGet, url, nil, header...)
}

func request(t testing.TB, client *http.Client, method, url string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(b)
}

// ask calls a handler for a GET without a network.
func ask(h http.Handler, path string) *httptest.ResponseRecorder {
	return answer(h, httptest.NewRequest(http.MethodGet, path, nil))
}

func answer(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
