package natslease_test

import (
	"context"
	"log"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/natslease"
)

// A cluster that asks for credentials.
func ExampleConnect() {
	conn, err := natslease.Connect("tls://10.0.0.1,tls://10.0.0.2,tls://10.0.0.3", nats.UserCredentials("orders.creds"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel() // ctx bounds Acquire only: the first start of a fleet takes three minutes
	store, err := natslease.New(conn, nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Release(context.Background())
}
