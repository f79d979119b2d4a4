package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// bubble runs test in a bubble whose time is after the epochs of the layouts.
func bubble(t *testing.T, test func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
		test(t)
	})
}

// acquireUntilTheEnd releases the lease when the test ends, because no goroutine may outlive
// a bubble.
func acquireUntilTheEnd(t *testing.T, s lease.Store, o *lease.Options) (*lease.Lease, error) {
	l, err := lease.Acquire(t.Context(), s, o)
	if err == nil {
		t.Cleanup(func() { _ = l.Release(context.Background()) })
	}
	return l, err
}

// Whatever removes the records, neither their holder nor a newcomer begins a new store. When the records are
// back, the holder issues IDs again.
func TestHolderContinuesWhenWipedDirectoryIsBack(t *testing.T) {
	move := func(t *testing.T, from, to string, patterns ...string) {
		t.Helper()
		require.NoError(t, os.Mkdir(to, 0o755))
		for _, pattern := range patterns {
			paths, err := filepath.Glob(filepath.Join(from, pattern))
			require.NoError(t, err)
			for _, path := range paths {
				require.NoError(t, os.Rename(path, filepath.Join(to, filepath.Base(path))))
			}
		}
	}
	for _, c := range []struct {
		name   string
		wipe   func(t *testing.T, dir, away string)
		outage bool // to a client from before it is an outage: the records may come back
	}{
		{"records", func(t *testing.T, dir, away string) { move(t, dir, away, "worker-*.json") }, false},
		{"records and locks", func(t *testing.T, dir, away string) { move(t, dir, away, "worker-*") }, false},
		{"all files", func(t *testing.T, dir, away string) { move(t, dir, away, "*") }, false},
		{"directory", func(t *testing.T, dir, away string) { require.NoError(t, os.Rename(dir, away)) }, true},
		{"directory, and there is another", func(t *testing.T, dir, away string) {
			require.NoError(t, os.Rename(dir, away))
			require.NoError(t, os.Mkdir(dir, 0o755))
		}, false},
		{"directory, and there is another store", func(t *testing.T, dir, away string) {
			require.NoError(t, os.Rename(dir, away))
			other := filepath.Join(t.TempDir(), "leases")
			mustSave(t, lease.File(other), fileRecord(0, 1))
			require.NoError(t, os.Rename(other, dir))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "leases")
				away := dir + ".away"
				s := lease.File(dir)
				l, err := acquireUntilTheEnd(t, s, &lease.Options{Layout: snowflake.ClockSeqLayout(), Window: time.Second})
				require.NoError(t, err)
				saved := mustSave(t, s, fileRecord(1, 1))

				c.wipe(t, dir, away)
				before := l.Stats().Renewals
				if !c.outage {
					_, err = s.Load(t.Context())
					require.ErrorIs(t, err, lease.ErrWiped)
					for _, version := range []uint64{1, 2} {
						_, err = s.Save(t.Context(), fileRecord(1, version))
						require.ErrorIs(t, err, lease.ErrWiped)
					}
					eventually(t, func() bool { return l.Stats().LastError != nil })
				}
				_, err = lease.File(dir).Load(t.Context())
				require.ErrorIs(t, err, lease.ErrWiped)
				_, err = lease.File(dir).LoadWorker(t.Context(), 1)
				require.ErrorIs(t, err, lease.ErrWiped)
				_, err = lease.File(dir).Save(t.Context(), fileRecord(1, 1))
				require.ErrorIs(t, err, lease.ErrWiped)
				_, err = lease.Acquire(t.Context(), lease.File(dir), &lease.Options{Layout: snowflake.ClockSeqLayout(), First: 5})
				require.ErrorIs(t, err, lease.ErrWiped)
				eventually(t, func() bool { return l.Stats().LastError != nil })
				assert.NoError(t, l.Err())

				if _, err := os.Stat(filepath.Join(away, "identity")); err == nil {
					require.NoError(t, os.RemoveAll(dir))
					require.NoError(t, os.Rename(away, dir))
				} else {
					paths, err := filepath.Glob(filepath.Join(away, "*"))
					require.NoError(t, err)
					for _, path := range paths {
						require.NoError(t, os.Rename(path, filepath.Join(dir, filepath.Base(path))))
					}
				}
				saved.Version++
				mustSave(t, lease.File(dir), saved)
				before = l.Stats().Renewals
				eventually(t, func() bool { return l.Stats().Renewals > before })
				assert.Zero(t, l.Stats().Replacements)
				require.NoError(t, l.Release(t.Context()))
			})
		})
	}
}

// If the identity file is removed, for example as an old file, the store still works.
func TestStoreWorksWithoutItsIdentityFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	saved := mustSave(t, lease.File(dir), fileRecord(1, 1))
	for _, names := range [][]string{{"identity"}, {"../.leases.identity"}, {"identity", "../.leases.identity"}} {
		for _, name := range names {
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
		}
		mustHold(t, lease.File(dir), saved)
		saved.Version++
		saved = mustSave(t, lease.File(dir), saved)
		mustHold(t, lease.File(dir), saved)
		for _, name := range []string{"identity", "../.leases.identity"} {
			require.FileExists(t, filepath.Join(dir, name), names)
		}
	}
	require.NoError(t, os.RemoveAll(dir))
	_, err := lease.File(dir).Load(t.Context())
	require.ErrorIs(t, err, lease.ErrWiped, "it is marked again")
}

