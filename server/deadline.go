package server

import (
	"context"
	"sync"
	"time"
)

// deadline is a context whose timer starts when somebody waits for the time to be up. Most calls do not wait, and a
// timer would be a tenth of what they cost.
type deadline struct {
	context.Context           // the parent
	until           time.Time // the zero time: no limit

	mu     sync.Mutex
	timed  context.Context // with the timer, nil until somebody waits
	cancel context.CancelFunc
}

// limit sets the time, unless the parent's is earlier. Nobody may have the context yet.
func (d *deadline) limit(until time.Time) {
	if parent, ok := d.Context.Deadline(); ok && parent.Before(until) {
		until = parent
	}
	d.until = until
}

func (d *deadline) Deadline() (time.Time, bool) {
	if d.until.IsZero() {
		return d.Context.Deadline()
	}
	return d.until, true
}

func (d *deadline) Done() <-chan struct{} {
	if d.until.IsZero() {
		return d.Context.Done()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.start().Done()
}

// Err asks the context with the timer once it is not nil, so that it stays the same.
func (d *deadline) Err() error {
	if d.until.IsZero() {
		return d.Context.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed == nil && d.Context.Err() == nil && time.Now().Before(d.until) {
		return nil
	}
	return d.start().Err()
}

// Value asks the context with the timer, so that contexts made of this one end with it without a goroutine.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	timed := d.timed
	d.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return d.Context.Value(key)
}

// start returns the context with the timer. d.mu must be held.
func (d *deadline) start() context.Context {
	if d.timed == nil {
		d.timed, d.cancel = context.WithDeadline(d.Context, d.until)
	}
	return d.timed
}

// stop stops the timer.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancel != nil {
		d.cancel()
	}
}
