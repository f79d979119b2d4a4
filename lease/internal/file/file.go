// Package file is the store of a directory: an entry is a file, with a checksum, and beside it lies
// the lock of its saves.
package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/internal/disk"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// Store is the store of a directory: see lease.File.
type Store struct {
	dir    string
	copy   bool // it is the directory of a local copy, which has no trace beside it
	disk   *disk.Disk
	failed func(path string, err error) error // returns the error for a file that cannot be used

	used   atomic.Bool   // the directory had an entry
	device atomic.Uint64 // the file system on which the directory was last seen, or 0
	traced atomic.Bool   // the trace beside the directory was written, as far as it can be
}

// New returns the store of a directory, which makes its requests to the operating system by f.
// failed returns the error for a file that cannot be used.
func New(dir string, f disk.Func, failed func(path string, err error) error) *Store {
	return &Store{dir: dir, disk: disk.New(f), failed: failed}
}

// NewCopy is New for the directory of a local copy.
func NewCopy(dir string, f disk.Func, failed func(path string, err error) error) *Store {
	s := New(dir, f, failed)
	s.copy = true
	return s
}

// lockSuffix ends the names of locks. Keys have no '~'.
const lockSuffix = "~lock"

// minBackoff and maxBackoff bound the time that a save waits before it tries again to lock a
// locked file.
const (
	minBackoff = 2 * time.Millisecond
	maxBackoff = 64 * time.Millisecond
)

// path returns the path of the file of an entry.
func (s *Store) path(key string) string { return filepath.Join(s.dir, filepath.FromSlash(key)) }

// run runs an operation on the directory.
func run[T any](ctx context.Context, s *Store, key string, f func(*disk.Operation) (T, error)) (result T, err error) {
	if s.dir == "" {
		return result, fmt.Errorf("%w: the directory's name is empty", driver.ErrInvalidOptions)
	}
	result, err = disk.Run(ctx, s.disk, key, s.dir, f)
	if of, ok := err.(*disk.Error); ok {
		err = s.failed(of.Path, of.Err)
	}
	return result, err
}

// Get waits for a Put of the same key whose caller has given up, until it is over.
func (s *Store) Get(ctx context.Context, key string) (driver.Entry, error) {
	return run(ctx, s, key, func(op *disk.Operation) (driver.Entry, error) { return s.get(op, key) })
}

func (s *Store) List(ctx context.Context, prefix string) ([]driver.Entry, error) {
	return run(ctx, s, "list", func(op *disk.Operation) ([]driver.Entry, error) {
		if err := s.isThere(op); err != nil {
			return nil, err
		}
		return s.list(op, "", prefix)
	})
}

