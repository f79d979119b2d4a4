package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// File returns the embedded store: a directory on a local file system of one host. It needs
// no server, and makes the directory when it first needs it.
//
// The directory must be the same for all processes that share worker IDs. Do not delete
// files in it while a process uses it; what follows says what happens if somebody does.
//
// # Files
//
// Each worker ID has a file worker-N.json with its [Record] and a checksum, and a file
// worker-N.lock, which a save locks while it reads the record and replaces it. A new record
// is written to another file, synced, and renamed over the old one, and the directory is
// synced. So a crash at any moment leaves the old record or the new one. The store is a
// [Historian]: the earlier holders are in worker-N.history0 or worker-N.history1, each with
// a checksum.
//
// If a file is not a whole record, the error matches [ErrBadRecord] and is a [*FileError].
// Such a file never counts as a free worker ID: nobody can acquire a lease from the
// directory until the file is repaired or removed.
//
// No call outlasts its context, whatever the operating system does. If a file system hangs,
// the [*FileError] says which request on which file was not answered. The request goes on
// in the background until it is answered, and at most one request of each kind waits for
// each file. Pipes, devices and other files that are not regular are refused.
//
// # If files disappear
//
// If the directory goes away while a lease is held, for example because it is unmounted, it
// is an outage: the lease goes on when the same directory is back.
//
// If the directory is back without its records, it does not pass for a new one. The error
// matches [ErrWiped], and says which of the store's marks remained: lock files that are not
// empty, the file identity, and the file .NAME.identity, which lies beside a directory
// called NAME if it can be written there. Put the records back. Or begin anew: wait until
// every process that used the directory has been gone, or has issued no IDs, for longer
// than its window; then remove the directory and .NAME.identity. A lease from before the
// removal that finds the directory whole again has lost its worker ID, and replaces it.
//
// If only some files worker-N.json are gone, only their worker IDs are unusable: Acquire
// takes others and logs a warning. A holder of such a worker ID takes another one when its
// window has ended or, if it keeps its worker ID (ReuseKeep), waits for the record. Put the
// records back. Or stop the holder, wait for a window, and remove worker-N.lock: then the
// worker ID counts as never used. (If the only record of a directory is gone, it has lost
// all its records: see above.)
//
// # Clock
//
// The store's time is the host's wall clock, which all of its clients share, so the store
// cannot tell them that this clock is wrong. If the clock is set forward by more than a
// window, live holders look dead until they renew, and may lose their worker IDs. No ID
// repeats because of that.
//
// # Hazards
//
// HAZARD: IDs may repeat if the directory is restored from a backup, if a clean-up removes
// its lock files as stale, or if its file system does not share locks among all of its
// clients, as on some network file systems.
//
// HAZARD: the store forgets a record that is removed together with its lock file. It also
// forgets a directory that is removed, replaced or not mounted, if the file .NAME.identity
// beside it could not be written or is gone too. The worker IDs then count as
// never used, so IDs may repeat until their old holders renew.
func File(dir string) Store { return &fileStore{dir: dir, disk: hostDisk} }

type fileStore struct {
	dir  string
	copy bool // it is the directory of Options.LocalCopy, so its records may go
	disk disk

	mu      sync.Mutex
	running map[string]*operation // by key
	turn    *turn                 // to read all records; kept for the save that follows

	name   atomic.Pointer[string] // name of the store in the directory, known after a record was read or saved
	used   atomic.Bool            // the directory existed, as a local copy says
	marked atomic.Bool            // the directory is known to be marked as in use

	witness atomic.Pointer[string] // a record's file that was seen
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
		// Now is read after the records: if this process paused between, records that were
		// renewed in the pause would lie in the future, and would look as dead as old ones.
		snap.Now = time.Now()
		return snap, nil
	})
}

// LoadWorker waits for a Save of the same worker ID whose caller has given up, until it is
// over.
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

// saveIn saves r. Unless ended is nil, it first adds ended to the history.
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
	s.pass(nil) // the next process that reads all records will find this worker ID locked
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

// minBackoff and maxBackoff are how long a save waits before it tries again to lock a
// locked file.
const (
	minBackoff = 2 * time.Millisecond
	maxBackoff = 64 * time.Millisecond
)

// lock waits for the lock of a record. If r takes over the worker ID from another holder,
// it does not wait: the process with the lock is about to save, or is stuck.
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
		if err := sleep(op.ctx, backoff/2+randomN(backoff)); err != nil {
			return nil, op.hangs(err)
		}
	}
}

