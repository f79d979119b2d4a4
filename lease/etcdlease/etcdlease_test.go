//go:build unix

package etcdlease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

// record returns a held record, for longer than a test takes on a busy machine.
func record(worker int, version uint64) lease.Record {
	return lease.Record{
		Worker:  worker,
		Version: version,
		Token:   "token",
		State:   lease.Held,
		Owner:   "owner",
		Layout:  snowflake.DefaultLayout(),
		Bounds:  []time.Time{time.Date(2026, 11, 21, 12, 0, int(version), 0, time.UTC)},
		Window:  time.Minute,
	}
}

// holding returns a holding that has ended.
func holding(worker, n int) lease.Holding {
	from := time.Date(2026, 11, 20, 12, n, 0, 0, time.UTC)
	return lease.Holding{Worker: worker, From: from, To: from.Add(time.Minute), Token: fmt.Sprint("token ", n), Owner: fmt.Sprint("owner ", n)}
}

func save(t *testing.T, s lease.Store, r lease.Record) {
	t.Helper()
	if _, err := s.Save(t.Context(), r); err != nil {
		t.Fatalf("saving version %d of worker %d: %v", r.Version, r.Worker, err)
	}
}

// live loads one record and reports whether its holder is alive.
func live(t *testing.T, s lease.Store, worker int) bool {
	t.Helper()
	snap, err := s.LoadWorker(t.Context(), worker)
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Records) != 1 {
		t.Fatalf("worker %d has %d records", worker, len(snap.Records))
	}
	return snap.Records[0].Live(snap.Now)
}

func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := c.Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

// acquire takes a worker ID and keeps it until the test ends.
func acquire(t *testing.T, s lease.Store, o lease.Options) (*lease.Lease, error) {
	t.Helper()
	if o.Window == 0 {
		o.Window = window
	}
	l, _, err := servertest.Acquire(t, s, o)
	return l, err
}

// refusal returns the error of an Acquire that may try for a few windows.
func refusal(t *testing.T, s lease.Store) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), depth.Of(3*window, 10*window))
	defer cancel()
	_, err := lease.Acquire(ctx, s, &lease.Options{Window: window})
	return err
}

// refused checks that Acquire fails with an error that matches target and names
// what is wrong.
func refused(t *testing.T, s lease.Store, target error, names ...string) {
	t.Helper()
	err := refusal(t, s)
	if !errors.Is(err, target) {
		t.Fatalf("Acquire returns %v, not %v", err, target)
	}
	t.Log(err)
	for _, name := range append(names, "etcdlease: ") {
		if strings.Count(err.Error(), name) != 1 {
			t.Errorf("the error does not say %q once: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %q", err)
	}
}

func TestForeignValueIsRefused(t *testing.T) {
	t.Parallel()
	addr := shared(t)
	client := connect(t, addr)
	r := record(7, 1)
	r.State = lease.Free
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	for name, kv := range map[string][2]string{
		"text":          {"0000000007", "hello"},
		"emptyvalue":    {"0000000007", ""},
		"otherjson":     {"0000000007", `{"a":1}`},
		"otherworker":   {"0000000008", good},
		"otherorder":    {"0000000007", `{"version":1,"worker":7` + strings.TrimPrefix(good, `{"worker":7,"version":1`)},
		"spaces":        {"0000000007", strings.Replace(good, `{"worker"`, `{ "worker"`, 1)},
		"invalid":       {"0000000007", strings.Replace(good, `"free"`, `"fine"`, 1)},
		"otherkey":      {"README", "hello"},
		"otherkeyworks": {"7", good},
	} {
		t.Run(name, func(t *testing.T) {
			key := prefix(name) + "records/" + kv[0]
			put(t, client, key, kv[1])
			s := open(t, addr, name)
			refused(t, s, lease.ErrBadRecord, key)
			if _, err := s.Save(t.Context(), record(7, 1)); err == nil && kv[0] == "0000000007" {
				t.Error("it was replaced by a first version")
			}
		})
	}
	put(t, client, prefix("good")+"records/0000000007", good)
	s := open(t, addr, "good")
	if _, err := acquire(t, s, lease.Options{First: 7, Count: 1}); err != nil {
		t.Fatal(err)
	}
	if snap, err := s.LoadWorker(t.Context(), 7); err != nil || len(snap.Records) != 1 || snap.Records[0].Version < 2 {
		t.Errorf("it was not taken up: %+v, %v", snap, err)
	}
}

func TestSaveNeedsNextVersionOfARecordRewrittenByHand(t *testing.T) {
	t.Parallel()
	addr := shared(t)
	client := connect(t, addr)
	s := open(t, addr, "hand")
	r := record(1, 1)
	r.State = lease.Free
	save(t, s, r)
	key := prefix("hand") + "records/0000000001"
	resp, err := client.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, client, key, strings.Replace(string(resp.Kvs[0].Value), `"version":1,`, `"version":12,`, 1))
	for _, version := range []uint64{1, 2, 3, 12, 14, 112, 113, 120, 130} {
		if _, err := s.Save(t.Context(), record(1, version)); !errors.Is(err, lease.ErrConflict) {
			t.Errorf("saving version %d over version 12: %v", version, err)
		}
	}
	save(t, s, record(1, 13))
	save(t, s, record(1, 14))
}

