package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/protocol"
)

// Retire says that the directory of a worker ID's LocalCopy is gone for good: the pod had it in an
// emptyDir, or the disk was replaced. Nobody else can know that, so the worker ID is kept for its
// owner, and its record keeps the [Watermark] back, until somebody calls Retire. After it the
// worker ID is never used again, and keeps the watermark back only until its bound has passed.
// Whois still returns ErrNotReported for what the owner may have issued, and not told the store.
//
// Retire returns when the record has not changed for the holder's window, which may be known
// already. If it changes, or is of a holder without a LocalCopy, the error is a [*RetireError].
// Other errors are the store's, or ctx's. A worker ID that is retired already stays so.
//
// HAZARD: if the directory is there after all, no ID repeats, because nobody else gets the worker
// ID. But until the store answers, a process that has the directory issues IDs which the watermark
// may have passed, and a reader misses their rows. When the store answers, the process removes its
// copy, what it has not told the store is lost to Whois, and it takes another worker ID.
func Retire(ctx context.Context, s Store, worker int) error {
	if worker < 0 {
		return &RetireError{Holder{Worker: worker}, "nobody has it"}
	}
	from, w, version := book.LineTo(ctx, s), book.WatchOf(s), ""
	for conflicts := 0; ; {
		asked := from.Read().Moment
		r, err := book.GetRecord(from, worker)
		switch {
		case err != nil:
			return err
		case r.Retired():
			return nil
		case r.Version == "":
			return &RetireError{holderOf(r), "nobody has it"}
		case !r.Copy:
			return &RetireError{holderOf(r), "it has no local copy"}
		case version != "" && version != r.Version:
			return &RetireError{holderOf(r), "it was renewed, so its local copy is there"}
		}
		version = r.Version
		now := from.Read()
		c := protocol.Clocks{Own: now.Own}
		if c.Engine, err = from.Engine(); err != nil {
			return err
		}
		w.Seen.Sees(book.RecordKey(worker), version, now.At, protocol.Healing(r.Layout.Unit))
		if r.Live(w.Silent(r, asked, c)) {
			if err = w.Share(from, []protocol.Record{r}, asked); err != nil {
				return err
			}
		}
		silent := w.Silent(r, asked, c)
		if !r.Live(silent) {
			if _, err = book.PutRecord(from, r.Retire(c)); !errors.Is(err, ErrConflict) || conflicts == book.MaxConflicts {
				return err
			}
			conflicts++
			continue
		}
		if err = from.Rest(min(r.Window-silent, r.Window/8) + time.Millisecond); err != nil {
			return fmt.Errorf("worker %d is retired when its record has not changed for %v: %w", worker, r.Window, err)
		}
	}
}

// RetireError says why Retire left a worker ID as it is.
type RetireError struct {
	Holder Holder // who has it; if nobody has it, only Worker is set
	Why    string
}

func (e *RetireError) Error() string {
	text := fmt.Sprintf("lease: worker %d is not retired: %s", e.Holder.Worker, e.Why)
	if e.Holder.Owner != "" {
		text += fmt.Sprint(": ", e.Holder)
	}
	return text
}
