package lease

import (
	"io/fs"
	"path/filepath"
	"slices"
)

// HookedFile is File with a call before each request to the operating system.
func HookedFile(dir string, hook func(what, path string)) Store {
	return &fileStore{dir: dir, disk: hookedDisk{osDisk{}, hook}}
}

// CrashingFile is File with a call before each change of a file or directory.
func CrashingFile(dir string, crash func(step string)) Store {
	return HookedFile(dir, func(what, path string) {
		switch {
		case slices.Contains([]string{"create", "write", "sync", "rename"}, what):
			crash(what + " " + filepath.Base(path))
		case slices.Contains([]string{"make directory", "sync directory"}, what):
			crash(what)
		}
	})
}

// EncodeRecord returns the content of a record's file, even if the record is not valid.
func EncodeRecord(r Record) ([]byte, error) { return encodeRecord(fileRecord{Record: r}) }

// WithChecksum returns the content of a file with any line and the line's checksum.
func WithChecksum(line string) []byte {
	return withChecksum([]byte(line), '\n')
}

// hookedDisk is a disk with a call before each request.
type hookedDisk struct {
	disk disk
	hook func(what, path string)
}

func (d hookedDisk) list(dir string) ([]fs.DirEntry, error) {
	d.hook("list", dir)
	return d.disk.list(dir)
}

func (d hookedDisk) stat(path string) (fs.FileInfo, error) {
	d.hook("stat", path)
	return d.disk.stat(path)
}

func (d hookedDisk) read(path string) ([]byte, error) {
	d.hook("read", path)
	return d.disk.read(path)
}

func (d hookedDisk) open(path string) (diskFile, error) {
	d.hook("create", path)
	f, err := d.disk.open(path)
	return hookedFile{f, d, path}, err
}

func (d hookedDisk) lock(path string) (diskFile, error) {
	d.hook("lock", path)
	f, err := d.disk.lock(path)
	return hookedFile{f, d, path}, err
}

func (d hookedDisk) rename(from, to string) error {
	d.hook("rename", to)
	return d.disk.rename(from, to)
}

func (d hookedDisk) remove(path string) error {
	d.hook("remove", path)
	return d.disk.remove(path)
}

func (d hookedDisk) mkdir(dir string) error {
	d.hook("make directory", dir)
	return d.disk.mkdir(dir)
}

func (d hookedDisk) syncDir(dir string) error {
	d.hook("sync directory", dir)
	return d.disk.syncDir(dir)
}

type hookedFile struct {
	diskFile
	d    hookedDisk
	path string
}

func (f hookedFile) WriteAt(b []byte, at int64) (int, error) {
	f.d.hook("write", f.path)
	return f.diskFile.WriteAt(b, at)
}

func (f hookedFile) Sync() error {
	f.d.hook("sync", f.path)
	return f.diskFile.Sync()
}
