package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// File returns the embedded store: a directory on a local file system of one
// host, which is made when it is first needed. It needs no server.
//
// Each worker ID has a file, worker-N.json, with its record and a checksum, and
// worker-N.lock, which a save locks while it reads the one and replaces it. A
// new record is written aside, synced, renamed over the old one, and the
// directory synced, so that a crash at any moment leaves the old record or the
// new one. A file that is not a whole record is an error that matches
// [ErrBadRecord] and is a [*FileError]; it is never taken for a free worker ID, and
// nobody can acquire a lease from the directory before the file is repaired, or removed
// (see below).
//
// The store is a [Historian]: worker-N.history0 and worker-N.history1 have who held
// the worker ID before, each checked by a checksum as well.
//
// No call outlasts its context, whatever the operating system does: a file
// system that hangs gives a [*FileError] that says which request on which file was
// not answered. What was asked for goes on in the background until it is
// answered, and no more than one such request of each kind waits for each file.
// What is no regular file, such as a pipe, is refused.
//
// A directory that goes away while a lease is held is an outage: the lease goes
// on when the same directory is back. A directory that lost its records is not taken
// for a new one: [ErrWiped] says which of its marks remained. The marks are lock
// files that are not empty, the file identity, and .NAME.identity beside the
// directory NAME, if it can be written. Put the records back; or, to begin anew after
// every process that used the directory has been gone, or has issued no IDs, for longer
// than its window, remove the directory and .NAME.identity. A lease from before that finds
// the directory whole again has lost its worker ID, and replaces it. If only some records
// worker-N.json were removed, only these worker IDs are unusable: Acquire takes others and
// logs a warning. A holder of one of them takes another worker ID when its window has
// ended, or waits for the record if it is to keep its worker ID (ReuseKeep). Put the records back; or stop the holder, wait for
// a window, and remove worker-N.lock: the worker ID is then a new one. (A directory whose
// only record was removed has lost them all: see above.)
//
// The store's time is the host's wall clock, which all its clients share; so it
// cannot tell that this clock is wrong. If it is set forward by more than a
// window, live holders look dead for as long as they take to renew, and may lose
// their worker IDs: no duplicates come of it.
//
// HAZARD: the directory must be the same one for all processes that share
// worker IDs. It must not be restored from a backup, its lock files must not be
// removed by something that takes them for stale ones, and it must not lie on a
// file system whose locks do not reach all its clients (some network file
// systems): IDs could then be issued twice.
//
// HAZARD: a few records that are removed with their lock files are forgotten, and
// so is a directory that is removed, replaced or not mounted if the file beside it could
// not be written, or is gone with it. Worker IDs then begin anew, while their holders go
// on until their next renewal.
func File(dir string) Store { return &fileStore{dir: dir, disk: osDisk{}} }

type fileStore struct {
	dir  string
	copy bool // of a lease, as Options.LocalCopy: its records may go
	disk disk

	mu      sync.Mutex
	running map[string]*operation // by key
	turn    *turn                 // of reading all records, kept for the save that follows

	name   atomic.Pointer[string] // of the store in the directory, once records were seen or saved
	used   atomic.Bool            // the directory has been there: a local copy says so
	marked atomic.Bool            // the directory is known to be marked as in use

	witness atomic.Pointer[string] // a record's file that was there
}

const (
	filePrefix = "worker-"
	fileSuffix = ".json"
	lockSuffix = ".lock"
)

func (s *fileStore) path(worker int, suffix string) string {
	return filepath.Join(s.dir, filePrefix+strconv.Itoa(worker)+suffix)
}

// Locate returns the file of a worker ID's record.
func (s *fileStore) Locate(worker int) string { return s.path(worker, fileSuffix) }

