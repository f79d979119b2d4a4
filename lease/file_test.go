package lease_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
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
		dir := filepath.Join(t.TempDir(), "leases")
		return leasetest.Storage{
			Open: func() lease.Store { return lease.File(dir) },
			Garble: func(worker int) {
				require.NoError(t, os.Truncate(fileOf(dir, worker), 100))
			},
			Wipe: func() {
				records, err := filepath.Glob(filepath.Join(dir, "worker-*.json"))
				require.NoError(t, err)
				for _, path := range records {
					require.NoError(t, os.Remove(path))
				}
			},
		}
	}, &leasetest.Options{FakeTime: !depth.Full()})
}

func fileOf(dir string, worker int) string {
	return filepath.Join(dir, fmt.Sprintf("worker-%d.json", worker))
}

// fileRecord is what the file tests save.
func fileRecord(worker int, version uint64) lease.Record {
	return lease.Record{
		Worker:  worker,
		Version: version,
		Token:   "token",
		State:   lease.Held,
		Owner:   fmt.Sprintf("owner, version %d", version),
		Host:    "host",
		PID:     4242,
		Layout:  snowflake.ClockSeqLayout(),
		Bounds:  []time.Time{{}, time.Date(2026, 11, 21, 12, 0, int(version), 0, time.UTC)},
		Window:  time.Minute,

		ClockSeq: 1,
	}
}

// mustSave saves r, and returns the stored record.
func mustSave(t *testing.T, s lease.Store, r lease.Record) lease.Record {
	t.Helper()
	saved, err := s.Save(t.Context(), r)
	require.NoError(t, err)
	return saved
}

// mustHold checks that s has exactly these records.
func mustHold(t *testing.T, s lease.Store, want ...lease.Record) {
	t.Helper()
	snap, err := s.Load(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, want, snap.Records)
}

// names checks that err is a FileError of path.
func names(t *testing.T, err error, path string) {
	t.Helper()
	var file *lease.FileError
	require.ErrorAs(t, err, &file)
	require.Equal(t, path, file.Path)
	require.ErrorContains(t, err, path)
}

// refuses checks that all calls fail if worker 1's file is not a valid record, and that they do not
// change the file.
func refuses(t *testing.T, dir, path string, content []byte) {
	t.Helper()
	s := lease.File(dir)
	_, err := s.Load(t.Context())
	require.ErrorIs(t, err, lease.ErrBadRecord)
	names(t, err, path)

	// In the first range, the bad record's worker ID could look free. The second range does not
	// include it.
	for _, only := range []int{1, 9} {
		_, err = lease.Acquire(t.Context(), s, &lease.Options{
			Layout: snowflake.ClockSeqLayout(), Owner: "owner, version 1", First: only, Count: 1, Window: time.Second,
		})
		require.ErrorIs(t, err, lease.ErrBadRecord)
		names(t, err, path)
	}
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, now), "the file has changed")
}

// refusesContent writes worker 1's file and checks it as refuses does. Saves to it must fail too.
func refusesContent(t *testing.T, dir string, content []byte) {
	t.Helper()
	path := fileOf(dir, 1)
	require.NoError(t, os.WriteFile(path, content, 0o644))
	for _, version := range []uint64{1, 2} {
		_, err := lease.File(dir).Save(t.Context(), fileRecord(1, version))
		require.ErrorIs(t, err, lease.ErrBadRecord)
		names(t, err, path)
	}
	refuses(t, dir, path, content)
}

// savedFile makes a directory with a record of worker 1, and returns its file's
// content.
func savedFile(t *testing.T) (dir string, content []byte) {
	t.Helper()
	dir = t.TempDir()
	mustSave(t, lease.File(dir), fileRecord(1, 1))
	content, err := os.ReadFile(fileOf(dir, 1))
	require.NoError(t, err)
	return dir, content
}

func TestTruncatedFileIsRefused(t *testing.T) {
	dir, content := savedFile(t)
	for n := range content {
		refusesContent(t, dir, content[:n])
	}
	require.NoError(t, os.WriteFile(fileOf(dir, 1), content, 0o644))
	mustSave(t, lease.File(dir), fileRecord(1, 2))
}

