package server

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// within gives the contexts of requests a deadline.
func within(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(&deadline{Context: r.Context(), until: time.Now().Add(limit)}))
	})
}

// deadline is a context with a deadline, whose timer starts with the first call of Done: most calls
// do not wait, and a timer would add a tenth to their cost.
type deadline struct {
	context.Context // of net/http, which ends it after the answer
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

// paced limits each read or write of a stream, instead of the whole answer. The handler uses the
// pace to suspend the limit while the client waits for the server.
func paced(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of(r.Context()).pace = pace{http.NewResponseController(w), limit}
		next.ServeHTTP(w, r)
	})
}

// pace sets the deadlines of a request's connection.
type pace struct {
	control *http.ResponseController // nil means no changes
	limit   time.Duration
}

// unlimitClient removes the deadlines, which net/http has set for the whole request.
func (p pace) unlimitClient() { p.set(time.Time{}) }

// limitClient limits the client's next read or write.
func (p pace) limitClient() { p.set(time.Now().Add(p.limit)) }

func (p pace) set(deadline time.Time) {
	if p.control != nil { // the connections of net/http support deadlines
		_ = p.control.SetReadDeadline(deadline)
		_ = p.control.SetWriteDeadline(deadline)
	}
}
