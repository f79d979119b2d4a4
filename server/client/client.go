// Package client gets IDs from servers of package server, and hands them out in process.
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	...
//	defer c.Close()
//	id, err := c.NextID(ctx)
//
// The client takes a batch of IDs ahead and fetches the next one in the background before the batch
// is used up. So most calls of NextID cost no round trip. IDs that are older than Options.MaxAge
// are given up, because they are late by their age.
//
// # What is promised
//
// No ID is handed out twice: not by one client, and not by two, whatever answers are lost, late or repeated.
// A client never asks for an answer again; it asks for other IDs. So a lost answer loses its IDs,
// and IDs that are left when the client is closed are lost, too.
//
// Order: the IDs of one batch are handed out in increasing order. If one server answers all
// batches, all IDs of the client increase, as the IDs of a snowflake.Generator do. If several
// servers answer in turn, through a load balancer, IDs of different batches have no order among
// them, beyond the order of their times: a time is true to MaxAge, the time of a call, and the
// difference of the servers' clocks.
//
// Calls that wait are served in order of arrival.
package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// Options are the settings of New. The zero value, and nil, consist entirely of defaults.
type Options struct {
	// HTTPClient makes the calls. Give it a transport for TLS, or for HTTP/2.
	// nil: a client that speaks HTTP/1.1, and HTTP/2 to a server with TLS.
	HTTPClient connect.HTTPClient

	// Token returns the bearer token for a call. It is called for each call to the server, so the
	// token may change. nil: calls have no token.
	Token func() string

	// Batch is how many IDs a call asks for. 1 to 50,000; 0: 1,000. More are asked for only if
	// more calls of NextID wait, and no more if the server refuses that.
	Batch int

	// Refill is how many IDs are left when the next batch is fetched. 1 to Batch; 0: half of Batch.
	Refill int

	// MaxAge is for how long an ID may lie in the buffer, from its receipt on. 0: 5 s.
	MaxAge time.Duration

	// Timeout is for how long a call to the server may take before the client calls again. 0: 5 s.
	Timeout time.Duration

	// MaxWait bounds the time that NextID waits for IDs, beside its context. 0: 15 s.
	MaxWait time.Duration
}

// mostBatch leaves room in the server's limit of 100,000 for calls that wait.
const mostBatch = 50_000

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if d.HTTPClient == nil {
		d.HTTPClient = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	if d.Batch == 0 {
		d.Batch = 1000
	}
	if d.Batch < 1 || d.Batch > mostBatch {
		return d, fmt.Errorf("client: %w: Batch %d is not 1 to %d", snowflake.ErrInvalidOptions, d.Batch, mostBatch)
	}
	if d.Refill == 0 {
		d.Refill = (d.Batch + 1) / 2
	}
	if d.Refill < 1 || d.Refill > d.Batch {
		return d, fmt.Errorf("client: %w: Refill %d is not 1 to the Batch of %d", snowflake.ErrInvalidOptions, d.Refill, d.Batch)
	}
	for _, t := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"MaxAge", &d.MaxAge, 5 * time.Second},
		{"Timeout", &d.Timeout, 5 * time.Second},
		{"MaxWait", &d.MaxWait, 15 * time.Second},
	} {
		if *t.value < 0 {
			return d, fmt.Errorf("client: %w: %s %v is negative", snowflake.ErrInvalidOptions, t.name, *t.value)
		}
		if *t.value == 0 {
			*t.value = t.def
		}
	}
	return d, nil
}

// ErrClosed is returned by NextID after Close.
var ErrClosed = errors.New("client: closed")