func TestFileWithAChangedByteIsRefused(t *testing.T) {
	dir, content := savedFile(t)
	for i := range content {
		flips := []byte{0x01, 0x20, 0x80, 0xff, content[i], content[i] ^ '\n'} // the last two make the byte 0 and a line end
		for n, flip := range flips {
			changed := bytes.Clone(content)
			changed[i] ^= flip
			if flip != 0 && (depth.Full() || n == i%len(flips)) {
				refusesContent(t, dir, changed)
			}
		}
	}
}

func TestFileOfAnotherWorkerIsRefused(t *testing.T) {
	dir, content := savedFile(t)
	for name, foreign := range map[string]string{
		"zeros":           string(make([]byte, len(content))),
		"many zeros":      string(make([]byte, 1<<20)),
		"text":            "hello\n",
		"a line end":      "\n",
		"picture":         "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
		"JSON":            `{"worker": 1}`,
		"no checksum":     string(content[:bytes.IndexByte(content, '\n')+1]),
		"more at the end": string(content) + "\n",
		"twice":           string(content) + string(content),
		"Windows ends":    strings.ReplaceAll(string(content), "\n", "\r\n"),
		"byte order mark": "\ufeff" + string(content),
	} {
		t.Run(name, func(t *testing.T) { refusesContent(t, dir, []byte(foreign)) })
	}
}

func TestFileWithAWrongNameIsRefused(t *testing.T) {
	_, content := savedFile(t)
	for _, name := range []string{"worker-2.json", "worker-01.json", "worker-+1.json", "worker-.json", "worker-1.old.json"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, content, 0o644))
		refuses(t, dir, path, content)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(fileOf(dir, 2), content, 0o644))
	_, err := lease.File(dir).Save(t.Context(), fileRecord(2, 1))
	require.ErrorIs(t, err, lease.ErrBadRecord, "a save over worker 1's record in worker 2's file")
	require.ErrorContains(t, err, "it is of worker 1")
}

// The checksum is right, but the record is not valid.
func TestFileWithAnInvalidRecordIsRefused(t *testing.T) {
	for _, c := range []struct {
		says   string
		change func(*lease.Record)
	}{
		{"unit 0s", func(r *lease.Record) { r.Layout.Unit = 0 }},
		{"bits", func(r *lease.Record) { r.Layout.TimeBits = 200 }},
		{"version is 0", func(r *lease.Record) { r.Version = 0 }},
		{"no token", func(r *lease.Record) { r.Token = "" }},
		{`state is ""`, func(r *lease.Record) { r.State = "" }},
		{`state is "HELD"`, func(r *lease.Record) { r.State = "HELD" }},
		{"worker 1 does not fit", func(r *lease.Record) { r.Layout.WorkerBits = 0 }},
		{"clock sequence -1", func(r *lease.Record) { r.ClockSeq = -1 }},
		{"clock sequence 2 of 2", func(r *lease.Record) { r.ClockSeq = 2 }},
		{"clock sequence 0 of 0", func(r *lease.Record) { r.ClockSeq, r.Bounds = 0, nil }},
		{"clock sequence 1 of 9", func(r *lease.Record) { r.Bounds = make([]time.Time, 9) }},
		{"window is 0s", func(r *lease.Record) { r.Window = 0 }},
		{"window is -1ns", func(r *lease.Record) { r.Window = -1 }},
	} {
		t.Run(c.says, func(t *testing.T) {
			dir := t.TempDir()
			r := fileRecord(1, 1)
			c.change(&r)
			content, err := lease.EncodeRecord(r)
			require.NoError(t, err)
			refusesContent(t, dir, content)
			_, err = lease.File(dir).Load(t.Context())
			assert.ErrorContains(t, err, c.says)
		})
	}
	for _, worker := range []int{-1, 128} {
		dir := t.TempDir()
		content, err := lease.EncodeRecord(fileRecord(worker, 1))
		require.NoError(t, err)
		path := fileOf(dir, worker)
		require.NoError(t, os.WriteFile(path, content, 0o644))
		refuses(t, dir, path, content)
	}
	for _, line := range []string{"", "null", "1", "[]", "{}", `""`, `{"worker":1}`, `{"worker":"1"}`, `{"worker":1}{}`, `{"worker":1`, `{"worker":1.5}`, `{"worker":1,"version":-1}`} {
		refusesContent(t, t.TempDir(), lease.WithChecksum(line))
	}
}

func TestDirectoryInPlaceOfAFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(fileOf(dir, 1), 0o755))
	s := lease.File(dir)
	_, err := s.Load(t.Context())
	names(t, err, fileOf(dir, 1))
	_, err = lease.Acquire(t.Context(), s, nil)
	names(t, err, fileOf(dir, 1))
	_, err = s.Save(t.Context(), fileRecord(1, 1))
	names(t, err, fileOf(dir, 1))
	mustSave(t, s, fileRecord(2, 1))
}

func TestFileIgnoresOtherFiles(t *testing.T) {
	dir := t.TempDir()
	s := lease.File(dir)
	old := mustSave(t, s, fileRecord(1, 1))
	for _, name := range []string{
		"worker-1.json.tmp", "worker-2.json.tmp", // a save crashed
		"worker-1.json~", ".worker-1.json.swp", "worker-1.json.bak", "notes.txt", "worker.json", "json", "worker-4",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte("garbage\n"), 1000), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "worker-3.lock"), nil, 0o644)) // a save crashed earlier
	require.NoError(t, os.Mkdir(filepath.Join(dir, "worker-5"), 0o755))
	mustHold(t, s, old)
	all := []lease.Record{mustSave(t, s, fileRecord(1, 2))}
	for worker := 2; worker <= 5; worker++ {
		all = append(all, mustSave(t, s, fileRecord(worker, 1)))
	}
	mustHold(t, s, all...)
	assert.NoFileExists(t, filepath.Join(dir, "worker-1.json.tmp"))
	assert.FileExists(t, filepath.Join(dir, "notes.txt"))
}

func TestFileMakesItsDirectory(t *testing.T) {
	base := t.TempDir()
	t.Chdir(base)
	for _, dir := range []string{filepath.Join(base, "a"), filepath.Join(base, "b", "c", "d"), filepath.Join("e", "f"), "g" + string(filepath.Separator), "."} {
		s := lease.File(dir)
		mustHold(t, s)
		if dir != "." {
			assert.NoDirExists(t, dir, "to look makes nothing")
		}
		mustHold(t, lease.File(dir), mustSave(t, s, fileRecord(1, 1)))
		assert.FileExists(t, fileOf(dir, 1))
	}
	_, err := lease.File("").Save(t.Context(), fileRecord(2, 1))
	require.ErrorIs(t, err, lease.ErrInvalidOptions)
	assert.NoFileExists(t, fileOf(base, 2))
}

func TestFileInPlaceOfTheDirectoryIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o644))
	for _, dir := range []string{path, filepath.Join(path, "below")} {
		s := lease.File(dir)
		_, err := s.Load(t.Context())
		names(t, err, dir)
		_, err = lease.Acquire(t.Context(), s, nil)
		var file *lease.FileError
		require.ErrorAs(t, err, &file)
		require.ErrorContains(t, err, path)
		_, err = s.Save(t.Context(), fileRecord(1, 1))
		require.ErrorAs(t, err, &file)
		require.ErrorContains(t, err, path)
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "content", string(content))
}

// saving is a save that is interrupted at each of its steps.
type saving struct {
	name   string
	before func(*testing.T, lease.Store) // saves earlier records
	save   func(context.Context, lease.Store) (lease.Record, error)
	ended  bool // it adds a holding to the history
}

func plainSave(version uint64) func(context.Context, lease.Store) (lease.Record, error) {
	return func(ctx context.Context, s lease.Store) (lease.Record, error) {
		return s.Save(ctx, fileRecord(1, version))
	}
}

func endingSave(version uint64) func(context.Context, lease.Store) (lease.Record, error) {
	return func(ctx context.Context, s lease.Store) (lease.Record, error) {
		return s.(lease.Historian).SaveEnding(ctx, fileRecord(1, version), ending(version), time.Time{})
	}
}

// ending is the holding that a save of this version adds to the history.
func ending(version uint64) lease.Holding {
	at := time.Date(2026, 11, 20, 12, 0, int(version), 0, time.UTC)
	return lease.Holding{Worker: 1, ClockSeq: 1, From: at, To: at.Add(time.Second), Token: "token", Owner: strings.Repeat("o", 1000), Host: "host", PID: 1}
}

