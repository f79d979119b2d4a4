//go:build unix && go1.25

package servertest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Member is a server of a cluster, or a single server.
type Member struct {
	*Process
	Name, Addr string    // Addr is for clients
	Dir        string    // for the member's data; its parent exists
	Peers      [2]string // addresses for the other members
}

// Cluster is the servers of a cluster.
type Cluster []*Member

// StartCluster starts n servers concurrently, because one may be ready only when others run. how
// returns the arguments of Start for a member.
func StartCluster(t testing.TB, n int, how func(m *Member, all Cluster) (c Command, ready func() error)) Cluster {
	t.Helper()
	dir, all := Dir(t, ""), Cluster{}
	addr := func() string { return fmt.Sprint("127.0.0.1:", Port(t)) }
	for i := range n {
		name := fmt.Sprint("m", i)
		all = append(all, &Member{Name: name, Addr: addr(), Dir: filepath.Join(dir, name), Peers: [2]string{addr(), addr()}})
	}
	all.together(t, func(m *Member) {
		c, ready := how(m, all)
		m.Process = Start(t, c, ready)
	})
	return all
}

// together calls do for all members concurrently.
func (c Cluster) together(t testing.TB, do func(m *Member)) {
	t.Helper()
	var all sync.WaitGroup
	for _, m := range c {
		all.Go(func() { do(m) })
	}
	all.Wait()
	if t.Failed() || t.Skipped() {
		t.FailNow()
	}
}

// Addrs returns the addresses of all members as one text.
func (c Cluster) Addrs() string {
	var all []string
	for _, m := range c {
		all = append(all, m.Addr)
	}
	return strings.Join(all, ",")
}

// Leader waits until a member leads a space, and returns this member and the others.
func (c Cluster) Leader(t testing.TB, space string, leads Leads) (leader *Member, others Cluster) {
	t.Helper()
	Await(t, func() error {
		i := slices.IndexFunc(c, func(m *Member) bool { return leads(m, space) })
		if i < 0 {
			return errors.New("there is no leader")
		}
		leader, others = c[i], slices.Delete(slices.Clone(c), i, i+1)
		return nil
	})
	return leader, others
}

// Leads reports whether a member leads a space now.
type Leads func(m *Member, space string) bool

// LosesLeader returns troubles for Outage in which the leader of a cluster of three is replaced. s
// has the cluster's addresses.
func LosesLeader(s *Server, c Cluster, leads Leads) []Trouble {
	all := []Trouble{Passes("PausedLeaderReturnsNoStaleEntries", func(t *testing.T, space string) { paused(t, s, space, c, leads) })}
	if depth.Full() {
		all = append(all, Passes("LeaderIsKilled", func(t *testing.T, space string) {
			leader, _ := c.Leader(t, space, leads)
			leader.Kill()
		}))
	}
	return all
}

// LosesMajority returns troubles for Outage in which two servers of a cluster of three are killed and
// restarted. s has the cluster's addresses.
func LosesMajority(s *Server, c Cluster, leads Leads) []Trouble {
	return []Trouble{Passes("ServerWithoutAMajorityDoesNotAnswer", func(t *testing.T, space string) {
		leader, others := c.Leader(t, space, leads)
		alone(t, s, space, leader, others)
		if depth.Full() {
			alone(t, s, space, others[0], Cluster{leader, others[1]})
		}
	})}
}

// Alone kills all others, and checks that the survivor, whose data may be stale, returns an error
// with the cause. It returns a client of the survivor, and an entry.
func Alone(t *testing.T, s *Server, space string, survivor *Member, others Cluster) (lease.Store, lease.Entry) {
	t.Helper()
	store := s.client(t, survivor.Addr, space)
	old := Put(t, store, "alone/"+survivor.Name, "", "value")
	others.together(t, func(m *Member) { m.Kill() })
	Await(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), s.window())
		defer cancel()
		var calls sync.WaitGroup
		var errs [3]error
		calls.Go(func() { _, errs[0] = store.Get(ctx, old.Key) })
		calls.Go(func() { _, errs[1] = store.List(ctx, "alone/") })
		calls.Go(func() { _, errs[2] = store.Put(ctx, old.Key, old.Version, []byte("late")) })
		calls.Wait()
		for _, err := range errs {
			require.Error(t, err, "without a majority it answers: %v", errs)
		}
		if !errors.Is(errs[0], lease.ErrAway) || s.NoLeader != nil && !errors.Is(errs[0], s.NoLeader) {
			return fmt.Errorf("it does not say that it is alone: %w", errs[0])
		}
		return nil
	})
	return store, old
}

// alone: without a majority the survivor does not answer; when there is one again, it does.
func alone(t *testing.T, s *Server, space string, survivor *Member, others Cluster) {
	store, old := Alone(t, s, space, survivor, others)
	others.together(t, func(m *Member) { m.Restart() })
	Await(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		got, err := store.Get(ctx, old.Key)
		if err == nil {
			require.True(t, got.Version == old.Version || string(got.Value) == "late", "with a majority there is %v, not %v", got, old)
			_, err = store.Put(ctx, old.Key, got.Version, []byte("late"))
		}
		return err
	})
}

// paused: a leader that was paused does not know of the new leader, and has waiting requests. After
// it resumes, the reads that it answers include everything stored before they began.
func paused(t *testing.T, s *Server, space string, c Cluster, leads Leads) {
	leader, others := c.Leader(t, space, leads)
	old := s.client(t, leader.Addr, space)
	e := Put(t, old, "paused/key", "", "value")
	leader.Pause()
	others.Leader(t, space, leads) // before any request, which the old leader would keep waiting
	e = Put(t, s.client(t, others.Addrs(), space), e.Key, e.Version, "changed")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var reads sync.WaitGroup
	reads.Go(func() {
		for range 20 {
			if got, err := old.Get(ctx, e.Key); err == nil {
				assert.Equal(t, e.Version, got.Version, "Get returns %v, although %v had been put", got, e)
			}
			if all, err := old.List(ctx, "paused/"); err == nil && assert.Len(t, all, 1) {
				assert.Equal(t, e.Version, all[0].Version, "List returns %v, although %v had been put", all, e)
			}
		}
	})
	time.Sleep(s.window())
	leader.Resume()
	reads.Wait()
}
