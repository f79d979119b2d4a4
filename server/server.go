// Package server serves the IDs of a generator to other processes, over HTTP and gRPC.
//
//	s, err := server.New(gen, &server.Options{Lease: l})
//	...
//	err = s.HTTPServer("127.0.0.1:8080").ListenAndServe()
//
// One handler serves gRPC, gRPC-Web, and the Connect protocol (JSON or protobuf by POST), with the
// methods of proto/snowflake/v1/snowflake.proto. It also answers plain HTTP requests:
//
//	GET /id            a new ID
//	GET /ids?n=100     new IDs
//	GET /decode/ID     the fields of an ID; ?layout=twitter if the layout is not the generator's
//	POST /identify     the likely layouts of the IDs in the body, one a line
//	GET /watermark     an ID below every ID issued from now on: see Options.Watermark
//	GET /openapi.json  the description of these five
//	GET /healthz       200 if the process runs
//	GET /readyz        200 if an ID could be issued now
//	GET /metrics       metrics for Prometheus
//
// For gRPC, it has the services grpc.health.v1.Health, whose answer is that of /readyz, and
// reflection.
//
// The first five answer in JSON, with IDs as strings, because JavaScript and many JSON parsers
// round numbers above 2^53. If the header Accept prefers text/plain, they answer in text, with one
// ID a line. They refuse unknown parameters.
//
// Any number of servers may run at the same time if each has a generator with its own worker ID,
// which a lease assigns. The servers do not communicate.
//
// # Errors
//
// An error has a gRPC code and, over HTTP, the corresponding status. In JSON it is an object with
// code, message and, if a field is invalid, field; in text it is the message.
//
//	invalid_argument    400  a field of the request is invalid (1)
//	                    413  the request has over 64 KiB (in gRPC: resource_exhausted)
//	                    415  the Content-Type is not one of the method's
//	deadline_exceeded   408  the IDs of POST /identify did not arrive in time
//	not_found           404  there is no such path
//	unimplemented       405  the path has other methods
//	permission_denied   421  the header Host does not name the server: see Options.Hosts
//	unauthenticated     401  no valid token: send "Authorization: Bearer TOKEN"
//	resource_exhausted  429  too much is in flight: retry after Retry-After, or ask for fewer IDs
//	unimplemented       501  the server has no Options.Watermark
//	                    505  gRPC's reflection needs HTTP/2
//	unavailable         503  no ID or watermark now (2): retry after Retry-After, or elsewhere
//	deadline_exceeded   504  the IDs would be too late: wait longer, or ask for fewer IDs
//	failed_precondition 500  the layout's time has run out (in Connect: 400)
//	internal            500  the server has failed: its log has the reason
//
//	(1) The error names the field, in gRPC with a BadRequest. If a number is too large, there is
//	    also an ErrorInfo with the reason TOO_MANY and the maximum as max.
//	(2) The server waits for its generator, the lease has expired, the clock went back, or the
//	    watermark cannot be read.
//
// If a reply is lost, its IDs are not issued again: a client may repeat any call, and gets other
// IDs.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// Options holds the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	// Lease is the generator's lease, for /readyz and /metrics, or nil.
	Lease *lease.Lease

	// WaitsFor describes, until Begin, what the server waits for if New gets no generator. Clients
	// of /readyz see it, so it must not name users, databases or hosts.
	WaitsFor func() string

	// Watermark reads the watermark of the generator's store, as the method Read of a
	// lease.WatermarkReader does. It is called for Server.Watermark, GET /watermark and the method
	// Watermark, at most once a second. If a holder keeps the watermark back, clients see the holder's
	// owner and host. For a minute after a call, a metric has the watermark's age, and answers have
	// the header Snowflake-Watermark. If Watermark is nil, the server has no watermark.
	//
	// HAZARD: a client of the server has no Lease.Hold, so the watermark may pass IDs that the
	// client has not stored yet. Store them under the fence of docs/watermark.md.
	Watermark func(context.Context) (lease.Mark, error)

	// MaxIDs is the maximum number of IDs in a call of Batch or GET /ids. The default is 100,000.
	MaxIDs int

	// MaxStreamTime is the maximum duration of a Stream. The default is 10 minutes.
	MaxStreamTime time.Duration

	// MaxInFlight limits the concurrent requests, and so the memory. A request counts 1, and 1 more
	// for each 1,024 IDs that it asks for, or each KiB of IDs to identify, up to an eighth of the
	// client's limit. Requests over the limit are refused with resource_exhausted. The default is
	// 1,024.
	MaxInFlight int

	// MaxPerClient is the part of MaxInFlight that one client may use: an IPv4 address or a /64
	// network of IPv6. Requests over the limit are refused with resource_exhausted. Behind a proxy,
	// all requests can come from one address: then set it to MaxInFlight, and let the proxy limit
	// each client. The default is half of MaxInFlight, or more if one call of MaxIDs needs more.
	MaxPerClient int

	// Timeout is the maximum duration of a call, except Stream, from reading its request to writing
	// its answer. The default is 10 seconds.
	Timeout time.Duration

	// Tokens returns the valid bearer tokens. It is called for each request, so the tokens may change:
	// while clients change to a new token, return both. Requests to /healthz, /readyz, /openapi.json,
	// grpc.health.v1.Health and Home need no token. If Tokens is nil, no request does.
	Tokens func() []Token

	// Hosts are the names of the server that are allowed in the header Host, in addition to
	// localhost and the loopback addresses. A request with another name is refused with status 421:
	// it may come from a page of another site, whose name was made to resolve to this host (DNS
	// rebinding). If Hosts is nil, all names are allowed.
	Hosts []string

	// Logger receives the reason why no ID could be issued, at most once in ten seconds: answers
	// omit errors that may name users, databases or hosts. The default is slog.Default().
	Logger *slog.Logger

	// AccessLog receives a message for each request, except for /metrics and probes: /healthz,
	// /readyz and grpc.health.v1.Health. If it is nil, there is no access log.
	AccessLog *slog.Logger

	// Registry receives the metrics, and is what /metrics serves. The default is a new one, with
	// the metrics of the Go runtime and the process.
	Registry *prometheus.Registry

	// Fleet, if not empty, is a label of the metrics of the generator and its lease. Fleets of one
	// job that have different stores need different names, or the alert on shared worker IDs fires.
	Fleet string

	// Home serves all other paths, such as /. If it is nil, they are not found.
	Home http.Handler
}

