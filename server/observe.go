package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/metrics"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// observer counts and logs requests.
type observer struct {
	log       *slog.Logger
	durations *prometheus.HistogramVec
	handler   http.Handler // of /metrics
}

func newObserver(gen *snowflake.Generator, o Options, l *load) (observer, error) {
	registry := o.Registry
	if registry == nil {
		registry = prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	ids, err := metrics.New(gen, &metrics.Options{Lease: o.Lease})
	if err != nil {
		return observer{}, err
	}
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "snowflake_server_request_duration_seconds",
		Help:    "Time to answer a request, by method and code.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"method", "code"})
	inFlight := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "snowflake_server_in_flight",
		Help: "What is in flight: 1 for a request, and 1 more for each 1,024 IDs of its answer.",
	}, func() float64 { return float64(l.now.Load()) })
	for _, c := range []prometheus.Collector{ids, durations, inFlight} {
		if err := registry.Register(c); err != nil {
			return observer{}, fmt.Errorf("server: metrics: %w", err)
		}
	}
	return observer{o.AccessLog, durations, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}, nil
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
	if o.log == nil || quiet {
		return
	}
	level := slog.LevelInfo
	if code != "ok" {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("method", method), slog.String("code", code),
		slog.Int("status", q.seen.status), slog.Int64("bytes", q.seen.bytes), slog.Duration("took", took),
		slog.String("remote", r.RemoteAddr), slog.String("protocol", r.Proto)}
	if method == other {
		attrs = append(attrs, slog.String("asked", fmt.Sprintf("%.16s %.100s", r.Method, r.URL.Path)))
	}
	o.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// other is the name of what the server does not have.
const other = "other"

// method returns a name of few values for what was asked, and whether it is asked all the time.
func method(r *http.Request) (name string, quiet bool) {
	if call, ok := strings.CutPrefix(r.URL.Path, "/"+snowflakev1connect.SnowflakeServiceName+"/"); ok {
		switch r.URL.Path {
		case snowflakev1connect.SnowflakeServiceNextIDProcedure, snowflakev1connect.SnowflakeServiceBatchProcedure,
			snowflakev1connect.SnowflakeServiceStreamProcedure, snowflakev1connect.SnowflakeServiceDecodeProcedure,
			snowflakev1connect.SnowflakeServiceEncodeProcedure, snowflakev1connect.SnowflakeServiceRangeProcedure,
			snowflakev1connect.SnowflakeServiceLayoutProcedure:
			return call, false
		}
		return other, false
	}
	switch r.Pattern {
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
	status int
	bytes  int64
}

func (w *recorder) WriteHeader(status int) {
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
