package zklease_test

import (
	"context"
	"log"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

// A worker ID from a ZooKeeper ensemble.
func ExampleNew() {
	servers := []string{"zk1:2181", "zk2:2181", "zk3:2181"}
	conn, err := zklease.Connect(servers, 4*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel() // ctx bounds Acquire only: the first start of a fleet takes three minutes

	store, err := zklease.New(conn, nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Release(context.Background())
}
