//go:build unix

package natslease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/natslease"
)

// A server is the test binary, started again.
const serverEnv = "NATSLEASE_SERVER" // the path of the server's configuration

// window is the window of the holders here.
const window = time.Second

// member is a server of a cluster, or a server alone.
type member struct {
	*servertest.Process
	name, addr, peer string
	dir              string            // with the member's data
	link             *servertest.Proxy // of the last member: Hold keeps back what servers say to each other, such as new entries, but no client's messages
}

// start starts a cluster of n servers, or a server alone, with more lines of configuration.
func start(t testing.TB, n int, config ...string) []*member {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := servertest.Dir(t, "")
	var members []*member
	var routes []string
	for i := range n {
		name := fmt.Sprint("m", i)
		m := &member{name: name, addr: fmt.Sprint("127.0.0.1:", servertest.Port(t)), peer: fmt.Sprint("127.0.0.1:", servertest.Port(t)), dir: filepath.Join(dir, name)}
		members, routes = append(members, m), append(routes, "nats://"+m.peer)
	}
	last := n - 1 // it connects to itself only, and the others reach it through its link
	link := servertest.NewProxyOf(t, members[last].peer, `"route_account":"$SYS"`)
	members[last].link, routes[last] = link, "nats://"+link.Addr()
	servertest.Together(t, n, func(i int) {
		m, routes := members[i], routes
		lines := append([]string{"server_name: " + m.name, "listen: " + m.addr, "jetstream: {store_dir: " + m.dir + ", max_file: 10G}"}, config...)
		if i == last {
			routes = []string{"nats://" + m.peer}
		}
		if n > 1 {
			lines = append(lines, fmt.Sprintf("cluster: {name: c, listen: '%s', advertise: '127.0.0.1:1', routes: [%s]}", m.peer, strings.Join(routes, ", ")))
		}
		file := m.dir + ".conf"
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Error(err)
			return
		}
		m.Process = servertest.Start(t, servertest.Command{Path: exe, Env: []string{serverEnv + "=" + file}}, func() error { return m.ready(t) })
	})
	return members
}

// serve is a server until it is killed.
func serve(file string) {
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		panic(err)
	}
	opts.NoSigs = true
	s, err := server.NewServer(opts)
	if err != nil {
		panic(err)
	}
	s.ConfigureLogger()
	s.Start()
	s.WaitForShutdown()
}

// ready returns nil if the server's JetStream answers, or refuses the client because it has no user.
func (m *member) ready(t testing.TB) error {
	conn, err := nats.Connect(m.addr)
	if errors.Is(err, nats.ErrAuthorization) {
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

// addrs returns the addresses of all members as one text.
func addrs(members []*member) string {
	var all []string
	for _, m := range members {
		all = append(all, m.addr)
	}
	return strings.Join(all, ",")
}

// connect opens a new client.
func connect(t testing.TB, addr string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := natslease.Connect(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func jetStream(t testing.TB, conn *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// shared returns the address of the server for the tests that do not stop it.
var shared = servertest.Shared(func(t testing.TB) string { return start(t, 1)[0].addr })

// open opens a store with a new client.
func open(t testing.TB, addr, space string) lease.Store {
	t.Helper()
	return opened(t, connect(t, addr), space)
}

// opened opens a client's store.
func opened(t testing.TB, conn *nats.Conn, space string) *natslease.Store {
	t.Helper()
	s, err := natslease.New(conn, &natslease.Options{Bucket: space})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMain(m *testing.M) {
	if file := os.Getenv(serverEnv); file != "" {
		serve(file)
		return
	}
	servertest.Parallel = 12 // the tests mostly wait
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, error) {
		conn, err := natslease.Connect(addr)
		if err != nil {
			return nil, err
		}
		return natslease.New(conn, &natslease.Options{Bucket: space})
	}))
}

// fleetServer starts one server for the fleet suite.
func fleetServer(t testing.TB) *servertest.Server {
	m := start(t, 1)[0]
	return &servertest.Server{
		Addr: m.addr, Open: open, Kill: m.Kill, Restart: m.Restart, Pause: m.Pause, Resume: m.Resume, CPU: m.CPU,
		Wipes: map[string]func(testing.TB, string){
			"Bucket": func(t testing.TB, space string) { remove(t, connect(t, m.addr), space) },
			"Purge": func(t testing.TB, space string) {
				stream, err := jetStream(t, connect(t, m.addr)).Stream(t.Context(), "KV_"+space)
				if err == nil {
					err = stream.Purge(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
			},
		},
	}
}

// remove deletes a bucket, as nats kv del does.
func remove(t testing.TB, conn *nats.Conn, space string) {
	t.Helper()
	if err := jetStream(t, conn).DeleteKeyValue(t.Context(), space); err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Fatal(err)
	}
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Run(t, fleetServer(t))
}

func TestServerThatLosesItsDisk(t *testing.T) {
	depth.Parallel(t)
	m := start(t, 1)[0]
	servertest.Wiped(t, &servertest.Server{Addr: m.addr, Open: open}, func(t testing.TB, _ string) {
		m.LoseDisk(m.dir)
	})
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, fleetServer(b)) }
