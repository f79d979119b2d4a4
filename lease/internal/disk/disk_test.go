//go:build go1.25

package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// do runs an operation that has no result.
func do(ctx context.Context, d *Disk, key string, f func(*Operation) error) error {
	_, err := Run(ctx, d, key, "dir", func(o *Operation) (none struct{}, err error) { return none, f(o) })
	return err
}

// While the file system hangs, Run ends with its context, and all attempts of a key together need
// one goroutine. Operations of other keys go on.
func TestHangingFileSystemHoldsUpOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		path := filepath.Join(t.TempDir(), "file")
		d := New(func(what, _ string, do func() error) error {
			if what == "sync" {
				<-hangs
			}
			return do()
		})
		before, began := runtime.NumGoroutine(), 0
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			err := do(ctx, d, "a", func(o *Operation) error { began++; return o.Replace(path, []byte("a")) })
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "sync: ")
			of := new(Error)
			require.ErrorAs(t, err, &of)
			require.Equal(t, path+AsideSuffix, of.Path)
		}
		require.Equal(t, 1, began)
		assert.LessOrEqual(t, runtime.NumGoroutine(), before+1)
		other, err := Run(t.Context(), d, "b", "dir", func(o *Operation) (bool, error) { return o.Exists(path) })
		require.NoError(t, err)
		require.False(t, other)
		close(hangs)
		require.NoError(t, do(t.Context(), d, "a", func(o *Operation) error { return o.Replace(path, []byte("b")) }))
		require.NoFileExists(t, path+AsideSuffix)
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "b", string(b))
	})
}

// An operation whose caller has gone makes no request after the one under way.
func TestOperationWithoutACallerMakesNoMoreRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		var asked []string
		path := filepath.Join(t.TempDir(), "file")
		d := New(func(what, _ string, do func() error) error {
			if asked = append(asked, what); what == "write" {
				<-hangs
			}
			return do()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, do(ctx, d, "a", func(o *Operation) error { return o.Replace(path, nil) }), context.DeadlineExceeded)
		close(hangs)
		synctest.Wait()
		require.Equal(t, []string{"create", "write"}, asked)
		require.NoFileExists(t, path)
	})
}

// Whichever request of a Replace fails, path has its old content or the new one, and the error
// names it.
func TestReplaceThatFailsLeavesAWholeFile(t *testing.T) {
	dir, full := t.TempDir(), errors.New("no space left")
	path := filepath.Join(dir, "file")
	all := []string{"create", "write", "sync", "rename", "sync directory"}
	for at, fails := range all {
		require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
		var asked []string
		d := New(func(what, _ string, do func() error) error {
			if asked = append(asked, what); what == fails {
				return full
			}
			return do()
		})
		err := do(t.Context(), d, "a", func(o *Operation) error { return o.Replace(path, []byte("new")) })
		require.ErrorIs(t, err, full)
		require.Equal(t, all[:at+1], asked)
		of, want := new(Error), "old"
		require.ErrorAs(t, err, &of)
		if fails == "sync directory" {
			want = "new"
			require.Equal(t, dir, of.Path)
		} else {
			require.Equal(t, path, of.Path)
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(b))
		require.NoFileExists(t, path+AsideSuffix)
	}
}

// lossy is a disk that loses all that was not synced when the machine crashes: contents of files
// and names in directories.
type lossy struct {
	synced map[string]string // by path: the content at the last sync; of a directory "directory"
	names  map[string]string // by path: the content after a crash
}

func (d *lossy) request(what, path string, do func() error) error {
	if err := do(); err != nil {
		return err
	}
	switch what {
	case "make directory":
		d.synced[path] = "directory"
	case "sync":
		b, err := os.ReadFile(path)
		d.synced[path] = string(b)
		return err
	case "rename":
		d.synced[path] = d.synced[path+AsideSuffix]
	case "remove":
		delete(d.synced, path)
	case "sync directory":
		for of := range d.names {
			if filepath.Dir(of) == path {
				delete(d.names, of)
			}
		}
		for of, content := range d.synced {
			if filepath.Dir(of) == path {
				d.names[of] = content
			}
		}
	}
	return nil
}

// What was made, replaced and removed stays so after a crash of the machine.
func TestChangesSurviveACrashOfTheMachine(t *testing.T) {
	l := &lossy{synced: map[string]string{}, names: map[string]string{}}
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "file")
	d := New(l.request)
	require.NoError(t, do(t.Context(), d, "a", func(o *Operation) error { return o.MakeDir(dir) }))
	require.Equal(t, map[string]string{filepath.Dir(dir): "directory", dir: "directory"}, l.names)
	for i := range 3 {
		text := fmt.Sprint(i)
		require.NoError(t, do(t.Context(), d, "a", func(o *Operation) error { return o.Replace(path, []byte(text)) }))
		require.Equal(t, text, l.names[path])
	}
	require.NoError(t, do(t.Context(), d, "a", func(o *Operation) error { return o.Remove(path) }))
	require.NotContains(t, l.names, path)
}

func TestLockExcludesAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock := func(d *Disk) (*os.File, error) {
		return Run(t.Context(), d, "a", "dir", func(o *Operation) (*os.File, error) { return o.Lock(path) })
	}
	a, b := New(OS), New(OS)
	held, err := lock(a)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	for _, d := range []*Disk{a, b} {
		_, err = lock(d)
		require.ErrorIs(t, err, ErrLocked)
	}
	Unlock(held)
	held, err = lock(b)
	require.NoError(t, err)
	Unlock(held)
	_, err = os.Stat(path)
	require.NotErrorIs(t, err, fs.ErrNotExist, "the file stays")
}
