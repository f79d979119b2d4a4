// The example leases a worker ID from the store that a URL names, and issues a few IDs.
//
//	go run ./lease/urllease/example -new redis://localhost:6379
//	go run ./lease/urllease/example -new sqlite:leases.db
//
// -new says that the store was never used: without it, the first start of a fleet takes three
// minutes.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/urllease"
)

func main() {
	log.SetFlags(0)
	isNew := flag.Bool("new", false, "the store is known to be new: do not wait in case it was wiped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), *isNew); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string, isNew bool) error {
	store, closeStore, err := urllease.Open(ctx, url)
	if err != nil {
		return err
	}
	defer closeStore()
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
