package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

	// turn has room for one: whoever uses the store. It guards what follows.
	turn   chan struct{}
	shared map[int]*shared // by worker ID
	now    time.Time       // the shared store's time when it answered last,
	read   time.Time       // and when that was
}

// shared is what is known of a worker ID in the shared store.
type shared struct {
	version   uint64    // of the record, 0 if it is not known
	checked   bool      // the histories, here and there, were compared
	untold    []Holding // what is not in the history there yet
	forgotten time.Time // what ended before is not there, because the store is no Historian
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
	return &localCopy{
		Store: s, local: local, owner: o.Owner, patience: o.patience(),
		turn: make(chan struct{}, 1), shared: map[int]*shared{}, now: time.Now(), read: time.Now(),
	}, nil
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
	done, err := s.enter(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer done()
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
	case ctx.Err() != nil || len(own.Records) == 0 || errors.Is(err, ErrBadRecord) || errors.Is(err, ErrWiped):
		return snap, err
	default:
		s.isAway(err)
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
		if snap.Lost[r.Worker] != nil {
			continue // it is not known whose it is
		}
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

// enter waits for its turn.
func (s *localCopy) enter(ctx context.Context) (done func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Save saves a record here, and then tells the shared store. Only the first save
// of a worker ID needs the shared store, and only that may find nothing here: a
// copy that is gone might come back, as with a file system that was not mounted.
func (s *localCopy) Save(ctx context.Context, r Record) (Record, error) {
	return s.save(ctx, r, nil, func() (Record, error) { return s.local.Save(ctx, r) })
}

// SaveEnding is Save, with a history here and, if the shared store is a Historian,
// there.
func (s *localCopy) SaveEnding(ctx context.Context, r Record, ended Holding, forget time.Time) (Record, error) {
	return s.save(ctx, r, []Holding{ended}, func() (Record, error) { return s.local.SaveEnding(ctx, r, ended, forget) })
}

// History returns the history that is kept here.
func (s *localCopy) History(ctx context.Context, worker int) ([]Holding, error) {
	return s.local.History(ctx, worker)
}

func (s *localCopy) save(ctx context.Context, r Record, ended []Holding, local func() (Record, error)) (Record, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return r, err
	}
	defer done()
	own, err := s.local.LoadWorker(ctx, r.Worker)
	if err != nil {
		return r, err
	}
	if len(own.Records) == 0 {
		if r.Version > 1 {
			return r, s.refuse(r, ErrLost, "the copy is gone")
		}
		if _, err := s.Store.Save(ctx, r); err != nil {
			return r, err
		}
	} else if has := own.Records[0]; has.Owner != s.owner || has.State == Spent {
		is := ErrBadRecord
		if has.Token == r.Token {
			is = ErrLost
		}
		return r, s.refuse(r, is, fmt.Sprintf("it is the copy of a record that the store no longer has; "+
			"remove it when worker %d is to be used again", r.Worker))
	}
	saved, err := local()
	if err != nil {
		return r, err
	}
	there := s.shared[r.Worker]
	if there == nil {
		there = new(shared)
		s.shared[r.Worker] = there
	}
	there.untold = append(there.untold, ended...)
	err = s.tell(ctx, there, saved)
	saved.Renewed = s.now.Add(time.Since(s.read))
	return saved, err
}

// refuse is the error of a save that the copy does not allow.
func (s *localCopy) refuse(r Record, is error, why string) error {
	return &FileError{Path: s.local.Locate(r.Worker), Err: fmt.Errorf("%w: %s", is, why)}
}

// tell saves a record of ours in the shared store, whatever that has of ours. It
// fails only when the worker ID is no longer ours there.
func (s *localCopy) tell(ctx context.Context, there *shared, r Record) error {
	ctx, cancel := s.half(ctx)
	defer cancel()
	for {
		if there.version > 0 {
			err := s.share(ctx, there, r)
			if err == nil {
				s.away.Store(nil)
				return nil
			}
			there.version = 0
			if !errors.Is(err, ErrConflict) {
				s.isAway(err)
				return nil
			}
		}
		snap, err := s.Store.LoadWorker(ctx, r.Worker)
		if err != nil {
			s.isAway(err)
			return nil
		}
		found := ours(snap.Records, s.owner)
		if len(found) == 0 {
			return fmt.Errorf("%w: worker %d is no longer recorded as ours", ErrConflict, r.Worker)
		}
		there.version = found[0].Version
	}
}

// share saves r in the shared store, and what that was not told of the history.
func (s *localCopy) share(ctx context.Context, there *shared, r Record) error {
	h, ok := s.Store.(Historian)
	if !there.checked {
		if err := s.compare(ctx, h, there, r.Worker); err != nil {
			return err
		}
	}
	if !ok {
		for _, ended := range there.untold {
			there.forgotten = later(there.forgotten, ended.To)
		}
		there.untold = nil
	}
	r.Forgotten = later(r.Forgotten, there.forgotten)
	for {
		r.Version = there.version + 1
		var saved Record
		var err error
		if len(there.untold) == 0 {
			saved, err = s.Store.Save(ctx, r)
		} else {
			saved, err = h.SaveEnding(ctx, r, there.untold[0], r.Forgotten)
		}
		if err != nil {
			return err
		}
		there.version++
		s.now, s.read = saved.Renewed, time.Now()
		if len(there.untold) <= 1 {
			there.untold = nil
			return nil
		}
		there.untold = there.untold[1:]
	}
}

// compare finds what the shared store's history lacks, because a process that was
// here before could not tell it. If the store has no history, h is nil.
func (s *localCopy) compare(ctx context.Context, h Historian, there *shared, worker int) error {
	here, err := s.local.History(ctx, worker)
	if err != nil {
		return err
	}
	var has []Holding
	if h != nil {
		if has, err = h.History(ctx, worker); err != nil {
			return err
		}
	}
	there.checked = true
	has = append(has, there.untold...)
	for _, ended := range here {
		if !slices.ContainsFunc(has, ended.same) {
			there.untold = append(there.untold, ended)
		}
	}
	return nil
}

// isAway notes why the shared store was not told. A time-out does not hide what was
// wrong before it.
func (s *localCopy) isAway(err error) {
	if s.away.Load() == nil || !isTimeout(err) {
		s.away.Store(&err)
	}
}

// whyAway returns why the shared store was not told of the last move, or nil.
func (s *localCopy) whyAway() error {
	if err := s.away.Load(); err != nil {
		return *err
	}
	return nil
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
