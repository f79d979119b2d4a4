package lease

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stuckDisk is a disk that does not answer one kind of request until end is called. It must be made
// inside the bubble.
type stuckDisk struct {
	mu   sync.Mutex
	what string // the request that hangs
	at   string // the name of its file
	free chan struct{}
	n    int // how many wait
}

func (s *stuckDisk) hook(what, path string) {
	s.mu.Lock()
	if what != s.what || filepath.Base(path) != s.at {
		s.mu.Unlock()
		return
	}
	s.n++
	s.mu.Unlock()
	<-s.free
}

func (s *stuckDisk) begin(what, at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what, s.at, s.free, s.n = what, at, make(chan struct{}), 0
}

func (s *stuckDisk) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what = ""
	close(s.free)
}

func (s *stuckDisk) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// says checks that an error names the request that hangs, and its file.
func says(t *testing.T, err error, what, path string) {
	t.Helper()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	file := new(FileError)
	require.ErrorAs(t, err, &file)
	require.Equal(t, path, file.Path)
	require.ErrorContains(t, err, what+": ")
}

func TestAcquireReturnsInTimeIfTheFileSystemHangs(t *testing.T) {
	for _, c := range []struct{ what, at, says string }{
		{"list", "leases", "list"},
		{"stat", "leases", "stat"},
		{"read", "worker-0.json", "read"},
		{"read", "identity", "read"},
		{"lock", "worker-0.lock", "lock"},
		{"create", "worker-0.json.tmp", "open"},
		{"write", "worker-0.json.tmp", "write"},
		{"sync", "worker-0.json.tmp", "sync"},
		{"rename", "worker-0.json", "rename"},
		{"sync directory", "leases", "sync"},
	} {
		t.Run(c.what+" "+c.at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "leases")
				disk := new(stuckDisk)
				s := HookedFile(dir, disk.hook)
				disk.begin(c.what, c.at)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				begun := time.Now()
				_, err := Acquire(ctx, s, &Options{Layout: fleet, Clock: clockAt(0)})
				path := filepath.Join(dir, c.at)
				if c.at == "leases" {
					path = dir
				}
				says(t, err, c.says, path)
				assert.LessOrEqual(t, time.Since(begun), 2*time.Second+span/10, "it tries to give the worker ID back")
				disk.end()
				time.Sleep(time.Minute) // until all requests have ended
			})
		})
	}
}

// If a renewal hangs, Stats says what hangs as soon as the renewal times out. Later renewals wait for the
// same request. When the file system answers, the lease renews again.
func TestStatsShowAHangingRenewal(t *testing.T) {
	for _, c := range []struct{ what, at, says string }{
		{"read", "worker-0.json", "read"},
		{"lock", "worker-0.lock", "lock"},
		{"sync", "worker-0.json.tmp", "sync"},
		{"rename", "worker-0.json", "rename"},
		{"sync directory", "leases", "sync"},
	} {
		t.Run(c.what+" "+c.at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "leases")
				disk := new(stuckDisk)
				h := mustAcquire(t, HookedFile(dir, disk.hook), fleet, clockAt(0))
				h.next()
				for range 3 {
					disk.begin(c.what, c.at)
					before := h.Stats().Failures
					time.Sleep(2 * span / 3) // a renewal, and its time-out
					require.Greater(t, h.Stats().Failures, before)
					path := filepath.Join(dir, c.at)
					if c.at == "leases" {
						path = dir
					}
					says(t, h.Stats().LastError, c.says, path)
					time.Sleep(10 * span)
					synctest.Wait()
					assert.LessOrEqual(t, disk.waiting(), 2, "a request that hangs is not made again and again") // a save's and a load's
					disk.end()
					time.Sleep(span)
					require.NoError(t, h.Stats().LastError)
					require.NoError(t, h.Err())
					h.next()
				}
			})
		})
	}
}

