//go:build unix

package zklease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

// session is the timeout of the fleets' sessions.
const session = 6 * time.Second

func TestMain(m *testing.M) {
	if addr, dir, ok := strings.Cut(os.Getenv(copierEnv), " "); ok {
		fmt.Fprintln(os.Stderr, copier(addr, dir))
		os.Exit(1)
	}
	os.Exit(servertest.Main(m, func(addr, space string) (lease.Store, error) {
		conn, err := dial(addr, session)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		s, err := zklease.New(conn, &zklease.Options{Root: "/" + space})
		if err == nil {
			err = s.Create(ctx, 1)
		}
		if err != nil {
			conn.Close()
		}
		return s, err
	}))
}

func fleet(s *server, addr string) *servertest.Server {
	return &servertest.Server{
		Addr: addr,
		Open: func(t testing.TB, addr, space string) lease.Store {
			return open(t, connectFor(t, addr, session), &zklease.Options{Root: "/" + space})
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
	f := fleet(servers[0], addrs(servers))
	leader := func() *server {
		for {
			for _, s := range servers {
				if s.mode() == "leader" {
					return s
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	t.Run("LeaderLost", func(t *testing.T) {
		faults := []servertest.Fault{{Name: "leader killed", Do: func() {
			old := leader()
			old.Kill()
			leader()
			if depth.Full() { // the next test does not need the lost server
				old.Restart()
			}
		}}, {Name: "leader stopped", Do: func() {
			old := leader()
			old.Pause()
			time.Sleep(4 * time.Second) // until another server leads
			old.Resume()
		}}}
		servertest.Outage(t, f, f.Addr, faults[:depth.Of(1, 2)]...)
	})
	t.Run("QuorumLost", func(t *testing.T) { quorumLost(t, servers, f) })
}

// quorumLost: if the quorum is lost, a holder issues IDs until its window ends. When there is a quorum again,
// it issues IDs again by itself.
func quorumLost(t *testing.T, servers []*server, f *servertest.Server) {
	l, err := lease.Acquire(t.Context(), f.Open(t, f.Addr, "quorum"), &lease.Options{Window: 2 * time.Second})
	require.NoError(t, err)
	gen, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	seen := map[snowflake.ID]bool{}
	issue := func() error {
		time.Sleep(time.Millisecond)
		id, err := gen.NextID()
		if err == nil {
			require.False(t, seen[id], "%d is issued twice", id)
			seen[id] = true
		}
		return err
	}
	require.NoError(t, issue())

	var killed []*server
	for _, s := range servers {
		if s.mode() != "" { // a test before may have killed one
			killed = append(killed, s)
		}
	}
	killed = killed[1:]
	for _, s := range killed {
		s.Kill()
	}
	before, begun := len(seen), time.Now()
	for err = issue(); err == nil; err = issue() {
		require.Less(t, time.Since(begun), time.Minute, "without a quorum, the holder continues: %+v", l.Stats())
	}
	require.ErrorIs(t, err, snowflake.ErrLeaseExpired)
	require.Greater(t, len(seen), before)
	require.NoError(t, l.Err())

	for _, s := range killed {
		s.Restart()
	}
	for begun := time.Now(); err != nil; err = issue() {
		require.True(t, errors.Is(err, snowflake.ErrLeaseExpired))
		require.Less(t, time.Since(begun), 2*time.Minute, "the holder does not continue: %+v", l.Stats())
	}
	require.NoError(t, l.Release(t.Context()))
}
