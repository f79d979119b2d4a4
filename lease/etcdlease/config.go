package etcdlease

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Config returns a configuration for clientv3.New whose client recovers soon after an
// outage: it tries to connect at least every 1.5 s, and gives up a connection on which
// nothing is heard for 12 s. (With etcd's defaults the client tries every two minutes, and
// never gives a connection up.) It has no logger. Add Username and Password, TLS and
// whatever else the cluster needs. Append to DialOptions; do not replace them.
//
// The certificates in a tls.Config are never read again. If files are renewed while the program
// runs, read them in GetClientCertificate and, with InsecureSkipVerify, in VerifyConnection.
//
// If Username is set, clientv3.New logs in. It waits for the cluster for up to DialTimeout,
// 5 s, and fails with rpctypes.ErrAuthFailed if the password is wrong. Without a Username
// it does not wait. The client logs in again if the cluster no longer knows its token: after
// a restart of the cluster, or after no call for --auth-token-ttl, 5 min by default. With
// etcd 3.4, clients without this Config never log in again.
func Config(endpoints ...string) clientv3.Config {
	return clientv3.Config{
		Endpoints:            endpoints,
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    10 * time.Second, // the shortest that gRPC takes
		DialKeepAliveTimeout: 2 * time.Second,
		// After 8 retries, the error of a read says why it failed, and lease.Acquire tries again.
		MaxUnaryRetries: 8,
		Logger:          zap.NewNop(),
		DialOptions: []grpc.DialOption{
			// Otherwise the client sends pings to find a good window.
			grpc.WithInitialWindowSize(1 << 20),
			grpc.WithInitialConnWindowSize(1 << 20),
			grpc.WithChainUnaryInterceptor(tell),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6,
					Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
				MinConnectTimeout: time.Second,
			}),
		},
	}
}

// tell makes a call. If time is up, its error has gRPC's text, which says why there is no
// connection. The client would replace an error of gRPC's own by the context's.
//
// The client sends its token even with a login. If the token is no longer valid, etcd 3.4 refuses
// the login forever. So tell returns an empty token instead: then the client sends none, is told to
// log in, and does.
func tell(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if _, login := req.(*pb.AuthenticateRequest); login && rpctypes.Error(err) == rpctypes.ErrInvalidAuthToken {
		return nil
	}
	if status.Code(err) == codes.DeadlineExceeded {
		return fmt.Errorf("%w: %s", context.DeadlineExceeded, status.Convert(err).Message())
	}
	return err
}
