package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/metrics"
)

// service answers requests.
type service struct {
	gen      *snowflake.Generator
	lease    *lease.Lease
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	save     func(context.Context, order) error // stores an order
	draining atomic.Bool                        // true if the program was told to stop
}

func newService(gen *snowflake.Generator, l *lease.Lease, save func(context.Context, order) error) (*service, error) {
	ids, err := metrics.New(gen, &metrics.Options{Lease: l})
	if err != nil {
		return nil, err
	}
	s := &service{
		gen: gen, lease: l, save: save, registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total", Help: "Requests for orders, by status.",
		}, []string{"code"}),
	}
	s.registry.MustRegister(ids, s.requests, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s, nil
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /orders", promhttp.InstrumentHandlerCounter(s.requests, http.HandlerFunc(s.postOrder)))
	mux.HandleFunc("GET /readyz", s.ready)
	// /livez does not depend on the lease. If the store is away, a restart would not help, and
	// would lose the rest of the window.
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() { // then the client closes its connection
			w.Header().Set("Connection", "close")
		}
		mux.ServeHTTP(w, r)
	})
}

// order is the JSON that a client sends and gets. In JSON an ID is a string, because JavaScript has
// only 53 bits.
type order struct {
	ID   snowflake.ID `json:"id"`
	Item string       `json:"item"`
}

// maxOrder is how many bytes of JSON an order has at most.
const maxOrder = 64 << 10

// postOrder gives an order its ID, and stores it. If it was not stored, or the database did not say
// so, the client may try again: the order then gets another ID.
func (s *service) postOrder(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	var in struct{ Item string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder)).Decode(&in); err != nil {
		s.refuse(w, r, http.StatusBadRequest, fmt.Sprintf("the order is not JSON, or has over %d bytes", maxOrder), err)
		return
	}
	if in.Item == "" {
		s.refuse(w, r, http.StatusBadRequest, `the order has no "item"`, nil)
		return
	}
	id, err := s.gen.NextIDContext(r.Context())
	if err != nil {
		w.Header().Set("Retry-After", "1")
		s.refuse(w, r, http.StatusServiceUnavailable, "no ID can be issued now", err)
		return
	}
	o := order{ID: id, Item: in.Item}
	if err := s.save(r.Context(), o); err != nil {
		w.Header().Set("Retry-After", "1")
		s.refuse(w, r, http.StatusServiceUnavailable, "the order was not stored", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/orders/"+id.String())
	w.WriteHeader(http.StatusCreated)
	err = json.NewEncoder(w).Encode(o)
	log := slog.With("id", id, "parts", s.gen.Decode(id), "remote", r.RemoteAddr, "took", time.Since(begun))
	if err != nil {
		log.WarnContext(r.Context(), "order created, and the client could not be told", "error", err)
		return
	}
	log.InfoContext(r.Context(), "order created")
}

// refuse tells the client a text, and the log the cause, too: an error of the lease can name users
// and hosts of the store.
func (s *service) refuse(w http.ResponseWriter, r *http.Request, status int, text string, cause error) {
	slog.WarnContext(r.Context(), text, "status", status, "remote", r.RemoteAddr, "error", cause)
	http.Error(w, text, status)
}

// ready answers 200 if the generator can issue an ID now.
func (s *service) ready(w http.ResponseWriter, r *http.Request) {
	if err := s.whyNotReady(); err != nil {
		s.refuse(w, r, http.StatusServiceUnavailable, "not ready", err)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *service) whyNotReady() error {
	if s.draining.Load() {
		return errors.New("told to stop")
	}
	return s.lease.Ready()
}