func (s *fileStore) Load(ctx context.Context) (Snapshot, error) {
	return run(ctx, s, "load", func(op *operation) (Snapshot, error) {
		records, lost, err := s.readAll(op)
		if err != nil {
			if op.ctx.Value(beforeSave{}) != nil {
				err = s.begunAnew(op, err)
			}
			return Snapshot{}, err
		}
		snap := Snapshot{Records: make([]Record, len(records)), Lost: lost}
		for i, r := range records {
			snap.Records[i] = r.Record
		}
		// After the reading: were this process stopped between, records that were
		// renewed meanwhile would lie in the future, and look as dead as old ones.
		snap.Now = time.Now()
		return snap, nil
	})
}

// LoadWorker waits for a Save of the same worker ID that was given up, and is not over.
func (s *fileStore) LoadWorker(ctx context.Context, worker int) (Snapshot, error) {
	return run(ctx, s, fmt.Sprint("save ", worker), func(op *operation) (Snapshot, error) {
		r, err := s.readOne(op, worker)
		if err != nil {
			return Snapshot{}, s.begunAnew(op, err)
		}
		snap := Snapshot{Now: time.Now()}
		if r.Version > 0 {
			snap.Records = []Record{r.Record}
		}
		return snap, nil
	})
}

func (s *fileStore) Save(ctx context.Context, r Record) (Record, error) {
	return s.save(ctx, r, nil, time.Time{})
}

func (s *fileStore) SaveEnding(ctx context.Context, r Record, ended Holding, forget time.Time) (Record, error) {
	return s.save(ctx, r, &ended, forget)
}

func (s *fileStore) save(ctx context.Context, r Record, ended *Holding, forget time.Time) (Record, error) {
	saved, err := run(ctx, s, fmt.Sprint("save ", r.Worker), func(op *operation) (Record, error) {
		defer s.pass(nil)
		return s.saveIn(op, r, ended, forget)
	})
	if err != nil {
		return r, err
	}
	return saved, nil
}

// saveIn saves r and, unless ended is nil, ended in the history before it.
func (s *fileStore) saveIn(op *operation, r Record, ended *Holding, forget time.Time) (Record, error) {
	name, err := s.enter(op)
	if err != nil {
		return r, err
	}
	lock, err := s.lock(op, r)
	if err != nil {
		return r, err
	}
	defer lock.Close()
	old, err := s.readOne(op, r.Worker)
	if err != nil {
		return r, err
	}
	if old.Version != r.Version-1 {
		return r, conflict(r, old.Version)
	}
	s.pass(nil) // whoever reads now finds the worker ID locked
	now := fileRecord{Record: r, Store: name, History: old.History}
	if ended != nil {
		if now.History, err = s.keep(op, old.History, *ended, forget); err != nil {
			return r, err
		}
	}
	now.Renewed = time.Now().UTC().Round(0)
	path := s.path(r.Worker, fileSuffix)
	b, err := encodeRecord(now)
	if err != nil {
		return r, &FileError{Path: path, Err: err}
	}
	if err := op.replace(path, b); err != nil {
		return r, err
	}
	s.mark(op, name, lock)
	return now.Record, nil
}

func conflict(r Record, has uint64) error {
	return fmt.Errorf("%w: worker %d has version %d, not %d", ErrConflict, r.Worker, has, r.Version-1)
}

// minBackoff and maxBackoff are how long a save waits before it tries again to
// lock what another one has locked.
const (
	minBackoff = 2 * time.Millisecond
	maxBackoff = 64 * time.Millisecond
)

// lock waits for the lock of a record. If r is to take the worker ID over, it does
// not wait: whoever has the lock is about to save, or is stuck.
func (s *fileStore) lock(op *operation, r Record) (diskFile, error) {
	path := s.path(r.Worker, lockSuffix)
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		lock, err := op.lock(path)
		if !errors.Is(err, errLocked) {
			return lock, err
		}
		old, err := s.readOne(op, r.Worker)
		switch {
		case err != nil:
			return nil, err
		case old.Version != r.Version-1:
			return nil, conflict(r, old.Version)
		case old.Token != r.Token:
			return nil, &FileError{Path: path, Err: fmt.Errorf("%w: %w", ErrConflict, errLocked)}
		}
		op.at.Store(&request{errLocked.Error(), path})
		if err := sleep(op.ctx, backoff/2+rand.N(backoff)); err != nil {
			return nil, op.hangs(err)
		}
	}
}

