package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// request is the context of a request, its answer, what it holds and what is known of it.
type request struct {
	context.Context           // of net/http
	until           time.Time // the context's end
	once            sync.Once
	timed           context.Context // with a timer; nil until somebody waits

	http.ResponseWriter
	r        *http.Request
	replaced bool // whether the body of the error is the server's, and not the handler's
	status   int
	bytes    int64

	begun  time.Time
	client string
	load   *load
	taken  int64
	token  Token
	quota  *rate.Limiter // of the token; nil if there is none
	code   string        // of the server's error; empty if there is none
	cause  error         // what the log is told instead of the client; nil if there is nothing
}

type requestKey struct{}

// of returns the request that a context belongs to.
func of(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }

// Value finds the request in its context.
func (q *request) Value(key any) any {
	if key == (requestKey{}) {
		return q
	}
	return q.Context.Value(key)
}

func (q *request) Deadline() (time.Time, bool) {
	if parent, ok := q.Context.Deadline(); ok && parent.Before(q.until) {
		return parent, true
	}
	return q.until, true
}

// Done starts the timer. Most calls do not wait, and a timer would be a tenth of what they cost.
func (q *request) Done() <-chan struct{} {
	q.once.Do(func() {
		var stop context.CancelFunc
		q.timed, stop = context.WithDeadline(q.Context, q.until)
		context.AfterFunc(q.Context, stop) // net/http ends its context with the answer
	})
	return q.timed.Done()
}

func (q *request) Err() error {
	if err := q.Context.Err(); err != nil || time.Now().Before(q.until) {
		return err
	}
	return context.DeadlineExceeded
}

// take takes room for n more, until the request ends.
func (q *request) take(n int64) error {
	err := q.load.add(q.client, n)
	if err == nil {
		q.taken += n
	}
	return err
}

// end gives the room back.
func (q *request) end() {
	if q.taken > 0 {
		_ = q.load.add(q.client, -q.taken) // to give back does not fail
	}
}

// goOn gives a stream another while: to write the next answer, and to read no more.
func (q *request) goOn(while time.Duration) {
	control := http.NewResponseController(q.ResponseWriter)
	_ = control.SetReadDeadline(time.Time{}) // neither fails on the connections of net/http
	_ = control.SetWriteDeadline(time.Now().Add(while))
}

// WriteHeader notes the status. The errors of net/http, of connect and of Home get the form that
// all errors have.
func (q *request) WriteHeader(status int) {
	if status == http.StatusTooManyRequests && q.code == "" {
		status = http.StatusRequestEntityTooLarge // connect has refused the size of a message
	}
	first := q.status == 0
	q.status = cmp.Or(q.status, status)
	if message := q.foreign(status); first && message != "" {
		q.Header().Del("Content-Length")
		writeRefusal(q, q.r, status, message)
		q.replaced = true
		return
	}
	q.ResponseWriter.WriteHeader(status)
}

// foreign returns the message of an error that a handler of another package has not written as a
// problem.
func (q *request) foreign(status int) string {
	switch status {
	case http.StatusNotFound:
		return fmt.Sprintf("there is no %.100q here", q.r.URL.Path)
	case http.StatusMethodNotAllowed:
		return fmt.Sprintf("the method is %.16s: want %s", q.r.Method, q.Header().Get("Allow"))
	case http.StatusUnsupportedMediaType:
		return fmt.Sprintf("the Content-Type %.100q is not one of %s", q.r.Header.Get("Content-Type"), q.Header().Get("Accept-Post"))
	}
	return ""
}

func (q *request) Write(b []byte) (int, error) {
	if q.replaced {
		return len(b), nil
	}
	q.status = cmp.Or(q.status, http.StatusOK)
	n, err := q.ResponseWriter.Write(b)
	q.bytes += int64(n)
	return n, err
}

// Flush is for streams.
func (q *request) Flush() { _ = http.NewResponseController(q.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (q *request) Unwrap() http.ResponseWriter { return q.ResponseWriter }
