// The lease program shows how to use the library in production. It leases a worker ID from a
// directory, issues IDs until its work is done or a signal stops it, finishes the current request,
// and releases the worker ID.
//
//	go run ./examples/lease /var/lib/orders/workers orders-1
//
// The second argument is the owner of the lease: the same name after a restart, and no other
// process's. If two such programs run at the same time, their worker IDs differ. Without arguments,
// the program uses a temporary directory, which no other process shares.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	switch len(args) {
	case 0:
	case 2:
		return serve(ctx, args[0], &lease.Options{Owner: args[1]})
	default:
		return errors.New("usage: lease [DIRECTORY OWNER]")
	}
	dir, err := os.MkdirTemp("", "workers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// File writes beside its directory, too.
	return serve(ctx, filepath.Join(dir, "ids"), &lease.Options{Owner: "orders-1", NewStore: true})
}

func serve(ctx context.Context, dir string, opts *lease.Options) error {
	l, err := acquire(ctx, dir, opts)
	if err != nil {
		return err
	}
	defer release(l)
	g, err := snowflake.NewLeased(l, nil)
	if err != nil {
		return err
	}
	fmt.Println("worker:", g.Worker())

	for range 3 {
		select {
		case <-ctx.Done():
			fmt.Println("told to stop")
			return handle(g) // the current request still gets its ID
		case <-time.After(10 * time.Millisecond): // a request
		}
		if err := handle(g); err != nil {
			return err
		}
	}
	return nil
}

// acquire waits for a worker ID for at most 10 s, which is about three windows of the lease. Its
// context bounds only the wait: the lease lives until it is released. NewStore is only for a
// directory that was created a moment ago; otherwise the first start waits for 3 s, because the
// directory may be that of a file system that is not mounted.
func acquire(ctx context.Context, dir string, opts *lease.Options) (*lease.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return lease.Acquire(ctx, lease.File(dir), opts)
}

func handle(g *snowflake.Generator) error {
	id, err := g.NextID()
	if err != nil {
		return err
	}
	fmt.Println("id:    ", id, g.Decode(id))
	return nil
}

// release releases the worker ID. Its context is new, because the program's may be done, and has a
// timeout, because a disk may hang.
func release(l *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		log.Print(err) // the worker ID becomes free when its window ends
		return
	}
	fmt.Println("worker:", l.Err())
}
