package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// A file store tells a directory that lost its records from a new directory by marks that
// stay when the records go:
//
//   - A lock file is not empty once its worker ID has had a record.
//   - The file identity has the random name of the store and, once there was a record, the
//     line "in use". Every record has the name, too.
//   - The file .NAME.identity, which lies beside a directory called NAME, has the name of
//     the store. It stays when the whole directory goes.
//
// A mark is made after the first record was saved. So a crash between the two leaves a
// store without marks, and not a store that looks wiped. A LocalCopy has no marks: a lease
// knows what to do without its copy.

const inUse = "in use\n"

func wiped(path, why string) error {
	return &FileError{Path: path, Err: fmt.Errorf("%w: %s", ErrWiped, why)}
}

// absent is ErrWiped for a directory that does not exist, so nobody can use it.
func absent(path, why string) error {
	return &FileError{Path: path, Err: fmt.Errorf("%w: %s: %w", ErrWiped, why, fs.ErrNotExist)}
}

// unusedFor says when a store may begin anew.
const unusedFor = "when no process has issued IDs under it for longer than its window"

// missing is the error of one record that is gone. If other records are there, only this
// worker ID is unusable.
type missing struct{ error }

func (e missing) Unwrap() error { return e.error }

func (s *fileStore) identityPath() string { return filepath.Join(s.dir, "identity") }

// outsidePath returns the path of the mark beside the directory, or "" if the directory can
// have no mark there.
func (s *fileStore) outsidePath() string {
	dir, err := filepath.Abs(s.dir)
	if err != nil || s.copy || filepath.Dir(dir) == dir {
		return ""
	}
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".identity")
}

// readIdentity returns the name of the store in the directory, "" if it has no name yet,
// and whether the store is in use.
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
	if !whole || len(name) != len(randomText()) || rest != "" && rest != inUse {
		return "", false, &FileError{Path: path, Err: fmt.Errorf("%w: it is not an identity: %q", ErrBadRecord, b)}
	}
	return name, rest == inUse, nil
}

// readOutside returns the name in the mark beside the directory, or "" if the mark is
// missing or cannot be read.
func (s *fileStore) readOutside(op *operation) string {
	path := s.outsidePath()
	if path == "" {
		return ""
	}
	b, _ := op.read(path)
	return strings.TrimSuffix(string(b), "\n")
}

// mayBeNew is called if the directory does not exist. It returns nil if the directory can
// never have existed.
func (s *fileStore) mayBeNew(op *operation) error {
	if s.readOutside(op) != "" {
		return absent(s.dir, "it is gone, or not mounted, and "+s.outsidePath()+" says that it was in use; put it back or, "+
			unusedFor+", remove "+s.outsidePath())
	}
	if s.used.Load() {
		return absent(s.dir, "it is gone, or not mounted, and a local copy says that it was in use")
	}
	return op.ctx.Err()
}

// mayBeUnused is called if the record with this file name does not exist. It returns nil if
// the record can never have existed.
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

// isThere is called if the directory has no record of a worker ID. It returns nil if the
// directory is still the same directory.
func (s *fileStore) isThere(op *operation) error {
	if s.copy {
		return nil
	}
	// Another record that is still there proves the same, and reading it is quicker than
	// listing the directory.
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

// isOurs returns nil if r belongs to the store that was in this directory before.
func (s *fileStore) isOurs(r fileRecord) error {
	if known := s.name.Load(); known != nil && !s.copy && r.Store != "" && r.Store != *known {
		return fmt.Errorf("%w: the record belongs to store %s, not to %s", ErrWiped, r.Store, *known)
	}
	return nil
}

// check returns nil if the directory is the store that it was before, and has records if it
// ever had any.
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
		// Look again: the first record may have come since, before its marks.
		if paths, err := s.recordPaths(op.list(s.dir)); err != nil || len(paths) > 0 {
			return err
		}
		return wiped(s.dir, fmt.Sprintf("it has no records, and %s or %s says that it was in use; put them back or, %s, remove the directory and %s",
			s.identityPath(), s.outsidePath(), unusedFor, s.outsidePath()))
	}
	if some && name != "" {
		s.name.Store(&name)
	}
	return nil
}

// errBegunAnew says that the directory is whole, but holds another store than before.
var errBegunAnew = errors.New("the directory was begun anew as another store")

// begunAnew returns errBegunAnew as a loss if err, which matches ErrWiped, has this reason:
// somebody emptied the directory, and others use it again. All of its marks must say so,
// including the mark beside it; otherwise the records may come back.
func (s *fileStore) begunAnew(op *operation, err error) error {
	known := s.name.Load()
	if !errors.Is(err, ErrWiped) || known == nil || s.copy {
		return err
	}
	name, used, bad := s.readIdentity(op)
	if bad != nil || !used || name == *known || s.readOutside(op) != name {
		return err
	}
	if paths, bad := s.recordPaths(op.list(s.dir)); bad != nil || len(paths) == 0 {
		return err
	}
	return &FileError{Path: s.dir, Err: fmt.Errorf("%w: %w", ErrLost, errBegunAnew)}
}

// again returns a new store for the same directory, for a lease whose directory was begun
// anew. It does not change s, because other leases may know records through it that are no
// longer there.
func again(s Store) Store {
	switch s := s.(type) {
	case *fileStore:
		return &fileStore{dir: s.dir, disk: s.disk}
	case *localCopy:
		return s.again(again(s.Store))
	}
	return s
}

// list returns what is in the directory. If the directory does not exist, list returns
// nothing and isNew, or an error if the directory existed before.
func (s *fileStore) list(op *operation) (entries []fs.DirEntry, isNew bool, err error) {
	entries, err = op.list(s.dir)
	if !errors.Is(err, fs.ErrNotExist) || s.name.Load() != nil {
		return entries, false, err
	}
	gone := s.mayBeNew(op)
	if gone == nil {
		return nil, true, nil
	}
	// Look again: another process may have made the directory since, and then its mark.
	if entries, err = op.list(s.dir); errors.Is(err, fs.ErrNotExist) {
		err = gone
	}
	return entries, false, err
}

// recordPaths returns the paths of the records among the entries of the directory. It
// passes on the error of the listing.
func (s *fileStore) recordPaths(entries []fs.DirEntry, err error) ([]string, error) {
	var paths []string
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

// files checks the directory, and returns the files of its records. If the directory does
// not exist, there are no files.
func (s *fileStore) files(op *operation) ([]string, error) {
	entries, isNew, err := s.list(op)
	if isNew {
		return nil, nil
	}
	paths, err := s.recordPaths(entries, err)
	if err != nil {
		return nil, err
	}
	return paths, s.check(op, len(paths) > 0)
}

// enter returns the name of the store. If the store is new, enter makes the directory and
// gives the store a name.
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
		for _, path := range records { // if somebody removed only the file identity, each record still has the name
			b, _ := op.read(path)
			if r, err := decodeRecord(b); err == nil && r.Store != "" {
				return r.Store
			}
		}
		return randomText()
	})
}

// identity returns the name of the store in the directory. If the store has no name, it
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
		if err := sleep(op.ctx, minBackoff+randomN(minBackoff)); err != nil {
			return "", op.hangs(err)
		}
	}
}

// mark notes that the store has a record; lock is the lock file of the record. If a
// step fails, the next save tries again.
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
		return // another process is marking it
	}
	defer lockAll.Close()
	err = op.replace(path, []byte(name+"\n"+inUse))
	if err == nil {
		if outside != "" {
			_ = op.replace(outside, []byte(name+"\n")) // without the right to write there, there is no such mark
		}
		s.marked.Store(true)
	}
}
