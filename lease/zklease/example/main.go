// The example leases a worker ID from ZooKeeper and issues a few IDs.
//
//	go run ./example -addr localhost:2181
//
// While it runs, `ls /snowflake/instances` in zkCli.sh shows its worker ID.
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
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *addr, *root, *auth)
	if errors.Is(err, zk.ErrNoServer) {
		err = fmt.Errorf("no ZooKeeper server answers at %s: %w", *addr, err)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// silent is a logger for package zk that drops everything; package zk also returns the
// errors.
type silent struct{}

func (silent) Printf(string, ...any) {}

func run(ctx context.Context, addr, root, auth string) error {
	conn, _, err := zk.Connect(strings.Split(addr, ","), 6*time.Second, zk.WithDialer(zklease.Dial), zk.WithLogger(silent{}))
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
	if err := store.Create(ctx, 0); err != nil { // waits for 6 s the first time ever
		return err
	}
	l, err := lease.Acquire(ctx, store, nil)
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
