package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lose notes that the worker ID is another's. What its window has left may still be
// stamped, because the other's window begins after it.
func (l *Lease) lose(lost error) {
	l.op <- struct{}{}
	r := *l.record.Load()
	l.lost[r.Worker] = r.withBoundsOf(l.lost[r.Worker])
	l.record.Store(nil)
	l.granted = false
	l.mu.Lock()
	if s, ok := l.store.(*fileStore); ok && errors.Is(lost, errBegunAnew) {
		l.store = s.again()
	}
	l.loss, l.failing = lost, nil
	l.tell()
	l.mu.Unlock()
	l.unlock()
	l.log.lost(l, r.Worker, lost)
}

// replace takes another worker ID in place of one that was lost, for as long as that
// takes. It returns nil when that is granted, and an error when ctx is done.
func (l *Lease) replace(ctx context.Context, lost error) error {
	backoff := l.o.Window / 100
	for {
		err := l.obtain(ctx)
		if err == nil {
			l.succeed()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.note(time.Now(), unreplaced(lost, err), true)
		l.log.unreplaced(l, err)
		if err := sleep(ctx, jittered(backoff)); err != nil {
			return err
		}
		backoff = min(2*backoff, l.o.Window)
	}
}

// unreplaced is why there is no worker ID in place of one that was lost.
func unreplaced(lost, err error) error {
	return once(fmt.Errorf("%w; it was not replaced: %w", lost, err))
}

// tripped notes that the store did not answer, or not well, to one request of a search.
// If a lost worker ID is being replaced, calls do not wait until the whole search has
// failed.
func (l *Lease) tripped(err error) {
	l.mu.Lock()
	lost := l.loss
	if lost != nil {
		l.blame(unreplaced(lost, err), true)
		l.tell()
	}
	l.mu.Unlock()
	if lost != nil {
		l.log.unreplaced(l, err)
	}
}

// searchTrip is how long a search waits for the store at first: if it replaces a lost
// worker ID, no longer than a renewal does.
func (l *Lease) searchTrip() time.Duration {
	if l.trouble() != nil {
		return l.o.trip()
	}
	return l.o.patience()
}

// succeed grants the worker ID that replaces a lost one.
func (l *Lease) succeed() {
	l.op <- struct{}{}
	before := l.Worker()
	l.publish()
	l.unlock()
	l.log.replaced(l, before)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loss, l.failing, l.stats.LastError = nil, nil, nil
	l.stats.Replacements++
	l.tell()
}
