package lease

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

	"github.com/seed-5394e6b1/snowflake/lease/internal/disk"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// File returns the embedded store: a directory on a local file system of one host. It needs
// no server, and makes the directory when it first needs it.
//
// A directory that is not there, or is empty, may be new, or lie in a file system that is not
// mounted. So its first start waits for a window, which is 3 s by default, unless [Init] or
// Options.NewStore has opened the store.
//
// The directory must be the same for all processes that share worker IDs. Each entry is a
// file, such as worker/17, with a checksum. Beside it lies worker/17~lock, which a save locks
// while it replaces the entry. The system unlocks it when the process ends. A crash at any
// moment leaves the old entry or the new one. If a file is not a whole entry, the error
// matches [ErrBadRecord] and is a [*FileError].
//
// No call outlasts its context. If a file system hangs, the [*FileError] says which request
// on which file was not answered. The request goes on in the background, and at most one
// waits for each file.
//
// # If files disappear
//
// If the directory goes away, for example because it is unmounted, it is an outage: the
// store goes on when the directory is back. The file .NAME.identity, which lies beside a
// directory called NAME if it can be written there, says that the directory was in use, and whether
// a file system was mounted there. To begin anew, remove both, when no process has issued IDs for
// longer than its window.
//
// If files in the directory disappear, also all of them, holders put their records back, and
// newcomers wait: see [Acquire].
//
// The store has no clock: see Options.MaxLeap.
//
// # Hazards
//
// HAZARD: IDs may repeat if the directory is restored from a backup, if a clean-up removes
// its lock files as stale, or if its file system does not share locks among all of its
// clients, as on some network file systems.
//
// HAZARD: if a directory that is a bind mount of the same file system, or on Windows a mount point,
// is unmounted, it looks as if it had been emptied. IDs may repeat when it is mounted again.
//
// HAZARD: the store forgets a worker ID if all of its files are removed alone. The worker ID then
// counts as never used, so IDs may repeat until its old holder renews.
//
// HAZARD: if a directory is emptied, removed, replaced or not mounted, and the file .NAME.identity
// beside it could not be written or is gone too, the next start waits for its own window only. IDs
// may repeat if a process has a longer window, or holds worker IDs of the old directory because its
// file system is still mounted for this process; and if the old directory comes back.
func File(dir string) Store { return newFileStore(dir, machine.Disk) }

type fileStore struct {
	dir  string
	copy bool // it is the directory of Options.LocalCopy, which has no mark beside it
	disk *disk.Disk

	used   atomic.Bool   // the directory had an entry
	device atomic.Uint64 // the file system on which the directory was last seen, or 0
	marked atomic.Bool   // the mark beside the directory was written, as far as it can be
}

func newFileStore(dir string, f disk.Func) *fileStore { return &fileStore{dir: dir, disk: disk.New(f)} }

// lockSuffix ends the names of locks. Keys have no '~'.
const lockSuffix = "~lock"

// minBackoff and maxBackoff are how long a save waits before it tries again to lock a
// locked file.
const (
	minBackoff = 2 * time.Millisecond
	maxBackoff = 64 * time.Millisecond
)

func (s *fileStore) path(key string) string { return entryPath(s.dir, key) }

func entryPath(dir, key string) string { return filepath.Join(dir, filepath.FromSlash(key)) }

// run runs an operation on the directory.
func run[T any](ctx context.Context, s *fileStore, key string, f func(*disk.Operation) (T, error)) (result T, err error) {
	if s.dir == "" {
		return result, fmt.Errorf("%w: the directory's name is empty", ErrInvalidOptions)
	}
	result, err = disk.Run(ctx, s.disk, key, s.dir, f)
	if of, ok := err.(*disk.Error); ok {
		err = (*FileError)(of)
	}
	return result, err
}

// Get waits for a Put of the same key whose caller has given up, until it is over.
func (s *fileStore) Get(ctx context.Context, key string) (Entry, error) {
	return run(ctx, s, key, func(op *disk.Operation) (Entry, error) { return s.get(op, key) })
}

func (s *fileStore) List(ctx context.Context, prefix string) ([]Entry, error) {
	return run(ctx, s, "list", func(op *disk.Operation) ([]Entry, error) {
		if err := s.isThere(op); err != nil {
			return nil, err
		}
		return s.list(op, "", prefix)
	})
}

// list returns the entries in a folder of the directory, and below it.
func (s *fileStore) list(op *disk.Operation, folder, prefix string) (entries []Entry, err error) {
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
				var below []Entry
				below, err = s.list(op, key, prefix)
				entries = append(entries, below...)
			}
		case strings.HasPrefix(key, prefix) && strings.HasSuffix(key, lockSuffix):
			// While an entry is being replaced, a listing may be without its file (on btrfs
			// it sometimes is), but never without its lock.
			var e Entry
			if e, err = s.get(op, strings.TrimSuffix(key, lockSuffix)); e.Version != "" {
				entries, err = append(entries, e), nil // also if it cannot be read
			}
		}
	}
	return entries, err
}

func (s *fileStore) Put(ctx context.Context, key, old string, value []byte) (Entry, error) {
	return run(ctx, s, key, func(op *disk.Operation) (Entry, error) {
		lock, err := s.lock(op, key, old)
		if err != nil {
			return Entry{}, err
		}
		defer disk.Unlock(lock)
		e := Entry{Key: key, Version: machine.RandomText(), Value: value, Time: time.Now().UTC().Round(0)}
		if err := op.Replace(s.path(key), encodeEntry(e)); err != nil {
			return Entry{}, err
		}
		s.used.Store(true)
		if s.outside() != "" && !s.marked.Swap(true) {
			s.mark(op)
		}
		return e, nil
	})
}

