package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// move saves the record after change. change must not make a bound earlier that is in use.
// op must be held.
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
			l.saved, l.tried = time.Now(), nil // not before Renewed, so that no leap hides in the time that the save took
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

// maxTried is how many saves without an answer are remembered. If an older one is stored
// after all, the lease ends.
const maxTried = 1000

// look reads the stored record after a save whose result is not known. If it has another
// token, another process has the worker ID, and the lease is lost. If it has our token and
// is a record that we saved or tried to save, the lease goes on from it; an older record of
// ours counts too, because then the store lost the later ones. If it has our token and we
// never made it, a clone of this process did.
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
			return fmt.Errorf("%w: worker %d went to another holder, %s, at %s", ErrLost, r.Worker, r.holder(), formatTime(r.Renewed))
		}
	}
	return fmt.Errorf("%w: the record of worker %d is gone", ErrLost, own.Worker)
}