func TestNoClientIsRefused(t *testing.T) {
	t.Parallel()
	var none *clientv3.Client
	for _, o := range []*etcdlease.Options{nil, {Prefix: "/none"}} {
		if s, err := etcdlease.New(none, o); !errors.Is(err, lease.ErrInvalidOptions) || s != nil || !strings.Contains(err.Error(), "the client is nil") {
			t.Errorf("without a client: %v, %v", s, err)
		}
	}
}

// enableAuth makes the users root, writer and reader with the password secret. Nobody else may connect.
func enableAuth(t *testing.T, addr string) {
	t.Helper()
	root := connect(t, addr)
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(root.RoleAdd(ctx, "root"))
	must(root.UserAdd(ctx, "root", "secret"))
	must(root.UserGrantRole(ctx, "root", "root"))
	for name, perm := range map[string]clientv3.PermissionType{"writer": clientv3.PermissionType(clientv3.PermReadWrite), "reader": clientv3.PermissionType(clientv3.PermRead)} {
		must(root.RoleAdd(ctx, name))
		must(root.RoleGrantPermission(ctx, name, "/snowflake/", clientv3.GetPrefixRangeEnd("/snowflake/"), perm))
		must(root.UserAdd(ctx, name, "secret"))
		must(root.UserGrantRole(ctx, name, name))
	}
	must(root.AuthEnable(ctx))
}

// login opens a new client for a user.
func login(t *testing.T, addr, user, password string, options ...grpc.DialOption) (*clientv3.Client, error) {
	t.Helper()
	c := etcdlease.Config(strings.Split(addr, ",")...)
	c.Username, c.Password = user, password
	c.DialOptions = append(c.DialOptions, options...)
	client, err := clientv3.New(c)
	if err == nil {
		t.Cleanup(func() { client.Close() })
	}
	return client, err
}

func TestMissingRightsAreRefused(t *testing.T) {
	t.Parallel()
	addr := addrs(start(t, 1, "--bcrypt-cost", "4"))
	enableAuth(t, addr)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := login(t, addr, "writer", "wrong"); !errors.Is(err, rpctypes.ErrAuthFailed) {
		t.Errorf("with a wrong password clientv3.New returns %v", err)
	}
	refused(t, opened(t, connect(t, addr), nil), rpctypes.ErrUserEmpty, addr)

	var logins atomic.Int64
	writer, err := login(t, addr, "writer", "secret", grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/Authenticate") {
			logins.Add(1)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}))
	must(err)
	other := &etcdlease.Options{Prefix: "/other"}
	refused(t, opened(t, writer, other), rpctypes.ErrPermissionDenied, "/other/ on "+addr)
	if err := opened(t, writer, other).Create(t.Context(), 1); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("Create: %v", err)
	}
	s := store(t, writer, &etcdlease.Options{Prefix: "/snowflake"})
	before := logins.Load()
	for version := range uint64(20) {
		save(t, s, record(1, version+1))
	}
	if n := logins.Load() - before; n > 2 {
		t.Errorf("20 renewals log in %d times", n)
	}
	if !live(t, s, 1) {
		t.Error("the holder is not alive")
	}
	reader, err := login(t, addr, "reader", "secret")
	must(err)
	refused(t, opened(t, reader, nil), rpctypes.ErrPermissionDenied, "/snowflake/ on "+addr)
}

