package lease_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
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
	one := mustSave(t, s, fileRecord(1, 1))
	empty := fillUp(t, dir)
	for range 3 {
		_, err := s.Save(t.Context(), fileRecord(1, 2))
		require.ErrorIs(t, err, syscall.ENOSPC)
		names(t, err, fileOf(dir, 1))
		_, err = s.Save(t.Context(), fileRecord(2, 1))
		require.ErrorIs(t, err, syscall.ENOSPC)
		names(t, err, fileOf(dir, 2))
		mustHold(t, s, one)
		assert.NoFileExists(t, fileOf(dir, 1)+".tmp", "what was written of it takes no space")
		_, err = lease.Acquire(t.Context(), s, &lease.Options{Layout: snowflake.ClockSeqLayout()})
		require.ErrorIs(t, err, syscall.ENOSPC)
		names(t, err, fileOf(dir, 0))
	}
	empty()
	mustHold(t, s, mustSave(t, s, fileRecord(1, 2)), mustSave(t, s, fileRecord(2, 1)))
}

func TestFileWithoutInodesFailsAndRecovers(t *testing.T) {
	dir := mountTmpfs(t, "nr_inodes=6") // the root, two locks, the identity, a record and a temporary file
	s := lease.File(dir)
	mustSave(t, s, fileRecord(1, 1))
	one := mustSave(t, s, fileRecord(1, 2))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "filler"), nil, 0o644))
	_, err := s.Save(t.Context(), fileRecord(1, 3))
	require.ErrorIs(t, err, syscall.ENOSPC)
	names(t, err, fileOf(dir, 1))
	_, err = s.Save(t.Context(), fileRecord(2, 1))
	require.ErrorIs(t, err, syscall.ENOSPC)
	names(t, err, filepath.Join(dir, "worker-2.lock"))
	mustHold(t, s, one)
	require.NoError(t, os.Remove(filepath.Join(dir, "filler")))
	mustHold(t, s, mustSave(t, s, fileRecord(1, 3)))
}

// If the disk is full for less than a window, the holder keeps its worker ID.
func TestLeaseContinuesAfterTheDiskWasFull(t *testing.T) {
	t.Parallel()
	dir := mountTmpfs(t, "size=64k")
	l, err := lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Window: 600 * time.Millisecond})
	require.NoError(t, err)
	defer l.Release(context.Background())
	g, err := snowflake.NewLeased(l, nil)
	require.NoError(t, err)
	_, err = g.NextID()
	require.NoError(t, err)

	empty := fillUp(t, dir)
	eventually(t, func() bool { return l.Stats().LastError != nil })
	require.ErrorIs(t, l.Stats().LastError, syscall.ENOSPC)
	names(t, l.Stats().LastError, fileOf(dir, l.Worker()))
	require.NoError(t, l.Err())
	bound := l.Stats().Bound
	eventually(t, func() bool { _, err = g.NextID(); return err != nil })
	var expired *snowflake.LeaseExpiredError
	require.ErrorAs(t, err, &expired)
	assert.Equal(t, bound, expired.NotAfter)

	empty()
	eventually(t, func() bool { return l.Stats().LastError == nil })
	eventually(t, func() bool { _, err = g.NextID(); return err == nil })
	require.NoError(t, l.Err())
}