// readAll reads all records. If some are gone, and not all, it says which. If others
// wait to read, too, and the save that follows can do with some, it reads no more of
// them, and says which it has not read.
func (s *fileStore) readAll(op *operation) (records []fileRecord, lost map[int]error, err error) {
	var enough *some
	if of, before := op.ctx.Value(beforeSave{}).(*some); before && !s.copy {
		if others := s.queue(op); others {
			enough = of
		}
		defer func() { s.read(err) }()
	}
	entries, err := op.list(s.dir)
	if errors.Is(err, fs.ErrNotExist) && s.name.Load() == nil {
		return nil, nil, s.mayBeNew(op)
	}
	if err != nil {
		return nil, nil, err
	}
	names := recordNames(entries)
	choice := 0 // how many worker IDs there are to choose from
	if enough != nil {
		choice = enough.last - enough.first + 1 - len(names)
		from := rand.IntN(len(names) + 1) // so that a crowd does not read the same ones
		names = slices.Concat(names[from:], names[:from])
	}
	lost = map[int]error{}
	var gone error
	for i, name := range names {
		if enough != nil && choice >= enough.n && len(records) > 0 {
			for _, name := range names[i:] {
				if worker, err := strconv.Atoi(name); err == nil {
					lost[worker] = errUnread
				}
			}
			break
		}
		r, err := s.readRecord(op, filepath.Join(s.dir, filePrefix+name))
		if errors.As(err, new(missing)) {
			if worker, bad := strconv.Atoi(name); bad == nil {
				lost[worker], gone = err, err
				continue
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if r.Version == 0 {
			continue
		}
		if len(records) == 0 {
			path := s.path(r.Worker, fileSuffix)
			s.witness.Store(&path)
		}
		records = append(records, r)
		if enough != nil && enough.has(r.Record) {
			choice++
		}
	}
	err = s.check(op, len(records) > 0)
	if err == nil && len(records) == 0 && gone != nil {
		err = gone
	}
	return records, lost, err
}

// recordNames returns what comes after the prefix in the names of the files of records, or of
// their locks. While a record is being replaced, a listing may be without its file (on
// btrfs it is, now and then), but never without its lock.
func recordNames(entries []fs.DirEntry) (names []string) {
	for _, e := range entries {
		suffix := filepath.Ext(e.Name())
		name, is := strings.CutPrefix(strings.TrimSuffix(e.Name(), suffix), filePrefix)
		if is && (suffix == fileSuffix || suffix == lockSuffix) && !slices.Contains(names[max(0, len(names)-1):], name) {
			names = append(names, name)
		}
	}
	return names
}

// A thousand processes that start at once and read a thousand records each would
// keep the machine so busy that nobody's saves come to their end in time, and all
// would choose the same worker IDs. So one of them at a time reads all records, and
// has its turn until its next save has the worker ID's lock, or for a while.
const (
	grace = 100 * time.Millisecond // from the reading to the save
	stuck = 5 * time.Second        // who has the turn for longer is not waited for
)

// beforeSave is the key of a context whose Load has a save after it, as in Acquire. The value
// is a *some, or a nil one if all records are needed.
type beforeSave struct{}

// some is what a search can do with: n worker IDs to choose from, of first to last.
type some struct{ first, last, n int }

// has reports whether r is of a worker ID that can be chosen.
func (s *some) has(r Record) bool {
	return s.first <= r.Worker && r.Worker <= s.last && r.State == Free && r.Reuse == ReuseAny && !r.Bound().After(time.Now())
}

// errUnread is why nobody is to choose a worker ID whose record was not read.
var errUnread = errors.New("its record was not read")

// turn is a process's turn to read all records.
type turn struct {
	lock  diskFile
	timer *time.Timer
}

// queue waits for our turn to read all records, and reports whether others wait, too. It is
// only to be kind to others: if the lock cannot be had, we go on without it.
func (s *fileStore) queue(op *operation) (others bool) {
	s.mu.Lock()
	ours := s.turn != nil
	s.mu.Unlock()
	path := filepath.Join(s.dir, "load"+lockSuffix)
	for backoff := minBackoff; !ours; backoff = min(2*backoff, 16*maxBackoff) {
		lock, err := op.lock(path)
		if err == nil {
			_, _ = lock.WriteAt([]byte(inUse), 0) // so that others see when it began
			s.keepTurn(lock)
			return others
		}
		if !errors.Is(err, errLocked) {
			return others
		}
		others = true
		if info, err := op.stat(path); err != nil || time.Since(info.ModTime()) > stuck {
			return others
		}
		op.at.Store(&request{errLocked.Error(), path})
		if sleep(op.ctx, backoff/2+rand.N(backoff)) != nil {
			return others
		}
	}
	return others
}

// keepTurn keeps the turn until pass is called, at the latest by itself.
func (s *fileStore) keepTurn(lock diskFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &turn{lock: lock}
	t.timer = time.AfterFunc(stuck, func() { s.pass(t) })
	s.turn = t
}

// read notes that all records were read, and that a save may follow unless there
// was an error.
func (s *fileStore) read(err error) {
	if err != nil {
		s.pass(nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		s.turn.timer.Reset(grace)
	}
}

// pass ends the turn t, or whichever is ours if t is nil.
func (s *fileStore) pass(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && (t == nil || t == s.turn) {
		s.turn.timer.Stop()
		_ = s.turn.lock.Close()
		s.turn = nil
	}
}

// readOne reads the record of a worker ID. If there is none, its Version is 0.
func (s *fileStore) readOne(op *operation, worker int) (fileRecord, error) {
	r, err := s.readRecord(op, s.path(worker, ""))
	if err == nil && r.Version == 0 {
		err = s.isThere(op)
	}
	return r, err
}

// A file has the record as one line of JSON and, on the next, the CRC-32C of
// that line in hexadecimal.

// fileRecord is what a file has.
type fileRecord struct {
	Record
	Store   string  `json:"store"` // whose record it is
	History history `json:"history"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeRecord(r fileRecord) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return withChecksum(b, '\n'), nil
}

// withChecksum returns b, then sep, then b's checksum as a line of its own.
func withChecksum(b []byte, sep byte) []byte {
	return fmt.Appendf(b[:len(b):len(b)], "%c%08x\n", sep, crc32.Checksum(b, castagnoli))
}

// readRecord reads the record in the file with this name, without its suffix. If there is none,
// and the lock does not say that there was one, its Version is 0.
func (s *fileStore) readRecord(op *operation, name string) (fileRecord, error) {
	path := name + fileSuffix
	b, err := op.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if wiped := s.mayBeUnused(op, name); wiped == nil {
			return fileRecord{}, nil
		} else if b, err = op.read(path); errors.Is(err, fs.ErrNotExist) { // it did not come meanwhile
			return fileRecord{}, wiped
		}
	}
	if err != nil {
		return fileRecord{}, err
	}
	r, err := decodeRecord(b)
	if err == nil && filepath.Base(path) != filePrefix+strconv.Itoa(r.Worker)+fileSuffix {
		err = fmt.Errorf("%w: it is of worker %d", ErrBadRecord, r.Worker)
	}
	if err == nil {
		err = s.isOurs(r)
	}
	if err != nil {
		return fileRecord{}, &FileError{Path: path, Err: err}
	}
	return r, nil
}

func decodeRecord(b []byte) (fileRecord, error) {
	var r fileRecord
	line, _, _ := bytes.Cut(b, []byte("\n"))
	if !bytes.Equal(withChecksum(line, '\n'), b) {
		return r, fmt.Errorf("%w: its checksum is not that of its content", ErrBadRecord)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	return r, r.Validate()
}

// Validate is Record.Validate, for a LocalCopy's records, too.
func (r fileRecord) Validate() error {
	if r.State == wanted {
		r.State = Free
	}
	return r.Record.Validate()
}
