//go:build unix && go1.25

package etcdlease_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

// ttl is the time after which an unused token expires.
const ttl = time.Second

// startWithUsers starts a cluster with the users root, writer and reader, with the password
// "secret", and no others.
func startWithUsers(t *testing.T, n int) servertest.Cluster {
	t.Helper()
	members := start(t, n, "--bcrypt-cost", "4", "--auth-token-ttl", fmt.Sprint(ttl.Seconds()))
	root, ctx := connect(t, members.Addrs()), t.Context()
	servertest.Must(root.RoleAdd(ctx, "root"))(t)
	servertest.Must(root.UserAdd(ctx, "root", "secret"))(t)
	servertest.Must(root.UserGrantRole(ctx, "root", "root"))(t)
	for name, perm := range map[string]clientv3.PermissionType{
		"writer": clientv3.PermissionType(clientv3.PermReadWrite),
		"reader": clientv3.PermissionType(clientv3.PermRead),
	} {
		servertest.Must(root.RoleAdd(ctx, name))(t)
		servertest.Must(root.RoleGrantPermission(ctx, name, "/snowflake/", clientv3.GetPrefixRangeEnd("/snowflake/"), perm))(t)
		servertest.Must(root.UserAdd(ctx, name, "secret"))(t)
		servertest.Must(root.UserGrantRole(ctx, name, name))(t)
	}
	servertest.Must(root.AuthEnable(ctx))(t)
	return members
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

// TestLogin runs the tests of a server with users, one after another.
func TestLogin(t *testing.T) {
	t.Parallel()
	members := startWithUsers(t, 1)
	addr := members.Addrs()
	root := servertest.Must(login(t, addr, "root", "secret"))(t)
	restart := func() {
		members[0].Kill()
		members[0].Restart()
	}
	t.Run("MissingRightsAreRefused", func(t *testing.T) { missingRights(t, addr) })
	t.Run("ClientWhoseTokenExpiredLogsInAgain", func(t *testing.T) {
		const expired = ttl + 1200*time.Millisecond // the server checks tokens once a second
		for name, fault := range map[string]func(*servertest.Proxy){
			"Idle": func(*servertest.Proxy) { time.Sleep(expired) },
			"CutOff": func(p *servertest.Proxy) {
				p.Drop()
				time.Sleep(expired)
				p.Heal()
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				logsInAgain(t, members, fault)
			})
		}
	})
	t.Run("ClientLogsInAgainWhenThereAreOtherUsers", func(t *testing.T) {
		logsInAgain(t, members, func(*servertest.Proxy) { servertest.Must(root.UserAdd(t.Context(), "other", "secret"))(t) })
	})
	t.Run("ClientLogsInAgainAfterARestart", func(t *testing.T) {
		logsInAgain(t, members, func(*servertest.Proxy) { restart() })
	})
	t.Run("ChangedPasswordIsRefused", func(t *testing.T) {
		s := opened(t, servertest.Must(login(t, addr, "writer", "secret"))(t), nil)
		servertest.Must(s.Get(t.Context(), "key"))(t)
		servertest.Must(root.UserChangePassword(t.Context(), "writer", "other"))(t)
		restart()
		refused(t, s, 10*time.Second, rpctypes.ErrAuthFailed, addr)
	})
}

func TestClientLogsInAgainAfterARestartOfOneOfThree(t *testing.T) {
	depth.NeedFull(t, "a restart of all is tested")
	t.Parallel()
	members := startWithUsers(t, 3)
	logsInAgain(t, members, func(*servertest.Proxy) {
		members[0].Kill()
		members[0].Restart()
	})
}

func missingRights(t *testing.T, addr string) {
	_, err := login(t, addr, "writer", "wrong")
	require.ErrorIs(t, err, rpctypes.ErrAuthFailed)
	const limit = 10 * time.Second
	refused(t, opened(t, connect(t, addr), nil), limit, rpctypes.ErrUserEmpty, addr)
	refused(t, opened(t, connect(t, addr), nil), limit, lease.ErrRefused, addr)

	var logins atomic.Int64
	writer := servertest.Must(login(t, addr, "writer", "secret", grpc.WithChainUnaryInterceptor(func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if _, ok := req.(*pb.AuthenticateRequest); ok {
			logins.Add(1)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})))(t)
	refused(t, opened(t, writer, &etcdlease.Options{Prefix: "/other"}), limit, rpctypes.ErrPermissionDenied, "/other/", " on "+addr)
	s := opened(t, writer, &etcdlease.Options{Prefix: "/snowflake"})
	before, version, begun := logins.Load(), "", time.Now()
	for range 20 {
		version = servertest.Put(t, s, "rights", version, "value").Version
	}
	// On a busy machine the token may expire between two calls.
	assert.LessOrEqual(t, logins.Load()-before, 1+int64(time.Since(begun)/ttl))
	_, err = s.List(t.Context(), "")
	assert.NoError(t, err)
	reader := servertest.Must(login(t, addr, "reader", "secret"))(t)
	_, err = opened(t, reader, nil).Put(t.Context(), "rights", version, nil)
	assert.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
}

// logsInAgain checks that a client recovers by itself from a fault that makes its token invalid. It
// reaches the first member through the proxy.
func logsInAgain(t *testing.T, members servertest.Cluster, fault func(*servertest.Proxy)) {
	p := servertest.NewProxy(t, members[0].Addr)
	addr := p.Addr()
	for _, m := range members[1:] {
		addr += "," + m.Addr
	}
	client, key := servertest.Must(login(t, addr, "writer", "secret"))(t), t.Name()
	s := opened(t, client, nil)
	servertest.Put(t, s, key, "", "value")
	time.Sleep(200 * time.Millisecond) // a restarted member knows the tokens of the last 100 ms
	fault(p)
	for range 2 * len(members) { // so that it asks each member
		var e lease.Entry
		servertest.Await(t, func() (err error) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			e, err = s.Get(ctx, key)
			return err
		})
		servertest.Put(t, s, key, e.Version, "value")
	}
}
