package lease

import (
	"path/filepath"
	"slices"

	"github.com/seed-5394e6b1/snowflake/lease/internal/file"
)

// HookedFile is File with a call before each request to the operating system.
func HookedFile(dir string, hook func(what, path string)) Store {
	return file.New(dir, func(what, path string, do func() error) error {
		hook(what, path)
		return do()
	}, fileError)
}

// CrashingFile is File with a call before each change of a file or directory.
func CrashingFile(dir string, crash func(step string)) Store {
	return HookedFile(dir, func(what, path string) {
		if slices.Contains([]string{"create", "write", "sync", "rename", "make directory", "sync directory"}, what) {
			crash(what + " " + filepath.Base(path))
		}
	})
}
