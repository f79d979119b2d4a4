package lease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// temporary returns a directory for an example. A program gives File a path that all
// its processes on this host know, such as /var/lib/myapp/snowflake.
func temporary() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "snowflake")
	if err != nil {
		panic(err)
	}
	return dir, func() { os.RemoveAll(dir) }
}

func ExampleAcquire() {
	dir, remove := temporary()
	defer remove()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel() // ctx bounds the acquisition only
	l, err := lease.Acquire(ctx, lease.File(dir), &lease.Options{Owner: "orders-1"})
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
	id, err := gen.NextID()
	fmt.Println(gen.Decode(id).Worker, err)
	// Output: 0 <nil>
}

// A few worker IDs for many processes: those that come too late are told who has
// them.
func ExampleAcquire_exhausted() {
	dir, remove := temporary()
	defer remove()
	ctx := context.Background()

	for _, window := range []time.Duration{time.Minute, time.Minute, time.Second} {
		l, err := lease.Acquire(ctx, lease.File(dir), &lease.Options{First: 4, Count: 2, Window: window})
		var exhausted *lease.ExhaustedError
		if errors.As(err, &exhausted) {
			fmt.Println("all are held:", len(exhausted.Records))
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		defer l.Release(ctx)
		fmt.Println("worker", l.Worker())
	}
	// Output:
	// worker 4
	// worker 5
	// all are held: 2
}

// An owner that keeps its worker ID has it again after a restart.
func ExampleReuse() {
	dir, remove := temporary()
	defer remove()
	ctx := context.Background()

	for _, owner := range []string{"orders-0", "orders-1", "orders-0"} {
		l, err := lease.Acquire(ctx, lease.File(dir), &lease.Options{Owner: owner, Reuse: lease.ReuseKeep})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(owner, "has", l.Worker())
		if err := l.Release(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// orders-0 has 0
	// orders-1 has 1
	// orders-0 has 0
}

// A call after the release says why it gets no ID.
func ExampleLease_Release() {
	dir, remove := temporary()
	defer remove()
	ctx := context.Background()

	l, err := lease.Acquire(ctx, lease.File(dir), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := l.Release(ctx); err != nil {
		fmt.Println(err)
	}
	_, err = gen.NextID()
	var expired *snowflake.LeaseExpiredError
	if errors.As(err, &expired) {
		fmt.Println(expired.Cause)
	}
	fmt.Println(l.Err())
	// Output:
	// lease: released
	// lease: released
}

// What a service shows of its lease on a status page.
func ExampleLease_Stats() {
	dir, remove := temporary()
	defer remove()
	ctx := context.Background()

	l, err := lease.Acquire(ctx, lease.File(dir), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Release(ctx)
	s := l.Stats()
	fmt.Println("worker:", l.Worker())
	fmt.Println("replaced:", s.Replacements)
	fmt.Println("last error:", s.LastError)
	fmt.Println("IDs after the last renewal:", s.Bound.After(s.Renewed))
	// Output:
	// worker: 0
	// replaced: 0
	// last error: <nil>
	// IDs after the last renewal: true
}
