// The example leases a worker ID from a bucket, and issues a few IDs. The region and the
// credentials are the machine's, as for the aws command.
//
//	go run ./example -new -bucket my-bucket
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
	"github.com/seed-5394e6b1/snowflake/lease/s3lease"
)

func main() {
	log.SetFlags(0)
	bucket := flag.String("bucket", "", "the bucket's name")
	pathStyle := flag.Bool("path-style", false, "the bucket's name is a part of the path, as with MinIO")
	isNew := flag.Bool("new", false, "the store is known to be new: do not wait in case it was wiped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *bucket, *pathStyle, *isNew); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, bucket string, pathStyle, isNew bool) error {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	store, err := s3lease.New(cfg, bucket, &s3lease.Options{PathStyle: pathStyle})
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
