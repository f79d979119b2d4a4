// The example leases a worker ID from a bucket of NATS and issues a few IDs.
//
//	go run ./example -new -url nats://localhost:4222
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/nats-io/nats.go"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/natslease"
)

func main() {
	log.SetFlags(0)
	url := flag.String("url", nats.DefaultURL, "the URLs of the servers, with commas between them")
	isNew := flag.Bool("new", false, "the store is known to be new: do not wait in case it was wiped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *isNew, *url); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, isNew bool, url string) error {
	conn, err := natslease.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	store, err := natslease.New(conn, nil)
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
	fmt.Println("worker:", l.Worker())
	for range 3 {
		id, err := g.NextIDContext(ctx)
		if err != nil {
			return err
		}
		fmt.Println(id, g.Decode(id))
	}
	return nil
}