// If the caller of a save gives up, the save may still happen later. It holds the lock and compares the
// version under it, so it replaces no newer record.
func TestAbandonedSaveReplacesNoNewerRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "leases")
		disk := new(stuckDisk)
		s, other := HookedFile(dir, disk.hook), File(dir)
		record := func(version uint64, token string) Record {
			return Record{Worker: 0, Version: version, Token: token, State: Held, Layout: fleet, Bounds: []time.Time{time.Unix(int64(version), 0).UTC()}, Window: span}
		}
		_, err := s.Save(t.Context(), record(1, "a"))
		require.NoError(t, err)
		for i, at := range []string{"read worker-0.json", "rename worker-0.json"} {
			version := uint64(2 * (i + 1))
			what, path, _ := strings.Cut(at, " ")
			disk.begin(what, path)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = s.Save(ctx, record(version, "a"))
			cancel()
			says(t, err, what, filepath.Join(dir, path))
			_, err = other.Save(t.Context(), record(version, "b"))
			require.ErrorIs(t, err, ErrConflict, "it has the lock")
			disk.end()
			time.Sleep(time.Second)
			saved, err := other.LoadWorker(t.Context(), 0)
			require.NoError(t, err)
			want := version - 1 // the save did nothing
			if what == "rename" {
				want = version // the save was under way
			}
			require.Equal(t, want, saved.Records[0].Version)
			for v := want + 1; v <= version+1; v++ {
				_, err = other.Save(t.Context(), record(v, "a"))
				require.NoError(t, err, "the lock is free")
			}
		}
	})
}

// If the file system hangs, all attempts together need one goroutine for each file.
func TestHangingFileSystemCostsFewGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(stuckDisk)
		s := HookedFile(t.TempDir(), disk.hook)
		disk.begin("lock", "worker-0.lock")
		before := runtime.NumGoroutine()
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := s.Save(ctx, Record{Version: 1})
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		assert.LessOrEqual(t, runtime.NumGoroutine(), before+1)
		disk.end()
		time.Sleep(time.Second) // until it is over
	})
}

// lossy is a disk that loses all that was not synced when the machine crashes: contents of files and
// names in directories.
type lossy struct {
	osDisk
	mu     sync.Mutex
	synced map[string]string // by path: the content at the last sync
	names  map[string]string // by path: the content after a crash
	syncs  int
}

type lossyFile struct {
	diskFile
	d    *lossy
	path string
}

func (f lossyFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.syncs++
	b, err := f.d.read(f.path)
	f.d.synced[f.path] = string(b)
	if _, named := f.d.names[f.path]; named { // the name is synced already
		f.d.names[f.path] = string(b)
	}
	return err
}

func (d *lossy) open(path string) (diskFile, error) {
	f, err := d.osDisk.open(path)
	return lossyFile{f, d, path}, err
}

func (d *lossy) rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced[to] = d.synced[from]
	delete(d.synced, from)
	return d.osDisk.rename(from, to)
}

func (d *lossy) syncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	for path, content := range d.synced {
		if filepath.Dir(path) == dir {
			d.names[path] = content
		}
	}
	return nil
}

// crash returns a store of the files that are left after a crash.
func (d *lossy) crash(t *testing.T) *fileStore {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "leases")
	s := &fileStore{dir: dir, disk: osDisk{}}
	op := &operation{disk: s.disk, ctx: t.Context()}
	require.NoError(t, op.makeDir(dir))
	for path, content := range d.names {
		if !strings.HasSuffix(path, ".tmp") && !strings.HasPrefix(filepath.Base(path), ".") {
			require.NoError(t, op.write(filepath.Join(dir, filepath.Base(path)), 0, []byte(content)))
		}
	}
	return s
}

// If Save returned a record, the record is still there after a crash of the machine.
func TestSavedRecordsSurviveACrashOfTheMachine(t *testing.T) {
	d := &lossy{synced: map[string]string{}, names: map[string]string{}}
	s := &fileStore{dir: filepath.Join(t.TempDir(), "leases"), disk: d}
	ctx := t.Context()
	record := Record{Worker: 3, Token: "token", State: Held, Layout: fleet, Bounds: []time.Time{time.Unix(1e9, 0).UTC()}, Window: span}
	var kept []Holding
	for version := uint64(1); version <= 200; version++ {
		record.Version = version
		var err error
		if version%3 == 0 {
			ended := Holding{Worker: 3, From: time.Unix(int64(version), 0).UTC(), To: time.Unix(int64(version)+1, 0).UTC(), Token: fmt.Sprint(version), Owner: strings.Repeat("o", 2000)}
			kept = append(kept, ended)
			_, err = s.SaveEnding(ctx, record, ended, time.Time{})
		} else {
			_, err = s.Save(ctx, record)
		}
		require.NoError(t, err)
		after := d.crash(t)
		snap, err := after.LoadWorker(ctx, 3)
		require.NoError(t, err)
		require.Len(t, snap.Records, 1, "version %d", version)
		require.Equal(t, version, snap.Records[0].Version)
		history, err := after.History(ctx, 3)
		require.NoError(t, err)
		require.ElementsMatch(t, kept, history)
		if snap, err = after.Load(ctx); assert.NoError(t, err) {
			assert.Len(t, snap.Records, 1)
		}
	}
}
