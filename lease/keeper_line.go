package lease

import (
	"context"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
)

// line returns the line of the lease to its store.
func (l *Lease) line(ctx context.Context) book.Wire {
	return book.Wire{Ctx: ctx, Store: l.store, Asker: l.asker()}
}

// renewing returns the line of a renewal. Each request has a time-out of its own, so a slow store
// delays a renewal of several requests, but does not make it fail.
func (l *Lease) renewing(ctx context.Context) book.Wire {
	return book.Wire{Ctx: ctx, Store: l.store, Asker: l.asker(), Each: l.o.trip}
}

func (l *Lease) asker() book.Asker {
	return book.Asker{Now: l.o.now, Unstamped: l.unstamped, Failed: l.tripped, Restored: l.restored}
}

// restored notes that the record of a worker ID was lost, and was put back.
func (l *Lease) restored(worker int) {
	l.mu.Lock()
	l.wiped = true
	l.stats.Restored++
	l.mu.Unlock()
	l.log.restored(l, worker)
}

// searchTrip bounds a search's wait for an answer. If the search is to replace a lost
// worker ID, it waits no longer than a renewal does.
func (l *Lease) searchTrip() time.Duration {
	if l.trouble() != nil {
		return l.o.trip()
	}
	return l.o.patience()
}

// tripped notes that one request of a search failed. If the search is to replace a lost worker ID,
// calls get this error at once, instead of waiting until the whole search has failed.
func (l *Lease) tripped(err error) {
	l.mu.Lock()
	lost := l.loss
	if lost != nil {
		l.blame(unreplaced(lost, err), true, l.o.Window)
		l.wake()
	}
	l.mu.Unlock()
	if lost != nil {
		l.log.unreplaced(l, err)
	}
}
