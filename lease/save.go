package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// move saves the record changed by change, which must not make less of a bound
// that is in use. The caller holds op.
func (l *Lease) move(ctx context.Context, change func(Record) Record) error {
	if l.unknown {
		if err := l.look(ctx); err != nil {
			return err
		}
	}
	for {
		old := *l.record.Load()
		r := change(old)
		r.Version++
		saved, err := replace(ctx, l.store, &l.o, old, r)
		if err == nil {
			l.record.Store(&saved)
			l.saved, l.tried = time.Now(), nil // not before Renewed, so that no leap hides in how long it took
			return nil
		}
		l.tried = append(l.tried[max(0, len(l.tried)+1-maxTried):], r)
		l.unknown = true
		if !errors.Is(err, ErrConflict) {
			return err
		}
		if err := l.look(ctx); err != nil {
			return err
		}
	}
}

// maxTried is how many saves without an answer are remembered. One that is older
// and comes true after all ends the lease.
const maxTried = 1000

// look finds out what is stored, after a save of which that is not known: our
// own record, then we go on from it; or another's, then the lease is lost. One
// that has our token, and that we did not save, is that of a clone of ours. An
// older one is ours, too: the store lost what came after.
func (l *Lease) look(ctx context.Context) error {
	own := l.record.Load()
	snap, err := l.store.LoadWorker(ctx, own.Worker)
	if err != nil {
		return err
	}
	for _, r := range snap.Records {
		switch {
		case r.Worker != own.Worker:
		case r.Token == own.Token && (r.Version <= own.Version || slices.ContainsFunc(l.tried, r.same)):
			l.record.Store(&r)
			l.saved = time.Now()
			l.unknown = false
			return nil
		default:
			return fmt.Errorf("%w: worker %d went to another, %s, at %s", ErrLost, r.Worker, r.holder(), formatTime(r.Renewed))
		}
	}
	return fmt.Errorf("%w: the record of worker %d is gone", ErrLost, own.Worker)
}