func (s *fileStore) Delete(ctx context.Context, key, old string) error {
	if old == "" {
		return fmt.Errorf("%w: %s is deleted by its version", ErrConflict, key)
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
func (s *fileStore) lock(op *disk.Operation, key, old string) (*os.File, error) {
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
			bad = nil // also if it cannot be read
		}
		if bad == nil && is.Version != old {
			bad = fmt.Errorf("%w: %s has version %q, not %q", ErrConflict, key, is.Version, old)
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
func (s *fileStore) get(op *disk.Operation, key string) (Entry, error) {
	path := s.path(key)
	b, err := op.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, s.isThere(op)
	}
	if err != nil {
		return Entry{}, err
	}
	e, err := decodeEntry(b)
	e.Key = key
	if err != nil {
		e.Version, e.Value = fmt.Sprintf("unreadable-%08x", crc32.Checksum(b, castagnoli)), nil
		return e, &FileError{Path: path, Err: err}
	}
	s.used.Store(true)
	return e, nil
}

// isThere returns an error if the directory was used and does not exist, or if an empty directory
// of another file system is in its place.
func (s *fileStore) isThere(op *disk.Operation) error {
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
	return s.away("gone, or not mounted")
}

// isMounted returns an error if the directory, which is on this file system, is empty, and was on
// another one: then it is not mounted, and what is seen is the mount point.
func (s *fileStore) isMounted(op *disk.Operation, device uint64) error {
	was := s.device.Load()
	if was == device {
		return nil
	}
	moved := was != 0
	if !moved {
		mark, err := s.marks(op)
		if err != nil {
			return err
		}
		moved = mark == markMounted && !s.isMountPoint(op)
	}
	if moved {
		if files, err := op.ReadDir(s.dir); err != nil {
			return err
		} else if len(files) == 0 {
			return s.away("empty, and on another file system than before, so it is not mounted")
		}
	}
	s.device.Store(device)
	return nil
}

// away returns the error of an outage.
func (s *fileStore) away(what string) error {
	return &FileError{Path: s.dir, Err: fmt.Errorf("%w: the directory is %s: put it back or, "+
		"when no process has issued IDs under it for longer than its window, remove %s: %w",
		ErrAway, what, s.outside(), fs.ErrNotExist)}
}

// What the mark beside the directory says.
const (
	markUsed    = "in use\n"
	markMounted = "in use, mounted\n" // a file system is mounted at the directory
)

// mark writes the mark, if it can be written.
func (s *fileStore) mark(op *disk.Operation) {
	text := markUsed
	if s.isMountPoint(op) {
		text = markMounted
	}
	if is, err := s.marks(op); err == nil && is != text {
		// Without the right to write there, the directory has no mark.
		_ = op.Replace(s.outside(), []byte(text))
	}
}

// marks returns what the mark says, or "" if there is no mark.
func (s *fileStore) marks(op *disk.Operation) (string, error) {
	if s.outside() == "" {
		return "", nil
	}
	b, err := op.ReadFile(s.outside())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(b), err
}

// isMountPoint reports whether the directory is on another file system than the directory above it.
func (s *fileStore) isMountPoint(op *disk.Operation) bool {
	dir, err := op.Stat(s.dir)
	above, bad := op.Stat(filepath.Dir(s.outside()))
	return err == nil && bad == nil && disk.Device(dir) != disk.Device(above)
}

// wasUsed reports whether the directory has had an entry, as far as that is known without it.
func (s *fileStore) wasUsed(op *disk.Operation) (bool, error) {
	if s.copy {
		return false, nil
	}
	if outside := s.outside(); outside != "" && !s.used.Load() {
		return op.Exists(outside)
	}
	return s.used.Load(), nil
}

// Trace returns what tells that the directory has had an entry: the path of the mark beside it, or
// of an entry. It returns "" if nothing does.
func (s *fileStore) Trace(ctx context.Context) (of string, told bool, err error) {
	of, err = run(ctx, s, "list", func(op *disk.Operation) (string, error) {
		if was, err := s.wasUsed(op); was || err != nil {
			return s.outside(), err
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
func (s *fileStore) Identity() (any, bool) {
	dir, err := filepath.Abs(s.dir)
	return dir, err == nil
}

// outside returns the path of the mark beside the directory, or "" if the directory can
// have no mark there.
func (s *fileStore) outside() string {
	dir, err := filepath.Abs(s.dir)
	if err != nil || s.copy || filepath.Dir(dir) == dir {
		return ""
	}
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".identity")
}

// An entry's file has the value and one more line: the version, the time, and the CRC-32C of
// all that goes before it.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeEntry(e Entry) []byte {
	b := fmt.Appendf(bytes.Clone(e.Value), "\n%s %s ", e.Version, e.Time.Format(time.RFC3339Nano))
	return fmt.Appendf(b, "%08x\n", crc32.Checksum(b, castagnoli))
}

func decodeEntry(b []byte) (Entry, error) {
	const sum = len("01234567\n")
	content := b[:max(0, len(b)-sum)]
	at := bytes.LastIndexByte(content, '\n')
	if at < 0 || fmt.Sprintf("%08x\n", crc32.Checksum(content, castagnoli)) != string(b[len(content):]) {
		return Entry{}, fmt.Errorf("%w: its checksum does not match its content", ErrBadRecord)
	}
	fields := strings.Fields(string(content[at+1:]))
	if len(fields) != 2 {
		return Entry{}, fmt.Errorf("%w: its last line is %q", ErrBadRecord, content[at+1:])
	}
	stored, err := time.Parse(time.RFC3339Nano, fields[1])
	if err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	return Entry{Version: fields[0], Value: content[:at], Time: stored}, nil
}
