package redislease_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease"
)

// A worker ID from a Redis server.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{
		Addr:                  "redis:6379",
		ContextTimeoutEnabled: true,
		DialTimeout:           time.Second,
	})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel() // ctx bounds Acquire only: the first start of a fleet takes three minutes

	store, err := redislease.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Release(context.Background())
}

// A save fails unless a replica has acknowledged it, so a failover rarely loses one.
func ExampleOptions_replicas() {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:            "mymaster",
		SentinelAddrs:         []string{"sentinel-0:26379", "sentinel-1:26379", "sentinel-2:26379"},
		ContextTimeoutEnabled: true,
		DialTimeout:           time.Second,
	})
	defer client.Close()
	store, err := redislease.New(client, &redislease.Options{Replicas: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lease.Holders(context.Background(), store))
}
