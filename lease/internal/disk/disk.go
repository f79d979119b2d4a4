// Package disk changes files so that a crash leaves the old file or the new one. No caller waits
// longer than its context allows for a file system that hangs.
//
// Run runs an operation, which makes one request to the operating system after another. If one of
// them is not answered, Run returns when its context is done, with an [*Error] that names the
// request and the file.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
)

// Func makes one request to the operating system: it calls do. Tests and the simulator use other
// functions, which count, fail, crash, hang, or lose data that was not synced.
type Func func(what, path string, do func() error) error

// OS is the Func that calls do and nothing else.
func OS(_, _ string, do func() error) error { return do() }

// Disk runs operations, one at a time for each key.
type Disk struct {
	request Func
	running sync.Map // by key: the *Operation that is under way
}

// New returns a Disk whose operations make their requests with f.
func New(f Func) *Disk { return &Disk{request: f} }

// Error says which file could not be used, and why.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("file %s: %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Operation makes requests to the operating system. It knows at each moment which of them has
// no answer, and makes no more after the context of Run is done. The errors of its methods
// are of type [*Error].
type Operation struct {
	request Func
	ctx     context.Context
	at      atomic.Pointer[request]
	ended   chan struct{}
}

// request is one request to the operating system.
type request struct{ what, path string }

// Run calls f, and returns when f has returned or ctx is done. If ctx is done first, f continues
// until the operating system has answered its last request. No other operation with this key begins
// until then, so a file system that hangs costs one goroutine, and not one for each attempt. The
// error of an operation that has made no request yet names dir.
func Run[T any](ctx context.Context, d *Disk, key, dir string, f func(*Operation) (T, error)) (none T, err error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	op := &Operation{request: d.request, ctx: ctx, ended: make(chan struct{})}
	op.at.Store(&request{"begin", dir})
	for {
		other, busy := d.running.LoadOrStore(key, op)
		if !busy {
			break
		}
		select {
		case <-other.(*Operation).ended:
		case <-ctx.Done():
			return none, other.(*Operation).hangs(ctx.Err())
		}
	}
	var result T
	var failed error
	go func() {
		result, failed = f(op)
		d.running.Delete(key)
		close(op.ended)
	}()
	select {
	case <-op.ended:
		return result, failed
	case <-ctx.Done():
		return none, op.hangs(ctx.Err())
	}
}

// hangs returns an error with the request that has no answer.
func (o *Operation) hangs(err error) error {
	at := o.at.Load()
	return &Error{Path: at.path, Err: fmt.Errorf("%s: %w", at.what, err)}
}

// ask makes a request.
func (o *Operation) ask(what, path string, do func() error) error {
	if err := o.ctx.Err(); err != nil {
		return o.hangs(err)
	}
	o.at.Store(&request{what, path})
	if err := o.request(what, path, func() error { return outlast(o.ctx, what, do) }); err != nil {
		return &Error{Path: path, Err: err}
	}
	return nil
}

// askFor makes a request with a result.
func askFor[T any](o *Operation, what, path string, do func(path string) (T, error)) (result T, err error) {
	err = o.ask(what, path, func() (err error) { result, err = do(path); return err })
	return result, err
}

// Wait calls wait with the context of Run. Until wait returns, the operation waits for what at
// path.
func (o *Operation) Wait(what, path string, wait func(context.Context) error) error {
	o.at.Store(&request{what, path})
	if err := wait(o.ctx); err != nil {
		return o.hangs(err)
	}
	return nil
}

// Stat describes a file or directory.
func (o *Operation) Stat(path string) (fs.FileInfo, error) {
	return askFor(o, "stat", path, os.Stat)
}

// Exists reports whether there is a file or directory.
func (o *Operation) Exists(path string) (bool, error) {
	_, err := o.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ReadDir lists a directory.
func (o *Operation) ReadDir(path string) ([]fs.DirEntry, error) {
	return askFor(o, "list", path, os.ReadDir)
}

// ReadFile returns the content of a regular file.
func (o *Operation) ReadFile(path string) ([]byte, error) {
	return askFor(o, "read", path, func(path string) ([]byte, error) {
		f, err := openRegular(path, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(f)
	})
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

// Lock makes a file, if it does not exist, and locks it: any other Lock of it fails with
// [ErrLocked], in this process or another, until Unlock is called or the process ends. Where the
// system has no such locks, it fails with [errors.ErrUnsupported].
func (o *Operation) Lock(path string) (*os.File, error) {
	return askFor(o, "lock", path, tryLock)
}

// Unlock ends a Lock.
func Unlock(f *os.File) { unlock(f) }

// Device returns the file system of a file, and 0 if it is not known.
func Device(info fs.FileInfo) uint64 { return deviceOf(info) }

// AsideSuffix ends the name of the file that Replace writes and renames.
const AsideSuffix = "~new"

// Replace writes b to path, and syncs it. A crash leaves the old file or the new one. The error
// names path.
func (o *Operation) Replace(path string, b []byte) error {
	aside := path + AsideSuffix
	err := o.write(aside, b)
	if err == nil {
		err = o.ask("rename", path, func() error { return os.Rename(aside, path) })
	}
	if err != nil {
		_ = os.Remove(aside)
		if e := new(Error); errors.As(err, &e) {
			err = &Error{Path: path, Err: e.Err}
		}
		return err
	}
	return o.syncDir(filepath.Dir(path))
}

// write makes a file with the content b, and syncs it.
func (o *Operation) write(path string, b []byte) error {
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
	if bad := f.Close(); err == nil && bad != nil {
		err = &Error{Path: path, Err: bad}
	}
	return err
}

// Remove removes a file. After a crash, the file may still be there.
func (o *Operation) Remove(path string) error {
	err := o.ask("remove", path, func() error { return os.Remove(path) })
	if err != nil {
		return err
	}
	return o.syncDir(filepath.Dir(path))
}

// MakeDir makes dir and the directories above it, and makes their names durable.
func (o *Operation) MakeDir(dir string) error {
	if is, err := o.Exists(dir); is && err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.MakeDir(parent); err != nil {
			return err
		}
	}
	err := o.ask("make directory", dir, func() error { return os.Mkdir(dir, 0o755) })
	if errors.Is(err, fs.ErrNotExist) {
		if is, bad := o.Exists(parent); is && bad == nil {
			return &Error{Path: dir, Err: fmt.Errorf("%w: choose another directory: %w", ErrNoDirectories, err.(*Error).Err)}
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.syncDir(parent)
}

// ErrNoDirectories is matched by the error of MakeDir if the parent exists, and its file
// system makes no directories, as /proc does.
var ErrNoDirectories = errors.New("no directory can be made in its parent")

// syncDir makes the creations, renames and removals in a directory durable. Windows cannot
// sync a directory, and NTFS keeps them in its journal.
func (o *Operation) syncDir(dir string) error {
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
