// Package server serves a generator of IDs to other processes, over HTTP and gRPC.
//
//	s, err := server.New(gen, &server.Options{Lease: l})
//	...
//	err = s.HTTPServer("127.0.0.1:8080").ListenAndServe()
//
// One handler speaks gRPC, gRPC-Web, and the Connect protocol (JSON or protobuf by POST), with
// the methods of proto/snowflake/v1/snowflake.proto. Beside them it answers what curl likes:
//
//	GET /id            a new ID
//	GET /ids?n=100     new IDs, one a line
//	GET /decode/ID     the fields of an ID; ?layout=twitter for another layout than the generator's
//	GET /openapi.json  the description of these three
//	GET /healthz       200 if the process runs
//	GET /readyz        200 if an ID could be issued now
//	GET /metrics       metrics for Prometheus
//
// The first three answer in JSON if the header Accept asks for application/json. In JSON
// an ID is a string.
//
// Any number of servers may answer side by side, if each has a generator with its own worker ID: that
// is what a lease is for. They need no word to each other.
//
// # What goes wrong
//
// An error has a code of gRPC, and over HTTP the status that belongs to it:
//
//	invalid_argument    400  the request cannot be answered; the error names the field
//	unauthenticated     401  the token is missing or wrong
//	resource_exhausted  429  too much is in flight; the header Retry-After says when to call again
//	unavailable         503  the lease is away or the clock went back; see Retry-After
//	deadline_exceeded   504  the IDs would come after the deadline
//
// A call that fails may cost IDs: an answer that is lost is never given again. So a client
// may repeat any call, and gets other IDs.
package server

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// Options are the settings of New. The zero value, and nil, consist entirely of defaults.
type Options struct {
	// Lease is the generator's: /readyz and /metrics follow it. nil: the generator has no lease.
	Lease *lease.Lease

	// MaxIDs is how many IDs one call of Batch or GET /ids may ask for. 0: 100,000.
	MaxIDs int

	// MaxStreamIDs is how many IDs one call of Stream may ask for. 0: 10,000,000.
	MaxStreamIDs int

	// MaxStreamTime is for how long a Stream may last. 0: 10 minutes.
	MaxStreamTime time.Duration

	// MaxInFlight bounds what is answered at a time, and so the memory. A request counts 1, and
	// 1 more for each 1,024 IDs that it asks for. A request beyond that is refused
	// with resource_exhausted. 0: 1,024.
	MaxInFlight int

	// Timeout is for how long a call may take, without Stream. A client that does not send its
	// request or read its answer is given up after the same time. 0: 10 seconds.
	Timeout time.Duration

	// Tokens returns the bearer tokens, one of which a request has to carry. It is called for each
	// request, so the tokens may change; let the old one and the new one be good while clients
	// change. An empty token is nobody's. nil: requests need no token. Without one answer only
	// /healthz, /readyz, /openapi.json and Home.
	Tokens func() []string

	// AccessLog is told of each request, but not of /healthz, /readyz and /metrics.
	// nil: there is no log.
	AccessLog *slog.Logger

	// Registry gets the metrics, and /metrics shows it. nil: one of the server's own, with the
	// metrics of the Go runtime and the process.
	Registry *prometheus.Registry

	// Home answers what nothing else does, such as /. nil: not found.
	Home http.Handler
}

// maxBody is how many bytes a request has at most, also after decompression.
const maxBody = 64 << 10

// Server is an http.Handler.
type Server struct {
	gen      *snowflake.Generator
	o        Options
	mux      *http.ServeMux
	errors   *connect.ErrorWriter
	load     load
	draining atomic.Bool
	observer observer
}

