package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/seed-5394e6b1/snowflake/lease/internal/book"
	"github.com/seed-5394e6b1/snowflake/lease/internal/disk"
	"github.com/seed-5394e6b1/snowflake/lease/internal/file"
	"github.com/seed-5394e6b1/snowflake/lease/internal/machine"
)

// File returns the embedded store: a directory on a local file system of one host, which all
// processes that share worker IDs use. It needs no server, and makes the directory when it first
// needs it. An absent or empty directory may be new, or its file system may not be mounted. So its
// first start waits for a window, which is 3 s by default, unless Init or Options.NewStore has
// opened the store. The store has no clock: see Options.MaxLeap.
//
// Each entry is a file, such as worker/17, with a checksum. A save locks the file worker/17~lock
// while it replaces the entry; the system unlocks it when the process ends. A crash at any moment
// leaves the old entry or the new one. No call outlasts its context: if a file system hangs, the
// [*FileError] names the request and the file. The request continues in the background, and at most
// one waits for each file.
//
// If the directory disappears, for example because it is unmounted, the store is away until it is
// back. The file .NAME.identity beside a directory called NAME, if it can be written there, shows
// that the directory was in use, and whether a file system was mounted there. To start afresh,
// remove both when no process has issued IDs for longer than its window. If files in it disappear,
// holders put their records back, and newcomers wait: see [Acquire].
//
// HAZARD: IDs may repeat if the directory is restored from a backup, if a clean-up removes its lock
// files as stale, or if its file system does not share locks among all of its clients, as on some
// network file systems; and, until its holder renews, if all files of one worker ID are removed
// alone.
//
// HAZARD: if a directory that is a bind mount of the same file system, or on Windows a mount point,
// is unmounted, it looks as if it had been emptied. IDs may repeat when it is mounted again.
//
// HAZARD: if a directory is emptied, removed, replaced or not mounted, and the file .NAME.identity
// beside it could not be written or is gone too, the next start waits for its own window only. IDs
// may repeat if a process has a longer window, or holds worker IDs of the old directory, whose file
// system is still mounted for it; and if the old directory comes back.
func File(dir string) Store { return file.New(dir, machine.Disk, fileError) }

// FileError names the file that the file store could not use. It unwraps to [ErrBadRecord] or an
// error of the operating system. It matches [ErrRefused] if this user may not use the file, if a
// part of its path is not a directory, or if the directory cannot be made, as in /proc.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string {
	err := e.Err
	if of, ok := err.(*fs.PathError); ok && of.Path == e.Path {
		err = fmt.Errorf("%s: %w", of.Op, of.Err) // e.Path has it
	}
	return book.Once(fmt.Errorf("lease: file %s: %w", e.Path, err)).Error()
}

func (e *FileError) Is(target error) bool {
	return target == ErrRefused && slices.ContainsFunc([]error{fs.ErrPermission, syscall.ENOTDIR, disk.ErrNoDirectories},
		func(reason error) bool { return errors.Is(e.Err, reason) })
}

func (e *FileError) Unwrap() error { return e.Err }

// fileError returns a FileError.
func fileError(path string, err error) error { return &FileError{Path: path, Err: err} }
