package lease

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

var errFault = errors.New("as the test wants it")

// faulty is the disk and the store of one process. One step of them fails. A step is a request that changes
// the disk, or any request to the store.
type faulty struct {
	m *memory

	mu   sync.Mutex
	how  string
	at   int    // the step that fails, from 0 on
	of   string // if not empty, only steps with this name count
	done []string
}

var faults = []string{"fails", "is made, and said to have failed", "is not reached by a process that is killed",
	"is the last of a process that is killed", "finds the disk full"}

func (f *faulty) step(what string, onDisk bool, do func() error) error {
	f.mu.Lock()
	f.done = append(f.done, what)
	n := -1
	for _, done := range f.done {
		if f.of == "" || f.of == done {
			n++
		}
	}
	f.mu.Unlock()
	at, past := n == f.at && (f.of == "" || f.of == what), n >= f.at
	switch {
	case f.how == faults[0] && at, f.how == faults[2] && past, f.how == faults[3] && past && !at, f.how == faults[4] && past && onDisk:
		return fmt.Errorf("%s: %w", what, errFault)
	case f.how == faults[1] && at, f.how == faults[3] && at:
		_ = do()
		return fmt.Errorf("%s: %w", what, errFault)
	}
	return do()
}

func (f *faulty) steps() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.done)
}

func (f *faulty) Load(ctx context.Context) (snap Snapshot, err error) {
	err = f.step("load", false, func() error { snap, err = f.m.Load(ctx); return err })
	return snap, err
}

func (f *faulty) LoadWorker(ctx context.Context, worker int) (snap Snapshot, err error) {
	err = f.step("load one", false, func() error { snap, err = f.m.LoadWorker(ctx, worker); return err })
	return snap, err
}

func (f *faulty) Save(ctx context.Context, r Record) (saved Record, err error) {
	err = f.step("save", false, func() error { saved, err = f.m.Save(ctx, r); return err })
	return saved, err
}

func (f *faulty) SaveEnding(ctx context.Context, r Record, ended Holding, forget time.Time) (saved Record, err error) {
	err = f.step("save ending", false, func() error { saved, err = f.m.SaveEnding(ctx, r, ended, forget); return err })
	return saved, err
}

func (f *faulty) History(ctx context.Context, worker int) (kept []Holding, err error) {
	err = f.step("history", false, func() error { kept, err = f.m.History(ctx, worker); return err })
	return kept, err
}

// faultyDisk is the operating system's disk without syncs and locks.
type faultyDisk struct {
	osDisk
	f *faulty
}

func (d faultyDisk) change(what, path string, do func() error) error {
	return d.f.step(what+" "+filepath.Base(path), true, do)
}

func (d faultyDisk) open(path string) (diskFile, error) {
	return d.opened("open", path, d.osDisk.open)
}

// lock only opens the file. The processes of a test run one after the other, so they need no lock. If a parallel
// test starts a child, the child has a copy of each open file for a moment, and the copy would keep a lock
// of the system. A bubble's time does not wait for the child.
func (d faultyDisk) lock(path string) (diskFile, error) {
	return d.opened("lock", path, d.osDisk.open)
}

func (d faultyDisk) opened(what, path string, open func(string) (diskFile, error)) (f diskFile, err error) {
	err = d.change(what, path, func() error { f, err = open(path); return err })
	if err != nil {
		if f != nil {
			_ = f.Close()
		}
		return nil, err
	}
	return faultyFile{f, d, path}, nil
}

func (d faultyDisk) rename(from, to string) error {
	return d.change("rename", to, func() error { return d.osDisk.rename(from, to) })
}

func (d faultyDisk) mkdir(dir string) error {
	return d.change("make", "dir", func() error { return d.osDisk.mkdir(dir) })
}

func (d faultyDisk) syncDir(string) error {
	return d.change("sync", "dir", func() error { return nil })
}

type faultyFile struct {
	diskFile
	d    faultyDisk
	path string
}

func (f faultyFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.d.change("write", f.path, func() error { n, err = f.diskFile.WriteAt(b, at); return err })
	return n, err
}

