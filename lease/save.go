package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// move saves the record after change. change must not make a bound earlier that is in use.
// If the record was lost and is put back, move returns errPutBack; change is not made. op
// must be held.
func (l *Lease) move(ctx context.Context, change func(Record) Record) error {
	own, savedAt := *l.record.Load(), l.savedAt
	defer func() { // also if the move fails: then the record may be that of a save whose answer was lost
		silence := l.silence(own, savedAt, l.record.Load().Renewed)
		l.overdue = l.overdue || silence > l.o.Window*15/16
	}()
	if l.unknown {
		if err := l.look(ctx); err != nil {
			return err
		}
	}
	for {
		old := *l.record.Load()
		read := l.o.now()
		saved, tried, err := replace(ctx, l.store, &l.o, old, change(old))
		if err == nil {
			l.record.Store(&saved)
			l.saved, l.savedAt, l.tried = l.steady(), read, nil // saved is not before Renewed, so that no leap hides in the time that the save took
			return nil
		}
		l.tried = append(l.tried[max(0, len(l.tried)+1-maxTried):], tried)
		l.unknown = true
		if !errors.Is(err, ErrConflict) {
			l.freed = l.freed || tried.State != Held
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

// look reads the stored record after a save whose result is not known, and finds out what it
// means. op must be held.
func (l *Lease) look(ctx context.Context) error {
	own := l.record.Load()
	found, err := getRecord(ctx, l.store, own.Worker)
	if errors.Is(err, ErrBadRecord) {
		return fmt.Errorf("%w: its record cannot be read: %w", ErrLost, err)
	}
	if err != nil {
		return err
	}
	kept, err := judge(*own, l.window, l.tried, found)
	if errors.Is(err, errGone) {
		return l.putBack(ctx, found)
	}
	if errors.Is(err, ErrLost) {
		stray, failed := isStray(ctx, l.store, found)
		if stray {
			failed = l.putBack(ctx, found)
		}
		if failed != nil && !errors.Is(failed, ErrLost) {
			return failed
		}
	}
	if err != nil {
		return err
	}
	if l.restoring {
		if err := l.mayRestore(ctx, *own); err != nil {
			return err
		}
		l.restoring = false
	}
	l.record.Store(&kept)
	l.saved, l.unknown = l.steady(), false
	return nil
}

// mayRestore returns an error that matches ErrLost if somebody may have taken the worker ID for
// free since own was saved, or since a release that had no answer. It is asked before the record is put back, and again when it is known
// to be there: if the process or the request stood still meanwhile, the record may have been
// another holder's, and have been lost once more. op must be held.
func (l *Lease) mayRestore(ctx context.Context, own Record) error {
	engine, err := clockOf(ctx, l.store)
	if err != nil {
		return err
	}
	now := l.o.now()
	switch {
	case l.freed || !own.restorable(l.window, now, l.silence(own, l.savedAt, time.Time{})):
		return fmt.Errorf("%w: the record of worker %d is gone, and may be another holder's", ErrLost, own.Worker)
	case !own.restorable(l.window, now, l.silence(own, l.savedAt, engine)):
		return fmt.Errorf("lease: the record of worker %d is gone, and is put back when the store's clock, which reads %s, is right again",
			own.Worker, formatTime(engine))
	}
	return nil
}

// errPutBack says that the record was lost and is there again, with the bound that it had.
var errPutBack = errors.New("lease: the record was lost, and was put back")

// putBack puts the record back in place of found, if nobody can have taken the worker ID
// for free since it was saved. op must be held.
func (l *Lease) putBack(ctx context.Context, found Record) error {
	own, now := *l.record.Load(), l.o.now()
	if err := l.mayRestore(ctx, own); err != nil {
		return err
	}
	if err := putMark(ctx, l.store, own); err != nil && !errors.Is(err, ErrWiped) {
		return err
	}
	next := own
	next.version, next.Saves = found.version, max(own.Saves, found.Saves)+1
	l.restoring = true
	saved, err := putRecord(ctx, l.store, next)
	if err != nil {
		l.tried = append(l.tried, next)
		return err
	}
	if err := l.mayRestore(ctx, own); err != nil {
		return err
	}
	l.restoring = false
	l.record.Store(&saved)
	l.saved, l.savedAt, l.unknown, l.tried = l.steady(), now, false, nil
	l.wiped.Store(true)
	l.mu.Lock()
	l.stats.Restored++
	l.mu.Unlock()
	l.log.putBack(l)
	return errPutBack
}
