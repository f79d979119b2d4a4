package redislease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake/lease"
)

const defaultPrefix = "snowflake:"

// checkClient refuses clients that are not fit.
func checkClient(client redis.UniversalClient) error {
	var none, prompt bool
	switch c := client.(type) {
	case *redis.Client:
		none = c == nil
		prompt = !none && c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		none = c == nil
		prompt = !none && c.Options().ContextTimeoutEnabled
	default:
		return fmt.Errorf("redislease: %w: the client is a %T, not a *redis.Client or *redis.ClusterClient", lease.ErrInvalidOptions, client)
	}
	if none {
		return fmt.Errorf("redislease: %w: the client is nil", lease.ErrInvalidOptions)
	}
	if !prompt {
		return fmt.Errorf("redislease: %w: the client's ContextTimeoutEnabled must be true", lease.ErrInvalidOptions)
	}
	return nil
}

// address says which server a client, if any, talks to.
func address(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		return fmt.Sprintf("redis %s, database %d", c.Options().Addr, c.Options().DB)
	case *redis.ClusterClient:
		return "redis cluster " + strings.Join(c.Options().Addrs, ",")
	}
	return "redis"
}

// wrap says where an error is from. A key of another type is a bad record.
func wrap(client redis.UniversalClient, key string, err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), "WRONGTYPE") { // within the error of a script, before Redis 7
		err = fmt.Errorf("%w: %w", lease.ErrBadRecord, err)
	}
	return fmt.Errorf("redislease: key %q of %s: %w", key, address(client), err)
}

// call calls f, and returns when ctx is done at the latest. The client itself
// looks at ctx's deadline, so that f ends soon after that; but while it waits for
// an answer it does not look at a cancellation.
func call[T any](ctx context.Context, f func() (T, error)) (T, error) {
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
		return a.value, ctx.Err()
	}
	if timedOut(a.err) && near(ctx) {
		<-ctx.Done() // it is ctx's deadline that the connection had
	}
	if a.err != nil && ctx.Err() != nil {
		a.err = fmt.Errorf("%w: %w", ctx.Err(), a.err)
	}
	return a.value, a.err
}

func timedOut(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func near(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < 20*time.Millisecond
}
