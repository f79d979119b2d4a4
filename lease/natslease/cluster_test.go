//go:build unix

package natslease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// leader returns the leader of a bucket, and the others.
func leader(t *testing.T, members []*member, space string) (first *member, others []*member) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		stream, err := jetStream(t, connect(t, addrs(members))).Stream(ctx, "KV_"+space)
		cancel()
		for _, m := range members {
			if err == nil && m.name == stream.CachedInfo().Cluster.Leader {
				first = m
				continue
			}
			others = append(others, m)
		}
		if first != nil {
			return first, others
		}
		if others = nil; time.Since(begun) > time.Minute {
			t.Fatal("there is no leader: ", err)
		}
	}
}

func leads(t *testing.T, members []*member, space string) *member {
	m, _ := leader(t, members, space)
	return m
}

func TestFleetOutlivesTheLeader(t *testing.T) {
	t.Parallel()
	members := start(t, 3)
	s := &servertest.Server{Addr: addrs(members), Open: open, Window: window}
	bucket := func() string { // the only one
		names := jetStream(t, connect(t, s.Addr)).KeyValueStoreNames(t.Context())
		name := ""
		for n := range names.Name() {
			name = n
		}
		return name
	}
	servertest.Outage(t, s, s.Addr, servertest.Fault{Name: "leader killed", Do: func() {
		m, _ := leader(t, members, bucket())
		m.Kill()
		time.Sleep(depth.Of(window, 2*window))
		m.Restart()
	}}, servertest.Fault{Name: "leader stopped", Do: func() {
		m, _ := leader(t, members, bucket())
		m.Pause()
		time.Sleep(depth.Of(window, 10*window)) // in 10 s another one is elected
		m.Resume()
	}})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	members := start(t, 3)
	t.Run("Store", func(t *testing.T) { conformance(t, addrs(members)) })
	t.Run("HasThreeReplicas", func(t *testing.T) { replicas(t, members) })
	t.Run("ReplicaThatLagsIsNotBelieved", func(t *testing.T) { lagging(t, members) })
	t.Run("ServerThatIsAloneDoesNotAnswer", func(t *testing.T) { alone(t, members) })
	t.Run("LeaderThatWasPausedDoesNotAnswerOldly", func(t *testing.T) { paused(t, members) })
}

func replicas(t *testing.T, members []*member) {
	space := servertest.NewSpace()
	servertest.Put(t, open(t, members[0].addr, space), "key", "", "value")
	stream, err := jetStream(t, connect(t, members[0].addr)).Stream(t.Context(), "KV_"+space)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("the bucket has %d replicas", n)
	}
}

// lagging: a replica that does not hear of a change answers with what was stored before. A store that is connected to it
// returns the change all the same, from another replica.
func lagging(t *testing.T, members []*member) {
	last, others := members[len(members)-1], members[:len(members)-1]
	space, e := "", lease.Entry{}
	for space == "" || leads(t, members, space) == last {
		space = servertest.NewSpace()
		e = servertest.Put(t, open(t, addrs(others), space), "folder/key", "", "first")
	}
	s, other, conn := open(t, last.addr, space), open(t, addrs(others), space), connect(t, last.addr)
	// answersOldly asks the replicas, each of which answers some requests. A new replica begins to answer after a second.
	answersOldly := func() bool {
		for range 100 {
			m, err := conn.Request("$JS.API.DIRECT.GET.KV_"+space+".$KV."+space+".folder.key", nil, 10*time.Second)
			if err == nil && m.Header.Get(jetstream.SequenceHeader) < e.Version {
				return true
			}
		}
		return false
	}
	for begun := time.Now(); ; last.link.Heal() {
		for _, err := s.Get(t.Context(), "folder/key"); errors.Is(err, lease.ErrAway); _, err = s.Get(t.Context(), "folder/key") {
		}
		last.link.Hold()
		if e = servertest.Put(t, other, "folder/key", e.Version, "changed"); answersOldly() {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("no replica lags")
		}
	}
	defer last.link.Heal()
	for i := range 50 {
		got, err := s.Get(t.Context(), "folder/key")
		if err != nil || got.Version != e.Version {
			t.Fatalf("Get %d returns %v, %v, although %v had been put", i, got, err, e)
		}
		all, err := s.List(t.Context(), "folder/")
		if err != nil || len(all) != 1 || all[0].Version != e.Version {
			t.Fatalf("List %d returns %v, %v, although %v had been put", i, all, err, e)
		}
	}
}

