// The serverless program is a function to copy, for AWS Lambda and for Cloud Run. It gives each
// order an ID, under a worker ID that its execution environment leases from Redis.
// docs/serverless.md explains each line.
//
//	REDIS_URL=redis://localhost:6379 go run . new-store       once, before the first deployment
//	REDIS_URL=redis://localhost:6379 PORT=8080 go run .       as on Cloud Run
//	curl -d '{"item":"tea"}' localhost:8080
//
// If AWS_LAMBDA_RUNTIME_API is set, as on Lambda, it asks Lambda for its requests.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease"
)

func main() {
	newStore := len(os.Args) == 2 && os.Args[1] == "new-store"
	f, err := open(context.Background(), newStore)
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case newStore:
	case os.Getenv("AWS_LAMBDA_RUNTIME_API") != "":
		lambda.StartWithOptions(f.handle, lambda.WithEnableSIGTERM(f.close))
	default:
		f.serve()
	}
	f.close()
}

// function is the state of an execution environment between requests: a lease and its generator.
type function struct {
	lease *lease.Lease
	gen   *snowflake.Generator
}

// open acquires a worker ID. On Lambda, it is a part of the Init phase, which may take 10 s.
func open(ctx context.Context, newStore bool) (*function, error) {
	o, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled, o.DialTimeout = true, time.Second
	store, err := redislease.New(redis.NewClient(o), nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	l, err := lease.Acquire(ctx, store, &lease.Options{
		// Not the host's name, because environments share their hosts.
		Owner: cmp.Or(os.Getenv("AWS_LAMBDA_LOG_STREAM_NAME"), rand.Text()),

		Window:   lease.MaxWindow,               // so that few requests find it ended
		Clock:    snowflake.ClockFunc(time.Now), // is right at once after a freeze
		NewStore: newStore,
	})
	if err != nil {
		return nil, err
	}
	gen, err := snowflake.NewLeased(l, nil)
	return &function{l, gen}, err
}

// order is a request, and with an ID the answer.
type order struct {
	ID   snowflake.ID `json:"id"`
	Item string       `json:"item"`
}

// handle answers a request. If the window ended while the environment was frozen, it waits for a
// renewal.
func (f *function) handle(ctx context.Context, in order) (order, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	id, err := f.gen.NextIDContext(ctx)
	return order{id, in.Item}, err
}

// close releases the worker ID. Lambda kills the process 500 ms after SIGTERM.
func (f *function) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := f.lease.Release(ctx); err != nil {
		log.Print("the worker ID was not released, and becomes free after a window: ", err)
	}
}

// serve answers requests over HTTP until SIGTERM, as Cloud Run sends it.
func (f *function) serve() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: ":" + cmp.Or(os.Getenv("PORT"), "8080"), Handler: f, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.Background()) })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Print(err)
	}
}

func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := f.handle(r.Context(), in)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(out)
}
