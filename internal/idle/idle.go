// Package idle lets an HTTP client drop connections that the network may have lost.
// The stores over HTTP (s3lease, dynamolease) and server/client make their requests with it.
package idle

import (
	"net/http"
	"sync/atomic"
)

// Client makes requests, as an *http.Client does.
type Client interface {
	Do(*http.Request) (*http.Response, error)
}

// Closing returns a client that makes its requests with c. After a request whose context has ended,
// it closes c's idle connections, if c can, before the next request: the network may have lost
// them, and each would cost one more request its time. With HTTP/2, a connection is idle a moment
// after its last request.
func Closing(c Client) Client {
	if pool, ok := c.(interface{ CloseIdleConnections() }); ok {
		return &closing{Client: c, close: pool.CloseIdleConnections}
	}
	return c
}

type closing struct {
	Client
	close func()
	late  atomic.Bool // whether the context of a request has ended since the last close
}

func (c *closing) Do(req *http.Request) (*http.Response, error) {
	if c.late.Swap(false) {
		c.close()
	}
	resp, err := c.Client.Do(req)
	if err != nil && req.Context().Err() != nil {
		c.late.Store(true)
	}
	return resp, err
}

// Renewing returns a client that makes its requests with a client that make returns. After a
// request whose context has ended, it calls make again. It is for clients that cannot close their
// idle connections.
func Renewing(make func() Client) Client {
	r := &renewing{make: make}
	r.CloseIdleConnections()
	return Closing(r)
}

type renewing struct {
	make func() Client
	is   atomic.Pointer[Client]
}

func (r *renewing) Do(req *http.Request) (*http.Response, error) { return (*r.is.Load()).Do(req) }

func (r *renewing) CloseIdleConnections() {
	c := r.make()
	r.is.Store(&c)
}
