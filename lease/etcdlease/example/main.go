// The example leases a worker ID from an etcd cluster and issues a few IDs.
//
//	go run ./example -addr localhost:2379
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/etcdlease"
)

func main() {
	log.SetFlags(0)
	addr := flag.String("addr", "localhost:2379", "the endpoints of the cluster, with commas between them")
	user := flag.String("user", "", "user name, where the cluster asks for one")
	password := flag.String("password", os.Getenv("ETCD_PASSWORD"), "its password")
	isNew := flag.Bool("new", false, "the store is known to be new: do not wait in case it was wiped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config := etcdlease.Config(strings.Split(*addr, ",")...)
	config.Username, config.Password = *user, *password
	if err := run(ctx, *isNew, config); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, isNew bool, config clientv3.Config) error {
	client, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer client.Close()
	store, err := etcdlease.New(client, nil)
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
