package s3lease_test

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/s3lease"
)

// A bucket of Cloudflare R2.
func ExampleNew() {
	// ctx bounds only Acquire. The first start of a fleet takes three minutes.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("auto"))
	if err != nil {
		log.Fatal(err)
	}
	cfg.BaseEndpoint = aws.String("https://" + os.Getenv("ACCOUNT") + ".r2.cloudflarestorage.com")
	store, err := s3lease.New(cfg, "my-bucket", &s3lease.Options{Prefix: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	l, err := lease.Acquire(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Release(context.Background())
}
