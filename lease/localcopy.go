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

// Retire gives up a worker ID whose LocalCopy is gone for good: its directory was in an emptyDir,
// or the disk was replaced. Until then the worker ID is kept for its owner, and its record keeps
// the [Watermark] back. Afterwards it is not used again, and keeps the watermark back until its
// bound has passed. Whois still returns ErrNotReported for unreported IDs of the owner.
//
// Retire waits until the record is known not to have changed for its holder's window. If it
// changes, or its holder has no LocalCopy, the error is a [*RetireError]. Other errors are the
// store's, or ctx's. Retire may be called again.
//
// HAZARD: if the directory exists after all, no ID repeats. But until the store answers, a process
// with the directory issues IDs that the watermark may have passed, and a reader misses their rows.
// Then it takes another worker ID and removes its copy, and Whois cannot find unreported IDs.
func Retire(ctx context.Context, s Store, worker int) error {
	w := book.WatchOf(s)
	r, refused, err := localcopy.Retire(book.LineTo(ctx, s), &w, worker)
	if refused != "" {
		return &RetireError{holderOf(r), refused}
	}
	return err
}

// RetireError is the error of Retire for a worker ID that it left as it is. It matches
// [ErrNotRetired].
type RetireError struct {
	Holder Holder // if nobody has the worker ID, only Worker is set
	Why    string
}

func (e *RetireError) Error() string {
	text := fmt.Sprintf("lease: worker %d is not retired: %s", e.Holder.Worker, e.Why)
	if e.Holder.Owner != "" {
		text += fmt.Sprint(": ", e.Holder)
	}
	return text
}

func (e *RetireError) Is(target error) bool { return target == ErrNotRetired }
