package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
)

// disk is what the file store needs from a file system. Tests replace it by disks that
// count, crash, hang, or lose what was not synced.
type disk interface {
	list(dir string) ([]fs.DirEntry, error)
	stat(path string) (fs.FileInfo, error)
	read(path string) ([]byte, error)
	// open opens a file for writing. If the file does not exist, open makes it.
	open(path string) (diskFile, error)
	// lock opens a file as open does, and locks it, or returns errLocked if it is locked.
	// Closing the file unlocks it.
	lock(path string) (diskFile, error)
	rename(from, to string) error
	remove(path string) error
	mkdir(dir string) error
	// syncDir makes the creations, renames and removals in a directory durable.
	syncDir(dir string) error
}

type diskFile interface {
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
}

// osDisk is the operating system's file system. It refuses files that are not regular,
// because opening or reading a pipe or a device might never return.
type osDisk struct{}

func (osDisk) list(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }
func (osDisk) stat(path string) (fs.FileInfo, error)  { return os.Stat(path) }
func (osDisk) rename(from, to string) error           { return rename(from, to) }
func (osDisk) remove(path string) error               { return os.Remove(path) }
func (osDisk) mkdir(dir string) error                 { return os.Mkdir(dir, 0o755) }
func (osDisk) syncDir(dir string) error               { return syncDir(dir) }

func (osDisk) read(path string) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := bytes.NewBuffer(make([]byte, 0, 4<<10)) // room for a record, because crowds read a thousand of them each
	_, err = b.ReadFrom(f)
	return b.Bytes(), err
}

func (osDisk) open(path string) (diskFile, error) {
	return asDiskFile(openRegular(path, os.O_WRONLY|os.O_CREATE))
}

func (osDisk) lock(path string) (diskFile, error) { return asDiskFile(tryLock(path)) }

func asDiskFile(f *os.File, err error) (diskFile, error) {
	if err != nil {
		return nil, err // a nil diskFile, not one with a nil *os.File
	}
	return f, nil
}

func openRegular(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|openNonblock, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is not a regular file but %v", info.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// operation is the disk for one call of a file store's method. It knows at each moment
// which request the operating system has not answered, and makes no more requests after the
// call's context is done. Its errors name the file.
type operation struct {
	disk  disk
	ctx   context.Context
	at    atomic.Pointer[request]
	ended chan struct{}
}

// request is one request to the operating system.
type request struct{ what, path string }

// run calls f, and returns when f has returned or ctx is done. If ctx is done first, f goes
// on until the operating system has answered its last request. No other operation with this
// key begins until then, so a file system that hangs costs one goroutine, and not one for
// each attempt.
func run[T any](ctx context.Context, s *fileStore, key string, f func(*operation) (T, error)) (T, error) {
	var none T
	if s.dir == "" {
		return none, fmt.Errorf("%w: the directory's name is empty", ErrInvalidOptions)
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	op, err := s.begin(ctx, key)
	if err != nil {
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		v, err := f(op)
		s.end(key)
		results <- result{v, err}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-results: // f has just returned
		return r.value, r.err
	default:
		return none, op.hangs(ctx.Err())
	}
}

// begin waits until no other operation has this key.
func (s *fileStore) begin(ctx context.Context, key string) (*operation, error) {
	for {
		s.mu.Lock()
		other := s.running[key]
		if other == nil {
			op := &operation{disk: s.disk, ctx: ctx, ended: make(chan struct{})}
			op.at.Store(&request{"begin", s.dir})
			if s.running == nil {
				s.running = map[string]*operation{}
			}
			s.running[key] = op
			s.mu.Unlock()
			return op, nil
		}
		s.mu.Unlock()
		select {
		case <-other.ended:
		case <-ctx.Done():
			return nil, other.hangs(ctx.Err())
		}
	}
}

func (s *fileStore) end(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.running[key].ended)
	delete(s.running, key)
}

// hangs returns an error with the request that the operating system has not answered.
func (o *operation) hangs(err error) error {
	at := o.at.Load()
	return &FileError{Path: at.path, Err: fmt.Errorf("%s: %w", at.what, err)}
}

// ask makes a request to the operating system.
func (o *operation) ask(what, path string, f func() error) error {
	o.at.Store(&request{what, path})
	if err := o.ctx.Err(); err != nil {
		return o.hangs(err)
	}
	if err := f(); err != nil {
		return &FileError{Path: path, Err: err}
	}
	return nil
}

func (o *operation) list(dir string) (entries []fs.DirEntry, err error) {
	err = o.ask("list", dir, func() (err error) { entries, err = o.disk.list(dir); return err })
	return entries, err
}

func (o *operation) stat(path string) (info fs.FileInfo, err error) {
	err = o.ask("stat", path, func() (err error) { info, err = o.disk.stat(path); return err })
	return info, err
}

func (o *operation) read(path string) (b []byte, err error) {
	err = o.ask("read", path, func() (err error) { b, err = o.disk.read(path); return err })
	return b, err
}

func (o *operation) lock(path string) (f diskFile, err error) {
	err = o.ask("lock", path, func() (err error) { f, err = o.disk.lock(path); return err })
	return f, err
}

func (o *operation) mkdir(dir string) error {
	return o.ask("make", dir, func() error { return o.disk.mkdir(dir) })
}

func (o *operation) syncDir(dir string) error {
	return o.ask("sync", dir, func() error { return o.disk.syncDir(dir) })
}

// write writes b into a file at the offset at, cuts the file off after b, and syncs it. It
// fails if the file is shorter than at.
func (o *operation) write(path string, at int64, b []byte) error {
	var f diskFile
	err := o.ask("open", path, func() (err error) { f, err = o.disk.open(path); return err })
	if err != nil {
		return err
	}
	err = o.ask("write", path, func() error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.Size() < at {
			return fmt.Errorf("%w: it has %d bytes of %d", ErrBadRecord, info.Size(), at)
		}
		if info.Size() > at {
			if err := f.Truncate(at); err != nil {
				return err
			}
		}
		_, err = f.WriteAt(b, at)
		return err
	})
	if err == nil {
		err = o.ask("sync", path, f.Sync)
	}
	return errors.Join(err, f.Close())
}

// replace writes b to path. A crash leaves the old file or the new one.
func (o *operation) replace(path string, b []byte) error {
	aside := path + ".tmp"
	err := o.write(aside, 0, b)
	if err == nil {
		err = o.ask("rename", path, func() error { return o.disk.rename(aside, path) })
	}
	if err != nil {
		_ = o.disk.remove(aside)
		if e := new(FileError); errors.As(err, &e) {
			err = &FileError{Path: path, Err: e.Err}
		}
		return err
	}
	return o.syncDir(filepath.Dir(path))
}

// makeDir makes dir and the directories above it, and makes their names durable.
func (o *operation) makeDir(dir string) error {
	if _, err := o.stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.makeDir(parent); err != nil {
			return err
		}
	}
	if err := o.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.syncDir(parent)
}
