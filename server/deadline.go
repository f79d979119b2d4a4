package server

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// within bounds the time of a request by its context.
func within(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(&deadline{Context: r.Context(), until: time.Now().Add(limit)}))
	})
}

// deadline is a context that ends at a time. Its timer starts when somebody waits for the end: most
// calls do not wait, and a timer would add a tenth to their cost.
type deadline struct {
	context.Context // of net/http, which ends it with the answer
	until           time.Time
	once            sync.Once
	timed           context.Context // with the timer; nil until Done is called
}

func (d *deadline) Deadline() (time.Time, bool) {
	if parent, ok := d.Context.Deadline(); ok && parent.Before(d.until) {
		return parent, true
	}
	return d.until, true
}

func (d *deadline) Done() <-chan struct{} {
	d.once.Do(func() {
		var stop context.CancelFunc
		d.timed, stop = context.WithDeadline(d.Context, d.until)
		context.AfterFunc(d.Context, stop)
	})
	return d.timed.Done()
}

func (d *deadline) Err() error {
	if err := d.Context.Err(); err != nil || time.Now().Before(d.until) {
		return err
	}
	return context.DeadlineExceeded
}

// paced bounds each wait of an answer in parts for the client, instead of the whole answer. The
// handler says by the pace when it begins to wait for something else.
func paced(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of(r.Context()).pace = pace{http.NewResponseController(w), limit}
		next.ServeHTTP(w, r)
	})
}

// pace sets the deadlines of a request's connection. None of its methods fails on the connections of
// net/http.
type pace struct {
	control *http.ResponseController // nil: leaves the deadlines as they are
	limit   time.Duration
}

// rest lets the client be silent: it waits for the server. Without that, net/http would end the
// request at the deadlines of the server.
func (p pace) rest() { p.set(time.Time{}) }

// goOn gives the client the limit for the next read or write.
func (p pace) goOn() { p.set(time.Now().Add(p.limit)) }

func (p pace) set(deadline time.Time) {
	if p.control != nil {
		_ = p.control.SetReadDeadline(deadline)
		_ = p.control.SetWriteDeadline(deadline)
	}
}
