package server

import (
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

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/metrics"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// observer counts and logs requests.
type observer struct {
	access    *slog.Logger
	log       *slog.Logger
	sometimes *rate.Sometimes // limits log
	durations *prometheus.HistogramVec
	clients   *prometheus.CounterVec
	registry  *prometheus.Registry
	handler   http.Handler // of /metrics
}

func newObserver(gen *snowflake.Generator, o Options, s *Server) (observer, error) {
	registry := o.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
			collectors.NewBuildInfoCollector())
	}
	labels := prometheus.Labels{}
	if o.Fleet != "" {
		labels["fleet"] = o.Fleet
	}
	ids, err := metrics.New(gen, &metrics.Options{Lease: o.Lease, Labels: labels})
	if err != nil {
		return observer{}, err
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
	for _, c := range []prometheus.Collector{ids, durations, clients, inFlight, room, connections, s.mark} {
		if err := registry.Register(c); err != nil {
			return observer{}, fmt.Errorf("server: metrics: %w", err)
		}
	}
	return observer{o.AccessLog, o.Logger, &rate.Sometimes{Interval: 10 * time.Second}, durations, clients, registry, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}, nil
}

// observe counts a request that was answered, and logs it.
func (o *observer) observe(r *http.Request, q *request) {
	took := time.Since(q.begun)
	method, quiet := method(r)
	code := q.code
	switch {
	case code != "":
	case q.seen.status >= 400:
		code = fmt.Sprint("http_", q.seen.status)
	case q.seen.Header().Get("Grpc-Status") > "0":
		code = "grpc_" + q.seen.Header().Get("Grpc-Status")
	default:
		code = "ok"
	}
	o.durations.WithLabelValues(method, code).Observe(took.Seconds())
	if q.token.Name != "" {
		o.clients.WithLabelValues(q.token.Name, code).Inc()
	}
	if q.cause != nil {
		o.sometimes.Do(func() { o.log.WarnContext(r.Context(), "no ID could be issued", "method", method, "error", q.cause) })
	}
	if o.access == nil || quiet {
		return
	}
	level := slog.LevelInfo
	if code != "ok" {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("code", code),
		slog.Int("status", q.seen.status), slog.Int64("bytes", q.seen.bytes), slog.Duration("took", took),
		slog.String("remote", r.RemoteAddr), slog.String("protocol", r.Proto)}
	if q.token.Name != "" {
		attrs = append(attrs, slog.String("client", q.token.Name))
	}
	if method == other {
		attrs = append(attrs, slog.String("asked", fmt.Sprintf("%.16s %.100s", r.Method, r.URL.Path)))
	}
	o.access.LogAttrs(r.Context(), level, "request", attrs...)
}

// other is the name of what the server does not have.
const other = "other"

// method returns a name of few values for what was asked, and whether it is asked all the time.
func method(r *http.Request) (name string, quiet bool) {
	if call, ok := strings.CutPrefix(r.URL.Path, "/"+snowflakev1connect.SnowflakeServiceName+"/"); ok {
		switch r.URL.Path {
		case snowflakev1connect.SnowflakeServiceNextIDProcedure, snowflakev1connect.SnowflakeServiceBatchProcedure,
			snowflakev1connect.SnowflakeServiceStreamProcedure, snowflakev1connect.SnowflakeServiceDecodeProcedure,
			snowflakev1connect.SnowflakeServiceWatermarkProcedure:
			return call, false
		}
		return other, false
	}
	switch r.Pattern {
	case "/" + grpchealth.HealthV1ServiceName + "/":
		return grpchealth.HealthV1ServiceName, true
	case "GET /healthz", "GET /readyz", "GET /metrics":
		return r.Pattern, true
	case "":
		return other, false
	}
	return r.Pattern, false
}

// recorder notes what is answered.
type recorder struct {
	http.ResponseWriter
	code   *string // of the server's error, if it is the server's
	status int
	bytes  int64
}

func (w *recorder) WriteHeader(status int) {
	if status == http.StatusTooManyRequests && *w.code == "" {
		status = http.StatusRequestEntityTooLarge // connect has refused the size of a message
	}
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Flush is for streams.
func (w *recorder) Flush() { _ = w.control().Flush() }

func (w *recorder) control() *http.ResponseController {
	return http.NewResponseController(w.ResponseWriter)
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
