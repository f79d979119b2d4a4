// The example leases a worker ID from a Redis server, issues a few IDs, and then
// takes some from a Sequencer.
//
//	go run ./example -addr localhost:6379
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/sequencer"
)

func main() {
	log.SetFlags(0)
	logging.Disable() // go-redis' own log; the client also returns the errors
	addr := flag.String("addr", "localhost:6379", "address of the Redis server")
	password := flag.String("password", os.Getenv("REDIS_PASSWORD"), "its password")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *password); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr, password string) error {
	client := redis.NewClient(&redis.Options{
		Addr:                  addr,
		Password:              password,
		ContextTimeoutEnabled: true,
		DialTimeout:           time.Second,
	})
	defer client.Close()

	store, err := redislease.New(client, nil)
	if err != nil {
		return err
	}
	// This waits for 6 s the first time ever.
	if err := store.Create(ctx, 0); err != nil {
		return err
	}
	l, err := lease.Acquire(ctx, store, nil)
	if err != nil {
		return err
	}
	defer l.Release(context.Background())
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		return err
	}
	fmt.Println("worker:   ", l.Worker())
	for range 3 {
		id, err := g.NextID()
		if err != nil {
			return err
		}
		fmt.Println("leased:   ", id, g.Decode(id))
	}

	s, err := sequencer.New(client, nil)
	if err != nil {
		return err
	}
	ids := make([]snowflake.ID, 3)
	if _, err := s.Fill(ctx, ids); err != nil {
		return err
	}
	for _, id := range ids {
		fmt.Println("sequenced:", id, snowflake.RedisLayout().Decode(id))
	}
	return nil
}
