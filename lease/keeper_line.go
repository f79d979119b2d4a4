package lease

import "context"

// line returns the line of the lease to its store.
func (l *Lease) line(ctx context.Context) wire {
	return wire{ctx: ctx, store: l.store, asker: l.asker()}
}

// renewing returns the line of a renewal. Each request has a time-out of its own, so a slow store
// delays a renewal of several requests, but does not make it fail.
func (l *Lease) renewing(ctx context.Context) wire {
	return wire{ctx, l.store, l.asker(), l.o.trip}
}

func (l *Lease) asker() asker { return asker{l.o.now, l.floor, l.tripped, l.restored} }

// away returns why a LocalCopy could not tell the store, nil if it could.
func (l *Lease) away() error { return whyAway(l.store) }

// restored notes that the record of a worker ID was lost, and was put back.
func (l *Lease) restored(worker int) {
	l.mu.Lock()
	l.wiped = true
	l.stats.Restored++
	l.mu.Unlock()
	l.log.restored(l, worker)
}
