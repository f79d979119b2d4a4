package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// localCopy is a Store whose records of one owner are kept on this host, in a
// file store, and are the ones that count: nobody else writes them, because the
// owner's name has the identity of the directory in it, and worker IDs that are
// kept go to no other owner. The shared store says which worker ID is whose, and
// is told of every move where it can be reached.
type localCopy struct {
	Store // the shared one
	local *fileStore
	owner string

	patience time.Duration         // with the shared store
	away     atomic.Pointer[error] // why the shared store was not told of the last move

	version uint64    // guarded by Lease.op: of the record in the shared store, 0 where not known
	now     time.Time // guarded by Lease.op: the shared store's time when it answered last,
	read    time.Time // guarded by Lease.op: and when that was
}

// withLocalCopy returns s with copies, and makes the directory's identity a part
// of the owner's name.
func withLocalCopy(ctx context.Context, s Store, o *Options) (Store, error) {
	ctx, cancel := context.WithTimeout(ctx, o.patience())
	defer cancel()
	local := &fileStore{dir: o.LocalCopy, copy: true, disk: osDisk{}}
	id, err := run(ctx, local, "identity", func(op *operation) (string, error) {
		if shared, ok := s.(*fileStore); ok && op.sameDir(shared.dir, local.dir) {
			return "", fmt.Errorf("%w: LocalCopy is the directory of the store itself, %s", ErrInvalidOptions, local.dir)
		}
		return local.enter(op)
	})
	if err != nil {
		return nil, err
	}
	o.Owner += " @" + id
	return &localCopy{Store: s, local: local, owner: o.Owner, patience: o.patience(), now: time.Now(), read: time.Now()}, nil
}

func (o *operation) sameDir(a, b string) bool {
	x, err1 := filepath.Abs(a)
	y, err2 := filepath.Abs(b)
	if err1 == nil && err2 == nil && x == y {
		return true
	}
	infoA, err1 := o.stat(a)
	infoB, err2 := o.stat(b)
	return err1 == nil && err2 == nil && os.SameFile(infoA, infoB)
}

// Load returns what the shared store has, and our own records as they are here.
// Where the shared store does not answer, our own are all there is.
func (s *localCopy) Load(ctx context.Context) (Snapshot, error) {
	return s.load(ctx, s.local.Load, s.Store.Load)
}

// LoadWorker is Load for one worker ID.
func (s *localCopy) LoadWorker(ctx context.Context, worker int) (Snapshot, error) {
	one := func(s Store) func(context.Context) (Snapshot, error) {
		return func(ctx context.Context) (Snapshot, error) { return s.LoadWorker(ctx, worker) }
	}
	return s.load(ctx, one(s.local), one(s.Store))
}

func (s *localCopy) load(ctx context.Context, local, shared func(context.Context) (Snapshot, error)) (Snapshot, error) {
	own, err := local(ctx)
	if err != nil {
		return own, err
	}
	own.Records = ours(own.Records, s.owner)
	half, cancel := s.half(ctx)
	defer cancel()
	snap, err := shared(half)
	switch {
	case err == nil:
	case ctx.Err() != nil || len(own.Records) == 0 || errors.Is(err, ErrBadRecord):
		return snap, err
	default:
		s.away.Store(&err)
		return own, nil
	}
	s.now, s.read = snap.Now, time.Now()
	copies := map[int]Record{}
	for _, r := range own.Records {
		copies[r.Worker] = r
	}
	for i, shared := range snap.Records {
		if shared.Owner != s.owner {
			continue
		}
		if r, ok := copies[shared.Worker]; ok {
			delete(copies, shared.Worker)
			r.Renewed = snap.Now.Add(r.Renewed.Sub(own.Now))
			snap.Records[i] = r.withBoundsOf(shared)
		} else { // what was stamped is not known
			snap.Records[i].State = Spent
		}
	}
	for _, r := range copies {
		if err := s.retire(ctx, r); err != nil {
			return snap, err
		}
	}
	return snap, nil
}

// withBoundsOf returns r with the later one of both records' bounds of each clock
// sequence.
func (r Record) withBoundsOf(other Record) Record {
	seq := r.ClockSeq
	for i, bound := range other.Bounds {
		r = r.withBound(i, later(r.bound(i), bound))
	}
	r.ClockSeq = seq
	return r
}

// retire keeps a worker ID that is no longer recorded as ours from being taken
// while the shared store is away.
func (s *localCopy) retire(ctx context.Context, r Record) error {
	if r.State == Spent {
		return nil
	}
	r.State = Spent
	r.Version++
	_, err := s.local.Save(ctx, r)
	return err
}

func ours(records []Record, owner string) (own []Record) {
	for _, r := range records {
		if r.Owner == owner {
			own = append(own, r)
		}
	}
	return own
}

// Save saves a record here, and then tells the shared store. Only the first one
// of a worker ID needs the shared store, and only that may find nothing here: a
// copy that is gone might come back, as with a file system that was not mounted.
func (s *localCopy) Save(ctx context.Context, r Record) (Record, error) {
	own, err := s.local.LoadWorker(ctx, r.Worker)
	switch {
	case err != nil:
		return r, err
	case len(own.Records) == 0 && r.Version > 1:
		return r, &FileError{Path: s.local.Locate(r.Worker), Err: fmt.Errorf("%w: the copy is gone", ErrLost)}
	case len(own.Records) == 0:
		if _, err := s.Store.Save(ctx, r); err != nil {
			return r, err
		}
	case own.Records[0].Owner != s.owner || own.Records[0].State == Spent:
		return r, &FileError{Path: s.local.Locate(r.Worker), Err: fmt.Errorf(
			"%w: it is the copy of a record that the store no longer has; remove it when worker %d is to be used again", ErrLost, r.Worker)}
	}
	saved, err := s.local.Save(ctx, r)
	if err != nil {
		return r, err
	}
	err = s.tell(ctx, saved)
	saved.Renewed = s.now.Add(time.Since(s.read))
	return saved, err
}

// tell saves a record of ours in the shared store, whatever it has of ours. It
// fails only when the worker ID is no longer ours there.
func (s *localCopy) tell(ctx context.Context, r Record) error {
	ctx, cancel := s.half(ctx)
	defer cancel()
	for {
		if s.version > 0 {
			shared := r
			shared.Version = s.version + 1
			shared, err := s.Store.Save(ctx, shared)
			if err == nil {
				s.version++
				s.now, s.read = shared.Renewed, time.Now()
				s.away.Store(nil)
				return nil
			}
			s.version = 0
			if !errors.Is(err, ErrConflict) {
				s.away.Store(&err)
				return nil
			}
		}
		snap, err := s.Store.LoadWorker(ctx, r.Worker)
		if err != nil {
			s.away.Store(&err)
			return nil
		}
		shared := ours(snap.Records, s.owner)
		if len(shared) == 0 {
			return fmt.Errorf("%w: worker %d is no longer recorded as ours", ErrConflict, r.Worker)
		}
		s.version = shared[0].Version
	}
}

// half leaves time to go on without the shared store.
func (s *localCopy) half(ctx context.Context) (context.Context, context.CancelFunc) {
	if by, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(by)/2)
	}
	return context.WithTimeout(ctx, s.patience)
}

// Locate returns where the shared store keeps a record, if it says so.
func (s *localCopy) Locate(worker int) string {
	if located, ok := s.Store.(Locator); ok {
		return located.Locate(worker)
	}
	return ""
}
