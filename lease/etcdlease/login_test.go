//go:build unix

package etcdlease_test

import (
	"context"
	"errors"
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

	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

// enableAuth makes the users root, writer and reader with the password secret. Nobody else may connect.
func enableAuth(t *testing.T, addr string) {
	t.Helper()
	root := connect(t, addr)
	ctx := t.Context()
	servertest.Must(root.RoleAdd(ctx, "root"))(t)
	servertest.Must(root.UserAdd(ctx, "root", "secret"))(t)
	servertest.Must(root.UserGrantRole(ctx, "root", "root"))(t)
	for name, perm := range map[string]clientv3.PermissionType{"writer": clientv3.PermissionType(clientv3.PermReadWrite), "reader": clientv3.PermissionType(clientv3.PermRead)} {
		servertest.Must(root.RoleAdd(ctx, name))(t)
		servertest.Must(root.RoleGrantPermission(ctx, name, "/snowflake/", clientv3.GetPrefixRangeEnd("/snowflake/"), perm))(t)
		servertest.Must(root.UserAdd(ctx, name, "secret"))(t)
		servertest.Must(root.UserGrantRole(ctx, name, name))(t)
	}
	servertest.Must(root.AuthEnable(ctx))(t)
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
	addr := start(t, 1, "--bcrypt-cost", "4").Addrs()
	enableAuth(t, addr)
	if _, err := login(t, addr, "writer", "wrong"); !errors.Is(err, rpctypes.ErrAuthFailed) {
		t.Errorf("with a wrong password clientv3.New returns %v", err)
	}
	const limit = 10 * time.Second
	refused(t, opened(t, connect(t, addr), nil), limit, rpctypes.ErrUserEmpty, addr)

	var logins atomic.Int64
	writer, err := login(t, addr, "writer", "secret", grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if _, ok := req.(*pb.AuthenticateRequest); ok {
			logins.Add(1)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}))
	require.NoError(t, err)
	refused(t, opened(t, writer, &etcdlease.Options{Prefix: "/other"}), limit, rpctypes.ErrPermissionDenied, "/other/", " on "+addr)
	s := opened(t, writer, &etcdlease.Options{Prefix: "/snowflake"})
	before, version := logins.Load(), ""
	for range 20 {
		version = servertest.Put(t, s, "key", version, "value").Version
	}
	assert.LessOrEqual(t, logins.Load()-before, int64(2))
	_, err = s.List(t.Context(), "")
	assert.NoError(t, err)
	reader := servertest.Must(login(t, addr, "reader", "secret"))(t)
	_, err = opened(t, reader, nil).Put(t.Context(), "key", version, nil)
	assert.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
}

// If a client's token becomes invalid for any reason, the client logs in again by itself.
func TestClientLogsInAgainIfItsTokenIsInvalid(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	const expired = ttl + 1200*time.Millisecond // the server checks tokens once a second
	restart := func(_ *testing.T, m servertest.Cluster, _ *servertest.Proxy) {
		m[0].Kill()
		m[0].Restart()
	}
	for _, test := range []struct {
		name  string
		size  int
		fault func(t *testing.T, m servertest.Cluster, p *servertest.Proxy)
	}{
		{"Restart", 1, restart},
		{"RestartOfOneOfThree", 3, restart},
		{"Break", 1, func(_ *testing.T, _ servertest.Cluster, p *servertest.Proxy) {
			p.Drop()
			time.Sleep(expired)
			p.Heal()
		}},
		{"OtherUsers", 1, func(t *testing.T, m servertest.Cluster, _ *servertest.Proxy) {
			root, err := login(t, m[0].Addr, "root", "secret")
			if err == nil {
				_, err = root.UserAdd(t.Context(), "other", "secret")
			}
			assert.NoError(t, err)
		}},
		{"IdleClient", 1, func(*testing.T, servertest.Cluster, *servertest.Proxy) { time.Sleep(expired) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			members := start(t, test.size, "--bcrypt-cost", "4", "--auth-token-ttl", fmt.Sprint(ttl.Seconds()))
			enableAuth(t, members.Addrs())
			p := servertest.NewProxy(t, members[0].Addr)
			addr := p.Addr()
			for _, m := range members[1:] {
				addr += "," + m.Addr
			}
			client := servertest.Must(login(t, addr, "writer", "secret"))(t)
			s := opened(t, client, nil)
			servertest.Put(t, s, "key", "", "value")
			time.Sleep(200 * time.Millisecond) // a restarted member knows the tokens of the last 100 ms
			test.fault(t, members, p)
			for range 2 * test.size { // so that it asks each member
				var e lease.Entry
				servertest.Await(t, func() (err error) {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					e, err = s.Get(ctx, "key")
					return err
				})
				servertest.Put(t, s, "key", e.Version, "value")
			}
		})
	}
}

// If the user's password is changed, a client with the old password cannot log in again.
func TestChangedPasswordIsRefused(t *testing.T) {
	t.Parallel()
	m := start(t, 1, "--bcrypt-cost", "4")[0]
	enableAuth(t, m.Addr)
	client := servertest.Must(login(t, m.Addr, "writer", "secret"))(t)
	s := opened(t, client, nil)
	servertest.Put(t, s, "key", "", "value")
	root, err := login(t, m.Addr, "root", "secret")
	if err == nil {
		_, err = root.UserChangePassword(t.Context(), "writer", "other")
	}
	require.NoError(t, err)
	m.Kill()
	m.Restart()
	refused(t, s, 10*time.Second, rpctypes.ErrAuthFailed, m.Addr)
}
