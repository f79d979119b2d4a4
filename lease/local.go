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

	"github.com/seed-5394e6b1/snowflake"
)

// localCopy is a Store that keeps the records of one owner on this host, in a file store.
// These copies are the records that count. Nobody else writes them, because the owner's
// name has the identity of the directory in it, and a kept worker ID goes to no other
// owner. The shared store says which owner has which worker ID, and is told of every move
// as soon as it answers.
//
// A worker ID is taken in three saves: here as wanted, in the shared store as held, here as
// held. After a crash, the record here says what was stamped:
//
// INVARIANT: while the record here is wanted, nobody who has this directory has stamped the
// worker ID at or after the record's bounds. So if the record in the shared store belongs to
// an owner of this directory, the worker ID is free from these bounds on.
//
// Why it holds. Stamping begins after the third save, and each save here names the version
// that it was made from. A process that takes a worker ID that another process wants, or
// gives it back, saves here first, so the other process's third save fails.
type localCopy struct {
	Store  // the shared store
	local  *fileStore
	owner  string
	layout snowflake.Layout

	patience time.Duration         // with the shared store
	away     atomic.Pointer[error] // why the shared store was not told of the last move

	// turn is a lock with room for one. It guards the fields that follow.
	turn   chan struct{}
	seen   map[int]seen    // by worker ID
	anew   bool            // the shared store may be made anew, by its last answer
	shared map[int]*shared // by worker ID
	now    time.Time       // the shared store's time at its last answer,
	read   time.Time       // and when this answer came
}

// wanted is the state of a record in a LocalCopy whose worker ID is about to be taken.
const wanted State = "wanted"

// seen is what the lease last saw of a worker ID.
type seen struct {
	version  uint64      // of the record here, 0 if there is no record
	bounds   []time.Time // up to which others may have stamped
	clockSeq int
}

// shared is what is known of a worker ID's record in the shared store.
type shared struct {
	record    Record    // the stored record; its Version is 0 if the record is not known
	token     string    // of the acquisition that was saved here
	checked   bool      // the histories here and there were compared
	untold    []Holding // the holdings that the history there does not have yet
	forgotten time.Time // holdings that ended before it are not there, because the store is no Historian
}

// copyMark separates an owner's name from the identity of its LocalCopy.
const copyMark = " @"

// hasCopy reports whether the owner of a record has a LocalCopy.
func hasCopy(r Record) bool {
	i := strings.LastIndex(r.Owner, copyMark)
	return r.Reuse == ReuseKeep && i >= 0 && len(r.Owner[i+len(copyMark):]) == len(rand.Text())
}

// withLocalCopy returns s with copies, and adds the directory's identity to the owner's
// name.
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
		Store: s, local: local, owner: o.Owner, layout: o.Layout, patience: o.patience(),
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

// Load returns the records of the shared store, with the owner's records as they are here.
// If the shared store does not answer, or its directory does not exist, it returns only the
// owner's. It tells the shared store what it missed, and gives back the worker IDs that
// were wanted and not taken.
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
	if len(copies.kept) == 0 {
		snap.Records = append(snap.Records, s.wants(snap, copies.all)...)
		return snap, nil
	}
	for i, r := range snap.Records {
		if r.Owner == s.owner && r.State == Free && r.Reuse != ReuseKeep {
			if given, err := s.giveBack(ctx, r, copies.all[r.Worker]); err == nil {
				snap.Records[i] = given
			}
		}
	}
	return snap, nil
}

// wants returns records for the worker IDs that are wanted here and have no record in the
// shared store. So two processes of one owner want the same worker ID, and the owner gets
// only one.
func (s *localCopy) wants(snap Snapshot, all map[int]Record) (records []Record) {
	for worker, r := range all {
		there := slices.ContainsFunc(snap.Records, func(r Record) bool { return r.Worker == worker })
		if r.Owner == s.owner && r.State == wanted && r.Layout == s.layout && !there && snap.Lost[worker] == nil {
			records = append(records, Record{Worker: worker, Layout: r.Layout, State: Free, Owner: s.owner})
		}
	}
	return records
}

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

type copies struct {
	all  map[int]Record // by worker ID
	kept []Record       // the owner's records, which the shared store has as the owner's too
	away bool           // the shared store did not answer
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
	patient := ctx
	if len(own.Records) > 0 { // without a record here there is nothing to go on with
		half, cancel := s.half(ctx)
		defer cancel()
		patient = half
	}
	snap, err := shared(patient)
	switch {
	case err == nil:
	case ctx.Err() != nil || len(own.Records) == 0 || errors.Is(err, ErrBadRecord) || s.mayBegin(err):
		return snap, c, err
	default:
		s.isAway(err)
		c.away = true
		return own, c, nil
	}
	s.now, s.read, s.anew = snap.Now, time.Now(), false
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
		default: // it is not known what was stamped
			snap.Records[i].State = Spent
		}
		is := snap.Records[i]
		s.seen[is.Worker] = seen{r.Version, is.Bounds, is.ClockSeq}
	}
	for _, r := range lost {
		if s.counts(r) && snap.Lost[r.Worker] == nil { // otherwise it is not known whose worker ID it is
			if err := s.retire(ctx, r); err != nil {
				return snap, c, err
			}
		}
	}
	return snap, c, nil
}

