package lease

import (
	"context"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/wiped"
)

// hasLost reports whether the store lost entries that this holder may have to put back.
func (l *Lease) hasLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.store.(book.Offline); ok && s.HasLost() {
		l.wiped = true
	}
	return l.wiped && l.away() == nil
}

// heal puts back the entries that the store lost besides the record of this holder.
func (l *Lease) heal(ctx context.Context) error {
	is := l.shown.Load()
	healed, err := wiped.Heal(l.renewing(ctx), &l.known.Watch, is.record, is.published)
	if healed {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.wiped = false
	}
	return err
}
