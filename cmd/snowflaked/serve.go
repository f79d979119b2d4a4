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
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflaked/internal/stores"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server"
	"github.com/seed-5394e6b1/snowflake/server/page"
)

// gcPercent makes the garbage collector run once in some thousands of requests instead of some
// hundreds, so that GET /id takes less processor time. In return, there may be four times as much
// garbage as memory in use. The environment variable GOGC overrides it.
const gcPercent = 400

// serve runs the server until ctx is done.
func (p *program) serve(ctx context.Context, c *config) error {
	setLogger(c.logger(p.Err))
	err := c.run(ctx)
	if err != nil && c.logFormat == "json" {
		slog.Error("the server ends", "error", err)
		return command.Said(err)
	}
	return err
}

func (c *config) run(ctx context.Context) error {
	files, err := c.secrets(ctx)
	if err != nil {
		return err
	}
	if err := stores.Check(c.store); err != nil {
		return command.Refused("--store: %w", err)
	}
	listener, err := c.bind()
	if err != nil {
		return err
	}
	defer listener.Close()
	var admin net.Listener // nil without --admin
	if c.admin != "" {
		if admin, err = listen("admin", c.admin); err != nil {
			return err
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	w := new(waiting)
	var marks *lease.WatermarkReader // set before the server begins to issue IDs
	s, err := c.newServer(w.text, func(ctx context.Context) (lease.Mark, error) { return marks.Read(ctx) })
	if err != nil {
		return err
	}
	s.Registry().MustRegister(files.metrics...)
	if admin != nil {
		defer serveAdmin(s, admin).Close()
		slog.Info("probes are answered", "address", admin.Addr().String())
	}
	h, failed := serveMain(s, listener, files.tls)
	defer h.Close()
	slog.Info("taking a worker ID: if the store is away, or has no entries, it takes minutes; /readyz says what it waits for",
		"store", shown(c.store), "giveUpAfter", startTime, "address", listener.Addr().String())
	got, err := c.acquireUnless(ctx, failed, w)
	if err != nil {
		if ctx.Err() != nil {
			return nil // a signal, before there was a worker ID
		}
		return err
	}
	w.over.Store(true)
	marks = lease.NewWatermarkReader(got.store)
	defer func() { _ = got.closeStore() }()
	defer release(got.lease)
	gen, err := snowflake.NewLeased(got.lease, &c.generator)
	if err != nil {
		return err
	}
	if err := s.Begin(gen, got.lease); err != nil {
		return err
	}
	countWorkers(ctx, got.store, c.generator.Layout, s.Registry())
	if c.watermark > 0 { // the server logs errors, and holders that keep the watermark back
		go repeat(ctx, c.watermark, func() { _, _ = s.Watermark(ctx) })
	}
	slog.Info("serving", "version", command.Version(), "address", listener.Addr().String(),
		"worker", got.lease.Worker(), "layout", c.generator.Layout.String(),
		"store", shown(c.store), "tls", files.tls != nil, "token", c.tokenFile != "")
	notify("READY=1\nSTATUS=issues IDs")
	defer notify("STOPPING=1")
	return c.answer(ctx, s, h, failed)
}

// serveAdmin answers probes until it is closed.
func serveAdmin(s *server.Server, l net.Listener) io.Closer {
	h := s.HTTPServer("")
	h.Handler, h.ConnState = s.Admin(), nil
	go func() {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("probes are no longer answered", "error", err)
		}
	}()
	return h
}

// serveMain answers requests until h is closed. If serving fails, it sends the error to failed.
func serveMain(s *server.Server, l net.Listener, config *tls.Config) (h *http.Server, failed <-chan error) {
	h = s.HTTPServer("")
	h.ErrorLog = slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn) // of TLS handshakes
	end := make(chan error, 1)
	go func() {
		if config != nil {
			h.TLSConfig = config
			end <- h.ServeTLS(l, "", "")
			return
		}
		end <- h.Serve(l)
	}()
	return h, end
}

// listen listens at the address of a flag.
func listen(flag, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return l, nil
}

// leftOver is the number of open files reserved for the store, the secrets and the program itself.
const leftOver = 50

// bind listens on the address, and warns if clients of other hosts can use it without TLS or
// without a token. A connection over the limit waits until another one closes, so idle clients
// cannot use up the memory, or the files that the store needs.
func (c *config) bind() (net.Listener, error) {
	l, err := listen("listen", c.listen)
	if err != nil {
		return nil, err
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		c.server.Hosts = strings.Split(c.hosts, ",")
	}
	if w := c.warning(l.Addr()); w != "" {
		slog.Warn(w, "address", l.Addr().String())
	}
	return netutil.LimitListener(l, max(1, min(c.maxConnections, mostFiles()-leftOver))), nil
}

// newServer returns a server. Its generator is set later, when there is a worker ID.
func (c *config) newServer(waitsFor func() string, watermark func(context.Context) (lease.Mark, error)) (*server.Server, error) {
	o := c.server
	o.WaitsFor, o.Watermark = waitsFor, watermark
	o.Home = page.Handler(c.generator.Layout, &page.Options{NeedsToken: o.Tokens != nil})
	if c.accessLog {
		o.AccessLog = slog.Default()
	}
	return server.New(nil, &o)
}

// readable writes durations as texts. slog's JSON would have nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.String())
	}
	return a
}

func (c *config) logger(w io.Writer) *slog.Logger {
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: readable}))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// warning returns a warning if clients of other hosts can use the address without TLS or without a
// token, and otherwise "".
func (c *config) warning(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	switch {
	case ok && tcp.IP.IsLoopback(), c.clientCA != "", c.cert != "" && c.tokenFile != "":
		return ""
	case c.cert == "" && c.tokenFile == "":
		return "anybody who reaches this address can take IDs and read the traffic: " +
			"set --tls-cert and --tls-key, and --token-file or --tls-client-ca"
	case c.cert == "":
		return "the tokens can be read by anybody who sees the traffic: set --tls-cert and --tls-key"
	}
	return "anybody who reaches this address can take IDs: set --token-file or --tls-client-ca"
}

// startTime bounds the wait for a worker ID. It is longer than the wait for a store that has lost
// its entries.
const startTime = lease.MaxWindow + 3*time.Minute

// releaseTime bounds the release of the worker ID.
const releaseTime = 5 * time.Second

// release releases the worker ID. The program's context is done, so it has a context of its own.
func release(l *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := l.Release(ctx); err != nil {
		slog.Error("the worker ID was not released: it becomes free after a window", "error", err)
	}
}

// drain waits while load balancers notice that the server will stop. The tests change it.
var drain = time.Sleep

// answer serves until ctx is done, and then finishes the requests that have begun.
func (c *config) answer(ctx context.Context, s *server.Server, h *http.Server, failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	slog.Info("stopping", "drain", c.drain)
	s.Drain()
	drain(c.drain)
	return shutdown(h, c.grace)
}

// shutdown closes the listeners, and waits for the requests that have begun, for grace at most.
func shutdown(h *http.Server, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		_ = h.Close()
		slog.Warn("requests were cut off", "grace", grace, "error", err)
	}
	return nil
}