// alone: a server without a majority does not answer, since its answer may be old.
func alone(t *testing.T, members []*member) {
	space := servertest.NewSpace()
	old := servertest.Put(t, open(t, addrs(members), space), "key", "", "value")
	m, others := leader(t, members, space)
	s := open(t, m.addr, space)
	if got, err := s.Get(t.Context(), "key"); err != nil || got.Version != old.Version {
		t.Fatalf("with a majority: %v, %v", got, err)
	}
	for _, m := range others {
		m.Kill()
	}
	for begun := time.Now(); ; {
		ctx, cancel := context.WithTimeout(t.Context(), window)
		got, err := s.Get(ctx, "key")
		all, listErr := s.List(ctx, "")
		_, putErr := s.Put(ctx, "key", old.Version, nil)
		cancel()
		if err == nil || putErr == nil || listErr == nil {
			t.Fatalf("it answers %v, %v, %v", got, all, putErr)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 5*window)
		_, err = s.Get(ctx, "key")
		cancel()
		if errors.Is(err, lease.ErrAway) {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("it does not say so: %v", err)
		}
	}
	restarted := make(chan struct{})
	go func() { // a server is ready only if another one runs too
		defer close(restarted)
		others[0].Restart()
	}()
	others[1].Restart()
	<-restarted
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		got, err := s.Get(ctx, "key")
		if err == nil {
			_, err = s.Put(ctx, "key", got.Version, nil) // one that was refused may have been stored
		}
		cancel()
		if err == nil {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("with a majority: %v, %v", got, err)
		}
	}
}

// paused: a leader that was paused does not know that there is another leader, and has requests that wait. A
// read that it answers when it goes on is not older than the read's beginning.
func paused(t *testing.T, members []*member) {
	space := servertest.NewSpace()
	s := open(t, addrs(members), space)
	e := servertest.Put(t, s, "folder/key", "", "value")
	m, others := leader(t, members, space)
	old := open(t, m.addr, space)
	if _, err := old.Get(t.Context(), "folder/key"); err != nil {
		t.Fatal(err)
	}
	m.Pause()
	s = open(t, addrs(others), space)
	e = servertest.Put(t, s, "folder/key", e.Version, "changed") // after an election
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
	time.Sleep(window)
	m.Resume()
	<-done
}

// A server that lags may answer a read. Here half of the requests go to a client that answers with what was stored before.
func TestOldAnswersAreNotBelieved(t *testing.T) {
	t.Parallel()
	addr, space := start(t, 1, `mappings: {"$JS.API.DIRECT.GET.*": [{destination: "lagging.$1", weight: "50%"}]}`)[0].addr, servertest.NewSpace()
	conn := connect(t, addr)
	var given atomic.Int64
	var torn atomic.Bool // then the first message of an answer is lost
	var answers sync.Map // by the first letters of the request, from the server
	if _, err := conn.Subscribe("lagging.*", func(m *nats.Msg) {
		answer, ok := answers.Load(string(m.Data[:3]))
		if !ok {
			answer = []*nats.Msg{{Header: nats.Header{"Status": {"500"}}}}
		} else {
			given.Add(1)
		}
		for i, a := range answer.([]*nats.Msg) {
			if i == 0 && torn.Load() {
				continue
			}
			_ = conn.PublishMsg(&nats.Msg{Subject: m.Reply, Header: a.Header, Data: a.Data})
		}
	}); err != nil {
		t.Fatal(err)
	}
	s := open(t, addr, space)
	retry := func(call func() error) {
		t.Helper()
		for {
			err := call()
			if err == nil {
				return
			}
			if !errors.Is(err, lease.ErrAway) {
				t.Fatal(err)
			}
		}
	}
	e := servertest.Put(t, s, "folder/key", "", "value")
	retry(func() error { _, err := s.Get(t.Context(), "folder/key"); return err })
	retry(func() error { _, err := s.List(t.Context(), "folder/"); return err })
	for _, request := range []string{
		`{"multi_last": ["$KV.` + space + `.=read", "$KV.` + space + `.folder.key"]}`,
		`{"batch": 250, "seq": 1, "next_by_subj": "$KV.` + space + `.folder.>"}`,
	} {
		retry(func() error {
			inbox, err := conn.SubscribeSync(conn.NewInbox())
			if err == nil {
				err = conn.PublishRequest("$JS.API.DIRECT.GET.KV_"+space, inbox.Subject, []byte(request))
			}
			var answer []*nats.Msg
			for err == nil {
				m, failed := inbox.NextMsg(10 * time.Second)
				if failed != nil {
					return failed
				}
				if m.Header.Get("Status") == "500" {
					return lease.ErrAway
				}
				if answer = append(answer, m); m.Header.Get("Status") != "" {
					break
				}
			}
			answers.Store(request[:3], answer)
			return err
		})
	}
	for i := range 50 {
		e = servertest.Put(t, s, "folder/key", e.Version, "changed")
		got, err := s.Get(t.Context(), "folder/key")
		if err != nil || got.Version != e.Version {
			t.Fatalf("Get %d returns %v, %v, although %v had been put", i, got, err, e)
		}
		all, err := s.List(t.Context(), "folder/")
		if err != nil || len(all) != 1 || all[0].Version != e.Version {
			t.Fatalf("List %d returns %v, %v, although %v had been put", i, all, err, e)
		}
	}
	if n := given.Load(); n < 20 {
		t.Fatalf("an old answer was given %d times", n)
	}
	torn.Store(true)
	for begun, errs := time.Now(), 0; errs < 10; {
		all, err := s.List(t.Context(), "folder/")
		if errors.Is(err, lease.ErrAway) && strings.Contains(err.Error(), "a part of the answer was lost") {
			errs++
		} else if err != nil || len(all) != 1 || all[0].Version != e.Version {
			t.Fatalf("List returns %v, %v", all, err)
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("answers without their first messages are believed")
		}
	}
}
