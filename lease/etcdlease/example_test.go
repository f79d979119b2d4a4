package etcdlease_test

import (
	"context"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

// A cluster that asks for a password.
func ExampleConfig() {
	config := etcdlease.Config("https://10.0.0.1:2379", "https://10.0.0.2:2379", "https://10.0.0.3:2379")
	config.Username, config.Password = "orders", "secret"
	client, err := clientv3.New(config)
	if err != nil {
		log.Fatal(err) // rpctypes.ErrAuthFailed, say
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel() // ctx bounds Acquire only: the first start of a fleet takes three minutes
	store, err := etcdlease.New(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Release(context.Background())
}