// If a holder's token becomes invalid for any reason, the holder logs in again by itself.
func TestHolderLogsInAgainIfItsTokenIsInvalid(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	const expired = ttl + 1200*time.Millisecond // the server checks tokens once a second
	for _, test := range []struct {
		name  string
		size  int
		fault func(t *testing.T, m []*member, p *servertest.Proxy)
	}{
		{"Restart", 1, func(_ *testing.T, m []*member, _ *servertest.Proxy) {
			m[0].Kill()
			m[0].Restart()
		}},
		{"RestartOfOneOfThree", 3, func(_ *testing.T, m []*member, _ *servertest.Proxy) {
			m[0].Kill()
			m[0].Restart()
		}},
		{"Break", 1, func(_ *testing.T, _ []*member, p *servertest.Proxy) {
			p.Drop()
			time.Sleep(expired)
			p.Heal()
		}},
		{"OtherUsers", 1, func(t *testing.T, m []*member, _ *servertest.Proxy) {
			root, err := login(t, m[0].addr, "root", "secret")
			if err == nil {
				_, err = root.UserAdd(t.Context(), "other", "secret")
			}
			if err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			members := start(t, test.size, "--bcrypt-cost", "4", "--auth-token-ttl", fmt.Sprint(ttl.Seconds()))
			enableAuth(t, addrs(members))
			p := servertest.NewProxy(t, members[0].addr)
			addr := p.Addr()
			for _, m := range members[1:] {
				addr += "," + m.addr
			}
			client, err := login(t, addr, "writer", "secret")
			if err != nil {
				t.Fatal(err)
			}
			store := store(t, client, nil)
			l, err := acquire(t, store, lease.Options{})
			if err != nil {
				t.Fatal(err)
			}
			renewals := func(n int) {
				begun := time.Now()
				for ; n > 0; n-- {
					for end := l.Grant().To; ; time.Sleep(window / 20) {
						if l.Grant().To.After(end) {
							break
						}
						if l.Err() != nil || time.Since(begun) > 30*window {
							t.Fatalf("no renewal for %v: %v, %+v", time.Since(begun), l.Err(), l.Stats())
						}
					}
				}
			}
			renewals(depth.Of(1, 5)) // a restarted member knows the tokens of the last 100 ms
			test.fault(t, members, p)
			renewals(depth.Of(4, 10))
		})
	}
	t.Run("IdleClient", func(t *testing.T) {
		t.Parallel()
		addr := addrs(start(t, 1, "--bcrypt-cost", "4", "--auth-token-ttl", fmt.Sprint(ttl.Seconds())))
		enableAuth(t, addr)
		client, err := login(t, addr, "writer", "secret")
		if err != nil {
			t.Fatal(err)
		}
		s := store(t, client, nil)
		for version := range uint64(2) {
			time.Sleep(time.Duration(version) * expired)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			_, err := s.Save(ctx, record(1, version+1))
			cancel()
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A login takes longer here than the calls may take.
func TestHoldersOfOneClientShareALogin(t *testing.T) {
	t.Parallel()
	m := start(t, 1, "--bcrypt-cost", "4")[0]
	enableAuth(t, m.addr)
	const limit = 100 * time.Millisecond // of a call
	var logins atomic.Int64
	client, err := login(t, m.addr, "writer", "secret", grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/Authenticate") {
			logins.Add(1)
			select {
			case <-time.After(5 * limit / 2):
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}))
	if err != nil {
		t.Fatal(err)
	}
	s := store(t, client, nil)
	holders := map[int]bool{}
	for i := range depth.Of(50, 200) {
		holders[i] = true
	}
	// try saves a record of each worker in left. If that succeeds, it removes the worker from left.
	try := func(wait time.Duration, version uint64, left map[int]bool) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range maps.Clone(left) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				r := record(i, version)
				r.State = lease.Free
				if _, err := s.Save(ctx, r); err == nil || errors.Is(err, lease.ErrConflict) {
					mu.Lock()
					defer mu.Unlock()
					delete(left, i)
				}
			})
		}
		wg.Wait()
	}
	left := maps.Clone(holders)
	if try(time.Minute, 1, left); len(left) > 0 {
		t.Fatalf("%d first saves failed", len(left))
	}
	time.Sleep(window) // a restarted member knows the tokens of the last 100 ms
	m.Kill()
	m.Restart()
	before, begun := logins.Load(), time.Now()
	for left = holders; len(left) > 0; try(limit, 2, left) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("after %v and %d logins %d are not back", time.Since(begun), logins.Load()-before, len(left))
		}
	}
	t.Logf("after %v all are back, with %d logins", time.Since(begun), logins.Load()-before)
}

