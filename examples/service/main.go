// The service program is an HTTP service to copy. It gives each order an ID, under a leased worker
// ID, and inserts it in the table orders. When it is told to stop, it releases the worker ID.
//
//	go run . -new-store -store postgres://app@localhost/app     # on a laptop
//	curl -d '{"item":"tea"}' localhost:8080/orders
//
// It answers POST /orders, GET /metrics for Prometheus, GET /readyz (200 if this process
// can issue IDs now and has not been told to stop) and GET /livez (200 if it runs).
//
// On SIGTERM or an interrupt, /readyz reports that it is not ready. It continues to serve for
// -drain, while load balancers notice. Then it accepts no more connections, finishes the requests
// that have begun, and releases the worker ID, so that the next process can acquire it at once. A
// second interrupt ends the program at once, and the worker ID becomes free a window later.
//
// To make it yours, copy main.go, service.go and store.go into your module, and run go mod tidy.
// Only store.go depends on the database, which is PostgreSQL. For another database, write its
// openStore and openOrders. Each command of a program that writes rows, such as an import or a job,
// needs a lease as this one does. For a fleet on Kubernetes, store_kubernetes.go replaces store.go:
// go build -tags kubernetes.
//
// Each flag has an environment variable: -store has STORE, and so on. If both are set, the flag
// applies.
//
// If the store has no entries, they may have been lost, so the first process of a fleet waits for
// three minutes. It does not listen during that time. With -new-store it does not wait; never
// deploy a program with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: readable})))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	c, err := parse(os.Args[1:], os.Getenv)
	if err == nil {
		err = run(ctx, c)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		slog.Info("told to stop before it served", "while", err)
	case err != nil:
		slog.Error("the service ends", "error", err)
		os.Exit(1)
	}
}

// readable makes the log show durations as 1.5s, not as nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// config has the values of the flags.
type config struct {
	addr     string
	store    string
	newStore bool
	owner    string
	window   time.Duration
	drain    time.Duration
	grace    time.Duration
}

// parse reads the flags. If a flag is not set, it reads the flag's environment variable.
func parse(args []string, getenv func(string) string) (c config, err error) {
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	flags.StringVar(&c.addr, "addr", ":8080", "address to listen on")
	flags.StringVar(&c.store, "store", "", "store of worker IDs: "+storeUsage)
	flags.BoolVar(&c.newStore, "new-store", false, "the store was never used: do not wait; not for production")
	flags.StringVar(&c.owner, "owner", "", "the name of the worker ID's holder; empty: the host's name, which is a pod's name in Kubernetes")
	flags.DurationVar(&c.window, "window", 0, "how long IDs continue during an outage of the store; 0: the store's own window")
	flags.DurationVar(&c.drain, "drain", 5*time.Second, "how long to continue serving after SIGTERM")
	flags.DurationVar(&c.grace, "grace", 15*time.Second, "how long requests may take to finish after that")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Each flag has an environment variable: -store has STORE, and so on.")
		flags.PrintDefaults()
	}
	flags.VisitAll(func(f *flag.Flag) {
		name := strings.ReplaceAll(strings.ToUpper(f.Name), "-", "_")
		if v := getenv(name); v != "" && err == nil {
			if err = flags.Set(f.Name, v); err != nil {
				wanted := "a duration such as 30s"
				if f.Name == "new-store" {
					wanted = "true or false"
				}
				err = fmt.Errorf("the environment variable %s=%q is not %s: %w", name, v, wanted, err)
			}
		}
	})
	if err == nil {
		err = flags.Parse(args)
	}
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is not a flag", flags.Arg(0))
	case c.window < 0 || c.drain < 0 || c.grace < 0:
		err = fmt.Errorf("-window %v, -drain %v or -grace %v is negative", c.window, c.drain, c.grace)
	}
	return c, err
}

// run serves until ctx is done, and releases the worker ID.
func run(ctx context.Context, c config) error {
	store, closeStore, err := openStore(c.store)
	if err != nil {
		return err
	}
	defer closeStore()
	l, err := acquire(ctx, store, c)
	if err != nil {
		return fmt.Errorf("the store: %w", err)
	}
	defer release(l)
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		return err
	}
	save, closeOrders, err := openOrders(ctx, c.store)
	if err != nil {
		return err
	}
	defer closeOrders()
	s, err := newService(gen, l, save)
	if err != nil {
		return err
	}
	return serve(ctx, s, c)
}

// startTime bounds a start. It is longer than the wait for a store without entries, which may have
// been lost.
const startTime = lease.MaxWindow + 2*time.Minute

// acquire acquires a worker ID. Its context bounds the acquisition, but not the lease.
func acquire(ctx context.Context, store lease.Store, c config) (*lease.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return lease.Acquire(ctx, store, &lease.Options{Owner: c.owner, Window: c.window, NewStore: c.newStore})
}

// releaseTime bounds the release.
const releaseTime = 5 * time.Second

// release releases the worker ID. It needs a new context, because the program's context is done.
func release(l *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		slog.Error("the worker ID was not released, and becomes free after a window", "error", err)
	}
}

// serve answers requests until ctx is done. Then it finishes the requests that have begun.
func serve(ctx context.Context, s *service, c config) error {
	listener, err := net.Listen("tcp", c.addr)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	slog.Info("serving", "addr", listener.Addr().String(), "worker", s.gen.Worker())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	slog.Info("told to stop", "drain", c.drain)
	s.draining.Store(true)
	time.Sleep(c.drain)
	patient, cancel := context.WithTimeout(context.Background(), c.grace)
	defer cancel()
	if err := server.Shutdown(patient); err != nil {
		server.Close()
		return fmt.Errorf("requests were not finished after %v: %w", c.grace, err)
	}
	return nil
}
