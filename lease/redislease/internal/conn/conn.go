// Package conn calls Redis for the packages of this module.
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

// DefaultPrefix begins the names of keys if the options have no prefix.
const DefaultPrefix = "snowflake:"

// The client logs each failed connection to stderr, for the whole process, though it returns
// the errors too. An application that wants to see the lines calls redis.SetLogger.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Key is a key of a server. Its errors begin with the name of a package.
type Key struct {
	Package, Name string
	Client        redis.UniversalClient
}

// Check refuses clients that a store cannot use, with an error that matches
// [driver.ErrInvalidOptions].
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

// Address returns which server the client talks to.
func (k Key) Address() string {
	switch c := k.Client.(type) {
	case *redis.Client:
		return fmt.Sprintf("redis %s, database %d", c.Options().Addr, c.Options().DB)
	case *redis.ClusterClient:
		return "redis cluster " + strings.Join(c.Options().Addrs, ",")
	}
	return "redis"
}

// Wrap adds to an error the key and the server. A key of another type is a bad record. A wrong
// password or a missing right is a refusal.
func (k Key) Wrap(err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), "WRONGTYPE") { // before Redis 7, within the error of a script
		err = fmt.Errorf("%w: %w", driver.ErrBadRecord, err)
	}
	if isRefusal(err) {
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return fmt.Errorf("%s: key %q of %s: %w", k.Package, k.Name, k.Address(), err)
}

// isRefusal reports whether the server says that the password is wrong or a right is missing. (Old
// clients have no redis.IsAuthError.)
func isRefusal(err error) bool {
	return slices.ContainsFunc([]string{"NOAUTH ", "WRONGPASS ", "NOPERM ", "unauthenticated", "can't run this command"},
		func(word string) bool { return strings.Contains(err.Error(), word) })
}

// grace is how long Call waits for the client after the end of the context. The client ends
// soon after the context, and its error says what happened.
const grace = 50 * time.Millisecond

// Call calls f, which asks the server, and returns soon after ctx is done at the latest.
// The client looks at ctx's deadline, so f ends soon after the deadline. But while the
// client waits for an answer, it does not notice that ctx is cancelled.
//
// An error after ctx was done matches ctx's error, and the client's error if it has one.
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
		<-ctx.Done() // the connection took its time-out from ctx
	}
	if a.err == nil || ctx.Err() == nil {
		return a.value, a.err
	}
	go k.dropSilent()
	var met *net.OpError
	if !errors.As(a.err, &met) {
		if err := k.dial(); err != nil {
			a.err = err
		}
	}
	if !errors.Is(a.err, ctx.Err()) {
		a.err = fmt.Errorf("%w: %w", ctx.Err(), a.err)
	}
	return a.value, a.err
}

// dial dials once more, and returns the error if one comes soon. It is the cause for an
// error without a cause: go-redis dials again and again until its time is up, and then
// forgets the reason.
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

// silence is how long an idle connection may take to answer a PING after another connection has not
// answered in time.
const silence = time.Second

// dropping has the clients whose idle connections are being asked.
var dropping sync.Map

// dropSilent lets the client drop the idle connections that do not answer. If the network has lost
// them, each would cost a later call its time, one after the other. The client asks them nothing by
// itself, and new connections may work.
func (k Key) dropSilent() {
	if _, busy := dropping.LoadOrStore(k.Client, true); busy {
		return
	}
	defer dropping.Delete(k.Client)
	ctx, cancel := context.WithTimeout(context.Background(), silence)
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
	var asked sync.WaitGroup
	for i := range conns {
		conns[i] = client.Conn()
		asked.Add(1)
		go func() {
			defer asked.Done()
			_ = conns[i].Ping(ctx).Err() // after an error the connection is dropped
		}()
	}
	asked.Wait()
	for _, c := range conns { // not before, so that each has asked another connection
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
