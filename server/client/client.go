// Package client gets IDs from servers of package server, and buffers them in the process.
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	...
//	defer c.Close()
//	id, err := c.NextIDContext(ctx)
//
// The client fetches IDs in batches, and the next batch in the background before one is used up. So
// most calls of NextIDContext need no round trip. The client discards IDs that are older than
// Options.MaxAge, because their timestamps are stale.
//
// # Promises
//
// No ID is returned twice, by one client or by two, whatever replies are lost, late or repeated.
// For copies of a cloned machine this is true only if the hypervisor reports the clone
// (Options.VMClock). If a reply is lost, the client asks for other IDs, and the lost ones are not
// used. The same is true for the IDs in the buffer of a client that is closed.
//
// The IDs of a batch are returned in increasing order. If one server answers all requests, all IDs
// of the client increase, like the IDs of a snowflake.Generator. If several servers answer, behind
// a load balancer or because a server failed, the IDs of different batches are ordered only as well
// as their times, which may be wrong by MaxAge and by the difference of the servers' clocks.
//
// Calls that wait are served in order of arrival.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/idle"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// Options holds the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	// Others are the URLs of further servers. If a request to a server fails, the client asks the
	// next one. It stays with a server that answers, and pauses if all have failed. NextIDContext
	// returns a refusal only if all servers refused in a row.
	Others []string

	// HTTPClient sends the requests. Set it for another transport, for example with certificates.
	// If it has CloseIdleConnections, as an *http.Client does, this method is called after a
	// request that timed out. If it uses HTTP/2 and shares a connection with other requests, let
	// the transport send PINGs (http.Transport.HTTP2) to detect a dead connection. The default is a
	// client for HTTP/1.1 and, with TLS, HTTP/2 with PINGs.
	HTTPClient connect.HTTPClient

	// Token returns the bearer token. It is called for each request, so the token may change. If it
	// is nil, requests have no token.
	Token func() string

	// Batch is the number of IDs in a request, 1 to 50,000, or more if more calls of NextIDContext
	// wait. The default is 1,000. If a server refuses so many, for example because of a token's
	// quota, requests ask for its maximum for a minute. The client fetches the next batch when half
	// of a batch is left, or when the IDs left are older than half of MaxAge.
	Batch int

	// MaxAge is the maximum age of an ID that NextIDContext returns. An ID's age counts from the
	// client's request, and while the process or its machine is suspended. The default is 5 s.
	MaxAge time.Duration

	// Timeout is the maximum duration of a request, less than MaxWait, so that another server can
	// be asked. If MaxAge is less, it applies instead, because later IDs would be too old. The
	// default is 5 s, or a third of MaxWait if that is less.
	Timeout time.Duration

	// VMClock is the path of the device by which a hypervisor reports that the machine was cloned.
	// The client then discards its buffer, because each copy has it. The default is /dev/vmclock0,
	// if it can be used. If another path cannot be used, New returns an error. Linux only.
	VMClock string

	// MaxWait is the maximum wait of NextIDContext, whatever its context. The default is 15 s.
	MaxWait time.Duration
}

// pingTimeout is the time without data on an HTTP/2 connection after which a PING is sent, and then
// the time for its answer. Twice this is less than the time-out of a request.
const pingTimeout = 2 * time.Second

// mostBatch leaves room, within the server's limit of 100,000, for calls that wait.
const mostBatch = 50_000

func (o *Options) withDefaults() (Options, error) {
	d := *cmp.Or(o, new(Options))
	if d.HTTPClient == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingTimeout, PingTimeout: pingTimeout}
		d.HTTPClient = &http.Client{Transport: transport}
	}
	d.Batch = cmp.Or(d.Batch, 1000)
	if d.Batch < 1 || d.Batch > mostBatch {
		return d, fmt.Errorf("client: %w: Batch %d is not 1 to %d", snowflake.ErrInvalidOptions, d.Batch, mostBatch)
	}
	d.MaxAge, d.MaxWait = cmp.Or(d.MaxAge, 5*time.Second), cmp.Or(d.MaxWait, 15*time.Second)
	d.Timeout = cmp.Or(d.Timeout, min(5*time.Second, d.MaxWait/3))
	if d.MaxAge < 0 || d.Timeout < 0 || d.Timeout >= d.MaxWait {
		return d, fmt.Errorf("client: %w: MaxAge %v, Timeout %v, MaxWait %v: none may be negative, and Timeout is less than MaxWait",
			snowflake.ErrInvalidOptions, d.MaxAge, d.Timeout, d.MaxWait)
	}
	d.Timeout = min(d.Timeout, d.MaxAge)
	return d, nil
}

// ErrClosed is returned by NextIDContext after Close.
var ErrClosed = errors.New("client: closed")

