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

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

// window is the window of the holders here.
const window = time.Second

// member is a member of a cluster.
type member struct {
	*servertest.Process
	addr string
	dir  string // with the member's data
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
	servertest.Together(t, n, func(i int) {
		m := members[i]
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
		m.Process = servertest.Start(t, c, func() error { return m.ready(t) })
	})
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

// open opens a store with a new client.
func open(t testing.TB, addr, space string) lease.Store {
	t.Helper()
	return opened(t, connect(t, addr), &etcdlease.Options{Prefix: prefix(space)})
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
		return etcdlease.New(client, &etcdlease.Options{Prefix: prefix(space)})
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
		Wipes:   map[string]func(testing.TB, string){"Prefix": func(t testing.TB, space string) { wipe(t, connect(t, m.addr), space) }},
	}
}

// wipe deletes all keys of a space, as etcdctl del does.
func wipe(t testing.TB, c *clientv3.Client, space string) {
	t.Helper()
	if _, err := c.Delete(t.Context(), prefix(space), clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	servertest.Run(t, server(t))
}

func TestServerThatLosesItsDisk(t *testing.T) {
	depth.Parallel(t)
	m := start(t, 1)[0]
	servertest.Wiped(t, &servertest.Server{Addr: m.addr, Open: open}, func(t testing.TB, _ string) {
		m.LoseDisk(m.dir)
	})
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, server(b)) }
