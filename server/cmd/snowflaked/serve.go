package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/urllease"
	"github.com/seed-5394e6b1/snowflake/server"
	"github.com/seed-5394e6b1/snowflake/server/page"
)

// ballastBytes are allocated and never touched. The garbage collector counts them as memory in use, so it runs once in some
// thousands of requests instead of some hundreds, and GET /id takes a sixth less processor time. In return, up to as
// many bytes of garbage wait for it.
const ballastBytes = 16 << 20

// serve runs the server until ctx is done.
func serve(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	c, err := configure(args, getenv, stdout)
	if err != nil {
		return err
	}
	slog.SetDefault(c.logger(stderr))
	config, err := c.secrets()
	if err != nil {
		return err
	}
	store, closeStore, err := openURL(ctx, c.store)
	if err != nil {
		return err
	}
	defer closeStore()
	listener, err := c.bind()
	if err != nil {
		return err
	}
	defer listener.Close()
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	l, err := acquire(ctx, store, c)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it began
		}
		return err
	}
	defer release(l)
	s, err := c.newServer(l)
	if err != nil {
		return err
	}
	slog.Info("serving", "address", listener.Addr().String(), "worker", l.Worker(), "layout", c.generator.Layout.String(),
		"store", urllease.Redact(c.store), "tls", config != nil, "token", c.tokenFile != "")
	return c.answer(ctx, s, listener, config)
}

// bind listens at the address, and warns if others can use it who may not be meant to.
func (c *config) bind() (net.Listener, error) {
	l, err := net.Listen("tcp", c.listen)
	if err != nil {
		return nil, fmt.Errorf("-listen: %w", err)
	}
	if w := c.warning(l.Addr()); w != "" {
		slog.Warn(w, "address", l.Addr().String())
	}
	return bound(l, c.maxConnections), nil
}

// newServer returns the server of a generator that has the lease.
func (c *config) newServer(l *lease.Lease) (*server.Server, error) {
	gen, err := snowflake.NewLeased(l, &c.generator)
	if err != nil {
		return nil, err
	}
	o := c.server
	o.Lease, o.Home = l, page.Handler()
	if c.accessLog {
		o.AccessLog = slog.Default()
	}
	return server.New(gen, &o)
}

func (c *config) logger(w io.Writer) *slog.Logger {
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// warning returns what an operator may not have meant, or nothing.
func (c *config) warning(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	switch {
	case ok && tcp.IP.IsLoopback(), c.clientCA != "", c.cert != "" && c.tokenFile != "":
		return ""
	case c.cert == "" && c.tokenFile == "":
		return "anybody who reaches this address can take IDs and read the traffic: set -tls-cert and -tls-key, and -token-file or -tls-client-ca"
	case c.cert == "":
		return "the tokens can be read by anybody who sees the traffic: set -tls-cert and -tls-key"
	}
	return "anybody who reaches this address can take IDs: set -token-file or -tls-client-ca"
}

// startTime is for how long a store may be away when the server starts. It is more than a new store
// takes, which is two windows.
const startTime = 5 * time.Minute

func openURL(ctx context.Context, url string) (lease.Store, func() error, error) {
	store, closeStore, err := urllease.Open(ctx, url)
	if u := (*urllease.URLError)(nil); errors.As(err, &u) {
		return nil, nil, refused("-store: %w", err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("-store: %w", err)
	}
	return store, closeStore, nil
}

// acquire makes the store if it is not there, and takes a worker ID. Its context bounds that, and
// not the lease.
func acquire(ctx context.Context, store lease.Store, c *config) (*lease.Lease, error) {
	slog.Info("taking a worker ID: a new store takes two windows, and a store that is away may take longer",
		"store", urllease.Redact(c.store), "give_up_after", startTime)
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := create(ctx, store, c.window); err != nil {
		return nil, fmt.Errorf("-store: %w", err)
	}
	l, err := lease.Acquire(ctx, store, &lease.Options{Layout: c.generator.Layout, Owner: c.owner, Window: c.window})
	if err != nil {
		return nil, fmt.Errorf("-store: %w", err)
	}
	return l, nil
}

// create makes the store if it is not there, and tries again while the store is away, as lease.Acquire does.
func create(ctx context.Context, store lease.Store, window time.Duration) error {
	said := false
	for {
		err := urllease.Create(ctx, store, window)
		if err == nil || ctx.Err() != nil {
			return err
		}
		for _, lasting := range []error{lease.ErrBadRecord, lease.ErrWiped, lease.ErrLayout, lease.ErrInvalidOptions} {
			if errors.Is(err, lasting) {
				return err
			}
		}
		if !said {
			slog.Warn("the store cannot be made yet", "error", err)
		}
		said = true
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

// releaseTime is for how long the store may take to be told that the worker ID is free.
const releaseTime = 5 * time.Second

// release gives the worker ID back, with another context, because the program's is done.
func release(l *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		slog.Error("the worker ID comes free by itself, after a window", "error", err)
	}
}

// drain waits until load balancers have noticed that the server will stop. The tests change it.
var drain = time.Sleep

// answer answers requests until ctx is done, and until the requests that have begun are finished.
func (c *config) answer(ctx context.Context, s *server.Server, listener net.Listener, config *tls.Config) error {
	h := s.HTTPServer("")
	h.ErrorLog = slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn) // failed TLS handshakes, say
	failed := make(chan error, 1)
	go func() {
		if config != nil {
			h.TLSConfig = config
			failed <- h.ServeTLS(listener, "", "")
			return
		}
		failed <- h.Serve(listener)
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	slog.Info("told to stop", "drain", c.drain)
	s.Drain()
	drain(c.drain)
	return shutdown(h, c.grace)
}

// shutdown takes no more connections, and waits for the requests that have begun.
func shutdown(h *http.Server, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		_ = h.Close()
		slog.Warn("requests were cut off", "grace", grace, "error", err)
	}
	return nil
}
