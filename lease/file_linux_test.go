//go:build go1.25

package lease_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// mountTmpfs mounts a new file system for a test.
func mountTmpfs(t *testing.T, options string) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("it needs to mount a tmpfs, so run it as root (in a container, with CAP_SYS_ADMIN): %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fillUp takes all free space, and returns a function that gives it back.
func fillUp(t *testing.T, dir string) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for size := 1 << 16; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	return func() { require.NoError(t, os.Remove(path)) }
}

// mountPoint returns a directory at which a file system is mounted.
func mountPoint(t *testing.T) (dir string, mount, unmount func() error) {
	real, dir := mountTmpfs(t, ""), filepath.Join(t.TempDir(), "leases")
	require.NoError(t, os.Mkdir(dir, 0o755))
	mount = func() error { return syscall.Mount(real, dir, "", syscall.MS_BIND, "") }
	unmount = func() error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
	require.NoError(t, mount())
	t.Cleanup(func() { _ = unmount() })
	return dir, mount, unmount
}

// Processes do not take the mount point for an emptied directory, and save nothing there.
func TestUnmountedDirectoryIsAnOutage(t *testing.T) {
	dir, mount, unmount := mountPoint(t)
	isAnOutage(t, dir, unmount, func() error {
		files, err := os.ReadDir(dir)
		assert.Empty(t, files)
		return errors.Join(err, mount())
	})
}

// What never mends by itself ends at once, and the error says what to do.
func TestImpossibleDirectoryIsRefused(t *testing.T) {
	for _, dir := range []string{"/proc/nope", "/proc/nope/below"} {
		_, err := lease.Acquire(t.Context(), lease.File(dir), nil)
		require.ErrorIs(t, err, lease.ErrRefused, dir)
		require.ErrorContains(t, err, "/proc/nope: no directory can be made in its parent: choose another directory")
	}
}

// The directory lies in a mount that goes away, and the trace beside it goes, too.
func TestDirectoryInAMountThatIsGoneRepeatsNoID(t *testing.T) {
	mounted := mountTmpfs(t, "")
	dir := filepath.Join(mounted, "leases")
	o := &lease.Options{Window: 400 * time.Millisecond, Count: 1, NewStore: true, Logger: slog.New(slog.DiscardHandler)}
	l, err := lease.Acquire(t.Context(), lease.File(dir), o)
	require.NoError(t, err)
	defer l.Release(context.Background())
	seen := map[snowflake.ID]int{}
	var mu sync.Mutex
	issue := func(l *lease.Lease) {
		g, err := snowflake.NewLeased(l, nil)
		require.NoError(t, err)
		for end := time.Now().Add(2 * o.Window); time.Now().Before(end); {
			if id, err := g.NextID(); err == nil {
				mu.Lock()
				seen[id]++
				mu.Unlock()
			}
		}
	}
	var both sync.WaitGroup
	both.Go(func() { issue(l) })
	require.NoError(t, syscall.Unmount(mounted, syscall.MNT_DETACH))
	// So that the test's end finds something to unmount.
	t.Cleanup(func() { _ = syscall.Mount("tmpfs", mounted, "tmpfs", 0, "") })
	o.NewStore = false
	ctx, cancel := context.WithTimeout(t.Context(), 5*o.Window)
	defer cancel()
	newcomer, err := lease.Acquire(ctx, lease.File(dir), o)
	if err == nil {
		defer newcomer.Release(context.Background())
		both.Go(func() { issue(newcomer) })
	} else { // the holder has put its record back in time
		require.ErrorIs(t, err, lease.ErrWiped)
	}
	both.Wait()
	assert.NotEmpty(t, seen)
	for id, times := range seen {
		require.Equal(t, 1, times, id)
	}
}

// If the trace beside the directory cannot be written, the store that has used the directory knows
// the file system.
func TestUnmountedDirectoryIsAnOutageWithoutAMark(t *testing.T) {
	dir, mount, unmount := mountPoint(t)
	s := lease.File(dir)
	one := mustPut(t, s, "worker/1", "", "one")
	_, err := s.Get(t.Context(), "worker/2")
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(dir), ".leases.identity")))
	require.NoError(t, unmount())
	_, err = s.Get(t.Context(), "worker/1")
	require.ErrorIs(t, err, lease.ErrAway)
	_, err = s.Put(t.Context(), "worker/1", "", nil)
	require.ErrorIs(t, err, lease.ErrAway)
	require.NoError(t, mount())
	mustPut(t, s, "worker/1", one.Version, "two")
}

