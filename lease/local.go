package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// localCopy is a Store whose records of one owner are kept on this host, in a
// file store, and are the ones that count: nobody else writes them, because the
// owner's name has the identity of the directory in it, and worker IDs that are
// kept go to no other owner. The shared store says which worker ID is whose, and
// is told of every move where it can be reached.
//
// A worker ID is taken in three saves: here as wanted, in the shared store as held,
// here as held. After any crash the record here says what was stamped:
//
// INVARIANT: while the record here is wanted, nobody who has this directory has stamped
// the worker ID at or after the bounds that it has. So a record in the shared store of an
// owner of this directory is then as good as free from these bounds on.
//
// Why it holds. Stamping begins after the third save, and each save here names the
// version that it was made from. Whoever takes, or gives back, what another one wants
// saves here first, so that the other one's third save fails.
type localCopy struct {
	Store // the shared one
	local *fileStore
	owner string

	patience time.Duration         // with the shared store
	away     atomic.Pointer[error] // why the shared store was not told of the last move

	// turn has room for one: whoever uses the store. It guards what follows.
	turn   chan struct{}
	seen   map[int]seen    // by worker ID
	shared map[int]*shared // by worker ID
	now    time.Time       // the shared store's time when it answered last,
	read   time.Time       // and when that was
}

// wanted is the state of a record in a LocalCopy whose worker ID is about to be taken.
const wanted State = "wanted"

// seen is what the lease was told of a worker ID last.
type seen struct {
	version  uint64      // of the record here, 0 if there is none
	bounds   []time.Time // up to which others may have stamped
	clockSeq int
}

// shared is what is known of a worker ID in the shared store.
type shared struct {
	record    Record    // as it is there; its Version is 0 if that is not known
	token     string    // of the acquisition that was saved here
	checked   bool      // the histories, here and there, were compared
	untold    []Holding // what is not in the history there yet
	forgotten time.Time // what ended before is not there, because the store is no Historian
}

// copyMark stands between an owner's name and the identity of its LocalCopy.
const copyMark = " @"

// hasCopy reports whether the owner of a record has a LocalCopy.
func hasCopy(r Record) bool {
	i := strings.LastIndex(r.Owner, copyMark)
	return r.Reuse == ReuseKeep && i >= 0 && len(r.Owner[i+len(copyMark):]) == len(rand.Text())
}

