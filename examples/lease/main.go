// The lease program is the production form: it leases a worker ID from a
// directory, issues IDs until its work is done or it is told to stop, and gives
// the worker ID back.
//
//	go run ./examples/lease /var/lib/orders/workers
//
// Two that run at the same time have two worker IDs. Without an argument the
// directory is a temporary one, which no other process shares.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
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
	if len(args) > 0 {
		return serve(ctx, args[0])
	}
	dir, err := os.MkdirTemp("", "workers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return serve(ctx, dir)
}

func serve(ctx context.Context, dir string) error {
	l, err := lease.Acquire(ctx, lease.File(dir), nil)
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
		select {
		case <-l.Done():
			if ctx.Err() != nil { // told to stop; there are IDs for the rest of the window
				return nil
			}
			return l.Err() // lost, as after a long pause: begin again, with another one
		case <-time.After(10 * time.Millisecond): // a request
		}
		id, err := g.NextID()
		if err != nil {
			return err
		}
		fmt.Println("id:    ", id, g.Decode(id))
	}
	return nil
}

// release gives the worker ID back, in a context of its own: the program's may be
// done, and a disk may hang.
func release(l *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		log.Print(err) // the worker ID comes free by itself
		return
	}
	fmt.Println("worker:", l.Err())
}