// If both the directory and the file beside it are removed, as ErrWiped says, a new store begins.
func TestDirectoryBeginsAnewIfBothAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	mustSave(t, lease.File(dir), fileRecord(1, 1))
	require.NoError(t, os.RemoveAll(dir))
	_, err := lease.File(dir).Load(t.Context())
	require.ErrorContains(t, err, "remove "+filepath.Join(filepath.Dir(dir), ".leases.identity"))
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(dir), ".leases.identity")))
	mustHold(t, lease.File(dir), mustSave(t, lease.File(dir), fileRecord(1, 1)))
}

// If a single record is removed, its worker ID cannot be acquired until it is mended, and a warning says how
// to mend it. Other worker IDs can be acquired.
func TestRemovedRecordBlocksItsWorkerIDOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "leases")
		options := func(owner string, first, count int) *lease.Options {
			return &lease.Options{Layout: snowflake.ClockSeqLayout(), Owner: owner, First: first, Count: count, Window: time.Second}
		}
		acquire := func(o *lease.Options) (*lease.Lease, error) { return acquireUntilTheEnd(t, lease.File(dir), o) }
		a, err := acquire(options("a", 0, 1))
		require.NoError(t, err)
		b, err := acquire(options("b", 1, 1))
		require.NoError(t, err)
		gen, err := snowflake.NewLeased(a, nil)
		require.NoError(t, err)
		id, err := gen.NextID()
		require.NoError(t, err)
		record := filepath.Join(dir, "worker-0.json")
		eventually(t, func() bool { // a renewal that is under way writes it once more
			_ = os.Rename(record, record+".away")
			return errors.Is(a.Stats().LastError, lease.ErrWiped)
		})

		var log bytes.Buffer
		o := options("c", 0, 3)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c, err := acquire(o)
		require.NoError(t, err)
		assert.Equal(t, 2, c.Worker())
		assert.Equal(t, 1, strings.Count(log.String(), "a worker ID is unusable"), log.String())
		assert.Contains(t, log.String(), "a worker ID is unusable: its record is lost, or something else is in its place")
		assert.Contains(t, log.String(), "worker-0.lock says that it was in use; put it back or")

		_, err = acquire(options("d", 0, 1))
		require.ErrorIs(t, err, lease.ErrWiped, "no other in the range")
		log.Reset()
		o.Owner = "d"
		_, err = acquire(o)
		require.ErrorIs(t, err, lease.ErrExhausted, "the others are held")
		assert.Equal(t, 1, strings.Count(log.String(), "a worker ID is unusable"), "once for all loads: %v", log.String())
		_, err = lease.File(dir).Save(t.Context(), fileRecord(0, 1))
		require.ErrorIs(t, err, lease.ErrWiped)
		_, err = lease.Whois(t.Context(), lease.File(dir), id)
		require.ErrorIs(t, err, lease.ErrWiped)

		require.NoError(t, b.Release(t.Context()))
		require.NoError(t, c.Release(t.Context()))
		for _, name := range []string{"worker-1.json", "worker-2.json"} {
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
		}
		_, err = acquire(options("d", 3, 3))
		require.ErrorIs(t, err, lease.ErrWiped, "all are gone")
		require.ErrorContains(t, err, "put them back or")

		require.NoError(t, os.Rename(record+".away", record))
		eventually(t, func() bool { return a.Stats().LastError == nil })
		require.NoError(t, a.Release(t.Context()))
		require.NoError(t, os.Remove(filepath.Join(dir, "worker-1.lock")))
		d, err := acquire(options("d", 1, 2))
		require.NoError(t, err)
		assert.Equal(t, 1, d.Worker(), "mended")
		require.NoError(t, d.Release(t.Context()))
	})
}

// If a holder's record is removed alone, the holder takes another worker ID when its window has ended. If
// the owner keeps its worker ID, it waits for the record instead.
func TestHolderOfARemovedRecordTakesAnotherWorkerID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "leases")
		hold := func(owner string, reuse lease.Reuse) (*lease.Lease, *snowflake.Generator) {
			l, err := acquireUntilTheEnd(t, lease.File(dir), &lease.Options{Owner: owner, Reuse: reuse, Window: time.Second})
			require.NoError(t, err)
			gen, err := snowflake.NewLeased(l, nil)
			require.NoError(t, err)
			return l, gen
		}
		goes, gen := hold("a", lease.ReuseAny)
		keeps, keeper := hold("b", lease.ReuseKeep)
		_, _ = hold("c", lease.ReuseAny)
		before, err := gen.NextID()
		require.NoError(t, err)
		for _, name := range []string{"worker-0.json", "worker-1.json"} {
			record := filepath.Join(dir, name)
			eventually(t, func() bool { // a renewal that is under way writes it once more
				_ = os.Remove(record)
				return errors.Is(goes.Stats().LastError, lease.ErrWiped) && name == "worker-0.json" || errors.Is(keeps.Stats().LastError, lease.ErrWiped)
			})
		}
		eventually(t, func() bool { return goes.Worker() != 0 })
		assert.Equal(t, 3, goes.Worker())
		id, err := gen.NextID()
		require.NoError(t, err)
		assert.Greater(t, id, before)
		eventually(t, func() bool { _, err := keeper.NextID(); return errors.Is(err, lease.ErrWiped) })
		time.Sleep(3 * time.Second)
		assert.Equal(t, 1, keeps.Worker())
	})
}

