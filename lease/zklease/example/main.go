// The example leases a worker ID from ZooKeeper and issues a few IDs.
//
//	go run ./example -addr localhost:2181
//
// While it runs, "ls /snowflake/worker" in zkCli.sh shows its worker ID.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/zklease"
)

func main() {
	log.SetFlags(0)
	addr := flag.String("addr", "localhost:2181", "addresses of the ZooKeeper servers, with commas between them")
	root := flag.String("root", "", "znode that the tree lies under (default /snowflake)")
	auth := flag.String("auth", os.Getenv("ZK_AUTH"), "user:password, for the digest scheme")
	isNew := flag.Bool("new", false, "the store is known to be new: do not wait in case it was wiped")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *isNew, *addr, *root, *auth)
	if errors.Is(err, zk.ErrNoServer) {
		err = fmt.Errorf("no ZooKeeper server answers at %s: %w", *addr, err)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, isNew bool, addr, root, auth string) error {
	conn, err := zklease.Connect(strings.Split(addr, ","), 4*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	o := &zklease.Options{Root: root}
	if auth != "" {
		if err := conn.AddAuth("digest", []byte(auth)); err != nil {
			return err
		}
		o.ACL = zk.AuthACL(zk.PermAll)
	}

	store, err := zklease.New(conn, o)
	if err != nil {
		return err
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{NewStore: isNew})
	if err != nil {
		return err
	}
	defer release(l)
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
		fmt.Println("id:    ", id, g.Decode(id))
	}
	return nil
}

// release gives the worker ID back. It does not use ctx, which may be done.
func release(l *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		log.Print(err) // the worker ID comes free by itself
	}
}
