package lease_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
		_, err = lease.Acquire(t.Context(), s, &lease.Options{NewStore: true})
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	empty()
	mustPut(t, s, "worker/1", one.Version, "two")
}

func TestFileOnAReadOnlyFileSystemReturnsItsError(t *testing.T) {
	mount := mountTmpfs(t, "size=64k")
	remount := func(flags uintptr) {
		require.NoError(t, syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_REMOUNT|flags, ""))
	}
	dir := filepath.Join(mount, "leases")
	s := lease.File(dir)
	one := mustPut(t, s, "worker/1", "", "one")
	remount(syscall.MS_RDONLY)
	is, err := s.Get(t.Context(), "worker/1")
	require.NoError(t, err)
	require.Equal(t, one, is)
	_, err = s.Put(t.Context(), "worker/1", one.Version, nil)
	require.ErrorIs(t, err, syscall.EROFS)
	names(t, err, fileOf(dir, 1)+"~lock")
	missing := filepath.Join(mount, "missing")
	_, err = lease.Acquire(t.Context(), lease.File(missing), nil)
	require.ErrorIs(t, err, syscall.EROFS)
	names(t, err, missing)
	remount(0)
	mustPut(t, s, "worker/1", one.Version, "two")
}

// TestFileStops is the process that is stopped in TestStoppedProcessKeepsItsFileLock.
func TestFileStops(t *testing.T) {
	dir := os.Getenv(fileCrashDir)
	if dir == "" {
		t.Skip("it is for TestStoppedProcessKeepsItsFileLock to run")
	}
	s := lease.CrashingFile(dir, func(step string) {
		if step == os.Getenv(fileCrashStep) {
			continued := make(chan os.Signal, 1)
			signal.Notify(continued, syscall.SIGCONT)
			os.Stdout.WriteString("stopping\n")
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			<-continued // it may run a few steps more before it stops
		}
	})
	one, err := s.Get(t.Context(), "worker/1")
	require.NoError(t, err)
	mustPut(t, s, "worker/1", one.Version, "two")
}

// lockHeldUp checks what other processes can do while a process that hangs holds the lock of worker 1, whose entry is one.
func lockHeldUp(t *testing.T, dir string, one lease.Entry) {
	t.Helper()
	s := lease.File(dir)
	var err error
	require.Eventually(t, func() bool { // a busy machine may make no attempt in this time
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // most of it goes by between two attempts
		defer cancel()
		_, err = s.Put(ctx, "worker/1", one.Version, []byte("other"))
		return !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "1~lock: locked by another: ")
	}, time.Minute, time.Millisecond)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	names(t, err, fileOf(dir, 1)+"~lock")
	mustPut(t, s, "worker/2", "", "one")
	all, err := s.List(t.Context(), "worker/")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Contains(t, all, one)
	l, err := lease.Acquire(t.Context(), s, &lease.Options{Layout: snowflake.ClockSeqLayout(), First: 3, Count: 1, NewStore: true})
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

// If a process is stopped during a save, it keeps its lock. When it is killed, the system releases the
// lock.
func TestStoppedProcessKeepsItsFileLock(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, sent := range []syscall.Signal{syscall.SIGKILL, syscall.SIGCONT} {
		dir := t.TempDir()
		s := lease.File(dir)
		one := mustPut(t, s, "worker/1", "", "one")

		cmd := exec.Command(self, "-test.run", "^TestFileStops$")
		cmd.Env = append(os.Environ(), fileCrashDir+"="+dir, fileCrashStep+"=rename 1")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		defer cmd.Process.Kill()
		said, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "stopping\n", said)

		lockHeldUp(t, dir, one)

		require.NoError(t, cmd.Process.Signal(sent))
		if sent == syscall.SIGCONT {
			require.NoError(t, cmd.Wait())
		} else {
			require.Error(t, cmd.Wait())
		}
		is, err := s.Get(t.Context(), "worker/1")
		require.NoError(t, err)
		require.Equal(t, sent == syscall.SIGCONT, string(is.Value) == "two")
		mustPut(t, s, "worker/1", is.Version, "three")
	}
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