var savings = []saving{
	{"first", func(*testing.T, lease.Store) {}, plainSave(1), false},
	{"renewal", func(t *testing.T, s lease.Store) { mustSave(t, s, fileRecord(1, 1)) }, plainSave(2), false},
	{"first ending", func(t *testing.T, s lease.Store) { mustSave(t, s, fileRecord(1, 1)) }, endingSave(2), true},
	{"second ending", savesEnding(2), endingSave(3), true},
	{"ending that trims", savesEnding(trims - 1), endingSave(trims), true},
}

// trims is the version whose save makes the history too long.
const trims = 59

// savesEnding saves all versions up to the last, each with its holding.
func savesEnding(last uint64) func(*testing.T, lease.Store) {
	return func(t *testing.T, s lease.Store) {
		mustSave(t, s, fileRecord(1, 1))
		for version := uint64(2); version <= last; version++ {
			_, err := endingSave(version)(t.Context(), s)
			require.NoError(t, err)
		}
	}
}

// steps returns the requests that a save makes to the disk.
func (c saving) steps(t *testing.T) (steps []string) {
	dir := filepath.Join(t.TempDir(), "leases")
	c.before(t, lease.File(dir))
	_, err := c.save(t.Context(), lease.CrashingFile(dir, func(step string) { steps = append(steps, step) }))
	require.NoError(t, err)
	return steps
}

func TestSaveSyncsEachStep(t *testing.T) {
	record := []string{"create worker-1.json.tmp", "write worker-1.json.tmp", "sync worker-1.json.tmp", "rename worker-1.json", "sync directory"}
	history := []string{"create worker-1.history0", "write worker-1.history0", "sync worker-1.history0"}
	for _, c := range savings {
		want := record
		switch c.name {
		case "first":
			continue
		case "first ending":
			want = slices.Concat(history, []string{"sync directory"}, record)
		case "second ending":
			want = slices.Concat(history, record)
		case "ending that trims":
			continue
		}
		assert.Equal(t, want, c.steps(t), c.name)
	}
	assert.Contains(t, savings[len(savings)-1].steps(t), "rename worker-1.history1")

	dir := t.TempDir()
	var steps int
	s := lease.CrashingFile(dir, func(string) { steps++ })
	mustSave(t, s, fileRecord(1, 1))
	steps = 0
	_, err := s.Save(t.Context(), fileRecord(1, 1))
	require.ErrorIs(t, err, lease.ErrConflict)
	_, err = endingSave(1)(t.Context(), s)
	require.ErrorIs(t, err, lease.ErrConflict)
	assert.Zero(t, steps, "a conflict writes nothing")
}

const (
	fileCrashDir  = "LEASE_FILE_CRASH_DIR"
	fileCrashStep = "LEASE_FILE_CRASH_STEP"
	fileCrashed   = 77 // the exit code
)

// TestFileCrashes is the process that crashes in TestCrashAtAnyStepLeavesAWholeRecord.
func TestFileCrashes(t *testing.T) {
	dir := os.Getenv(fileCrashDir)
	if dir == "" {
		t.Skip("it is for TestCrashAtAnyStepLeavesAWholeRecord to run")
	}
	var i, left int
	_, err := fmt.Sscan(os.Getenv(fileCrashStep), &i, &left)
	require.NoError(t, err)
	s := lease.CrashingFile(dir, func(string) {
		if left == 0 {
			os.Exit(fileCrashed)
		}
		left--
	})
	_, err = savings[i].save(t.Context(), s)
	t.Fatalf("it has not so many steps: %v", err)
}

