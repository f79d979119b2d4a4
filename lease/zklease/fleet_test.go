//go:build unix

package zklease_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

// session is the timeout of the fleets' sessions.
const session = 4 * time.Second

func TestMain(m *testing.M) {
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, error) {
		conn, err := dial(addr, session)
		if err != nil {
			return nil, err
		}
		return zklease.New(conn, &zklease.Options{Root: "/" + space})
	}))
}

func fleet(s *server, addr string) *servertest.Server {
	return &servertest.Server{
		Addr: addr,
		Open: func(t testing.TB, addr, space string) lease.Store {
			return open(t, connectFor(t, addr, session), &zklease.Options{Root: "/" + space})
		},
		Wipes: map[string]func(testing.TB, string){
			"All": func(t testing.TB, space string) { removeAll(t, connect(t, s.addr), "/"+space) },
		},
		Kill: s.Kill, Restart: s.Restart, Pause: s.Pause, Resume: s.Resume, CPU: s.CPU,
	}
}

func TestServer(t *testing.T) {
	depth.Parallel(t)
	s := start(t)
	servertest.Run(t, fleet(s, s.addr))
}

func BenchmarkServer(b *testing.B) {
	s := start(b)
	servertest.Bench(b, fleet(s, s.addr))
}

func TestEnsemble(t *testing.T) {
	t.Parallel()
	servers := startThree(t)
	t.Run("Store", func(t *testing.T) { conformance(t, addrs(servers)) })
	t.Run("ServerThatIsAloneDoesNotAnswer", func(t *testing.T) { alone(t, servers) })
}

// leader waits until there is a leader.
func leader(servers []*server) *server {
	for ; ; time.Sleep(20 * time.Millisecond) {
		for _, s := range servers {
			if s.mode() == "leader" {
				return s
			}
		}
	}
}

func TestFleetOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	servers := startThree(t)
	f := fleet(servers[0], addrs(servers))
	faults := []servertest.Fault{{Name: "leader killed", Do: func() {
		old := leader(servers)
		old.Kill()
		leader(servers)
		old.Restart()
	}}, {Name: "leader stopped", Do: func() {
		old := leader(servers)
		old.Pause()
		time.Sleep(4 * time.Second) // until another server leads
		old.Resume()
	}}}
	servertest.Outage(t, f, f.Addr, faults[:depth.Of(1, 2)]...)
}

// alone: a server without a quorum does not answer, since its answer may be old. When there is a quorum
// again, it does.
func alone(t *testing.T, servers []*server) {
	o := newRoot()
	s := open(t, connect(t, addrs(servers)), o)
	e := servertest.Put(t, s, "a", "", "value")
	killed, survivor := servers[:2], servers[2]
	for _, other := range killed {
		other.Kill()
	}
	single := open(t, connect(t, survivor.addr), o)
	for _, store := range []*zklease.Store{s, single} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err := store.Get(ctx, "a")
		cancel()
		require.Error(t, err)
	}
	for _, other := range killed {
		other.Restart()
	}
	require.Eventually(t, func() bool {
		got, err := single.Get(t.Context(), "a")
		return err == nil && got.Version == e.Version
	}, 2*time.Minute, 20*time.Millisecond)
}