// Server is an http.Handler.
type Server struct {
	issuer   atomic.Pointer[issuer] // nil before Begin
	begun    time.Time
	o        Options
	handler  http.Handler
	load     load
	drained  context.Context // ends when Drain is called
	drain    context.CancelFunc
	observer *observer
	quotas   quotas
	mark     *watermark
	open     atomic.Int64 // connections
}

// issuer is a generator and its lease.
type issuer struct {
	gen   *snowflake.Generator
	lease *lease.Lease // or nil
}

// New returns a server of gen. If gen is nil and Options.WaitsFor is not, the server waits for
// Begin: it answers probes and metrics, and refuses requests that need a generator with
// unavailable. If an option is out of range, the error matches snowflake.ErrInvalidOptions and
// names the option; other errors are those of Registry, which refused the metrics.
func New(gen *snowflake.Generator, opts *Options) (*Server, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if gen == nil && o.WaitsFor == nil {
		return nil, fmt.Errorf("server: %w: the generator is nil", snowflake.ErrInvalidOptions)
	}
	s := &Server{begun: time.Now(), o: o, mark: newWatermark(), quotas: quotas{of: map[string]*rate.Limiter{}},
		load: load{max: int64(o.MaxInFlight), share: int64(o.MaxPerClient), of: map[string]int64{}}}
	s.drained, s.drain = context.WithCancel(context.Background())
	if s.observer, err = newObserver(o, s.gauges()...); err != nil {
		return nil, err
	}
	if gen != nil {
		if err := s.Begin(gen, o.Lease); err != nil {
			return nil, err
		}
	}
	s.handler = s.outside(calledBy(o.Hosts, s.routes()))
	return s, nil
}

