package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// load is what is in flight.
type load struct {
	now atomic.Int64
	max int64
}

// weight is what n IDs count beside the request that asks for them.
func weight(n int64) int64 { return n / 1024 }

var errBusy = errors.New("too much is in flight: call again, or ask for fewer IDs at a time")

// request is the context of a request, what the request holds and what is known of it. One goroutine serves it.
type request struct {
	deadline
	begun time.Time
	load  *load
	taken int64
	code  string // of the error; empty if the request succeeded
	seen  recorder
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
	if q.load.now.Add(n) > q.load.max {
		q.load.now.Add(-n)
		return errBusy
	}
	q.taken += n
	return nil
}

func (q *request) end() {
	q.stop()
	q.load.now.Add(-q.taken)
}

// goOn gives a stream another while: to write the next answer, and to read no more.
func (q *request) goOn(while time.Duration) {
	control := q.seen.control()
	_ = control.SetReadDeadline(time.Time{}) // neither fails on the connections of net/http
	_ = control.SetWriteDeadline(time.Now().Add(while))
}