// If the user's password is changed, a client with the old password cannot load any more.
func TestChangedPasswordIsRefused(t *testing.T) {
	t.Parallel()
	m := start(t, 1, "--bcrypt-cost", "4")[0]
	enableAuth(t, m.addr)
	client, err := login(t, m.addr, "writer", "secret")
	if err != nil {
		t.Fatal(err)
	}
	s := store(t, client, nil)
	save(t, s, record(1, 1))
	root, err := login(t, m.addr, "root", "secret")
	if err == nil {
		_, err = root.UserChangePassword(t.Context(), "writer", "other")
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Kill()
	m.Restart()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := s.Load(ctx); !errors.Is(err, rpctypes.ErrAuthFailed) {
		t.Errorf("Load: %v", err)
	}
}

func TestErrorNamesFullDiskQuota(t *testing.T) {
	t.Parallel()
	addr := addrs(start(t, 1, "--quota-backend-bytes", "1000000"))
	client := connect(t, addr)
	s := open(t, addr, "full")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for { // the server learns its size when it commits a batch, every 100 ms
		_, err := client.Put(ctx, "big", strings.Repeat("x", 500_000))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	refused(t, s, rpctypes.ErrNoSpace, "/full/ on "+addr)
}

func TestErrorNamesServerThatIsAway(t *testing.T) {
	t.Parallel()
	addr := fmt.Sprint("127.0.0.1:", servertest.Port(t))
	s := opened(t, connect(t, addr), &etcdlease.Options{Prefix: prefix("away")})
	refused(t, s, context.DeadlineExceeded, "/away/ on "+addr, "connection refused")
	for name, call := range calls(s) {
		ctx, cancel := context.WithTimeout(t.Context(), window/4)
		err := call(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// calls returns a call of each method of a store, by the method's name.
func calls(s lease.Historian) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Load":       func(ctx context.Context) error { _, err := s.Load(ctx); return err },
		"LoadWorker": func(ctx context.Context) error { _, err := s.LoadWorker(ctx, 1); return err },
		"History":    func(ctx context.Context) error { _, err := s.History(ctx, 1); return err },
		"Save":       func(ctx context.Context) error { _, err := s.Save(ctx, record(1, 2)); return err },
		"SaveEnding": func(ctx context.Context) error {
			_, err := s.SaveEnding(ctx, record(1, 2), holding(1, 1), time.Time{})
			return err
		},
	}
}

// storeAt opens a store with a client whose clock is wrong by off.
func storeAt(t *testing.T, addr string, o *etcdlease.Options, off time.Duration) lease.Store {
	t.Helper()
	s := store(t, connect(t, addr), o)
	s.SetNow(func() time.Time { return time.Now().Add(off) })
	return s
}

// Records contain times of clients' clocks. They do not decide whether a holder is alive.
func TestClientsClocksDoNotDecideWhoIsAlive(t *testing.T) {
	t.Parallel()
	addr := shared(t)
	for _, hour := range []time.Duration{-1, 0, 1} {
		for _, other := range []time.Duration{-1, 0, 1} {
			if !depth.Full() && hour+other != 0 {
				continue
			}
			t.Run(fmt.Sprint(hour, other), func(t *testing.T) {
				t.Parallel()
				o := &etcdlease.Options{Prefix: fmt.Sprintf("/clock%d%d", hour, other)}
				a, b := storeAt(t, addr, o, hour*time.Hour), storeAt(t, addr, o, other*time.Hour)
				begun := time.Now()
				for version := uint64(1); time.Since(begun) < depth.Of(2*window, 3*window); version++ {
					saved := time.Now()
					r := record(1, version)
					r.Window = window
					save(t, a, r)
					time.Sleep(window / 4)
					if alive := live(t, b, 1); !alive && time.Since(saved) < window {
						t.Fatalf("%v after the last renewal, and %v after the first, a holder is dead", time.Since(saved), time.Since(begun))
					}
				}
				died := time.Now()
				for live(t, b, 1) {
					if time.Since(died) > time.Minute {
						t.Fatal("a dead holder is alive")
					}
					time.Sleep(window / 10)
				}
			})
		}
	}
}

// These tests list or revoke all etcd leases of their server.
func TestSessions(t *testing.T) {
	t.Parallel()
	addr := addrs(start(t, 1))
	t.Run("ReleaseEndsTheSession", func(t *testing.T) { releaseEndsTheSession(t, addr) })
	t.Run("ExpiredSessionBeginsAgain", func(t *testing.T) { expiredSessionBeginsAgain(t, addr) })
	t.Run("SessionThatEndsDuringASaveBeginsAgain", func(t *testing.T) { sessionEndsDuringASave(t, addr) })
}

func releaseEndsTheSession(t *testing.T, addr string) {
	client := connect(t, addr)
	s := open(t, addr, "release")
	for i, state := range []lease.State{lease.Free, lease.Spent} {
		r := record(i, 1)
		r.Window = window
		save(t, s, r)
		r.Version, r.State = 2, state
		save(t, s, r)
	}
	resp, err := client.Get(t.Context(), prefix("release")+"alive/", clientv3.WithPrefix())
	if err != nil || resp.Count > 0 {
		t.Fatalf("after the release %d are alive, %v", resp.Count, err)
	}
	for begun := time.Now(); ; time.Sleep(window / 10) {
		resp, err := client.Leases(t.Context())
		if err == nil && len(resp.Leases) == 0 {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("the etcd leases are still there: %v, %v", resp.Leases, err)
		}
	}
}

// revokeAll revokes all etcd leases, as if they had expired.
func revokeAll(ctx context.Context, c *clientv3.Client) error {
	resp, err := c.Leases(ctx)
	if err != nil {
		return err
	}
	for _, l := range resp.Leases {
		if _, err := c.Revoke(ctx, l.ID); err != nil {
			return err
		}
	}
	return nil
}

func expiredSessionBeginsAgain(t *testing.T, addr string) {
	s := open(t, addr, "again")
	for version := uint64(1); version < 10; version++ {
		save(t, s, record(1, version))
		if !live(t, s, 1) {
			t.Fatalf("after version %d the holder is not alive", version)
		}
		if err := revokeAll(t.Context(), connect(t, addr)); err != nil {
			t.Fatal(err)
		}
		if live(t, s, 1) {
			t.Fatal("with no session the holder is alive")
		}
	}
}

// lateStream calls before, and then sends.
type lateStream struct {
	grpc.ClientStream
	before func()
}

func (s *lateStream) SendMsg(m any) error {
	if _, ok := m.(*pb.LeaseKeepAliveRequest); ok {
		s.before()
	}
	return s.ClientStream.SendMsg(m)
}

// sessionEndsDuringASave: a save sends a transaction and a keep-alive together. The session may end between
// the two.
func sessionEndsDuringASave(t *testing.T, addr string) {
	other := connect(t, addr)
	txns := make(chan struct{}, 100)
	var race atomic.Bool
	c := etcdlease.Config(addr)
	c.DialOptions = append(c.DialOptions,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			if strings.HasSuffix(method, "/Txn") {
				txns <- struct{}{}
			}
			return err
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := streamer(ctx, desc, cc, method, opts...)
			return &lateStream{s, func() {
				if race.CompareAndSwap(true, false) {
					<-txns
					if err := revokeAll(ctx, other); err != nil {
						t.Error(err)
					}
				}
			}}, err
		}))
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := store(t, client, nil)
	save(t, s, record(1, 1))
	for len(txns) > 0 {
		<-txns
	}
	race.Store(true)
	save(t, s, record(1, 2))
	if race.Load() {
		t.Fatal("the test itself is wrong: there was no race")
	}
	if !live(t, s, 1) {
		t.Fatal("after a save the holder is not alive")
	}
	save(t, s, record(1, 3))
}

func TestCallsEndInTimeIfTheServerHangs(t *testing.T) {
	t.Parallel()
	m := start(t, 1)
	s := store(t, connect(t, addrs(m)), nil)
	save(t, s, record(1, 1))
	m[0].Pause()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			limit := time.Duration(i) * 50 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			for name, call := range calls(s) {
				err := call(ctx) // or an error of the connection, which was closed when another call ran out of time
				if err == nil || !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "nothing was heard from the server") {
					t.Errorf("%s within %v: %v", name, limit, err)
				}
			}
		})
	}
	wg.Wait()
	m[0].Resume()
	begun := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), window)
		_, err := s.Load(ctx)
		cancel()
		if err == nil {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%v after the server goes on: %v", time.Since(begun), err)
		}
	}
}

