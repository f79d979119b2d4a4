//go:build go1.25

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
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
	remove = func() { os.RemoveAll(dir) }
	dir = filepath.Join(dir, "ids") // File writes beside its directory, too
	// Without this, the first start waits for 3 s, because the directory may be a lost one.
	if err := lease.Init(context.Background(), lease.File(dir), snowflake.Layout{}); err != nil {
		panic(err)
	}
	return dir, remove
}

// The production form, for the processes of one host. With another store it is the same.
func ExampleAcquire() {
	dir, remove := temporary()
	defer remove()

	// Without this, a signal would end the process before Release.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	startCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel() // startCtx bounds the acquisition only
	l, err := lease.Acquire(startCtx, lease.File(dir), &lease.Options{Owner: "orders-1"})
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
	fmt.Println(gen.Decode(id).Worker == l.Worker(), err)
	// Output: true <nil>
}

// With ReuseKeep, an owner gets the same worker ID after each restart.
func ExampleReuse() {
	dir, remove := temporary()
	defer remove()
	ctx := context.Background()

	first := map[string]int{}
	for _, owner := range []string{"orders-0", "orders-1", "orders-0"} {
		l, err := lease.Acquire(ctx, lease.File(dir), &lease.Options{Owner: owner, Reuse: lease.ReuseKeep})
		if err != nil {
			fmt.Println(err)
			return
		}
		gen, err := snowflake.NewLeased(l, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		if worker, again := first[owner]; again {
			fmt.Println(owner, "has the same worker ID again:", worker == gen.Worker())
		}
		first[owner] = gen.Worker()
		if err := l.Release(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output: orders-0 has the same worker ID again: true
}

// With one worker ID there is one leader, and the IDs of the next leader are greater. So an ID of a
// leader is a fencing token: what it writes carries the ID, and the storage refuses a lower one.
func ExampleAcquire_fencingToken() {
	dir, remove := temporary()
	defer remove()
	ctx := context.Background()

	// lead returns the first ID of a leader, which then ends. A leader that was paused instead would
	// wake up with this ID.
	lead := func() (token snowflake.ID, err error) {
		l, err := lease.Acquire(ctx, lease.File(dir), &lease.Options{First: 7, Count: 1})
		if err != nil {
			return 0, err
		}
		defer l.Release(ctx)
		gen, err := snowflake.NewLeased(l, nil)
		if err != nil {
			return 0, err
		}
		return gen.NextID()
	}
	// In SQL: UPDATE job SET state = $1, token = $2 WHERE id = $3 AND token <= $2
	stored := snowflake.ID(0)
	write := func(token snowflake.ID) error {
		if token < stored {
			return errors.New("another leader has written since")
		}
		stored = token
		return nil
	}

	earlier, err := lead()
	if err != nil {
		fmt.Println(err)
		return
	}
	later, err := lead()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(write(earlier), write(later))
	fmt.Println(write(earlier))
	// Output:
	// <nil> <nil>
	// another leader has written since
}

// From an ID to the process that issued it.
func ExampleWhois() {
	dir, remove := temporary()
	defer remove()
	ctx := context.Background()
	store := lease.File(dir)

	l, err := lease.Acquire(ctx, store, &lease.Options{Owner: "orders-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Release(ctx)
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := gen.NextID()
	if err != nil {
		fmt.Println(err)
		return
	}
	issuer, err := lease.Whois(ctx, store, id)
	fmt.Println(issuer.Owner, err)

	// Worker ID 7 was never leased, so this ID is a forgery or comes from elsewhere.
	parts := gen.Decode(id)
	parts.Worker = 7
	strange, err := snowflake.DefaultLayout().Encode(parts)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = lease.Whois(ctx, store, strange)
	fmt.Println(errors.Is(err, lease.ErrNeverIssued))
	// Output:
	// orders-1 <nil>
	// true
}

// With a local copy, an owner starts and goes on while the store is away.
func ExampleOptions_localCopy() {
	dir, remove := temporary()
	defer remove()
	ctx := context.Background()
	shared, away := filepath.Join(dir, "shared"), filepath.Join(dir, "away")
	options := &lease.Options{
		Owner:     "orders-1",
		Reuse:     lease.ReuseKeep, // nobody else gets the worker ID meanwhile
		LocalCopy: filepath.Join(dir, "copy"),
		Logger:    slog.New(slog.DiscardHandler),
	}

	start := func(when string) {
		l, err := lease.Acquire(ctx, lease.File(shared), options)
		if err != nil {
			fmt.Println(err)
			return
		}
		gen, err := snowflake.NewLeased(l, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(when, gen.Worker() >= 0)
		if err := l.Release(ctx); err != nil {
			fmt.Println(err)
		}
	}
	start("the first time:")
	if err := os.Rename(shared, away); err != nil {
		fmt.Println(err)
		return
	}
	start("while the store is away:")
	// Output:
	// the first time: true
	// while the store is away: true
}

// By default a lost worker ID is replaced, and the same generator goes on. A program that
// would rather end sets OnLoss, and waits for Done.
func ExampleOnLoss() {
	dir, remove := temporary()
	defer remove()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	l, err := lease.Acquire(ctx, lease.File(dir), &lease.Options{OnLoss: lease.Stop})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Release(context.Background())
	select {
	case <-l.Done():
		fmt.Println("lost:", l.Err())
	case <-ctx.Done():
		fmt.Println("interrupted")
	}
}