// Client has a buffer of IDs. All methods may be called by any number of goroutines.
type Client struct {
	o      Options
	server snowflakev1connect.SnowflakeServiceClient

	ctx    context.Context // of the calls to the server
	cancel context.CancelFunc
	ended  sync.WaitGroup // the goroutine that fetches, if there is one

	mu       sync.Mutex
	closed   bool
	batches  []batch   // in the order of receipt; each has an ID
	left     int       // IDs in batches
	waiting  []*waiter // in order of arrival; only while there are no IDs
	most     int       // how many IDs a call may ask for: Batch, once the server has refused more
	fetching bool
	failed   error // of the last call to the server; nil if it succeeded
}

// batch is what is left of an answer.
type batch struct {
	ids      []int64
	received time.Time
}

// waiter is a call of NextID that waits.
type waiter struct {
	result chan result // has room for one
}

type result struct {
	id  snowflake.ID
	err error
}

// New returns a client of the server, or load balancer, at a URL such as http://127.0.0.1:8080. It
// makes no call: the first call of NextID does. A URL that no server can have, or an option that is
// out of its range, gives an error that matches snowflake.ErrInvalidOptions.
func New(server string, opts *Options) (*Client, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(server); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("client: %w: the URL is not one such as http://127.0.0.1:8080", snowflake.ErrInvalidOptions)
	}
	c := &Client{o: o, server: snowflakev1connect.NewSnowflakeServiceClient(o.HTTPClient, server), most: 2 * mostBatch}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// NextID returns an ID that was handed out to nobody else. If the buffer is empty, it waits for the
// next batch, until ctx is done and for Options.MaxWait at most; then the error matches ctx's error
// or context.DeadlineExceeded, and has the error of the last call to the server. If calling again
// cannot help, the server's error, a *connect.Error, is returned at once: a wrong token, say.
func (c *Client) NextID(ctx context.Context) (snowflake.ID, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := time.Now()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, ErrClosed
	}
	id, ok := c.take(now)
	if ok {
		c.refill()
		c.mu.Unlock()
		return id, nil
	}
	w := &waiter{make(chan result, 1)}
	c.waiting = append(c.waiting, w)
	c.refill()
	c.mu.Unlock()
	return c.wait(ctx, w)
}

// take takes the first ID that is not too old. c.mu must be held.
func (c *Client) take(now time.Time) (snowflake.ID, bool) {
	for len(c.batches) > 0 {
		first := &c.batches[0]
		if now.Sub(first.received) > c.o.MaxAge {
			c.left -= len(first.ids)
			c.batches = c.batches[1:]
			continue
		}
		id := first.ids[0]
		first.ids = first.ids[1:]
		c.left--
		if len(first.ids) == 0 {
			c.batches = c.batches[1:]
		}
		return snowflake.ID(id), true
	}
	return 0, false
}

// wait waits for w's turn.
func (c *Client) wait(ctx context.Context, w *waiter) (snowflake.ID, error) {
	limit := time.NewTimer(c.o.MaxWait)
	defer limit.Stop()
	var err error
	select {
	case r := <-w.result:
		return r.id, r.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = context.DeadlineExceeded
	}
	return c.giveUp(w, err)
}

// giveUp takes w out of the queue. If its turn came meanwhile, it has an ID, and returns it.
func (c *Client) giveUp(w *waiter, err error) (snowflake.ID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case r := <-w.result:
		return r.id, r.err
	default:
	}
	for i, other := range c.waiting {
		if other == w {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			break
		}
	}
	if c.failed != nil {
		return 0, fmt.Errorf("client: no ID came: %w; the last call failed: %w", err, c.failed)
	}
	return 0, fmt.Errorf("client: no ID came: %w", err)
}

// Close ends the calls to the server. Calls of NextID that wait return ErrClosed, and so do
// later ones. The IDs in the buffer are lost. It returns nil.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed, c.batches, c.left = true, nil, 0
	c.fail(ErrClosed)
	c.mu.Unlock()
	c.cancel()
	c.ended.Wait()
	return nil
}

// fail ends all calls that wait. c.mu must be held.
func (c *Client) fail(err error) {
	for _, w := range c.waiting {
		w.result <- result{err: err}
	}
	c.waiting = nil
}