// Begin gives gen, and its lease l or nil, to a server that was made without a generator. Call it
// once. It returns an error if Registry refused the metrics.
func (s *Server) Begin(gen *snowflake.Generator, l *lease.Lease) error {
	if err := s.observer.follow(gen, l, s.o.Fleet); err != nil {
		return err
	}
	s.issuer.Store(&issuer{gen, l})
	return nil
}

// issues returns the generator and its lease, or an error with what the server waits for.
func (s *Server) issues() (*issuer, error) {
	if i := s.issuer.Load(); i != nil {
		return i, nil
	}
	return nil, failed(connect.CodeUnavailable, "the server waits for a worker ID, for %v so far: %s", time.Since(s.begun).Round(time.Second), s.o.WaitsFor())
}

func (o *Options) withDefaults() (Options, error) {
	d := *cmp.Or(o, new(Options))
	d.Logger = cmp.Or(d.Logger, slog.Default())
	if err := errors.Join(
		orDefault("MaxIDs", &d.MaxIDs, 100_000),
		orDefault("MaxInFlight", &d.MaxInFlight, 1024),
		orDefault("MaxPerClient", &d.MaxPerClient, 0),
		orDefault("MaxStreamTime", &d.MaxStreamTime, 10*time.Minute),
		orDefault("Timeout", &d.Timeout, 10*time.Second),
	); err != nil {
		return d, err
	}
	most := 1 + int(weight(int64(d.MaxIDs)))
	if d.MaxPerClient == 0 {
		d.MaxPerClient = max(d.MaxInFlight/2, most)
	}
	if room := min(d.MaxInFlight, d.MaxPerClient); room < most {
		return d, fmt.Errorf("server: %w: MaxInFlight %d or MaxPerClient %d has no room for one call of MaxIDs %d, which counts %d",
			snowflake.ErrInvalidOptions, d.MaxInFlight, d.MaxPerClient, d.MaxIDs, most)
	}
	return d, nil
}

// orDefault sets an option that is 0 to its default. It returns an error if the option is negative.
func orDefault[T int | time.Duration](name string, value *T, def T) error {
	if *value < 0 {
		return fmt.Errorf("server: %w: %s %v is negative", snowflake.ErrInvalidOptions, name, *value)
	}
	*value = cmp.Or(*value, def)
	return nil
}

// outside returns a handler with the middleware for all requests.
func (s *Server) outside(next http.Handler) http.Handler {
	return bounded(s.closing(s.observer.observed(rewriteErrors(next))))
}

// guarded refuses requests without a valid token, or over the limits.
func (s *Server) guarded(limit time.Duration, next http.Handler) http.Handler {
	return within(limit, authorized(s.o.Tokens, s.quotas.charged(s.load.limited(s.mark.shownIn(next)))))
}

