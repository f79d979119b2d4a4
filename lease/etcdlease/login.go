package etcdlease

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// logins lets all calls of a client share one login. If calls run out of time while they
// wait, the login goes on, and the next call has its token. Checking a password costs the
// server tens of milliseconds of a core, so after a restart the logins of a fleet take
// longer than a renewal may take. If every call logged in anew, the server would work only
// for callers that have given up.
type logins struct {
	mu     sync.Mutex
	logged bool   // a login has succeeded before
	under  *login // the login under way, or nil
}

type login struct {
	user  user
	done  chan struct{}
	token string
	err   error
}

type user struct {
	conn           *grpc.ClientConn
	name, password string
}

// loginTime is how long a login may take, and so for how long a login that hangs keeps
// other calls waiting.
const loginTime = 10 * time.Second

// wait returns when the login is done, or when ctx is done.
func (u *login) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w while logging in", ctx.Err())
	case <-u.done:
		return nil
	}
}

func (l *logins) share(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	r, ok := req.(*pb.AuthenticateRequest)
	if !ok {
		l.mu.Lock()
		u := l.under
		l.mu.Unlock()
		if u != nil && u.user.conn == cc {
			if err := u.wait(ctx); err != nil {
				return err
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	answer := reply.(*pb.AuthenticateResponse)
	opts = slices.DeleteFunc(slices.Clone(opts), func(o grpc.CallOption) bool {
		_, peer := o.(grpc.PeerCallOption) // gRPC may write to it after the call has returned
		return peer
	})
	run := func(ctx context.Context) (string, error) {
		var answer pb.AuthenticateResponse
		err := invoke(ctx, method, req, &answer, cc, opts...)
		// The client sends its token with the login too. If the token is no longer valid,
		// etcd 3.4 refuses the login for ever. If the token is empty, the client sends
		// no token, is told to log in, and does.
		if rpctypes.Error(err) == rpctypes.ErrInvalidAuthToken {
			err = nil
		}
		return answer.Token, err
	}
	u := l.begin(user{cc, r.Name, r.Password}, func() (string, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loginTime)
		defer cancel()
		return run(ctx)
	})
	if u == nil { // this error says best why it fails
		token, err := run(ctx)
		answer.Token = token
		if err == nil {
			l.mu.Lock()
			l.logged = true
			l.mu.Unlock()
		}
		return err
	}
	if err := u.wait(ctx); err != nil {
		return err
	}
	l.end(u)
	answer.Token = u.token
	return u.err
}

// begin returns the login that is under way, or begins one. It returns nil for the first
// login, and while another user's login is under way.
func (l *logins) begin(who user, run func() (string, error)) *login {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.under != nil && l.under.user == who {
		return l.under
	}
	if l.under != nil || !l.logged {
		return nil
	}
	u := &login{user: who, done: make(chan struct{})}
	l.under = u
	go func() {
		defer close(u.done)
		if u.token, u.err = run(); u.err != nil {
			l.end(u)
		} // otherwise it stays until a call has used its token
	}()
	return u
}

func (l *logins) end(u *login) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.under == u {
		l.under = nil
	}
}
