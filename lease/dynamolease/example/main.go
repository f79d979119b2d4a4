// The example leases a worker ID from a table of DynamoDB, and issues a few IDs. The region and the
// credentials are the machine's, as for the aws command.
//
//	go run ./example -new -table snowflake
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/dynamolease"
)

func main() {
	log.SetFlags(0)
	table := flag.String("table", "snowflake", "the table's name")
	isNew := flag.Bool("new", false, "the store is known to be new: do not wait in case it was wiped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *table, *isNew); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, table string, isNew bool) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	store, err := dynamolease.New(cfg, table, nil)
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
