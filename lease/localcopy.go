package lease

import (
	"context"
	"fmt"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/file"
	"github.com/seed-5394e6b1/snowflake/lease/internal/localcopy"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// local returns the store of the directory Options.LocalCopy.
func (o *Options) local() Store {
	f := o.disk
	if f == nil {
		f = machine.Disk
	}
	return file.NewCopy(o.LocalCopy, f, fileError)
}

// withLocalCopy returns s with copies in local, and adds the directory's identity to the owner's
// name.
func withLocalCopy(ctx context.Context, s, local Store, o *Options) (Store, error) {
	d := localcopy.Directory{Store: local, Path: o.LocalCopy, Failed: fileError}
	c, err := localcopy.New(ctx, s, d, o.Owner, o.patience())
	if err != nil {
		return nil, err
	}
	o.Owner = c.Owner()
	return c, nil
}

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
	w := book.WatchOf(s)
	r, refused, err := localcopy.Retire(book.LineTo(ctx, s), &w, worker)
	if refused != "" {
		return &RetireError{holderOf(r), refused}
	}
	return err
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
