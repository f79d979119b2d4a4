//go:build go1.25

package lease_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/leasetest"
)

// The tests check the requests to sync files, so the files need not really be synced.
func TestMain(m *testing.M) {
	depth.TempDirInMemory()
	depth.AtOnce(6)
	os.Exit(m.Run())
}

func TestFilePassesLeasetest(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Storage {
		dir := filepath.Join(t.TempDir(), "store")
		return leasetest.Storage{
			Open: func() lease.Store { return lease.File(dir) },
			Wipe: func() { empty(t, dir) },
			Garble: func(key string) {
				require.NoError(t, os.Truncate(filepath.Join(dir, key), 3))
			},
		}
	}, &leasetest.Options{FakeTime: !depth.Full()})
}

// empty removes all that is in a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, time.Millisecond)
}

func fileOf(dir string, worker int) string { return filepath.Join(dir, "worker", fmt.Sprint(worker)) }

// mustPut stores a value of a key in place of old.
func mustPut(t *testing.T, s lease.Store, key, old, value string) lease.Entry {
	t.Helper()
	e, err := s.Put(t.Context(), key, old, []byte(value))
	require.NoError(t, err)
	return e
}

// names checks that err is a FileError of path.
func names(t *testing.T, err error, path string) {
	t.Helper()
	var file *lease.FileError
	require.ErrorAs(t, err, &file)
	require.Equal(t, path, file.Path)
	require.ErrorContains(t, err, path)
}

// refuses checks that a file that is not an entry is not read, and that a call that does not
// name its version does not change it.
func refuses(t *testing.T, dir string, content []byte) {
	t.Helper()
	s, path := lease.File(dir), filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(path, content, 0o644))
	_, err := s.Get(t.Context(), "key")
	require.ErrorIs(t, err, lease.ErrBadRecord)
	names(t, err, path)
	all, err := s.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NotEmpty(t, all[0].Version)
	require.Nil(t, all[0].Value)
	_, err = s.Put(t.Context(), "key", "", []byte("other"))
	require.ErrorIs(t, err, lease.ErrConflict)
	require.ErrorIs(t, s.Delete(t.Context(), "key", "x"), lease.ErrConflict)
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, now), "the file has changed")
}

func TestFileThatIsNoEntryIsRefused(t *testing.T) {
	dir := t.TempDir()
	whole := mustPut(t, lease.File(dir), "key", "", "first line\nsecond line")
	content, err := os.ReadFile(filepath.Join(dir, "key"))
	require.NoError(t, err)
	for n := range content {
		refuses(t, dir, content[:n])
	}
	for i := range content {
		// The last two turn the byte into 0 and into a line end.
		for n, flip := range []byte{0x01, 0x20, 0x80, 0xff, content[i], content[i] ^ '\n'} {
			changed := bytes.Clone(content)
			changed[i] ^= flip
			if flip != 0 && (depth.Full() || n == i%6) {
				refuses(t, dir, changed)
			}
		}
	}
	for _, foreign := range []string{
		string(make([]byte, 1<<20)), "hello\n", "\n", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", `{"worker": 1}`, string(content) + "\n",
		strings.ReplaceAll(string(content), "\n", "\r\n"), "\ufeff" + string(content),
	} {
		refuses(t, dir, []byte(foreign))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), content, 0o644))
	mustPut(t, lease.File(dir), "key", whole.Version, "next")
}

// A record that cannot be read makes its worker ID unusable, and no other.
func TestUnreadableRecordBlocksItsWorkerIDOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := &lease.Options{Count: 2, Owner: "a"}
		a, err := lease.Acquire(t.Context(), lease.File(dir), o)
		require.NoError(t, err)
		require.NoError(t, a.Release(t.Context()))
		require.NoError(t, os.Truncate(fileOf(dir, a.Worker()), 10))
		b, err := lease.Acquire(t.Context(), lease.File(dir), o)
		require.NoError(t, err)
		require.Equal(t, 1-a.Worker(), b.Worker())
		defer b.Release(context.Background())

		_, err = lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Count: 2, Owner: "c", Window: 100 * time.Millisecond})
		require.ErrorIs(t, err, lease.ErrExhausted)
		require.ErrorContains(t, err, fileOf(dir, a.Worker()))
		time.Sleep(time.Minute) // until it has given up
	})
}

func TestPlaceOfAnEntryThatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(fileOf(dir, 1), 0o755))
	_, err := lease.File(dir).Get(t.Context(), "worker/1")
	names(t, err, fileOf(dir, 1))
	_, err = lease.File(dir).Put(t.Context(), "worker/1", "", nil)
	names(t, err, fileOf(dir, 1))
}

func TestFileIgnoresOtherFiles(t *testing.T) {
	dir := t.TempDir()
	s := lease.File(dir)
	old := mustPut(t, s, "worker/1", "", "one")
	// The first two are left by saves that crashed.
	for _, name := range []string{"1~new", "2~new", "1~", ".1.swp", "1.bak", "notes.txt", "3"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "worker", name), bytes.Repeat([]byte("garbage\n"), 1000), 0o644))
	}
	// A save crashed earlier.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "worker", "5~lock"), nil, 0o644))
	all, err := s.List(t.Context(), "worker/")
	require.NoError(t, err)
	require.Equal(t, []lease.Entry{old}, all)
	mustPut(t, s, "worker/1", old.Version, "two")
	mustPut(t, s, "worker/2", "", "one")
	mustPut(t, s, "worker/5", "", "one")
	assert.NoFileExists(t, fileOf(dir, 1)+"~new")
	assert.FileExists(t, filepath.Join(dir, "worker", "notes.txt"))
}

func TestFileMakesItsDirectory(t *testing.T) {
	base := t.TempDir()
	t.Chdir(base)
	for _, dir := range []string{
		filepath.Join(base, "a"), filepath.Join(base, "b", "c", "d"), filepath.Join("e", "f"),
		"g" + string(filepath.Separator), ".",
	} {
		s := lease.File(dir)
		all, err := s.List(t.Context(), "worker/")
		require.NoError(t, err)
		require.Empty(t, all)
		if dir != "." {
			assert.NoDirExists(t, dir, "to look makes nothing")
		}
		mustPut(t, s, "worker/1", "", "one")
		assert.FileExists(t, fileOf(dir, 1))
	}
	_, err := lease.File("").Put(t.Context(), "worker/2", "", nil)
	require.ErrorIs(t, err, lease.ErrInvalidOptions)
	assert.NoFileExists(t, fileOf(base, 2))
}

func TestFileInPlaceOfTheDirectoryIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o644))
	for _, dir := range []string{path, filepath.Join(path, "below")} {
		_, err := lease.Acquire(t.Context(), lease.File(dir), nil)
		var file *lease.FileError
		require.ErrorAs(t, err, &file)
		require.ErrorContains(t, err, path)
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "content", string(content))
}

// steps returns the requests to change the disk that a Put makes.
func steps(t *testing.T, dir, old string) (steps []string) {
	s := lease.CrashingFile(dir, func(step string) { steps = append(steps, step) })
	mustPut(t, s, "worker/1", old, "next")
	return steps
}

func TestPutSyncsEachStep(t *testing.T) {
	dir := t.TempDir()
	one := mustPut(t, lease.File(dir), "worker/1", "", "one")
	assert.Equal(t, []string{"create 1~new", "write 1~new", "sync 1~new", "rename 1", "sync directory worker"}, steps(t, dir, one.Version))
	var changes int
	s := lease.CrashingFile(dir, func(string) { changes++ })
	_, err := s.Put(t.Context(), "worker/1", one.Version, nil)
	require.ErrorIs(t, err, lease.ErrConflict)
	require.ErrorIs(t, s.Delete(t.Context(), "worker/1", one.Version), lease.ErrConflict)
	assert.Zero(t, changes, "a conflict writes nothing")
}

const (
	fileCrashDir  = "LEASE_FILE_CRASH_DIR"
	fileCrashStep = "LEASE_FILE_CRASH_STEP"
	fileCrashed   = 77 // the exit code
)

