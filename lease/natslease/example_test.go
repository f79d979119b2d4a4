package natslease_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/natslease"
)

// A cluster that asks for credentials.
func ExampleConnect() {
	conn, err := natslease.Connect("tls://10.0.0.1,tls://10.0.0.2,tls://10.0.0.3", nats.UserCredentials("orders.creds"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel() // ctx bounds Acquire only: the first start of a fleet takes three minutes
	store, err := natslease.New(conn, nil)
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
