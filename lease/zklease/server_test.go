//go:build unix

package zklease_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

// server is one ZooKeeper server.
type server struct {
	*servertest.Process
	addr string
}

// start starts a ZooKeeper server that stands alone.
func start(t testing.TB) *server {
	t.Helper()
	return launch(t, servertest.Dir(t, ""), servertest.Port(t), "")
}

// startThree starts an ensemble.
func startThree(t testing.TB) []*server {
	t.Helper()
	var dirs []string
	var ports []int
	config := "initLimit=50\nsyncLimit=20\n"
	for i := range 3 {
		dir := servertest.Dir(t, "")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "myid"), fmt.Append(nil, i+1), 0o600))
		dirs, ports = append(dirs, dir), append(ports, servertest.Port(t))
		config += fmt.Sprintf("server.%d=127.0.0.1:%d:%d\n", i+1, servertest.Port(t), servertest.Port(t))
	}
	servers := make([]*server, 3)
	var all sync.WaitGroup
	for i := range servers {
		all.Go(func() { servers[i] = launch(t, dirs[i], ports[i], config) })
	}
	all.Wait()
	if t.Failed() || t.Skipped() {
		t.FailNow()
	}
	for _, s := range servers {
		require.Eventually(t, func() bool { return s.mode() != "" }, time.Minute, 20*time.Millisecond, "there is no quorum")
	}
	return servers
}

// shared returns a server for tests that do not disturb it.
var shared = servertest.Shared(start)

// launch starts a server in dir. If it belongs to an ensemble, it may not serve yet.
func launch(t testing.TB, dir string, port int, ensemble string) *server {
	t.Helper()
	s := &server{addr: fmt.Sprintf("127.0.0.1:%d", port)}
	jar := servertest.Program(t, "zookeeper", "/usr/share/java/zookeeper.jar")
	config := filepath.Join(dir, "zoo.cfg")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `dataDir=%s
clientPort=%d
clientPortAddress=127.0.0.1
tickTime=100
maxSessionTimeout=60000
maxClientCnxns=0
preAllocSize=4096
admin.enableServer=false
4lw.commands.whitelist=srvr
%s`, dir, port, ensemble), 0o600))
	s.Process = servertest.Start(t, servertest.Command{
		Path: servertest.Program(t, "zookeeper", "java"),
		Args: []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jar,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", config},
		Dir: dir,
	}, func() error {
		if answer := s.ask(); !strings.Contains(answer, "Mode:") && (ensemble == "" || answer == "") {
			return errors.New("it does not serve")
		}
		return nil
	})
	return s
}

// ask returns what a server says about itself.
func (s *server) ask() string {
	conn, err := net.DialTimeout("tcp", s.addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write([]byte("srvr"))
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

// mode returns "leader", "follower" or "standalone". It returns an empty text if the server does not serve.
func (s *server) mode() string {
	_, after, _ := strings.Cut(s.ask(), "Mode: ")
	mode, _, _ := strings.Cut(after, "\n")
	return mode
}

func addrs(servers []*server) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.addr)
	}
	return strings.Join(all, ",")
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// dial connects to the servers in addr, which commas separate.
func dial(addr string, session time.Duration) (*zk.Conn, error) {
	conn, _, err := zk.Connect(strings.Split(addr, ","), session, zk.WithDialer(zklease.Dial),
		zk.WithLogger(quiet{}), zk.WithMaxBufferSize(1<<20), zk.WithMaxConnBufferSize(1<<17))
	return conn, err
}

// connect connects until the test ends. The session is long, so that it does not expire on a busy machine.
func connect(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	return connectFor(t, addr, 20*time.Second)
}

func connectFor(t testing.TB, addr string, session time.Duration) *zk.Conn {
	t.Helper()
	conn, err := dial(addr, session)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// newRoot returns the options of a tree that no other test uses.
func newRoot() *zklease.Options {
	return &zklease.Options{Root: "/" + servertest.NewSpace()}
}

func open(t testing.TB, conn *zk.Conn, o *zklease.Options) *zklease.Store {
	t.Helper()
	s, err := zklease.New(conn, o)
	require.NoError(t, err)
	return s
}
