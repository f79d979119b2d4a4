package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
// [ErrBadRecord] and is a [*FileError]; it is never taken for a free worker ID.
//
// A directory that goes away while a lease is held is an outage: the lease goes
// on when the same directory is back.
//
// The store's time is the host's wall clock, which all its clients share; so it
// cannot tell that this clock is wrong. Where it is set forward by more than a
// window, live holders look dead for as long as they take to renew, and may lose
// their worker IDs: they get ErrLost, and no duplicates come of it.
//
// HAZARD: the directory must be the same one for all processes that share
// worker IDs. It must not be restored from a backup, its lock files must not be
// removed by something that takes them for stale ones, and it must not lie on a file system
// whose locks do not reach all its clients (some network file systems): IDs
// could then be issued twice.
func File(dir string) Store { return &fileStore{dir: dir} }

type fileStore struct {
	dir  string
	seen atomic.Bool // it is there: were it missing now, it would have gone

	// crash is called before each step of a save, in tests.
	crash func(step string)
}

const (
	filePrefix = "worker-"
	fileSuffix = ".json"
	lockSuffix = ".lock"
	lockRetry  = 2 * time.Millisecond
)

func (s *fileStore) path(worker int, suffix string) string {
	return filepath.Join(s.dir, filePrefix+strconv.Itoa(worker)+suffix)
}

// Locate returns the file of a worker ID's record.
func (s *fileStore) Locate(worker int) string { return s.path(worker, fileSuffix) }

func (s *fileStore) Load(ctx context.Context) (Snapshot, error) {
	var snap Snapshot
	if err := s.check(ctx); err != nil {
		return snap, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil && (s.seen.Load() || !errors.Is(err, fs.ErrNotExist)) {
		return snap, &FileError{Path: s.dir, Err: err}
	}
	before := ""
	for _, e := range entries {
		// While a record is being replaced, a listing may be without its file
		// (on btrfs it is, now and then), but never without its lock.
		suffix := filepath.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), suffix)
		if !strings.HasPrefix(name, filePrefix) || suffix != fileSuffix && suffix != lockSuffix || name == before {
			continue
		}
		before = name
		r, err := readRecord(filepath.Join(s.dir, name+fileSuffix))
		if suffix == lockSuffix && errors.Is(err, fs.ErrNotExist) {
			continue // its first save has not come that far
		}
		if err != nil {
			return Snapshot{}, err
		}
		snap.Records = append(snap.Records, r.Record)
	}
	// After the reading: were this process stopped between, records that were
	// renewed meanwhile would lie in the future, and look as dead as old ones.
	snap.Now = time.Now()
	return snap, nil
}

func (s *fileStore) LoadWorker(ctx context.Context, worker int) (Snapshot, error) {
	if err := s.check(ctx); err != nil {
		return Snapshot{}, err
	}
	r, err := s.read(worker)
	if err != nil {
		return Snapshot{}, err
	}
	snap := Snapshot{Now: time.Now()}
	if r.Version > 0 {
		snap.Records = []Record{r.Record}
	}
	return snap, nil
}

// check refuses a call that cannot be served.
func (s *fileStore) check(ctx context.Context) error {
	if s.dir == "" {
		return fmt.Errorf("%w: the directory's name is empty", ErrInvalidOptions)
	}
	return ctx.Err()
}

// read returns a worker ID's record, with Version 0 if there is none. A directory that has gone
// is an error.
func (s *fileStore) read(worker int) (fileRecord, error) {
	r, err := readRecord(s.path(worker, fileSuffix))
	if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	if _, gone := os.Stat(s.dir); gone != nil && (s.seen.Load() || !errors.Is(gone, fs.ErrNotExist)) {
		return r, &FileError{Path: s.dir, Err: gone}
	}
	return fileRecord{}, nil
}

func (s *fileStore) Save(ctx context.Context, r Record) (Record, error) {
	return s.save(ctx, r, nil, time.Time{})
}

func (s *fileStore) SaveEnding(ctx context.Context, r Record, ended Holding, forget time.Time) (Record, error) {
	return s.save(ctx, r, &ended, forget)
}

// save saves r, and ended in the history before it, unless ended is nil.
func (s *fileStore) save(ctx context.Context, r Record, ended *Holding, forget time.Time) (Record, error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if !s.seen.Load() {
		if err := makeDir(s.dir); err != nil {
			return r, &FileError{Path: s.dir, Err: err}
		}
		s.seen.Store(true)
	}
	unlock, err := s.lock(ctx, s.path(r.Worker, lockSuffix))
	if err != nil {
		return r, err
	}
	defer unlock()

	path := s.path(r.Worker, fileSuffix)
	old, err := readRecord(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	now := fileRecord{Record: r, History: old.History}
	if old.Version != r.Version-1 {
		return r, fmt.Errorf("%w: worker %d has version %d, not %d", ErrConflict, r.Worker, old.Version, r.Version-1)
	}
	if ended != nil {
		if now.History, err = s.keep(old.History, *ended, forget); err != nil {
			return r, err
		}
	}
	now.Renewed = time.Now().UTC().Round(0)
	b, err := encodeRecord(now)
	if err == nil {
		err = s.replace(path, b)
	}
	if err != nil {
		return r, &FileError{Path: path, Err: err}
	}
	return now.Record, nil
}

// lock waits for the file's lock.
func (s *fileStore) lock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		unlock, err := tryLock(path)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, errLocked) {
			return nil, &FileError{Path: path, Err: err}
		}
		if err := sleep(ctx, lockRetry); err != nil {
			return nil, &FileError{Path: path, Err: err}
		}
	}
}

// replace writes b to path so that a crash leaves the old file or the new one.
func (s *fileStore) replace(path string, b []byte) error {
	aside := path + ".tmp"
	s.step("create")
	f, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	s.step("write")
	_, err = f.Write(b)
	s.step("sync")
	err = errors.Join(err, f.Sync(), f.Close())
	s.step("rename")
	if err == nil {
		err = rename(aside, path)
	}
	s.step("sync directory")
	if err == nil {
		return syncDir(filepath.Dir(path))
	}
	return errors.Join(err, os.Remove(aside))
}

func (s *fileStore) step(name string) {
	if s.crash != nil {
		s.crash(name)
	}
}

// makeDir makes dir and those that it lies in, and their names durable.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// A file has the record as one line of JSON and, on the next, the CRC-32C of
// that line in hexadecimal.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fileRecord is what a file has.
type fileRecord struct {
	Record
	History history `json:"history"`
}

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

func readRecord(path string) (fileRecord, error) {
	var r fileRecord
	b, err := os.ReadFile(path)
	if err != nil {
		return r, &FileError{Path: path, Err: err}
	}
	line, sum, _ := strings.Cut(string(b), "\n")
	if want := fmt.Sprintf("%08x\n", crc32.Checksum([]byte(line), castagnoli)); sum != want {
		return r, &FileError{Path: path, Err: fmt.Errorf("%w: its checksum is not that of its content", ErrBadRecord)}
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, &FileError{Path: path, Err: fmt.Errorf("%w: %w", ErrBadRecord, err)}
	}
	if filepath.Base(path) != filePrefix+strconv.Itoa(r.Worker)+fileSuffix {
		return r, &FileError{Path: path, Err: fmt.Errorf("%w: it is of worker %d", ErrBadRecord, r.Worker)}
	}
	if err := r.Validate(); err != nil {
		return r, &FileError{Path: path, Err: err}
	}
	return r, nil
}
