package lease

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
)

// A file store tells a directory that lost its records from a new one by marks
// that stay when the records go:
//
//   - A lock file is not empty once its worker ID has had a record.
//   - The file identity has the random name of the store and, once there was a
//     record, the line "in use". Every record has the name, too.
//   - The file .NAME.identity beside the directory, NAME being the directory's,
//     has the name of the store. It stays when the whole directory goes.
//
// A mark is made after the first record was saved, so that a crash between the
// two leaves a store that is not marked yet, and not one that looks wiped.
// A LocalCopy has no marks: a lease knows what to do without its copy.

const inUse = "in use\n"

func wiped(path, why string) error {
	return &FileError{Path: path, Err: fmt.Errorf("%w: %s", ErrWiped, why)}
}

// absent is ErrWiped of a directory that is not there, so that nobody can use it.
func absent(path, why string) error {
	return &FileError{Path: path, Err: fmt.Errorf("%w: %s: %w", ErrWiped, why, fs.ErrNotExist)}
}

// missing is the error of a record that is gone. If others are there, it is this worker
// ID only that nobody can use.
type missing struct{ error }

func (e missing) Unwrap() error { return e.error }

func (s *fileStore) identityPath() string { return filepath.Join(s.dir, "identity") }

// outsidePath returns the file beside the directory, or "" if there is no such
// place.
func (s *fileStore) outsidePath() string {
	dir, err := filepath.Abs(s.dir)
	if err != nil || s.copy || filepath.Dir(dir) == dir {
		return ""
	}
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".identity")
}

// readIdentity returns the name of the store in the directory, "" if it has none
// yet, and whether it is in use.
func (s *fileStore) readIdentity(op *operation) (name string, used bool, err error) {
	path := s.identityPath()
	b, err := op.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	name, rest, whole := strings.Cut(string(b), "\n")
	if !whole || len(name) != len(rand.Text()) || rest != "" && rest != inUse {
		return "", false, &FileError{Path: path, Err: fmt.Errorf("%w: it is not an identity: %q", ErrBadRecord, b)}
	}
	return name, rest == inUse, nil
}

// readOutside returns the name in the file beside the directory, or "" if there
// is none that can be read.
func (s *fileStore) readOutside(op *operation) string {
	path := s.outsidePath()
	if path == "" {
		return ""
	}
	b, _ := op.read(path)
	return strings.TrimSuffix(string(b), "\n")
}

// mayBeNew is nil if the directory, which is not there, can never have been
// there.
func (s *fileStore) mayBeNew(op *operation) error {
	if s.readOutside(op) != "" {
		return absent(s.dir, "it is gone, or not mounted, and "+s.outsidePath()+" says that it was in use")
	}
	if s.used.Load() {
		return absent(s.dir, "it is gone, or not mounted, and a local copy says that it was in use")
	}
	return op.ctx.Err()
}