// A renewal sends a transaction and a keep-alive. It does not wait for one before it sends the other.
func TestRenewalTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	var txns, keepAlives atomic.Int64
	var meet sync.WaitGroup // each is sent when the store has made both
	renewing := false
	c := etcdlease.Config(shared(t))
	c.DialOptions = append(c.DialOptions,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if txns.Add(1); renewing {
				meet.Done()
				meet.Wait()
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := streamer(ctx, desc, cc, method, opts...)
			return &lateStream{s, func() {
				if keepAlives.Add(1); renewing {
					meet.Done()
					meet.Wait()
				}
			}}, err
		}))
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := store(t, client, &etcdlease.Options{Prefix: "/roundtrip"})
	save(t, s, record(1, 1))
	renewing = true
	for version := uint64(2); version < 12; version++ {
		txns.Store(0)
		keepAlives.Store(0)
		meet.Add(2)
		save(t, s, record(1, version))
		if txns.Load() != 1 || keepAlives.Load() != 1 {
			t.Errorf("a renewal takes %d calls and %d keep-alives", txns.Load(), keepAlives.Load())
		}
	}
}

// If a session ended before its holder's window, another process could take the worker ID of a holder
// that is about to renew.
func TestSessionLastsForTheWindow(t *testing.T) {
	t.Parallel()
	client := ofItsOwn(t)
	s := store(t, client, nil)
	for i, test := range []struct {
		window time.Duration
		ttl    int64
	}{
		{time.Millisecond, 1},
		{time.Second - 1, 1},
		{time.Second, 1},
		{time.Second + 1, 2},
		{1500 * time.Millisecond, 2},
		{2 * time.Second, 2},
		{3*time.Second - 1, 3},
		{time.Hour + time.Millisecond, 3601},
	} {
		r := record(i, 1)
		r.Window = test.window
		var session *clientv3.LeaseTimeToLiveResponse
		for session == nil || session.GrantedTTL == 0 { // it has ended before it was looked at
			save(t, s, r)
			r.Version++
			resp, err := client.Get(t.Context(), fmt.Sprintf("/snowflake/alive/%010d", i))
			if err != nil {
				t.Fatal(err)
			}
			if len(resp.Kvs) == 0 {
				continue
			}
			if session, err = client.TimeToLive(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease)); err != nil {
				t.Fatal(err)
			}
		}
		if session.GrantedTTL != test.ttl {
			t.Errorf("with a window of %v the session lasts for %d s, not %d s", test.window, session.GrantedTTL, test.ttl)
		}
	}
}

