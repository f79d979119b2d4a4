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

// logins makes one login for all the calls of a client that ask for one, and has
// the others wait for it. It goes on while they run out of time, and the next call
// has its token: checking a password takes the server tens of milliseconds of a
// core, so that after a restart those of a fleet take longer than a renewal may.
// If each began anew, the server would work only for those that have given up.
type logins struct {
	mu     sync.Mutex
	logged bool   // there was one that succeeded
	under  *login // nil: none is under way
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

// loginTime is how long a login may take, and so also how long one that hangs
// holds the others up.
const loginTime = 10 * time.Second

// wait returns when the login is done, or ctx.
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
		_, peer := o.(grpc.PeerCallOption) // is written to, maybe after the call
		return peer
	})
	run := func(ctx context.Context) (string, error) {
		var answer pb.AuthenticateResponse
		err := invoke(ctx, method, req, &answer, cc, opts...)
		// The client sends its token with the login too, and etcd 3.4 refuses that,
		// for ever, when the token is not valid any more. With an empty one instead
		// the client goes on without, is told to log in, and does.
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
	if u == nil { // the error says best why it fails
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

// begin returns the login that is under way, or begins it. It returns nil for the
// first one, and while another user's is under way.
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
		} // else it stays until a call has the token
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