// withLocalCopy returns s with copies, and makes the directory's identity a part
// of the owner's name.
func withLocalCopy(ctx context.Context, d disk, s Store, o *Options) (Store, error) {
	ctx, cancel := context.WithTimeout(ctx, o.patience())
	defer cancel()
	local := &fileStore{dir: o.LocalCopy, copy: true, disk: d}
	id, err := run(ctx, local, "identity", func(op *operation) (string, error) {
		if shared, ok := s.(*fileStore); ok && op.sameDir(shared.dir, local.dir) {
			return "", fmt.Errorf("%w: LocalCopy is the directory of the store itself, %s", ErrInvalidOptions, local.dir)
		}
		return local.enter(op)
	})
	if err != nil {
		return nil, err
	}
	o.Owner += copyMark + id
	return &localCopy{
		Store: s, local: local, owner: o.Owner, patience: o.patience(),
		turn: make(chan struct{}, 1), seen: map[int]seen{}, shared: map[int]*shared{}, now: time.Now(), read: time.Now(),
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
// If the shared store does not answer, or its directory is not there, our own are all
// there is. It tells the shared store what it was not told of them, and gives back what
// was wanted in vain.
func (s *localCopy) Load(ctx context.Context) (Snapshot, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer done()
	clear(s.seen)
	snap, copies, err := s.load(ctx, s.local.Load, s.Store.Load)
	if err != nil || copies.away {
		return snap, err
	}
	for _, r := range copies.kept {
		if err := s.catchUp(ctx, r); err != nil {
			return snap, err
		}
	}
	for i, r := range snap.Records {
		if r.Owner == s.owner && r.State == Free && r.Reuse != ReuseKeep && len(copies.kept) > 0 {
			if given, err := s.giveBack(ctx, r, copies.all[r.Worker]); err == nil {
				snap.Records[i] = given
			}
		}
	}
	return snap, nil
}

// LoadWorker is Load for one worker ID.
func (s *localCopy) LoadWorker(ctx context.Context, worker int) (Snapshot, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer done()
	delete(s.seen, worker)
	one := func(s Store) func(context.Context) (Snapshot, error) {
		return func(ctx context.Context) (Snapshot, error) { return s.LoadWorker(ctx, worker) }
	}
	snap, _, err := s.load(ctx, one(s.local), one(s.Store))
	return snap, err
}

// copies are the records here.
type copies struct {
	all  map[int]Record // by worker ID
	kept []Record       // our own, which the shared store has as ours, too
	away bool           // it did not answer
}

func (s *localCopy) load(ctx context.Context, local, shared func(context.Context) (Snapshot, error)) (Snapshot, copies, error) {
	c := copies{all: map[int]Record{}}
	here, err := local(ctx)
	if err != nil {
		return here, c, err
	}
	own := Snapshot{Now: here.Now}
	for _, r := range here.Records {
		c.all[r.Worker] = r
		s.seen[r.Worker] = seen{version: r.Version}
		if s.counts(r) {
			own.Records = append(own.Records, r)
		}
	}
	if f, ok := s.Store.(*fileStore); ok && len(own.Records) > 0 {
		f.used.Store(true)
	}
	half, cancel := s.half(ctx)
	defer cancel()
	snap, err := shared(half)
	switch {
	case err == nil:
	case ctx.Err() != nil || len(own.Records) == 0 || errors.Is(err, ErrBadRecord) || mayBegin(err):
		return snap, c, err
	default:
		s.isAway(err)
		c.away = true
		return own, c, nil
	}
	s.now, s.read = snap.Now, time.Now()
	lost := maps.Clone(c.all)
	for i, there := range snap.Records {
		r, copied := c.all[there.Worker]
		switch {
		case there.Owner != s.owner:
		case copied && r.State == wanted:
			snap.Records[i] = unstamped(there, r)
		case copied && r.Owner == s.owner:
			delete(lost, r.Worker)
			if s.counts(r) {
				c.kept = append(c.kept, r)
				s.known(r.Worker).record = there
			}
			r.Renewed = snap.Now.Add(r.Renewed.Sub(here.Now))
			snap.Records[i] = r.withBoundsOf(there)
		default: // what was stamped is not known
			snap.Records[i].State = Spent
		}
		is := snap.Records[i]
		s.seen[is.Worker] = seen{r.Version, is.Bounds, is.ClockSeq}
	}
	for _, r := range lost {
		if s.counts(r) && snap.Lost[r.Worker] == nil { // else it is not known whose it is
			if err := s.retire(ctx, r); err != nil {
				return snap, c, err
			}
		}
	}
	return snap, c, nil
}

// counts reports whether r, a record here, counts: it is our own, and its worker ID was
// not only wanted, nor was it lost.
func (s *localCopy) counts(r Record) bool {
	return r.Owner == s.owner && r.State != wanted && r.State != Spent
}

func (s *localCopy) known(worker int) *shared {
	there := s.shared[worker]
	if there == nil {
		there = new(shared)
		s.shared[worker] = there
	}
	return there
}

// unstamped returns a record of the shared store as it was before it was taken, because
// the one here says that it is only wanted.
func unstamped(there, here Record) Record {
	there.State, there.Reuse = Free, ReuseAny
	there.Bounds, there.ClockSeq = here.Bounds, here.ClockSeq
	there.From = there.Bound()
	return there
}

// want returns the record that is saved here before r is saved in the shared store.
func want(r Record, version uint64, before seen) Record {
	r.State, r.Version = wanted, version
	r.Bounds, r.ClockSeq = before.bounds, before.clockSeq
	if len(r.Bounds) == 0 {
		r.Bounds = make([]time.Time, 1)
	}
	r.From = r.Bound()
	return r
}

// catchUp tells the shared store what it was not told of r, a record here.
func (s *localCopy) catchUp(ctx context.Context, r Record) error {
	there := s.known(r.Worker)
	if !there.checked {
		h, _ := s.Store.(Historian)
		if err := s.compare(ctx, h, there, r.Worker); err != nil {
			s.isAway(err)
			return nil
		}
	}
	is := r
	is.Version = there.record.Version
	if is.same(there.record) && len(there.untold) == 0 {
		return nil
	}
	err := s.tell(ctx, there, r)
	if errors.Is(err, ErrConflict) {
		return nil // whoever takes it finds out
	}
	return err
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
	return s.save(ctx, r, nil, func(r Record) (Record, error) { return s.local.Save(ctx, r) })
}

// SaveEnding is Save, with a history here and, if the shared store is a Historian,
// there.
func (s *localCopy) SaveEnding(ctx context.Context, r Record, ended Holding, forget time.Time) (Record, error) {
	return s.save(ctx, r, []Holding{ended}, func(r Record) (Record, error) { return s.local.SaveEnding(ctx, r, ended, forget) })
}

// History returns the history that is kept here.
func (s *localCopy) History(ctx context.Context, worker int) ([]Holding, error) {
	return s.local.History(ctx, worker)
}

func (s *localCopy) save(ctx context.Context, r Record, ended []Holding, local func(Record) (Record, error)) (Record, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return r, err
	}
	defer done()
	snap, err := s.local.LoadWorker(ctx, r.Worker)
	if err != nil {
		return r, err
	}
	var has Record
	if len(snap.Records) > 0 {
		has = snap.Records[0]
	}
	first := has.Version == 0 || has.State == wanted
	there := s.known(r.Worker)
	switch {
	case first && r.Token == there.token:
		return r, s.refuse(r, ErrLost, "the copy is gone")
	case !first && !s.counts(has):
		is := ErrBadRecord
		if has.Token == r.Token {
			is = ErrLost
		}
		return r, s.refuse(r, is, fmt.Sprintf("it is the copy of a record that the store no longer has; "+
			"remove it when worker %d is to be used again", r.Worker))
	case has.Version != s.seen[r.Worker].version:
		return r, conflict(r, has.Version)
	case r.Reuse != ReuseKeep:
		return s.giveBack(ctx, r, has)
	case first:
		return s.take(ctx, r, ended, local)
	}
	saved, err := local(r)
	if err != nil {
		return r, err
	}
	s.saved(saved)
	there.untold = append(there.untold, ended...)
	err = s.tell(ctx, there, saved)
	saved.Renewed = s.now.Add(time.Since(s.read))
	return saved, err
}

// saved notes that a record of ours was saved here.
func (s *localCopy) saved(r Record) {
	s.known(r.Worker).token = r.Token
	s.see(r)
}

func (s *localCopy) see(here Record) {
	is := s.seen[here.Worker]
	is.version = here.Version
	s.seen[here.Worker] = is
}

// take saves the first record of a worker ID of ours. The versions here and in the shared
// store differ.
func (s *localCopy) take(ctx context.Context, r Record, ended []Holding, local func(Record) (Record, error)) (Record, error) {
	before := s.seen[r.Worker]
	wants, err := s.local.Save(ctx, want(r, before.version+1, before))
	if err != nil {
		return r, err
	}
	s.see(wants)
	there := &shared{record: Record{Version: r.Version - 1}, checked: true, untold: ended}
	if err := s.share(ctx, there, r); err != nil {
		return r, err
	}
	r.Version = wants.Version + 1
	held, err := local(r)
	if err != nil {
		return r, err
	}
	s.shared[r.Worker] = there
	s.saved(held)
	s.away.Store(nil)
	held.Renewed = s.now.Add(time.Since(s.read))
	return held, nil
}

// giveBack lets everybody have a worker ID that was taken, and not stamped; r is what it
// was before, and has is the record here.
func (s *localCopy) giveBack(ctx context.Context, r, has Record) (Record, error) {
	wants, err := s.local.Save(ctx, want(r, has.Version+1, seen{has.Version, r.Bounds, r.ClockSeq}))
	if err != nil {
		return r, err
	}
	s.see(wants)
	delete(s.shared, r.Worker)
	snap, err := s.Store.LoadWorker(ctx, r.Worker)
	if err != nil {
		return r, err
	}
	for _, there := range ours(snap.Records, s.owner) {
		if there.Token == r.Token {
			r.Owner, r.Version = "", there.Version+1
			return s.Store.Save(ctx, r)
		}
	}
	return r, conflict(r, 0)
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
		if there.record.Version > 0 {
			err := s.share(ctx, there, r)
			if err == nil {
				s.away.Store(nil)
				return nil
			}
			there.record.Version = 0
			if mayBegin(err) {
				return err
			}
			if !errors.Is(err, ErrConflict) {
				s.isAway(err)
				return nil
			}
		}
		snap, err := s.Store.LoadWorker(ctx, r.Worker)
		if err != nil {
			s.isAway(err)
			if mayBegin(err) {
				return err
			}
			return nil
		}
		found := ours(snap.Records, s.owner)
		if len(found) == 0 {
			return fmt.Errorf("%w: worker %d is no longer recorded as ours", ErrConflict, r.Worker)
		}
		there.record = found[0]
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
		next := r
		if len(there.untold) > 1 {
			next = there.record // as long as holders before it are missing, r is not to be seen
		}
		next.Version = there.record.Version + 1
		var saved Record
		var err error
		if len(there.untold) == 0 {
			saved, err = s.Store.Save(ctx, next)
		} else {
			saved, err = h.SaveEnding(ctx, next, there.untold[0], r.Forgotten)
		}
		if err != nil {
			return err
		}
		there.record = saved
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

// mayBegin reports whether err says that the shared store has lost its records and is
// there, so that it may be made anew. Whoever does that waits until the holders have come to
// the ends of their windows: so no window may be extended then.
func mayBegin(err error) bool {
	return errors.Is(err, ErrWiped) && !errors.Is(err, fs.ErrNotExist)
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
