package server

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// load is what is in flight, in all and of each client.
type load struct {
	max, share int64 // the most in all, and of a client

	mu  sync.Mutex
	now int64
	of  map[string]int64
}

// add takes room for n more of a client's, or gives room back if n is negative.
func (l *load) add(client string, n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > 0 && l.now+n > l.max {
		return errBusy
	}
	if n > 0 && l.of[client]+n > l.share {
		return errShare
	}
	l.now += n
	if l.of[client] += n; l.of[client] == 0 {
		delete(l.of, client)
	}
	return nil
}

func (l *load) inFlight() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(l.now)
}

// clientOf names who sends a request: an address, or a network of addresses that belong to one host.
func clientOf(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := from.Addr().Unmap()
	if addr.Is6() {
		network, _ := addr.Prefix(64) // it fails for no address
		return network.String()
	}
	return addr.String()
}

// weight is what n IDs count beside the request that asks for them.
func weight(n int64) int64 { return n / 1024 }

var (
	errBusy  = errors.New("too much is in flight: call again, or ask for fewer IDs at a time")
	errShare = errors.New("too much of yours is in flight: read the answers, call again, or ask for fewer IDs at a time")
)

// request is the context of a request, what the request holds and what is known of it. One goroutine serves it.
type request struct {
	deadline
	begun  time.Time
	client string
	load   *load
	taken  int64
	token  Token
	quota  *rate.Limiter // of the token; nil if there is none
	code   string        // of the error; empty if the request succeeded
	cause  error         // what the log is told instead of the client; nil if there is nothing
	seen   recorder
}

type requestKey struct{}

// Value finds the request in its context.
func (q *request) Value(key any) any {
	if key == (requestKey{}) {
		return q
	}
	return q.deadline.Value(key)
}

// of returns the request that a context belongs to.
func of(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }

// take takes room for n more, until the request ends.
func (q *request) take(n int64) error {
	err := q.load.add(q.client, n)
	if err == nil {
		q.taken += n
	}
	return err
}

func (q *request) end() {
	q.stop()
	if q.taken > 0 {
		_ = q.load.add(q.client, -q.taken) // to give back does not fail
	}
}

// goOn gives a stream another while: to write the next answer, and to read no more.
func (q *request) goOn(while time.Duration) {
	control := q.seen.control()
	_ = control.SetReadDeadline(time.Time{}) // neither fails on the connections of net/http
	_ = control.SetWriteDeadline(time.Now().Add(while))
}
