package server

import (
	"cmp"
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

// observer counts requests.
type observer struct {
	sometimes *rate.Sometimes // limits Options.Logger
	durations *prometheus.HistogramVec
	clients   *prometheus.CounterVec
	registry  *prometheus.Registry
	handler   http.Handler // of /metrics
}

func newObserver(o Options, s *Server) (observer, error) {
	registry := o.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
			collectors.NewBuildInfoCollector())
	}
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "snowflake_server_request_duration_seconds",
		Help:    "Time to answer a request, by method and code.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"method", "code"})
	clients := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "snowflake_server_client_requests_total",
		Help: "Requests with a token that has a name, by the name and the code.",
	}, []string{"client", "code"})
	inFlight := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "snowflake_server_in_flight",
		Help: "What is in flight: 1 for a request, and 1 more for each 1,024 IDs of its answer.",
	}, s.load.inFlight)
	room := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "snowflake_server_in_flight_limit",
		Help: "How much may be in flight.",
	}, func() float64 { return float64(o.MaxInFlight) })
	connections := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "snowflake_server_connections",
		Help: "Open connections.",
	}, func() float64 { return float64(s.open.Load()) })
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "snowflake_server_waiting_seconds",
		Help: "How long the server has waited for a worker ID since its start, as /readyz says. 0: it has one.",
	}, func() float64 {
		if s.issuer.Load() != nil {
			return 0
		}
		return time.Since(s.begun).Seconds()
	})
	for _, c := range []prometheus.Collector{durations, clients, inFlight, room, connections, waiting, s.mark} {
		if err := registry.Register(c); err != nil {
			return observer{}, fmt.Errorf("server: metrics: %w", err)
		}
	}
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return observer{&rate.Sometimes{Interval: 10 * time.Second}, durations, clients, registry, handler}, nil
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

// observe counts a request that was answered, and logs it.
func (s *Server) observe(r *http.Request, q *request) {
	took := time.Since(q.begun)
	method, quiet := method(r)
	code := q.code
	switch {
	case code != "":
	case q.status >= 400:
		code = fmt.Sprint("http_", q.status)
	case q.Header().Get("Grpc-Status") > "0":
		code = "grpc_" + q.Header().Get("Grpc-Status")
	default:
		code = "ok"
	}
	s.observer.durations.WithLabelValues(method, code).Observe(took.Seconds())
	if q.token.Name != "" {
		s.observer.clients.WithLabelValues(q.token.Name, code).Inc()
	}
	if q.cause != nil {
		s.observer.sometimes.Do(func() {
			s.o.Logger.WarnContext(r.Context(), "no ID could be issued", "method", method, "error", q.cause)
		})
	}
	if s.o.AccessLog == nil || quiet {
		return
	}
	level := slog.LevelInfo
	if code != "ok" {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("code", code),
		slog.Int("status", q.status), slog.Int64("bytes", q.bytes), slog.Duration("took", took),
		slog.String("remote", r.RemoteAddr), slog.String("protocol", r.Proto)}
	if q.token.Name != "" {
		attrs = append(attrs, slog.String("client", q.token.Name))
	}
	if method == other {
		attrs = append(attrs, slog.String("asked", fmt.Sprintf("%.16s %.100s", r.Method, r.URL.Path)))
	}
	s.o.AccessLog.LogAttrs(r.Context(), level, "request", attrs...)
}

// other is the name of all methods and paths that the server does not have.
const other = "other"

// calls are the methods of the .proto.
var calls = pb.File_snowflake_v1_snowflake_proto.Services().ByName("SnowflakeService").Methods()

// method returns the name of a request for metrics and the log, one of a few, and whether it is one
// that is made all the time.
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