// readAll reads all records. If some are gone, but not all, lost says which. If the save
// that follows needs only some worker IDs to choose from, and other processes wait for
// their turn to read, readAll stops when it has enough; the rest is in lost, with
// errUnread.
func (s *fileStore) readAll(op *operation) (records []fileRecord, lost map[int]error, err error) {
	var enough *some
	if of, before := op.ctx.Value(beforeSave{}).(*some); before && !s.copy {
		if others := s.queue(op); others {
			enough = of
		}
		defer func() { s.read(err) }()
	}
	entries, isNew, err := s.list(op)
	if err != nil || isNew {
		return nil, nil, err
	}
	names := recordNames(entries)
	choice := 0 // how many worker IDs there are to choose from so far
	if enough != nil {
		choice = enough.last - enough.first + 1 - len(names)
		from := randomN(len(names) + 1) // so that a crowd does not read the same records
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

// recordNames returns the part after the prefix of the names of all records' files, or of
// their locks. While a record is being replaced, a listing may be without its file (on
// btrfs it sometimes is), but never without its lock.
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

// If a thousand processes start at once and each reads a thousand records, the machine is
// so busy that no save finishes in time, and all of the processes choose the same worker
// IDs. So one process at a time reads all records. Its turn ends when its next save has
// locked the worker ID, or after grace.
const (
	grace = 100 * time.Millisecond // at most, between the reading and the save
	stuck = 5 * time.Second        // a process that has the turn for longer is not waited for
)

// beforeSave is the context key that marks a Load before a save, as in Acquire. The value
// is a *some; nil means that all records are needed.
type beforeSave struct{}

// some is what a search needs: n worker IDs to choose from, between first and last.
type some struct{ first, last, n int }

// has reports whether r's worker ID may be chosen.
func (s *some) has(r Record) bool {
	return s.first <= r.Worker && r.Worker <= s.last && r.State == Free && r.Reuse == ReuseAny && !r.Bound().After(time.Now())
}

// errUnread is why a worker ID whose record was not read cannot be chosen.
var errUnread = errors.New("its record was not read")

type turn struct {
	lock  diskFile
	timer *time.Timer
}

// queue waits for the turn to read all records, and reports whether other processes wait
// too. The turn only saves work: if the lock cannot be had, queue returns without it.
func (s *fileStore) queue(op *operation) (others bool) {
	s.mu.Lock()
	ours := s.turn != nil
	s.mu.Unlock()
	path := filepath.Join(s.dir, "load"+lockSuffix)
	for backoff := minBackoff; !ours; backoff = min(2*backoff, 16*maxBackoff) {
		lock, err := op.lock(path)
		if err == nil {
			_, _ = lock.WriteAt([]byte(inUse), 0) // its time tells the others when this turn began
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
		if sleep(op.ctx, backoff/2+randomN(backoff)) != nil {
			return others
		}
	}
	return others
}

// keepTurn keeps the turn until pass is called, and at most for stuck.
func (s *fileStore) keepTurn(lock diskFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &turn{lock: lock}
	t.timer = time.AfterFunc(stuck, func() { s.pass(t) })
	s.turn = t
}

// read notes that all records were read. Unless err is an error, a save may follow.
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

// pass ends the turn t or, if t is nil, any turn of this store.
func (s *fileStore) pass(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && (t == nil || t == s.turn) {
		s.turn.timer.Stop()
		_ = s.turn.lock.Close()
		s.turn = nil
	}
}

// readOne reads the record of a worker ID. If there is no record, its Version is 0.
func (s *fileStore) readOne(op *operation, worker int) (fileRecord, error) {
	r, err := s.readRecord(op, s.path(worker, ""))
	if err == nil && r.Version == 0 {
		err = s.isThere(op)
	}
	return r, err
}

// A record's file has two lines: the record as JSON, and the CRC-32C of the first line in
// hexadecimal.

type fileRecord struct {
	Record
	Store   string  `json:"store"` // the name of the store
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

// withChecksum returns b, sep, and a line with b's checksum.
func withChecksum(b []byte, sep byte) []byte {
	return fmt.Appendf(b[:len(b):len(b)], "%c%08x\n", sep, crc32.Checksum(b, castagnoli))
}

// readRecord reads the record in the file with this name, without its suffix. If there is
// no such file, and the lock does not say that there was one, the record's Version is 0.
func (s *fileStore) readRecord(op *operation, name string) (fileRecord, error) {
	path := name + fileSuffix
	b, err := op.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if wiped := s.mayBeUnused(op, name); wiped == nil {
			return fileRecord{}, nil
		} else if b, err = op.read(path); errors.Is(err, fs.ErrNotExist) { // no file appeared in the meantime either
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
		return r, fmt.Errorf("%w: its checksum does not match its content", ErrBadRecord)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	return r, r.Validate()
}

// Validate is Record.Validate; it also allows what only a LocalCopy's records may have.
func (r fileRecord) Validate() error {
	if r.State == wanted {
		r.State = Free
	}
	return r.Record.Validate()
}
