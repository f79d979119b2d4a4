package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/grpchealth"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/metrics"
	pb "github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// observer counts and logs requests.
type observer struct {
	log       *slog.Logger    // of failures
	sometimes *rate.Sometimes // limits log
	access    *slog.Logger    // or nil
	durations *prometheus.HistogramVec
	clients   *prometheus.CounterVec
	registry  *prometheus.Registry
	handler   http.Handler // of /metrics
}

// newObserver registers the server's metrics, and the gauges.
func newObserver(o Options, gauges ...prometheus.Collector) (*observer, error) {
	registry := o.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
			collectors.NewBuildInfoCollector())
	}
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "snowflake_server_request_duration_seconds",
		Help:    "Duration of requests, by method and code.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"method", "code"})
	clients := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "snowflake_server_client_requests_total",
		Help: "Requests with a token that has a name, by the name and the code.",
	}, []string{"client", "code"})
	for _, c := range append(gauges, durations, clients) {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("server: metrics: %w", err)
		}
	}
	return &observer{
		log: o.Logger, sometimes: &rate.Sometimes{Interval: 10 * time.Second}, access: o.AccessLog,
		durations: durations, clients: clients, registry: registry, handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}, nil
}

// gauges returns the metrics of the server's state.
func (s *Server) gauges() []prometheus.Collector {
	gauge := prometheus.NewGaugeFunc
	return []prometheus.Collector{
		s.mark,
		gauge(prometheus.GaugeOpts{
			Name: "snowflake_server_in_flight",
			Help: "Load in flight: 1 for a request, and 1 more for each 1,024 IDs of its answer or KiB of IDs to identify.",
		}, s.load.inFlight),
		gauge(prometheus.GaugeOpts{
			Name: "snowflake_server_in_flight_limit",
			Help: "Limit of the load in flight.",
		}, func() float64 { return float64(s.load.max) }),
		gauge(prometheus.GaugeOpts{
			Name: "snowflake_server_connections",
			Help: "Open connections.",
		}, func() float64 { return float64(s.open.Load()) }),
		gauge(prometheus.GaugeOpts{
			Name: "snowflake_server_waiting_seconds",
			Help: "Time that the server has waited for a worker ID since its start; 0 if it has one.",
		}, func() float64 {
			if s.issuer.Load() != nil {
				return 0
			}
			return time.Since(s.begun).Seconds()
		}),
	}
}

// follow registers the metrics of a generator and its lease.
func (o *observer) follow(gen *snowflake.Generator, l *lease.Lease, fleet string) error {
	labels := prometheus.Labels{}
	if fleet != "" {
		labels["fleet"] = fleet
	}
	ids, err := metrics.New(gen, &metrics.Options{Lease: l, Labels: labels})
	if err == nil {
		err = o.registry.Register(ids)
	}
	if err != nil {
		return fmt.Errorf("server: metrics: %w", err)
	}
	return nil
}

// observed counts and logs the requests that next answers, by the pattern that a mux in it sets.
func (o *observer) observed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun, c, seen := time.Now(), new(call), &seen{ResponseWriter: w}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		next.ServeHTTP(seen, r)
		o.observe(r, c, seen, time.Since(begun))
	})
}

// outcome is the result of a call for metrics and logs.
type outcome struct {
	code  string // of the server's error, if there is one
	cause error  // for the log, if the client must not see it
}

// seen records the status and the length of an answer.
type seen struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (s *seen) WriteHeader(status int) {
	s.status = cmp.Or(s.status, status)
	s.ResponseWriter.WriteHeader(status)
}

func (s *seen) Write(b []byte) (int, error) {
	s.status = cmp.Or(s.status, http.StatusOK)
	n, err := s.ResponseWriter.Write(b)
	s.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (s *seen) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// codeOf returns the code of an answer for the metrics and the log.
func codeOf(c *call, s *seen) string {
	h := s.Header()
	switch grpc := cmp.Or(h.Get("Grpc-Status"), h.Get(http.TrailerPrefix+"Grpc-Status")); {
	case c.outcome.code != "":
		return c.outcome.code
	case s.status >= 400:
		return fmt.Sprint("http_", s.status)
	case grpc > "0":
		return "grpc_" + grpc
	}
	return "ok"
}

// observe counts and logs a request that was answered.
func (o *observer) observe(r *http.Request, c *call, s *seen, took time.Duration) {
	method, quiet := method(r)
	code := codeOf(c, s)
	o.durations.WithLabelValues(method, code).Observe(took.Seconds())
	if c.token.Name != "" {
		o.clients.WithLabelValues(c.token.Name, code).Inc()
	}
	if c.outcome.cause != nil {
		o.sometimes.Do(func() {
			o.log.WarnContext(r.Context(), "no ID could be issued", "method", method, "error", c.outcome.cause)
		})
	}
	if o.access == nil || quiet {
		return
	}
	level := slog.LevelInfo
	if code != "ok" {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("code", code),
		slog.Int("status", cmp.Or(s.status, http.StatusOK)), slog.Int64("bytes", s.bytes), slog.Duration("took", took),
		slog.String("remote", r.RemoteAddr), slog.String("protocol", r.Proto)}
	if c.token.Name != "" {
		attrs = append(attrs, slog.String("client", c.token.Name))
	}
	if method == other {
		attrs = append(attrs, slog.String("asked", fmt.Sprintf("%.16s %.100s", r.Method, r.URL.Path)))
	}
	o.access.LogAttrs(r.Context(), level, "request", attrs...)
}

// other is the name for methods and paths that do not exist.
const other = "other"

// calls are the methods of the .proto.
var calls = pb.File_snowflake_v1_snowflake_proto.Services().ByName("SnowflakeService").Methods()

// method returns a request's name for metrics and logs, from a small set. quiet reports whether the
// request is a probe or a scrape.
func method(r *http.Request) (name string, quiet bool) {
	if call, ok := strings.CutPrefix(r.URL.Path, "/"+snowflakev1connect.SnowflakeServiceName+"/"); ok {
		if calls.ByName(protoreflect.Name(call)) == nil {
			return other, false
		}
		return call, false
	}
	switch r.Pattern {
	case "/" + grpchealth.HealthV1ServiceName + "/":
		return grpchealth.HealthV1ServiceName, true
	case "GET /healthz", "GET /readyz", "GET /metrics":
		return r.Pattern, true
	}
	return cmp.Or(r.Pattern, other), false
}
