//go:build unix

package etcdlease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

// cluster starts three members.
func cluster(t *testing.T) ([]*member, *servertest.Server) {
	members := start(t, 3)
	return members, &servertest.Server{Addr: addrs(members), Open: open, Window: window}
}

// leader returns the leader, and the others.
func leader(t *testing.T, members []*member) (first *member, others []*member) {
	t.Helper()
	for _, m := range members {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		status, err := connect(t, m.addr).Status(ctx, m.addr)
		cancel()
		switch {
		case err != nil:
			t.Error(err)
		case status.Leader == status.Header.MemberId:
			first = m
			continue
		}
		others = append(others, m)
	}
	if first == nil {
		t.Fatal("there is no leader")
	}
	return first, others
}

func TestClusterWithoutItsLeaderElectsAnother(t *testing.T) {
	t.Parallel()
	members, s := cluster(t)
	servertest.Outage(t, s, s.Addr, servertest.Fault{Name: "leader killed", Do: func() {
		m, _ := leader(t, members)
		m.Kill()
		time.Sleep(depth.Of(window, 2*window))
		m.Restart()
	}}, servertest.Fault{Name: "leader stopped", Do: func() {
		m, _ := leader(t, members)
		m.Pause()
		time.Sleep(depth.Of(window, 2*window))
		m.Resume()
	}})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	members, s := cluster(t)
	t.Run("HoldersContinueWhenMajorityIsBack", func(t *testing.T) { majorityLost(t, members, s) })
	t.Run("ClientAvoidsAHangingMember", func(t *testing.T) { hangingMember(t, members, s) })
}

// majorityLost: without a majority, a holder issues IDs until its window ends. When there is a majority
// again, it issues IDs again by itself.
func majorityLost(t *testing.T, members []*member, s *servertest.Server) {
	kill := func() (back func()) {
		m, others := leader(t, members)
		m.Kill()
		m.dead = true
		others[0].Kill()
		others[0].dead = true
		return func() {
			restarted := make(chan struct{})
			go func() { // a member is ready only if another one runs too
				defer close(restarted)
				m.Restart()
			}()
			others[0].Restart()
			<-restarted
			m.dead = false
			others[0].dead = false
		}
	}

	l, err := acquire(t, open(t, s.Addr, "majority"), lease.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		t.Fatal(err)
	}
	back := kill()
	var last snowflake.ID
	for killed := time.Now(); ; time.Sleep(time.Millisecond) {
		id, nextErr := g.NextID()
		if err = nextErr; err != nil {
			break
		}
		last = id
		if time.Since(killed) > time.Minute {
			t.Fatalf("without a majority, the holder continues: %+v", l.Stats())
		}
	}
	end := l.Grant().To
	if !errors.Is(err, snowflake.ErrLeaseExpired) || time.Now().Before(end) {
		t.Errorf("before the end of its window, %v, the holder stops: %v", end, err)
	}
	if at := g.Decode(last).Time; !at.Before(end) {
		t.Errorf("an ID is of %v, and the window ends at %v", at, end)
	}
	if l.Err() != nil {
		t.Errorf("the lease has ended: %v", l.Err())
	}
	survivor := opened(t, connect(t, members[slices.IndexFunc(members, (*member).alive)].addr), &etcdlease.Options{Prefix: prefix("majority")})
	for begun := time.Now(); ; {
		ctx, cancel := context.WithTimeout(t.Context(), window/2)
		_, err := survivor.Save(ctx, record(9, 1))
		snap, loadErr := survivor.Load(ctx)
		cancel()
		if loadErr == nil {
			t.Fatalf("a member that is alone answers %v, which may be old", snap)
		}
		if errors.Is(err, rpctypes.ErrNoLeader) {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("a member that is alone does not say so: %v", err)
		}
	}
	back()
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err = g.NextID(); err == nil {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%v after the cluster is back: %v, %+v", time.Since(begun), err, l.Stats())
		}
	}
	if !depth.Full() { // a fleet loses its leader in another test
		return
	}

	servertest.Outage(t, s, s.Addr, servertest.Fault{Name: "majority killed", Do: func() {
		back := kill()
		time.Sleep(2 * window)
		back()
	}})
}

func (m *member) alive() bool { return !m.dead }

// hangingMember: if a member hangs, a client that asks it waits once. Without a health check, one request
// in three would wait.
func hangingMember(t *testing.T, members []*member, s *servertest.Server) {
	store := open(t, s.Addr, "aside")
	_, others := leader(t, members)
	version := uint64(1)
	for range 6 { // until the client has connected to all members
		save(t, store, record(1, version))
		version++
	}
	others[0].Pause()
	failed := 0
	for range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := store.Save(ctx, record(1, version))
		cancel()
		if err == nil {
			version++
			continue
		}
		failed++
		snap, err := store.LoadWorker(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		version = snap.Records[0].Version + 1
	}
	if failed > 3 {
		t.Errorf("of 30 saves %d failed", failed)
	}
}