func TestFileOnAReadOnlyFileSystemReturnsItsError(t *testing.T) {
	mount := mountTmpfs(t, "size=64k")
	remount := func(flags uintptr) {
		require.NoError(t, syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_REMOUNT|flags, ""))
	}
	dir := filepath.Join(mount, "leases")
	s := lease.File(dir)
	one := mustSave(t, s, fileRecord(1, 1))
	remount(syscall.MS_RDONLY)

	mustHold(t, s, one)
	_, err := s.Save(t.Context(), fileRecord(1, 2))
	require.ErrorIs(t, err, syscall.EROFS)
	names(t, err, filepath.Join(dir, "worker-1.lock"))
	_, err = lease.Acquire(t.Context(), s, &lease.Options{Layout: snowflake.ClockSeqLayout()})
	require.ErrorIs(t, err, syscall.EROFS)
	names(t, err, filepath.Join(dir, "worker-0.lock"))
	missing := filepath.Join(mount, "missing")
	_, err = lease.Acquire(t.Context(), lease.File(missing), nil)
	require.ErrorIs(t, err, syscall.EROFS)
	names(t, err, missing)
	mustHold(t, s, one)

	remount(0)
	mustHold(t, s, mustSave(t, s, fileRecord(1, 2)))
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
	_, err := s.Save(t.Context(), fileRecord(1, 2))
	require.NoError(t, err)
}

// If a process is stopped during a save, it keeps its lock. When it is killed, the system releases the
// lock.
func TestStoppedProcessKeepsItsFileLock(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, sent := range []syscall.Signal{syscall.SIGKILL, syscall.SIGCONT} {
		dir := t.TempDir()
		s := lease.File(dir)
		one := mustSave(t, s, fileRecord(1, 1))

		cmd := exec.Command(self, "-test.run", "^TestFileStops$")
		cmd.Env = append(os.Environ(), fileCrashDir+"="+dir, fileCrashStep+"=rename worker-1.json")
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
			one = fileRecord(1, 2)
		} else {
			require.Error(t, cmd.Wait())
		}
		mustSave(t, s, fileRecord(1, one.Version+1))
	}
}

// If a Load is stopped for longer than a window, holders that renewed meanwhile do not look dead.
func TestHoldersThatRenewDuringASlowLoadLookAlive(t *testing.T) {
	dir := t.TempDir()
	s := lease.File(dir)
	live := fileRecord(2, 1)
	live.Window = 20 * time.Millisecond
	mustSave(t, s, live)
	one := mustSave(t, s, fileRecord(1, 1))
	reading, goOn := make(chan struct{}), make(chan struct{})
	slow := lease.HookedFile(dir, func(what, path string) {
		if what == "read" && path == fileOf(dir, 2) {
			close(reading)
			<-goOn
		}
	})
	type result struct {
		lease.Snapshot
		error
	}
	loaded := make(chan result)
	go func() {
		snap, err := slow.Load(context.Background())
		loaded <- result{snap, err}
	}()
	<-reading
	time.Sleep(3 * live.Window)
	live.Version++
	live = mustSave(t, s, live)
	close(goOn)
	r := <-loaded
	require.NoError(t, r.error)
	assert.Equal(t, []lease.Record{one, live}, r.Records)
	assert.False(t, r.Now.Before(live.Renewed), "Now is %v before a record was renewed", live.Renewed.Sub(r.Now))
}

// If a file is replaced by a pipe, opening it must not block for ever.
func TestPipeInPlaceOfAFileIsRefused(t *testing.T) {
	for _, name := range []string{"worker-1.json", "worker-1.lock", "identity", "identity.lock"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := lease.File(dir)
			path := filepath.Join(dir, name)
			require.NoError(t, syscall.Mkfifo(path, 0o644))
			_, err := s.Save(t.Context(), fileRecord(1, 1))
			var file *lease.FileError
			require.ErrorAs(t, err, &file)
			require.ErrorContains(t, err, name)
			_, err = lease.Acquire(t.Context(), s, &lease.Options{Layout: snowflake.ClockSeqLayout(), First: 1, Count: 1})
			require.ErrorAs(t, err, &file)
			require.ErrorContains(t, err, name)
			require.NoError(t, os.Remove(path))
			mustHold(t, s, mustSave(t, s, fileRecord(1, 1)))
		})
	}
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(fileOf(dir, 1), 0o644))
	_, err := lease.File(dir).Load(t.Context())
	names(t, err, fileOf(dir, 1))
	require.ErrorContains(t, err, "not a regular file")
}
