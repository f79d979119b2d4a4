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

// request is the context of a request, its ResponseWriter, the room that it takes, and what the log
// will say of it.
type request struct {
	context.Context           // of net/http
	until           time.Time // the context's end
	once            sync.Once
	timed           context.Context // with a timer; nil until Done is called

	http.ResponseWriter
	r        *http.Request
	replaced bool // whether the server has replaced the handler's body of an error
	status   int
	bytes    int64

	begun  time.Time
	client string
	load   *load
	taken  int64
	token  Token
	quota  *rate.Limiter // of the token; nil if there is none
	code   string        // of the server's error; empty if there is none
	cause  error         // for the log, if the client got another error
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

// Done starts the timer. Most calls do not wait, and a timer would add a tenth to their cost.
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

// take takes room for n more until the request ends.
func (q *request) take(n int64) error {
	err := q.load.add(q.client, n)
	if err == nil {
		q.taken += n
	}
	return err
}

// end returns the room.
func (q *request) end() {
	if q.taken > 0 {
		_ = q.load.add(q.client, -q.taken) // returning room does not fail
	}
}

// goOn gives a stream another Timeout to write the next answer. It reads no more.
func (q *request) goOn(while time.Duration) {
	control := http.NewResponseController(q.ResponseWriter)
	_ = control.SetReadDeadline(time.Time{}) // neither fails on the connections of net/http
	_ = control.SetWriteDeadline(time.Now().Add(while))
}

// WriteHeader notes the status. It gives the errors of net/http, of connect and of Home the form of
// all errors.
func (q *request) WriteHeader(status int) {
	if status == http.StatusTooManyRequests && q.code == "" {
		status = http.StatusRequestEntityTooLarge // connect refused a message for its size
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

// foreign returns the message of an error that a handler of another package wrote, unless it is a
// problem already.
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
