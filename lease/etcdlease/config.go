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

// Config returns a configuration for clientv3.New whose client recovers soon after an outage: it
// tries to connect at least every 1.5 s, and closes a connection without a reply for 12 s. (With
// etcd's defaults it tries every two minutes, and does not close such connections.) The
// configuration has no logger. Add Username and Password, TLS and whatever else the cluster needs.
// Append to DialOptions; do not replace them.
//
// The certificates in a tls.Config are read once. If the files are renewed while the program runs,
// read them in GetClientCertificate and, with InsecureSkipVerify, in VerifyConnection.
//
// If Username is set, clientv3.New logs in. It waits for the cluster for up to DialTimeout, 5 s,
// and returns rpctypes.ErrAuthFailed if the password is wrong. The client logs in again if the
// cluster no longer knows its token: after a restart of the cluster, or after --auth-token-ttl, 5
// min by default, without a call. With etcd 3.4, only clients with this Config do so.
func Config(endpoints ...string) clientv3.Config {
	return clientv3.Config{
		Endpoints:            endpoints,
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    10 * time.Second, // gRPC's minimum
		DialKeepAliveTimeout: 2 * time.Second,
		// After 8 retries a read returns the cause of its failure, and lease.Acquire tries again.
		MaxUnaryRetries: 8,
		Logger:          zap.NewNop(),
		DialOptions: []grpc.DialOption{
			// Fixed window sizes: otherwise the client sends pings to measure the bandwidth.
			grpc.WithInitialWindowSize(1 << 20),
			grpc.WithInitialConnWindowSize(1 << 20),
			grpc.WithChainUnaryInterceptor(intercept),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6,
					Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
				MinConnectTimeout: time.Second,
			}),
		},
	}
}

// intercept makes a call, and mends two errors of the client.
//
// If the deadline has passed, the client replaces gRPC's error by the context's. intercept returns
// another error type with gRPC's text, which has the reason why there is no connection.
//
// The client sends its token even when it logs in. If the token is no longer valid, etcd 3.4
// refuses each login. intercept then returns an empty token instead: with it, the client sends
// none, is told to log in, and does.
func intercept(
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
