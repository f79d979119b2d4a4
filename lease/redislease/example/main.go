// The example leases a worker ID from a Redis server, issues a few IDs, and then
// takes some from a Sequencer.
//
//	go run ./example -new -addr localhost:6379
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

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/sequencer"
)

func main() {
	log.SetFlags(0)
	addr := flag.String("addr", "localhost:6379", "address of the Redis server")
	password := flag.String("password", os.Getenv("REDIS_PASSWORD"), "its password")
	isNew := flag.Bool("new", false, "the server is known to be new: do not wait in case its entries were lost")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *password, *isNew); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr, password string, isNew bool) error {
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
	l, err := lease.Acquire(ctx, store, &lease.Options{NewStore: isNew})
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
		fmt.Println("sequenced:", id, layouts.Redis().Decode(id))
	}
	return nil
}
