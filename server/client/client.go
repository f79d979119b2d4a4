// Package client gets IDs from servers of package server, and hands them out in process.
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	...
//	defer c.Close()
//	id, err := c.NextIDContext(ctx)
//
// The client takes a batch of IDs ahead and fetches the next one in the background before the batch
// is used up. So most calls of NextIDContext cost no round trip. IDs that are older than
// Options.MaxAge are discarded: their timestamps would be stale. Their age counts from the time at
// which the client asked for them.
//
// # What is promised
//
// No ID is handed out twice: not by one client, and not by two, whatever answers are lost, late or
// repeated. Copies of a cloned machine count as two clients only if the hypervisor reports the
// clone (Options.VMClock). A client never asks for an answer again; it asks for other IDs. So a
// lost answer loses its IDs, and IDs that are left when the client is closed are lost, too.
//
// Order: the IDs of one batch are handed out in increasing order. If one server answers all
// batches, all IDs of the client increase, as the IDs of a snowflake.Generator do. If several
// servers answer in turn, through a load balancer or because a server failed, IDs of different
// batches have no order among them, beyond the order of their times: a time is true to MaxAge and
// the difference of the servers' clocks.
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

// Options are the settings of New. The zero value, and nil, consist entirely of defaults.
type Options struct {
	// Others are the URLs of further servers. If a call to a server fails, the client asks the next
	// server at once. It stays with a server that answers, and pauses when all have failed.
	// NextIDContext returns a refusal only if all servers refused in a row.
	Others []string

	// HTTPClient makes the calls. Give it a transport for TLS, or for HTTP/2. After a call that
	// timed out, its idle connections are closed if it has CloseIdleConnections, as an *http.Client
	// does: nothing may arrive on them any more. If it speaks HTTP/2 and other calls share its
	// connection, also let the transport send PINGs (http.Transport.HTTP2), or it goes unnoticed
	// that a connection is dead. The default is a client that speaks HTTP/1.1, and HTTP/2 with
	// PINGs to a server with TLS.
	HTTPClient connect.HTTPClient

	// Token returns the bearer token for a call. It is called for each call to the server, so the
	// token may change. If Token is nil, calls have no token.
	Token func() string

	// Batch is how many IDs a call asks for, 1 to 50,000. The default is 1,000. More are asked for
	// only if more calls of NextIDContext wait. If the server gives fewer at once, for example
	// because of a token's quota, a call asks for as many as it gives, for a minute. The next batch
	// is fetched when half of a batch is left, or when the IDs that are left are older than half of
	// MaxAge.
	Batch int

	// MaxAge is how old an ID may be when NextIDContext returns it. Its age counts from the time at
	// which the client asked for it, so that IDs are discarded if the process or its machine stood
	// still meanwhile. The default is 5 s.
	MaxAge time.Duration

	// Timeout is how long a call to a server may take before the client calls again. It is less
	// than MaxWait, or a server that hangs would leave no time for another call. If MaxAge is less,
	// a call may take MaxAge: later its IDs would be too old. The default is 5 s, or a third of
	// MaxWait if that is less.
	Timeout time.Duration

	// VMClock is the path of a device that tells whether the machine was cloned: started again from
	// a snapshot. Then the IDs in the buffer are thrown away, because each copy has them. The
	// default is /dev/vmclock0 if this process can read it and the hypervisor counts. If a path is
	// given and cannot be used, New fails. Linux only.
	VMClock string

	// MaxWait bounds the time that NextIDContext waits for IDs, beside its context. The default is
	// 15 s.
	MaxWait time.Duration
}

// silence is how long nothing may arrive on a connection of HTTP/2 before a PING is sent, and then
// before the connection is closed: twice that is less than the time-out of a call.
const silence = 2 * time.Second

// mostBatch leaves room in the server's limit of 100,000 for calls that wait.
const mostBatch = 50_000

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if d.HTTPClient == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence}
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
	at      int       // the server to ask; it and limited belong to the goroutine that fetches
	limited time.Time // when a server refused more than most

	most atomic.Int64 // how many IDs a call may ask for

	ids     chan buffered          // calls that wait receive in order of arrival
	last    atomic.Pointer[answer] // nil if there was none
	waiting atomic.Int64           // calls of NextIDContext that wait

	ctx    context.Context // of the calls to the server, until Close
	cancel context.CancelFunc
	ended  sync.WaitGroup // the goroutine that fetches, if there is one

	mu    sync.Mutex
	fetch *fetch // what that goroutine does; nil if there is none
}

// buffered is an ID of an answer.
type buffered struct {
	id     snowflake.ID
	answer *answer
}

// answer is what the IDs of an answer have in common.
type answer struct {
	born  uint64    // the machine's generation when the server was asked
	asked time.Time // before the call
	wall  time.Time // the same by the wall clock, which runs on while the machine is suspended
}

// age returns how old the IDs may be.
func (a *answer) age(now time.Time) time.Duration { return max(now.Sub(a.asked), now.Sub(a.wall)) }

// New returns a client of the server, or load balancer, at a URL such as http://127.0.0.1:8080. It
// makes no call: the first call of NextIDContext does. A URL that no server can have, or an option
// that is out of its range, gives an error that matches snowflake.ErrInvalidOptions.
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

// NextIDContext returns an ID that no other call has returned. If the buffer is empty, it waits
// for the next batch, until ctx is done and for Options.MaxWait at most; then the error matches
// ctx's error or context.DeadlineExceeded, and has the error of the last call to the server. If
// calling again cannot help, whichever server is called, the last server's error, a *connect.Error,
// is returned at once, for example for a wrong token. A [snowflake.Generator] has this method, too.
func (c *Client) NextIDContext(ctx context.Context) (snowflake.ID, error) {
	if err := cmp.Or(ctx.Err(), c.closed()); err != nil {
		return 0, err
	}
	if id, ok := c.take(); ok {
		return id, nil
	}
	return c.wait(ctx)
}

// take returns the first ID of the buffer that is good, if there is one, and fetches if few are
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

// isGood reports whether an ID is not too old. If the machine was cloned, another copy may return
// the same ID.
func (c *Client) isGood(b buffered, now time.Time) bool {
	return b.answer.age(now) <= c.o.MaxAge && b.answer.born == c.generation()
}

// generation returns the machine's generation, or 0 if the machine does not report clones.
func (c *Client) generation() uint64 { return vmclock.Generation(c.vm) }

// left counts the IDs in the buffer, unless they are so old that they may expire before the next
// batch comes.
func (c *Client) left(now time.Time) int {
	last := c.last.Load()
	if last == nil || last.age(now) > c.o.MaxAge/2 || last.born != c.generation() {
		return 0
	}
	return len(c.ids)
}

// refill is how many IDs are left when the next batch is fetched.
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
				return 0, fmt.Errorf("client: no ID came: %w; the last call failed: %w", ctx.Err(), *err)
			}
			return 0, fmt.Errorf("client: no ID came: %w", ctx.Err())
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

// Close ends the calls to the server. Calls of NextIDContext that wait return ErrClosed, and so do
// later ones. The IDs in the buffer are lost. It returns nil.
func (c *Client) Close() error {
	c.mu.Lock()
	c.cancel() // no fetch starts after that
	c.mu.Unlock()
	c.ended.Wait()
	return nil
}