func TestCrashAtAnyStepLeavesAWholeRecord(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for i, c := range savings {
		steps := c.steps(t)
		renamed := slices.Index(steps, "rename worker-1.json")
		for n, step := range steps {
			t.Run(fmt.Sprintf("%s, before %d, %s", c.name, n, step), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "leases")
				s := lease.File(dir)
				c.before(t, s)
				before, err := s.Load(t.Context())
				require.NoError(t, err)
				kept, err := s.(lease.Historian).History(t.Context(), 1)
				require.NoError(t, err)
				version := uint64(1)
				if len(before.Records) > 0 {
					version = before.Records[0].Version + 1
				}

				cmd := exec.Command(self, "-test.run", "^TestFileCrashes$")
				cmd.Env = append(os.Environ(), fileCrashDir+"="+dir, fmt.Sprintf("%s=%d %d", fileCrashStep, i, n), "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit, "%s", out)
				require.Equal(t, fileCrashed, exit.ExitCode(), "%s", out)

				now := before.Records
				if n > renamed {
					now = []lease.Record{fileRecord(1, version)}
					if c.ended {
						kept = append(kept, ending(version))
					}
				}
				after, err := lease.File(dir).Load(t.Context())
				require.NoError(t, err)
				require.Len(t, after.Records, len(now))
				for i, r := range after.Records {
					now[i].Renewed = r.Renewed
					require.Equal(t, now[i], r)
				}
				history, err := lease.File(dir).(lease.Historian).History(t.Context(), 1)
				require.NoError(t, err)
				require.ElementsMatch(t, kept, history, "a holding is kept with the record that follows it, or not at all")

				if n > renamed {
					version++
				}
				saved, err := endingSave(version)(t.Context(), s)
				require.NoError(t, err)
				mustHold(t, lease.File(dir), saved)
				history, err = s.(lease.Historian).History(t.Context(), 1)
				require.NoError(t, err)
				require.ElementsMatch(t, append(kept, ending(version)), history)
				assert.NoFileExists(t, fileOf(dir, 1)+".tmp", "what the crash left is gone")
			})
		}
	}
}

// If a save hangs, other saves of the same worker wait until their contexts end. All other calls work.
func TestHangingSaveBlocksOnlyItsWorker(t *testing.T) {
	dir := t.TempDir()
	s := lease.File(dir)
	one := mustSave(t, s, fileRecord(1, 1))
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		slow := lease.CrashingFile(dir, func(step string) {
			if step == "rename worker-1.json" {
				close(entered)
				<-leave
			}
		})
		_, err := slow.Save(context.Background(), fileRecord(1, 2))
		left <- err
	}()
	<-entered

	lockHeldUp(t, dir, one)

	taking := fileRecord(1, 2)
	taking.Token = "another"
	_, err := s.Save(t.Context(), taking)
	require.ErrorIs(t, err, lease.ErrConflict, "whoever would take it looks for another worker ID")
	names(t, err, filepath.Join(dir, "worker-1.lock"))
	waiting := make(chan error)
	go func() {
		_, err := s.Save(context.Background(), fileRecord(1, 2))
		waiting <- err
	}()
	select {
	case err := <-waiting:
		t.Fatal("a save did not wait for the lock: ", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	require.NoError(t, <-left)
	require.ErrorIs(t, <-waiting, lease.ErrConflict)
}

// lockHeldUp checks what other processes can do while a process that hangs holds the lock of worker 1. The
// worker's record is one.
func lockHeldUp(t *testing.T, dir string, one lease.Record) {
	t.Helper()
	s := lease.File(dir)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Save(ctx, fileRecord(1, one.Version+1))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "worker-1.lock: locked by another: ")
	names(t, err, filepath.Join(dir, "worker-1.lock"))

	mustHold(t, s, one, mustSave(t, s, fileRecord(2, 1)))
	l, err := lease.Acquire(t.Context(), s, &lease.Options{Layout: snowflake.ClockSeqLayout(), First: 3, Count: 1})
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

func TestMovedDirectoryIsAnOutage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	l, err := lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Window: 100 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, os.Rename(dir, dir+".away"))
	eventually(t, func() bool { return l.Stats().Failures > 2 })
	require.NoError(t, l.Err())
	require.NoError(t, os.Rename(dir+".away", dir))
	before := l.Stats().Renewals
	eventually(t, func() bool { return l.Stats().Renewals > before })
	require.NoError(t, l.Release(t.Context()))
}

func TestLayoutErrorNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	l, err := lease.Acquire(t.Context(), lease.File(dir), nil)
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
	_, err = lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Layout: snowflake.ClockSeqLayout()})
	require.ErrorIs(t, err, lease.ErrLayout)
	require.ErrorContains(t, err, filepath.Join(dir, "worker-0.json"))
}