func TestFileOnAFullDiskFailsAndRecovers(t *testing.T) {
	dir := mountTmpfs(t, "size=64k")
	s := lease.File(dir)
	one := mustPut(t, s, "worker/1", "", "one")
	empty := fillUp(t, dir)
	for range 3 {
		_, err := s.Put(t.Context(), "worker/1", one.Version, []byte("two"))
		require.ErrorIs(t, err, syscall.ENOSPC)
		names(t, err, fileOf(dir, 1))
		_, err = s.Put(t.Context(), "worker/2", "", nil)
		require.ErrorIs(t, err, syscall.ENOSPC)
		is, err := s.Get(t.Context(), "worker/1")
		require.NoError(t, err)
		require.Equal(t, one, is)
		assert.NoFileExists(t, fileOf(dir, 1)+"~new", "what was written of it takes no space")
		// Acquire waits for room.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = lease.Acquire(ctx, s, &lease.Options{NewStore: true})
		cancel()
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	empty()
	mustPut(t, s, "worker/1", one.Version, "two")
}

// If a file is replaced by a pipe, opening it must not block for ever.
func TestPipeInPlaceOfAFileIsRefused(t *testing.T) {
	for _, name := range []string{"1", "1~lock"} {
		dir := t.TempDir()
		s, path := lease.File(dir), fileOf(dir, 1)[:len(fileOf(dir, 1))-1]+name
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o755))
		require.NoError(t, syscall.Mkfifo(path, 0o644))
		_, err := s.Put(t.Context(), "worker/1", "", nil)
		names(t, err, path)
		require.ErrorContains(t, err, "not a regular file")
		require.NoError(t, os.Remove(path))
		mustPut(t, s, "worker/1", "", "one")
	}
}

// With a full disk, a file system without free inodes, or one that is read-only, a start waits, and
// no holder has to be restarted.
func TestDirectoryThatTakesNoWritesIsATroubleThatPasses(t *testing.T) {
	const limits = "size=1m,nr_inodes=64"
	dir := mountTmpfs(t, limits)
	synctest.Test(t, func(t *testing.T) {
		inodes := func() (free func()) {
			var all []string
			for i := range 64 {
				path := filepath.Join(dir, fmt.Sprint("filler", i))
				if os.WriteFile(path, nil, 0o600) == nil {
					all = append(all, path)
				}
			}
			return func() {
				for _, path := range all {
					require.NoError(t, os.Remove(path))
				}
			}
		}
		remount := func(flags uintptr) {
			require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, limits))
		}
		readOnly := func() (writable func()) {
			remount(syscall.MS_RDONLY)
			return func() { remount(0) }
		}
		o := lease.Options{Window: time.Second}
		live, err := lease.Acquire(t.Context(), lease.File(filepath.Join(dir, "store")), &o)
		require.NoError(t, err)
		defer live.Release(t.Context())
		for i, x := range []struct {
			begin func() (end func())
			says  error
		}{
			{func() func() { return fillUp(t, dir) }, syscall.ENOSPC}, {inodes, syscall.ENOSPC}, {readOnly, syscall.EROFS},
		} {
			end := x.begin()
			require.Eventually(t, func() bool { return live.Stats().LastError != nil }, time.Minute, 10*time.Millisecond)
			assert.ErrorIs(t, live.Stats().LastError, x.says)
			var log bytes.Buffer
			late, cancel := context.WithTimeout(t.Context(), time.Second)
			o.Owner, o.Logger = fmt.Sprint("newcomer ", i), slog.New(slog.NewTextHandler(&log, nil))
			_, err := lease.Acquire(late, lease.File(filepath.Join(dir, "store")), &o)
			cancel()
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, x.says)
			assert.Contains(t, log.String(), x.says.Error())
			started := make(chan error, 1)
			go func() {
				l, err := lease.Acquire(t.Context(), lease.File(filepath.Join(dir, "store")), &o)
				if err == nil {
					err = l.Release(t.Context())
				}
				started <- err
			}()
			time.Sleep(100 * time.Millisecond)
			end()
			require.NoError(t, <-started)
			require.Eventually(t, func() bool { return live.Stats().LastError == nil }, time.Minute, 10*time.Millisecond)
		}
		time.Sleep(time.Minute) // until all have given up
	})
}
