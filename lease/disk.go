package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"
)

// disk makes one request to the operating system: it calls do. Tests and the simulator have
// disks that count, fail, crash, hang, or lose what was not synced.
type disk func(what, path string, do func() error) error

func osDisk(_, _ string, do func() error) error { return do() }

// operation is one call of a file store's method. It knows at each moment which request the
// operating system has not answered, and makes no more requests after the call's context is
// done. Its errors name the file.
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
func run[T any](ctx context.Context, s *fileStore, key string, f func(*operation) (T, error)) (none T, err error) {
	if s.dir == "" {
		return none, fmt.Errorf("%w: the directory's name is empty", ErrInvalidOptions)
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	op := &operation{disk: s.disk, ctx: ctx, ended: make(chan struct{})}
	op.at.Store(&request{"begin", s.dir})
	for {
		other, busy := s.running.LoadOrStore(key, op)
		if !busy {
			break
		}
		select {
		case <-other.(*operation).ended:
		case <-ctx.Done():
			return none, other.(*operation).hangs(ctx.Err())
		}
	}
	var result T
	var failed error
	go func() {
		result, failed = f(op)
		s.running.Delete(key)
		close(op.ended)
	}()
	select {
	case <-op.ended:
		return result, failed
	case <-ctx.Done():
		return none, op.hangs(ctx.Err())
	}
}

// hangs returns an error with the request that the operating system has not answered.
func (o *operation) hangs(err error) error {
	at := o.at.Load()
	return &FileError{Path: at.path, Err: fmt.Errorf("%s: %w", at.what, err)}
}

// ask makes a request to the operating system.
func (o *operation) ask(what, path string, do func() error) error {
	if err := o.ctx.Err(); err != nil {
		return o.hangs(err)
	}
	o.at.Store(&request{what, path})
	if err := o.disk(what, path, func() error { return o.outlast(what, do) }); err != nil {
		return &FileError{Path: path, Err: err}
	}
	return nil
}

// askFor is ask for a request with a result.
func askFor[T any](o *operation, what, path string, do func(path string) (T, error)) (result T, err error) {
	err = o.ask(what, path, func() (err error) { result, err = do(path); return err })
	return result, err
}

// exists reports whether there is a file or directory.
func (o *operation) exists(path string) (bool, error) {
	_, err := askFor(o, "stat", path, os.Stat)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func readFile(path string) ([]byte, error) {
	f, err := openRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// openRegular refuses files that are not regular, because opening or reading a pipe or a
// device might never return.
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

// write makes a file with the content b, and syncs it.
func (o *operation) write(path string, b []byte) error {
	f, err := askFor(o, "create", path, func(path string) (*os.File, error) {
		return openRegular(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	})
	if err != nil {
		return err
	}
	err = o.ask("write", path, func() error { _, err := f.Write(b); return err })
	if err == nil {
		err = o.ask("sync", path, f.Sync)
	}
	return errors.Join(err, f.Close())
}

// replace writes b to path. A crash leaves the old file or the new one.
func (o *operation) replace(path string, b []byte) error {
	aside := path + tmpSuffix
	err := o.write(aside, b)
	if err == nil {
		err = o.ask("rename", path, func() error { return os.Rename(aside, path) })
	}
	if err != nil {
		_ = os.Remove(aside)
		var e *FileError
		if errors.As(err, &e) {
			err = &FileError{Path: path, Err: e.Err}
		}
		return err
	}
	return o.syncDir(filepath.Dir(path))
}

// makeDir makes dir and the directories above it, and makes their names durable.
func (o *operation) makeDir(dir string) error {
	if is, err := o.exists(dir); is && err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.makeDir(parent); err != nil {
			return err
		}
	}
	err := o.ask("make directory", dir, func() error { return os.Mkdir(dir, 0o755) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.syncDir(parent)
}

// syncDir makes the creations, renames and removals in a directory durable. Windows cannot
// sync a directory, and NTFS keeps them in its journal.
func (o *operation) syncDir(dir string) error {
	return o.ask("sync directory", dir, func() error {
		if runtime.GOOS == "windows" {
			return nil
		}
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		return errors.Join(d.Sync(), d.Close())
	})
}

// outlast calls do. On Windows it calls do again while another process has the file open in a way that
// excludes do's, for as long as patienceWith says.
func (o *operation) outlast(what string, do func() error) error {
	for begun := time.Now(); ; {
		err := do()
		if patience := patienceWith(what, err); patience == 0 || time.Since(begun) > patience ||
			sleep(o.ctx, minBackoff+randomN(minBackoff)) != nil {
			return err
		}
	}
}