// The client tries to connect again within 1.5 s, even after a long outage.
func TestClientReconnectsSoonAfterALongOutage(t *testing.T) {
	t.Parallel()
	outage := depth.Of(10*time.Minute, time.Hour) // without Config, the client waits for over 1.5 s after a few tries
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		c := etcdlease.Config("127.0.0.1:1")
		c.DialOptions = append(c.DialOptions, grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			tries = append(tries, time.Now())
			return nil, syscall.ECONNREFUSED
		}))
		client, err := clientv3.New(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), outage)
		defer cancel()
		if err := opened(t, client, nil).Create(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Create: %v", err)
		}
		client.Close()
		synctest.Wait()
		if len(tries) < int(outage/(1500*time.Millisecond)) {
			t.Errorf("in %v the client tries %d times", outage, len(tries))
		}
		for i := 1; i < len(tries); i++ {
			if gap := tries[i].Sub(tries[i-1]); gap > 1500*time.Millisecond {
				t.Fatalf("after %v the client waits for %v", tries[i].Sub(tries[0]), gap)
			}
		}
	})
}

// If the session of the last holder still lives, it does not make its successor look alive.
func TestSessionOfTheLastHolderDoesNotMakeTheNextAlive(t *testing.T) {
	t.Parallel()
	addr := shared(t)
	s := open(t, addr, "another")
	save(t, s, record(1, 1))
	put(t, connect(t, addr), prefix("another")+"alive/0000000001", "another token")
	if live(t, s, 1) {
		t.Error("a holder is alive with another's session")
	}
}

