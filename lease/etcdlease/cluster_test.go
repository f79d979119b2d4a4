//go:build unix

package etcdlease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// leader returns the leader of a cluster, and the others.
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

func TestFleetOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	members := start(t, 3)
	s := &servertest.Server{Addr: addrs(members), Open: open, Window: window}
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
	members := start(t, 3)
	t.Run("Store", func(t *testing.T) { conformance(t, addrs(members)) })
	t.Run("MemberThatIsAloneSaysSo", func(t *testing.T) { alone(t, members) })
	t.Run("ClientAvoidsAHangingMember", func(t *testing.T) { hangingMember(t, members) })
}

// alone: a member without a majority does not answer, since its answer may be old.
func alone(t *testing.T, members []*member) {
	space := servertest.NewSpace()
	old := servertest.Put(t, open(t, addrs(members), space), "key", "", "value")
	m, others := leader(t, members)
	killed, survivor := []*member{m, others[0]}, others[1]
	for _, m := range killed {
		m.Kill()
	}
	s := open(t, survivor.addr, space)
	for begun := time.Now(); ; {
		ctx, cancel := context.WithTimeout(t.Context(), window)
		got, err := s.Get(ctx, "key")
		_, putErr := s.Put(ctx, "key", old.Version, nil)
		cancel()
		if err == nil || putErr == nil {
			t.Fatalf("it answers %v, %v", got, putErr)
		}
		if errors.Is(err, rpctypes.ErrNoLeader) && errors.Is(err, lease.ErrAway) && errors.Is(putErr, lease.ErrAway) {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("it does not say so: %v, %v", err, putErr)
		}
	}
	restarted := make(chan struct{})
	go func() { // a member is ready only if another one runs too
		defer close(restarted)
		killed[0].Restart()
	}()
	killed[1].Restart()
	<-restarted
	for begun := time.Now(); ; {
		got, err := s.Get(t.Context(), "key")
		if err == nil && got.Version == old.Version {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("with a majority: %v, %v", got, err)
		}
	}
}

// hangingMember: a client asks the members in turn. If one of them hangs, the client soon asks only the
// others.
func hangingMember(t *testing.T, members []*member) {
	s := open(t, addrs(members), servertest.NewSpace())
	version := ""
	for range 6 { // until the client has connected to all members
		version = servertest.Put(t, s, "key", version, "value").Version
	}
	_, others := leader(t, members)
	others[0].Pause()
	defer others[0].Resume()
	for begun, row := time.Now(), 0; row < 10; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := s.Get(ctx, "key")
		cancel()
		if row++; err != nil {
			row = 0
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("it still asks the member that hangs: %v", err)
		}
	}
	t.Log("an answer from each of ten calls")
}