// list returns the entries in a folder of the directory, and below it.
func (s *Store) list(op *disk.Operation, folder, prefix string) (entries []driver.Entry, err error) {
	files, err := op.ReadDir(s.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range files {
		key := folder + f.Name()
		switch {
		case err != nil:
			return nil, err
		case f.IsDir():
			if key += "/"; strings.HasPrefix(key, prefix) || strings.HasPrefix(prefix, key) {
				var below []driver.Entry
				below, err = s.list(op, key, prefix)
				entries = append(entries, below...)
			}
		case strings.HasPrefix(key, prefix) && strings.HasSuffix(key, lockSuffix):
			// While an entry is being replaced, a listing may be without its file (on btrfs
			// it sometimes is), but never without its lock.
			var e driver.Entry
			if e, err = s.get(op, strings.TrimSuffix(key, lockSuffix)); e.Version != "" {
				entries, err = append(entries, e), nil // even if it cannot be read
			}
		}
	}
	return entries, err
}

func (s *Store) Put(ctx context.Context, key, old string, value []byte) (driver.Entry, error) {
	return run(ctx, s, key, func(op *disk.Operation) (driver.Entry, error) {
		lock, err := s.lock(op, key, old)
		if err != nil {
			return driver.Entry{}, err
		}
		defer disk.Unlock(lock)
		e := driver.Entry{Key: key, Version: machine.RandomText(), Value: value, Time: time.Now().UTC().Round(0)}
		if err := op.Replace(s.path(key), encodeEntry(e)); err != nil {
			return driver.Entry{}, err
		}
		s.used.Store(true)
		if s.tracePath() != "" && !s.traced.Swap(true) {
			s.leaveTrace(op)
		}
		return e, nil
	})
}

func (s *Store) Delete(ctx context.Context, key, old string) error {
	if old == "" {
		return fmt.Errorf("%w: the deletion of %s needs its version", driver.ErrConflict, key)
	}
	_, err := run(ctx, s, key, func(op *disk.Operation) (none struct{}, err error) {
		lock, err := s.lock(op, key, old)
		if err != nil {
			return none, err
		}
		defer disk.Unlock(lock)
		return none, op.Remove(s.path(key))
	})
	return err
}

// lock waits for the lock of an entry, and compares its version.
func (s *Store) lock(op *disk.Operation, key, old string) (*os.File, error) {
	path := s.path(key)
	if err := s.isThere(op); err != nil {
		return nil, err
	}
	if err := op.MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		lock, err := op.Lock(path + lockSuffix)
		if err != nil && !errors.Is(err, disk.ErrLocked) {
			return nil, err
		}
		is, bad := s.get(op, key)
		if is.Version != "" {
			bad = nil // even if it cannot be read
		}
		if bad == nil && is.Version != old {
			bad = fmt.Errorf("%w: %s has version %q, not %q", driver.ErrConflict, key, is.Version, old)
		}
		switch {
		case bad == nil && err == nil:
			return lock, nil
		case err == nil:
			disk.Unlock(lock)
		}
		if bad != nil {
			return nil, bad
		}
		err = op.Wait(disk.ErrLocked.Error(), path+lockSuffix, func(ctx context.Context) error {
			return machine.Sleep(ctx, backoff/2+machine.RandomN(backoff))
		})
		if err != nil {
			return nil, err
		}
	}
}

// get reads an entry. If there is none, it makes sure that the directory is there.
func (s *Store) get(op *disk.Operation, key string) (driver.Entry, error) {
	path := s.path(key)
	b, err := op.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return driver.Entry{}, s.isThere(op)
	}
	if err != nil {
		return driver.Entry{}, err
	}
	e, err := decodeEntry(b)
	e.Key = key
	if err != nil {
		e.Version, e.Value = fmt.Sprintf("unreadable-%08x", crc32.Checksum(b, castagnoli)), nil
		return e, s.failed(path, err)
	}
	s.used.Store(true)
	return e, nil
}