// A serializable read may return an old value. So all reads are linearizable.
func TestReadsAreLinearizable(t *testing.T) {
	t.Parallel()
	var loads atomic.Int64
	addr, o := shared(t), &etcdlease.Options{Prefix: "/linearizable"}
	store(t, connect(t, addr), o)
	c := etcdlease.Config(addr)
	c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if txn, ok := req.(*pb.TxnRequest); ok {
			for _, op := range txn.Success {
				if get := op.GetRequestRange(); get == nil || get.Serializable {
					t.Errorf("a load makes the request %v", op)
				}
				loads.Add(1)
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}))
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := opened(t, client, o)
	for _, name := range []string{"Load", "LoadWorker", "History"} {
		loads.Store(0)
		if err := calls(s)[name](t.Context()); err != nil {
			t.Fatal(err)
		}
		if loads.Load() == 0 {
			t.Errorf("the test itself is wrong: %s makes no request", name)
		}
	}
}

// If the cluster cannot answer for a while, Acquire asks again.
func TestAcquireAsksAgainWhileTheClusterIsUnavailable(t *testing.T) {
	t.Parallel()
	addr, o := shared(t), &etcdlease.Options{Prefix: "/unavailable"}
	store(t, connect(t, addr), o)
	for name, answer := range map[string]error{
		"connection breaks": status.Error(codes.Unavailable, "error reading from server: EOF"),
		"no leader":         rpctypes.ErrGRPCNoLeader,
		"leader changes":    rpctypes.ErrGRPCTimeoutDueToLeaderFail,
	} {
		t.Run(name, func(t *testing.T) {
			left := 4 // Acquire itself tries to save three times
			c := etcdlease.Config(addr)
			c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if txn, ok := req.(*pb.TxnRequest); ok && len(txn.Compare) > 0 && left > 0 {
					left--
					return answer
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}))
			client, err := clientv3.New(c)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			l, err := acquire(t, opened(t, client, o), lease.Options{})
			if err != nil || left > 0 {
				t.Fatalf("Acquire returns %v, with %d failures left", err, left)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
