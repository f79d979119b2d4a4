//go:build unix && go1.25

package etcdlease_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

// window is the holders' window in the tests.
const window = time.Second

// start starts a cluster of n members.
func start(t testing.TB, n int, args ...string) servertest.Cluster {
	t.Helper()
	path := servertest.Program(t, "etcd-server", "etcd")
	return servertest.StartCluster(t, n, func(m *servertest.Member, all servertest.Cluster) (servertest.Command, func() error) {
		var cluster []string
		for _, m := range all {
			cluster = append(cluster, m.Name+"=http://"+m.Peers[0])
		}
		return servertest.Command{Path: path, Args: append([]string{
			"--name", m.Name,
			"--data-dir", m.Dir,
			"--listen-client-urls", "http://" + m.Addr,
			"--advertise-client-urls", "http://" + m.Addr,
			"--listen-peer-urls", "http://" + m.Peers[0],
			"--initial-advertise-peer-urls", "http://" + m.Peers[0],
			"--initial-cluster", strings.Join(cluster, ","),
			"--heartbeat-interval", "50",
			"--election-timeout", "500",
			"--logger", "zap",
			"--log-level", "warn",
		}, args...)}, func() error { return ready(m.Addr) }
	})
}

// ready returns nil if the member can write, or if it refuses the client for lack of a user.
func ready(addr string) error {
	client, err := clientv3.New(etcdlease.Config(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err = client.Get(ctx, "ready"); errors.Is(err, rpctypes.ErrUserEmpty) {
		return nil
	}
	return err
}

// connect opens a new client.
func connect(t testing.TB, addr string) *clientv3.Client {
	t.Helper()
	client := servertest.Must(clientv3.New(etcdlease.Config(strings.Split(addr, ",")...)))(t)
	t.Cleanup(func() { client.Close() })
	return client
}

// shared returns the address of the server for tests that do not stop it.
var shared = servertest.Shared(func(t testing.TB) string { return start(t, 1).Addrs() })

// opened opens a client's store.
func opened(t testing.TB, client *clientv3.Client, o *etcdlease.Options) *etcdlease.Store {
	t.Helper()
	return servertest.Must(etcdlease.New(client, o))(t)
}

func prefix(space string) string { return "/" + space + "/" }

func TestMain(m *testing.M) {
	servertest.Parallel = 24 // they wait much more than they work
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, func() error, error) {
		client, err := clientv3.New(etcdlease.Config(strings.Split(addr, ",")...))
		if err != nil {
			return nil, nil, err
		}
		s, err := etcdlease.New(client, &etcdlease.Options{Prefix: prefix(space)})
		return s, client.Close, err
	}))
}

// at returns a server or a cluster for the suites.
func at(addr string) servertest.Server {
	return servertest.Server{
		Addr: addr,
		// As etcdctl del does.
		Wipes: map[string]func(testing.TB, string){"Prefix": func(t testing.TB, space string) {
			servertest.Must(connect(t, addr).Delete(t.Context(), prefix(space), clientv3.WithPrefix()))(t)
		}},
		Garble: func(t testing.TB, space, key string) {
			servertest.Must(connect(t, addr).Put(t.Context(), prefix(space)+key, `{"worker": 1, "tok`))(t)
		},
	}
}

// server starts one server.
func server(t testing.TB, args ...string) *servertest.Server {
	m := start(t, 1, args...)[0]
	s := at(m.Addr)
	s.Process, s.Dir = m.Process, m.Dir
	return &s
}

func TestCalmServer(t *testing.T) {
	t.Parallel()
	s := at(shared(t))
	servertest.Calm(t, &s)
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Faults(t, server(t))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	members := start(t, 3)
	s := at(members.Addrs())
	s.Window, s.NoLeader = window, rpctypes.ErrNoLeader
	t.Run("Store", func(t *testing.T) { servertest.Store(t, &s) })
	t.Run("FleetOutlivesTheLeaderAndTheMajority", func(t *testing.T) {
		servertest.Outage(t, &s, s.Addr,
			slices.Concat(servertest.LosesLeader(&s, members, leads(t)), servertest.LosesMajority(&s, members, leads(t)))...)
	})
}

// leads returns a function that reports whether a member leads.
func leads(t *testing.T) servertest.Leads {
	return func(m *servertest.Member, _ string) bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		status, err := connect(t, m.Addr).Status(ctx, m.Addr)
		return err == nil && status.Leader == status.Header.MemberId
	}
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, server(b)) }
