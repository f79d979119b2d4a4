package lease_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// Whatever takes the records away, neither their holder nor a newcomer begins anew;
// and when the records are back, the holder goes on.
func TestWipedDirectory(t *testing.T) {
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
		outage bool // for a client of before: it may come back
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
			dir := filepath.Join(t.TempDir(), "leases")
			away := dir + ".away"
			s := lease.File(dir)
			l, err := lease.Acquire(t.Context(), s, &lease.Options{Layout: snowflake.ClockSeqLayout(), Window: 200 * time.Millisecond})
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
			require.NoError(t, l.Release(t.Context()))
		})
	}
}

// A store without its identity, which something took for an old file, goes on.
func TestIdentityThatWasRemoved(t *testing.T) {
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

// To begin anew, as ErrWiped says: remove both.
func TestDirectoryThatIsToBeginAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "leases")
	mustSave(t, lease.File(dir), fileRecord(1, 1))
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Remove(filepath.Join(filepath.Dir(dir), ".leases.identity")))
	mustHold(t, lease.File(dir), mustSave(t, lease.File(dir), fileRecord(1, 1)))
}