// If another process begins a directory anew, the old holder has lost its worker ID. It takes another one of
// the new store.
func TestHolderTakesAnotherWorkerIDAfterDirectoryIsBegunAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "leases")
		outside := filepath.Join(filepath.Dir(dir), ".leases.identity")
		options := func(owner string) *lease.Options {
			return &lease.Options{Owner: owner, Window: time.Second}
		}
		s := lease.File(dir)
		var held []*lease.Lease
		var gens []*snowflake.Generator
		for _, owner := range []string{"a", "b"} { // both use one Store
			l, err := acquireUntilTheEnd(t, s, options(owner))
			require.NoError(t, err)
			gen, err := snowflake.NewLeased(l, nil)
			require.NoError(t, err)
			held, gens = append(held, l), append(gens, gen)
		}
		seen := map[snowflake.ID]bool{}
		issue := func(gen *snowflake.Generator) error {
			id, err := gen.NextID()
			if err == nil {
				require.False(t, seen[id], "an ID was issued twice")
				seen[id] = true
			}
			return err
		}
		for range 100 {
			require.NoError(t, issue(gens[0]))
			require.NoError(t, issue(gens[1]))
		}
		require.NoError(t, os.Rename(dir, dir+".old")) // renewals may be under way
		require.NoError(t, os.Remove(outside))
		for _, gen := range gens {
			eventually(t, func() bool { return issue(gen) != nil }) // until the windows have ended
		}
		newcomer, err := acquireUntilTheEnd(t, lease.File(dir), options("c"))
		require.NoError(t, err)
		assert.Equal(t, 0, newcomer.Worker())
		gen, err := snowflake.NewLeased(newcomer, nil)
		require.NoError(t, err)
		for _, l := range held {
			eventually(t, func() bool { return l.Stats().Replacements == 1 })
			require.NoError(t, l.Err())
		}
		gens = append(gens, gen)
		assert.NotEqual(t, held[0].Worker(), held[1].Worker())
		assert.Positive(t, held[0].Worker()*held[1].Worker())
		for range 1000 {
			for _, gen := range gens {
				require.NoError(t, issue(gen))
			}
		}
		for _, l := range append(held, newcomer) {
			require.NoError(t, l.Release(t.Context()))
		}
	})
}

// If a record is removed alone, Acquire fails, although there is a local copy. When the record is back, the
// owner gets its worker ID again.
func TestLocalCopyIsRefusedWhileItsRecordIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "leases")
		mustSave(t, lease.File(dir), fileRecord(1, 1))
		record := filepath.Join(dir, "worker-0.json")
		o := &lease.Options{
			Layout: snowflake.ClockSeqLayout(), Owner: "a", Count: 1, Window: time.Second,
			Reuse: lease.ReuseKeep, LocalCopy: filepath.Join(t.TempDir(), "copy"),
		}
		for range 2 {
			l, err := lease.Acquire(t.Context(), lease.File(dir), o)
			require.NoError(t, err)
			assert.Equal(t, 0, l.Worker())
			require.NoError(t, l.Release(t.Context()))
			require.NoError(t, os.Rename(record, record+".away"))
			_, err = lease.Acquire(t.Context(), lease.File(dir), o)
			require.Error(t, err)
			require.NoError(t, os.Rename(record+".away", record))
		}
	})
}

// Another process makes the directory and saves its first record, before any one of the
// requests that a client makes to the operating system.
func TestClientsThatBeginAtOnceDoNotTakeTheDirectoryForWiped(t *testing.T) {
	for name, use := range map[string]func(context.Context, lease.Store) error{
		"Load":       func(ctx context.Context, s lease.Store) error { _, err := s.Load(ctx); return err },
		"LoadWorker": func(ctx context.Context, s lease.Store) error { _, err := s.LoadWorker(ctx, 2); return err },
		"Save":       func(ctx context.Context, s lease.Store) error { _, err := s.Save(ctx, fileRecord(2, 1)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			for at, made := 0, true; made; at++ {
				made = false
				bubble(t, func(t *testing.T) {
					dir, requests := filepath.Join(t.TempDir(), "leases"), 0
					s := lease.HookedFile(dir, func(string, string) {
						if requests++; requests == at+1 {
							made = true
							ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the client may have locked what the save needs
							defer cancel()
							_, _ = lease.File(dir).Save(ctx, fileRecord(1, 1))
						}
					})
					require.NoErrorf(t, use(t.Context(), s), "the directory was made before request %d", at+1)
				})
			}
		})
	}
}
