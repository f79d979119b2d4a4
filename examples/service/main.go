// The service program is an HTTP service to copy: it gives each order an ID of a leased
// worker ID, and gives the worker ID back when it is told to stop.
//
//	go run . -store file:/var/lib/orders/workers
//	curl -d '{"item":"tea"}' localhost:8080/orders
//
// It answers POST /orders, GET /metrics for Prometheus, GET /readyz (200 if this process
// can issue IDs now and has not been told to stop) and GET /livez (200 if it runs).
//
// On SIGTERM or an interrupt, it first says at /readyz that it is not ready, and goes on
// serving for -drain, until load balancers have noticed. Then it accepts no more
// connections, finishes the requests that have begun, and releases the worker ID, which
// the next process can have at once.
//
// Each flag has an environment variable: -store has STORE, and so on.
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
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parse(os.Args[1:], os.Getenv)
	if err == nil {
		err = run(ctx, c)
	}
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		slog.Error("the service ends", "error", err)
		os.Exit(1)
	}
}

// config is what the flags say.
type config struct {
	addr   string
	store  string
	owner  string
	window time.Duration
	drain  time.Duration
	grace  time.Duration
}

// parse reads the flags. What a flag does not say, its environment variable says.
func parse(args []string, getenv func(string) string) (c config, err error) {
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	flags.StringVar(&c.addr, "addr", ":8080", "address to listen at")
	flags.StringVar(&c.store, "store", "file:workers", "where the worker IDs are: "+strings.Join(stores, ", "))
	flags.StringVar(&c.owner, "owner", "", "who has the worker ID; empty: the host's name, which is a pod's name in Kubernetes")
	flags.DurationVar(&c.window, "window", 30*time.Second, "for how long IDs go on if the store is away")
	flags.DurationVar(&c.drain, "drain", 5*time.Second, "for how long to go on serving after SIGTERM")
	flags.DurationVar(&c.grace, "grace", 15*time.Second, "for how long requests may take to finish after that")
	flags.VisitAll(func(f *flag.Flag) {
		name := strings.ToUpper(f.Name)
		if v := getenv(name); v != "" && err == nil {
			if err = flags.Set(f.Name, v); err != nil {
				err = fmt.Errorf("the environment variable %s=%q: %w", name, v, err)
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
	case c.drain < 0 || c.grace < 0:
		err = fmt.Errorf("-drain %v or -grace %v is negative", c.drain, c.grace)
	}
	return c, err
}

// run serves until ctx is done, and gives the worker ID back.
func run(ctx context.Context, c config) error {
	store, closeStore, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer closeStore()
	l, err := acquire(ctx, store, c)
	if err != nil {
		return err
	}
	defer release(l)
	gen, err := snowflake.NewLeased(l, nil)
	if err != nil {
		return err
	}
	s, err := newService(gen, l)
	if err != nil {
		return err
	}
	return serve(ctx, s, c)
}

// acquire waits for a worker ID for a window and a little at most. Its context bounds that, and not
// the lease.
func acquire(ctx context.Context, store lease.Store, c config) (*lease.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, c.window+10*time.Second)
	defer cancel()
	return lease.Acquire(ctx, store, &lease.Options{Owner: c.owner, Window: c.window})
}

// releaseTime is for how long the store may take to be told that the worker ID is free.
const releaseTime = 5 * time.Second

// release gives the worker ID back, in a context of its own, because the program's is done.
func release(l *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		slog.Error("the worker ID comes free by itself, after a window", "error", err)
	}
}

// serve answers requests until ctx is done, and until those that have begun are finished.
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
