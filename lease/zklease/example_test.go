package zklease_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

// The production form: a worker ID from a ZooKeeper ensemble that the fleet shares.
func ExampleNew() {
	servers := []string{"zk1:2181", "zk2:2181", "zk3:2181"}
	conn, err := zklease.Connect(servers, 4*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel() // ctx bounds Acquire only: the first start of a fleet takes three minutes

	store, err := zklease.New(conn, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Release(context.Background())
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(gen.NextID())
}
