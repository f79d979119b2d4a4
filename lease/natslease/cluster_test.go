//go:build unix && go1.25

package natslease_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// leads reports whether a member leads the stream of a bucket.
func leads(m *servertest.Member, space string) bool {
	conn, err := nats.Connect(m.Addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, "KV_"+space)
	return err == nil && stream.CachedInfo().Cluster.Leader == m.Name
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	s := at(c.Addrs())
	s.Window = 3 * window / 2 // an answer that does not come is awaited for a second
	t.Run("HasThreeReplicas", func(t *testing.T) {
		space := servertest.NewSpace()
		servertest.Put(t, servertest.Client(t, c.Cluster[0].Addr, space), "key", "", "value")
		assert.Equal(t, 3, stream(t, c.Addrs(), space).CachedInfo().Config.Replicas)
	})
	t.Run("ReplicaThatLagsIsNotBelieved", func(t *testing.T) { lagging(t, c) })
	t.Run("Store", func(t *testing.T) { servertest.Store(t, &s) })
	if depth.Full() { // a leader that is gone costs an election, which takes NATS 4 to 9 s
		t.Run("FleetOutlivesTheLeaderAndTheMajority", func(t *testing.T) {
			servertest.Outage(t, &s, s.Addr,
				slices.Concat(servertest.LosesLeader(&s, c.Cluster, leads), servertest.LosesMajority(&s, c.Cluster, leads))...)
		})
	}
	t.Run("ServerWithoutAMajorityDoesNotAnswer", func(t *testing.T) {
		space := servertest.NewSpace()
		servertest.Put(t, servertest.Client(t, c.Addrs(), space), "key", "", "value")
		leader, others := c.Leader(t, space, leads)
		servertest.Alone(t, &s, space, leader, others)
	})
}

// lagging: a replica that has not received a change answers with the old entry. A store that is
// connected to it still returns the change, from another replica.
func lagging(t *testing.T, c cluster) {
	last, others := c.Cluster[2], c.Cluster[:2]
	space, e := "", lease.Entry{}
	for leader := last; leader == last; leader, _ = c.Leader(t, space, leads) {
		space = servertest.NewSpace()
		e = servertest.Put(t, servertest.Client(t, others.Addrs(), space), "folder/key", "", "first")
	}
	s, other, conn := servertest.Client(t, last.Addr, space), servertest.Client(t, others.Addrs(), space), connect(t, last.Addr)
	// answersOldly sends requests, which the replicas share. A new replica answers after a second.
	answersOldly := func() bool {
		for range 100 {
			m, err := conn.Request("$JS.API.DIRECT.GET.KV_"+space+".$KV."+space+".folder.key", nil, 10*time.Second)
			if err == nil && m.Header.Get(jetstream.SequenceHeader) < e.Version {
				return true
			}
		}
		return false
	}
	defer c.link.Heal()
	servertest.Await(t, func() error {
		c.link.Heal()
		if _, err := s.Get(t.Context(), "folder/key"); err != nil {
			return err
		}
		c.link.Stall()
		if e = servertest.Put(t, other, "folder/key", e.Version, "changed"); !answersOldly() {
			return errors.New("no replica lags")
		}
		return nil
	})
	for i := range 50 {
		got, all := lease.Entry{}, []lease.Entry(nil)
		// While the cut off replica asks for an election, there may be no reply.
		servertest.Await(t, func() (err error) {
			if got, err = s.Get(t.Context(), "folder/key"); err == nil {
				all, err = s.List(t.Context(), "folder/")
			}
			return err
		})
		require.Equal(t, e.Version, got.Version, "Get %d returns %v, although %v had been put", i, got, e)
		require.Len(t, all, 1, "List %d returns %v, although %v had been put", i, all, e)
		require.Equal(t, e.Version, all[0].Version, "List %d returns %v, although %v had been put", i, all, e)
	}
}

// Here half of the reads get only the end of a reply, without its messages. The first reply is lost
// completely.
func TestIncompleteReplyIsAnError(t *testing.T) {
	t.Parallel()
	addr := start(t, 1, `mappings: {"$JS.API.DIRECT.GET.*": [{destination: "torn.$1", weight: "50%"}]}`).Addrs()
	conn := connect(t, addr)
	var asked atomic.Int64
	servertest.Must(conn.Subscribe("torn.*", func(m *nats.Msg) {
		if asked.Add(1) == 1 {
			return
		}
		_ = conn.PublishMsg(&nats.Msg{Subject: m.Reply,
			Header: nats.Header{"Status": {"204"}, jetstream.LastSequenceHeader: {"7"}, "Nats-Num-Pending": {"0"}}})
	}))(t)
	servertest.Do(t, conn.Flush())
	s := servertest.Client(t, addr, servertest.NewSpace())
	e := servertest.Put(t, s, "folder/key", "", "value")
	lost := 0
	servertest.Await(t, func() error {
		all, err := s.List(t.Context(), "folder/")
		if errors.Is(err, lease.ErrAway) && strings.Contains(err.Error(), "a part of the reply was lost") {
			lost++
		} else if err != nil || len(all) != 1 || all[0].Version != e.Version {
			t.Fatalf("List returns %v, %v", all, err)
		}
		if lost < 10 {
			return errors.New("answers without their first messages are believed")
		}
		return nil
	})
}