// New returns a handler that serves gen. An option that is negative gives an error that matches
// snowflake.ErrInvalidOptions and names the option; another error means that Registry refused the
// metrics.
func New(gen *snowflake.Generator, opts *Options) (*Server, error) {
	if gen == nil {
		return nil, fmt.Errorf("server: %w: the generator is nil", snowflake.ErrInvalidOptions)
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{gen: gen, o: o, mux: http.NewServeMux(), load: load{max: int64(o.MaxInFlight)}}
	if s.observer, err = newObserver(gen, o, &s.load); err != nil {
		return nil, err
	}
	// To compress IDs costs far more than to send them.
	rpc := []connect.HandlerOption{connect.WithReadMaxBytes(maxBody), connect.WithCompressMinBytes(math.MaxInt)}
	s.errors = connect.NewErrorWriter(rpc...)
	s.route(rpc)
	return s, nil
}

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	for _, n := range []struct {
		name  string
		value *int
		def   int
	}{
		{"MaxIDs", &d.MaxIDs, 100_000},
		{"MaxStreamIDs", &d.MaxStreamIDs, 10_000_000},
		{"MaxInFlight", &d.MaxInFlight, 1024},
	} {
		if *n.value < 0 {
			return d, fmt.Errorf("server: %w: %s %d is negative", snowflake.ErrInvalidOptions, n.name, *n.value)
		}
		if *n.value == 0 {
			*n.value = n.def
		}
	}
	for _, t := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"MaxStreamTime", &d.MaxStreamTime, 10 * time.Minute},
		{"Timeout", &d.Timeout, 10 * time.Second},
	} {
		if *t.value < 0 {
			return d, fmt.Errorf("server: %w: %s %v is negative", snowflake.ErrInvalidOptions, t.name, *t.value)
		}
		if *t.value == 0 {
			*t.value = t.def
		}
	}
	if most := 1 + weight(int64(d.MaxIDs)); int64(d.MaxInFlight) < most {
		return d, fmt.Errorf("server: %w: MaxInFlight %d has no room for one call of MaxIDs %d, which counts %d",
			snowflake.ErrInvalidOptions, d.MaxInFlight, d.MaxIDs, most)
	}
	return d, nil
}

// route says who answers what.
func (s *Server) route(rpc []connect.HandlerOption) {
	path, calls := snowflakev1connect.NewSnowflakeServiceHandler(service{s}, rpc...)
	s.mux.Handle(path, s.guard(calls))
	s.mux.Handle("GET /id", s.guard(answer(s.getID)))
	s.mux.Handle("GET /ids", s.guard(answer(s.getIDs)))
	s.mux.Handle("GET /decode/{id...}", s.guard(answer(s.getDecode)))
	s.mux.HandleFunc("GET /openapi.json", getOpenAPI)
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s.mux.HandleFunc("GET /readyz", s.getReady)
	s.mux.Handle("GET /metrics", s.authorized(s.observer.handler))
	for _, path := range []string{"/id", "/ids", "/decode/{id...}", "/openapi.json", "/healthz", "/readyz", "/metrics"} {
		s.mux.HandleFunc(path, onlyGet) // or Home would say that there is no such path
	}
	if s.o.Home != nil {
		s.mux.Handle("/", s.o.Home)
	}
}

func onlyGet(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "the method is "+r.Method+": want GET", http.StatusMethodNotAllowed)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{deadline: deadline{Context: r.Context()}, begun: time.Now(), load: &s.load, seen: recorder{ResponseWriter: w}}
	defer q.end()
	r = r.WithContext(q)
	if r.Body != http.NoBody {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	}
	if s.draining.Load() && r.ProtoMajor == 1 { // so that no connection is idle when the server closes idle ones
		w.Header().Set("Connection", "close")
	}
	s.mux.ServeHTTP(&q.seen, r)
	s.observer.observe(r, q)
}

// guard lets a request pass that has the token and for which there is room, until its time is up.
func (s *Server) guard(next http.Handler) http.Handler {
	return s.authorized(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := of(r.Context())
		if err := q.take(1); err != nil {
			s.refuse(w, r, err)
			return
		}
		limit := s.o.Timeout
		if r.URL.Path == snowflakev1connect.SnowflakeServiceStreamProcedure {
			limit = s.o.MaxStreamTime
		}
		q.limit(q.begun.Add(limit))
		next.ServeHTTP(w, r)
	}))
}

// refuse writes an error in the protocol of the request.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if strings.HasPrefix(r.URL.Path, "/"+snowflakev1connect.SnowflakeServiceName+"/") && s.errors.IsSupported(r) {
		_ = s.errors.Write(w, r, fail(r.Context(), err)) // it fails if the client is gone
		return
	}
	writeError(w, r, err)
}

// Drain makes /readyz answer that the server is not ready, ends streams, and closes the
// connections of HTTP/1 after their next answer. Everything else is answered as before. Call it before
// http.Server.Shutdown, and leave load balancers the time to notice.
func (s *Server) Drain() { s.draining.Store(true) }

// HTTPServer returns a server for the handler that gives up slow clients, and speaks
// HTTP/1.1 and HTTP/2, also without TLS.
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
		ReadTimeout:       s.o.Timeout,
		WriteTimeout:      2 * s.o.Timeout, // the call's own time, and the writing's
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			SendPingTimeout:      30 * time.Second,
			PingTimeout:          15 * time.Second,
			WriteByteTimeout:     s.o.Timeout,
		},
	}
}