// Client has a buffer of IDs. All methods may be called by any number of goroutines.
type Client struct {
	o       Options
	vm      *atomic.Uint64 // the machine's generation; nil if it does not report clones
	servers []snowflakev1connect.SnowflakeServiceClient
	at      int       // the server to ask; only the fetch uses at and limited
	limited time.Time // the time of most's last reduction

	most atomic.Int64 // the maximum number of IDs in a request

	ids     chan buffered          // calls that wait receive in order of arrival
	last    atomic.Pointer[answer] // the last answer, or nil
	waiting atomic.Int64           // the number of calls of NextIDContext that wait

	ctx    context.Context // of the requests; ends with Close
	cancel context.CancelFunc
	ended  sync.WaitGroup // the fetch's goroutine

	mu    sync.Mutex
	fetch *fetch // the running fetch, or nil
}

// buffered is an ID with its answer.
type buffered struct {
	id     snowflake.ID
	answer *answer
}

// answer has the common fields of an answer's IDs.
type answer struct {
	generation uint64    // the machine's, at the request
	asked      time.Time // the time of the request
	wall       time.Time // the same without its monotonic reading, which stops in a suspended machine
}

// age returns an upper bound of the IDs' age.
func (a *answer) age(now time.Time) time.Duration { return max(now.Sub(a.asked), now.Sub(a.wall)) }

// New returns a client of the server, or load balancer, at a URL such as http://127.0.0.1:8080. It
// sends no request. If a URL is invalid or an option is out of range, the error matches
// snowflake.ErrInvalidOptions.
func New(server string, opts *Options) (*Client, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	vm, err := vmclock.Find(o.VMClock)
	if err != nil && o.VMClock != "" {
		return nil, fmt.Errorf("client: %w: VMClock: %w", snowflake.ErrInvalidOptions, err)
	}
	calls := idle.Closing(o.HTTPClient)
	c := &Client{o: o, vm: vm, ids: make(chan buffered, 2*o.Batch)}
	for i, server := range append([]string{server}, o.Others...) {
		if u, err := url.Parse(server); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("client: %w: URL %d is not one such as http://127.0.0.1:8080", snowflake.ErrInvalidOptions, i+1)
		}
		c.servers = append(c.servers, snowflakev1connect.NewSnowflakeServiceClient(calls, server))
	}
	c.most.Store(2 * mostBatch)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// NextIDContext returns an ID that no other call has returned. If the buffer is empty, it waits for
// the next batch, until ctx ends or for Options.MaxWait; then the error matches ctx's error or
// context.DeadlineExceeded, and wraps the error of the last request. If all servers refuse in a way
// that a retry cannot change, for example because of a wrong token, NextIDContext returns the last
// server's error, a *connect.Error, at once.
func (c *Client) NextIDContext(ctx context.Context) (snowflake.ID, error) {
	if err := cmp.Or(ctx.Err(), c.closed()); err != nil {
		return 0, err
	}
	if id, ok := c.take(); ok {
		return id, nil
	}
	return c.wait(ctx)
}

// take returns the first good ID of the buffer, if there is one, and starts a fetch if few are
// left.
func (c *Client) take() (id snowflake.ID, ok bool) {
	for {
		select {
		case b := <-c.ids:
			now := time.Now()
			if !c.isGood(b, now) {
				continue
			}
			if c.left(now) < c.refill() {
				c.start()
			}
			return b.id, true
		default:
			return 0, false
		}
	}
}

// isGood reports whether an ID is not too old, and the machine was not cloned since its request.
func (c *Client) isGood(b buffered, now time.Time) bool {
	return b.answer.age(now) <= c.o.MaxAge && b.answer.generation == c.generation()
}

// generation returns the machine's generation, or 0 if the machine does not report clones.
func (c *Client) generation() uint64 { return vmclock.Generation(c.vm) }

// left returns the number of IDs in the buffer, or 0 if they may expire before the next batch
// arrives.
func (c *Client) left(now time.Time) int {
	last := c.last.Load()
	if last == nil || last.age(now) > c.o.MaxAge/2 || last.generation != c.generation() {
		return 0
	}
	return len(c.ids)
}

// refill returns the number of IDs below which the next batch is fetched.
func (c *Client) refill() int { return (min(c.o.Batch, int(c.most.Load())) + 1) / 2 }

// wait waits for the next ID.
func (c *Client) wait(ctx context.Context) (snowflake.ID, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.MaxWait)
	defer cancel()
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	for {
		f := c.start()
		select {
		case b := <-c.ids:
			if c.isGood(b, time.Now()) {
				return b.id, nil
			}
		case <-f.done:
			if f.refused != nil {
				return 0, f.refused
			}
			if id, ok := c.take(); ok {
				return id, nil
			}
		case <-c.ctx.Done():
			return 0, ErrClosed
		case <-ctx.Done():
			if err := f.failed.Load(); err != nil {
				return 0, fmt.Errorf("client: no ID arrived: %w; the last request failed: %w", ctx.Err(), *err)
			}
			return 0, fmt.Errorf("client: no ID arrived: %w", ctx.Err())
		}
	}
}

// closed returns ErrClosed after Close.
func (c *Client) closed() error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

// Close ends the requests, and discards the buffer. Waiting and later calls of NextIDContext return
// ErrClosed. Close returns nil.
func (c *Client) Close() error {
	c.mu.Lock()
	c.cancel() // prevents new fetches
	c.mu.Unlock()
	c.ended.Wait()
	return nil
}
