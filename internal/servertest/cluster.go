//go:build unix

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

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Member is a server of a cluster, or a server alone.
type Member struct {
	*Process
	Name, Addr string    // Addr is for clients
	Dir        string    // for the member's data; its parent exists
	Peers      [2]string // addresses for the other members
}

// Cluster has the servers of a cluster.
type Cluster []*Member

// StartCluster starts n servers at once, since one may be ready only when another one runs. The function returns how to
// start a member, and what Start takes as ready.
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

// together does something with all members at once.
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

// Leader waits until a member leads a space, and returns it, and the others.
func (c Cluster) Leader(t testing.TB, space string, leads func(m *Member, space string) bool) (leader *Member, others Cluster) {
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

// RunCluster runs the tests that every store has to pass with a cluster of three. s has no Addr. leads reports whether
// a member leads a space, as far as it is known now.
func RunCluster(t *testing.T, s Server, c Cluster, leads func(m *Member, space string) bool) {
	s.Addr = c.Addrs()
	leader := func(space string) (*Member, Cluster) { return c.Leader(t, space, leads) }
	t.Run("Store", func(t *testing.T) { Store(t, &s) })
	t.Run("ServerThatIsAloneDoesNotAnswer", func(t *testing.T) { alone(t, &s, leader) })
	t.Run("LeaderThatWasPausedDoesNotAnswerOldly", func(t *testing.T) { paused(t, &s, leader) })
	t.Run("FleetOutlivesTheLeader", func(t *testing.T) {
		Outage(t, &s, s.Addr, Fault{"leader killed", func(space string) {
			m, _ := leader(space)
			m.Kill()
			time.Sleep(depth.Of(s.window(), 2*s.window()))
			m.Restart()
		}}, Fault{"leader stopped", func(space string) {
			m, _ := leader(space)
			m.Pause()
			time.Sleep(depth.Of(s.window(), 12*time.Second)) // within 12 s another one is elected
			m.Resume()
		}})
	})
}

// alone: a server without a majority does not answer, since its answer may be old, and says so. It answers again when
// there is a majority.
func alone(t *testing.T, s *Server, leader func(space string) (*Member, Cluster)) {
	space := NewSpace()
	old := Put(t, s.client(t, s.Addr, space), "key", "", "value")
	m, others := leader(space)
	for i, survivor := range []*Member{m, others[0]}[:depth.Of(1, 2)] {
		store := s.client(t, survivor.Addr, space)
		recovers(t, store, old)
		killed := others
		if i > 0 {
			killed = Cluster{m, others[1]}
		}
		killed.together(t, func(m *Member) { m.Kill() })
		Await(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), s.window())
			got, err := store.Get(ctx, "key")
			all, listErr := store.List(ctx, "")
			_, putErr := store.Put(ctx, "key", old.Version, nil)
			cancel()
			if err == nil || putErr == nil || listErr == nil {
				t.Fatalf("it answers %v, %v, %v", got, all, putErr)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 5*s.window())
			defer cancel()
			if _, err = store.Get(ctx, "key"); errors.Is(err, lease.ErrAway) && (s.NoLeader == nil || errors.Is(err, s.NoLeader)) {
				return nil
			}
			return fmt.Errorf("it does not say that it is alone: %w", err)
		})
		killed.together(t, func(m *Member) { m.Restart() })
		Await(t, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			got, err := store.Get(ctx, "key")
			if err == nil && got.Version != old.Version && len(got.Value) > 0 { // a Put that was refused may have been stored
				t.Fatalf("with a majority: %v, not %v", got, old)
			}
			if err == nil {
				old, err = store.Put(ctx, "key", got.Version, []byte("value"))
			}
			return err
		})
	}
}

// paused: a leader that was paused does not know that there is another leader, and has requests that wait. A
// read that it answers when it goes on is not older than the read's beginning.
func paused(t *testing.T, s *Server, leader func(space string) (*Member, Cluster)) {
	space := NewSpace()
	e := Put(t, s.client(t, s.Addr, space), "folder/key", "", "value")
	m, others := leader(space)
	old := s.client(t, m.Addr, space)
	recovers(t, old, e)
	m.Pause()
	e = Put(t, s.client(t, others.Addrs(), space), "folder/key", e.Version, "changed") // after an election
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			got, err := old.Get(ctx, "folder/key")
			if err == nil && got.Version != e.Version {
				t.Errorf("Get returns %v, although %v had been put", got, e)
			}
			all, err := old.List(ctx, "folder/")
			if err == nil && (len(all) != 1 || all[0].Version != e.Version) {
				t.Errorf("List returns %v, although %v had been put", all, e)
			}
		}
	}()
	time.Sleep(s.window())
	m.Resume()
	<-done
}
