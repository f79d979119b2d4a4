// Package conn calls Redis for redislease and sequencer.
package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
)

// DefaultPrefix is the prefix of keys if the options have none.
const DefaultPrefix = "snowflake:"

// By default go-redis logs each failed connection to stderr, although it returns the errors, too.
func init() { redis.SetLogger(noLog{}) }

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}

// Key is a key on a server.
type Key struct {
	Package string // the prefix of error texts
	Name    string
	Client  redis.UniversalClient
}

// Check returns an error that matches [driver.ErrInvalidOptions] if a store cannot use the client.
func (k Key) Check() error {
	switch c := k.Client.(type) {
	case *redis.Client:
		if c != nil && c.Options().ContextTimeoutEnabled {
			return nil
		}
	case *redis.ClusterClient:
		if c != nil && c.Options().ContextTimeoutEnabled {
			return nil
		}
	default:
		return fmt.Errorf("%s: %w: the client is a %T, not a *redis.Client or *redis.ClusterClient", k.Package, driver.ErrInvalidOptions, c)
	}
	return fmt.Errorf("%s: %w: the client is nil, or its ContextTimeoutEnabled is not true", k.Package, driver.ErrInvalidOptions)
}

// Address returns the client's server, for error texts.
func (k Key) Address() string {
	switch c := k.Client.(type) {
	case *redis.Client:
		return fmt.Sprintf("redis %s, database %d", c.Options().Addr, c.Options().DB)
	case *redis.ClusterClient:
		return "redis cluster " + strings.Join(c.Options().Addrs, ",")
	}
	return "redis"
}

// Wrap adds the key and the server to an error. A key of another type is a bad record. A wrong
// password or a missing right is a refusal.
func (k Key) Wrap(err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), "WRONGTYPE") { // not a prefix before Redis 7
		err = fmt.Errorf("%w: %w", driver.ErrBadRecord, err)
	}
	if isRefusal(err) {
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return fmt.Errorf("%s: key %q of %s: %w", k.Package, k.Name, k.Address(), err)
}

// isRefusal reports whether the password is wrong or a right is missing. (Old clients have no
// redis.IsAuthError.)
func isRefusal(err error) bool {
	return slices.ContainsFunc([]string{"NOAUTH ", "WRONGPASS ", "NOPERM ", "unauthenticated", "can't run this command"},
		func(word string) bool { return strings.Contains(err.Error(), word) })
}

// grace is the time that the client has, after the context has ended, to return an error with the
// cause.
const grace = 50 * time.Millisecond

// Call calls f, which sends a request. If ctx ends, Call returns soon, even if f does not: while
// the client waits for a reply, it watches ctx's deadline, but not its cancellation. The error then
// matches ctx's error and, if there is one, the client's.
func Call[T any](ctx context.Context, k Key, f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var a answer
	if err := ctx.Err(); err != nil {
		return a.value, err
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := f()
		answers <- answer{value, err}
	}()
	select {
	case a = <-answers:
	case <-ctx.Done():
		select {
		case a = <-answers:
		case <-time.After(grace):
			a.err = ctx.Err()
		}
	}
	if timedOut(a.err) && near(ctx) {
		<-ctx.Done() // the connection's time-out was ctx's deadline
	}
	if a.err == nil || ctx.Err() == nil {
		return a.value, a.err
	}
	go k.dropDead()
	var netErr *net.OpError
	if !errors.As(a.err, &netErr) {
		if err := k.dial(); err != nil {
			a.err = err
		}
	}
	if !errors.Is(a.err, ctx.Err()) {
		a.err = fmt.Errorf("%w: %w", ctx.Err(), a.err)
	}
	return a.value, a.err
}

// dial tries to connect, for a moment, and returns the error. It finds the cause of a time-out:
// go-redis retries a connection until its time is up, and then loses the reason.
func (k Key) dial() error {
	client, ok := k.Client.(*redis.Client)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	o := client.Options()
	c, err := o.Dialer(ctx, o.Network, o.Addr)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// pingTimeout is the time in which an idle connection must answer a PING.
const pingTimeout = time.Second

// pinging is the set of clients whose idle connections are being pinged.
var pinging sync.Map

// dropDead makes the client close the idle connections that do not answer, after a call has timed
// out. If the network has lost them, each would make a later call time out. The client does not
// ping them itself, and new connections may work.
func (k Key) dropDead() {
	if _, busy := pinging.LoadOrStore(k.Client, true); busy {
		return
	}
	defer pinging.Delete(k.Client)
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	client, ok := k.Client.(*redis.Client)
	if cluster, is := k.Client.(*redis.ClusterClient); is {
		master, err := cluster.MasterForKey(ctx, k.Name)
		client, ok = master, err == nil
	}
	if !ok {
		return
	}
	conns := make([]*redis.Conn, client.PoolStats().IdleConns)
	var pinged sync.WaitGroup
	for i := range conns {
		conns[i] = client.Conn()
		pinged.Add(1)
		go func() {
			defer pinged.Done()
			_ = conns[i].Ping(ctx).Err() // on an error the client closes the connection
		}()
	}
	pinged.Wait()
	for _, c := range conns { // only now, so that each is a different connection
		_ = c.Close()
	}
}

func timedOut(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func near(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < 20*time.Millisecond
}