// counts reports whether r, a record here, counts: it belongs to the owner, and its worker
// ID was taken, not only wanted, and was not lost.
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

// unstamped returns the shared store's record as it was before its worker ID was taken,
// because the record here says that the worker ID is only wanted.
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

// catchUp tells the shared store what it missed of r, a record here.
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
		return nil // the next holder finds out
	}
	return err
}

// withBoundsOf returns r with the later bound, of both records, for each clock sequence.
func (r Record) withBoundsOf(other Record) Record {
	seq := r.ClockSeq
	for i, bound := range other.Bounds {
		r = r.withBound(i, later(r.bound(i), bound))
	}
	r.ClockSeq = seq
	return r
}

// retire marks a worker ID that no longer belongs to the owner, so that it cannot be taken
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

func (s *localCopy) enter(ctx context.Context) (done func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Save saves a record here, and then tells the shared store. Only the first save of a
// worker ID needs the shared store. Every later save must find a record here: a copy that
// is gone might come back, for example if its file system was not mounted.
func (s *localCopy) Save(ctx context.Context, r Record) (Record, error) {
	return s.save(ctx, r, nil, func(r Record) (Record, error) { return s.local.Save(ctx, r) })
}

// SaveEnding is Save with a history: here and, if the shared store is a Historian, there.
func (s *localCopy) SaveEnding(ctx context.Context, r Record, ended Holding, forget time.Time) (Record, error) {
	return s.save(ctx, r, []Holding{ended}, func(r Record) (Record, error) { return s.local.SaveEnding(ctx, r, ended, forget) })
}

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

func (s *localCopy) saved(r Record) {
	s.known(r.Worker).token = r.Token
	s.see(r)
}

func (s *localCopy) see(here Record) {
	is := s.seen[here.Worker]
	is.version = here.Version
	s.seen[here.Worker] = is
}

// take saves the first record of a worker ID. The versions here and in the shared store
// differ.
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

// giveBack frees a worker ID that was taken and not stamped. r is the record from before it
// was taken, and has is the record here.
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

// refuse returns the error of a save that the copy does not allow.
func (s *localCopy) refuse(r Record, is error, why string) error {
	return &FileError{Path: s.local.Locate(r.Worker), Err: fmt.Errorf("%w: %s", is, why)}
}

// tell saves a record of the owner in the shared store, in place of any earlier record of
// the owner. It fails only if the worker ID no longer belongs to the owner there.
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
			if s.mayBegin(err) {
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
			if s.mayBegin(err) {
				return err
			}
			return nil
		}
		found := ours(snap.Records, s.owner)
		if len(found) == 0 {
			return fmt.Errorf("%w: worker %d no longer belongs to this owner in the store", ErrConflict, r.Worker)
		}
		there.record = found[0]
	}
}

// share saves r in the shared store, with the holdings that the history there lacks.
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
			next = there.record // as long as earlier holdings are missing, r must not be seen
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
		s.now, s.read, s.anew = saved.Renewed, time.Now(), false
		if len(there.untold) <= 1 {
			there.untold = nil
			return nil
		}
		there.untold = there.untold[1:]
	}
}

// compare finds the holdings that the shared store's history lacks, because an earlier
// process could not report them. If the store keeps no history, h is nil.
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

// mayBegin reports whether err says that the shared store answers and has lost its records,
// so that it may be made anew, or was. The person or process that makes it anew waits until
// all holders' windows have ended, so no window may be extended then.
func mayBegin(err error) bool {
	return errors.Is(err, errBegunAnew) || errors.Is(err, ErrWiped) && !errors.Is(err, fs.ErrNotExist)
}

// again returns a copy of s for a shared store that was begun anew, without what s knows of
// the old one.
func (s *localCopy) again(anew Store) *localCopy {
	return &localCopy{
		Store: anew, local: s.local, owner: s.owner, layout: s.layout, patience: s.patience,
		turn: make(chan struct{}, 1), seen: map[int]seen{}, shared: map[int]*shared{}, now: time.Now(), read: time.Now(),
	}
}

// mayBegin is mayBegin of an error of the shared store. Its last answer holds until the
// next, because whoever makes the store anew may remove its directory first.
func (s *localCopy) mayBegin(err error) bool {
	s.anew = s.anew || mayBegin(err)
	return s.anew
}

// isAway notes why the shared store was not told. A time-out does not replace the error
// before it.
func (s *localCopy) isAway(err error) {
	if s.away.Load() == nil || !isTimeout(err) {
		s.away.Store(&err)
	}
}

func (s *localCopy) whyAway() error {
	if err := s.away.Load(); err != nil {
		return *err
	}
	return nil
}

// half gives the shared store half of the remaining time, so that time is left to go on
// without it.
func (s *localCopy) half(ctx context.Context) (context.Context, context.CancelFunc) {
	if by, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(by)/2)
	}
	return context.WithTimeout(ctx, s.patience)
}

// Locate returns where the shared store keeps a record, if it can tell.
func (s *localCopy) Locate(worker int) string {
	if located, ok := s.Store.(Locator); ok {
		return located.Locate(worker)
	}
	return ""
}