// mayBeUnused is nil if the record with this file name, which is not there, can
// never have been there.
func (s *fileStore) mayBeUnused(op *operation, name string) error {
	if s.copy {
		return nil
	}
	info, err := op.stat(name + lockSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Size() > 0 {
		return missing{wiped(name+fileSuffix, "it is gone, and "+name+lockSuffix+" says that it was in use; "+
			"put it back or, when its holder has been gone for a window, remove both")}
	}
	return err
}

// isThere is nil if the directory, which has no record of a worker ID, is the one
// that it was before.
func (s *fileStore) isThere(op *operation) error {
	if s.copy {
		return nil
	}
	// A record that is still there says so, too, and is found sooner than a list.
	if known, witness := s.name.Load(), s.witness.Load(); known != nil && witness != nil {
		if _, err := op.stat(*witness); err == nil {
			if name, _, err := s.readIdentity(op); err == nil && name == *known {
				return nil
			}
		}
	}
	_, err := s.files(op)
	return err
}

// isOurs is nil if r is of the store that was here before.
func (s *fileStore) isOurs(r fileRecord) error {
	if known := s.name.Load(); known != nil && !s.copy && r.Store != "" && r.Store != *known {
		return fmt.Errorf("%w: the store was %s, and the record is of %s", ErrWiped, *known, r.Store)
	}
	return nil
}

// check is nil if the directory is the store that it was before, and has records
// if it ever had any.
func (s *fileStore) check(op *operation, some bool) error {
	if s.copy {
		return nil
	}
	name, used, err := s.readIdentity(op)
	if err != nil {
		return err
	}
	outside := s.readOutside(op)
	names := []string{name, outside}
	if known := s.name.Load(); known != nil {
		names, used = append(names, *known), true
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
	if len(slices.Compact(slices.Clone(names))) > 1 {
		return wiped(s.dir, fmt.Sprintf("it is another store than it was before: %s has %q, %s has %q", s.identityPath(), name, s.outsidePath(), outside))
	}
	if !some && (used || outside != "") {
		// Look again: the first record may have come before its marks.
		if paths, err := s.recordPaths(op); err != nil || len(paths) > 0 {
			return err
		}
		return wiped(s.dir, fmt.Sprintf("it has no records, and %s or %s says that it was in use", s.identityPath(), s.outsidePath()))
	}
	if some && name != "" {
		s.name.Store(&name)
	}
	return nil
}

// errBegunAnew says that the directory is whole, and another store than it was before.
var errBegunAnew = errors.New("the directory was begun anew as another store")

// begunAnew returns errBegunAnew as a loss if err, which matches ErrWiped, comes of
// a directory that somebody emptied and others use again. All of its marks must say so, and
// the one outside, too; otherwise the records may come back.
func (s *fileStore) begunAnew(op *operation, err error) error {
	known := s.name.Load()
	if !errors.Is(err, ErrWiped) || known == nil || s.copy {
		return err
	}
	name, used, bad := s.readIdentity(op)
	if bad != nil || !used || name == *known || s.readOutside(op) != name {
		return err
	}
	if paths, bad := s.recordPaths(op); bad != nil || len(paths) == 0 {
		return err
	}
	return &FileError{Path: s.dir, Err: fmt.Errorf("%w: %w", ErrLost, errBegunAnew)}
}

// again returns the store without what it knows of the directory, for a lease whose
// directory was begun anew. The one that was before stays as it is: what other
// leases know of its records is no longer true.
func (s *fileStore) again() *fileStore { return &fileStore{dir: s.dir, disk: s.disk} }

// recordPaths returns the files of records.
func (s *fileStore) recordPaths(op *operation) (paths []string, err error) {
	entries, err := op.list(s.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filePrefix) && filepath.Ext(e.Name()) == fileSuffix {
			paths = append(paths, filepath.Join(s.dir, e.Name()))
		}
	}
	if len(paths) > 0 {
		s.witness.Store(&paths[0])
	}
	return paths, err
}

// files returns the files of records, after it has checked the directory. If the
// directory is not there, there are none.
func (s *fileStore) files(op *operation) ([]string, error) {
	paths, err := s.recordPaths(op)
	if errors.Is(err, fs.ErrNotExist) && s.name.Load() == nil {
		return nil, s.mayBeNew(op)
	}
	if err != nil {
		return nil, err
	}
	return paths, s.check(op, len(paths) > 0)
}

// enter returns the name of the store. If the store is new it makes the directory
// and gives the store a name.
func (s *fileStore) enter(op *operation) (string, error) {
	if known := s.name.Load(); known != nil {
		return *known, nil
	}
	records, err := s.files(op)
	if err == nil {
		err = op.makeDir(s.dir)
	}
	if err != nil {
		return "", err
	}
	return s.identity(op, func() string {
		for _, path := range records { // somebody removed the file identity alone
			b, _ := op.read(path)
			if r, err := decodeRecord(b); err == nil && r.Store != "" {
				return r.Store
			}
		}
		return rand.Text()
	})
}

// identity returns the name of the store in the directory. If it has none, it
// gets a new one.
func (s *fileStore) identity(op *operation, fresh func() string) (string, error) {
	path := s.identityPath()
	for {
		name, _, err := s.readIdentity(op)
		if err != nil || name != "" {
			return name, err
		}
		lock, err := op.lock(path + lockSuffix)
		if err == nil {
			defer lock.Close()
			if name, _, err = s.readIdentity(op); err == nil && name == "" {
				name = fresh()
				err = op.replace(path, []byte(name+"\n"))
			}
			return name, err
		}
		if !errors.Is(err, errLocked) {
			return "", err
		}
		if err := sleep(op.ctx, minBackoff+mathrand.N(minBackoff)); err != nil {
			return "", op.hangs(err)
		}
	}
}

// mark marks a store that has a record, whose lock is given. If it fails, the next
// save tries again.
func (s *fileStore) mark(op *operation, name string, lock diskFile) {
	s.name.Store(&name)
	if s.copy {
		return
	}
	if info, err := lock.Stat(); err == nil && info.Size() == 0 {
		_, _ = lock.WriteAt([]byte(inUse), 0)
	}
	if s.marked.Load() {
		return
	}
	path, outside := s.identityPath(), s.outsidePath()
	_, used, err := s.readIdentity(op)
	if err == nil && used && (outside == "" || s.readOutside(op) != "") {
		s.marked.Store(true)
		return
	}
	lockAll, err := op.lock(path + lockSuffix)
	if err != nil {
		return // somebody else marks it
	}
	defer lockAll.Close()
	err = op.replace(path, []byte(name+"\n"+inUse))
	if err == nil {
		if outside != "" {
			_ = op.replace(outside, []byte(name+"\n")) // where we may not write, it is not marked
		}
		s.marked.Store(true)
	}
}