// isThere returns an error if the directory was used and does not exist, or if an empty directory
// of another file system is in its place.
func (s *Store) isThere(op *disk.Operation) error {
	info, err := op.Stat(s.dir)
	if err == nil {
		return s.isMounted(op, disk.Device(info))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if was, err := s.wasUsed(op); !was || err != nil {
		return err
	}
	if is, err := op.Exists(s.dir); is || err != nil { // another process has made it since
		return err
	}
	return s.awayError("gone, or not mounted")
}

// isMounted returns an error if the directory, which is on this file system, is empty, and was on
// another one: then it is not mounted, and only its mount point is visible.
func (s *Store) isMounted(op *disk.Operation, device uint64) error {
	was := s.device.Load()
	if was == device {
		return nil
	}
	moved := was != 0
	if !moved {
		trace, err := s.readTrace(op)
		if err != nil {
			return err
		}
		moved = trace == traceMounted && !s.isMountPoint(op)
	}
	if moved {
		if files, err := op.ReadDir(s.dir); err != nil {
			return err
		} else if len(files) == 0 {
			return s.awayError("empty, and on another file system than before, so it is not mounted")
		}
	}
	s.device.Store(device)
	return nil
}

// awayError returns the error of an outage.
func (s *Store) awayError(what string) error {
	return s.failed(s.dir, fmt.Errorf("%w: the directory is %s: put it back or, "+
		"when no process has issued IDs under it for longer than its window, remove %s: %w",
		driver.ErrAway, what, s.tracePath(), fs.ErrNotExist))
}

// The content of the trace beside the directory.
const (
	traceUsed    = "in use\n"
	traceMounted = "in use, mounted\n" // a file system is mounted at the directory
)

// leaveTrace writes the trace, if it can be written.
func (s *Store) leaveTrace(op *disk.Operation) {
	text := traceUsed
	if s.isMountPoint(op) {
		text = traceMounted
	}
	if is, err := s.readTrace(op); err == nil && is != text {
		// Without the right to write there, the directory has no trace.
		_ = op.Replace(s.tracePath(), []byte(text))
	}
}

// readTrace returns the content of the trace, or "" if there is no trace.
func (s *Store) readTrace(op *disk.Operation) (string, error) {
	if s.tracePath() == "" {
		return "", nil
	}
	b, err := op.ReadFile(s.tracePath())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(b), err
}

// isMountPoint reports whether the directory is on another file system than the directory above it.
func (s *Store) isMountPoint(op *disk.Operation) bool {
	dir, err := op.Stat(s.dir)
	above, bad := op.Stat(filepath.Dir(s.tracePath()))
	return err == nil && bad == nil && disk.Device(dir) != disk.Device(above)
}

// wasUsed reports whether the directory has had an entry, as far as that is known without it.
func (s *Store) wasUsed(op *disk.Operation) (bool, error) {
	if s.copy {
		return false, nil
	}
	if trace := s.tracePath(); trace != "" && !s.used.Load() {
		return op.Exists(trace)
	}
	return s.used.Load(), nil
}

// Trace returns the evidence that the directory has had an entry: the path of the trace beside it,
// or of an entry. It returns "" if nothing does.
func (s *Store) Trace(ctx context.Context) (of string, told bool, err error) {
	of, err = run(ctx, s, "list", func(op *disk.Operation) (string, error) {
		if was, err := s.wasUsed(op); was || err != nil {
			return s.tracePath(), err
		}
		entries, err := s.list(op, "", "")
		if err != nil || len(entries) == 0 {
			return "", err
		}
		return s.path(entries[0].Key), nil
	})
	return of, true, err
}

// Identity returns the path of the directory, which all stores of one directory have.
func (s *Store) Identity() (any, bool) {
	dir, err := filepath.Abs(s.dir)
	return dir, err == nil
}

// tracePath returns the path of the trace beside the directory, or "" if the directory can
// have no trace there.
func (s *Store) tracePath() string {
	dir, err := filepath.Abs(s.dir)
	if err != nil || s.copy || filepath.Dir(dir) == dir {
		return ""
	}
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".identity")
}

// An entry's file has the value and one more line: the version, the time, and the CRC-32C of
// all that goes before it.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeEntry(e driver.Entry) []byte {
	b := fmt.Appendf(bytes.Clone(e.Value), "\n%s %s ", e.Version, e.Time.Format(time.RFC3339Nano))
	return fmt.Appendf(b, "%08x\n", crc32.Checksum(b, castagnoli))
}

func decodeEntry(b []byte) (driver.Entry, error) {
	const sum = len("01234567\n")
	content := b[:max(0, len(b)-sum)]
	at := bytes.LastIndexByte(content, '\n')
	if at < 0 || fmt.Sprintf("%08x\n", crc32.Checksum(content, castagnoli)) != string(b[len(content):]) {
		return driver.Entry{}, fmt.Errorf("%w: its checksum does not match its content", driver.ErrBadRecord)
	}
	fields := strings.Fields(string(content[at+1:]))
	if len(fields) != 2 {
		return driver.Entry{}, fmt.Errorf("%w: its last line is %q", driver.ErrBadRecord, content[at+1:])
	}
	stored, err := time.Parse(time.RFC3339Nano, fields[1])
	if err != nil {
		return driver.Entry{}, fmt.Errorf("%w: %w", driver.ErrBadRecord, err)
	}
	return driver.Entry{Version: fields[0], Value: content[:at], Time: stored}, nil
}
