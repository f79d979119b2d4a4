//go:build unix && go1.25

package natslease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/install/installed"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/natslease"
)

// window is the holders' window in the tests.
const window = time.Second

// A cluster's link is a way to the last member. Stall keeps back what servers say to each other,
// such as new entries, but no client's messages.
type cluster struct {
	servertest.Cluster
	link *servertest.Proxy
}

// start starts a cluster of n servers, or a single server, with additional lines of configuration,
// in which STORE stands for its directory.
func start(t testing.TB, n int, config ...string) cluster {
	t.Helper()
	path := installed.Need(t, installed.NATSServer)
	c, linked := cluster{}, sync.Once{}
	c.Cluster = servertest.StartCluster(t, n, func(m *servertest.Member, all servertest.Cluster) (servertest.Command, func() error) {
		last := all[n-1]
		linked.Do(func() { c.link = servertest.NewProxyOf(t, last.Peers[0], `"route_account":"$SYS"`) })
		var routes []string
		for _, other := range all[:n-1] {
			routes = append(routes, "nats://"+other.Peers[0])
		}
		// The last member connects only to itself.
		if routes = append(routes, "nats://"+c.link.Addr()); m == last {
			routes = []string{"nats://" + m.Peers[0]}
		}
		// If all started at once, their first election would sometimes fail, and the next one takes
		// 4 to 9 s.
		if m != last {
			servertest.Await(t, func() error {
				conn, err := net.Dial("tcp", last.Peers[0])
				if err == nil {
					err = conn.Close()
				}
				return err
			})
		}
		lines := append([]string{"server_name: " + m.Name, "listen: " + m.Addr,
			"jetstream: {store_dir: " + m.Dir + ", max_file: 10G}"}, config...)
		if n > 1 {
			lines = append(lines, fmt.Sprintf("cluster: {name: c, listen: '%s', advertise: '127.0.0.1:1', routes: [%s]}",
				m.Peers[0], strings.Join(routes, ", ")))
		}
		servertest.Do(t, os.WriteFile(m.Dir+".conf", []byte(strings.ReplaceAll(strings.Join(lines, "\n"), "STORE", m.Dir)), 0o600))
		return servertest.Command{Path: path, Args: []string{"-c", m.Dir + ".conf"}}, func() error { return ready(m.Addr) }
	})
	return c
}

// ready returns nil if the server's JetStream answers, or if it refuses the client for lack of a
// user or a certificate.
func ready(addr string) error {
	conn, err := nats.Connect(addr)
	if errors.Is(err, nats.ErrAuthorization) || err != nil && strings.Contains(err.Error(), "tls: ") {
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err
}

// connect opens a new client.
func connect(t testing.TB, addr string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	conn := servertest.Must(natslease.Connect(addr, opts...))(t)
	t.Cleanup(conn.Close)
	return conn
}

func jetStream(t testing.TB, addr string) jetstream.JetStream {
	t.Helper()
	return servertest.Must(jetstream.New(connect(t, addr)))(t)
}

func stream(t testing.TB, addr, space string) jetstream.Stream {
	t.Helper()
	return servertest.Must(jetStream(t, addr).Stream(t.Context(), "KV_"+space))(t)
}

// shared returns the address of the server for tests that do not stop it.
var shared = servertest.Shared(func(t testing.TB) string { return start(t, 1).Addrs() })

// opened opens a client's store.
func opened(t testing.TB, conn *nats.Conn, space string) *natslease.Store {
	t.Helper()
	return servertest.Must(natslease.New(conn, &natslease.Options{Bucket: space}))(t)
}

func TestMain(m *testing.M) {
	servertest.Parallel = 12 // the tests mostly wait
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, func() error, error) {
		conn, err := natslease.Connect(addr)
		if err != nil {
			return nil, nil, err
		}
		s, err := natslease.New(conn, &natslease.Options{Bucket: space})
		return s, func() error { conn.Close(); return nil }, err
	}))
}

// at returns a server or a cluster for the suites.
func at(addr string) servertest.Server {
	return servertest.Server{Addr: addr, Wipes: map[string]func(testing.TB, string){
		"Bucket": func(t testing.TB, space string) { remove(t, addr, space) },
		"Purge":  func(t testing.TB, space string) { servertest.Do(t, stream(t, addr, space).Purge(t.Context())) },
	}}
}

// server starts a single server.
func server(t testing.TB, config ...string) *servertest.Server {
	m := start(t, 1, config...).Cluster[0]
	s := at(m.Addr)
	s.Process, s.Dir = m.Process, m.Dir
	return &s
}

// remove deletes a bucket, like nats kv del.
func remove(t testing.TB, addr, space string) {
	t.Helper()
	if err := jetStream(t, addr).DeleteKeyValue(t.Context(), space); err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Fatal(err)
	}
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Run(t, server(t))
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, server(b)) }