func (f faultyFile) Sync() error { return f.d.change("sync", f.path, func() error { return nil }) }

// copied has the IDs that several processes with one LocalCopy have issued.
type copied struct {
	*testing.T
	m    *memory
	dir  string
	seen map[snowflake.ID]bool
}

// start starts a process, in which one step fails, and lets it issue IDs if it can.
func (c *copied) start(f *faulty) error {
	f.m = c.m
	l, err := acquireOn(c.Context(), faultyDisk{osDisk{}, f}, f, &Options{Layout: seqFleet, Owner: "a", Reuse: ReuseKeep, LocalCopy: c.dir})
	if err != nil {
		require.NotErrorIs(c, err, ErrBadRecord)
		return err
	}
	defer stopRenewing(l)
	g, err := snowflake.NewLeased(l, nil)
	require.NoError(c, err)
	for range 3 {
		if id, err := g.NextID(); err == nil { // it cannot if its renewals fail
			require.False(c, c.seen[id], "an ID is issued twice")
			c.seen[id] = true
		}
		time.Sleep(span / 3)
	}
	if f.at%2 == 0 {
		err := l.Release(c.Context())
		if f.how == "" {
			require.NoError(c, err)
		}
	}
	return nil
}

// workers returns the worker IDs that were ever taken.
func (c *copied) workers() int { return c.m.count() }

var seqFleet = snowflake.Layout{Epoch: snowflake.UnixEpoch, Unit: ms, TimeBits: 41, WorkerBits: 8, ClockSeqBits: 2, SequenceBits: 4}

// Whichever step of a start fails, the next start gets the same worker ID, and repeats no ID.
func TestNextStartRepeatsNoIDWhicheverStepFails(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"new", "given back by another", "had before"} {
		for _, how := range faults {
			t.Run(before+", "+how, func(t *testing.T) {
				for at := 0; ; at++ {
					last := false
					synctest.Test(t, func(t *testing.T) {
						c := &copied{T: t, m: newMemory(), dir: t.TempDir(), seen: map[snowflake.ID]bool{}}
						switch before {
						case "given back by another":
							ctx, cancel := context.WithCancel(t.Context())
							_, err := Acquire(ctx, &losing{memory: c.m, after: cancel}, &Options{Layout: seqFleet, Owner: "b", Reuse: ReuseKeep})
							require.ErrorIs(t, err, context.Canceled)
							require.EqualValues(t, 2, c.m.record(0).Version)
						case "had before":
							require.NoError(t, c.start(new(faulty)))
						}
						f := &faulty{how: how, at: at}
						_ = c.start(f)
						require.NoError(t, c.start(new(faulty)), "after step %d, %s", at, f.steps()[min(at, len(f.steps())-1)])
						require.Equal(t, 1, c.workers(), "after step %d", at)
						r := c.m.record(0)
						require.True(t, strings.HasPrefix(r.Owner, "a @"), "%v", r)
						require.Equal(t, Free, r.State)
						last = at >= len(f.steps())
					})
					if last || t.Failed() {
						return
					}
				}
			})
		}
	}
}

// A hundred starts that fail use one worker ID, even if each of them fails after it has saved in the
// store.
func TestFailedStartsWithLocalCopyUseOneWorkerID(t *testing.T) {
	t.Parallel()
	for _, how := range faults {
		for _, of := range []string{"", "rename worker-0.json"} {
			t.Run(how+" "+of, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := &copied{T: t, m: newMemory(), dir: t.TempDir(), seen: map[snowflake.ID]bool{}}
					for i := range 100 {
						f := &faulty{how: how, of: of, at: 1}
						if of == "" {
							f.at = i % 50
						}
						err := c.start(f)
						if of != "" && (how == faults[2] || how == faults[4]) { // other failures are tried again
							require.ErrorIs(t, err, errFault)
						}
						time.Sleep(time.Duration(i) * 10 * ms)
					}
					begun := time.Now()
					require.NoError(t, c.start(new(faulty)))
					assert.LessOrEqual(t, time.Since(begun), 3*span)
					assert.Equal(t, 1, c.workers())
				})
			})
		}
	}
}
