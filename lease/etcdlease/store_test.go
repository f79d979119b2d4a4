//go:build unix && go1.25

package etcdlease_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

func TestNoClientIsRefused(t *testing.T) {
	for _, o := range []*etcdlease.Options{nil, {Prefix: "/none"}} {
		s, err := etcdlease.New(nil, o)
		require.ErrorIs(t, err, lease.ErrInvalidOptions)
		require.ErrorContains(t, err, "the client is nil")
		require.Nil(t, s)
	}
}

// refused checks that each method returns an error within a time. The error must match target and
// contain a text.
func refused(t *testing.T, s lease.Store, limit time.Duration, target error, says ...string) {
	t.Helper()
	for name, call := range servertest.Calls(s, "key") {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := call(ctx)
		cancel()
		require.ErrorIs(t, err, target, name)
		for _, text := range append(says, "etcdlease: ") {
			assert.Equal(t, 1, strings.Count(err.Error(), text), "%s: the error does not say %q once: %v", name, text, err)
		}
	}
}

// through opens a store that calls see for each request. If see returns an error, the request fails
// with it.
func through(t *testing.T, addr string, see func(req any) error) *etcdlease.Store {
	t.Helper()
	c := etcdlease.Config(addr)
	c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(
		func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			if err := see(req); err != nil {
				return err
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
	client := servertest.Must(clientv3.New(c))(t)
	t.Cleanup(func() { client.Close() })
	return opened(t, client, &etcdlease.Options{Prefix: prefix(servertest.NewSpace())})
}

// Acquire retries while the cluster cannot answer.
func TestUnavailableClusterIsAwayOrLate(t *testing.T) {
	t.Parallel()
	addr := shared(t)
	for name, test := range map[string]struct{ answer, want error }{
		"connection breaks":         {status.Error(codes.Unavailable, "error reading from server: EOF"), lease.ErrAway},
		"no leader":                 {rpctypes.ErrGRPCNoLeader, lease.ErrAway},
		"leader changes":            {rpctypes.ErrGRPCTimeoutDueToLeaderFail, lease.ErrAway},
		"time is up for the client": {status.Error(codes.DeadlineExceeded, "latest balancer error"), context.DeadlineExceeded},
		"time is up for the server": {status.Error(codes.DeadlineExceeded, "context deadline exceeded"), context.DeadlineExceeded},
		"time is up for etcd 3.4":   {status.Error(codes.Unknown, "context deadline exceeded"), context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			s := through(t, addr, func(any) error { return test.answer })
			_, err := s.Put(t.Context(), "key", "", nil)
			assert.ErrorIs(t, err, test.want)
		})
	}
}

// dialing returns a client whose connections are made by dial. Time in the test must be fake: the
// client has no server.
func dialing(t *testing.T, dial func(addr string) (net.Conn, error), endpoints ...string) *clientv3.Client {
	c := etcdlease.Config(endpoints...)
	c.DialOptions = append(c.DialOptions,
		grpc.WithContextDialer(func(_ context.Context, addr string) (net.Conn, error) { return dial(addr) }))
	return servertest.Must(clientv3.New(c))(t)
}

// Even after a long outage, the client reconnects within 1.5 s.
func TestClientReconnectsSoonAfterALongOutage(t *testing.T) {
	t.Parallel()
	// Without Config, the client waits for over 1.5 s after a few tries.
	outage := depth.Of(10*time.Minute, time.Hour)
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		client := dialing(t, func(string) (net.Conn, error) {
			tries = append(tries, time.Now())
			return nil, syscall.ECONNREFUSED
		}, "127.0.0.1:1")
		client.ActiveConnection().Connect()
		time.Sleep(outage)
		client.Close()
		synctest.Wait()
		assert.GreaterOrEqual(t, len(tries), int(outage/(1500*time.Millisecond)), "in %v the client tries %d times", outage, len(tries))
		for i := 1; i < len(tries); i++ {
			gap := tries[i].Sub(tries[i-1])
			require.LessOrEqual(t, gap, 1500*time.Millisecond, "after %v", tries[i].Sub(tries[0]))
		}
	})
}

// member answers each read.
type member struct{ pb.UnimplementedKVServer }

func (*member) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{}, nil
}

// line is a client's connection, without replies while the server hangs.
type line struct {
	net.Conn
	hangs *atomic.Bool
}

func (l line) Read(b []byte) (n int, err error) {
	for n, err = l.Conn.Read(b); err == nil && l.hangs.Load(); n, err = l.Conn.Read(b) {
	}
	return n, err
}

// A client uses the members in turn. If one of them hangs, the client soon uses only the others.
func TestClientAvoidsAHangingMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		members := map[string]*bufconn.Listener{"a:1": bufconn.Listen(1 << 16), "b:1": bufconn.Listen(1 << 16)}
		server := grpc.NewServer()
		defer server.Stop()
		pb.RegisterKVServer(server, &member{})
		for _, m := range members {
			go server.Serve(m)
		}
		client := dialing(t, func(addr string) (net.Conn, error) {
			conn, err := members[addr].Dial()
			if err == nil && addr == "a:1" {
				conn = line{conn, &hangs}
			}
			return conn, err
		}, slices.Collect(maps.Keys(members))...)
		defer client.Close()
		s := opened(t, client, nil)
		get := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Get(ctx, "key")
			return err
		}
		for range 10 {
			require.NoError(t, get())
		}
		hangs.Store(true)
		for begun, row := time.Now(), 0; row < 10; row++ {
			if err := get(); err != nil {
				require.Less(t, time.Since(begun), 14*time.Second, "it still asks the member that hangs: %v", err)
				row = 0
			}
		}
	})
}
