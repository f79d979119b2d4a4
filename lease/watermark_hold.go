package lease

import (
	"time"

	"github.com/seed-5394e6b1/snowflake/internal/times"
	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
)

// Hold keeps the watermark below every ID that the lease's generator issues between Hold and done.
// Call it before a transaction's first ID, and call done, once or more, after the transaction has
// committed or rolled back. A Hold costs no request. It also ends with the lease or the process,
// and with the window of a lost worker ID.
func (l *Lease) Hold() (done func()) {
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	from, _ := l.next()
	if l.holds.open == nil {
		l.holds.open = map[*time.Time]struct{}{}
	}
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
	floor := l.generator.Floor
	l.mu.Unlock()
	if floor != nil {
		at = floor()
	}
	if at.IsZero() {
		return l.Grant().From, false
	}
	return at, true
}

// unstamped returns what may still be stamped. The generator closes the ticks before it.
func (l *Lease) unstamped() (u book.Unstamped) {
	if u.Granted = l.grant.Load() != nil; u.Granted {
		next, ok := l.next()
		u.Next, u.Fixed = next, !ok
	}
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	for from := range l.holds.open {
		if u.Open.IsZero() || from.Before(u.Open) {
			u.Open = *from
		}
	}
	return u
}

// lower notes that the generator may go back to at, so that an open Hold may stamp it.
func (l *Lease) lower(at time.Time) {
	l.holds.mu.Lock()
	defer l.holds.mu.Unlock()
	for from := range l.holds.open {
		*from = times.Earlier(*from, at)
	}
}
