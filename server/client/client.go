// Package client gets IDs from servers of package server, and hands them out in process.
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	...
//	defer c.Close()
//	id, err := c.NextID(ctx)
//
// The client takes a batch of IDs ahead and fetches the next one in the background before the batch
// is used up. So most calls of NextID cost no round trip. IDs that are older than Options.MaxAge
// are discarded: their timestamps would be stale.
//
// # What is promised
//
// No ID is handed out twice: not by one client, and not by two, whatever answers are lost, late or repeated.
// Copies of a cloned machine are two clients only if the hypervisor tells (Options.VMClock).
// A client never asks for an answer again; it asks for other IDs. So a lost answer loses its IDs,
// and IDs that are left when the client is closed are lost, too.
//
// Order: the IDs of one batch are handed out in increasing order. If one server answers all
// batches, all IDs of the client increase, as the IDs of a snowflake.Generator do. If several
// servers answer in turn, through a load balancer or because a server failed, IDs of different batches have no order among
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
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/vmclock"
	"github.com/seed-5394e6b1/snowflake/server/proto/snowflake/v1/snowflakev1connect"
)

// Options are the settings of New. The zero value, and nil, consist entirely of defaults.
type Options struct {
	// Others are the URLs of further servers. If a call to a server fails, the client asks the next server at once. It stays
	// with a server that answers, and pauses when all have failed.
	Others []string

	// HTTPClient makes the calls. Give it a transport for TLS, or for HTTP/2.
	// nil: a client that speaks HTTP/1.1, and HTTP/2 to a server with TLS.
	HTTPClient connect.HTTPClient

	// Token returns the bearer token for a call. It is called for each call to the server, so the
	// token may change. nil: calls have no token.
	Token func() string

	// Batch is how many IDs a call asks for. 1 to 50,000; 0: 1,000. More are asked for only if
	// more calls of NextID wait, and no more if the server refuses that.
	Batch int

	// Refill is how many IDs are left when the next batch is fetched. IDs that are older than half of MaxAge do
	// not count as left. 1 to Batch; 0: half of Batch.
	Refill int

	// MaxAge is for how long an ID may lie in the buffer, from its receipt on. 0: 5 s.
	MaxAge time.Duration

	// Timeout is for how long a call to a server may take before the client calls again. It is less than
	// MaxWait, or a server that hangs would leave no time for another call. 0: 5 s, or a third of MaxWait if that is less.
	Timeout time.Duration

	// VMClock is the path of a device that tells if the machine was cloned: started again from a
	// snapshot. Then the IDs in the buffer are thrown away, because each copy has them. Empty:
	// /dev/vmclock0 if this process can read it and the hypervisor counts. If a path is given and
	// cannot be used, New fails. Linux only.
	VMClock string

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
		{"MaxWait", &d.MaxWait, 15 * time.Second},
		{"Timeout", &d.Timeout, 0},
	} {
		if *t.value < 0 {
			return d, fmt.Errorf("client: %w: %s %v is negative", snowflake.ErrInvalidOptions, t.name, *t.value)
		}
		if *t.value == 0 {
			*t.value = t.def
		}
	}
	if d.Timeout == 0 {
		d.Timeout = min(5*time.Second, d.MaxWait/3)
	}
	if d.Timeout >= d.MaxWait {
		return d, fmt.Errorf("client: %w: Timeout %v is not less than MaxWait %v", snowflake.ErrInvalidOptions, d.Timeout, d.MaxWait)
	}
	return d, nil
}

// ErrClosed is returned by NextID after Close.
var ErrClosed = errors.New("client: closed")

// Client has a buffer of IDs. All methods may be called by any number of goroutines.
type Client struct {
	o       Options
	vm      *atomic.Uint64 // the machine's generation; nil if nobody tells it
	servers []snowflakev1connect.SnowflakeServiceClient
	at      int // the server that is asked; only the goroutine that fetches changes it

	ctx    context.Context // of the calls to the server
	cancel context.CancelFunc
	ended  sync.WaitGroup // the goroutine that fetches, if there is one

	mu       sync.Mutex
	closed   bool
	batches  []batch   // in the order of receipt; each has an ID
	waiting  []*waiter // in order of arrival; only while there are no IDs
	most     int       // how many IDs a call may ask for: Batch, once the server has refused more
	fetching bool
	failed   error // of the last call to the server; nil if it succeeded
}