// TestFileCrashes is the process that crashes in TestCrashAtAnyStepLeavesAWholeEntry.
func TestFileCrashes(t *testing.T) {
	dir := os.Getenv(fileCrashDir)
	if dir == "" {
		t.Skip("it is for TestCrashAtAnyStepLeavesAWholeEntry to run")
	}
	var old string
	var left int
	_, err := fmt.Sscanf(os.Getenv(fileCrashStep), "%d %q", &left, &old)
	require.NoError(t, err)
	s := lease.CrashingFile(dir, func(string) {
		if left == 0 {
			os.Exit(fileCrashed)
		}
		left--
	})
	_, err = s.Put(t.Context(), "worker/1", old, []byte("next"))
	t.Fatalf("it has not so many steps: %v", err)
}

func TestCrashAtAnyStepLeavesAWholeEntry(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, first := range []bool{true, false} {
		before := func(t *testing.T, dir string) (e lease.Entry) {
			if !first {
				e = mustPut(t, lease.File(dir), "worker/1", "", "one")
			}
			return e
		}
		dir := filepath.Join(t.TempDir(), "leases")
		all := steps(t, dir, before(t, dir).Version)
		renamed := false
		for n, step := range all {
			t.Run(fmt.Sprintf("first %v, before %d, %s", first, n, step), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "leases")
				was := before(t, dir)
				cmd := exec.Command(self, "-test.run", "^TestFileCrashes$")
				cmd.Env = append(os.Environ(), fileCrashDir+"="+dir, fmt.Sprintf("%s=%d %q", fileCrashStep, n, was.Version),
					"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit, "%s", out)
				require.Equal(t, fileCrashed, exit.ExitCode(), "%s", out)
				is, err := lease.File(dir).Get(t.Context(), "worker/1")
				require.NoError(t, err)
				if renamed {
					require.Equal(t, "next", string(is.Value))
				} else {
					require.Equal(t, was, is)
				}
				mustPut(t, lease.File(dir), "worker/1", is.Version, "more")
				assert.NoFileExists(t, fileOf(dir, 1)+"~new", "what the crash left is gone")
			})
			renamed = renamed || step == "rename 1"
		}
	}
}

func TestMovedDirectoryIsAnOutage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	isAnOutage(t, dir,
		func() error { return os.Rename(dir, dir+".away") },
		func() error { return os.Rename(dir+".away", dir) })
}

// isAnOutage lets a directory go and come back while it is used.
func isAnOutage(t *testing.T, dir string, leave, comeBack func() error) {
	t.Helper()
	l, err := lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Window: 100 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, leave())
	failures := l.Stats().Failures
	eventually(t, func() bool { return l.Stats().Failures > failures+2 })
	require.NoError(t, l.Err())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = lease.Acquire(ctx, lease.File(dir), nil)
	require.ErrorIs(t, err, lease.ErrAway, "the trace beside the directory says that it was in use")
	require.ErrorContains(t, err, filepath.Join(filepath.Dir(dir), ".leases.identity"))
	require.NoError(t, comeBack())
	before := l.Stats().Renewals
	eventually(t, func() bool { return l.Stats().Renewals > before })
	require.NoError(t, l.Release(t.Context()))
}

// A directory that was emptied does not pass for a new one. Its holders put their records back.
func TestEmptiedDirectoryHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "leases")
		l, err := lease.Acquire(t.Context(), lease.File(dir), nil)
		require.NoError(t, err)
		defer l.Release(context.Background())
		empty(t, dir)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = lease.Acquire(ctx, lease.File(dir), nil)
		require.ErrorIs(t, err, lease.ErrWiped)
		eventually(t, func() bool { _, err := os.Stat(fileOf(dir, l.Worker())); return err == nil })
		require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(dir), ".leases.identity")))
		empty(t, dir)
		m, err := lease.Acquire(t.Context(), lease.File(dir), nil)
		require.NoError(t, err, "without the trace it may be new, and a window is enough")
		require.NoError(t, m.Release(t.Context()))
	})
}
