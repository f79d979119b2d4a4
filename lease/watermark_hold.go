package lease

import (
	"context"
	"sync"
	"time"
)

// holds are the open Holds of a lease, and the first instant that each of them may have stamped.
type holds struct {
	mu   sync.Mutex
	open map[*time.Time]struct{}
}

// Hold keeps the watermark below every ID that the lease's generator issues between Hold and
// done. Call it before a transaction issues its first ID, and call done after the transaction
// has committed or rolled back; it may be called again. A Hold costs no request. It ends with the
// lease, when the process ends, and when the lease has lost its worker ID and the lost window
// has passed.
func (l *Lease) Hold() (done func()) {
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	from, _ := l.next()
	l.holds.open[&from] = struct{}{}
	return func() {
		l.holds.mu.Lock()
		defer l.holds.mu.Unlock()
		delete(l.holds.open, &from)
	}
}

// next returns the first instant that the generator may still stamp. If ok is false, it may stamp
// all of its grant.
func (l *Lease) next() (at time.Time, ok bool) {
	l.mu.Lock()
	floor := l.bound.Floor
	l.mu.Unlock()
	if floor != nil {
		at = floor()
	}
	if at.IsZero() {
		return l.Grant().From, false
	}
	return at, true
}

// floor returns what may still be stamped. The generator closes the ticks before it.
func (l *Lease) floor() (f floor) {
	if f.granted = l.grant.Load() != nil; f.granted {
		next, ok := l.next()
		f.next, f.fixed = next, !ok
	}
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	for from := range l.holds.open {
		if f.open.IsZero() || from.Before(f.open) {
			f.open = *from
		}
	}
	return f
}

// lower notes that the generator may go back to at, so that an open Hold may stamp it.
func (l *Lease) lower(at time.Time) {
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	for from := range l.holds.open {
		*from = earlier(*from, at)
	}
}

// readers is what a keeper knows of those who read the watermark.
type readers struct {
	version string    // of the watermark's entry
	looked  time.Time // when it was last read,
	changed time.Time // and when it was last found changed
}

// pace shortens the wait until the next renewal to Options.FloorEvery if the watermark has been
// read within a window: then its entry changes. pace looks at it three times in a window, because a
// look costs a request.
func (r *readers) pace(ctx context.Context, l *Lease, wait time.Duration) time.Duration {
	if l.o.FloorEvery == 0 {
		return wait
	}
	begun := timeNow()
	if begun.Sub(r.looked) > l.o.Window/4 {
		patient, cancel := context.WithTimeout(ctx, l.o.trip())
		defer cancel()
		if m, err := getMark(l.line(patient)); err == nil && m.version != r.version {
			r.version, r.changed = m.version, begun
		}
		r.looked = begun
	}
	if begun.Sub(r.changed) < l.o.Window {
		wait = min(wait, l.o.FloorEvery)
	}
	return max(0, wait-timeSince(begun))
}
