package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease"
)

// stores are the stores that this program knows. Keep one of them in a program of your own. The
// others of the project (sqllease, etcdlease, zklease) fit in here the same way.
var stores = []string{"file:DIRECTORY", "redis://HOST:PORT"}

// open opens the store that a text names. The caller calls done when the lease is released.
func open(ctx context.Context, c config) (store lease.Store, done func(), err error) {
	scheme, rest, _ := strings.Cut(c.store, ":")
	switch {
	case scheme == "file" && rest != "":
		return lease.File(rest), func() {}, nil
	case scheme == "redis":
		return openRedis(ctx, c)
	}
	return nil, nil, fmt.Errorf("-store %q is not one of %s", c.store, strings.Join(stores, ", "))
}

func openRedis(ctx context.Context, c config) (lease.Store, func(), error) {
	o, err := redis.ParseURL(c.store)
	if err != nil {
		return nil, nil, fmt.Errorf("-store: %w", err)
	}
	o.ContextTimeoutEnabled, o.DialTimeout = true, time.Second
	client := redis.NewClient(o)
	store, err := redislease.New(client, nil)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, 2*c.window+10*time.Second)
		defer cancel()
		err = store.Create(ctx, c.window) // waits for two windows if the store is not there, and else does nothing
	}
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return store, func() { client.Close() }, nil
}
