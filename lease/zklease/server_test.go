//go:build unix && go1.25

package zklease_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

// start starts an ensemble of n ZooKeeper servers, or a standalone server.
func start(t testing.TB, n int) servertest.Cluster {
	t.Helper()
	jar, java := servertest.Program(t, "zookeeper", "/usr/share/java/zookeeper.jar"), servertest.Program(t, "zookeeper", "java")
	return servertest.StartCluster(t, n, func(m *servertest.Member, all servertest.Cluster) (servertest.Command, func() error) {
		host, port, _ := net.SplitHostPort(m.Addr)
		config := fmt.Sprintf(`dataDir=%s
clientPort=%s
clientPortAddress=%s
tickTime=100
maxSessionTimeout=60000
maxClientCnxns=0
preAllocSize=4096
admin.enableServer=false
4lw.commands.whitelist=srvr
`, m.Dir, port, host)
		if n > 1 { // on a busy machine a follower may be late by seconds
			config += "initLimit=100\nsyncLimit=30\n"
			for i, other := range all {
				_, election, _ := strings.Cut(other.Peers[1], ":")
				config += fmt.Sprintf("server.%d=%s:%s\n", i+1, other.Peers[0], election)
			}
		}
		file := filepath.Join(m.Dir, "zoo.cfg")
		servertest.Do(t, os.Mkdir(m.Dir, 0o700), os.WriteFile(filepath.Join(m.Dir, "myid"), fmt.Append(nil, slices.Index(all, m)+1), 0o600),
			os.WriteFile(file, []byte(config), 0o600))
		return servertest.Command{
				Path: java,
				Args: []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jar,
					"org.apache.zookeeper.server.quorum.QuorumPeerMain", file},
				Dir: m.Dir,
			}, func() error {
				if mode(m) == "" {
					return errors.New("it does not serve")
				}
				return nil
			}
	})
}

// mode returns "leader", "follower" or "standalone", or "" if the server does not serve.
func mode(m *servertest.Member) string {
	conn, err := net.DialTimeout("tcp", m.Addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write([]byte("srvr"))
	answer, _ := io.ReadAll(conn)
	_, after, _ := strings.Cut(string(answer), "Mode: ")
	mode, _, _ := strings.Cut(after, "\n")
	return mode
}

// connect returns a connection that is closed when the test ends. Its session is long, so that it
// does not expire on a busy machine.
func connect(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	return connectFor(t, addr, 20*time.Second)
}

func connectFor(t testing.TB, addr string, session time.Duration) *zk.Conn {
	t.Helper()
	conn := servertest.Must(zklease.Connect(strings.Split(addr, ","), session))(t)
	t.Cleanup(conn.Close)
	return conn
}

// newRoot returns options with a new root.
func newRoot() *zklease.Options {
	return &zklease.Options{Root: "/" + servertest.NewSpace()}
}

func open(t testing.TB, conn *zk.Conn, o *zklease.Options) *zklease.Store {
	t.Helper()
	return servertest.Must(zklease.New(conn, o))(t)
}

func TestMain(m *testing.M) {
	servertest.Parallel = 16 // the tests mostly wait
	os.Exit(servertest.Main(m, opener(4*time.Second)))
}

// opener opens a store for a process of a fleet.
func opener(session time.Duration) servertest.Opener {
	return func(addr, space string) (lease.Store, func() error, error) {
		conn, err := zklease.Connect(strings.Split(addr, ","), session)
		if err != nil {
			return nil, nil, err
		}
		s, err := zklease.New(conn, &zklease.Options{Root: "/" + space})
		return s, func() error { conn.Close(); return nil }, err
	}
}

// at returns a standalone server or an ensemble for the suites.
func at(addr string) servertest.Server {
	return servertest.Server{
		Addr:  addr,
		Wipes: map[string]func(testing.TB, string){"All": func(t testing.TB, space string) { removeAll(t, connect(t, addr), "/"+space) }},
		Garble: func(t testing.TB, space, key string) {
			servertest.Must(connect(t, addr).Set("/"+space+"/"+key, []byte(`{"worker": 1, "tok`), -1))(t)
		},
	}
}

// removeAll removes a znode and its descendants, even if holders put some back at the same time.
func removeAll(t testing.TB, conn *zk.Conn, at string) {
	t.Helper()
	err := zk.ErrNotEmpty
	for errors.Is(err, zk.ErrNotEmpty) {
		names, _, _ := conn.Children(at)
		for _, name := range names {
			removeAll(t, conn, at+"/"+name)
		}
		err = conn.Delete(at, -1)
	}
	if !errors.Is(err, zk.ErrNoNode) {
		require.NoError(t, err)
	}
}

// server starts a standalone server.
func server(t testing.TB) *servertest.Server {
	m := start(t, 1)[0]
	s := at(m.Addr)
	s.Process, s.Dir = m.Process, m.Dir+"/version-2"
	return &s
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	s := server(t)
	servertest.Run(t, s)
	for name, test := range map[string]func(t *testing.T, addr string){
		"EntryEditedByHandHasAnotherVersion": entryEditedByHandHasAnotherVersion,
		"WrongCredentialsAreNamed":           wrongCredentialsAreNamed,
		"UnreadableEntryIsAnError":           unreadableEntryIsAnError,
		"EntryThatComesAndGoesIsReadable":    entryThatComesAndGoesIsReadable,
		"VersionMinusOneIsRefused":           versionMinusOneIsRefused,
		"RootMayBeTheTop":                    rootMayBeTheTop,
		"InvalidArgumentsAreRefused":         invalidArgumentsAreRefused,
		"NowIsTheServersTime":                nowIsTheServersTime,
		"ReadInTwoSessionsIsRefused":         readInTwoSessionsIsRefused,
		"ClosedConnectionIsAnError":          closedConnectionIsAnError,
		"CallsEndIfTheServerDoesNotAnswer":   callsEndIfTheServerDoesNotAnswer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s.Addr)
		})
	}
}

func TestEnsemble(t *testing.T) {
	t.Parallel()
	members := start(t, 3)
	s := at(members.Addrs())
	s.Open = opener(20 * time.Second)
	leads := func(m *servertest.Member, _ string) bool { return mode(m) == "leader" }
	t.Run("Store", func(t *testing.T) { servertest.Store(t, &s) })
	t.Run("FleetOutlivesTheLeaderAndTheMajority", func(t *testing.T) {
		servertest.Outage(t, &s, s.Addr,
			slices.Concat(servertest.LosesLeader(&s, members, leads), servertest.LosesMajority(&s, members, leads))...)
	})
}

func BenchmarkServer(b *testing.B) { servertest.Bench(b, server(b)) }
