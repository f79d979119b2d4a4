package lease

import (
	"context"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/tenure"
)

// Release ends the lease. The generator stops, and others may have the worker ID from the end of
// its last tick on. If this cannot be recorded, Release returns the store's error; the lease has
// ended nevertheless. Then, or if no generator was made, the worker ID becomes free after a window.
// Release waits for the store for a window, or for 1 s if that is more, and not past ctx. It may be
// called again.
func (l *Lease) Release(ctx context.Context) error {
	if l.grant.Load() == nil {
		return errZero
	}
	l.mu.Lock()
	stop := l.generator.Stop
	l.mu.Unlock()
	var next time.Time
	if stop != nil {
		next = stop(ErrReleased)
	}
	l.finish(ErrReleased)
	l.cancel()
	patient, cancel := context.WithTimeout(ctx, l.o.patience())
	defer cancel()
	t, err := l.calm(patient)
	if err != nil {
		return book.Unanswered(ctx, patient, err)
	}
	defer l.give(t)
	if t == nil || t.Record.State != StateHeld {
		return nil
	}
	if l.cloned(t) { // the other copy may stamp more than this generator knows
		l.countClone()
		return errCloned
	}
	if err := t.Release(l.line(patient), next, stop != nil); err != nil {
		return book.Unanswered(ctx, patient, err)
	}
	l.log.released(l, t.Record)
	return nil
}

// calm waits until the renewing goroutine has ended, and then takes the tenure.
func (l *Lease) calm(ctx context.Context) (*tenure.Tenure, error) {
	select {
	case <-l.ended:
		return l.take(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
