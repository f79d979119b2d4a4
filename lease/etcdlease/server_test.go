//go:build unix

package etcdlease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

// window is the window of most holders here. The servers have a short election timeout, so that their
// least TTL is 1 s.
const window = time.Second

// member is a member of a cluster.
type member struct {
	*servertest.Process
	addr string
	dir  string // with the member's data
	dead bool
}

// start starts a cluster of n members.
func start(t testing.TB, n int, args ...string) []*member {
	t.Helper()
	path := servertest.Program(t, "etcd-server", "etcd")
	dir := servertest.Dir(t, "")
	var members []*member
	var peers, cluster []string
	for i := range n {
		members = append(members, &member{addr: fmt.Sprint("127.0.0.1:", servertest.Port(t)), dir: filepath.Join(dir, fmt.Sprint("m", i))})
		peers = append(peers, fmt.Sprint("http://127.0.0.1:", servertest.Port(t)))
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	started := make(chan struct{})
	for i, m := range members {
		c := servertest.Command{Path: path, Args: append([]string{
			"--name", fmt.Sprint("m", i),
			"--data-dir", m.dir,
			"--listen-client-urls", "http://" + m.addr,
			"--advertise-client-urls", "http://" + m.addr,
			"--listen-peer-urls", peers[i],
			"--initial-advertise-peer-urls", peers[i],
			"--initial-cluster", strings.Join(cluster, ","),
			"--heartbeat-interval", "20",
			"--election-timeout", "200",
			"--logger", "zap",
			"--log-level", "warn",
		}, args...)}
		ready := func() error { return m.ready(t) }
		go func() {
			defer func() { started <- struct{}{} }()
			m.Process = servertest.Start(t, c, ready)
		}()
	}
	for range members {
		<-started
	}
	if t.Failed() {
		t.FailNow()
	}
	return members
}

// ready returns nil if the member can write, or refuses to because there is no user.
func (m *member) ready(t testing.TB) error {
	client, err := clientv3.New(etcdlease.Config(m.addr))
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

// addrs returns the addresses of all members as one text.
func addrs(members []*member) string {
	var all []string
	for _, m := range members {
		all = append(all, m.addr)
	}
	return strings.Join(all, ",")
}

// connect opens a new client.
func connect(t testing.TB, addr string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(etcdlease.Config(strings.Split(addr, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// shared returns the address of the server for the tests that do not stop it.
var shared = servertest.Shared(func(t testing.TB) string { return start(t, 1)[0].addr })

// ofItsOwn opens a client of the shared server, which sees only the keys of its test.
func ofItsOwn(t testing.TB) *clientv3.Client {
	t.Helper()
	client := connect(t, shared(t))
	client.KV = namespace.NewKV(client.KV, t.Name())
	return client
}

// open opens a store with a new client. If the store does not exist, it makes it.
func open(t testing.TB, addr, space string) lease.Store {
	t.Helper()
	return store(t, connect(t, addr), &etcdlease.Options{Prefix: prefix(space)})
}

// store opens a client's store. If the store does not exist, it makes it.
func store(t testing.TB, client *clientv3.Client, o *etcdlease.Options) *etcdlease.Store {
	t.Helper()
	s := opened(t, client, o)
	err := s.Create(t.Context(), 1)
	for begun := time.Now(); errors.Is(err, lease.ErrAway) && time.Since(begun) < time.Minute; err = s.Create(t.Context(), 1) {
		time.Sleep(20 * time.Millisecond) // on a busy machine a server may need longer than it allows itself
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// opened opens a client's store.
func opened(t testing.TB, client *clientv3.Client, o *etcdlease.Options) *etcdlease.Store {
	t.Helper()
	s, err := etcdlease.New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func prefix(space string) string { return "/" + space + "/" }

func TestMain(m *testing.M) {
	servertest.Parallel = 24 // they wait much more than they work
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, error) {
		client, err := clientv3.New(etcdlease.Config(strings.Split(addr, ",")...))
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s, err := etcdlease.New(client, &etcdlease.Options{Prefix: prefix(space)})
		if err == nil {
			err = s.Create(ctx, 1)
		}
		return s, err
	}))
}

// server starts one server for the fleet suite.
func server(t testing.TB) *servertest.Server {
	m := start(t, 1)[0]
	return &servertest.Server{
		Addr:    m.addr,
		Open:    open,
		Kill:    m.Kill,
		Restart: m.Restart,
		Pause:   m.Pause,
		Resume:  m.Resume,
		CPU:     m.CPU,
	}
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Run(t, server(t))
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, server(b)) }