// batch is what is left of an answer.
type batch struct {
	ids      []int64
	born     uint64 // the machine's generation when the server was asked
	received time.Time
}

// waiter is a call of NextID that waits.
type waiter struct {
	result chan result // has room for one
}

type result struct {
	id   snowflake.ID
	born uint64 // its batch's
	err  error
}

// New returns a client of the server, or load balancer, at a URL such as http://127.0.0.1:8080. It
// makes no call: the first call of NextID does. A URL that no server can have, or an option that is
// out of its range, gives an error that matches snowflake.ErrInvalidOptions.
func New(server string, opts *Options) (*Client, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	vm, err := vmclock.Find(o.VMClock)
	if err != nil && o.VMClock != "" {
		return nil, fmt.Errorf("client: %w: VMClock: %w", snowflake.ErrInvalidOptions, err)
	}
	c := &Client{o: o, vm: vm, most: 2 * mostBatch}
	for i, server := range append([]string{server}, o.Others...) {
		if u, err := url.Parse(server); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("client: %w: URL %d is not one such as http://127.0.0.1:8080", snowflake.ErrInvalidOptions, i+1)
		}
		c.servers = append(c.servers, snowflakev1connect.NewSnowflakeServiceClient(o.HTTPClient, server))
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// NextID returns an ID that was handed out to nobody else. If the buffer is empty, it waits for the
// next batch, until ctx is done and for Options.MaxWait at most; then the error matches ctx's error
// or context.DeadlineExceeded, and has the error of the last call to the server. If calling again
// cannot help, the server's error, a *connect.Error, is returned at once: a wrong token, say.
func (c *Client) NextID(ctx context.Context) (snowflake.ID, error) {
	for {
		r := c.next(ctx)
		if r.err != nil || r.born == c.generation() { // else another copy of this machine may return the same ID
			return r.id, r.err
		}
	}
}

// generation returns the machine's, or 0 if nobody tells it.
func (c *Client) generation() uint64 { return vmclock.Generation(c.vm) }

func (c *Client) next(ctx context.Context) result {
	if err := ctx.Err(); err != nil {
		return result{err: err}
	}
	now := time.Now()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return result{err: ErrClosed}
	}
	r, ok := c.take(now)
	if ok {
		c.refill(now)
		c.mu.Unlock()
		return r
	}
	w := &waiter{make(chan result, 1)}
	c.waiting = append(c.waiting, w)
	c.refill(now)
	c.mu.Unlock()
	return c.wait(ctx, w)
}

// take takes the first ID that is not too old. c.mu must be held.
func (c *Client) take(now time.Time) (result, bool) {
	for len(c.batches) > 0 {
		first := &c.batches[0]
		if now.Sub(first.received) > c.o.MaxAge || first.born != c.generation() {
			c.batches = c.batches[1:]
			continue
		}
		r := result{id: snowflake.ID(first.ids[0]), born: first.born}
		first.ids = first.ids[1:]
		if len(first.ids) == 0 {
			c.batches = c.batches[1:]
		}
		return r, true
	}
	return result{}, false
}

// left counts the IDs that are not so old that they may expire before the next batch comes. c.mu must be held.
func (c *Client) left(now time.Time) (n int) {
	for _, b := range c.batches {
		if now.Sub(b.received) <= c.o.MaxAge/2 && b.born == c.generation() {
			n += len(b.ids)
		}
	}
	return n
}

// wait waits for w's turn.
func (c *Client) wait(ctx context.Context, w *waiter) result {
	limit := time.NewTimer(c.o.MaxWait)
	defer limit.Stop()
	var err error
	select {
	case r := <-w.result:
		return r
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = context.DeadlineExceeded
	}
	return c.giveUp(w, err)
}

// giveUp takes w out of the queue. If its turn came meanwhile, it has an ID, and returns it.
func (c *Client) giveUp(w *waiter, err error) result {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case r := <-w.result:
		return r
	default:
	}
	for i, other := range c.waiting {
		if other == w {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			break
		}
	}
	if c.failed != nil {
		return result{err: fmt.Errorf("client: no ID came: %w; the last call failed: %w", err, c.failed)}
	}
	return result{err: fmt.Errorf("client: no ID came: %w", err)}
}

// Close ends the calls to the server. Calls of NextID that wait return ErrClosed, and so do
// later ones. The IDs in the buffer are lost. It returns nil.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed, c.batches = true, nil
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