// routes returns the handlers of all paths.
func (s *Server) routes() http.Handler {
	// Compressing IDs costs far more than sending them.
	rpc := []connect.HandlerOption{connect.WithReadMaxBytes(maxBody), connect.WithCompressMinBytes(math.MaxInt),
		connect.WithCodec(plainJSON{"json"}), connect.WithCodec(plainJSON{"json; charset=utf-8"})}
	mux := http.NewServeMux()
	guarded := func(pattern string, h http.Handler) { mux.Handle(pattern, s.guarded(s.timeToAnswer(), h)) }
	path, calls := snowflakev1connect.NewSnowflakeServiceHandler(service{s}, append(rpc, connect.WithInterceptors(answering{}))...)
	guarded(path, calls)
	mux.Handle(snowflakev1connect.SnowflakeServiceStreamProcedure, s.guarded(s.o.MaxStreamTime, paced(s.o.Timeout, calls)))
	reflection(guarded, rpc, snowflakev1connect.SnowflakeServiceName, grpchealth.HealthV1ServiceName)
	guarded("GET /id", get(s.getID))
	guarded("GET /ids", get(s.getIDs, "n"))
	guarded("GET /decode/{id...}", get(s.getDecode, "layout"))
	guarded("POST /identify", get(s.identify))
	guarded("GET /watermark", get(s.getWatermark))
	mux.HandleFunc("GET /openapi.json", getOpenAPI)
	s.probes(mux, rpc)
	mux.Handle("GET /metrics", authorized(s.o.Tokens, s.observer.handler))
	mux.HandleFunc("/identify", only("POST"))
	for _, path := range []string{"/id", "/ids", "/decode/{id...}", "/watermark", "/openapi.json", "/healthz", "/readyz", "/metrics"} {
		mux.HandleFunc(path, only("GET, HEAD")) // otherwise Home would answer 404
	}
	if s.o.Home != nil {
		mux.Handle("/", s.o.Home)
	}
	return mux
}

// reflection adds gRPC's reflection of the services.
func reflection(handle func(pattern string, h http.Handler), rpc []connect.HandlerOption, services ...string) {
	reflector := grpcreflect.NewStaticReflector(services...)
	handle(grpcreflect.NewHandlerV1(reflector, rpc...))
	handle(grpcreflect.NewHandlerV1Alpha(reflector, rpc...))
}

// probes adds the handlers for liveness and readiness.
func (s *Server) probes(mux *http.ServeMux, rpc []connect.HandlerOption) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", within(s.timeToAnswer(), http.HandlerFunc(s.getReady)))
	path, health := grpchealth.NewHandler(checker{s}, rpc...)
	mux.Handle(path, within(s.timeToAnswer(), health))
}

// Registry returns the registry that /metrics serves. You may add metrics.
func (s *Server) Registry() *prometheus.Registry { return s.observer.registry }

// Admin returns a handler of /healthz, /readyz, /metrics, grpc.health.v1.Health and reflection,
// without tokens. Serve it at another address, so that probes are answered even if clients use all
// connections of the first.
func (s *Server) Admin() http.Handler {
	mux := http.NewServeMux()
	s.probes(mux, nil)
	reflection(mux.Handle, nil, grpchealth.HealthV1ServiceName)
	mux.Handle("GET /metrics", s.observer.handler)
	return s.outside(mux)
}

// only returns a handler that refuses requests with a method other than these.
func only(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", methods)
		w.WriteHeader(http.StatusMethodNotAllowed) // rewriteErrors writes the rest
	}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// closing ends connections with their next answer while the server drains. Shutdown alone would
// close idle connections at once, although a request may be arriving on them.
func (s *Server) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.drained.Err() != nil && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// timeToAnswer returns the part of Timeout that a call may use. The rest is for writing a refusal.
func (s *Server) timeToAnswer() time.Duration { return s.o.Timeout - s.o.Timeout/20 }

// Drain makes /readyz answer that the server is not ready, ends streams, and closes connections of
// HTTP/1 after their next answer. Other requests are answered as usual. Call Drain early enough
// before http.Server.Shutdown for load balancers to notice.
func (s *Server) Drain() { s.drain() }

func (s *Server) countConnections(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

// HTTPServer returns an http.Server for s with time limits for slow clients, and with HTTP/1.1 and
// HTTP/2, even without TLS.
func (s *Server) HTTPServer(addr string) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Addr:              addr,
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: min(5*time.Second, s.o.Timeout),
		ReadTimeout:       s.timeToAnswer(),
		WriteTimeout:      s.o.Timeout,
		IdleTimeout:       2 * time.Minute,
		ConnState:         s.countConnections,
		MaxHeaderBytes:    16 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			SendPingTimeout:      30 * time.Second,
			PingTimeout:          15 * time.Second,
			WriteByteTimeout:     s.o.Timeout,
		},
	}
}
