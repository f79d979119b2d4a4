package dynamolease_test

import (
	"context"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/dynamolease"
)

// Several fleets share a table.
func ExampleNew() {
	// ctx bounds only Acquire. The first start of a fleet takes three minutes.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store, err := dynamolease.New(cfg, "snowflake", &dynamolease.Options{Store: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	l, err := lease.Acquire(ctx, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Release(context.Background())
}
